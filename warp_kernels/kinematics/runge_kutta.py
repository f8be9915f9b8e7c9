"""Stages of a Runge-Kutta step on the configuration manifold, as in MuJoCo (``mj_RungeKutta``).

Rotations since the first stage are rotation vectors, whose rates are summed (Munthe-Kaas, *High order Runge-Kutta
methods on manifolds*, 1999). Angular velocities and their changes are summed along the axes of the link, also those of
a free joint, which are otherwise along the world's.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.kinematics.integrate import integrate_kernels
from warp_kernels.kinematics.joints import joint_motion_functions
from warp_kernels.types import FREE, kernel_module, warp_types


@functools.cache
def runge_kutta_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, launched over (link, world) unless they say otherwise, with Warp's own
    adjoint.
    """
    joints, rotations = joint_motion_functions(scalar), rotation_vector_functions(scalar)
    vec3 = warp_types(scalar).vec3
    unit_quaternion = integrate_kernels(scalar).unit_quaternion
    unit = integrate_kernels(scalar).unit
    module = kernel_module("runge_kutta", scalar, inlined=True)

    @wp.kernel(module=module, enable_backward=False)
    def copy_state(
        # Data in
        q_from: wp.array2d(dtype=scalar),
        qd_from: wp.array2d(dtype=scalar),
        # Data out
        q_to: wp.array2d(dtype=scalar),
        qd_to: wp.array2d(dtype=scalar),
    ):
        """Copy the state, over worlds."""
        world = wp.tid()
        for i in range(q_from.shape[1]):
            q_to[world, i] = q_from[world, i]
        for i in range(qd_from.shape[1]):
            qd_to[world, i] = qd_from[world, i]

    @wp.kernel(module=module, enable_backward=False)
    def add_reports(
        # Data in
        residual: wp.array(dtype=scalar),
        contact_overflow: wp.array(dtype=int),
        constraint_overflow: wp.array(dtype=int),
        # Data out
        stage_residual: wp.array(dtype=scalar),
        stage_contact_overflow: wp.array(dtype=int),
        stage_constraint_overflow: wp.array(dtype=int),
    ):
        """Merge reports, over worlds: the largest residual of all stages, and what exceeded the capacity in any of
        them.
        """
        world = wp.tid()
        stage_residual[world] = wp.max(stage_residual[world], residual[world])
        stage_contact_overflow[world] += contact_overflow[world]
        stage_constraint_overflow[world] += constraint_overflow[world]

    @wp.kernel(module=module)
    def keep_stage(
        # Model
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dt: scalar,
        share: scalar,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        rate_before: wp.array2d(dtype=scalar),
        # Data out
        rate: wp.array2d(dtype=scalar),
        change: wp.array2d(dtype=scalar),
    ):
        """Store a stage. rate: of the coordinates at a stage, after a step with ``rate_before``; change: of the
        velocity in a whole step.
        """
        link, world = wp.tid()
        kind = joint_type[link]
        k = joint_qd_start[link]
        linear = joints.linear_coordinates(kind)
        for n in range(linear):
            rate[world, k + n] = qd[world, k + n]
            change[world, k + n] = qd_solved[world, k + n] - qd[world, k + n]
        if joints.has_quaternion(kind):
            k += linear
            velocity = vec3(qd[world, k], qd[world, k + 1], qd[world, k + 2])
            gain = vec3(qd_solved[world, k], qd_solved[world, k + 1], qd_solved[world, k + 2]) - velocity
            if kind == FREE:
                axes = unit_quaternion(q, world, joint_q_start[link] + linear)
                velocity = wp.quat_rotate_inv(axes, velocity)
                gain = wp.quat_rotate_inv(axes, gain)
            before = vec3(rate_before[world, k], rate_before[world, k + 1], rate_before[world, k + 2])
            turning = rotations.rotation_vector_rate(share * dt * before, velocity)
            for axis in range(wp.static(3)):
                rate[world, k + axis] = turning[axis]
                change[world, k + axis] = gain[axis]

    @wp.kernel(module=module)
    def combine(
        # Data in
        first: wp.array2d(dtype=scalar),
        second: wp.array2d(dtype=scalar),
        third: wp.array2d(dtype=scalar),
        fourth: wp.array2d(dtype=scalar),
        # Data out
        mean: wp.array2d(dtype=scalar),
    ):
        """Compute the mean of four stages, with double weight for the middle ones, over (dof, world)."""
        k, world = wp.tid()
        middle = second[world, k] + third[world, k]
        mean[world, k] = (first[world, k] + scalar(2.0) * middle + fourth[world, k]) / scalar(6.0)

    @wp.kernel(module=module)
    def advance(
        # Model
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dt: scalar,
        share: scalar,
        # Data in
        q_first: wp.array2d(dtype=scalar),
        rate_first: wp.array2d(dtype=scalar),
        rate: wp.array2d(dtype=scalar),
        change: wp.array2d(dtype=scalar),
        # Data out
        q_there: wp.array2d(dtype=scalar),
        qd_there: wp.array2d(dtype=scalar),
    ):
        """Advance the first state by a rate and a change within a share of the step."""
        link, world = wp.tid()
        kind = joint_type[link]
        i = joint_q_start[link]
        k = joint_qd_start[link]
        linear = joints.linear_coordinates(kind)
        for n in range(linear):
            q_there[world, i + n] = q_first[world, i + n] + share * dt * rate[world, k + n]
            qd_there[world, k + n] = rate_first[world, k + n] + share * change[world, k + n]
        if joints.has_quaternion(kind):
            i += linear
            k += linear
            turn = rotations.rotation_exp(share * dt * vec3(rate[world, k], rate[world, k + 1], rate[world, k + 2]))
            after = unit(unit_quaternion(q_first, world, i) * turn)
            velocity = vec3(rate_first[world, k], rate_first[world, k + 1], rate_first[world, k + 2])
            velocity += share * vec3(change[world, k], change[world, k + 1], change[world, k + 2])
            if kind == FREE:
                velocity = wp.quat_rotate(after, velocity)
            for part in range(wp.static(4)):
                q_there[world, i + part] = after[part]
            for axis in range(wp.static(3)):
                qd_there[world, k + axis] = velocity[axis]

    @wp.kernel(module=module, enable_backward=False)
    def add_adjoint(
        # Adjoint in
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        tau_bar: wp.array2d(dtype=scalar),
        control_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        q_total: wp.array2d(dtype=scalar),
        qd_total: wp.array2d(dtype=scalar),
        tau_total: wp.array2d(dtype=scalar),
        control_total: wp.array2d(dtype=scalar),
    ):
        """Add the adjoint of the state and the inputs to other arrays, over worlds."""
        world = wp.tid()
        for i in range(q_bar.shape[1]):
            q_total[world, i] += q_bar[world, i]
        for i in range(qd_bar.shape[1]):
            qd_total[world, i] += qd_bar[world, i]
            tau_total[world, i] += tau_bar[world, i]
        for i in range(control_bar.shape[1]):
            control_total[world, i] += control_bar[world, i]

    return SimpleNamespace(
        module=module,
        copy_state=copy_state,
        add_reports=add_reports,
        keep_stage=keep_stage,
        combine=combine,
        advance=advance,
        add_adjoint=add_adjoint,
    )
