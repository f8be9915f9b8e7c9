"""The smooth quantities of the contacts of convex pairs; differentiated by Warp's own adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.contact import contact_functions
from warp_kernels.collision.convex.shapes import shape_functions
from warp_kernels.collision.frame import frame_functions
from warp_kernels.collision.materials import material_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def evaluate_convex_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``evaluate_convex`` of one precision, launched over (slot, world) after ``evaluate``."""
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    frame = frame_functions(scalar)
    materials = material_functions(scalar)
    shapes = shape_functions(scalar)
    contact = contact_functions(scalar)
    mod = kernel_module("collision.convex.evaluate", scalar)

    @wp.func
    def corner(vertices: wp.array(dtype=vec3), first: int, code: int, scale: vec3):
        """A vertex in its geometry's frame; the origin for the code -1."""
        result = vec3()
        if code >= 0:
            result = wp.cw_mul(vertices[first + code], scale)
        return result

    @wp.kernel(module=mod)
    def evaluate_convex(
        # Model
        first_pair: int,
        end_pair: int,
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        geometry_link: wp.array(dtype=wp.int32),
        geometry_type: wp.array(dtype=wp.int32),
        link_tree: wp.array(dtype=wp.int32),
        extent: wp.array(dtype=wp.vec4i),
        vertices: wp.array(dtype=vec3),
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        friction: wp.array2d(dtype=scalar),
        restitution: wp.array2d(dtype=scalar),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        slot_pair: wp.array2d(dtype=wp.int32),
        slot_feature: wp.array2d(dtype=wp.int32),
        slot_codes_a: wp.array2d(dtype=wp.vec3i),
        slot_codes_b: wp.array2d(dtype=wp.vec3i),
        slot_witness: wp.array2d(dtype=vec3),
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        contact_point: wp.array2d(dtype=vec3),
        contact_frame: wp.array2d(dtype=mat33),
        contact_distance: wp.array2d(dtype=scalar),
        contact_friction: wp.array2d(dtype=scalar),
        contact_restitution: wp.array2d(dtype=scalar),
    ):
        """The outputs of ``evaluate`` for the slots of the pairs from ``first_pair`` to before ``end_pair``."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        if pair < first_pair or pair >= end_pair:
            return
        a = pair_a[pair]
        b = pair_b[pair]
        link_a = geometry_link[a]
        link_b = geometry_link[b]
        reference = frame.reference_tree(link_a, link_b, link_tree)
        pose_a = frame.geometry_pose(a, link_a, reference, link_tree, geometry_placement, pose, origin, world)
        pose_b = frame.geometry_pose(b, link_b, reference, link_tree, geometry_placement, pose, origin, world)
        centre_a = wp.transform_get_translation(pose_a)
        centre_b = wp.transform_get_translation(pose_b)
        turn_a = wp.transform_get_rotation(pose_a)
        turn_b = wp.transform_get_rotation(pose_b)
        # All in the frame of a.
        rotation = wp.mul(wp.quat_inverse(turn_a), turn_b)
        offset = wp.quat_rotate_inv(turn_a, centre_b - centre_a)
        row = wp.min(world, geometry_size.shape[0] - 1)
        size_a = geometry_size[row, a]
        size_b = geometry_size[row, b]
        scale_a = shapes.scale_of(geometry_type[a], size_a)
        scale_b = shapes.scale_of(geometry_type[b], size_b)
        first_a = extent[a][0]
        first_b = extent[b][0]
        codes_a = slot_codes_a[slot, world]
        codes_b = slot_codes_b[slot, world]
        distance, point, normal = contact.feature_contact(
            slot_feature[slot, world],
            geometry_type[a],
            codes_a,
            size_a,
            corner(vertices, first_a, codes_a[0], scale_a),
            corner(vertices, first_a, codes_a[1], scale_a),
            corner(vertices, first_a, codes_a[2], scale_a),
            geometry_type[b],
            codes_b,
            size_b,
            rotation,
            offset + wp.quat_rotate(rotation, corner(vertices, first_b, codes_b[0], scale_b)),
            offset + wp.quat_rotate(rotation, corner(vertices, first_b, codes_b[1], scale_b)),
            offset + wp.quat_rotate(rotation, corner(vertices, first_b, codes_b[2], scale_b)),
            slot_witness[slot, world],
        )
        contact_point[slot, world] = centre_a + wp.quat_rotate(turn_a, point)
        contact_frame[slot, world] = frame.contact_frame(wp.quat_rotate(turn_a, normal))
        contact_distance[slot, world] = distance
        contact_friction[slot, world] = materials.pair_product(friction, a, b, world)
        contact_restitution[slot, world] = materials.pair_product(restitution, a, b, world)

    return SimpleNamespace(evaluate_convex=evaluate_convex)
