"""Arrays of states whose address kernels read from memory.

A kernel of several lanes gets a small table for each array of states [world, ...]: its address, the number of worlds,
and its strides. Changing the table points a captured graph at other memory, so that it reads the tensors of a call and
writes the results in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.scratch import keep


class ArrayRef:
    """A reference to an array of states, which functions of operations pass on to kernels of several lanes.

    Args:
        where: address and :func:`table`, int64 on the CPU.
        shape: of the array.
        grad: where its gradient is, if it has one.
    """

    def __init__(self, where: wp.array, shape: Sequence[int], grad: ArrayRef | None = None):
        self.where, self.shape, self.grad = where, tuple(shape), grad


# An array of states, itself or by reference.
States = wp.array | ArrayRef


def table(worlds: int, shape: Sequence[int], strides: Sequence[int], itemsize: int, marked: bool = False) -> list[int]:
    """What kernels look up beside the address of an array.

    Args:
        worlds: how many there are.
        shape: the dimensions beside that of the world.
        strides: bytes from an entry to the next along each dimension, that of the world first.
        itemsize: bytes of a number.
        marked: of a result without gaps, whether it is large enough to be written past the caches; of a gradient,
            whether it is new, to be written and not added to.

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
    """Wraps an array so that kernels read its address from memory."""
    entries = table(states.shape[0], states.shape[1:], states.strides, wp.types.type_size_in_bytes(states.dtype))
    numbers = np.array([states.ptr or 0, *entries], dtype=np.int64)
    # A copy would become part of what is captured at the moment.
    where: Any = wp.array(numbers, dtype=wp.int64, device="cpu", copy=False)
    where.memory = states, numbers
    keep(where)
    return ArrayRef(where, states.shape)
