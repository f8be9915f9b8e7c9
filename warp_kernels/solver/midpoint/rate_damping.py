"""Damping along rows in a step from the middle: forces of tendons and frames that depend on velocities.

Such a force acts along the Jacobian J of a row: the rate of a tendon's length or of a frame's. It is f(s) with the rate ``s = J v``. In the step it is ``f(s) - td d J
x`` with the change x of the velocity and ``d = -f'(s)``, which is of second order with td = 1/2. As for joint dampers
(:mod:`warp_kernels.solver.midpoint.joint_weights`),

    td = (1 + Y) / (2 + Y),   Y = h d sum of J_k^2 / m_k,

so that stiff dampers are implicit. m: constant inertias of the degrees of freedom. A negative d counts as zero.

f(s) is among the joint forces. The rest adds ``e J' J`` with ``e = h td d`` to the mass matrix, in the same way as the
armature of a tendon, whose kernels take e for an armature (:mod:`warp_kernels.solver.tendons.armature`): constraints
see it, so that what they hold at rest stays at rest. The mass matrix keeps its sparsity if the degrees of freedom of a
row lie on one path from the root.

The row of degrees of freedom on two paths is one more constraint, a tendon's (:mod:`warp_kernels.constraints.kinds`),
with the impulse ``-e J (v+ - v)``: without bias and bound, and with the compliance 1 / e. Kahan's rule takes these
impulses into account, as those of loops (:mod:`warp_kernels.solver.midpoint.loops`).

All kernels have Warp's own adjoint.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.actuators.actuators import actuator_functions
from warp_kernels.actuators.transmission import transmission_structs
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.midpoint.loops import Loops
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module, warp_types

# Fraction of a row's inverse mass to which the compliance of a row without damping is bounded, by precision.
LEAST_DAMPING = {wp.float64: 1.0e-12, wp.float32: 1.0e-6}


@functools.cache
def rate_gain_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels of the damping d of each row, for one precision, over (row, world)."""
    common, actuators = row_functions(scalar), actuator_functions(scalar)
    Gains, Lines = solver_structs(scalar).Gains, transmission_structs(scalar).Lines
    vec2, vec3 = warp_types(scalar).vec2, warp_types(scalar).vec3
    module = kernel_module("rate_gains", scalar, inlined=True)
    zero, two, three = scalar(0.0), scalar(2.0), scalar(3.0)

    @wp.func
    def velocity_gain(law: vec3, rate: scalar, gear: scalar, centre: scalar, limit: scalar):
        """Return the damping of an actuator: none at the limits of its force."""
        gain = zero
        force = law[0] - gear * law[2] * rate
        if wp.abs(force - centre) < limit:
            gain = gear * gear * law[2]
        return gain

    @wp.kernel(module=module)
    def tendon_gains(
        # Parameters
        tendon_damping: wp.array2d(dtype=scalar),
        tendon_damping_polynomial: wp.array2d(dtype=vec2),
        # Data in
        tendon_rate: wp.array2d(dtype=scalar),
        # Data out
        rate_gain: wp.array2d(dtype=scalar),
    ):
        """Compute the damping of tendons."""
        tendon, world = wp.tid()
        rate = tendon_rate[tendon, world]
        growth = tendon_damping_polynomial[wp.min(world, tendon_damping_polynomial.shape[0] - 1), tendon]
        own = common.value_of(tendon_damping, world, tendon)
        rate_gain[tendon, world] = own + two * growth[0] * wp.abs(rate) + three * growth[1] * rate * rate

    @wp.kernel(module=module)
    def tendon_actuator_gains(
        # Model
        actuator_kind: wp.array(dtype=int),
        actuator_tendon: wp.array(dtype=int),
        # Parameters
        gains: Gains,
        # Data in
        control: wp.array2d(dtype=scalar),
        tendon_length: wp.array2d(dtype=scalar),
        tendon_rate: wp.array2d(dtype=scalar),
        # Data out
        rate_gain: wp.array2d(dtype=scalar),
    ):
        """Add the velocity gains of a tendon's actuators."""
        tendon, world = wp.tid()
        for i in range(actuator_tendon.shape[0]):
            if actuator_tendon[i] == tendon:
                u = actuators.held_input(control, gains, world, i)
                g = common.value_of(gains.gear, world, i)
                centre = common.value_of(gains.force_centre, world, i)
                most = common.value_of(gains.force_limit, world, i)
                law = actuators.force_law(actuator_kind[i], u, g * tendon_length[tendon, world], gains, world, i)
                rate_gain[tendon, world] += velocity_gain(law, tendon_rate[tendon, world], g, centre, most)

    @wp.kernel(module=module)
    def line_gains(
        # Model
        lines: Lines,
        actuator_kind: wp.array(dtype=int),
        # Parameters
        gains: Gains,
        # Data in
        control: wp.array2d(dtype=scalar),
        line_length: wp.array2d(dtype=scalar),
        line_rate: wp.array2d(dtype=scalar),
        # Data out
        rate_gain: wp.array2d(dtype=scalar),
    ):
        """Compute the velocity gains of actuators on frames."""
        line, world = wp.tid()
        i = lines.actuator[line]
        u = actuators.held_input(control, gains, world, i)
        g = common.value_of(gains.gear, world, i)
        centre = common.value_of(gains.force_centre, world, i)
        most = common.value_of(gains.force_limit, world, i)
        law = actuators.force_law(actuator_kind[i], u, g * line_length[line, world], gains, world, i)
        rate_gain[line, world] = velocity_gain(law, line_rate[line, world], g, centre, most)

    return SimpleNamespace(
        module=module, tendon_gains=tendon_gains, tendon_actuator_gains=tendon_actuator_gains, line_gains=line_gains
    )


@functools.cache
def rate_damping_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels of e for one precision, over (row, world)."""
    module = kernel_module("rate_damping", scalar, inlined=True)
    zero, one, two = scalar(0.0), scalar(1.0), scalar(2.0)

    @wp.kernel(module=module)
    def rate_mobility(
        # Model
        joint_inertia: wp.array(dtype=scalar),
        # Data in
        tendon_slope: wp.array3d(dtype=scalar),
        # Data out
        mobility: wp.array2d(dtype=scalar),
    ):
        """Compute the sums of J_k^2 / m_k. Adds to zeroed arrays."""
        row, world = wp.tid()
        for k in range(joint_inertia.shape[0]):
            mobility[row, world] += tendon_slope[row, k, world] * tendon_slope[row, k, world] / joint_inertia[k]

    @wp.kernel(module=module)
    def rate_armature(
        # Model
        dt: scalar,
        # Data in
        rate_gain: wp.array2d(dtype=scalar),
        mobility: wp.array2d(dtype=scalar),
        # Data out
        tendon_armature: wp.array2d(dtype=scalar),
    ):
        """Compute e [world, row]."""
        row, world = wp.tid()
        damping = dt * wp.max(rate_gain[row, world], zero)
        stiff = damping * mobility[row, world]
        tendon_armature[world, row] = damping * (one + stiff) / (two + stiff)

    return SimpleNamespace(module=module, rate_mobility=rate_mobility, rate_armature=rate_armature)


@functools.cache
def damper_row_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels of the rows of dampers on two paths, for one precision. Those with adjoints are differentiable."""
    vec3 = warp_types(scalar).vec3
    module = kernel_module("damper_rows", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)
    least, smallest = scalar(LEAST_DAMPING[scalar]), scalar(1.0e-30)

    @wp.kernel(module=module)
    def damper_rows(
        # Model
        damper: wp.array(dtype=int),
        damper_row: wp.array(dtype=int),
        # Data in
        tendon_slope: wp.array3d(dtype=scalar),
        # Data out
        tendon_row: wp.array3d(dtype=scalar),
    ):
        """Write the rows, over (damper, dof, world)."""
        n, k, world = wp.tid()
        tendon_row[damper[n], k, world] = tendon_slope[damper_row[n], k, world]

    @wp.kernel(module=module)
    def damper_references(
        # Model
        damper: wp.array(dtype=int),
        damper_row: wp.array(dtype=int),
        # Data in
        mobility: wp.array2d(dtype=scalar),
        tendon_armature: wp.array2d(dtype=scalar),
        # Data out
        tendon_reference: wp.array2d(dtype=vec3),
    ):
        """Write compliance and share of the velocity before the step, over (damper, world)."""
        n, world = wp.tid()
        row = damper_row[n]
        floor = least / wp.max(mobility[row, world], smallest)
        tendon_reference[damper[n], world] = vec3(zero, one / (tendon_armature[world, row] + floor), zero)

    @wp.kernel(module=module, enable_backward=False)
    def damper_activity(
        # Model
        damper: wp.array(dtype=int),
        damper_row: wp.array(dtype=int),
        # Data in
        mobility: wp.array2d(dtype=scalar),
        # Data out
        tendon_bound: wp.array2d(dtype=scalar),
        tendon_active: wp.array2d(dtype=int),
    ):
        """Mark rows that a joint moves as active, without a bound, over (damper, world)."""
        n, world = wp.tid()
        tendon_bound[damper[n], world] = scalar(wp.inf)
        tendon_active[damper[n], world] = wp.where(mobility[damper_row[n], world] > zero, 1, 0)

    @wp.kernel(module=module)
    def damper_loops(
        # Model
        loops: Loops,
        first_block: int,
        first_damper: int,
        # Data in
        tendon_row: wp.array3d(dtype=scalar),
        tendon_reference: wp.array2d(dtype=vec3),
        # Data out
        loop_row: wp.array2d(dtype=scalar),
        loop_rhs: wp.array2d(dtype=scalar),
        loop_compliance: wp.array2d(dtype=scalar),
    ):
        """Write the rows among those of loops, over (damper, world)."""
        n, world = wp.tid()
        row = loops.block_start[first_block + n]
        for at in range(loops.row_start[row], loops.row_start[row + 1]):
            loop_row[at, world] = tendon_row[first_damper + n, loops.dof[at], world]
        loop_rhs[row, world] = zero
        loop_compliance[row, world] = tendon_reference[first_damper + n, world][1]

    return SimpleNamespace(
        module=module,
        damper_rows=damper_rows,
        damper_references=damper_references,
        damper_activity=damper_activity,
        damper_loops=damper_loops,
    )
