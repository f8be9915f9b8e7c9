"""Small operations on the arrays of a rollout."""

from sim.arrays.host_memory import HostArray, Rows, as_warp, copy_rows, new_rows
from sim.arrays.launch import launch
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.trajectory import trajectory_kernels


def add_to(total: Rows, value: Rows) -> None:
    """total += value for contiguous arrays of one shape."""
    kernel = checkpoint_kernels(total.dtype).accumulate
    arrays = {"value": as_warp(value).flatten(), "total": as_warp(total).flatten()}
    launch(kernel, total.size, arrays, device=total.device, record_tape=False)


def clear_worlds(left_out: Rows, *gradients: Rows) -> None:
    """Set gradients [num_worlds, ...] of the worlds that are left out to zero."""
    # Mostly there are none; to ask on CUDA would wait for the device.
    if isinstance(left_out, HostArray) and (left_out.numpy() < 0).all():
        return
    for gradient in map(as_warp, gradients):
        arrays = {"left_out": as_warp(left_out), "values": gradient.reshape((gradient.shape[0], -1))}
        kernel = trajectory_kernels(gradient.dtype).clear_worlds
        launch(kernel, gradient.shape[0], arrays, device=gradient.device, record_tape=False)


def rows_like(array: Rows, rows: int) -> Rows:
    """An array of ``rows`` rows shaped as those of ``array``, still to be written."""
    return new_rows((rows, *array.shape[1:]), array.dtype, array.device)


def begun_with(first: Rows, rows: int) -> Rows:
    """An array of ``rows`` rows of which the first is ``first``; the others are still to be written."""
    array = new_rows((rows, *first.shape), first.dtype, first.device)
    copy_rows(array, first)
    return array
