"""Launch kernels by name: every argument of a kernel gets the array that has its name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import warp as wp

from sim.arrays.interrupts import check

GRADIENT = "_bar"

# Takes the arguments of a kernel out of those that are named and the sources after them.
Plan = Callable[..., list[Any]]
_plans: dict[tuple[Any, ...], Plan] = {}


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
        sources: where arguments are looked up, see :func:`bind`.
        device: where to launch it.
        record_tape: whether an active tape records it.
        named: arguments given one by one, see :func:`bind`.

    Raises:
        TypeError: as :func:`bind`.
    """
    check()  # a launch may first compile its module, which takes seconds
    wp.launch(kernel, dim, _arguments(kernel, (named, *sources)), device=device, record_tape=record_tape)


def record(kernel: wp.Kernel, dim: int | tuple[int, ...], *sources: object, device: wp.DeviceLike, **named: Any) -> Any:
    """A launch that can be repeated, as a :class:`wp.Launch`; it isn't carried out. Arguments as for :func:`launch`."""
    return wp.launch(kernel, dim, _arguments(kernel, (named, *sources)), device=device, record_cmd=True)


def bind(kernel: wp.Kernel, *sources: object, **named: Any) -> list[Any]:
    """The arguments of a kernel, in its order.

    An argument ``x`` is ``named["x"]``, or the attribute or entry ``x`` of the first source that has one. Where nothing
    is named ``x_bar``, that argument is the gradient of ``x``; it is None where ``x`` has none, and the kernel sees an
    array without rows. A name means the same in all sources: where it was found is remembered for each kernel.

    Args:
        kernel: the kernel.
        sources: objects with arrays as attributes, or mappings from names to arrays.
        named: arguments given one by one.

    Raises:
        TypeError: for an argument that nothing has the name of, and for a name that the kernel doesn't take.
    """
    return _arguments(kernel, (named, *sources))


def _arguments(kernel: wp.Kernel, everything: tuple[Any, ...]) -> list[Any]:
    """As :func:`bind`, of what is named and the sources after it."""
    key = (kernel, *everything[0], *map(type, everything))
    plan = _plans.get(key)
    if plan is not None:
        try:
            return plan(*everything)
        except (AttributeError, KeyError):
            pass  # another source of the same type, which lacks what that one had
    plan = _plans[key] = _make_plan(kernel, everything)
    return plan(*everything)


def _make_plan(kernel: wp.Kernel, everything: Sequence[Any]) -> Plan:
    arguments = [argument.label for argument in kernel.adj.args]
    unknown = [name for name in everything[0] if name not in arguments]
    if unknown:
        raise TypeError(f"kernel '{kernel.key}' has no argument {_quoted(unknown)}; it takes {_quoted(arguments)}")
    found = {name: _find(name, everything) for name in arguments}
    missing = [name for name, expression in found.items() if expression is None]
    if missing:
        places = ", ".join(type(source).__name__ for source in everything[1:]) or "no source"
        raise TypeError(
            f"kernel '{kernel.key}': nothing is named {_quoted(missing)} in {places} or among the arguments"
        )
    # As code: one look-up after the other takes several times as long in a loop.
    sources = ", ".join(f"s{number}" for number in range(len(everything)))
    return eval(f"lambda {sources}: [{', '.join(map(str, found.values()))}]")


def _find(name: str, everything: Sequence[Any]) -> str | None:
    """The expression of an argument; source number n goes by the name ``sn``."""
    for number, source in enumerate(everything):
        if isinstance(source, Mapping):
            if name in source:
                return f"s{number}[{name!r}]"
        elif hasattr(source, name):
            return f"s{number}.{name}"
    if name.endswith(GRADIENT):
        expression = _find(name.removesuffix(GRADIENT), everything)
        if expression is not None:
            return f"getattr({expression}, 'grad', None)"
    return None


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
