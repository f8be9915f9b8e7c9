"""Checkpoints: load and store the working state of a step, forward and in the backward pass.

A captured step must not contain the addresses of the caller's arrays. These kernels read them from a small table of
pointers (:mod:`warp_kernels.rollout.records`), and the step index from a cursor, so that one captured graph serves every
rollout and every step.

A trajectory stores the state before every step whose index is a multiple of the interval, and the last one. The states
between two stored ones are in separate arrays, which each interval reuses.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import NO_KEY
from warp_kernels.kinematics.low_words import low_word_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.rollout.checkpoint_rows import RECORDING_HEADERS, trajectory_row_functions
from warp_kernels.rollout.prescribed import prescribed_functions
from warp_kernels.rollout.records import BETWEEN, SLOT
from warp_kernels.solver.structs import Constraints
from warp_kernels.types import kernel_module, warp_types

# Stages of a Runge-Kutta step whose velocities are kept.
KEPT_STAGES = 3
# Indices in the cursor: the step, the interval between stored states, the number of steps.
STEP, INTERVAL, STEPS = range(3)


@functools.cache
def checkpoint_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, one thread per world or per constraint and world, none with an adjoint.

    ``first_world`` is the index of this shard's first world among the ``total_worlds`` of the trajectory's arrays.
    """
    t = warp_types(scalar)
    vec3, origin_low_words = t.vec3, low_word_functions(scalar).origin_low_words
    rows, prescribed = trajectory_row_functions(scalar), prescribed_functions(scalar)
    names = ("checkpoint", "checkpoint_impulses", "checkpoint_stages")
    module, impulse_module, stage_module = (kernel_module(name, scalar, headers=RECORDING_HEADERS) for name in names)

    @wp.func
    def is_stored(step: int, cursor: wp.array(dtype=int)):
        """Return whether the trajectory stores the state before a step."""
        return step % cursor[wp.static(INTERVAL)] == 0 or step == cursor[wp.static(STEPS)]

    @wp.func
    def state_row(step: int, cursor: wp.array(dtype=int)):
        """Return the row of the state before a step, among the stored ones or among those between two of them."""
        interval = cursor[wp.static(INTERVAL)]
        if is_stored(step, cursor):
            return (step + interval - 1) // interval
        return step % interval - 1

    @wp.func
    def part_of_records(step: int, cursor: wp.array(dtype=int)):
        """Return what to add to the slot of an array of stored states for the one that has the state before a step."""
        return wp.where(is_stored(step, cursor), 0, wp.static(BETWEEN))

    @wp.func
    def state_address(slot: int, step: int, table: wp.array(dtype=wp.uint64), cursor: wp.array(dtype=int)):
        """Return the address of the array that has the state before a step; ``slot`` is that of the stored states."""
        return table[slot + part_of_records(step, cursor)]

    @wp.func
    def row_norm(values: wp.array2d(dtype=scalar), world: int):
        """Return the Euclidean norm of a world's values, with squares in double precision: those of single precision
        soon overflow.
        """
        total = wp.float64(0.0)
        for i in range(values.shape[1]):
            value = wp.float64(values[world, i])
            total += value * value
        return scalar(wp.sqrt(total))

    @wp.func
    def is_left_out(world: int, total_worlds: int, table: wp.array(dtype=wp.uint64)):
        """Return whether a world gets no gradient; ``world`` is its index in the trajectory."""
        address = table[wp.static(SLOT.left_out)]
        if address == wp.uint64(0):
            return False
        return wp.array(ptr=address, shape=(total_worlds,), dtype=int)[world] >= 0

    @wp.func
    def is_finite(q: wp.array2d(dtype=scalar), qd: wp.array2d(dtype=scalar), world: int):
        return rows.is_finite_row(q, world) and rows.is_finite_row(qd, world)

    @wp.kernel(module=module, enable_backward=False)
    def load_state(
        # Model
        total_worlds: int,
        first_world: int,
        dt: scalar,
        q0: wp.array(dtype=scalar),
        kinematic_dof: wp.array(dtype=int),
        kinematic_carries: wp.array(dtype=int),
        links: Links,
        low_start: wp.array(dtype=int),
        joint_axis: wp.array(dtype=vec3),
        # Parameters
        joint_placement: wp.array2d(dtype=t.transform),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Data out
        q: wp.array2d(dtype=scalar),
        q_low: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        tau: wp.array2d(dtype=scalar),
        control: wp.array2d(dtype=scalar),
        origin_low: wp.array2d(dtype=vec3),
    ):
        """Load the state and the inputs. A world without gradients rests at q0: with an adjoint of zero, it adds nothing to any
        gradient.
        """
        world = wp.tid()
        if is_left_out(first_world + world, total_worlds, table):
            for i in range(q.shape[1]):
                q[world, i] = q0[i]
            for i in range(q_low.shape[1]):
                q_low[world, i] = scalar(0.0)
            for i in range(qd.shape[1]):
                qd[world, i] = scalar(0.0)
                tau[world, i] = scalar(0.0)
            for i in range(control.shape[1]):
                control[world, i] = scalar(0.0)
        else:
            step = cursor[wp.static(STEP)]
            row = state_row(step, cursor)
            part = part_of_records(step, cursor)
            rows.load_row(table[wp.static(SLOT.q) + part], row, total_worlds, first_world, world, q)
            rows.load_row(table[wp.static(SLOT.qd) + part], row, total_worlds, first_world, world, qd)
            rows.load_row(table[wp.static(SLOT.q_low) + part], row, total_worlds, first_world, world, q_low)
            rows.load_row(table[wp.static(SLOT.tau)], step, total_worlds, first_world, world, tau)
            rows.load_row(table[wp.static(SLOT.control)], step, total_worlds, first_world, world, control)
            address = table[wp.static(SLOT.kinematic_qd)]
            prescribed.lead(
                address, step, total_worlds, first_world, world, dt, kinematic_dof, kinematic_carries, qd, tau
            )
        origin_low_words(links, low_start, joint_axis, joint_placement, q_low, world, origin_low)

    @wp.kernel(module=module, enable_backward=False)
    def store_state(
        # Model
        total_worlds: int,
        first_world: int,
        largest_q: scalar,
        largest_qd: scalar,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        q_next: wp.array2d(dtype=scalar),
        q_low_next: wp.array2d(dtype=scalar),
        qd_next: wp.array2d(dtype=scalar),
        residual: wp.array(dtype=scalar),
        contact_overflow: wp.array(dtype=int),
        constraint_overflow: wp.array(dtype=int),
        # Data out
        largest_residual: wp.array(dtype=scalar),
        total_overflow: wp.array(dtype=int),
    ):
        """Store the state, and if the table has a slot for it, the index of a world's first bad state, or -1: one with
        a coordinate beyond ``largest_q``, a velocity beyond ``largest_qd``, or NaN.
        """
        world = wp.tid()
        step = cursor[wp.static(STEP)] + 1
        row = state_row(step, cursor)
        part = part_of_records(step, cursor)
        rows.store_row(table[wp.static(SLOT.q) + part], row, total_worlds, first_world, world, q_next)
        rows.store_row(table[wp.static(SLOT.qd) + part], row, total_worlds, first_world, world, qd_next)
        rows.store_row(table[wp.static(SLOT.q_low) + part], row, total_worlds, first_world, world, q_low_next)
        largest_residual[world] = wp.max(largest_residual[world], residual[world])
        total_overflow[world] += contact_overflow[world] + constraint_overflow[world]
        if table[wp.static(SLOT.bad_state)] != wp.uint64(0):
            bad_state = wp.array(ptr=table[wp.static(SLOT.bad_state)], shape=(total_worlds,), dtype=int)
            at = first_world + world
            if step == 1:
                within = rows.is_row_within(q, world, largest_q) and rows.is_row_within(qd, world, largest_qd)
                bad_state[at] = wp.where(within, -1, 0)
            within_next = rows.is_row_within(q_next, world, largest_q) and rows.is_row_within(
                qd_next, world, largest_qd
            )
            if bad_state[at] < 0 and not within_next:
                bad_state[at] = step

    @wp.kernel(module=impulse_module, enable_backward=False)
    def load_impulses(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Data out
        previous_impulse: wp.array2d(dtype=vec3),
        previous_key: wp.array2d(dtype=wp.vec4i),
    ):
        """Load impulses and keys of the previous step's constraints (see :mod:`warp_kernels.solver.warm_start`)."""
        constraint, world = wp.tid()
        step = cursor[wp.static(STEP)]
        row = state_row(step, cursor)
        at = first_world + world
        room = previous_impulse.shape[0]
        values = rows.vector_row(state_address(wp.static(SLOT.impulse), step, table, cursor), row, total_worlds, room)
        keys = rows.key_row(state_address(wp.static(SLOT.key), step, table, cursor), row, total_worlds, room)
        if is_left_out(at, total_worlds, table):
            previous_impulse[constraint, world] = vec3()
            previous_key[constraint, world] = wp.vec4i(wp.static(NO_KEY), 0, 0, 0)
        else:
            previous_impulse[constraint, world] = values[at, constraint]
            previous_key[constraint, world] = keys[at, constraint]

    @wp.kernel(module=impulse_module, enable_backward=False)
    def store_impulses(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        constraints: Constraints,
        impulse: wp.array2d(dtype=vec3),
        constraint_key: wp.array2d(dtype=wp.vec4i),
    ):
        """Store impulses and keys after the step; zeros for absent constraints."""
        constraint, world = wp.tid()
        step = cursor[wp.static(STEP)] + 1
        row = state_row(step, cursor)
        at = first_world + world
        room = impulse.shape[0]
        values = rows.vector_row(state_address(wp.static(SLOT.impulse), step, table, cursor), row, total_worlds, room)
        keys = rows.key_row(state_address(wp.static(SLOT.key), step, table, cursor), row, total_worlds, room)
        value = vec3()
        if constraint < constraints.count[world]:
            value = impulse[constraint, world]
        values[at, constraint] = value
        keys[at, constraint] = constraint_key[constraint, world]

    @wp.kernel(module=impulse_module, enable_backward=False)
    def add_impulse_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Adjoint in
        accumulated_impulse_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        impulse_bar: wp.array2d(dtype=vec3),
    ):
        """Add the loss's direct derivative to the adjoint of this step's impulses from later steps."""
        constraint, world = wp.tid()
        step = cursor[wp.static(STEP)] + 1
        value = accumulated_impulse_bar[constraint, world]
        left_out = is_left_out(first_world + world, total_worlds, table)
        if not left_out and table[wp.static(SLOT.impulse_bar)] != wp.uint64(0) and is_stored(step, cursor):
            row = state_row(step, cursor)
            direct = rows.vector_row(
                table[wp.static(SLOT.impulse_bar)], row, total_worlds, accumulated_impulse_bar.shape[0]
            )
            value += direct[first_world + world, constraint]
        impulse_bar[constraint, world] += value

    @wp.kernel(module=module, enable_backward=False)
    def move_cursor(
        # Model
        by: int,
        # Data out
        cursor: wp.array(dtype=int),
    ):
        cursor[wp.static(STEP)] += by

    @wp.kernel(module=module, enable_backward=False)
    def load_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Adjoint in
        accumulated_q_bar: wp.array2d(dtype=scalar),
        accumulated_qd_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        q_next_bar: wp.array2d(dtype=scalar),
        qd_next_bar: wp.array2d(dtype=scalar),
    ):
        """Load the adjoint of the state after this step: from later steps, plus the loss's direct derivative; zero for
        a world without gradients.

        If the table has a slot for them, the norms of both parts are written there.
        """
        world = wp.tid()
        if is_left_out(first_world + world, total_worlds, table):
            for i in range(accumulated_q_bar.shape[1]):
                q_next_bar[world, i] = scalar(0.0)
            for i in range(accumulated_qd_bar.shape[1]):
                qd_next_bar[world, i] = scalar(0.0)
            return
        step = cursor[wp.static(STEP)] + 1
        row = state_row(step, cursor)
        rows.copy_row(accumulated_q_bar, world, q_next_bar)
        rows.copy_row(accumulated_qd_bar, world, qd_next_bar)
        if is_stored(step, cursor):
            rows.add_row(table[wp.static(SLOT.q_bar)], row, total_worlds, first_world, world, q_next_bar)
            rows.add_row(table[wp.static(SLOT.qd_bar)], row, total_worlds, first_world, world, qd_next_bar)
        norms = table[wp.static(SLOT.norms)]
        if norms != wp.uint64(0):
            rows.write(norms, step, total_worlds, 2, first_world + world, 0, row_norm(q_next_bar, world))
            rows.write(norms, step, total_worlds, 2, first_world + world, 1, row_norm(qd_next_bar, world))

    @wp.kernel(module=module, enable_backward=False)
    def store_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        dt: scalar,
        kinematic_dof: wp.array(dtype=int),
        kinematic_carries: wp.array(dtype=int),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Adjoint in
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        tau_bar: wp.array2d(dtype=scalar),
        control_bar: wp.array2d(dtype=scalar),
        # Data out
        last_bad_step: wp.array(dtype=int),
        # Adjoint out
        accumulated_q_bar: wp.array2d(dtype=scalar),
        accumulated_qd_bar: wp.array2d(dtype=scalar),
    ):
        """Store the adjoint. last_bad_step: the first step, seen from the end, whose gradient isn't finite; -1 if there
        is none.
        """
        world = wp.tid()
        step = cursor[wp.static(STEP)]
        rows.copy_row(q_bar, world, accumulated_q_bar)
        rows.copy_row(qd_bar, world, accumulated_qd_bar)
        rows.store_row(table[wp.static(SLOT.tau_bar)], step, total_worlds, first_world, world, tau_bar)
        rows.store_row(table[wp.static(SLOT.control_bar)], step, total_worlds, first_world, world, control_bar)
        address, bar_address = table[wp.static(SLOT.kinematic_qd)], table[wp.static(SLOT.kinematic_qd_bar)]
        prescribed.lead_adjoint(
            address, bar_address, step, total_worlds, first_world, world, dt, kinematic_dof, kinematic_carries, tau_bar,
            accumulated_qd_bar,
        )  # fmt: skip
        finite = (
            is_finite(q_bar, qd_bar, world)
            and rows.is_finite_row(tau_bar, world)
            and rows.is_finite_row(control_bar, world)
        )
        if not finite and last_bad_step[world] < 0:
            last_bad_step[world] = step

    @wp.func
    def stage_row(number: int, cursor: wp.array(dtype=int)):
        """Return the row of a stage among those of all steps, or of one if not all states are stored."""
        step = cursor[wp.static(STEP)]
        if cursor[wp.static(INTERVAL)] > 1:
            step = 0
        return step * wp.static(KEPT_STAGES) + number

    @wp.kernel(module=stage_module, enable_backward=False)
    def store_stage(
        # Model
        total_worlds: int,
        first_world: int,
        number: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        qd_solved: wp.array2d(dtype=scalar),
    ):
        """Store the velocities of a stage of the step at the cursor, if there is an array for them, over worlds."""
        world = wp.tid()
        row = stage_row(number, cursor)
        rows.store_row(table[wp.static(SLOT.stages)], row, total_worlds, first_world, world, qd_solved)

    @wp.kernel(module=stage_module, enable_backward=False)
    def load_stage(
        # Model
        total_worlds: int,
        first_world: int,
        number: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Data out
        qd_solved: wp.array2d(dtype=scalar),
    ):
        """Load the velocities of :func:`store_stage`; zeros for a world without gradients, over worlds."""
        world = wp.tid()
        address = table[wp.static(SLOT.stages)]
        if is_left_out(first_world + world, total_worlds, table):
            address = wp.uint64(0)
        row = stage_row(number, cursor)
        rows.load_row(address, row, total_worlds, first_world, world, qd_solved)

    @wp.kernel(module=stage_module, enable_backward=False)
    def store_solved(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        qd_solved: wp.array2d(dtype=scalar),
    ):
        """Store the velocities of the constraint solution of the step at the cursor, if there is an array for them,
        over worlds.
        """
        world = wp.tid()
        step = cursor[wp.static(STEP)]
        rows.store_row(table[wp.static(SLOT.solved)], step, total_worlds, first_world, world, qd_solved)

    @wp.kernel(module=stage_module, enable_backward=False)
    def add_solved_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        # Adjoint out
        qd_solved_bar: wp.array2d(dtype=scalar),
    ):
        """Add the loss's direct derivative in these velocities; zero for a world without gradients, over worlds."""
        world = wp.tid()
        if not is_left_out(first_world + world, total_worlds, table):
            step = cursor[wp.static(STEP)]
            rows.add_row(table[wp.static(SLOT.solved_bar)], step, total_worlds, first_world, world, qd_solved_bar)

    @wp.kernel(module=module, enable_backward=False)
    def accumulate(
        # Data in
        value: wp.array(dtype=scalar),
        # Data out
        total: wp.array(dtype=scalar),
    ):
        """Add value to total, over flat arrays."""
        i = wp.tid()
        total[i] += value[i]

    return SimpleNamespace(
        module=module,
        is_stored=is_stored,
        state_row=state_row,
        state_address=state_address,
        is_left_out=is_left_out,
        store_stage=store_stage,
        load_stage=load_stage,
        store_solved=store_solved,
        add_solved_adjoint=add_solved_adjoint,
        accumulate=accumulate,
        load_state=load_state,
        store_state=store_state,
        load_impulses=load_impulses,
        store_impulses=store_impulses,
        add_impulse_adjoint=add_impulse_adjoint,
        move_cursor=move_cursor,
        load_adjoint=load_adjoint,
        store_adjoint=store_adjoint,
    )
