"""The velocity gains of actuators on the degrees of freedom that they drive, which MuJoCo's integrator "implicitfast" adds to joint damping.

An actuator with gear g and the force ``F_c - g k v`` resists its joint with ``g^2 k``, unless its force is at a limit.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.actuators import actuator_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import TORQUE, kernel_module, warp_types


@functools.cache
def servo_damping_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision, one thread per world."""
    f = actuator_functions(scalar)
    common = row_functions(scalar)
    Gains = solver_structs(scalar).Gains
    vec3 = warp_types(scalar).vec3
    module = kernel_module("servo_damping", scalar)
    zero = scalar(0.0)

    @wp.func
    def resistance(kind: int, u: scalar, position: scalar, velocity: scalar, gains: Gains, world: int, i: int):
        """k of an actuator whose joint has this position and velocity times the gear; zero at a limit of its force."""
        if kind == TORQUE:
            return zero
        law = f.force_law(kind, u, position, gains, world, i)
        force = law[0] - law[2] * velocity
        centre = common.value_of(gains.force_centre, world, i)
        if wp.abs(force - centre) >= common.value_of(gains.force_limit, world, i):
            return zero
        return law[2]

    @wp.kernel(module=module, enable_backward=False)
    def add_servo_damping(
        # Model
        joint_actuator: wp.array(dtype=int),
        actuator_kind: wp.array(dtype=int),
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        # Parameters
        gains: Gains,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        control: wp.array2d(dtype=scalar),
        # Data out
        servo_damping: wp.array2d(dtype=scalar),
    ):
        """servo_damping: [dof, world]."""
        world = wp.tid()
        for k in range(servo_damping.shape[0]):
            servo_damping[k, world] = zero
        for number in range(joint_actuator.shape[0]):
            i = joint_actuator[number]
            k = actuator_dof[i]
            g = common.value_of(gains.gear, world, i)
            u = f.held_input(control, gains, world, i)
            slope = resistance(actuator_kind[i], u, g * q[world, dof_q[k]], g * qd[world, k], gains, world, i)
            servo_damping[k, world] += g * g * slope

    @wp.kernel(module=module, enable_backward=False)
    def servo_damping_adjoint(
        # Model
        joint_actuator: wp.array(dtype=int),
        actuator_kind: wp.array(dtype=int),
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        dt: scalar,
        # Parameters
        gains: Gains,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        control: wp.array2d(dtype=scalar),
        damping_loss: wp.array2d(dtype=scalar),
        # Adjoint in
        damping_weight: wp.array2d(dtype=scalar),
        # Adjoint out
        control_bar: wp.array2d(dtype=scalar),
        gains_bar: Gains,
    ):
        """What reaches gains and control through the damping, whose adjoint is that of :mod:`warp_kernels.solver.mujoco.integrators.damping`."""
        world = wp.tid()
        for number in range(joint_actuator.shape[0]):
            i = joint_actuator[number]
            k = actuator_dof[i]
            kind = actuator_kind[i]
            g = common.value_of(gains.gear, world, i)
            u = f.held_input(control, gains, world, i)
            position = g * q[world, dof_q[k]]
            slope = resistance(kind, u, position, g * qd[world, k], gains, world, i)
            if slope == zero:
                continue
            change = damping_loss[world, k] - qd_solved[world, k] + qd[world, k]
            bar = dt * damping_weight[world, k] * change
            common.add_at(gains_bar.gear, world, i, scalar(2.0) * g * slope * bar)
            input_bar = f.law_adjoint(kind, u, position, vec3(zero, zero, g * g * bar), gains, world, i, gains_bar)
            f.add_input_bar(input_bar[0], control, gains, world, i, control_bar, gains_bar)

    return SimpleNamespace(
        module=module, add_servo_damping=add_servo_damping, servo_damping_adjoint=servo_damping_adjoint
    )
