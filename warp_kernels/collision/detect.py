"""Narrow phase: integer slots of contacts for each world, without gradient.

A kernel has one thread for each world, or a team of threads (:mod:`warp_kernels.team`), each of which takes one
candidate pair at a time. Contacts, their order and their slots are the same: threads write behind those of the pairs
before theirs, and one after the other where contacts replace others.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.broad_phase import bounding_functions, next_candidate, nth_candidate
from warp_kernels.collision.closed import closed_form_functions
from warp_kernels.collision.convex.detect import convex_detection_functions
from warp_kernels.collision.convex.manifold import MAX_CANDIDATES
from warp_kernels.collision.field.contact import field_contact_functions
from warp_kernels.collision.field.hull.candidates import field_hull_functions
from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.inner_ball import FIRST_BALL, SHALLOW, mesh_ball_functions
from warp_kernels.collision.field.touch import field_touch_functions
from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.pairs import (
    BALLS,
    CAPSULE_BOX,
    CLOSED_FORM,
    CONVEX_SHAPES,
    FAMILIES,
    HULLS,
    ON_PLANE,
    ON_TRIANGLES,
    PAIR_KERNELS,
    ROUND,
    TRIANGLES,
    base_family,
    ground_of,
)
from warp_kernels.collision.plane.mujoco import mujoco_plane_functions
from warp_kernels.collision.structs import Pairs, collision_structs
from warp_kernels.collision.touch.inner_ball import INNER_BALL, inner_ball_functions
from warp_kernels.collision.touch.search import DONE, GENERATE, SLOP, START, slot_functions, touch_functions
from warp_kernels.team import OFFSETS_HEADER, team_functions, team_module
from warp_kernels.types import PLANE, SPHERE, kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

# Threads of a team: few pairs of a world are candidates.
TEAM = 8
# Kernels that teams have.
OF_TEAMS = (ON_PLANE, CLOSED_FORM, BALLS, CAPSULE_BOX)
VARIANTS = {"detect_kernels": [*((name,) for name in PAIR_KERNELS), *((name, TEAM) for name in OF_TEAMS)]}


@functools.cache
def detect_kernels(scalar: Any, name: str, width: int = 1) -> SimpleNamespace:
    """Return the kernel ``detect`` for one precision, name of PAIR_KERNELS and number of threads of a team, launched over
    (world,), or (threads of all worlds,) for teams, one family after the other.
    """
    family = base_family(name)
    t = warp_types(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    frame = geometry_frame_functions(scalar)
    structs = collision_structs(scalar)
    Slots, Geometries = structs.Slots, structs.Geometries
    PackedShapes, Triangles, MujocoPlanes = structs.PackedShapes, structs.Triangles, structs.MujocoPlanes
    bounds = bounding_functions(scalar)
    closed = closed_form_functions(scalar, name)
    touch = touch_functions(scalar)
    with_planes = name in (ON_PLANE, CLOSED_FORM)
    # Their normals don't turn within a step: on a plane, and under MuJoCo's law.
    unturned = name in (ON_PLANE, CAPSULE_BOX)
    planes = mujoco_plane_functions(scalar) if with_planes else SimpleNamespace()
    kept = slot_functions(scalar)
    on_field = family in ROUND or family in HULLS
    # Only the functions that the family needs: Python takes half a second to read all.
    nothing = SimpleNamespace()
    convex = convex_detection_functions(scalar) if family == CONVEX_SHAPES else nothing
    balls = inner_ball_functions(scalar) if family == CONVEX_SHAPES else nothing
    mesh_balls = mesh_ball_functions(scalar) if family in ON_TRIANGLES else nothing
    hulls = field_hull_functions(scalar, ground_of(family)) if on_field else nothing
    if family in ON_TRIANGLES:
        contact_functions = field_contact_functions if family in ROUND else hull_contact_functions
        on_mesh = contact_functions(scalar, TRIANGLES)
    over_field = field_touch_functions(scalar, family) if on_field else nothing
    by_team = width > 1
    team = team_functions(scalar, width) if by_team else nothing
    title = f"team_detect_{name}" if by_team else f"detect_{name}"
    if by_team:
        module = team_module(f"collision.{title}", scalar, width, headers=(OFFSETS_HEADER,))
    else:
        module = kernel_module(f"collision.{title}", scalar)
    if on_field:
        # Unrolled loops over kinds, parts and stages make the code many times as long, and no faster.
        wp.set_module_options({"max_unroll": 1}, module)

    @wp.func
    def closed_contacts(
        geometries: Geometries, mujoco_planes: MujocoPlanes, a: int, b: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, cutoff: scalar,
    ):  # fmt: skip
        """Return the features of a pair with a closed form, and its nearest contact."""
        features = closed.closed_features(geometries, a, b, pose_a, size_a, pose_b, size_b, cutoff)
        if wp.static(with_planes):
            if geometries.type[a] == PLANE:
                features = planes.features_on_plane(
                    geometries, mujoco_planes, a, b, pose_a, pose_b, size_b, cutoff, features
                )
        return closed.within_cutoff(geometries, a, b, pose_a, size_a, pose_b, size_b, cutoff, features)

    @wp.func
    def feature_contact(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, feature: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, data: Triangles, world: int,
    ):  # fmt: skip
        """Return distance, point and normal of a body's feature on a mesh."""
        if wp.static(family in ROUND):
            return on_mesh.field_contact(geometries, a, b, feature, pose_a, size_a, pose_b, size_b, data, world)
        else:
            return on_mesh.field_hull_contact(
                geometries, packed, a, b, feature, pose_a, size_a, pose_b, size_b, data, world
            )

    @wp.func
    def without_far_side(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, pose_a: transform, size_a: vec3, pose_b: transform,
        size_b: vec3, data: Triangles, world: int, features: wp.vec4i, least: scalar,
    ):  # fmt: skip
        """Return the features of a body without those of the far side of a wall through it, and the wall's triangle, -1 for none.

        least: their least distance.
        """
        wall = wp.int32(-1)
        radius = mesh_balls.ball_radius(geometries, packed, a, size_a)
        if geometries.type[a] == SPHERE or least > scalar(-SHALLOW) * radius:
            return features, wall
        field = mesh_balls.field_of(geometries, b, size_b, data, world)
        centre = mesh_balls.centre_in_mesh(geometries, packed, a, size_a, pose_a, pose_b)
        behind = bool(False)
        for k in range(4):
            if features[k] >= 0:
                if mesh_balls.has_behind(data, field, over_field.element_of(packed, a, field, features[k]), centre):
                    behind = True
        if not behind:
            return features, wall
        before = mesh_balls.wall_before(data, field, centre, bounds.ball_radius(geometries, a, size_a))
        if before >= 0:
            for k in range(4):
                if features[k] >= 0:
                    element = over_field.element_of(packed, a, field, features[k])
                    if mesh_balls.faces_away(data, field, element, before, centre):
                        distance, _point, _normal = feature_contact(
                            geometries, packed, a, b, features[k], pose_a, size_a, pose_b, size_b, data, world
                        )
                        if distance < scalar(0.0):
                            features[k] = -1
                            wall = before
        return features, wall

    @wp.kernel(name=title, module=module, enable_backward=False)
    @used_arguments_only
    def detect(
        # Model
        pairs: Pairs,
        geometries: Geometries,
        packed: PackedShapes,
        triangles: Triangles,
        mujoco_planes: MujocoPlanes,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        origin_low: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial),
        candidate_bits: wp.array2d(dtype=wp.uint32),
        margin: scalar,
        dt: scalar,
        # Data out
        scratch: wp.array2d(dtype=scalar),
        slots: Slots,
        contact_count: wp.array(dtype=wp.int32),
        contact_overflow: wp.array(dtype=wp.int32),
    ):
        """Write a slot for each contact within the cutoff of the candidate pairs of one family.

        The cutoff is the margin plus the distance by which the two may approach each other within dt, so that a contact
        exists before it closes, however fast. velocity: of the links, about the origins of their trees. At the ``time``
        of a slot (:mod:`warp_kernels.collision.touch`) its ``lead`` touches. The contact of an inner ball has the
        nearest one's feature, marked. Pairs come in order, and features of a pair too. Slots of a family follow those
        of the families before. Without a free slot, a contact replaces that of the largest gap, if its own is smaller;
        a pair's nearest contact is the last that it loses. Dropped contacts are counted in ``contact_overflow``; slots
        past ``contact_count`` are unchanged.
        """
        world = wp.tid()
        if wp.static(by_team):
            world = world // team.size()
            team.begin(scratch, world)
        row = wp.min(world, geometry_size.shape[0] - 1)
        room = slots.pair.shape[0]
        found = wp.int32(0)
        if wp.static(family != FAMILIES[0]):
            found = contact_count[world] + contact_overflow[world]
        if wp.static(family == CONVEX_SHAPES):
            modes = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.int32)
            codes_a = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.vec3i)
            codes_b = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.vec3i)
            directions = wp.zeros(shape=(MAX_CANDIDATES,), dtype=vec3)
        first = pairs.first + world * pairs.room
        following = next_candidate(pairs.first_bit, pairs.end_bit, candidate_bits, world)
        while following < pairs.end_bit:
            candidate = following
            if wp.static(by_team):
                candidate = nth_candidate(following, team.lane(), pairs.end_bit, candidate_bits, world)
                following = nth_candidate(following, team.size(), pairs.end_bit, candidate_bits, world)
            else:
                following = next_candidate(following + 1, pairs.end_bit, candidate_bits, world)
            pair = first + candidate - pairs.first_bit
            features = wp.vec4i(-1, -1, -1, -1)
            nearest = wp.int32(0)  # feature, by its index among the four
            gap = scalar(0.0)
            time = scalar(0.0)
            wall = wp.int32(-1)
            enters = bool(False)
            near = bool(True)
            if wp.static(by_team):
                near = candidate < pairs.end_bit
            if near:
                a = pairs.a[pair]
                b = pairs.b[pair]
                link_a = geometries.link[a]
                link_b = geometries.link[b]
                reference = frame.reference_tree(link_a, link_b, geometries.link_tree)
                offset_a = frame.origin_offset(link_a, reference, geometries.link_tree, origin, world)
                offset_b = frame.origin_offset(link_b, reference, geometries.link_tree, origin, world)
                centre_a = frame.geometry_centre(a, link_a, geometry_placement, pose, world) + offset_a
                centre_b = frame.geometry_centre(b, link_b, geometry_placement, pose, world) + offset_b
                if wp.static(scalar == wp.float32):
                    centre_a += frame.low_offset(link_a, reference, geometries.link_tree, origin_low, world)
                    centre_b += frame.low_offset(link_b, reference, geometries.link_tree, origin_low, world)
                size_a = geometry_size[row, a]
                size_b = geometry_size[row, b]
                if wp.static(on_field):
                    if wp.static(family in ROUND):
                        radius = bounds.bounding_radius(geometries.type[a], size_a)
                    else:
                        radius = hulls.hull_radius(packed.extent[a], size_a, packed.vertices)
                    # The body, which is a, as seen from the field.
                    cutoff = frame.cutoff(
                        link_b, link_a, offset_b, offset_a, centre_a, radius, velocity, margin, dt, world
                    )
                elif wp.static(family == ON_PLANE):
                    radius = wp.max(bounds.bounding_radius(geometries.type[b], size_b), scalar(0.0))
                    cutoff = frame.cutoff(
                        link_a, link_b, offset_a, offset_b, centre_b, radius, velocity, margin, dt, world
                    )
                else:
                    if wp.static(family == CLOSED_FORM):
                        radius_a = bounds.bounding_radius(geometries.type[a], size_a)
                        radius_b = bounds.bounding_radius(geometries.type[b], size_b)
                    else:
                        radius_a = bounds.ball_radius(geometries, a, size_a)
                        radius_b = bounds.ball_radius(geometries, b, size_b)
                    around_b = wp.max(radius_b, scalar(0.0))
                    cutoff = frame.cutoff(
                        link_a, link_b, offset_a, offset_b, centre_b, around_b, velocity, margin, dt, world
                    )
                    if radius_a >= scalar(0.0):
                        # Each bounds the approach rate of the two; a spinning ball doesn't sweep the plate that it
                        # touches.
                        other = frame.cutoff(
                            link_b, link_a, offset_b, offset_a, centre_a, radius_a, velocity, margin, dt, world
                        )
                        cutoff = wp.min(cutoff, other)
                    far = bounds.far_apart(radius_a, radius_b, centre_b - centre_a, cutoff)
                    if wp.static(by_team):
                        near = not far
                    elif far:
                        continue
                if near:
                    pose_a = transform(centre_a, frame.geometry_orientation(a, link_a, geometry_placement, pose, world))
                    pose_b = transform(centre_b, frame.geometry_orientation(b, link_b, geometry_placement, pose, world))
                    if wp.static(not unturned):
                        motion_a = frame.step_motion(link_a, velocity, dt, world)
                        motion_b = frame.step_motion(link_b, velocity, dt, world)
                    if wp.static(unturned):
                        features, nearest, distance, point, normal = closed_contacts(
                            geometries, mujoco_planes, a, b, pose_a, size_a, pose_b, size_b, cutoff
                        )
                        gap = distance + margin - cutoff
                    elif wp.static(on_field):
                        # Bodies near the ground count as touching.
                        gap = margin - cutoff
                        if wp.static(family in ON_TRIANGLES):
                            features, nearest, time, least = over_field.touching_features(
                                geometries, packed, a, b, pose_a, size_a, pose_b, size_b, triangles, world, motion_a,
                                motion_b, offset_a, offset_b, cutoff, margin,
                            )  # fmt: skip
                            if slots.time.shape[0] > 0 and time == scalar(0.0) and least < scalar(0.0):
                                features, wall = without_far_side(
                                    geometries, packed, a, b, pose_a, size_a, pose_b, size_b, triangles, world,
                                    features, least,
                                )  # fmt: skip
                        else:
                            features, nearest, time, least = over_field.touching_features(
                                geometries, packed, a, b, pose_a, size_a, pose_b, size_b, height, world, motion_a,
                                motion_b, offset_a, offset_b, cutoff, margin,
                            )  # fmt: skip
                    else:
                        start_a = pose_a
                        start_b = pose_b
                        before = scalar(0.0)
                        stage = wp.int32(START)
                        count = wp.int32(0)
                        closing = scalar(0.0)
                        if wp.static(family == CONVEX_SHAPES):
                            held = balls.is_needed(
                                geometries, packed, a, b, size_a, size_b, pose_a, pose_b, motion_a, motion_b,
                                offset_a, offset_b,
                            )  # fmt: skip
                        while stage != DONE:
                            if stage != START:
                                pose_a = touch.moved(start_a, time * motion_a, offset_a)
                                pose_b = touch.moved(start_b, time * motion_b, offset_b)
                            if wp.static(family == CLOSED_FORM):
                                features, nearest, distance, point, normal = closed_contacts(
                                    geometries, mujoco_planes, a, b, pose_a, size_a, pose_b, size_b, cutoff
                                )
                            else:
                                features, nearest, distance, point, normal = convex.contact_features(
                                    geometries, packed, a, b, pose_a, size_a, pose_b, size_b, cutoff, modes, codes_a,
                                    codes_b, directions,
                                )  # fmt: skip
                            count += 1
                            if geometries.type[a] == PLANE:
                                # As above.
                                closing = cutoff - margin
                                stage = DONE
                            else:
                                displacement = touch.displacement_of(motion_b, start_b, pose_b, point, offset_b)
                                displacement -= touch.displacement_of(motion_a, start_a, pose_a, point, offset_a)
                                closing = -wp.dot(normal, displacement)
                                stage, time, before = touch.advance(
                                    stage, count, time, before, distance, closing, scalar(SLOP) * cutoff
                                )
                            if wp.static(family == CONVEX_SHAPES):
                                # No touch was found, but the ball inside enters: it is stopped at the present
                                # nearest point of the shapes.
                                passes = stage == GENERATE and time >= scalar(1.0)
                                if held and passes and balls.spins(motion_a, motion_b):
                                    time = scalar(0.0)
                        gap = distance - (scalar(1.0) - time) * closing
                    if wp.static(family == CONVEX_SHAPES):
                        if held and time < scalar(1.0) and features[0] >= 0:
                            enters = balls.is_before(
                                geometries, packed, a, b, size_a, size_b, pose_a, pose_b, distance, point, normal
                            )
            lead = wp.int32(0)
            number = wp.int32(0)
            for k in range(4):
                if features[k] >= 0:
                    number += 1
                    if k < nearest:
                        lead += 1
            taken = number
            if wall >= 0 or enters:
                taken += 1
            at = found
            if wp.static(by_team):
                turns = wp.int32(1)
                offsets = team.offsets(taken)
                at += offsets[0]
                found += offsets[1]
                if found > room:
                    turns = team.size()
            else:
                turns = 1
            for turn in range(turns):
                if wp.static(by_team):
                    if turns > 1:
                        team.sync()
                        if turn != team.lane():
                            continue
                lead += at
                ordered = features
                if at + number > room:
                    # Contacts beyond the capacity are written with the nearest first.
                    ordered = kept.nearest_first(features, nearest)
                    lead = -1
                k = wp.int32(0)
                while k < 4:
                    feature = ordered[k]
                    k += 1
                    if feature >= 0:
                        slot = at
                        if at >= room:
                            slot = kept.farthest(slots.gap, slots.lead, gap, world)
                        if lead < 0:
                            lead = slot
                        if slot >= 0:
                            slots.pair[slot, world] = pair
                            slots.gap[slot, world] = gap
                            if slots.time.shape[0] > 0:
                                slots.time[slot, world] = time
                                slots.lead[slot, world] = lead
                            if wp.static(family == CONVEX_SHAPES):
                                slots.feature[slot, world] = modes[feature]
                                slots.codes_a[slot, world] = codes_a[feature]
                                slots.codes_b[slot, world] = codes_b[feature]
                                slots.witness[slot, world] = directions[feature]
                            else:
                                slots.feature[slot, world] = feature
                        at += 1
                if wp.static(family in ON_TRIANGLES):
                    if wall >= 0:
                        slot = at
                        if at >= room:
                            slot = kept.farthest(slots.gap, slots.lead, gap, world)
                        if slot >= 0:
                            slots.pair[slot, world] = pair
                            slots.gap[slot, world] = gap
                            slots.time[slot, world] = scalar(0.0)
                            slots.lead[slot, world] = slot
                            slots.feature[slot, world] = FIRST_BALL - wall
                        at += 1
                if wp.static(family == CONVEX_SHAPES):
                    if enters:
                        slot = at
                        if at >= room:
                            slot = kept.farthest(slots.gap, slots.lead, gap, world)
                        if slot >= 0:
                            slots.pair[slot, world] = pair
                            slots.gap[slot, world] = gap
                            slots.time[slot, world] = time
                            slots.lead[slot, world] = lead
                            nearby = features[0]
                            slots.feature[slot, world] = modes[nearby] + INNER_BALL
                            slots.codes_a[slot, world] = codes_a[nearby]
                            slots.codes_b[slot, world] = codes_b[nearby]
                            slots.witness[slot, world] = directions[nearby]
                        at += 1
            if wp.static(not by_team):
                found = at
        if wp.static(by_team):
            team.sync()
            if team.is_first():
                contact_count[world] = wp.min(found, room)
                contact_overflow[world] = wp.max(found - room, 0)
        else:
            contact_count[world] = wp.min(found, room)
            contact_overflow[world] = wp.max(found - room, 0)

    return SimpleNamespace(detect=detect)
