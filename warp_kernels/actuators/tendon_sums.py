"""Bounds on the sum of the forces of a tendon's actuators, as MuJoCo's ``actuatorfrcrange``.

If the sum S of the forces f_i, without gears and before they are clamped to their own ranges, is outside of the
tendon's range, all are multiplied by its bound over S. Each force is then clamped to its own range. Such forces have no
damping that is a constraint, as those at limits of their own.

Warp's own adjoint differentiates them.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.actuators.actuators import actuator_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module


@functools.cache
def tendon_sum_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision."""
    common, actuators = row_functions(scalar), actuator_functions(scalar)
    Gains = solver_structs(scalar).Gains
    module = kernel_module("tendon_sums", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def share_of(total: scalar, lower: scalar, upper: scalar):
        """Return the factor by which forces with this sum are multiplied."""
        share = one
        if total < lower and total != zero:
            share = lower / total
        if total > upper and total != zero:
            share = upper / total
        return share

    @wp.kernel(module=module)
    def sum_forces(
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
        unbounded_force: wp.array2d(dtype=scalar),
        tendon_sum: wp.array2d(dtype=scalar),
    ):
        """Compute forces without any bounds [actuator, world], and add them to zeroed sums, over (tendon, world)."""
        tendon, world = wp.tid()
        for i in range(actuator_tendon.shape[0]):
            if actuator_tendon[i] == tendon:
                u = actuators.held_input(control, gains, world, i)
                g = common.value_of(gains.gear, world, i)
                law = actuators.force_law(actuator_kind[i], u, g * tendon_length[tendon, world], gains, world, i)
                force = law[0] - g * law[2] * tendon_rate[tendon, world]
                unbounded_force[i, world] = force
                tendon_sum[tendon, world] += force

    @wp.kernel(module=module)
    def add_bounded_forces(
        # Model
        actuator_kind: wp.array(dtype=int),
        actuator_tendon: wp.array(dtype=int),
        tendon_deferred: wp.array(dtype=int),
        # Parameters
        gains: Gains,
        tendon_force_lower: wp.array2d(dtype=scalar),
        tendon_force_upper: wp.array2d(dtype=scalar),
        # Data in
        control: wp.array2d(dtype=scalar),
        tendon_length: wp.array2d(dtype=scalar),
        tendon_rate: wp.array2d(dtype=scalar),
        unbounded_force: wp.array2d(dtype=scalar),
        tendon_sum: wp.array2d(dtype=scalar),
        # Data out
        tendon_force: wp.array2d(dtype=scalar),
    ):
        """Add the forces of a tendon's actuators, over (tendon, world)."""
        tendon, world = wp.tid()
        lower = common.value_of(tendon_force_lower, world, tendon)
        upper = common.value_of(tendon_force_upper, world, tendon)
        share = share_of(tendon_sum[tendon, world], lower, upper)
        rate = tendon_rate[tendon, world]
        for i in range(actuator_tendon.shape[0]):
            if actuator_tendon[i] == tendon:
                g = common.value_of(gains.gear, world, i)
                centre = common.value_of(gains.force_centre, world, i)
                most = common.value_of(gains.force_limit, world, i)
                if share == one and tendon_deferred[tendon] == 1:
                    u = actuators.held_input(control, gains, world, i)
                    law = actuators.force_law(actuator_kind[i], u, g * tendon_length[tendon, world], gains, world, i)
                    tendon_force[tendon, world] += actuators.without_damping(law, rate, g, centre, most)
                else:
                    force = common.held_within(share * unbounded_force[i, world], centre - most, centre + most)
                    tendon_force[tendon, world] += g * force

    @wp.kernel(module=module, enable_backward=False)
    def limits_of_sums(
        # Model
        actuator_tendon: wp.array(dtype=int),
        # Parameters
        gains: Gains,
        tendon_force_lower: wp.array2d(dtype=scalar),
        tendon_force_upper: wp.array2d(dtype=scalar),
        # Data in
        tendon_sum: wp.array2d(dtype=scalar),
        # Data out
        sum_limit: wp.array2d(dtype=scalar),
    ):
        """Compute the force limits [world, actuator], over actuators: zero where a sum is bounded, so that there is no
        damping.
        """
        i, world = wp.tid()
        tendon = actuator_tendon[i]
        limit = common.value_of(gains.force_limit, world, i)
        if tendon >= 0:
            lower = common.value_of(tendon_force_lower, world, tendon)
            upper = common.value_of(tendon_force_upper, world, tendon)
            if share_of(tendon_sum[tendon, world], lower, upper) != one:
                limit = zero
        sum_limit[world, i] = limit

    return SimpleNamespace(
        module=module, sum_forces=sum_forces, add_bounded_forces=add_bounded_forces, limits_of_sums=limits_of_sums
    )
