"""Smooth quantities of existing contacts; differentiated by Warp's own adjoint, except for ON_PLANE
(plane/adjoint.py).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.closed import closed_form_functions
from warp_kernels.collision.convex.contact import convex_contact_functions
from warp_kernels.collision.field.contact import field_contact_functions
from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.inner_ball import FIRST_BALL, mesh_ball_functions
from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.materials import material_functions
from warp_kernels.collision.pairs import (
    CONVEX_SHAPES,
    HULLS,
    ON_PLANE,
    ON_TRIANGLES,
    PAIR_KERNELS,
    ROUND,
    base_family,
    ground_of,
)
from warp_kernels.collision.plane.contact import lever_functions
from warp_kernels.collision.structs import Pairs, collision_structs
from warp_kernels.collision.touch.inner_ball import INNER_BALL, inner_ball_functions
from warp_kernels.collision.touch.search import touch_functions
from warp_kernels.types import CAPSULE, PLANE, kernel_module, warp_types
from warp_kernels.variants import looped_over_slots, used_arguments_only

# Share of a step after which a bounce leaves an inner ball no distance to pass through anything.
LATEST = 0.99

VARIANTS = {"evaluate_kernels": [(name,) for name in PAIR_KERNELS]}


@functools.cache
def evaluate_kernels(scalar: Any, name: str, looping: bool) -> SimpleNamespace:
    """Return the kernel ``evaluate`` for one precision and name of PAIR_KERNELS, over (slot, world), or worlds if
    ``looping``.
    """
    family = base_family(name)
    t = warp_types(scalar)
    vec3, mat33, transform, spatial = t.vec3, t.mat33, t.transform, t.spatial
    touch = touch_functions(scalar)
    frame = geometry_frame_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes, Triangles = structs.Geometries, structs.PackedShapes, structs.Triangles
    materials = material_functions(scalar)
    lever_shift = lever_functions(scalar).lever_shift
    closed = closed_form_functions(scalar, name)
    # Only the functions that the family needs, as in detect.py.
    nothing = SimpleNamespace()
    convex = convex_contact_functions(scalar) if family == CONVEX_SHAPES else nothing
    balls = inner_ball_functions(scalar) if family == CONVEX_SHAPES else nothing
    mesh_balls = mesh_ball_functions(scalar) if family in ON_TRIANGLES else nothing
    field = field_contact_functions(scalar, ground_of(family)) if family in ROUND else nothing
    hulls = hull_contact_functions(scalar, ground_of(family)) if family in HULLS else nothing
    Data = Triangles if family in ON_TRIANGLES else wp.array2d(dtype=scalar)
    module = kernel_module(f"collision.evaluate_{name}", scalar, looping=looping, inlined=True)

    @wp.func
    def held_until(restitution: scalar, time: scalar):
        """Return the value stored as an inner ball's restitution, see :mod:`warp_kernels.constraints.contacts`."""
        result = scalar(0.0)
        if restitution > scalar(0.0) and time < scalar(LATEST):
            result = scalar(-1.0) - time
        return result

    @wp.func
    def contact_in_slot(
        slot: int,
        world: int,
        geometries: Geometries,
        packed: PackedShapes,
        a: int,
        b: int,
        pose_a: transform,
        size_a: vec3,
        pose_b: transform,
        size_b: vec3,
        slot_feature: wp.array2d(dtype=wp.int32),
        slot_codes_a: wp.array2d(dtype=wp.vec3i),
        slot_codes_b: wp.array2d(dtype=wp.vec3i),
        slot_witness: wp.array2d(dtype=vec3),
        data: Data,
    ):
        """Return the distance, point and normal of the feature in a slot, for the pair at these poses."""
        feature = slot_feature[slot, world]
        if wp.static(family == CONVEX_SHAPES):
            return convex.convex_contact(
                geometries, packed, a, b, feature % INNER_BALL, pose_a, size_a, pose_b, size_b, slot_codes_a[slot, world],
                slot_codes_b[slot, world], slot_witness[slot, world],
            )  # fmt: skip
        if wp.static(family in ON_TRIANGLES):
            if feature <= FIRST_BALL:
                return mesh_balls.ball_contact(
                    geometries, packed, a, b, feature, pose_a, size_a, pose_b, size_b, data, world
                )
        if wp.static(family in ROUND):
            return field.field_contact(
                geometries, a, b, feature, pose_a, size_a, pose_b, size_b, data, world
            )  # fmt: skip
        if wp.static(family in HULLS):
            return hulls.field_hull_contact(
                geometries, packed, a, b, feature, pose_a, size_a, pose_b, size_b, data, world
            )  # fmt: skip
        return closed.closed_contact(geometries, a, b, feature, pose_a, size_a, pose_b, size_b)

    @wp.kernel(name=f"evaluate_{name}", module=module, enable_backward=family != ON_PLANE)
    @looped_over_slots(looping)
    @used_arguments_only
    def evaluate(
        # Model
        pairs: Pairs,
        geometries: Geometries,
        packed: PackedShapes,
        triangles: Triangles,
        pair_friction: wp.array(dtype=vec3),
        mujoco_pyramids: int,
        lever_arrival: scalar,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        friction: wp.array2d(dtype=scalar),
        restitution: wp.array2d(dtype=scalar),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        origin_low: wp.array2d(dtype=vec3),
        slot_pair: wp.array2d(dtype=wp.int32),
        slot_feature: wp.array2d(dtype=wp.int32),
        slot_codes_a: wp.array2d(dtype=wp.vec3i),
        slot_codes_b: wp.array2d(dtype=wp.vec3i),
        slot_witness: wp.array2d(dtype=vec3),
        slot_time: wp.array2d(dtype=scalar),
        slot_lead: wp.array2d(dtype=wp.int32),
        slot_motion_a: wp.array2d(dtype=spatial),
        slot_motion_b: wp.array2d(dtype=spatial),
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        contact_point: wp.array2d(dtype=vec3),
        contact_apart: wp.array2d(dtype=vec3),
        contact_frame: wp.array2d(dtype=mat33),
        contact_distance: wp.array2d(dtype=scalar),
        contact_friction: wp.array2d(dtype=scalar),
        contact_restitution: wp.array2d(dtype=scalar),
    ):
        """Evaluate the contacts of the pairs of one family; other slots are unchanged.

        contact_point: midway between the surfaces, relative to the origin of the pair's reference tree; of a plane's
            contact that is
        found ahead of its touch on the surface of the other body, see :mod:`warp_kernels.collision.plane.contact`.
        contact_frame:
        rows normal (from a to b) and two tangents, with ``mujoco_pyramids`` 1 those of MuJoCo. contact_distance:
        negative
        when penetrating. Of a pair that touches within the step (``slot_time``, a share of the step), these are the
        pair's at that time, with point and distance taken back to the step's beginning: the distance that closes at the
        rate of that time. One step of Newton's method gives the time of a touch its derivative.
        contact_friction: by the pair's rule. contact_restitution: the product of those of both geometries; of the
            contact of
        an inner ball, which does not bounce, -1 minus the time at which its pair does
        (:mod:`warp_kernels.constraints.contacts`).
        """
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        if pair < pairs.first or pair >= pairs.end:
            return
        a = pairs.a[pair]
        b = pairs.b[pair]
        link_a = geometries.link[a]
        link_b = geometries.link[b]
        reference = frame.reference_tree(link_a, link_b, geometries.link_tree)
        pose_a = frame.geometry_pose(
            a, link_a, reference, geometries.link_tree, geometry_placement, pose, origin, world
        )
        pose_b = frame.geometry_pose(
            b, link_b, reference, geometries.link_tree, geometry_placement, pose, origin, world
        )
        if wp.static(scalar == wp.float32):
            low_a = frame.low_offset(link_a, reference, geometries.link_tree, origin_low, world)
            low_b = frame.low_offset(link_b, reference, geometries.link_tree, origin_low, world)
            pose_a = transform(wp.transform_get_translation(pose_a) + low_a, wp.transform_get_rotation(pose_a))
            pose_b = transform(wp.transform_get_translation(pose_b) + low_b, wp.transform_get_rotation(pose_b))
        row = wp.min(world, geometry_size.shape[0] - 1)
        size_a = geometry_size[row, a]
        size_b = geometry_size[row, b]
        if wp.static(family != ON_PLANE):  # a plane's normal is the same at every position of the other
            time = scalar(0.0)
            if slot_time.shape[0] > 0:
                time = slot_time[slot, world]
            if time > scalar(0.0):
                offset_a = frame.origin_offset(link_a, reference, geometries.link_tree, origin, world)
                offset_b = frame.origin_offset(link_b, reference, geometries.link_tree, origin, world)
                motion_a = slot_motion_a[slot, world]
                motion_b = slot_motion_b[slot, world]
                if time < scalar(1.0):
                    there_a = touch.moved(pose_a, time * motion_a, offset_a)
                    there_b = touch.moved(pose_b, time * motion_b, offset_b)
                    if wp.static(family in ON_TRIANGLES):
                        gap, touching, direction = contact_in_slot(
                            slot_lead[slot, world], world, geometries, packed, a, b, there_a, size_a, there_b, size_b,
                            slot_feature, slot_codes_a, slot_codes_b, slot_witness, triangles,
                        )  # fmt: skip
                    else:
                        gap, touching, direction = contact_in_slot(
                            slot_lead[slot, world], world, geometries, packed, a, b, there_a, size_a, there_b, size_b,
                            slot_feature, slot_codes_a, slot_codes_b, slot_witness, height,
                        )  # fmt: skip
                    displacement = touch.displacement_of(motion_b, pose_b, there_b, touching, offset_b)
                    displacement -= touch.displacement_of(motion_a, pose_a, there_a, touching, offset_a)
                    time = time - gap / wp.dot(direction, displacement)
                motion_a = time * motion_a
                motion_b = time * motion_b
                start_a = pose_a
                start_b = pose_b
                pose_a = touch.moved(start_a, motion_a, offset_a)
                pose_b = touch.moved(start_b, motion_b, offset_b)
        if wp.static(family in ON_TRIANGLES):
            distance, point, normal = contact_in_slot(
                slot, world, geometries, packed, a, b, pose_a, size_a, pose_b, size_b,
                slot_feature, slot_codes_a, slot_codes_b, slot_witness, triangles,
            )  # fmt: skip
        else:
            distance, point, normal = contact_in_slot(
                slot, world, geometries, packed, a, b, pose_a, size_a, pose_b, size_b,
                slot_feature, slot_codes_a, slot_codes_b, slot_witness, height,
            )  # fmt: skip
        if geometries.type[a] == PLANE:
            point += lever_shift(distance, lever_arrival) * normal
        bounce = materials.pair_product(restitution, a, b, world)
        if wp.static(family == CONVEX_SHAPES):
            if slot_feature[slot, world] >= INNER_BALL:
                distance, point = balls.ball_contact(
                    geometries, packed, a, b, size_a, size_b, pose_a, pose_b, distance, point, normal
                )
                bounce = held_until(bounce, time)
        if wp.static(family in ON_TRIANGLES):
            if slot_feature[slot, world] <= FIRST_BALL:
                bounce = scalar(0.0)
        apart = vec3()
        if wp.static(family != ON_PLANE):
            if time > scalar(0.0):
                point, apart, distance = touch.taken_back(
                    point, distance, normal, motion_a, motion_b, start_a, start_b, pose_a, pose_b, offset_a, offset_b
                )
        contact_point[slot, world] = point
        if slot_time.shape[0] > 0:
            contact_apart[slot, world] = apart
        if mujoco_pyramids == 1:
            along = vec3()
            if geometries.type[a] == PLANE and geometries.type[b] == CAPSULE:
                axis = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
                along = wp.quat_rotate(wp.transform_get_rotation(pose_b), axis)
            contact_frame[slot, world] = frame.pyramid_frame(normal, along)
        else:
            contact_frame[slot, world] = frame.contact_frame(normal)
        contact_distance[slot, world] = distance
        contact_friction[slot, world] = materials.pair_friction(
            friction, a, b, pair_friction[pair][0], pairs.rule[pair], world
        )
        contact_restitution[slot, world] = bounce

    return SimpleNamespace(evaluate=evaluate)
