"""Operations on a whole trajectory: its fingerprint, and gradients of excluded worlds."""

import functools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.rollout.checkpoint import INTERVAL, STEPS
from warp_kernels.rollout.records import SLOT, SLOTS
from warp_kernels.types import kernel_module

# Initial value of the hash.
OFFSET = 14695981039346656037


def hashed_rows(records: Iterable[tuple[str, int, int]]) -> np.ndarray:
    """Return the argument ``hashed_records`` of the fingerprint.

    Args:
        records: the name of each record, the numbers of a world in a row, and the number of rows for each step, or 0
            for a row for each stored state.
    """
    return np.array([(SLOTS[name], size, rows) for name, size, rows in records], dtype=np.int32)


@functools.cache
def trajectory_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, launched over worlds, none with an adjoint."""
    module = kernel_module("trajectory", scalar, headers=("recording.h",))

    @Native(scalar, 1, "recording").func_native()
    def add_rows(values: wp.array3d(dtype=scalar), first: int, count: int, fingerprints: wp.array(dtype=wp.uint64)):
        """Continue the hashes of ``count`` worlds with the bits of their numbers [rows, world, n], which may be empty.

        The numbers of a world in a row are contiguous.
        """

    @wp.kernel(module=module, enable_backward=False)
    def find_fingerprint(
        # Model
        total_worlds: int,
        first_world: int,
        worlds_of_thread: int,
        hashed_records: wp.array2d(dtype=int),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
    ):
        """Compute a hash of all states and inputs of each world.

        worlds_of_thread: how many worlds each thread hashes: many, to read memory in its order, or one.
        hashed_records: for each array its slot in the pointer table, the numbers of a world in a row, and the number of
            rows for each step, or 0 for a row for each stored state; see :func:`hashed_rows`.
        """
        first = first_world + worlds_of_thread * wp.tid()
        steps = cursor[wp.static(STEPS)]
        states = (steps + cursor[wp.static(INTERVAL)] - 1) // cursor[wp.static(INTERVAL)] + 1
        fingerprints = wp.array(ptr=table[wp.static(SLOT.fingerprint)], shape=(total_worlds,), dtype=wp.uint64)
        for world in range(first, first + worlds_of_thread):
            fingerprints[world] = wp.uint64(wp.static(OFFSET))
        for k in range(hashed_records.shape[0]):
            address = table[hashed_records[k, 0]]
            if address != wp.uint64(0):
                rows = wp.where(hashed_records[k, 2] == 0, states, hashed_records[k, 2] * steps)
                values = wp.array(ptr=address, shape=(rows, total_worlds, hashed_records[k, 1]), dtype=scalar)
                add_rows(values, first, worlds_of_thread, fingerprints)

    @wp.kernel(module=module, enable_backward=False)
    def clear_worlds(
        # Data in
        left_out: wp.array(dtype=int),
        # Data out
        values: wp.array3d(dtype=scalar),
    ):
        """Set [rows, world, n] to zero for excluded worlds, those with a non-negative number."""
        world = wp.tid()
        if left_out[world] >= 0:
            for row in range(values.shape[0]):
                for i in range(values.shape[2]):
                    values[row, world, i] = scalar(0.0)

    return SimpleNamespace(module=module, find_fingerprint=find_fingerprint, clear_worlds=clear_worlds)
