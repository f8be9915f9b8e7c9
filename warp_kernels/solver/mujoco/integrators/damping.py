"""Joint damping as in MuJoCo's Euler integrator: after the constraints, implicit in the velocity.

MuJoCo solves for the acceleration a with the damping of the present velocity, and then moves with ``(M + h D)^-1 M a``.
With the velocity v from a, the velocity after the step is ``v+ = v - c`` with ``(M + h D) c = h D (v - qd)``. Its
adjoint solves the same system for ``w = (M + h D)^-1 v+_bar``: that of v is ``v+_bar - h D w``, that of M is ``w c'``,
and that of D ``h w (c - v + qd)``.

The factors of M + h D follow from those of M (:mod:`warp_kernels.dynamics.mass_matrix`): from the leaves to the root,
the change due to the damping of a degree of freedom is propagated to the rows of its ancestors.

The integrator "implicitfast" adds the velocity gains of actuators on the degrees of freedom that they drive. An
actuator with gear g and the force ``F_c - g k v`` resists its joint with ``g^2 k``, unless its force is at a limit.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.actuators.actuators import actuator_functions
from warp_kernels.algebra import algebra
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.cpu.native import Native
from warp_kernels.solver.impulse_groups import IMPULSE_HEADERS, impulse_group_kernels
from warp_kernels.solver.structs import Paths, solver_structs
from warp_kernels.types import TORQUE, kernel_module, lane_types, warp_types


@functools.cache
def damping_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels over groups for one precision and a number of worlds in a lane group."""
    a, real = algebra(scalar, lanes), lane_types(scalar, lanes).real
    headers = (*IMPULSE_HEADERS, "mujoco/damping_groups.h") if lanes > 1 else (*ROW_HEADERS, "mujoco/damping.h")
    module = kernel_module("mujoco_damping", scalar, lanes, headers=headers)
    array2d, reals = wp.array2d(dtype=scalar), wp.array2d(dtype=real)

    @wp.func
    def implicit_damping(dt: scalar, damping: array2d, servo_damping: reals, group: int, k: int):
        """Return h D: of the joint and of its actuators, if there are any (no rows without)."""
        total = a.load_param_scalar(damping, group, k)
        if servo_damping.shape[0] > 0:
            total += servo_damping[k, group]
        return dt * total

    @Native(scalar, lanes, "damping").func_native()
    def factor_damped(group: int, paths: Paths, factor_l: reals, factor_d: reals, damped_l: reals, damped_d: reals):
        """Compute the factors of M + h D from those of M; ``damped_d`` has h D before, and ``damped_l`` zeros."""

    if lanes == 1:
        solve = product_functions(scalar).solve
    else:
        along = impulse_group_kernels(scalar, lanes)

        @wp.func
        def solve(group: int, paths: Paths, damped_l: reals, damped_d: reals, x: reals):
            """Solve in place: x := (M + h D)^-1 x [dof, group]."""
            nv = paths.dof_depth.shape[0]
            along.solve_upper(group, nv, paths, damped_l, damped_d, x)
            for k in range(nv):
                x[k, group] = along.solve_lower(k, x[k, group], group, paths, damped_l, x)

    @wp.kernel(module=module, enable_backward=False)
    def damp(
        # Model
        paths: Paths,
        dt: scalar,
        # Parameters
        damping: array2d,
        # Data in
        qd: array2d,
        qd_solved: array2d,
        servo_damping: reals,
        factor_l: reals,
        factor_d: reals,
        # Data out
        damped_l: reals,
        damped_d: reals,
        damping_scratch: reals,
        damping_loss: array2d,
        qd_next: array2d,
    ):
        """Compute v+ and c; damped_l and damped_d are kept for the backward pass."""
        group = wp.tid()
        for at in range(damped_l.shape[0]):
            damped_l[at, group] = a.real(scalar(0.0))
        for k in range(paths.dof_depth.shape[0]):
            damped_d[k, group] = implicit_damping(dt, damping, servo_damping, group, k)
        factor_damped(group, paths, factor_l, factor_d, damped_l, damped_d)
        for k in range(paths.dof_depth.shape[0]):
            change = a.load(qd_solved, group, k) - a.load(qd, group, k)
            damping_scratch[k, group] = a.mul(implicit_damping(dt, damping, servo_damping, group, k), change)
        solve(group, paths, damped_l, damped_d, damping_scratch)
        for k in range(paths.dof_depth.shape[0]):
            loss = damping_scratch[k, group]
            a.store(damping_loss, group, k, loss)
            a.store(qd_next, group, k, a.load(qd_solved, group, k) - loss)

    @wp.kernel(module=module, enable_backward=False)
    def damping_adjoint(
        # Model
        paths: Paths,
        dt: scalar,
        # Parameters
        damping: array2d,
        # Data in
        servo_damping: reals,
        damped_l: reals,
        damped_d: reals,
        # Adjoint in
        qd_next_bar: array2d,
        # Adjoint out
        damping_scratch: reals,
        damping_weight: array2d,
        qd_solved_bar: array2d,
        qd_bar: array2d,
    ):
        """Compute damping_weight: w. The adjoints of M and D are added in :mod:`warp_kernels.solver.impulse`."""
        group = wp.tid()
        for k in range(paths.dof_depth.shape[0]):
            damping_scratch[k, group] = a.load_bar(qd_next_bar, group, k)
        solve(group, paths, damped_l, damped_d, damping_scratch)
        for k in range(paths.dof_depth.shape[0]):
            weight = damping_scratch[k, group]
            back = a.mul(implicit_damping(dt, damping, servo_damping, group, k), weight)
            a.store(damping_weight, group, k, weight)
            a.store(qd_solved_bar, group, k, a.load_bar(qd_next_bar, group, k) - back)
            a.add(qd_bar, group, k, back)

    return SimpleNamespace(module=module, damp=damp, damping_adjoint=damping_adjoint)


@functools.cache
def servo_damping_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, one thread per world."""
    f = actuator_functions(scalar)
    common = row_functions(scalar)
    Gains = solver_structs(scalar).Gains
    vec3 = warp_types(scalar).vec3
    module = kernel_module("servo_damping", scalar)
    zero = scalar(0.0)

    @wp.func
    def resistance(kind: int, u: scalar, position: scalar, velocity: scalar, gains: Gains, world: int, i: int):
        """Return k of an actuator whose joint has this position and velocity times the gear; zero at a force limit."""
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
        """Add the velocity gains of actuators to servo_damping [dof, world]."""
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
        """Propagate the adjoint of the damping (:mod:`warp_kernels.solver.mujoco.integrators.damping`) to gains and
        control.
        """
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
