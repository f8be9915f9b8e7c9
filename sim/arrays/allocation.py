"""Allocation of arrays: of features that a model may lack, structs of arrays, and copies in double precision.

A feature that a model lacks has arrays without rows, which share one array that takes no memory. A struct keeps the
address of each array, and of its gradient, from the time when it was filled.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from sim.arrays.launch import launch
from sim.arrays.scratch import scratch_array
from warp_kernels.precision import precision_kernels


def zeros(shape: tuple[int, ...], dtype: Any, device: wp.DeviceLike) -> wp.array:
    """Return zeros; if a dimension is zero, a shared array, which must not get a gradient.

    Args:
        shape: shape of the array.
        dtype: type of an entry.
        device: device of the array.
    """
    return (
        wp.zeros(shape, dtype=dtype, device=device) if all(shape) else _empty(shape, dtype, wp.get_device(device).alias)
    )


def integer_array(values: npt.ArrayLike, device: wp.DeviceLike) -> wp.array:
    """Return an array of 32-bit integers.

    Args:
        values: the numbers.
        device: device of the array.
    """
    numbers = np.asarray(values, dtype=np.int32)
    return wp.array(numbers, dtype=wp.int32, device=device) if numbers.size else zeros(numbers.shape, wp.int32, device)


@functools.cache
def _empty(shape: tuple[int, ...], dtype: Any, device: str) -> wp.array:
    return wp.zeros(shape, dtype=dtype, device=device)


def fill(struct: Any, **fields: Any) -> Any:
    """Return a struct of arrays for a kernel."""
    filled = struct()
    for name, value in fields.items():
        setattr(filled, name, value)
    return filled


def gradients_of(filled: Any) -> Any:
    """Return a struct with the gradients of the arrays of another; arrays without rows have none."""
    struct = filled._cls
    return fill(struct, **{name: getattr(filled, name).grad for name in struct.vars})


def scalars(array: wp.array) -> wp.array:
    """Return the scalars of a contiguous array of scalars, vectors or matrices in one dimension, in the same memory."""
    # Made by Warp from the array, so that Warp sees that they share memory, which captured graphs depend on.
    scalar = getattr(array.dtype, "_wp_scalar_type_", None)
    if scalar is None:
        return array.flatten()
    size = array.size * wp.types.type_size(array.dtype)
    return wp.array(ptr=array.ptr, dtype=scalar, shape=(size,), device=array.device, copy=False)


def in_double(array: wp.array) -> wp.array:
    """Return the values of an array of scalars in a float64 scratch array; the array itself if it is float64."""
    if array.dtype == wp.float64:
        return array
    wide = scratch_array(array.shape, wp.float64, array.device)
    source = array.contiguous()
    kernel = precision_kernels().widen
    launch(kernel, wide.size, device=array.device, source=scalars(source), target=scalars(wide))
    return wide


@contextmanager
def rounded(array: wp.array) -> Iterator[wp.array]:
    """Yield a float64 array to fill, which is rounded into a contiguous ``array`` at the end; a float64 array
    itself.
    """
    if array.dtype == wp.float64:
        yield array
        return
    wide = scratch_array(array.shape, wp.float64, array.device)
    yield wide
    kernel = precision_kernels().narrow
    launch(kernel, wide.size, device=array.device, source=scalars(wide), target=scalars(array))
