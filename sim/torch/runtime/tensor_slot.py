"""Where the launches of a graph look up an array that differs from call to call."""

import math
from collections.abc import Sequence

import numpy as np
import torch
import warp as wp

from sim.arrays.array_refs import ArrayRef, table

# Bytes of what would fill a core's share of the last cache, and push out of it what the next work needs.
LARGE = 3 * 2**22


class TensorSlot:
    """Where the launches of a graph look up one array of states [rows, ...], each for its part of the rows.

    Args:
        shape: of the array.
        itemsize: bytes of a number.
        parts: the parts of its rows.
        new: whether it is a gradient that is written and not added to.

    Attributes:
        shape: of the array.
        refs: the parts, without gradients.
    """

    def __init__(self, shape: torch.Size, itemsize: int, parts: Sequence[slice], new: bool = False):
        self.shape, self._itemsize = shape, itemsize
        self._marked = new or shape.numel() * itemsize >= LARGE
        self._strides: tuple[int, ...] = ()
        self._table = np.zeros((len(parts), 4 + len(shape)), dtype=np.int64)
        self._first = np.array([part.start for part in parts])
        self._worlds = [part.stop - part.start for part in parts]
        self._addresses, self._offsets = self._table[:, 0], self._first
        rows: list[wp.array] = [wp.array(row, dtype=wp.int64, device="cpu", copy=False) for row in self._table]
        self.refs = [ArrayRef(row, (worlds, *shape[1:])) for row, worlds in zip(rows, self._worlds, strict=True)]

    def point_at(self, address: int, strides: tuple[int, ...]) -> None:
        """Let the launches find the array here, in memory that stays alive until they have run; strides in entries."""
        if strides != self._strides:
            self._strides = strides
            steps = [stride * self._itemsize for stride in strides]
            each = [table(worlds, self.shape[1:], steps, self._itemsize, self._marked) for worlds in self._worlds]
            self._table[:, 1:] = each
            self._offsets = self._first * (strides[0] * self._itemsize)
        np.add(self._offsets, address, out=self._addresses)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor, in entries."""
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
