"""Constraints that are on in a step: those of an input of the rollout, otherwise those of the parameters."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.checkpoint_rows import trajectory_row_functions
from warp_kernels.records import SLOT
from warp_kernels.types import kernel_module


@functools.cache
def switch_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel ``read_switches`` for one precision."""
    rows = trajectory_row_functions(scalar)
    module = kernel_module("switches", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def read_switches(
        # Model
        total_worlds: int,
        first_world: int,
        # Parameters
        anchor_active: wp.array2d(dtype=scalar),
        coupling_active: wp.array2d(dtype=scalar),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor_step: wp.array(dtype=int),
        # Data out
        switch_on: wp.array2d(dtype=int),
    ):
        """Write 1 for each point, weld and coupling that is on, in this order, and 0 for those that are off [constraint,
        world].
        """
        world = wp.tid()
        address = table[wp.static(SLOT.active)]
        count = switch_on.shape[0]
        anchors = anchor_active.shape[1]
        for i in range(count):
            value = scalar(0.0)
            if address != wp.uint64(0):
                value = rows.read(address, cursor_step[0], total_worlds, count, first_world + world, i)
            elif i < anchors:
                value = anchor_active[wp.min(world, anchor_active.shape[0] - 1), i]
            else:
                value = coupling_active[wp.min(world, coupling_active.shape[0] - 1), i - anchors]
            switch_on[i, world] = wp.where(value > scalar(0.5), 1, 0)

    return SimpleNamespace(module=module, read_switches=read_switches)
