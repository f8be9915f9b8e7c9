"""Functions of ``[num_worlds, ...]`` that take single states and whole trajectories too."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import ParamSpec

import warp as wp

from sim.arrays.device_model import DeviceModel
from sim.dynamics.differentiable_op import Array
from sim.errors import ModelError
from sim.model.checks import as_numbers, require_type
from sim.model.model import Model

P = ParamSpec("P")


def any_leading_shape(function: Callable[P, wp.array]) -> Callable[P, wp.array]:
    """Let the arrays of a function have any leading shape in place of num_worlds, none included, and its result too.

    A number of a single state is an array of one entry, since Warp has none without dimensions.
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


def _shape(name: str, value: Array) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else as_numbers(name, value).shape


def _flat(name: str, value: Array, leading: tuple[int, ...]) -> Array:
    """An array with one dimension in place of the leading ones."""
    array = value.contiguous() if isinstance(value, wp.array) else as_numbers(name, value)
    first, rest = tuple(array.shape[: len(leading)]), array.shape[len(leading) :]
    if first != leading:
        raise ModelError(f"{name} has shape {tuple(array.shape)}; it must begin with {leading}, as q does")
    return array.reshape((math.prod(leading), *rest))
