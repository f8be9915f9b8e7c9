"""Weights of springs and dampers in a step from the middle: trapezoidal where they are soft, implicit where stiff.

A step from the position q_m with the velocity v, whose change is x, has the spring force ``-K (q_m - r + h (ph v + tk
x))`` and the damping force ``-D (v + td x)``. With the inertia m of a degree of freedom, ``X = h^2 K / m`` and ``Y = h D
/ m``,

    ph = X / (1 + X),   tk = 1/4 + 3/4 ph,   td = (1 + Y) / (2 + Y).

For soft ones these are the weights 0, 1/4 and 1/2 of the trapezoidal rule, of second order and without numerical
damping; for stiff ones all are 1, as in backward Euler. The inertia is a constant, that of the model's initial state:
it need only be right to a factor of a hundred.

The velocity gains and position gains of an actuator are weighted in the same way: with the force ``F - g (D (v + td x) +
h K (ph v + tk x))`` at the gear g it is an actuator with the gains ``td D`` and ``tk K`` at the end of the step, and
the force ``F - g v (D (1 - td) + h K (ph - tk))``, where ``1 - td = 1 / (2 + Y)`` and ``ph - tk = -1/4 / (1 + X)``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module, lane_types, warp_types


@functools.cache
def weighted_law_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of an actuator's weighted force law, for one precision."""
    vec3 = warp_types(scalar).vec3
    zero, one, two, quarter = scalar(0.0), scalar(1.0), scalar(2.0), scalar(0.25)

    @wp.func
    def weighted_law(law: vec3, v: scalar, gear: scalar, inertia: scalar, dt: scalar):
        """Return force, stiffness and damping of an actuator at the end of the step.

        Args:
            law: the same without weights.
            v: velocity of the joint in the middle.
            gear: of the actuator.
            inertia: m of the joint.
            dt: time step.
        """
        square = dt * gear * gear / inertia
        x = wp.max(dt * square * law[1], zero)
        y = wp.max(square * law[2], zero)
        ahead = x / (one + x)
        early = law[2] / (two + y) - quarter * dt * law[1] / (one + x)
        return vec3(
            law[0] - gear * v * early,
            (quarter + scalar(0.75) * ahead) * law[1],
            (one + y) / (two + y) * law[2],
        )

    @wp.func
    def weighted_law_adjoint(law: vec3, v: scalar, gear: scalar, inertia: scalar, dt: scalar, bar: vec3):
        """Return the adjoints of the law without weights, and a vector of those of v and gear."""
        square = dt * gear * gear / inertia
        x = wp.max(dt * square * law[1], zero)
        y = wp.max(square * law[2], zero)
        by_x = one / (one + x)
        by_y = one / (two + y)
        early = law[2] * by_y - quarter * dt * law[1] * by_x
        early_bar = -gear * v * bar[0]
        stiffness_bar = (quarter + scalar(0.75) * x * by_x) * bar[1] - quarter * dt * by_x * early_bar
        damping_bar = (one + y) * by_y * bar[2] + by_y * early_bar
        x_bar = law[1] * by_x * by_x * (scalar(0.75) * bar[1] + quarter * dt * early_bar)
        y_bar = law[2] * by_y * by_y * (bar[2] - early_bar)
        gear_bar = -v * early * bar[0]
        turn = two * dt * gear / inertia
        if x > zero:
            stiffness_bar += dt * square * x_bar
            gear_bar += dt * turn * law[1] * x_bar
        if y > zero:
            damping_bar += square * y_bar
            gear_bar += turn * law[2] * y_bar
        return vec3(bar[0], stiffness_bar, damping_bar), wp.vector(-gear * early * bar[0], gear_bar, dtype=scalar)

    return SimpleNamespace(weighted_law=weighted_law, weighted_law_adjoint=weighted_law_adjoint)


@functools.cache
def spring_softness(scalar: Any, lanes: int = 1) -> wp.Function:
    """Return the Warp function 1 / (1 + X) of a spring, for one precision and a number of worlds in a lane group."""
    real, a = lane_types(scalar, lanes).real, algebra(scalar, lanes)
    one = scalar(1.0)

    @wp.func
    def softness_of_spring(dt: scalar, stiffness: real, inertia: scalar):
        """Return 1 / (1 + X)."""
        return a.div(a.real(one), a.real(one) + (dt * dt / inertia) * stiffness)

    return softness_of_spring


@functools.cache
def joint_weight_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision and a number of worlds in a lane group, over groups."""
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    real, array2d, reals = t.real, wp.array2d(dtype=scalar), wp.array2d(dtype=t.real)
    JointParameters, Beginning = solver_structs(scalar).JointParameters, solver_structs(scalar).Beginning
    module = kernel_module("joint_weights", scalar, lanes)
    softness_of_spring = spring_softness(scalar, lanes)
    one, two, quarter = scalar(1.0), scalar(2.0), scalar(0.25)

    @wp.func
    def softness_of_damper(dt: scalar, damping: real, inertia: scalar):
        """Return 1 / (2 + Y)."""
        return a.div(a.real(one), a.real(two) + (dt / inertia) * damping)

    @wp.kernel(module=module, enable_backward=False)
    def weigh_joints(
        # Model
        dof_q: wp.array(dtype=int),
        joint_inertia: wp.array(dtype=scalar),
        dt: scalar,
        # Parameters
        joints: JointParameters,
        # Data in
        implicit: reals,
        # Data out
        joint_damping_now: array2d,
        joint_diagonal: reals,
    ):
        """Compute the damping of the velocity in the middle, and the implicit terms on the mass matrix's diagonal.

        joint_damping_now: D + h ph K [world, dof]. joint_diagonal: h td D + h^2 tk K with ``implicit``, the terms of
        actuators, if it has rows [dof, group].
        """
        group = wp.tid()
        for k in range(dof_q.shape[0]):
            damping = a.load_param_scalar(joints.damping, group, k)
            diagonal = dt * a.mul(damping, a.real(one) - softness_of_damper(dt, damping, joint_inertia[k]))
            if implicit.shape[0] > 0:
                diagonal += implicit[k, group]
            if dof_q[k] >= 0:
                spring = a.load_param_scalar(joints.stiffness, group, k)
                ahead = a.real(one) - softness_of_spring(dt, spring, joint_inertia[k])
                diagonal += (dt * dt) * a.mul(spring, a.real(quarter) + scalar(0.75) * ahead)
                damping += dt * a.mul(spring, ahead)
            a.store(joint_damping_now, group, k, damping)
            joint_diagonal[k, group] = diagonal

    @wp.kernel(module=module, enable_backward=False)
    def weigh_joints_adjoint(
        # Model
        dof_q: wp.array(dtype=int),
        joint_inertia: wp.array(dtype=scalar),
        dt: scalar,
        # Parameters
        joints: JointParameters,
        # Data in
        beginning: Beginning,
        qdd: array2d,
        joint_damping_now: array2d,
        # Adjoint in
        motion_weight: array2d,
        mass_bar_diagonal: reals,
        # Adjoint out
        beginning_bar: Beginning,
        joints_bar: JointParameters,
    ):
        """Propagate the adjoints of forces and diagonal to the state and the parameters of joints.

        motion_weight: -dt w. mass_bar_diagonal: contribution of the impulses to the adjoint of the diagonal.
        """
        group = wp.tid()
        for k in range(dof_q.shape[0]):
            w = -a.load_bar(motion_weight, group, k)
            v = a.load(beginning.qd, group, k)
            diagonal = mass_bar_diagonal[k, group] - a.mul(w, a.load(qdd, group, k))
            damping = a.load_param_scalar(joints.damping, group, k)
            a.add(beginning_bar.qd, group, k, -a.mul(w, a.load(joint_damping_now, group, k)))
            if joints_bar.armature.shape[0] > 0:
                a.add_scalar(joints_bar.armature, group, k, diagonal)
            if joints_bar.damping.shape[0] > 0:
                soft = softness_of_damper(dt, damping, joint_inertia[k])
                slope = a.real(one) - soft + (dt / joint_inertia[k]) * a.mul(damping, a.mul(soft, soft))
                a.add_scalar(joints_bar.damping, group, k, dt * a.mul(diagonal, slope) - a.mul(w, v))
            if dof_q[k] >= 0:
                spring = a.load_param_scalar(joints.stiffness, group, k)
                pull = a.mul(spring, w)
                a.add(beginning_bar.q, group, dof_q[k], -pull)
                if joints_bar.stiffness.shape[0] > 0:
                    soft = softness_of_spring(dt, spring, joint_inertia[k])
                    slope = a.real(one) - soft
                    slope += (dt * dt / joint_inertia[k]) * a.mul(spring, a.mul(soft, soft))
                    stretch = a.load(beginning.q, group, dof_q[k])
                    stretch += dt * a.mul(slope, v) - a.load_param_scalar(joints.rest_position, group, k)
                    bar = (dt * dt) * a.mul(diagonal, a.real(quarter) + scalar(0.75) * slope)
                    a.add_scalar(joints_bar.stiffness, group, k, bar - a.mul(w, stretch))
                if joints_bar.rest_position.shape[0] > 0:
                    a.add_scalar(joints_bar.rest_position, group, k, pull)

    return SimpleNamespace(module=module, weigh_joints=weigh_joints, weigh_joints_adjoint=weigh_joints_adjoint)
