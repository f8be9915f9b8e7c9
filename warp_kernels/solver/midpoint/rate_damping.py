"""Damping along rows in a step from the middle: forces of tendons and frames that depend on velocities.

Such a force acts along the Jacobian J of a row: the rate of a tendon's length or of a frame's. It is f(s) with the rate ``s = J v``. In the step it is ``f(s) - td d J
x`` with the change x of the velocity and ``d = -f'(s)``, which is of second order with td = 1/2. As for joint dampers
(:mod:`warp_kernels.solver.midpoint.joint_weights`),

    td = (1 + Y) / (2 + Y),   Y = h d sum of J_k^2 / m_k,

so that stiff dampers are implicit. m: constant inertias of the degrees of freedom. A negative d counts as zero.

On one path f(s) is among the joint forces. The rest adds ``e J' J`` with ``e = h td d`` to the mass matrix, in the same way as the
armature of a tendon, whose kernels take e for an armature (:mod:`warp_kernels.solver.tendons.armature`): constraints
see it, so that what they hold at rest stays at rest. The mass matrix keeps its sparsity if the degrees of freedom of a
row lie on one path from the root.

The row of degrees of freedom on two paths is one more constraint, a tendon's (:mod:`warp_kernels.constraints.kinds`),
without bound, and with the compliance ``R = 1 / e``. It has the whole impulse l of the damping, and joint forces omit it:
with ``f(s) = g - D s``, where g is the rest, such as a spring, ``l = -h D s - e J (v+ - v)``, or

    J v+ + R l = (1 - D / (td d)) s.

For a linear damper the factor of s is -1 / (1 + Y). A joint force -D s would be Y times as large as the impulses that it
is part of, and its rounding too.

In single precision the row's values, rounded and divided by R, give impulses that are wrong by about Y eps. Y is
therefore held below a limit, with d and D in proportion, at which the rate after a step is 2 / Y^2 of that before.

Kahan's rule takes these impulses into account, as those of loops (:mod:`warp_kernels.solver.midpoint.loops`).

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

# Largest Y of a row between two paths, and the largest R as a multiple of its inverse mass, by precision. With a
# larger Y the rounding of row values, times Y, would be seen in velocities.
STIFFEST = {wp.float64: 1.0e7, wp.float32: 2.0e3}
SOFTEST = {wp.float64: 1.0e12, wp.float32: 1.0e6}


@functools.cache
def rate_gain_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels of the dampings d and D of each row, for one precision, over (row, world)."""
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
        rate_secant: wp.array2d(dtype=scalar),
    ):
        """Compute the damping of tendons."""
        tendon, world = wp.tid()
        rate = tendon_rate[tendon, world]
        growth = tendon_damping_polynomial[wp.min(world, tendon_damping_polynomial.shape[0] - 1), tendon]
        own = common.value_of(tendon_damping, world, tendon)
        rate_gain[tendon, world] = own + two * growth[0] * wp.abs(rate) + three * growth[1] * rate * rate
        rate_secant[tendon, world] = own + growth[0] * wp.abs(rate) + growth[1] * rate * rate

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
        rate_secant: wp.array2d(dtype=scalar),
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
                gain = velocity_gain(law, tendon_rate[tendon, world], g, centre, most)
                rate_gain[tendon, world] += gain
                rate_secant[tendon, world] += gain

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
        rate_secant: wp.array2d(dtype=scalar),
    ):
        """Compute the velocity gains of actuators on frames."""
        line, world = wp.tid()
        i = lines.actuator[line]
        u = actuators.held_input(control, gains, world, i)
        g = common.value_of(gains.gear, world, i)
        centre = common.value_of(gains.force_centre, world, i)
        most = common.value_of(gains.force_limit, world, i)
        law = actuators.force_law(actuator_kind[i], u, g * line_length[line, world], gains, world, i)
        gain = velocity_gain(law, line_rate[line, world], g, centre, most)
        rate_gain[line, world] = gain
        rate_secant[line, world] = gain

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
    zero, one, two = scalar(0.0), scalar(1.0), scalar(2.0)
    stiffest, softest, smallest = scalar(STIFFEST[scalar]), scalar(SOFTEST[scalar]), scalar(1.0e-30)

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
        dt: scalar,
        # Data in
        rate_gain: wp.array2d(dtype=scalar),
        rate_secant: wp.array2d(dtype=scalar),
        mobility: wp.array2d(dtype=scalar),
        # Data out
        tendon_reference: wp.array2d(dtype=vec3),
    ):
        """Write compliance and share of the velocity before the step, over (damper, world)."""
        n, world = wp.tid()
        row = damper_row[n]
        inverse_mass = wp.max(mobility[row, world], smallest)
        damping = dt * wp.max(rate_gain[row, world], zero)
        secant = dt * rate_secant[row, world]
        stiff = damping * inverse_mass
        if stiff > stiffest:
            secant *= stiffest / stiff
            stiff = stiffest
        armature = (stiff * (one + stiff) / (two + stiff) + one / softest) / inverse_mass
        tendon_reference[damper[n], world] = vec3(zero, one / armature, secant / armature)

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
        qd: wp.array2d(dtype=scalar),
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
        reference = tendon_reference[first_damper + n, world]
        loop_compliance[row, world] = reference[1]
        loop_rhs[row, world] = zero
        for at in range(loops.row_start[row], loops.row_start[row + 1]):
            k = loops.dof[at]
            value = tendon_row[first_damper + n, k, world]
            loop_row[at, world] = value
            loop_rhs[row, world] += reference[2] * value * qd[world, k]

    return SimpleNamespace(
        module=module,
        damper_rows=damper_rows,
        damper_references=damper_references,
        damper_activity=damper_activity,
        damper_loops=damper_loops,
    )
