"""Small operations on the arrays of a rollout."""

from collections.abc import Iterable
from typing import Any

from sim.arrays.host_memory import HostArray, Rows, as_warp, copy_rows, new_rows
from sim.arrays.launch import launch
from warp_kernels.checkpoint import checkpoint_kernels
from warp_kernels.records import Records, StateArrays, state_arrays
from warp_kernels.trajectory import trajectory_kernels


def add_to(total: Rows, value: Rows) -> None:
    """total += value for contiguous arrays of one shape."""
    kernel = checkpoint_kernels(total.dtype).accumulate
    arrays = {"value": as_warp(value).flatten(), "total": as_warp(total).flatten()}
    launch(kernel, total.size, arrays, device=total.device, record_tape=False)


def clear_worlds(left_out: Rows, of_worlds: Iterable[Rows | None], of_steps: Iterable[Rows | None] = ()) -> None:
    """Set gradients of the worlds that are left out to zero, those that there are.

    Args:
        left_out: not negative for these worlds [num_worlds].
        of_worlds: gradients [num_worlds, ...].
        of_steps: gradients [steps, num_worlds, n].
    """
    # Mostly there are none; to ask on CUDA would wait for the device.
    if isinstance(left_out, HostArray) and (left_out.numpy() < 0).all():
        return
    worlds = left_out.shape[0]
    first = [as_warp(rows).reshape((1, worlds, -1)) for rows in of_worlds if rows is not None]
    for values in [*first, *(as_warp(rows) for rows in of_steps if rows is not None)]:
        kernel, arrays = trajectory_kernels(values.dtype).clear_worlds, {"left_out": as_warp(left_out)}
        launch(kernel, worlds, arrays, values=values, device=values.device, record_tape=False)


def rows_like(array: Rows, rows: int) -> Rows:
    """An array of ``rows`` rows shaped as those of ``array``, still to be written."""
    return new_rows((rows, *array.shape[1:]), array.dtype, array.device)


def begun_with(first: StateArrays[Rows], rows: int) -> Records[Rows]:
    """Return records with room for ``rows`` states, of which the first is ``first``; the others are to be written."""

    def begun(array: Rows) -> Rows:
        several = new_rows((rows, *array.shape), array.dtype, array.device)
        copy_rows(several, array)
        return several

    arrays: list[Any] = [None if array is None else begun(array) for array in state_arrays(first)]
    return Records(*arrays)
