"""Small copies and fills between steps: on a CPU straight in memory, since a call of Warp takes longer than they do."""

import ctypes
from typing import Any

import numpy as np
import warp as wp


def copy_rows(target: wp.array, source: wp.array, *, to_row: int = 0, from_row: int = 0) -> None:
    """Copy as many rows as the smaller of two contiguous arrays has, whose rows are of one size.

    Args:
        target: where they go.
        source: where they come from.
        to_row: the first of them in the target.
        from_row: the first of them in the source.
    """
    count = min(target.size, source.size)
    if not count:
        return
    width = min(target.size // target.shape[0], source.size // source.shape[0])
    assert target.device is not None
    assert source.device is not None
    if target.device.is_cpu and source.device.is_cpu:
        size = wp.types.type_size_in_bytes(target.dtype)
        start, end = (array.ptr + row * width * size for array, row in ((target, to_row), (source, from_row)))
        ctypes.memmove(start, end, count * size)
    else:
        wp.copy(target, source, dest_offset=to_row * width, src_offset=from_row * width, count=count)


class HostWriter:
    """Writes the whole of a small array from the host.

    Args:
        array: of a scalar type, contiguous.
    """

    def __init__(self, array: wp.array):
        assert array.device is not None
        self.array = array
        self._view: np.ndarray | None = array.numpy() if array.device.is_cpu else None

    def write(self, values: Any) -> None:
        """Write one number everywhere, or as many as the array has."""
        if self._view is not None:
            self._view[...] = values
        elif np.ndim(values) == 0:
            self.array.fill_(values)
        else:
            self.array.assign(np.asarray(values, dtype=wp.dtype_to_numpy(self.array.dtype)))
