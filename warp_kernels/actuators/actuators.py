"""Actuators: joint forces from control, and their adjoint.

An actuator with gear g sees the position g q and the velocity g v of its joint, and its force F acts on the joint as g
F. Control is clamped to its range first. With the velocity v+ at the end of the step,

    F = clamp(F_c - g k v+, centre - limit, centre + limit),   k = kd + dt kp,

where F_c is the force from control and the position at the start, and kp and kd are stiffness and damping, which may
depend on control: backward Euler, as for joint springs and dampers. There are three cases. If dt k isn't positive, as
for a torque, or under MuJoCo's law, for which dt is zero, the force is that of the present velocity, within its range.
Otherwise the force at the present velocity, ``F_0 = F_c - g k v``, decides:

- if it and zero are within the range, g F_0 is a joint force and ``dt g^2 k`` is added to the diagonal of the mass
  matrix;
- otherwise g centre is a joint force, and the remaining force a row of the constraint problem on the joint's velocity,
  with bias ``-(F_c - centre) / (g k)``, compliance ``1 / (dt g^2 k)`` and an impulse within ``dt |g| limit``; the
  solver finds out whether it stays at its limit.

Both have the same solution if the force ends within its range.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.midpoint.joint_weights import weighted_law_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import AFFINE, POSITION, TORQUE, VELOCITY, kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"actuator_kernels": [(False,), (True,)]}


@functools.cache
def actuator_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of an actuator's force law: the force F_c, stiffness and damping."""
    t = warp_types(scalar)
    common = row_functions(scalar)
    Gains = solver_structs(scalar).Gains
    vec2, vec3 = t.vec2, t.vec3

    @wp.func
    def held_input(control: wp.array2d(dtype=scalar), gains: Gains, world: int, i: int):
        """Clamp the input to its range."""
        return common.held_between(control[world, i], gains.control_lower, gains.control_upper, world, i)

    @wp.func
    def add_input_bar(
        u_bar: scalar,
        control: wp.array2d(dtype=scalar),
        gains: Gains,
        world: int,
        i: int,
        control_bar: wp.array2d(dtype=scalar),
        gains_bar: Gains,
    ):
        """Propagate the adjoint of the clamped input to the input, or to the active bound of its range."""
        if control[world, i] < common.value_of(gains.control_lower, world, i):
            common.add_at(gains_bar.control_lower, world, i, u_bar)
        elif control[world, i] > common.value_of(gains.control_upper, world, i):
            common.add_at(gains_bar.control_upper, world, i, u_bar)
        else:
            control_bar[world, i] += u_bar

    @wp.func
    def force_law(kind: int, u: scalar, position: scalar, gains: Gains, world: int, i: int):
        """Return F_c, the force without the contribution of the velocity at the end of the step; stiffness kp; damping
        kd.
        """
        force = u
        stiffness = scalar(0.0)
        damping = scalar(0.0)
        if kind != TORQUE:
            damping = common.value_of(gains.kd, world, i)
        if kind == VELOCITY:
            force = damping * u
        if kind == POSITION:
            stiffness = common.value_of(gains.kp, world, i)
            force = stiffness * (u - position)
        if kind == AFFINE:
            stiffness = common.value_of(gains.kp, world, i) + common.value_of(gains.kp_per_input, world, i) * u
            damping += common.value_of(gains.kd_per_input, world, i) * u
            force = common.value_of(gains.gain, world, i) * u + common.value_of(gains.offset, world, i)
            force -= stiffness * position
        return vec3(force, stiffness, damping)

    @wp.func
    def law_adjoint(
        kind: int, u: scalar, position: scalar, bar: vec3, gains: Gains, world: int, i: int, gains_bar: Gains
    ):
        """Return the adjoints of control and position; add those of the gains to ``gains_bar``."""
        kp = common.value_of(gains.kp, world, i)
        kd = common.value_of(gains.kd, world, i)
        force_bar = bar[0]
        stiffness_bar = bar[1]
        damping_bar = bar[2]
        u_bar = force_bar
        position_bar = scalar(0.0)
        if kind == VELOCITY:
            u_bar = kd * force_bar
            damping_bar += u * force_bar
        if kind == POSITION:
            u_bar = kp * force_bar
            position_bar = -kp * force_bar
            stiffness_bar += (u - position) * force_bar
        if kind == AFFINE:
            kp_per_input = common.value_of(gains.kp_per_input, world, i)
            stiffness_bar -= position * force_bar
            position_bar = -(kp + kp_per_input * u) * force_bar
            u_bar = common.value_of(gains.gain, world, i) * force_bar + kp_per_input * stiffness_bar
            u_bar += common.value_of(gains.kd_per_input, world, i) * damping_bar
            common.add_at(gains_bar.gain, world, i, u * force_bar)
            common.add_at(gains_bar.offset, world, i, force_bar)
            common.add_at(gains_bar.kp_per_input, world, i, u * stiffness_bar)
            common.add_at(gains_bar.kd_per_input, world, i, u * damping_bar)
        if kind == POSITION or kind == AFFINE:
            common.add_at(gains_bar.kp, world, i, stiffness_bar)
        if kind != TORQUE:
            common.add_at(gains_bar.kd, world, i, damping_bar)
        return vec2(u_bar, position_bar)

    @wp.func
    def as_force(law: vec3, v: scalar, gear: scalar, centre: scalar, limit: scalar, dt: scalar):
        """Return the joint force and the diagonal term of the mass matrix. Without such a term the force is within its
        range.
        """
        k = law[2] + dt * law[1]
        force = law[0] - gear * k * v
        if dt * k <= scalar(0.0):
            force = common.held_within(force, centre - limit, centre + limit)
            k = scalar(0.0)
        return vec2(gear * force, dt * gear * gear * k)

    @wp.func
    def without_damping(law: vec3, v: scalar, gear: scalar, centre: scalar, limit: scalar):
        """Return the joint force without the part that is proportional to the velocity; all of it at its limits."""
        force = law[0] - gear * law[2] * v
        if wp.abs(force - centre) < limit:
            force = law[0]
        else:
            force = common.held_within(force, centre - limit, centre + limit)
        return gear * force

    @wp.func
    def as_row(law: vec3, gear: scalar, centre: scalar, limit: scalar, dt: scalar):
        """Return bias, compliance and largest impulse of the row."""
        k = law[2] + dt * law[1]
        return vec3((centre - law[0]) / (gear * k), scalar(1.0) / (dt * gear * gear * k), dt * wp.abs(gear) * limit)

    @wp.func
    def as_force_adjoint(law: vec3, v: scalar, gear: scalar, centre: scalar, limit: scalar, dt: scalar, bar: vec2):
        """Return the adjoints of the law, and of velocity, gear, centre and limit."""
        k = law[2] + dt * law[1]
        force = law[0] - gear * k * v
        force_bar = gear * bar[0]
        k_bar = scalar(0.0)
        gear_bar = bar[0] * force
        centre_bar = scalar(0.0)
        limit_bar = scalar(0.0)
        if dt * k > scalar(0.0):
            k_bar = dt * gear * gear * bar[1]
            gear_bar += scalar(2.0) * dt * gear * k * bar[1]
        elif wp.abs(force - centre) > limit:
            sign = wp.sign(force - centre)
            gear_bar = bar[0] * (centre + sign * limit)
            centre_bar = force_bar
            limit_bar = sign * force_bar
            force_bar = scalar(0.0)
        k_bar -= gear * v * force_bar
        gear_bar -= k * v * force_bar
        others = wp.vector(-gear * k * force_bar, gear_bar, centre_bar, limit_bar, dtype=scalar)
        return vec3(force_bar, dt * k_bar, k_bar), others

    @wp.func
    def as_row_adjoint(
        law: vec3, gear: scalar, centre: scalar, limit: scalar, dt: scalar, bar: vec3, force_bar: scalar
    ):
        """Return the adjoints of the row and of the joint force ``gear centre`` added to it."""
        k = law[2] + dt * law[1]
        row = as_row(law, gear, centre, limit, dt)
        bias_bar = bar[0] / (gear * k)
        k_bar = -(bar[0] * row[0] + bar[1] * row[1]) / k
        gear_bar = centre * force_bar + dt * wp.sign(gear) * limit * bar[2]
        gear_bar -= (bar[0] * row[0] + scalar(2.0) * bar[1] * row[1]) / gear
        centre_bar = bias_bar + gear * force_bar
        others = wp.vector(scalar(0.0), gear_bar, centre_bar, dt * wp.abs(gear) * bar[2], dtype=scalar)
        return vec3(-bias_bar, dt * k_bar, k_bar), others

    return SimpleNamespace(
        held_input=held_input,
        add_input_bar=add_input_bar,
        force_law=force_law,
        law_adjoint=law_adjoint,
        as_force=as_force,
        without_damping=without_damping,
        as_row=as_row,
        as_force_adjoint=as_force_adjoint,
        as_row_adjoint=as_row_adjoint,
    )


@functools.cache
def actuator_kernels(scalar: Any, weighted: bool = False) -> SimpleNamespace:
    """Return the kernels for one precision, one thread per world.

    Args:
        scalar: precision.
        weighted: whether gains are weighted, see :mod:`warp_kernels.solver.midpoint.joint_weights`.
    """
    t = warp_types(scalar)
    f = actuator_functions(scalar)
    common = row_functions(scalar)
    Gains = solver_structs(scalar).Gains
    vec2, vec3 = t.vec2, t.vec3
    weights = weighted_law_functions(scalar)
    module = kernel_module("weighted_actuators" if weighted else "actuators", scalar)

    @wp.kernel(module=module, enable_backward=False)
    @used_arguments_only
    def actuate(
        # Model
        joint_actuator: wp.array(dtype=int),
        actuator_kind: wp.array(dtype=int),
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        joint_inertia: wp.array(dtype=scalar),
        dt: scalar,
        # Parameters
        gains: Gains,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        tau: wp.array2d(dtype=scalar),
        control: wp.array2d(dtype=scalar),
        # Data out
        joint_force: wp.array2d(dtype=scalar),
        implicit: wp.array2d(dtype=scalar),
        actuator_row: wp.array2d(dtype=vec3),
    ):
        """Compute the joint forces of actuators and their implicit terms.

        joint_force: tau including the actuators' [world, dof]; implicit: their share of the mass matrix's diagonal
            [dof, world].
        actuator_row: bias, compliance and largest impulse [actuator, world]; compliance zero if the actuator has no
            row.
        """
        world = wp.tid()
        for k in range(tau.shape[1]):
            joint_force[world, k] = tau[world, k]
            implicit[k, world] = scalar(0.0)
        for number in range(joint_actuator.shape[0]):
            i = joint_actuator[number]
            kind = actuator_kind[i]
            k = actuator_dof[i]
            u = f.held_input(control, gains, world, i)
            g = common.value_of(gains.gear, world, i)
            centre = common.value_of(gains.force_centre, world, i)
            most = common.value_of(gains.force_limit, world, i)
            law = f.force_law(kind, u, g * q[world, dof_q[k]], gains, world, i)
            if wp.static(weighted):
                law = weights.weighted_law(law, qd[world, k], g, joint_inertia[k], dt)
            push = f.as_force(law, qd[world, k], g, centre, most, dt)
            # The velocity at the end of the step can only move a force towards zero, unless an impact hits the joint.
            apart = wp.max(wp.abs(push[0] - g * centre), wp.abs(g * centre))
            if push[1] > scalar(0.0) and apart > wp.abs(g) * most:
                actuator_row[i, world] = f.as_row(law, g, centre, most, dt)
                joint_force[world, k] += g * centre
            else:
                actuator_row[i, world] = vec3()
                joint_force[world, k] += push[0]
                implicit[k, world] += push[1]

    @wp.kernel(module=module, enable_backward=False)
    @used_arguments_only
    def actuator_adjoint(
        # Model
        joint_actuator: wp.array(dtype=int),
        actuator_kind: wp.array(dtype=int),
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        joint_inertia: wp.array(dtype=scalar),
        dt: scalar,
        # Parameters
        gains: Gains,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        control: wp.array2d(dtype=scalar),
        actuator_row: wp.array2d(dtype=vec3),
        # Adjoint in
        tau_bar: wp.array2d(dtype=scalar),
        mass_bar_diagonal: wp.array2d(dtype=scalar),
        actuator_row_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        control_bar: wp.array2d(dtype=scalar),
        gains_bar: Gains,
    ):
        """Propagate adjoints to control, state and gains through the joint force and the diagonal, or through the row.

        mass_bar_diagonal is that of the impulses; the free step's share of the diagonal, ``-w (v* - v)`` with ``tau_bar
        = dt w``, is added here.
        """
        world = wp.tid()
        for number in range(joint_actuator.shape[0]):
            i = joint_actuator[number]
            kind = actuator_kind[i]
            k = actuator_dof[i]
            u = f.held_input(control, gains, world, i)
            g = common.value_of(gains.gear, world, i)
            centre = common.value_of(gains.force_centre, world, i)
            most = common.value_of(gains.force_limit, world, i)
            position = q[world, dof_q[k]]
            law = f.force_law(kind, u, g * position, gains, world, i)
            if wp.static(weighted):
                given = law
                law = weights.weighted_law(given, qd[world, k], g, joint_inertia[k], dt)
            if actuator_row[i, world][1] > scalar(0.0):
                law_bar, bars = f.as_row_adjoint(
                    law, g, centre, most, dt, actuator_row_bar[i, world], tau_bar[world, k]
                )
            else:
                bar = vec2(tau_bar[world, k], mass_bar_diagonal[k, world] - tau_bar[world, k] * qdd[world, k])
                law_bar, bars = f.as_force_adjoint(law, qd[world, k], g, centre, most, dt, bar)
            if wp.static(weighted):
                law_bar, weight_bars = weights.weighted_law_adjoint(
                    given, qd[world, k], g, joint_inertia[k], dt, law_bar
                )
                qd_bar[world, k] += weight_bars[0]
                common.add_at(gains_bar.gear, world, i, weight_bars[1])
            input_bar = f.law_adjoint(kind, u, g * position, law_bar, gains, world, i, gains_bar)
            f.add_input_bar(input_bar[0], control, gains, world, i, control_bar, gains_bar)
            q_bar[world, dof_q[k]] += g * input_bar[1]
            qd_bar[world, k] += bars[0]
            common.add_at(gains_bar.gear, world, i, bars[1] + position * input_bar[1])
            common.add_at(gains_bar.force_centre, world, i, bars[2])
            common.add_at(gains_bar.force_limit, world, i, bars[3])

    return SimpleNamespace(module=module, actuate=actuate, actuator_adjoint=actuator_adjoint)
