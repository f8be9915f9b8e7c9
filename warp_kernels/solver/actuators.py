"""Actuators: joint forces from control, and their adjoint.

An actuator with gear g sees the position g q and the velocity g v of its joint, and its force F acts on the joint as g F. Control
is clamped to its range first. With the velocity v+ at the end of the step,

    F = clamp(F_c - g k v+, -limit, limit),   k = kd + dt kp,

where F_c is the force that control and the position at the start ask for: backward Euler, as for joint springs and dampers. It is
solved in one of two ways, chosen by the force that the present velocity would give, ``F_0 = F_c - g k v``:

- within the limit, g F_0 is a joint force and ``dt g^2 k`` stands on the diagonal of the mass matrix;
- beyond it, the actuator is a row of the constraint problem on the joint's velocity, with bias ``-F_c / (g k)``, softness
  ``1 / (dt g^2 k)`` and an impulse within ``dt |g| limit``; the solver finds out whether it stays at its limit.

Both have the same solution where the force ends within its limit.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.rows.shared import row_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import POSITION, TORQUE, VELOCITY, kernel_module, warp_types


@functools.cache
def actuator_functions(scalar: Any) -> SimpleNamespace:
    """The force law of one actuator in pure functions. kp and kd are zero where the kind has none."""
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3

    @wp.func
    def command(kind: int, u: scalar, q: scalar, gear: scalar, kp: scalar, kd: scalar):
        """The force F_c, before the velocity at the end of the step takes its part of it."""
        force = u
        if kind == POSITION:
            force = kp * (u - gear * q)
        if kind == VELOCITY:
            force = kd * u
        return force

    @wp.func
    def damping(kind: int, kp: scalar, kd: scalar, dt: scalar):
        """k, the force that one unit of the actuator's velocity at the end of the step takes away."""
        gain = scalar(0.0)
        if kind == POSITION:
            gain = kd + dt * kp
        if kind == VELOCITY:
            gain = kd
        return gain

    @wp.func
    def as_force(
        kind: int,
        u: scalar,
        q: scalar,
        v: scalar,
        gear: scalar,
        kp: scalar,
        kd: scalar,
        limit: scalar,
        dt: scalar,
    ):
        """Joint force, and entry on the diagonal of the mass matrix. Only that of a torque is limited here."""
        force = command(kind, u, q, gear, kp, kd)
        gain = damping(kind, kp, kd, dt)
        if kind == TORQUE:
            force = wp.clamp(force, -limit, limit)
        return vec2(gear * (force - gear * gain * v), dt * gear * gear * gain)

    @wp.func
    def as_row(
        kind: int, u: scalar, q: scalar, gear: scalar, kp: scalar, kd: scalar, limit: scalar, dt: scalar
    ):  # fmt: skip
        """Bias, softness and largest impulse of the row."""
        force = command(kind, u, q, gear, kp, kd)
        gain = damping(kind, kp, kd, dt)
        return vec3(-force / (gear * gain), scalar(1.0) / (dt * gear * gear * gain), dt * wp.abs(gear) * limit)

    @wp.func
    def force_power(
        kind: int,
        u: scalar,
        q: scalar,
        v: scalar,
        gear: scalar,
        kp: scalar,
        kd: scalar,
        limit: scalar,
        dt: scalar,
        bar: vec2,
    ):
        return wp.dot(as_force(kind, u, q, v, gear, kp, kd, limit, dt), bar)

    @wp.func
    def row_power(
        kind: int,
        u: scalar,
        q: scalar,
        gear: scalar,
        kp: scalar,
        kd: scalar,
        limit: scalar,
        dt: scalar,
        bar: vec3,
    ):
        return wp.dot(as_row(kind, u, q, gear, kp, kd, limit, dt), bar)

    return SimpleNamespace(as_force=as_force, as_row=as_row, force_power=force_power, row_power=row_power)


@functools.cache
def actuator_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision, one thread per world."""
    t = warp_types(scalar)
    f = actuator_functions(scalar)
    common = row_functions(scalar)
    Gains = solver_structs(scalar).Gains
    vec2, vec3 = t.vec2, t.vec3
    # wp.grad takes plain names only.
    force_power, row_power = f.force_power, f.row_power
    module = kernel_module("actuators", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def actuate(
        # Model
        actuator_kind: wp.array(dtype=int),
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
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
        """joint_force: tau and the actuators' [world, dof]; implicit: their share of the mass matrix's diagonal [dof, world].

        actuator_row: bias, softness and largest impulse [actuator, world]; softness zero where the actuator is no row.
        """
        world = wp.tid()
        for k in range(tau.shape[1]):
            joint_force[world, k] = tau[world, k]
            implicit[k, world] = scalar(0.0)
        for i in range(actuator_dof.shape[0]):
            kind = actuator_kind[i]
            k = actuator_dof[i]
            lower = common.value_of(gains.control_lower, world, i)
            upper = common.value_of(gains.control_upper, world, i)
            u = wp.clamp(control[world, i], lower, upper)
            position = q[world, dof_q[k]]
            g = common.value_of(gains.gear, world, i)
            p = common.value_of(gains.kp, world, i)
            d = common.value_of(gains.kd, world, i)
            most = common.value_of(gains.force_limit, world, i)
            push = f.as_force(kind, u, position, qd[world, k], g, p, d, most, dt)
            if push[1] > scalar(0.0) and wp.abs(push[0]) > wp.abs(g) * most:
                actuator_row[i, world] = f.as_row(kind, u, position, g, p, d, most, dt)
            else:
                actuator_row[i, world] = vec3()
                joint_force[world, k] += push[0]
                implicit[k, world] += push[1]

    # A module of its own, for wp.grad (see warp_kernels.solver.pgs).
    adjoint_module = kernel_module("actuators_adjoint", scalar)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def actuator_adjoint(
        # Model
        actuator_kind: wp.array(dtype=int),
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
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
        """What reaches control, state and gains through the joint force and the diagonal, or through the row.

        mass_bar_diagonal is that of the impulses; the free step's share of the diagonal, ``-w (v* - v)`` with ``tau_bar = dt w``,
        comes on top here.
        """
        world = wp.tid()
        for i in range(actuator_dof.shape[0]):
            kind = actuator_kind[i]
            k = actuator_dof[i]
            lower = common.value_of(gains.control_lower, world, i)
            upper = common.value_of(gains.control_upper, world, i)
            u = wp.clamp(control[world, i], lower, upper)
            position = q[world, dof_q[k]]
            g = common.value_of(gains.gear, world, i)
            p = common.value_of(gains.kp, world, i)
            d = common.value_of(gains.kd, world, i)
            most = common.value_of(gains.force_limit, world, i)
            v_bar = scalar(0.0)
            if actuator_row[i, world][1] > scalar(0.0):
                _kind, u_bar, p_bar, gear_here, kp_here, kd_here, limit_here, _dt, _row_bar = wp.grad(row_power)(
                    kind, u, position, g, p, d, most, dt, actuator_row_bar[i, world]
                )
            else:
                bar = vec2(tau_bar[world, k], mass_bar_diagonal[k, world] - tau_bar[world, k] * qdd[world, k])
                _kind, u_bar, p_bar, v_bar, gear_here, kp_here, kd_here, limit_here, _dt, _force_bar = wp.grad(
                    force_power
                )(kind, u, position, qd[world, k], g, p, d, most, dt, bar)
            if control[world, i] < lower:
                common.add_at(gains_bar.control_lower, world, i, u_bar)
            elif control[world, i] > upper:
                common.add_at(gains_bar.control_upper, world, i, u_bar)
            else:
                control_bar[world, i] += u_bar
            q_bar[world, dof_q[k]] += p_bar
            qd_bar[world, k] += v_bar
            common.add_at(gains_bar.gear, world, i, gear_here)
            common.add_at(gains_bar.kp, world, i, kp_here)
            common.add_at(gains_bar.kd, world, i, kd_here)
            common.add_at(gains_bar.force_limit, world, i, limit_here)

    return SimpleNamespace(modules=(module, adjoint_module), actuate=actuate, actuator_adjoint=actuator_adjoint)
