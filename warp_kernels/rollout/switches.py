"""Constraints that are on in a step, and those that break at its end.

Points, welds and couplings have switches: an input of the rollout, otherwise parameters. One whose force exceeds a
limit breaks, which the state records: it is off from the next step on.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import COUPLING, is_angular, is_of_anchor, pair_index
from warp_kernels.rollout.checkpoint import STEP, checkpoint_kernels
from warp_kernels.rollout.checkpoint_rows import trajectory_row_functions
from warp_kernels.rollout.records import SLOT
from warp_kernels.solver.structs import Constraints, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def switch_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels ``read_switches`` and ``break_constraints`` for one precision, over worlds."""
    vec3 = warp_types(scalar).vec3
    Equalities = solver_structs(scalar).Equalities
    rows, checkpoints = trajectory_row_functions(scalar), checkpoint_kernels(scalar)
    state_row, state_address = checkpoints.state_row, checkpoints.state_address
    module = kernel_module("switches", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def read_switches(
        # Model
        total_worlds: int,
        first_world: int,
        # Parameters
        anchor_active: wp.array2d(dtype=scalar),
        coupling_active: wp.array2d(dtype=scalar),
        tendon_coupling_active: wp.array2d(dtype=scalar),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Data out
        switch_on: wp.array2d(dtype=int),
    ):
        """Write 1 for each point, weld, coupling and coupling of tendons that is on, in this order, and 0 for those that
        are off or broken [constraint, world].
        """
        world = wp.tid()
        step = cursor[wp.static(STEP)]
        given = table[wp.static(SLOT.active)]
        broken = state_address(wp.static(SLOT.broken), step, table, cursor)
        count = switch_on.shape[0]
        anchors = anchor_active.shape[1]
        joints = anchors + coupling_active.shape[1]
        for i in range(count):
            value = scalar(0.0)
            if given != wp.uint64(0):
                value = rows.read(given, step, total_worlds, count, first_world + world, i)
            elif i < anchors:
                value = anchor_active[wp.min(world, anchor_active.shape[0] - 1), i]
            elif i < joints:
                value = coupling_active[wp.min(world, coupling_active.shape[0] - 1), i - anchors]
            else:
                value = tendon_coupling_active[wp.min(world, tendon_coupling_active.shape[0] - 1), i - joints]
            if broken != wp.uint64(0):
                value -= rows.read(broken, state_row(step, cursor), total_worlds, count, first_world + world, i)
            switch_on[i, world] = wp.where(value > scalar(0.5), 1, 0)

    @wp.kernel(module=module, enable_backward=False)
    def break_constraints(
        # Model
        total_worlds: int,
        first_world: int,
        dt: scalar,
        # Parameters
        anchor_break_force: wp.array2d(dtype=scalar),
        anchor_break_torque: wp.array2d(dtype=scalar),
        coupling_break_force: wp.array2d(dtype=scalar),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        constraints: Constraints,
        impulse: wp.array2d(dtype=vec3),
        equalities: Equalities,
        switch_on: wp.array2d(dtype=int),
    ):
        """Store which constraints are broken after the step: those that were, and those whose force or torque, averaged
        over the step, exceeds its limit.
        """
        world = wp.tid()
        step = cursor[wp.static(STEP)]
        at = first_world + world
        anchors = anchor_break_force.shape[1]
        count = switch_on.shape[0]
        before = state_address(wp.static(SLOT.broken), step, table, cursor)
        after = state_address(wp.static(SLOT.broken), step + 1, table, cursor)
        if before == wp.uint64(0) or after == wp.uint64(0):
            return
        row = state_row(step + 1, cursor)
        for i in range(count):
            value = rows.read(before, state_row(step, cursor), total_worlds, count, at, i)
            rows.write(after, row, total_worlds, count, at, i, value)
        for c in range(constraints.count[world]):
            kind = constraints.kind[c, world]
            item = constraints.item[c, world]
            load = scalar(0.0)
            limit = scalar(0.0)
            if is_of_anchor(kind):
                frame = wp.transpose(equalities.anchor_frame[pair_index(kind, item), world])
                load = wp.length(frame * impulse[c, world])
                if is_angular(kind):
                    limit = anchor_break_torque[wp.min(world, anchor_break_torque.shape[0] - 1), item]
                else:
                    limit = anchor_break_force[wp.min(world, anchor_break_force.shape[0] - 1), item]
            elif kind == COUPLING:
                load = wp.abs(impulse[c, world][0])
                limit = coupling_break_force[wp.min(world, coupling_break_force.shape[0] - 1), item]
                item += anchors
            if load > dt * limit:
                rows.write(after, row, total_worlds, count, at, item, scalar(1.0))

    return SimpleNamespace(module=module, read_switches=read_switches, break_constraints=break_constraints)
