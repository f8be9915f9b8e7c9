"""Arrays of states that kernels look up.

A kernel for lane groups is told in its launch where to look up an array of states [world, ...]: address, number of
worlds and steps. So a captured graph of launches can be pointed at other memory before each of its launches, and reads
the tensors of a call and writes its results where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.scratch import keep


class ArrayRef:
    """An array of states, as functions of operations pass it on to kernels for lane groups.

    Args:
        where: address and :func:`table`, int64 on the CPU.
        shape: of the array.
        grad: where its gradient is, if it has one.
    """

    def __init__(self, where: wp.array, shape: Sequence[int], grad: ArrayRef | None = None):
        self.where, self.shape, self.grad = where, tuple(shape), grad


# An array of states, told in the launch or looked up.
States = wp.array | ArrayRef


def table(worlds: int, shape: Sequence[int], strides: Sequence[int], itemsize: int, marked: bool = False) -> list[int]:
    """What kernels look up beside the address of an array.

    Args:
        worlds: how many there are.
        shape: the dimensions beside that of the world.
        strides: bytes from an entry to the next along each dimension, that of the world first.
        itemsize: bytes of a number.
        marked: of a result without gaps, whether it, of which this may be some rows, is better kept out of the caches;
            of a gradient, whether it is new, to be written and not added to.

    Returns:
        the number of worlds; how many bytes the entries of a world span, or of one of its frames in an array
        [world, frame, ...]; whether it is marked; the strides.
    """
    inner = len(shape) - max(1, len(shape) - 1)
    span = sum((size - 1) * stride for size, stride in zip(shape[inner:], strides[1 + inner :], strict=True)) + itemsize
    return [worlds, span, int(marked), *strides]


def for_lanes(states: States | None, lanes: int) -> Any:
    """An array of states as a kernel for lane groups of ``lanes`` worlds takes it, None for None."""
    if states is None or lanes == 1:
        return states
    return (states if isinstance(states, ArrayRef) else _array_ref(states)).where


def _array_ref(states: wp.array) -> ArrayRef:
    """An array that is told, to be looked up where it lies."""
    entries = table(states.shape[0], states.shape[1:], states.strides, wp.types.type_size_in_bytes(states.dtype))
    numbers = np.array([states.ptr or 0, *entries], dtype=np.int64)
    # A copy would become part of what is captured at the moment.
    where: Any = wp.array(numbers, dtype=wp.int64, device="cpu", copy=False)
    where.memory = states, numbers
    keep(where)
    return ArrayRef(where, states.shape)
