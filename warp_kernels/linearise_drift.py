"""Matrices of the derivatives of a step from the middle, from those of :mod:`warp_kernels.linearise`.

There columns are changes of the middle. The first half of the step makes them changes of the state before it.
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
def linearise_drift_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, without adjoints; see :func:`warp_kernels.linearise.linearise_kernels`."""
    t = warp_types(scalar)
    vec3, quat, inertia10 = t.vec3, t.quat, t.inertia
    joints, rotations, recentring = (
        joint_motion_functions(scalar), rotation_vector_functions(scalar), recentre_functions(scalar),
    )  # fmt: skip
    arm_of, shift_power = recentring.arm_of, recentring.shift_power
    module = kernel_module("linearise_drift", scalar, inlined=True)
    ints, array2d, Matrices = wp.array(dtype=int), wp.array2d(dtype=scalar), wp.array3d(dtype=scalar)

    @wp.func
    def matrices(table: wp.array(dtype=wp.uint64), slot: int, worlds: int, rows: int, columns: int):
        return wp.array(ptr=table[slot], shape=(worlds, rows, columns), dtype=scalar)

    @wp.func
    def three(rows: Matrices, world: int, row: int, k: int):
        return vec3(rows[world, row, k], rows[world, row, k + 1], rows[world, row, k + 2])

    @wp.func
    def three_of(x: array2d, world: int, k: int):
        return vec3(x[world, k], x[world, k + 1], x[world, k + 2])

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
    def reflect(rows: Matrices, world: int, nv: int):
        for k in range(nv):
            for column in range(rows.shape[2]):
                rows[world, k, column] = scalar(2.0) * rows[world, k, column] - rows[world, nv + k, column]

    @wp.kernel(module=module, enable_backward=False)
    def reflect_rows(
        # Model
        total_worlds: int,
        first_world: int,
        copies: int,
        # Data in
        table: wp.array(dtype=wp.uint64),
        qd: array2d,
        control: array2d,
        act: array2d,
    ):
        """Change the rows of the position velocity to those of the velocity of the second half of the step."""
        copy = first_world + wp.tid()
        if copy % copies != 0:
            return
        one_of, worlds = copy // copies, total_worlds // copies
        nv = qd.shape[1]
        rows = 2 * nv + act.shape[1]
        reflect(matrices(table, wp.static(SLOT.state_rows), worlds, rows, rows), one_of, nv)
        reflect(matrices(table, wp.static(SLOT.tau_rows), worlds, rows, nv), one_of, nv)
        reflect(matrices(table, wp.static(SLOT.control_rows), worlds, rows, control.shape[1]), one_of, nv)

    @wp.kernel(module=module, enable_backward=False)
    def first_drift_rows(
        # Model
        joint_type: ints,
        joint_q_start: ints,
        joint_qd_start: ints,
        total_worlds: int,
        first_world: int,
        copies: int,
        floating: ints,
        drift_time: scalar,
        # Data in
        table: wp.array(dtype=wp.uint64),
        link_inertia: wp.array2d(dtype=inertia10),
        first_q: array2d,
        first_qd: array2d,
        act: array2d,
    ):
        """Change the columns of a joint from changes of the middle to changes of the state before the step."""
        link, world = wp.tid()
        copy = first_world + world
        if copy % copies != 0:
            return
        one_of, worlds = copy // copies, total_worlds // copies
        nv = first_qd.shape[1]
        size = 2 * nv + act.shape[1]
        rows = matrices(table, wp.static(SLOT.state_rows), worlds, size, size)
        kind = joint_type[link]
        i = joint_q_start[link]
        k = joint_qd_start[link]
        count = joints.linear_coordinates(kind)
        if floating[link] == 1:
            spin = three_of(first_qd, world, k + 3)
            middle_arm = arm_of(link_inertia[link, world])
            arm = wp.quat_rotate_inv(rotations.rotation_exp(drift_time * spin), middle_arm)
        for row in range(size):
            turn_bar, speed_bar = vec3(), vec3()
            if joints.has_quaternion(kind):
                at = i + count
                before = wp.normalize(
                    quat(first_q[world, at], first_q[world, at + 1], first_q[world, at + 2], first_q[world, at + 3])
                )
                turn = drift_time * three_of(first_qd, world, k + count)
                after = joints.turned(kind, before, rotations.rotation_exp(turn))
                _kind, _before, first_bar, second_bar, _after, _direction = wp.grad(turned_beyond)(
                    kind, before, vec3(), turn, after, three(rows, one_of, row, k + count)
                )
                turn_bar = first_bar
                speed_bar = drift_time * second_bar
            if floating[link] == 1:
                arm_bar, path_bar, spin_bar, _dt, _p, _v = wp.grad(shift_power)(
                    arm, spin, spin, drift_time, three(rows, one_of, row, k), three(rows, one_of, row, nv + k)
                )
                turn_bar += wp.cross(arm, arm_bar)
                speed_bar += path_bar + spin_bar
            for n in range(count):
                rows[one_of, row, nv + k + n] += drift_time * rows[one_of, row, k + n]
            if joints.has_quaternion(kind):
                for axis in range(wp.static(3)):
                    rows[one_of, row, k + count + axis] = turn_bar[axis]
                    rows[one_of, row, nv + k + count + axis] += speed_bar[axis]

    return SimpleNamespace(module=module, reflect_rows=reflect_rows, first_drift_rows=first_drift_rows)
