"""References to arrays of states, whose address kernels read from memory.

A kernel of several lanes gets a small table for each array of states [world, ...]: address, number of worlds and
strides. Changing the table redirects a captured graph to other memory, so that it reads the tensors of a call and
writes the results in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.scratch import keep


class ArrayRef:
    """Reference to an array of states, which operations pass to kernels of several lanes.

    Args:
        where: address and :func:`table`, int64 on the CPU.
        shape: shape of the array.
        grad: reference to its gradient, if it has one.
    """

    def __init__(self, where: wp.array, shape: Sequence[int], grad: ArrayRef | None = None):
        self.where, self.shape, self.grad = where, tuple(shape), grad


# An array of states, itself or by reference.
States = wp.array | ArrayRef


def table(worlds: int, shape: Sequence[int], strides: Sequence[int], itemsize: int, marked: bool = False) -> list[int]:
    """Return the table that kernels read after the address of an array.

    Args:
        worlds: number of worlds.
        shape: dimensions after that of the world.
        strides: strides of all dimensions in bytes, that of the world first.
        itemsize: bytes of a number.
        marked: for a contiguous result, whether it is large enough to bypass the caches; for a gradient, whether it is
            new, so that it is written rather than added to.

    Returns:
        number of worlds; bytes of the entries of a world, or of one frame of a world in an array [world, frame, ...];
        the mark; the strides.
    """
    inner = len(shape) - max(1, len(shape) - 1)
    span = sum((size - 1) * stride for size, stride in zip(shape[inner:], strides[1 + inner :], strict=True)) + itemsize
    return [worlds, span, int(marked), *strides]


def for_lanes(states: States | None, lanes: int) -> Any:
    """Return an array of states in the form for kernels of lane groups of ``lanes`` worlds, or None."""
    if states is None or lanes == 1:
        return states
    return (states if isinstance(states, ArrayRef) else _array_ref(states)).where


def _array_ref(states: wp.array) -> ArrayRef:
    """Return a reference to an array, so that kernels read its address from memory."""
    entries = table(states.shape[0], states.shape[1:], states.strides, wp.types.type_size_in_bytes(states.dtype))
    numbers = np.array([states.ptr or 0, *entries], dtype=np.int64)
    # Without a copy, which would become part of a capture in progress.
    where: Any = wp.array(numbers, dtype=wp.int64, device="cpu", copy=False)
    where.refers_to = states
    where.memory = numbers
    keep(where)
    return ArrayRef(where, states.shape)


def referred(where: wp.array) -> wp.array | None:
    """Return the array whose reference :func:`for_lanes` has returned; None for any other array."""
    return getattr(where, "refers_to", None)
