"""Normal row of a contact and its contact point: depenetration bias, spring, or bounce.

For a bounce: without contact the normal velocity would change from u to u*, and the distance follows d + t u*, as
positions do in a step. The surfaces therefore touch at s h with s = -d / (h u*). A velocity moves positions from half a
step before to half a step after its time, so u and u* belong to -h / 2 and h / 2, and the velocity at the touch is u_c
= u + (s + 1/2) (u* - u). It is reversed to -e u_c, and the rest of the step up to h / 2 adds (1/2 - s) (u* - u).
Positions use the new velocity for the rest of the step only (:mod:`warp_kernels.solver.impact_time`). A motion
therefore depends continuously on its initial state, its derivatives converge to those of continuous time, and a
lossless bounce conserves energy.

The contact of an inner ball (:mod:`warp_kernels.collision.touch.inner_ball`) doesn't bounce, but the velocity after its
pair's bounce may still move the ball through the surface in the rest of the step. It therefore acts at the time s of
that bounce, stored in its restitution as -1 - s, and the velocity after it uses up the distance that remains then: (d +
s h u) + (1 - s) h v+ >= 0.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_contact
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.shared import compliance_functions, row_functions
from warp_kernels.solver.structs import Constraints, TreeDofs, solver_structs
from warp_kernels.types import warp_types


@functools.cache
def bounce_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of bouncing contacts for one precision. ``before`` is u, ``free`` u* and ``late`` s."""
    vec2, vec4 = warp_types(scalar).vec2, wp.types.vector(4, scalar)
    common = row_functions(scalar)
    contact_rows = contact_row_functions(scalar)
    Options = solver_structs(scalar).Options
    zero, half, one = scalar(0.0), scalar(0.5), scalar(1.0)

    @wp.func
    def touch(distance: scalar, free: scalar, options: Options):
        """Return the fraction of the step at which the surfaces touch.

        Penetrating surfaces touched before the step, at most one step ago: deeper penetration has another cause.
        """
        if free >= zero:
            return zero
        return wp.max(-distance / (options.dt * free), -one)

    @wp.func
    def touching_velocity(before: scalar, free: scalar, late: scalar):
        """Return the normal velocity with which the surfaces touch."""
        return before + (half + late) * (free - before)

    @wp.func
    def bounce_bias(before: scalar, free: scalar, late: scalar, restitution: scalar):
        """Return minus the normal velocity after the step."""
        return restitution * touching_velocity(before, free, late) - (half - late) * (free - before)

    @wp.func
    def is_held(restitution: scalar):
        """Return whether a contact is that of an inner ball whose pair may bounce."""
        return restitution < scalar(-0.5)

    @wp.func
    def time(distance: scalar, free: scalar, restitution: scalar, options: Options):
        """Return the fraction of the step after which a contact acts."""
        if is_held(restitution):
            return -one - restitution
        return touch(distance, free, options)

    @wp.func
    def bias(distance: scalar, before: scalar, free: scalar, late: scalar, restitution: scalar, options: Options):
        """Return minus the smallest normal velocity after the step."""
        if is_held(restitution):
            return (distance / options.dt + late * before) / (one - late)
        return bounce_bias(before, free, late, restitution)

    @wp.func
    def bounces(
        distance: scalar,
        before: scalar,
        free: scalar,
        restitution: scalar,
        spring: wp.array2d(dtype=vec2),
        item: int,
        world: int,
        options: Options,
    ):
        """Return whether a hard contact bounces: it would close within the step and separates fast enough.

        A slower contact continues to the surface, a bounce reverses. The threshold is on the velocity after the impact,
        so that nothing jumps as restitution goes to zero. Penetrating bodies must separate faster than the penetration
        is removed.
        """
        if contact_rows.is_compliant(spring, item, world) or distance + options.dt * free >= zero:
            return False
        if is_held(restitution):
            return distance - options.dt * (one + restitution) * before >= zero
        late = touch(distance, free, options)
        if restitution * touching_velocity(before, free, late) >= -options.restitution_threshold:
            return False
        removal = common.correction(distance, options.max_correction, options, world)
        return bounce_bias(before, free, late, restitution) < wp.min(zero, removal)

    @wp.func
    def bounce_adjoint(
        distance: scalar,
        before: scalar,
        free: scalar,
        late: scalar,
        restitution: scalar,
        options: Options,
        bias_bar: scalar,
        late_bar: scalar,
    ):
        """Return the adjoints of distance, before, free and restitution from that of the bias, and of late where it is
        used otherwise.
        """
        if is_held(restitution):
            shares = bias_bar / (one - late)
            share_bar = shares * (before + distance / options.dt) / (one - late)
            return vec4(shares / options.dt, shares * late, zero, -share_bar - late_bar)
        rise = free - before
        touch_bar = late_bar + bias_bar * (restitution + one) * rise
        rise_bar = bias_bar * (restitution * (half + late) - half + late)
        distance_bar = zero
        free_bar = rise_bar
        if free < zero and late > -one:
            distance_bar = -touch_bar / (options.dt * free)
            free_bar -= touch_bar * late / free
        before_bar = bias_bar * restitution - rise_bar
        return vec4(distance_bar, before_bar, free_bar, bias_bar * touching_velocity(before, free, late))

    return SimpleNamespace(time=time, bias=bias, bounces=bounces, bounce_adjoint=bounce_adjoint)


@functools.cache
def contact_row_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of contact rows for one precision."""
    common = row_functions(scalar)
    soft = compliance_functions(scalar)
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    reference_rows = reference_row_functions(scalar)
    structs = solver_structs(scalar)
    Options, Bounces, Rows, RowInputs = structs.Options, structs.Bounces, structs.Rows, structs.RowInputs
    Contacts = structs.Contacts

    @wp.func
    def is_compliant(spring: wp.array2d(dtype=vec2), item: int, world: int):
        """Return whether contacts are compliant. spring: stiffness and damping of each contact; no rows if all are
        hard.
        """
        if spring.shape[0] == 0:
            return False
        return wp.isfinite(spring[item, world][0])

    @wp.func
    def frame_slot(kind: int, slot: int, contacts: Contacts):
        """Return the index of the frame of a contact's constraint: those other than the contact may have their own."""
        if is_contact(kind):
            return slot
        return slot + contacts.frame.shape[0] - contacts.distance.shape[0]

    @wp.func
    def point_on_side(point: wp.array2d(dtype=vec3), apart: wp.array2d(dtype=vec3), side: int, item: int, world: int):
        """Return the point of a contact on one of its sides."""
        result = point[item, world]
        if apart.shape[0] > 0:
            result += (scalar(0.5) * common.side_sign(side)) * apart[item, world]
        return result

    @wp.func
    def contact_bias(
        distance: scalar, most: scalar, spring: wp.array2d(dtype=vec2), item: int, world: int, options: Options
    ):
        """Return bias and compliance of the normal row of a contact that doesn't bounce; most: depenetration
        velocity.
        """
        if is_compliant(spring, item, world):
            pair = spring[item, world]
            return vec2(
                soft.compliant_bias(distance, pair[0], pair[1], options.dt),
                soft.compliance(pair[0], pair[1], options.dt),
            )
        if most < options.max_correction:
            # The impulse between links of one tree is bounded, too.
            return vec2(common.correction(distance, most, options, world), scalar(0.0))
        return common.stabilisation(distance, most, options, world)

    @wp.func
    def bias_adjoint(
        constraint: int,
        item: int,
        world: int,
        b_bar: scalar,
        trees: TreeDofs,
        constraints: Constraints,
        bounces: Bounces,
        rows_bar: Rows,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """Add to the adjoints of distance, spring and friction of a contact, and of the options."""
        referred = reference_rows.is_referred(inputs.references, constraints.kind[constraint, world])
        bouncing = bool(False)
        if bounces.free.shape[0] > 0:
            bouncing = bounces.free[constraint, world] != scalar(0.0)
        if not referred and not bouncing:
            distance = inputs.contacts.distance[item, world]
            most = common.contact_correction(constraint, world, trees, constraints, inputs.options)
            compliance_bar = rows_bar.compliance[constraint, world]
            if is_compliant(inputs.contacts.spring, item, world):
                pair = inputs.contacts.spring[item, world]
                bars = soft.compliance_adjoint(distance, pair[0], pair[1], inputs.options.dt, b_bar, compliance_bar)
                inputs_bar.contacts.distance[item, world] += bars[0]
                inputs_bar.contacts.spring[item, world] = vec2(bars[1], bars[2])
            elif most < inputs.options.max_correction:
                inputs_bar.contacts.distance[item, world] += common.correction_adjoint(
                    distance, most, inputs.options, world, b_bar, inputs_bar.options
                )
            else:
                inputs_bar.contacts.distance[item, world] += common.stabilisation_adjoint(
                    distance, most, inputs.options, world, b_bar, compliance_bar, inputs_bar.options
                )
        inputs_bar.contacts.friction[item, world] = rows_bar.bound[constraint, world]

    return SimpleNamespace(
        is_compliant=is_compliant,
        frame_slot=frame_slot,
        point_on_side=point_on_side,
        contact_bias=contact_bias,
        bias_adjoint=bias_adjoint,
    )
