"""Small operations on the arrays of a trajectory."""

import warp as wp

from sim.arrays.host_copies import copy_rows
from sim.arrays.launch import launch
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.trajectory import trajectory_kernels


def add_to(total: wp.array, value: wp.array) -> None:
    """total += value for contiguous arrays of one shape."""
    kernel = checkpoint_kernels(total.dtype).accumulate
    arrays = {"value": value.flatten(), "total": total.flatten()}
    launch(kernel, total.size, arrays, device=total.device, record_tape=False)


def clear_worlds(left_out: wp.array, *gradients: wp.array) -> None:
    """Set gradients [num_worlds, ...] of the worlds that are left out to zero."""
    assert left_out.device is not None
    if left_out.device.is_cpu and (left_out.numpy() < 0).all():  # mostly; to ask on CUDA would wait for the device
        return
    for gradient in gradients:
        arrays = {"left_out": left_out, "values": gradient.reshape((gradient.shape[0], -1))}
        kernel = trajectory_kernels(gradient.dtype).clear_worlds
        launch(kernel, gradient.shape[0], arrays, device=gradient.device, record_tape=False)


def rows_like(array: wp.array, rows: int) -> wp.array:
    """An array of ``rows`` rows shaped as those of ``array``, still to be written."""
    return wp.empty((rows, *array.shape[1:]), dtype=array.dtype, device=array.device)


def begun_with(first: wp.array, rows: int) -> wp.array:
    """An array of ``rows`` rows of which the first is ``first``; the others are still to be written."""
    array: wp.array = wp.empty((rows, *first.shape), dtype=first.dtype, device=first.device)
    copy_rows(array, first)
    return array
