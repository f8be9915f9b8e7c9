"""Electric motors and controllers: the force that a motor has left at its speed, its current, and integral action.

A motor with the stall force F_s and the no-load speed v_0 keeps the force of its actuator within ``F_s (1 - v / v_0)``
and ``F_s (-1 - v / v_0)``, besides the range of the actuator. That is a voltage within ``+-V``, of which ``K v`` is the
induced voltage: ``F_s = K V / R`` and ``v_0 = V / K``. The velocity v is that at the start of a step.

With an inductance the current w is a state: ``w' = ((u - K v) / R - w) / T``, whose force is ``K w``.

An integral action adds ``k_i z`` to the force ``k_p (u - q)`` of a servo, where ``z' = u - q``: the servo gets the
input ``u + k_i / k_p z``. Beyond its limit z stops growing. (MuJoCo's documentation, *XML reference*, "dcmotor" and
"pid".) The adjoint of all this is Warp's own.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.types import CURRENT, PID, kernel_module


@functools.cache
def motor_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision over (actuator, world)."""
    common = row_functions(scalar)
    module = kernel_module("motors", scalar, inlined=True)
    zero, half, one, least = scalar(0.0), scalar(0.5), scalar(1.0), scalar(1e-15)
    array2d, integers = wp.array2d(dtype=scalar), wp.array(dtype=int)

    @wp.kernel(module=module)
    def force_ranges(
        # Model
        actuator_dof: integers,
        # Parameters
        actuator_gear: array2d,
        actuator_force_centre: array2d,
        actuator_force_limit: array2d,
        actuator_stall_force: array2d,
        actuator_no_load_speed: array2d,
        # Data in
        qd: array2d,
        # Data out
        range_centre: array2d,
        range_limit: array2d,
    ):
        """Compute the middle of the range of each actuator's force, and half its width."""
        i, world = wp.tid()
        centre = common.value_of(actuator_force_centre, world, i)
        limit = common.value_of(actuator_force_limit, world, i)
        stall = common.value_of(actuator_stall_force, world, i)
        if stall > zero:
            velocity = common.value_of(actuator_gear, world, i) * qd[world, actuator_dof[i]]
            share = velocity / wp.max(common.value_of(actuator_no_load_speed, world, i), least)
            upper = wp.clamp(stall * (one - share), centre - limit, centre + limit)
            lower = wp.clamp(stall * (-one - share), centre - limit, centre + limit)
            range_centre[world, i] = half * (upper + lower)
            range_limit[world, i] = half * (upper - lower)
        else:
            range_centre[world, i] = centre
            range_limit[world, i] = limit

    @wp.kernel(module=module)
    def current_rates(
        # Model
        actuator_state: integers,
        actuator_dynamics: integers,
        actuator_dof: integers,
        # Parameters
        actuator_control_lower: array2d,
        actuator_control_upper: array2d,
        actuator_time_constant: array2d,
        actuator_resistance: array2d,
        actuator_gear: array2d,
        actuator_gain: array2d,
        # Data in
        given_control: array2d,
        qd: array2d,
        act: array2d,
        # Data out
        act_rate: array2d,
    ):
        """Compute the rates of currents [world, state]."""
        i, world = wp.tid()
        if actuator_dynamics[i] == CURRENT:
            u = common.held_between(given_control[world, i], actuator_control_lower, actuator_control_upper, world, i)
            induced = common.value_of(actuator_gain, world, i) * common.value_of(actuator_gear, world, i)
            induced *= qd[world, actuator_dof[i]]
            at = actuator_state[i]
            steady = (u - induced) / wp.max(common.value_of(actuator_resistance, world, i), least)
            time = wp.max(common.value_of(actuator_time_constant, world, i), least)
            act_rate[world, at] = (steady - act[world, at]) / time

    @wp.kernel(module=module)
    def integral_rates(
        # Model
        actuator_state: integers,
        actuator_dynamics: integers,
        actuator_dof: integers,
        dof_q: integers,
        # Parameters
        actuator_control_lower: array2d,
        actuator_control_upper: array2d,
        actuator_integral_limit: array2d,
        actuator_gear: array2d,
        # Data in
        given_control: array2d,
        q: array2d,
        act: array2d,
        # Data out
        act_rate: array2d,
    ):
        """Compute the rates of integrals [world, state]: the position error, unless it would leave the limit."""
        i, world = wp.tid()
        if actuator_dynamics[i] == PID:
            u = common.held_between(given_control[world, i], actuator_control_lower, actuator_control_upper, world, i)
            error = u - common.value_of(actuator_gear, world, i) * q[world, dof_q[actuator_dof[i]]]
            at = actuator_state[i]
            most = common.value_of(actuator_integral_limit, world, i)
            if act[world, at] >= most:
                error = wp.min(error, zero)
            elif act[world, at] <= -most:
                error = wp.max(error, zero)
            act_rate[world, at] = error

    @wp.kernel(module=module)
    def integral_inputs(
        # Model
        actuator_state: integers,
        actuator_dynamics: integers,
        actuator_early: integers,
        dt: scalar,
        # Parameters
        actuator_control_lower: array2d,
        actuator_control_upper: array2d,
        actuator_act_lower: array2d,
        actuator_act_upper: array2d,
        actuator_kp: array2d,
        actuator_ki: array2d,
        # Data in
        given_control: array2d,
        act: array2d,
        act_rate: array2d,
        # Data out
        control: array2d,
    ):
        """Compute the inputs of servos with integral action."""
        i, world = wp.tid()
        if actuator_dynamics[i] == PID:
            u = common.held_between(given_control[world, i], actuator_control_lower, actuator_control_upper, world, i)
            at = actuator_state[i]
            integral = act[world, at]
            if actuator_early[i] == 1:
                integral += dt * act_rate[world, at]
                integral = common.held_between(integral, actuator_act_lower, actuator_act_upper, world, i)
            share = common.value_of(actuator_ki, world, i) / wp.max(common.value_of(actuator_kp, world, i), least)
            control[world, i] = u + share * integral

    return SimpleNamespace(
        module=module,
        force_ranges=force_ranges,
        current_rates=current_rates,
        integral_rates=integral_rates,
        integral_inputs=integral_inputs,
    )
