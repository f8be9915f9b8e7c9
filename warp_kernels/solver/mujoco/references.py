"""MuJoCo's reference accelerations and regularisation, from ``solref`` and ``solimp``; differentiated by Warp's own
adjoint.

A constraint at the position x (negative: violated) with the velocity u before the step has the reference acceleration
``a_ref = -b u - k d(x) x`` and the regularisation ``R = (1 - d) / d A``, with the impedance d and A from inverse masses
at the model's initial configuration (MuJoCo's documentation, *Modeling*, "Solver parameters"). In terms of velocities a
row's value is ``J v+ - (1 - h b) u + h k d x``, with the share ``h b`` of u and a bias. Constraints of tendons have
references, too.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.mujoco.laws import flattest_square
from warp_kernels.solver.structs import TendonRows, solver_structs
from warp_kernels.solver.tendons.rows import LOSS, TIED, tendon_row_functions
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import looped_over_slots

# MuJoCo's bounds on impedances.
LEAST = 1e-4


@functools.cache
def reference_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions that references of all constraints share, for one precision."""
    t = warp_types(scalar)
    vec2, vec3, vec5 = t.vec2, t.vec3, t.vec5
    zero, one = scalar(0.0), scalar(1.0)
    least, most = scalar(LEAST), scalar(1.0 - LEAST)

    @wp.func
    def rates(solref: vec2, solimp: vec5, dt: scalar):
        """Return b [1/s] and k [1/s^2]."""
        largest = wp.clamp(solimp[1], least, most)
        if solref[0] > zero:
            # Faster than twice the time step would be unstable.
            time = wp.max(solref[0], scalar(2.0) * dt)
            rate = one / (largest * time * solref[1])
            return vec2(scalar(2.0) / (largest * time), rate * rate)
        return vec2(-solref[1] / largest, -solref[0] / (largest * largest))

    @wp.func
    def impedance(solimp: vec5, x: scalar):
        """Return d at the position x: from the first to the second of solimp over the width, by a power law around the
        midpoint.
        """
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
            rise = along * wp.pow(along / middle, power - one)
        else:
            rise = one - (one - along) * wp.pow((one - along) / (one - middle), power - one)
        return low + rise * (high - low)

    @wp.func
    def reference(solref: vec2, solimp: vec5, x: scalar, inverse_mass: scalar, dt: scalar):
        """Return the bias h k d x, R, and the share h b."""
        d = impedance(solimp, x)
        rate = rates(solref, solimp, dt)
        return vec3(dt * rate[1] * d * x, (one - d) / d * inverse_mass, dt * rate[0])

    @wp.func
    def solref_of(own: vec2, solref: wp.array2d(dtype=vec2), world: int):
        """Return a constraint's own solref, or the global one (no rows without)."""
        if solref.shape[0] > 0:
            return solref[wp.min(world, solref.shape[0] - 1), 0]
        return own

    @wp.func
    def solimp_of(own: vec5, solimp: wp.array2d(dtype=vec5), world: int):
        """Return a constraint's own solimp, or the global one (no rows without)."""
        if solimp.shape[0] > 0:
            return solimp[wp.min(world, solimp.shape[0] - 1), 0]
        return own

    return SimpleNamespace(
        rates=rates, impedance=impedance, reference=reference, solref_of=solref_of, solimp_of=solimp_of
    )


@functools.cache
def contact_reference_kernels(scalar: Any, looping: bool) -> SimpleNamespace:
    """Return the kernel ``contact_references`` for one precision, over (slot, world), or worlds if ``looping``."""
    t = warp_types(scalar)
    vec2, vec3, vec5 = t.vec2, t.vec3, t.vec5
    law = reference_functions(scalar)
    module = kernel_module("mujoco_references", scalar, looping=looping, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)
    flattest = flattest_square(scalar)

    @wp.kernel(module=module)
    @looped_over_slots(looping)
    def contact_references(
        # Model
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        geometry_inverse_weight: wp.array(dtype=scalar),
        pair_solref: wp.array(dtype=vec2),
        pair_solimp: wp.array(dtype=vec5),
        pair_margin: wp.array(dtype=scalar),
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
        contact_reference: wp.array2d(dtype=vec3),
    ):
        """Compute the reference of each contact; zero where nothing touches. Slots past ``contact_count`` are
        unchanged.
        """
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        x = contact_distance[slot, world] - pair_margin[pair]
        result = vec3()
        if x < zero:
            weight = geometry_inverse_weight[pair_a[pair]] + geometry_inverse_weight[pair_b[pair]]
            square = contact_friction[slot, world] * contact_friction[slot, world]
            if pyramidal == 1:
                weight = weight * (one + square)
                if square > zero and square < flattest:
                    weight = weight * flattest / square
            softness = law.solref_of(pair_solref[pair], solref, world)
            result = law.reference(softness, law.solimp_of(pair_solimp[pair], solimp, world), x, weight, dt)
        contact_reference[slot, world] = result

    return SimpleNamespace(contact_references=contact_references)


@functools.cache
def reference_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision that evaluate references of joints' constraints."""
    t = warp_types(scalar)
    vec2, vec3, vec5 = t.vec2, t.vec3, t.vec5
    law = reference_functions(scalar)
    Limits = solver_structs(scalar).Limits
    module = kernel_module("mujoco_references", scalar, inlined=True)
    zero = scalar(0.0)

    @wp.func
    def limit_reference_of(
        gap: scalar,
        k: int,
        world: int,
        dof_inverse_weight: wp.array(dtype=scalar),
        limit_solref: wp.array(dtype=vec2),
        limit_solimp: wp.array(dtype=vec5),
        dt: scalar,
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
    ):
        """Return the reference of a limit that is passed by ``-gap``; zero if it isn't passed."""
        if gap >= zero:
            return vec3()
        softness = law.solref_of(limit_solref[k], solref, world)
        return law.reference(softness, law.solimp_of(limit_solimp[k], solimp, world), gap, dof_inverse_weight[k], dt)

    @wp.kernel(module=module)
    def joint_references(
        # Model
        threads: int,
        limited_dof: wp.array(dtype=int),
        friction_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        dof_inverse_weight: wp.array(dtype=scalar),
        limit_solref: wp.array(dtype=vec2),
        limit_solimp: wp.array(dtype=vec5),
        loss_solref: wp.array(dtype=vec2),
        loss_solimp: wp.array(dtype=vec5),
        dt: scalar,
        # Parameters
        limits: Limits,
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        limit_reference: wp.array2d(dtype=vec3),
        loss_reference: wp.array2d(dtype=vec3),
    ):
        """Compute references of joints with a limit or dry friction; others are unchanged.

        limit_reference: of the lower limit of degree of freedom k at 2 k, of the upper one at 2 k + 1; zero if the
            joint is within.
        loss_reference: of dry friction.
        """
        thread, world = wp.tid()
        for i in range(thread, limited_dof.shape[0], threads):
            k = limited_dof[i]
            margin = limits.margin[wp.min(world, limits.margin.shape[0] - 1), k]
            below = q[world, dof_q[k]] - limits.lower[wp.min(world, limits.lower.shape[0] - 1), k] - margin
            above = limits.upper[wp.min(world, limits.upper.shape[0] - 1), k] - q[world, dof_q[k]] - margin
            limit_reference[2 * k, world] = limit_reference_of(
                below, k, world, dof_inverse_weight, limit_solref, limit_solimp, dt, solref, solimp
            )
            limit_reference[2 * k + 1, world] = limit_reference_of(
                above, k, world, dof_inverse_weight, limit_solref, limit_solimp, dt, solref, solimp
            )
        for i in range(thread, friction_dof.shape[0], threads):
            rubbing = friction_dof[i]
            softness = law.solref_of(loss_solref[rubbing], solref, world)
            stiffening = law.solimp_of(loss_solimp[rubbing], solimp, world)
            loss_reference[rubbing, world] = law.reference(softness, stiffening, zero, dof_inverse_weight[rubbing], dt)

    @wp.kernel(module=module)
    def cone_references(
        # Model
        cone_dof: wp.array(dtype=int),
        dof_inverse_weight: wp.array(dtype=scalar),
        limit_solref: wp.array(dtype=vec2),
        limit_solimp: wp.array(dtype=vec5),
        dt: scalar,
        # Parameters
        limits: Limits,
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data in
        cone_gap: wp.array2d(dtype=scalar),
        # Data out
        cone_reference: wp.array2d(dtype=vec3),
    ):
        """Compute references of limits of spherical joints, over (cone, world); zero if the joint is within."""
        cone, world = wp.tid()
        k = cone_dof[cone]
        gap = cone_gap[cone, world] - limits.margin[wp.min(world, limits.margin.shape[0] - 1), k]
        result = vec3()
        if gap < zero:
            softness = law.solref_of(limit_solref[k], solref, world)
            stiffening = law.solimp_of(limit_solimp[k], solimp, world)
            result = law.reference(softness, stiffening, gap, dof_inverse_weight[k], dt)
        cone_reference[cone, world] = result

    return SimpleNamespace(module=module, cone_references=cone_references, joint_references=joint_references)


@functools.cache
def tendon_reference_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel for one precision, over (constraint, world)."""
    t = warp_types(scalar)
    vec2, vec3, vec5 = t.vec2, t.vec3, t.vec5
    common, f, law = row_functions(scalar), tendon_row_functions(scalar), reference_functions(scalar)
    module = kernel_module("mujoco_tendon_references", scalar, inlined=True)
    zero = scalar(0.0)

    @wp.kernel(module=module)
    def tendon_references(
        # Model
        tendon_rows: TendonRows,
        tied_reference: wp.array(dtype=vec2),
        tendon_inverse_weight: wp.array(dtype=scalar),
        tendon_limit_solref: wp.array(dtype=vec2),
        tendon_limit_solimp: wp.array(dtype=vec5),
        tendon_loss_solref: wp.array(dtype=vec2),
        tendon_loss_solimp: wp.array(dtype=vec5),
        tendon_coupling_solref: wp.array(dtype=vec2),
        tendon_coupling_solimp: wp.array(dtype=vec5),
        dt: scalar,
        # Parameters
        tendon_lower_limit: wp.array2d(dtype=scalar),
        tendon_upper_limit: wp.array2d(dtype=scalar),
        tendon_limit_margin: wp.array2d(dtype=scalar),
        tendon_friction_loss: wp.array2d(dtype=scalar),
        tendon_polynomial: wp.array2d(dtype=vec5),
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data in
        tendon_length: wp.array2d(dtype=scalar),
        # Data out
        tendon_position: wp.array2d(dtype=vec2),
        tendon_reference: wp.array2d(dtype=vec3),
        tendon_bound: wp.array2d(dtype=scalar),
    ):
        """Compute references of tendons; zero if a limit is not reached."""
        i, world = wp.tid()
        kind = tendon_rows.kind[i]
        tendon = tendon_rows.tendon[i]
        coupling = tendon_rows.coupling[i]
        found = f.violation(
            kind, tendon, tendon_rows.other[i], coupling, world, tied_reference, tendon_lower_limit,
            tendon_upper_limit, tendon_limit_margin, tendon_polynomial, tendon_length,
        )  # fmt: skip
        x = found[0]
        bound = zero
        result = vec3()
        weight = tendon_inverse_weight[tendon]
        if kind == LOSS:
            bound = dt * common.value_of(tendon_friction_loss, world, tendon)
            softness = law.solref_of(tendon_loss_solref[tendon], solref, world)
            stiffening = law.solimp_of(tendon_loss_solimp[tendon], solimp, world)
            result = law.reference(softness, stiffening, zero, weight, dt)
        elif kind == TIED:
            bound = scalar(wp.inf)
            if tendon_rows.other[i] >= 0:
                weight += tendon_inverse_weight[tendon_rows.other[i]]
            softness = law.solref_of(tendon_coupling_solref[coupling], solref, world)
            stiffening = law.solimp_of(tendon_coupling_solimp[coupling], solimp, world)
            result = law.reference(softness, stiffening, x, weight, dt)
        elif x < zero:
            softness = law.solref_of(tendon_limit_solref[tendon], solref, world)
            stiffening = law.solimp_of(tendon_limit_solimp[tendon], solimp, world)
            result = law.reference(softness, stiffening, x, weight, dt)
        tendon_position[i, world] = found
        tendon_reference[i, world] = result
        tendon_bound[i, world] = bound

    return SimpleNamespace(module=module, tendon_references=tendon_references)
