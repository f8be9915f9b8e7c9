"""Contacts whose friction differs along two tangents.

Sliding friction lies in the elliptic cone ``(l_1 / mu_1)^2 + (l_2 / mu_2)^2 <= l_n^2``, and where a contact slides it
dissipates as much as any impulse in the cone. With tangents of the lengths ``mu_1 / mu`` and ``mu_2 / mu``, this is an
isotropic contact with the coefficient mu: its impulses lie in a circular cone and oppose the slip. Rows, solvers and
sensors therefore need nothing but the frame of the contact. Torsional and rolling friction have a frame with lengths
of its own, ``max_contacts`` rows further on.

A row's regularisation R becomes ``R (mu / mu_i)^2`` along the unit tangent. Under MuJoCo's law mu is mu_1, which makes
this MuJoCo's; under the hard law it is the larger coefficient, so that no row is stiffer than that of an isotropic
contact.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.materials import LEAST_FRICTION, material_functions
from warp_kernels.collision.plane.adjoint import placement_adjoint_functions
from warp_kernels.collision.stated import stated_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import looped_over_slots

# In place of the geometry whose direction the first tangent follows: the axes of the world, as in MuJoCo; or friction
# is the same along both tangents.
WORLD_AXES = -1
ISOTROPIC = -2


@functools.cache
def direction_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec2, vec3, mat33, transform = t.vec2, t.vec3, t.mat33, t.transform
    frame, materials = geometry_frame_functions(scalar), material_functions(scalar)
    zero, one, least = scalar(0.0), scalar(1.0), scalar(LEAST_FRICTION)

    @wp.func
    def friction_and_lengths(along: scalar, across: scalar, by_mujoco: int):
        """Return the coefficient mu of the circular cone, and the lengths of both tangents."""
        result = vec3(zero, one, one)
        if by_mujoco == 1:
            result = vec3(wp.max(along, least), one, wp.max(across, least) / wp.max(along, least))
        else:
            most = wp.max(along, across)
            if most > zero:
                result = vec3(most, along / most, across / most)
        return result

    @wp.func
    def unit_frame(normal: vec3, guide: vec3, turn: vec2):
        """Return the frame with tangents of length one. The first is the projection of the guide, turned about the
        normal by the angle of this cosine and sine.
        """
        return frame.pyramid_frame(normal, turn[0] * guide + turn[1] * wp.cross(normal, guide))

    @wp.func
    def stretched(frame_of_units: mat33, first: scalar, second: scalar):
        """Return a frame with tangents of these lengths."""
        return wp.diag(vec3(one, first, second)) * frame_of_units

    @wp.func
    def guide_of(
        geometry: int,
        axis: vec3,
        geometry_link: wp.array(dtype=wp.int32),
        geometry_placement: wp.array2d(dtype=transform),
        pose: wp.array2d(dtype=transform),
        world: int,
    ):
        """Return the direction in the world that the first tangent follows; zero for the axes of the world."""
        guide = vec3()
        if geometry >= 0:
            q = frame.geometry_orientation(geometry, geometry_link[geometry], geometry_placement, pose, world)
            guide = wp.quat_rotate(q, axis)
        return guide

    @wp.func
    def own_across(
        geometry: int,
        directed: wp.array(dtype=wp.int32),
        friction: wp.array2d(dtype=scalar),
        friction_across: wp.array2d(dtype=scalar),
        world: int,
    ):
        """Return the friction of a geometry across its direction; that along it, or in any, without a direction."""
        if directed[geometry] == 1:
            return friction_across[wp.min(world, friction_across.shape[0] - 1), geometry]
        return friction[wp.min(world, friction.shape[0] - 1), geometry]

    @wp.func
    def stated_value(values: wp.array2d(dtype=scalar), stated: int, world: int):
        """Return a value stated for a pair, zero if it has none (``stated`` is -1)."""
        result = zero
        if stated >= 0:
            result = values[wp.min(world, values.shape[0] - 1), stated]
        return result

    @wp.func
    def pair_frictions(
        a: int,
        b: int,
        rule: int,
        along: scalar,
        across: scalar,
        directed: wp.array(dtype=wp.int32),
        friction: wp.array2d(dtype=scalar),
        friction_across: wp.array2d(dtype=scalar),
        world: int,
    ):
        """Return the friction of a pair along and across its direction; ``along`` and ``across`` are those stated."""
        of_a = own_across(a, directed, friction, friction_across, world)
        of_b = own_across(b, directed, friction, friction_across, world)
        return vec2(
            materials.pair_friction(friction, a, b, along, rule, world),
            materials.by_rule(of_a, of_b, of_a * of_b, across, rule),
        )

    return SimpleNamespace(
        friction_and_lengths=friction_and_lengths,
        unit_frame=unit_frame,
        stretched=stretched,
        guide_of=guide_of,
        own_across=own_across,
        stated_value=stated_value,
        pair_frictions=pair_frictions,
    )


@functools.cache
def direction_kernels(scalar: Any, looping: bool) -> SimpleNamespace:
    """Return the kernels ``direct_friction`` and ``direct_friction_adjoint`` for one precision, over (slot, world), or
    worlds if ``looping``.
    """
    t = warp_types(scalar)
    vec2, vec3, mat33, transform = t.vec2, t.vec3, t.mat33, t.transform
    f, by_rule = direction_functions(scalar), material_functions(scalar).by_rule
    resistance_and_lengths = stated_functions(scalar).resistance_and_lengths
    placements = placement_adjoint_functions(scalar)
    structs, Contacts = collision_structs(scalar), solver_structs(scalar).Contacts
    Directions, Geometries = structs.Directions, structs.Geometries
    module = kernel_module("collision.directions", scalar, looping=looping)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def directed_power(
        normal: vec3,
        guide: vec3,
        turn: vec2,
        along: scalar,
        across: scalar,
        roll_along: scalar,
        roll_across: scalar,
        by_mujoco: int,
        friction_bar: scalar,
        frame_bar: mat33,
        turning_bar: mat33,
    ):
        """Return the sum of what ``direct_friction`` writes, each times its adjoint."""
        units = f.unit_frame(normal, guide, turn)
        cone = f.friction_and_lengths(along, across, by_mujoco)
        slides = wp.ddot(f.stretched(units, cone[1], cone[2]), frame_bar)
        rolling = resistance_and_lengths(roll_along, roll_across, by_mujoco)
        rolls = wp.ddot(f.stretched(units, rolling[1], rolling[2]), turning_bar)
        return slides + rolls + cone[0] * friction_bar

    @wp.kernel(module=module, enable_backward=False)
    @looped_over_slots(looping)
    def direct_friction(
        # Model
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        pair_rule: wp.array(dtype=wp.int32),
        pair_stated: wp.array(dtype=wp.int32),
        directions: Directions,
        geometries: Geometries,
        by_mujoco: int,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        friction: wp.array2d(dtype=scalar),
        friction_across: wp.array2d(dtype=scalar),
        pair_friction: wp.array2d(dtype=scalar),
        pair_friction_across: wp.array2d(dtype=scalar),
        pair_rolling_friction: wp.array2d(dtype=scalar),
        pair_rolling_friction_across: wp.array2d(dtype=scalar),
        # Data in
        pose: wp.array2d(dtype=transform),
        slot_pair: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        contact_frame: wp.array2d(dtype=mat33),
        contact_friction: wp.array2d(dtype=scalar),
    ):
        """Turn and stretch the tangents of contacts, and replace their friction by that of the circular cone."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        geometry = directions.geometry[pair]
        found = contact_frame[slot, world]
        turning = slot + contact_friction.shape[0]
        if geometry == ISOTROPIC:
            contact_frame[turning, world] = found
        else:
            guide = f.guide_of(geometry, directions.axis[pair], geometries.link, geometry_placement, pose, world)
            units = f.unit_frame(found[0], guide, directions.turn[pair])
            stated = pair_stated[pair]
            both = f.pair_frictions(
                pair_a[pair], pair_b[pair], pair_rule[pair], f.stated_value(pair_friction, stated, world),
                f.stated_value(pair_friction_across, stated, world), directions.directed, friction, friction_across,
                world,
            )  # fmt: skip
            cone = f.friction_and_lengths(both[0], both[1], by_mujoco)
            rolling = resistance_and_lengths(
                f.stated_value(pair_rolling_friction, stated, world),
                f.stated_value(pair_rolling_friction_across, stated, world),
                by_mujoco,
            )
            contact_frame[slot, world] = f.stretched(units, cone[1], cone[2])
            contact_frame[turning, world] = f.stretched(units, rolling[1], rolling[2])
            contact_friction[slot, world] = cone[0]

    # A separate module, for wp.grad (see warp_kernels.solver.pgs).
    adjoint_module = kernel_module("collision.directions_adjoint", scalar, looping=looping)

    @wp.func
    def add_across_bar(
        geometry: int,
        bar: scalar,
        directed: wp.array(dtype=wp.int32),
        world: int,
        friction_bar: wp.array2d(dtype=scalar),
        friction_across_bar: wp.array2d(dtype=scalar),
    ):
        """Add the adjoint of :func:`own_across`."""
        if directed[geometry] == 1:
            if friction_across_bar.shape[0] > 0:
                wp.atomic_add(friction_across_bar, wp.min(world, friction_across_bar.shape[0] - 1), geometry, bar)
        elif friction_bar.shape[0] > 0:
            wp.atomic_add(friction_bar, wp.min(world, friction_bar.shape[0] - 1), geometry, bar)

    @wp.func
    def add_stated_bar(stated: int, bar: scalar, world: int, values_bar: wp.array2d(dtype=scalar)):
        """Add the adjoint of :func:`stated_value`."""
        if values_bar.shape[0] > 0:
            wp.atomic_add(values_bar, wp.min(world, values_bar.shape[0] - 1), stated, bar)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    @looped_over_slots(looping)
    def direct_friction_adjoint(
        # Model
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        pair_rule: wp.array(dtype=wp.int32),
        pair_stated: wp.array(dtype=wp.int32),
        directions: Directions,
        geometries: Geometries,
        by_mujoco: int,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        friction: wp.array2d(dtype=scalar),
        friction_across: wp.array2d(dtype=scalar),
        pair_friction: wp.array2d(dtype=scalar),
        pair_friction_across: wp.array2d(dtype=scalar),
        pair_rolling_friction: wp.array2d(dtype=scalar),
        pair_rolling_friction_across: wp.array2d(dtype=scalar),
        # Data in
        pose: wp.array2d(dtype=transform),
        slot_pair: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        contacts: Contacts,
        # Adjoint out
        contacts_bar: Contacts,
        geometry_placement_bar: wp.array2d(dtype=transform),
        friction_bar: wp.array2d(dtype=scalar),
        friction_across_bar: wp.array2d(dtype=scalar),
        pair_friction_across_bar: wp.array2d(dtype=scalar),
        pair_rolling_friction_bar: wp.array2d(dtype=scalar),
        pair_rolling_friction_across_bar: wp.array2d(dtype=scalar),
        pose_bar: wp.array2d(dtype=transform),
    ):
        """Compute the adjoint of ``direct_friction``: replace the adjoints of frames and friction by those of what it
        reads, and clear that of the frames of rolling friction. The adjoint of friction along the first tangent
        remains one of the contact's friction.
        """
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        geometry = directions.geometry[pair]
        frame_bar = contacts_bar.frame[slot, world]
        turning = slot + contacts.friction.shape[0]
        turning_bar = contacts_bar.frame[turning, world]
        contacts_bar.frame[turning, world] = mat33()
        if geometry == ISOTROPIC:
            contacts_bar.frame[slot, world] = frame_bar + turning_bar
        else:
            a = pair_a[pair]
            b = pair_b[pair]
            rule = pair_rule[pair]
            axis = directions.axis[pair]
            normal = contacts.frame[slot, world][0]
            guide = f.guide_of(geometry, axis, geometries.link, geometry_placement, pose, world)
            stated = pair_stated[pair]
            stated_across = f.stated_value(pair_friction_across, stated, world)
            both = f.pair_frictions(
                a, b, rule, f.stated_value(pair_friction, stated, world), stated_across, directions.directed, friction,
                friction_across, world,
            )  # fmt: skip
            (
                normal_bar, guide_bar, _turn, along_bar, across_bar, roll_along_bar, roll_across_bar, _mujoco,
                _friction, _frame, _turning,
            ) = wp.grad(directed_power)(
                normal, guide, directions.turn[pair], both[0], both[1],
                f.stated_value(pair_rolling_friction, stated, world),
                f.stated_value(pair_rolling_friction_across, stated, world),
                by_mujoco, contacts_bar.friction[slot, world], frame_bar, turning_bar,
            )  # fmt: skip
            contacts_bar.friction[slot, world] = along_bar
            contacts_bar.frame[slot, world] = wp.outer(vec3(one, zero, zero), normal_bar)
            of_a = f.own_across(a, directions.directed, friction, friction_across, world)
            of_b = f.own_across(b, directions.directed, friction, friction_across, world)
            share_a, share_b, share, share_stated, _rule = wp.grad(by_rule)(
                of_a, of_b, of_a * of_b, stated_across, rule
            )
            bar_a = across_bar * (share_a + share * of_b)
            bar_b = across_bar * (share_b + share * of_a)
            add_across_bar(a, bar_a, directions.directed, world, friction_bar, friction_across_bar)
            add_across_bar(b, bar_b, directions.directed, world, friction_bar, friction_across_bar)
            if stated >= 0:
                add_stated_bar(stated, across_bar * share_stated, world, pair_friction_across_bar)
                add_stated_bar(stated, roll_along_bar, world, pair_rolling_friction_bar)
                add_stated_bar(stated, roll_across_bar, world, pair_rolling_friction_across_bar)
            if geometry >= 0:
                link = geometries.link[geometry]
                turn = wp.cross(guide, guide_bar)
                if link >= 0:
                    bar = placements.quaternion_bar(turn, wp.transform_get_rotation(pose[link, world]))
                    wp.atomic_add(pose_bar, link, world, transform(vec3(), bar))
                if geometry_placement_bar.shape[0] > 0:
                    placements.add_placement_bar(
                        geometry, link, vec3(), turn, world, geometry_placement, pose, geometry_placement_bar
                    )

    return SimpleNamespace(
        modules=(module, adjoint_module),
        direct_friction=direct_friction,
        direct_friction_adjoint=direct_friction_adjoint,
    )
