"""Single precision on the outside, double within: arrays of float32 as float64 and back."""

from collections.abc import Iterator
from contextlib import contextmanager

import warp as wp

from sim.arrays.launch import launch
from sim.arrays.scratch import scratch_array
from warp_kernels.precision import precision_kernels


def scalars(array: wp.array) -> wp.array:
    """The numbers of a contiguous array of scalars, vectors or matrices in one dimension, the same memory."""
    # Warp has to see that it is the same memory: a graph that has captured some rows may capture all of them later.
    scalar = getattr(array.dtype, "_wp_scalar_type_", None)
    if scalar is None:
        return array.flatten()
    size = array.size * wp.types.type_size(array.dtype)
    return wp.array(ptr=array.ptr, dtype=scalar, shape=(size,), device=array.device, copy=False)


def in_double(array: wp.array) -> wp.array:
    """The values of an array of scalars in float64, in a scratch array; of float64 already, the array itself."""
    if array.dtype == wp.float64:
        return array
    wide = scratch_array(array.shape, wp.float64, array.device)
    source = array.contiguous()
    kernel = precision_kernels().widen
    launch(kernel, wide.size, device=array.device, source=scalars(source), target=scalars(wide))
    return wide


@contextmanager
def rounded(array: wp.array) -> Iterator[wp.array]:
    """A float64 array to be filled, rounded into a contiguous ``array`` at the end; of float64 already, that itself."""
    if array.dtype == wp.float64:
        yield array
        return
    wide = scratch_array(array.shape, wp.float64, array.device)
    yield wide
    kernel = precision_kernels().narrow
    launch(kernel, wide.size, device=array.device, source=scalars(wide), target=scalars(array))
