"""Kernel launches by name: every argument of a kernel gets the array of the same name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import warp as wp

from sim.arrays.critical_sections import check
from sim.arrays.kernels import block_threads, load_modules, warp_runtime
from warp_kernels.rollout.replay import replay_kernels

GRADIENT = "_bar"
# Expression for an attribute of a source that is a class.
ABSENT = "absent"

# Function that selects the arguments of a kernel from those named and from the sources.
Plan = Callable[..., list[Any]]
_plans: dict[tuple[Any, ...], Plan] = {}
# Kernels whose module has been loaded since they were made, each with the name of the device.
_loaded: set[tuple[wp.Kernel, Any]] = set()
# Kernels launched while kernels are only collected, in order.
_collected: dict[wp.Kernel, None] | None = None
# Whether launches are recorded while kernels are collected.
_recording = True
# Launches made while launches are listed, in order.
_listed: list[wp.Launch] | None = None
# Function that replaces arguments of launches, see :func:`replaced_arguments`.
_replace: Callable[[Any], Any] | None = None


def active_tape() -> wp.Tape | None:
    """Return the tape that is recording."""
    return warp_runtime().tape


class Twin:
    """Array of single worlds and array of lane groups. A launch takes the one whose type its kernel expects.

    Attributes:
        worlds: [count, world].
        groups: [count, group].
    """

    def __init__(self, worlds: wp.array, groups: wp.array):
        self.worlds, self.groups = worlds, groups


class NotRecorded:
    """Placeholder of a recorded launch while kernels are only collected."""

    def launch(self) -> None:
        """Do nothing."""


def launch(
    kernel: wp.Kernel,
    dim: int | tuple[int, ...],
    *sources: object,
    device: wp.DeviceLike,
    record_tape: bool = True,
    **named: Any,
) -> None:
    """Launch a kernel with the arrays that have the names of its arguments.

    Args:
        kernel: the kernel.
        dim: number of threads, one number for each dimension.
        sources: objects that have the other arguments, see :func:`bind`.
        device: device of the launch.
        record_tape: whether an active tape records it.
        named: arguments given explicitly, see :func:`bind`.

    Raises:
        TypeError: as :func:`bind`.
    """
    if _collected is not None:
        _arguments(kernel, (named, *sources))  # missing names fail before anything is compiled
        _collected[kernel] = None
        return
    check()  # a launch may compile its module, which takes seconds
    if (kernel, getattr(device, "alias", device)) not in _loaded:
        load_kernels([kernel], device)
    given, block = _arguments(kernel, (named, *sources)), block_threads(device)
    if _replace is not None:
        given = [_replace(value) for value in given]
    if _listed is not None:
        _list(kernel, dim, inputs=given, device=device, block_dim=block)
        tape = active_tape() if record_tape else None
        if tape is not None:
            tape.record_launch(kernel, dim, 0, given, [], device, block)
        return
    wp.launch(kernel, dim, given, device=device, record_tape=record_tape, block_dim=block)


def clear(array: wp.array) -> None:
    """Set an array to zero, on a CPU by a launch, since launches are listed there.

    Args:
        array: a contiguous array.
    """
    device = wp.get_device(array.device)
    if _replace is not None:
        array = _replace(array)
    if not device.is_cpu:
        array.zero_()
    elif array.size:
        size = array.size * wp.types.type_size_in_bytes(array.dtype)
        kernel = replay_kernels().clear_memory
        launch(kernel, 1, device=device, record_tape=False, address=array.ptr, size=size)


def run_backward(tape: wp.Tape) -> None:
    """Apply the adjoints of a tape, as ``tape.backward()`` does, which can't be listed."""
    if _listed is None:
        tape.backward()
        return
    for recorded in reversed(tape.launches):
        if callable(recorded):
            recorded()
            continue
        kernel, dim, _, inputs, outputs, device, block = recorded[:7]
        sides = {"inputs": inputs, "outputs": outputs}
        sides |= {f"adj_{side}": [tape.get_adjoint(each) for each in values] for side, values in sides.items()}
        _list(kernel, dim, **sides, device=device, adjoint=True, block_dim=block)


def _list(kernel: wp.Kernel, dim: int | tuple[int, ...], **options: Any) -> None:
    assert _listed is not None
    recorded = wp.launch(kernel, dim, **options, record_tape=False, record_cmd=True)
    if recorded is not None:  # None without threads
        _listed.append(recorded)


@contextmanager
def replaced_arguments(replace: Callable[[Any], Any]) -> Iterator[None]:
    """Launch kernels with other arguments in a ``with`` block.

    Args:
        replace: returns the argument to take, for each argument.
    """
    global _replace
    before, _replace = _replace, replace
    try:
        yield
    finally:
        _replace = before


@contextmanager
def listed_launches() -> Iterator[list[wp.Launch]]:
    """List the CPU launches of :func:`launch`, :func:`clear` and :func:`run_backward` instead of carrying them out."""
    global _listed
    before, _listed = _listed, []
    try:
        yield _listed
    finally:
        _listed = before


def threads_of_world(device: wp.Device, most: int) -> int:
    """Return the number of threads that share the links or constraints of a world: one on a CPU."""
    return 1 if device.is_cpu else most


def loops_over_contacts(device: wp.Device) -> bool:
    """Return whether one thread loops over all contacts of a world, as on a CPU; otherwise each contact slot has one.

    See :func:`warp_kernels.variants.looped_over_slots`.
    """
    return bool(device.is_cpu)


def load_launched(work: Callable[[], object], device: wp.DeviceLike) -> None:
    """Load the kernels that a function will launch, all at once, so that those not cached are compiled together.

    The function is called, but its launches aren't carried out. Launches recorded by :func:`record` are, because they
    are kept for later.
    """
    with collecting_kernels() as kernels:
        work()
    load_kernels(kernels, device)


@contextmanager
def collecting_kernels(recording: bool = True) -> Iterator[dict[wp.Kernel, None]]:
    """Collect kernels in a context instead of launching them.

    Args:
        recording: whether :func:`record` records, and loads the kernel at once, or collects like the others.
    """
    global _collected, _recording
    before, _collected, _recording = (_collected, _recording), {}, recording
    try:
        yield _collected
    finally:
        _collected, _recording = before


def is_collecting() -> bool:
    """Return whether kernels are collected instead of launched."""
    return _collected is not None


def load_kernels(kernels: Iterable[wp.Kernel], device: wp.DeviceLike) -> None:
    """Load the modules of kernels, unless that was done. Raises as :func:`sim.arrays.kernels.load_modules`."""
    alias = getattr(device, "alias", device)
    new = [kernel for kernel in kernels if (kernel, alias) not in _loaded]
    modules = {kernel.module.name: kernel.module for kernel in new}
    load_modules(modules.values(), wp.get_device(device))
    _loaded.update((kernel, alias) for kernel in new)


def record(kernel: wp.Kernel, dim: int | tuple[int, ...], *sources: object, device: wp.DeviceLike, **named: Any) -> Any:
    """Return a launch that can be repeated, a :class:`wp.Launch`, without carrying it out. Arguments as for
    :func:`launch`.
    """
    if _collected is not None and not _recording:
        _collected[kernel] = None
        return NotRecorded()
    load_kernels([kernel], device)
    given, block = _arguments(kernel, (named, *sources)), block_threads(device)
    return wp.launch(kernel, dim, given, device=device, record_cmd=True, block_dim=block)


def bind(kernel: wp.Kernel, *sources: object, **named: Any) -> list[Any]:
    """Return the arguments of a kernel, in its order.

    An argument ``x`` is ``named["x"]``, or the attribute or entry ``x`` of the first source that has one. If nothing is
    named ``x_bar``, that argument is the gradient of ``x``, or None if ``x`` has none, and the kernel gets an array
    without rows. A source that is a class represents something absent: the kernel gets empty arrays of the annotated
    types. A name must mean the same in all sources, because its source is cached for each kernel.

    Args:
        kernel: the kernel.
        sources: objects with arrays as attributes, or mappings from names to arrays.
        named: arguments given explicitly.

    Raises:
        TypeError: for an argument without a source, and for a name that the kernel doesn't take.
    """
    return _arguments(kernel, (named, *sources))


def _arguments(kernel: wp.Kernel, everything: tuple[Any, ...]) -> list[Any]:
    """Return arguments as :func:`bind`, from the named arguments followed by the sources."""
    key = (kernel, *everything[0], *map(type, everything))
    plan = _plans.get(key)
    if plan is not None:
        try:
            return plan(*everything)
        except (AttributeError, KeyError):
            pass  # the source lacks an attribute that another of its type had
    plan = _plans[key] = _make_plan(kernel, everything)
    return plan(*everything)


def _make_plan(kernel: wp.Kernel, everything: Sequence[Any]) -> Plan:
    arguments = [argument.label for argument in kernel.adj.args]
    unknown = [name for name in everything[0] if name not in arguments]
    if unknown:
        raise TypeError(f"kernel '{kernel.key}' has no argument {_quoted(unknown)}; it takes {_quoted(arguments)}")
    types = [getattr(argument.type, "dtype", None) for argument in kernel.adj.args]
    found = {name: _find(name, everything, dtype) for name, dtype in zip(arguments, types, strict=True)}
    absent = {argument.label: argument.type for argument in kernel.adj.args if found[argument.label] == ABSENT}
    structs = {name: kind() for name, kind in absent.items() if not isinstance(kind, wp.array)}
    for name in absent:
        found[name] = f"structs[{name!r}]" if name in structs else "None"
    missing = [name for name, expression in found.items() if expression is None]
    if missing:
        searched = ", ".join(type(source).__name__ for source in everything[1:]) or "no source"
        raise TypeError(f"kernel '{kernel.key}': no argument {_quoted(missing)} in {searched} or among the given ones")
    # Compiled as code, which is several times faster than lookups in a loop.
    sources = ", ".join(f"s{number}" for number in range(len(everything)))
    return eval(f"lambda {sources}: [{', '.join(map(str, found.values()))}]", {"structs": structs})


def _find(name: str, everything: Sequence[Any], dtype: Any) -> str | None:
    """Return the expression of an argument; source number n is ``sn``."""
    for number, source in enumerate(everything):
        if isinstance(source, Mapping):
            if name in source:
                return f"s{number}[{name!r}]"
        elif isinstance(source, type):
            if name in source.__annotations__:
                return ABSENT
        elif hasattr(source, name):
            value = getattr(source, name)
            if isinstance(value, Twin):
                return f"s{number}.{name}.{'worlds' if value.worlds.dtype == dtype else 'groups'}"
            return f"s{number}.{name}"
    if name.endswith(GRADIENT):
        expression = _find(name.removesuffix(GRADIENT), everything, dtype)
        if expression == ABSENT:
            return ABSENT
        if expression is not None:
            return f"getattr({expression}, 'grad', None)"
    return None


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
