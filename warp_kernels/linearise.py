"""Matrices of a step's derivatives, row by row: seeds of the backward passes, and storage of their results.

A backward pass gives the row of one component of the next velocity. The coordinates move along the next velocity too,
each joint's along its own: their rows follow from those, by the derivatives of that motion only. If contacts may
bounce, coordinates move along another velocity, the position velocity, whose rows are computed first, in the slots of
those of the coordinates. The rows of floating bases include the final stage of a step, see
:mod:`warp_kernels.kinematics.recentre`.

One step of a world may be taken in ``copies``, each of which computes its own rows: copy c of world w has the index ``w
copies + c``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.kinematics.joints import joint_motion_functions
from warp_kernels.kinematics.recentre import recentre_functions
from warp_kernels.rollout.records import SLOT
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def linearise_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, none with an adjoint.

    ``first_world`` is the index of this shard's first copy among the ``total_worlds`` copies of all worlds. The table
    has the addresses of the matrices [worlds, 2 nv + na, n], with n = 2 nv + na for the state, nv for joint forces and
    nu for inputs of actuators.
    """
    t = warp_types(scalar)
    vec3, quat, mat33, inertia10 = t.vec3, t.quat, t.mat33, t.inertia
    recentring = recentre_functions(scalar)
    arm_of, shift_power = recentring.arm_of, recentring.shift_power
    joints, rotations = joint_motion_functions(scalar), rotation_vector_functions(scalar)
    module = kernel_module("linearise", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)
    Matrices = wp.array3d(dtype=scalar)

    @wp.func
    def matrices(table: wp.array(dtype=wp.uint64), slot: int, worlds: int, rows: int, columns: int):
        return wp.array(ptr=table[slot], shape=(worlds, rows, columns), dtype=scalar)

    @wp.func
    def row_of(copy: int, copies: int, nv: int, row_cursor: wp.array(dtype=int), path: wp.array2d(dtype=scalar)):
        """Return the row that a copy computes now. Those before nv are rows of the position velocity, if it isn't the
        next one; those from 2 nv on are of the states of actuators.
        """
        row = row_cursor[0] * copies + copy
        if path.shape[0] == 0:
            row += nv
        return row

    @wp.func
    def quaternion_tangent(kind: int, q: quat, q_bar: quat):
        """Convert the derivative in a quaternion to that in a small rotation along the axes of its angular velocity."""
        bar = vec3()
        for axis in range(wp.static(3)):
            turn = quat()
            turn[axis] = scalar(0.5)
            change = joints.turned(kind, q, turn)
            for part in range(wp.static(4)):
                bar[axis] += q_bar[part] * change[part]
        return bar

    @wp.func
    def turned_beyond(kind: int, before: quat, first: vec3, second: vec3, after: quat, direction: vec3):
        """Return the component along a direction of the rotation by which two successive rotations carry a joint beyond
        a quaternion ``after``.
        """
        there = joints.turned(
            kind, joints.turned(kind, before, rotations.rotation_exp(first)), rotations.rotation_exp(second)
        )
        return wp.dot(direction, rotations.rotation_log(joints.turn_between(kind, after, there)))

    @wp.func
    def follow_velocity(rows: Matrices, world: int, k: int, path: int, dt: scalar):
        """Compute the row of a coordinate that moves along its velocity, except for its own change."""
        for column in range(rows.shape[2]):
            rows[world, k, column] = dt * rows[world, path, column]

    @wp.func
    def follow_turn(rows: Matrices, world: int, k: int, path: int, in_turn: mat33):
        """Compute the three rows of a rotation, except for its own change. They may overwrite those of the velocity."""
        for column in range(rows.shape[2]):
            velocity = vec3(rows[world, path, column], rows[world, path + 1, column], rows[world, path + 2, column])
            turned = in_turn * velocity
            for axis in range(wp.static(3)):
                rows[world, k + axis, column] = turned[axis]

    @wp.func
    def add_turned(rows: Matrices, world: int, k: int, spin: int, in_spin: mat33):
        """Add a matrix times the three rows of an angular velocity to three rows."""
        for column in range(rows.shape[2]):
            velocity = vec3(rows[world, spin, column], rows[world, spin + 1, column], rows[world, spin + 2, column])
            added = in_spin * velocity
            for axis in range(wp.static(3)):
                rows[world, k + axis, column] += added[axis]

    @wp.func
    def add_shift(
        rows: Matrices, world: int, k: int, path: int, speed: int, in_path: mat33, then_path: mat33, then_spin: mat33
    ):
        """Add the contribution of the rows of a base's angular velocities to the rows of its position and velocity."""
        add_turned(rows, world, k, path, in_path)
        add_turned(rows, world, speed, path, then_path)
        add_turned(rows, world, speed, speed + 3, then_spin)

    @wp.kernel(module=module, enable_backward=False)
    def begin_row(
        # Model
        first_world: int,
        copies: int,
        # Data in
        row_cursor: wp.array(dtype=int),
        # Adjoint out
        qd_path_bar: wp.array2d(dtype=scalar),
        qd_next_bar: wp.array2d(dtype=scalar),
        act_next_bar: wp.array2d(dtype=scalar),
    ):
        """Set the seed of a row. qd_path_bar: no rows if the position velocity is the next one."""
        world = wp.tid()
        nv = qd_next_bar.shape[1]
        row = row_of((first_world + world) % copies, copies, nv, row_cursor, qd_path_bar)
        for k in range(nv):
            qd_next_bar[world, k] = wp.where(row == nv + k, one, zero)
            if qd_path_bar.shape[0] > 0:
                qd_path_bar[world, k] = wp.where(row == k, one, zero)
        for k in range(act_next_bar.shape[1]):
            act_next_bar[world, k] = wp.where(row == 2 * nv + k, one, zero)

    @wp.kernel(module=module, enable_backward=False)
    def end_row(
        # Model
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        total_worlds: int,
        first_world: int,
        copies: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        row_cursor: wp.array(dtype=int),
        q: wp.array2d(dtype=scalar),
        # Adjoint in
        qd_path_bar: wp.array2d(dtype=scalar),
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        tau_bar: wp.array2d(dtype=scalar),
        control_bar: wp.array2d(dtype=scalar),
        act_bar: wp.array2d(dtype=scalar),
    ):
        """Write the result of a backward pass into the row that it began with."""
        world = wp.tid()
        copy = first_world + world
        one_of, worlds = copy // copies, total_worlds // copies
        nv, nu = qd_bar.shape[1], control_bar.shape[1]
        row = row_of(copy % copies, copies, nv, row_cursor, qd_path_bar)
        rows = 2 * nv + act_bar.shape[1]
        if row >= rows:
            return
        state = matrices(table, wp.static(SLOT.state_rows), worlds, rows, rows)
        tau = matrices(table, wp.static(SLOT.tau_rows), worlds, rows, nv)
        control = matrices(table, wp.static(SLOT.control_rows), worlds, rows, nu)
        for link in range(joint_type.shape[0]):
            kind = joint_type[link]
            i = joint_q_start[link]
            k = joint_qd_start[link]
            count = joints.linear_coordinates(kind)
            for n in range(count):
                state[one_of, row, k + n] = q_bar[world, i + n]
            if joints.has_quaternion(kind):
                i += count
                at = quat(q[world, i], q[world, i + 1], q[world, i + 2], q[world, i + 3])
                at_bar = quat(q_bar[world, i], q_bar[world, i + 1], q_bar[world, i + 2], q_bar[world, i + 3])
                bar = quaternion_tangent(kind, at, at_bar)
                for axis in range(wp.static(3)):
                    state[one_of, row, k + count + axis] = bar[axis]
        for k in range(nv):
            state[one_of, row, nv + k] = qd_bar[world, k]
            tau[one_of, row, k] = tau_bar[world, k]
        for k in range(nu):
            control[one_of, row, k] = control_bar[world, k]
        for k in range(act_bar.shape[1]):
            state[one_of, row, 2 * nv + k] = act_bar[world, k]

    @wp.kernel(module=module, enable_backward=False)
    def coordinate_rows(
        # Model
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        total_worlds: int,
        first_world: int,
        copies: int,
        floating: wp.array(dtype=int),
        dt: scalar,
        # Data in
        table: wp.array(dtype=wp.uint64),
        link_inertia: wp.array2d(dtype=inertia10),
        q: wp.array2d(dtype=scalar),
        qd_path: wp.array2d(dtype=scalar),
        qd_next: wp.array2d(dtype=scalar),
        control: wp.array2d(dtype=scalar),
        act: wp.array2d(dtype=scalar),
        # Adjoint in
        qd_path_bar: wp.array2d(dtype=scalar),
    ):
        """Compute the rows of a joint's next coordinates, from the complete rows of their velocity."""
        link, world = wp.tid()
        copy = first_world + world
        if copy % copies != 0:
            return
        one_of, worlds = copy // copies, total_worlds // copies
        nv = qd_path.shape[1]
        rows = 2 * nv + act.shape[1]
        state_rows = matrices(table, wp.static(SLOT.state_rows), worlds, rows, rows)
        tau_rows = matrices(table, wp.static(SLOT.tau_rows), worlds, rows, nv)
        control_rows = matrices(table, wp.static(SLOT.control_rows), worlds, rows, control.shape[1])
        kind = joint_type[link]
        i = joint_q_start[link]
        k = joint_qd_start[link]
        path = k
        if qd_path_bar.shape[0] == 0:
            path += nv
        count = joints.linear_coordinates(kind)
        for n in range(count):
            follow_velocity(state_rows, one_of, k + n, path + n, dt)
            follow_velocity(tau_rows, one_of, k + n, path + n, dt)
            follow_velocity(control_rows, one_of, k + n, path + n, dt)
            state_rows[one_of, k + n, k + n] += one
        if floating[link] == 1:
            arm = arm_of(link_inertia[link, world])
            in_path, in_turn = mat33(), mat33()
            then_path, then_spin, then_turn = mat33(), mat33(), mat33()
            for axis in range(wp.static(3)):
                direction = vec3()
                direction[axis] = one
                turn = vec3(qd_path[world, k + 3], qd_path[world, k + 4], qd_path[world, k + 5])
                spin = vec3(qd_next[world, k + 3], qd_next[world, k + 4], qd_next[world, k + 5])
                arm_bar, path_bar, _spin, _dt, _p, _v = wp.grad(shift_power)(arm, turn, spin, dt, direction, vec3())
                later_bar, later_path, later_spin, _dt, _p, _v = wp.grad(shift_power)(
                    arm, turn, spin, dt, vec3(), direction
                )
                turn_bar = wp.cross(arm, arm_bar)
                later_turn = wp.cross(arm, later_bar)
                for j in range(wp.static(3)):
                    in_path[axis, j] = path_bar[j]
                    in_turn[axis, j] = turn_bar[j]
                    then_path[axis, j] = later_path[j]
                    then_spin[axis, j] = later_spin[j]
                    then_turn[axis, j] = later_turn[j]
            speed = nv + k
            add_shift(state_rows, one_of, k, path + 3, speed, in_path, then_path, then_spin)
            add_shift(tau_rows, one_of, k, path + 3, speed, in_path, then_path, then_spin)
            add_shift(control_rows, one_of, k, path + 3, speed, in_path, then_path, then_spin)
            for axis in range(wp.static(3)):
                for j in range(wp.static(3)):
                    state_rows[one_of, k + axis, k + 3 + j] += in_turn[axis, j]
                    state_rows[one_of, speed + axis, k + 3 + j] += then_turn[axis, j]
        if joints.has_quaternion(kind):
            i += count
            k += count
            path += count
            before = wp.normalize(quat(q[world, i], q[world, i + 1], q[world, i + 2], q[world, i + 3]))
            turn = dt * vec3(qd_path[world, k], qd_path[world, k + 1], qd_path[world, k + 2])
            after = joints.turned(kind, before, rotations.rotation_exp(turn))
            in_tangent = mat33()
            in_velocity = mat33()
            for axis in range(wp.static(3)):
                direction = vec3()
                direction[axis] = one
                _kind, _before, first, second, _after, _direction = wp.grad(turned_beyond)(
                    kind, before, vec3(), turn, after, direction
                )
                for j in range(wp.static(3)):
                    in_tangent[axis, j] = first[j]
                    in_velocity[axis, j] = dt * second[j]
            follow_turn(state_rows, one_of, k, path, in_velocity)
            follow_turn(tau_rows, one_of, k, path, in_velocity)
            follow_turn(control_rows, one_of, k, path, in_velocity)
            for axis in range(wp.static(3)):
                for j in range(wp.static(3)):
                    state_rows[one_of, k + axis, k + j] += in_tangent[axis, j]

    return SimpleNamespace(module=module, begin_row=begin_row, end_row=end_row, coordinate_rows=coordinate_rows)
