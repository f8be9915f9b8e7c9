"""MuJoCo's reference accelerations and regularisation, from ``solref`` and ``solimp``; differentiated by Warp's own adjoint.

A constraint at the position x (negative: violated) with the velocity u before the step has the reference acceleration
``a_ref = -b u - k d(x) x`` and the regularisation ``R = (1 - d) / d A``, with the impedance d and A from inverse masses at the model's
initial configuration (MuJoCo's documentation, *Modeling*, "Solver parameters"). In terms of velocities a row's value is
``J v+ - (1 - h b) u + h k d x``: the share ``h b`` of u that it holds, and a bias.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module, warp_types

# MuJoCo's bounds of impedances.
LEAST = 1e-4


@functools.cache
def reference_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision that evaluate references of constraints."""
    t = warp_types(scalar)
    vec2, vec5 = t.vec2, t.vec5
    Limits = solver_structs(scalar).Limits
    module = kernel_module("mujoco_references", scalar)
    zero, one = scalar(0.0), scalar(1.0)
    least, most = scalar(LEAST), scalar(1.0 - LEAST)

    @wp.func
    def rates(solref: vec2, solimp: vec5, dt: scalar):
        """b [1/s] and k [1/s^2]."""
        largest = wp.clamp(solimp[1], least, most)
        if solref[0] > zero:
            # Faster than twice the time step would be unstable.
            time = wp.max(solref[0], scalar(2.0) * dt)
            rate = one / (largest * time * solref[1])
            return vec2(scalar(2.0) / (largest * time), rate * rate)
        return vec2(-solref[1] / largest, -solref[0] / (largest * largest))

    @wp.func
    def impedance(solimp: vec5, x: scalar):
        """d at the position x: from the first to the second of solimp over the width, by a power law around the midpoint."""
        low = wp.clamp(solimp[0], least, most)
        high = wp.clamp(solimp[1], least, most)
        if low == high or solimp[2] <= scalar(1.0e-15):
            return scalar(0.5) * (low + high)
        along = wp.abs(x) / solimp[2]
        if along >= one:
            return high
        if along == zero:
            return low
        middle = wp.clamp(solimp[3], least, most)
        power = wp.max(solimp[4], one)
        rise = zero
        if along <= middle:
            rise = wp.pow(along, power) / wp.pow(middle, power - one)
        else:
            rise = one - wp.pow(one - along, power) / wp.pow(one - middle, power - one)
        return low + rise * (high - low)

    @wp.func
    def reference(solref: vec2, solimp: vec5, x: scalar, inverse_mass: scalar, dt: scalar):
        """The bias h k d x, and R."""
        d = impedance(solimp, x)
        return vec2(dt * rates(solref, solimp, dt)[1] * d * x, (one - d) / d * inverse_mass)

    @wp.kernel(module=module)
    def velocity_shares(
        # Model
        dt: scalar,
        # Parameters
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data out
        velocity_share: wp.array2d(dtype=scalar),
    ):
        """The share h b of the velocity before the step that rows hold."""
        world = wp.tid()
        softness = solref[wp.min(world, solref.shape[0] - 1), 0]
        stiffening = solimp[wp.min(world, solimp.shape[0] - 1), 0]
        velocity_share[0, world] = dt * rates(softness, stiffening, dt)[0]

    @wp.kernel(module=module)
    def contact_references(
        # Model
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        geometry_link: wp.array(dtype=wp.int32),
        link_inverse_weight: wp.array(dtype=scalar),
        pyramidal: int,
        dt: scalar,
        # Parameters
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data in
        slot_pair: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        contact_distance: wp.array2d(dtype=scalar),
        contact_friction: wp.array2d(dtype=scalar),
        # Data out
        contact_reference: wp.array2d(dtype=vec2),
    ):
        """Of each contact; zero where nothing touches. Slots past ``contact_count`` are left alone."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        x = contact_distance[slot, world]
        result = vec2()
        if x < zero:
            weight = zero
            link_a = geometry_link[pair_a[slot_pair[slot, world]]]
            link_b = geometry_link[pair_b[slot_pair[slot, world]]]
            if link_a >= 0:
                weight += link_inverse_weight[link_a]
            if link_b >= 0:
                weight += link_inverse_weight[link_b]
            if pyramidal == 1:
                weight = weight * (one + contact_friction[slot, world] * contact_friction[slot, world])
            softness = solref[wp.min(world, solref.shape[0] - 1), 0]
            stiffening = solimp[wp.min(world, solimp.shape[0] - 1), 0]
            result = reference(softness, stiffening, x, weight, dt)
        contact_reference[slot, world] = result

    @wp.kernel(module=module)
    def joint_references(
        # Model
        dof_q: wp.array(dtype=int),
        dof_inverse_weight: wp.array(dtype=scalar),
        dt: scalar,
        # Parameters
        limits: Limits,
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        limit_reference: wp.array2d(dtype=vec2),
        loss_softness: wp.array2d(dtype=scalar),
    ):
        """Over (dof, world). limit_reference: of the lower limit of degree of freedom k at 2 k, of the upper one at 2 k + 1; zero where the joint is within. loss_softness: R of dry friction."""
        k, world = wp.tid()
        softness = solref[wp.min(world, solref.shape[0] - 1), 0]
        stiffening = solimp[wp.min(world, solimp.shape[0] - 1), 0]
        loss_softness[k, world] = reference(softness, stiffening, zero, dof_inverse_weight[k], dt)[1]
        below = vec2()
        above = vec2()
        if dof_q[k] >= 0:
            margin = limits.margin[wp.min(world, limits.margin.shape[0] - 1), k]
            gap = q[world, dof_q[k]] - limits.lower[wp.min(world, limits.lower.shape[0] - 1), k] - margin
            if gap < zero:
                below = reference(softness, stiffening, gap, dof_inverse_weight[k], dt)
            gap = limits.upper[wp.min(world, limits.upper.shape[0] - 1), k] - q[world, dof_q[k]] - margin
            if gap < zero:
                above = reference(softness, stiffening, gap, dof_inverse_weight[k], dt)
        limit_reference[2 * k, world] = below
        limit_reference[2 * k + 1, world] = above

    return SimpleNamespace(
        module=module,
        velocity_shares=velocity_shares,
        contact_references=contact_references,
        joint_references=joint_references,
    )
