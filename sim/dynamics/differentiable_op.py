"""Shared by the functions of :mod:`sim.dynamics`: arguments, scratch arrays and the tape.

An operation launches kernels into scratch arrays and returns a new array. While a :class:`wp.Tape` records, it records
one function, which repeats the kernels on a separate tape and adds to the gradients of the inputs. Therefore only
inputs and results are kept between forward and backward pass, and a second backward pass finds no stale scratch.

On a CPU some hundred worlds are computed at a time, so that their scratch, which is reused, stays in the processor's
cache.
"""

import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.critical_sections import serialized
from sim.arrays.device_model import DeviceModel, find_device
from sim.arrays.kernels import block_threads, warp_runtime
from sim.arrays.launch import active_tape, bind, is_collecting, launch, load_launched
from sim.arrays.scratch import scratch_array, scratch_arrays
from sim.dynamics.arguments import require_coordinates
from sim.errors import ModelError
from sim.model.checks import as_numbers, require_type
from sim.model.model import Model

Arrays = TypeVar("Arrays")


class KeptArrays(Generic[Arrays]):
    """Cache of arrays for the latest keys, at most ``most`` of them."""

    def __init__(self, most: int):
        self._most = most
        self._kept: dict[Hashable, tuple[Model, Arrays]] = {}

    def get(self, m: DeviceModel, question: Hashable, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a model on a device for a key, made if not cached."""
        key = (id(m.model), question, str(m.device), m.model.dtype)
        if key not in self._kept:
            # The entry keeps the model alive, so that its id isn't reused.
            self._kept[key] = m.model, make()
            if len(self._kept) > self._most:
                self._kept.pop(next(iter(self._kept)))
        return self._kept[key][1]


Array = wp.array | npt.ArrayLike
DYNAMICS_PARAMETERS = (
    "joint_placement", "mass", "com", "inertia", "damping", "armature", "stiffness", "rest_position", "friction_loss",
    "gravity",
)  # fmt: skip
CACHED_MODELS = 8
WORLDS_AT_A_TIME = 512
# Minimum number of worlds for lane groups. Below, single worlds take no more time, and compile faster.
WORTH_LANES = 16
# Bytes of the parameters, and arrays for many and for few worlds.
_cache: dict[tuple[int, str], tuple[list[bytes], DeviceModel, DeviceModel]] = {}
_loaded: set[tuple[CodeType, Any, int, str]] = set()  # operations whose kernels have been loaded, by their code


def dynamics_parameters(model: Model) -> tuple[str, ...]:
    """Return the parameters on which kinematics and dynamics of a model depend."""
    return (*DYNAMICS_PARAMETERS, "gravity_compensation") if model.compensated else DYNAMICS_PARAMETERS


@serialized
def on_device(model: Model | DeviceModel, *arrays: object, worth_lanes: int = WORTH_LANES) -> DeviceModel:
    """Return the arrays of a model on the device of the first Warp array, or on Warp's current device.

    Args:
        model: the model; a DeviceModel is returned unchanged, and works on lane groups of any number of worlds.
        arrays: arguments ``[num_worlds, ...]`` of a function.
        worth_lanes: minimum number of worlds for lane groups.
    """
    if isinstance(model, DeviceModel):
        return model
    require_type("model", model, Model, "a sim.Model")
    device = next((array.device for array in arrays if isinstance(array, wp.array)), None) or find_device(None)
    key = (id(model), str(device))
    # Entries of a model's parameters may be changed between two calls.
    numbers = [value.tobytes() for value in model.parameters.values()]
    if key not in _cache or _cache[key][0] != numbers:
        # The entry keeps the model alive, so that its id isn't reused.
        many = DeviceModel(model, device)
        _cache[key] = numbers, many, many.with_lanes(1)
        if len(_cache) > CACHED_MODELS:
            _cache.pop(next(iter(_cache)))
    _, many, few = _cache[key]
    worlds = next(iter(_shape("q", arrays[0])), 0)
    return many if worlds >= worth_lanes else few


@serialized
def batch(model: DeviceModel, name: str, value: Array, shape: tuple[int, ...], worlds: int | None = None) -> wp.array:
    """Return an argument ``[num_worlds, *shape]`` as a Warp array in the model's dtype on its device.

    Raises:
        ModelError: for another shape, dtype or device, or another number of worlds than the first argument or the
            parameters have; for values that aren't real numbers, and a tensor whose gradient would be lost. Coordinates
            from NumPy or a list must be finite, without zero quaternions.
    """
    given = None
    if not isinstance(value, wp.array):
        given = as_numbers(name, value)
        value = wp.array(given.astype(model.model.dtype), dtype=model.types.scalar, device=model.device)
    if value.ndim != len(shape) + 1 or value.shape[1:] != shape or (worlds is not None and value.shape[0] != worlds):
        first = "num_worlds" if worlds is None else str(worlds)
        raise ModelError(f"{name} has shape {value.shape}; expected ({', '.join([first, *map(str, shape)])})")
    if name == "q" and given is not None:
        require_coordinates(model.model, "argument", given[None])
    if value.dtype != model.types.scalar or value.device != model.device:
        raise ModelError(
            f"{name} is {value.dtype.__name__} on {value.device}; the model is {model.model.dtype} on {model.device}"
        )
    per_world = [key for key, array in model.parameters.items() if array.shape[0] not in (1, value.shape[0])]
    if per_world:
        raise ModelError(f"{name} has {value.shape[0]} worlds, but parameter '{per_world[0]}' has {model.num_worlds}")
    return value


@contextmanager
def paused_tape() -> Iterator[None]:
    """Pause the tape: launches in this context aren't recorded."""
    runtime = warp_runtime()
    tape, runtime.tape = runtime.tape, None
    try:
        yield
    finally:
        runtime.tape = tape


# Work of an operation on some worlds: arrays of the model for them, the result, and the inputs in order.
Work = Callable[..., None]


@dataclass(frozen=True, eq=False)
class DifferentiableOp:
    """Computation of a function, independent of its arguments and of the source of the gradient.

    Attributes:
        shape: shape of the result for one world.
        forward: ``forward(model, result, *inputs)`` writes the result into an array of zeros.
        backward: ``backward(model, result, *inputs)`` adds to the gradients of the inputs and parameters.
        parameters: names of the parameters that it depends on; it reads no others.
        needs_result: whether ``backward`` reads the result and not just its gradient.
        in_place: whether both take arrays by reference, :class:`sim.arrays.array_refs.ArrayRef`, and only the adjoint
            of kinematics adds to gradients of inputs. Such a result, and such a gradient that is marked as new, is
            overwritten entirely.
    """

    shape: tuple[int, ...]
    forward: Work
    backward: Work
    parameters: tuple[str, ...] = ()
    needs_result: bool = False
    in_place: bool = False


@serialized
def run(model: DeviceModel, operation: DifferentiableOp, inputs: Sequence[wp.array | None]) -> wp.array:
    """Return the result of an operation, and record its gradient on the active tape.

    Args:
        model: arrays of the model.
        operation: computation.
        inputs: arrays ``[num_worlds, ...]`` that it depends on; None for an absent one.
    """
    tape = active_tape()
    given = [array for array in inputs if array is not None]
    parameters = (model.parameters[name] for name in operation.parameters)
    leaves = [array for array in (*given, *parameters) if array.requires_grad]
    taped = tape is not None and bool(leaves)
    shape = (given[0].shape[0], *operation.shape)
    result = wp.zeros(shape, dtype=model.types.scalar, device=model.device, requires_grad=taped)
    with paused_tape():
        run_in_chunks(operation.forward, model, result, inputs)
    if tape is not None and taped:
        tape.record_func(lambda: run_in_chunks(operation.backward, model, result, inputs), [*leaves, result])
    return result


def of_position(operation: Callable[[Model], DifferentiableOp], model: Model | DeviceModel, q: Array) -> wp.array:
    """Return the result of an operation that depends on masses, for a user's argument q."""
    m = on_device(model, q)
    m.require_masses()
    return run(m, operation(m.model), [batch(m, "q", q, (m.model.nq,))])


def of_velocity(
    operation: Callable[[Model], DifferentiableOp], model: Model | DeviceModel, q: Array, qd: Array
) -> wp.array:
    """Return the result of an operation as :func:`of_position`, for q and qd."""
    m = on_device(model, q, qd)
    m.require_masses()
    q = batch(m, "q", q, (m.model.nq,))
    return run(m, operation(m.model), [q, batch(m, "qd", qd, (m.model.nv,), q.shape[0])])


@serialized
def run_in_chunks(
    work: Work,
    model: DeviceModel,
    result: wp.array,
    inputs: Sequence[wp.array | None],
    at_a_time: int = WORLDS_AT_A_TIME,
) -> None:
    """Run the work of an operation, on a CPU for some hundred worlds at a time."""
    worlds = result.shape[0]
    size = at_a_time if model.device.is_cpu else worlds
    _load_kernels(work, model, result, inputs)
    if worlds <= size:
        with scratch_arrays():
            work(model, result, *inputs)
        return
    for first in range(0, worlds, size):
        part = slice(first, min(first + size, worlds))
        with scratch_arrays():
            work(model.part(part), result[part], *(None if array is None else array[part] for array in inputs))


def _load_kernels(work: Work, model: DeviceModel, result: wp.array, inputs: Sequence[wp.array | None]) -> None:
    """Load all kernels of an operation together, the first time that it runs."""
    key = (work.__code__, model.types.scalar, model.lanes, model.device.alias)
    if key not in _loaded and not is_collecting():
        with scratch_arrays():
            load_launched(lambda: work(model, result, *inputs), model.device)
        _loaded.add(key)


def taped_backward(forward: Work) -> Work:
    """Return the backward function of an operation whose kernels all have an adjoint: it repeats them on a tape."""

    def backward(model: DeviceModel, result: wp.array, *inputs: wp.array | None) -> None:
        again = scratch_array(result.shape, result.dtype, result.device, gradient=True)
        again.zero_()
        wp.copy(again.grad, result.grad)
        with wp.Tape() as tape:
            forward(model, again, *inputs)
        tape.backward()

    return backward


def launch_last(
    kernel: wp.Kernel, dim: int | tuple[int, ...], *sources: object, device: wp.DeviceLike, **named: Any
) -> None:
    """Launch the kernel that writes the result of an operation; while a tape records, only record it.

    Gradients depend on the results of the kernels before it, not on its own. Arguments as for
    :func:`sim.arrays.launch.launch`.
    """
    tape = active_tape()
    if tape is None or is_collecting():
        launch(kernel, dim, *sources, device=device, **named)
    else:
        tape.record_launch(kernel, dim, 0, bind(kernel, *sources, **named), (), device, block_threads(device))


def detached(array: wp.array) -> wp.array:
    """Return an array over the same memory without the gradient; the caller keeps ``array`` alive."""
    return wp.array(
        ptr=array.ptr, dtype=array.dtype, shape=array.shape, strides=array.strides, device=array.device, copy=False
    )


P = ParamSpec("P")


def any_leading_shape(function: Callable[P, wp.array]) -> Callable[P, wp.array]:
    """Let the arrays and the result of a function have any leading shape instead of num_worlds, including none.

    A scalar result of a single state is an array of one entry, since Warp has no arrays without dimensions.
    """
    signature = inspect.signature(function)
    arrays = [each.name for each in signature.parameters.values() if each.annotation in (Array, Array | None)]

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> wp.array:
        given = signature.bind(*args, **kwargs).arguments
        require_type("model", given["model"], (Model, DeviceModel), "a sim.Model")
        leading = _shape(arrays[0], given[arrays[0]])[:-1]
        if len(leading) == 1:
            return function(*args, **kwargs)
        given |= {name: _flat(name, given[name], leading) for name in arrays if given.get(name) is not None}
        result = function(**given)  # type: ignore[call-arg]
        return result.reshape((*leading, *result.shape[1:]) or (1,))

    return wrapper


def _shape(name: str, value: object) -> tuple[int, ...]:
    # Tensors aren't copied to the host for their shape alone; what they hold is checked later.
    if isinstance(value, wp.array | np.ndarray) or getattr(value, "is_nested", None) is False:
        return tuple(value.shape)  # type: ignore[attr-defined]
    return as_numbers(name, value).shape


def _flat(name: str, value: Array, leading: tuple[int, ...]) -> Array:
    """Return an array with one dimension instead of the leading ones."""
    array = value.contiguous() if isinstance(value, wp.array) else as_numbers(name, value)
    first, rest = tuple(array.shape[: len(leading)]), array.shape[len(leading) :]
    if first != leading:
        raise ModelError(f"{name} has shape {tuple(array.shape)}; it must begin with {leading}, as q does")
    return array.reshape((math.prod(leading), *rest))
