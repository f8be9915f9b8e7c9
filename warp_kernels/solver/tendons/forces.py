"""Forces of tendons on the degrees of freedom: springs, dampers and actuators, explicit in length and velocity. Damping that is a
constraint is omitted (:mod:`warp_kernels.solver.midpoint.rate_damping`).

Warp's own adjoint differentiates them, from that of the joint forces.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.actuators.actuators import actuator_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def tendon_force_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision."""
    common, actuators = row_functions(scalar), actuator_functions(scalar)
    Gains = solver_structs(scalar).Gains
    module = kernel_module("tendon_forces", scalar, inlined=True)
    actuator_module = kernel_module("tendon_actuators", scalar, inlined=True)
    vec2 = warp_types(scalar).vec2
    zero = scalar(0.0)

    @wp.kernel(module=module)
    def tendon_rates(
        # Model
        moving_start: wp.array(dtype=int),
        moving_dof: wp.array(dtype=int),
        # Data in
        qd: wp.array2d(dtype=scalar),
        tendon_slope: wp.array3d(dtype=scalar),
        # Data out
        tendon_rate: wp.array2d(dtype=scalar),
    ):
        """Compute the rate of each tendon's length, over (tendon, world). Adds to zeroed arrays."""
        tendon, world = wp.tid()
        for at in range(moving_start[tendon], moving_start[tendon + 1]):
            k = moving_dof[at]
            tendon_rate[tendon, world] += tendon_slope[tendon, k, world] * qd[world, k]

    @wp.kernel(module=module)
    def tendon_forces(
        # Model
        tendon_deferred: wp.array(dtype=int),
        # Parameters
        tendon_stiffness: wp.array2d(dtype=scalar),
        tendon_damping: wp.array2d(dtype=scalar),
        tendon_stiffness_polynomial: wp.array2d(dtype=vec2),
        tendon_damping_polynomial: wp.array2d(dtype=vec2),
        tendon_rest_lower: wp.array2d(dtype=scalar),
        tendon_rest_upper: wp.array2d(dtype=scalar),
        # Data in
        tendon_length: wp.array2d(dtype=scalar),
        tendon_rate: wp.array2d(dtype=scalar),
        # Data out
        tendon_force: wp.array2d(dtype=scalar),
    ):
        """Compute the force of spring and damper, over (tendon, world); positive lengthens the tendon.

        tendon_deferred: 1 for tendons whose damping is a constraint (:mod:`warp_kernels.solver.midpoint.rate_damping`).
        """
        tendon, world = wp.tid()
        length = tendon_length[tendon, world]
        lower = common.value_of(tendon_rest_lower, world, tendon)
        upper = common.value_of(tendon_rest_upper, world, tendon)
        stretch = zero
        # At the rest length itself, too, the force has a slope.
        if length >= upper:
            stretch = length - upper
        elif length <= lower:
            stretch = length - lower
        rate = tendon_rate[tendon, world]
        growth = tendon_damping_polynomial[wp.min(world, tendon_damping_polynomial.shape[0] - 1), tendon]
        damping = common.value_of(tendon_damping, world, tendon) + growth[0] * wp.abs(rate) + growth[1] * rate * rate
        curve = tendon_stiffness_polynomial[wp.min(world, tendon_stiffness_polynomial.shape[0] - 1), tendon]
        stiffness = common.value_of(tendon_stiffness, world, tendon) + (curve[0] + curve[1] * stretch) * stretch
        if tendon_deferred[tendon] == 1:
            tendon_force[tendon, world] = -stiffness * stretch
        else:
            tendon_force[tendon, world] = -damping * rate - stiffness * stretch

    @wp.kernel(module=actuator_module)
    def actuate_tendons(
        # Model
        actuator_kind: wp.array(dtype=int),
        actuator_tendon: wp.array(dtype=int),
        tendon_deferred: wp.array(dtype=int),
        # Parameters
        gains: Gains,
        # Data in
        control: wp.array2d(dtype=scalar),
        tendon_length: wp.array2d(dtype=scalar),
        tendon_rate: wp.array2d(dtype=scalar),
        # Data out
        tendon_force: wp.array2d(dtype=scalar),
    ):
        """Add the forces of a tendon's actuators, over (tendon, world)."""
        tendon, world = wp.tid()
        for i in range(actuator_tendon.shape[0]):
            if actuator_tendon[i] == tendon:
                u = actuators.held_input(control, gains, world, i)
                g = common.value_of(gains.gear, world, i)
                centre = common.value_of(gains.force_centre, world, i)
                most = common.value_of(gains.force_limit, world, i)
                law = actuators.force_law(actuator_kind[i], u, g * tendon_length[tendon, world], gains, world, i)
                rate = tendon_rate[tendon, world]
                if tendon_deferred[tendon] == 1:
                    tendon_force[tendon, world] += actuators.without_damping(law, rate, g, centre, most)
                else:
                    push = actuators.as_force(law, rate, g, centre, most, zero)
                    tendon_force[tendon, world] += push[0]

    @wp.kernel(module=module)
    def add_tendon_forces(
        # Model
        moved_dof: wp.array(dtype=int),
        moved_start: wp.array(dtype=int),
        moved_tendon: wp.array(dtype=int),
        # Data in
        tendon_slope: wp.array3d(dtype=scalar),
        tendon_force: wp.array2d(dtype=scalar),
        # Data out
        joint_force: wp.array2d(dtype=scalar),
    ):
        """Add tendon forces to joint forces, over (degree of freedom that moves a tendon, world)."""
        number, world = wp.tid()
        k = moved_dof[number]
        for at in range(moved_start[number], moved_start[number + 1]):
            tendon = moved_tendon[at]
            joint_force[world, k] += tendon_slope[tendon, k, world] * tendon_force[tendon, world]

    return SimpleNamespace(
        modules=(module, actuator_module),
        tendon_rates=tendon_rates,
        tendon_forces=tendon_forces,
        actuate_tendons=actuate_tendons,
        add_tendon_forces=add_tendon_forces,
    )
