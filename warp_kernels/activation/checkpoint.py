"""The states of actuators between a trajectory and the working state of one step; see :mod:`warp_kernels.checkpoint`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.checkpoint import STEP, checkpoint_kernels
from warp_kernels.checkpoint_rows import trajectory_row_functions
from warp_kernels.records import SLOT
from warp_kernels.types import kernel_module


@functools.cache
def activation_checkpoint_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision, one thread per world, none with an adjoint."""
    kept, rows = checkpoint_kernels(scalar), trajectory_row_functions(scalar)
    module = kernel_module("activation_checkpoint", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def load_activations(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Data out
        act: wp.array2d(dtype=scalar),
    ):
        """Zeros in a world that is left out."""
        world = wp.tid()
        at = first_world + world
        step = cursor[wp.static(STEP)]
        row = kept.state_row(step, cursor)
        address = kept.state_address(wp.static(SLOT.act), step, table, cursor)
        for i in range(act.shape[1]):
            if kept.is_left_out(at, total_worlds, table):
                act[world, i] = scalar(0.0)
            else:
                act[world, i] = rows.read(address, row, total_worlds, act.shape[1], at, i)

    @wp.kernel(module=module, enable_backward=False)
    def store_activations(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        act_next: wp.array2d(dtype=scalar),
    ):
        """After ``store_state``; a state that isn't finite makes its world bad as one of its coordinates does."""
        world = wp.tid()
        at = first_world + world
        step = cursor[wp.static(STEP)] + 1
        row = kept.state_row(step, cursor)
        address = kept.state_address(wp.static(SLOT.act), step, table, cursor)
        finite = int(1)
        for i in range(act_next.shape[1]):
            rows.write(address, row, total_worlds, act_next.shape[1], at, i, act_next[world, i])
            if not wp.isfinite(act_next[world, i]):
                finite = int(0)
        if finite == 0 and table[wp.static(SLOT.bad_state)] != wp.uint64(0):
            bad_state = wp.array(ptr=table[wp.static(SLOT.bad_state)], shape=(total_worlds,), dtype=int)
            if bad_state[at] < 0:
                bad_state[at] = step

    @wp.kernel(module=module, enable_backward=False)
    def load_activation_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        carried_act: wp.array2d(dtype=scalar),
        # Adjoint out
        act_next_bar: wp.array2d(dtype=scalar),
    ):
        """As ``load_adjoint``."""
        world = wp.tid()
        at = first_world + world
        step = cursor[wp.static(STEP)] + 1
        row = kept.state_row(step, cursor)
        direct = kept.is_stored(step, cursor) and table[wp.static(SLOT.act_bar)] != wp.uint64(0)
        for i in range(carried_act.shape[1]):
            value = carried_act[world, i]
            if direct:
                value += rows.read(table[wp.static(SLOT.act_bar)], row, total_worlds, carried_act.shape[1], at, i)
            if kept.is_left_out(at, total_worlds, table):
                value = scalar(0.0)
            act_next_bar[world, i] = value

    @wp.kernel(module=module, enable_backward=False)
    def store_activation_adjoint(
        # Data in
        cursor: wp.array(dtype=int),
        # Adjoint in
        act_bar: wp.array2d(dtype=scalar),
        # Data out
        carried_act: wp.array2d(dtype=scalar),
        last_bad_step: wp.array(dtype=int),
    ):
        """As ``store_adjoint``."""
        world = wp.tid()
        for i in range(act_bar.shape[1]):
            carried_act[world, i] = act_bar[world, i]
            if not wp.isfinite(act_bar[world, i]) and last_bad_step[world] < 0:
                last_bad_step[world] = cursor[wp.static(STEP)]

    return SimpleNamespace(
        module=module,
        load_activations=load_activations,
        store_activations=store_activations,
        load_activation_adjoint=load_activation_adjoint,
        store_activation_adjoint=store_activation_adjoint,
    )
