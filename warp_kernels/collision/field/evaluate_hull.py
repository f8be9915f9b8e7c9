"""The smooth quantities of the contacts of boxes and convex meshes with heightfields; differentiated by Warp's own adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import KINDS, grid_functions
from warp_kernels.collision.field.hull_contact import hull_contact_functions
from warp_kernels.collision.frame import frame_functions
from warp_kernels.collision.materials import material_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def evaluate_field_hull_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``evaluate_field_hull`` of one precision, launched over (slot, world)."""
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    frame = frame_functions(scalar)
    materials = material_functions(scalar)
    grid = grid_functions(scalar)
    hulls = hull_contact_functions(scalar)
    mod = kernel_module("collision.field.evaluate_hull", scalar)

    @wp.kernel(module=mod)
    def evaluate_field_hull(
        # Model
        first_pair: int,
        end_pair: int,
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        geometry_link: wp.array(dtype=wp.int32),
        link_tree: wp.array(dtype=wp.int32),
        field_shape: wp.array(dtype=wp.vec3i),
        extent: wp.array(dtype=wp.vec4i),
        edge_extent: wp.array(dtype=wp.vec2i),
        vertices: wp.array(dtype=vec3),
        face_start: wp.array(dtype=wp.int32),
        face_corner: wp.array(dtype=wp.int32),
        edges: wp.array(dtype=wp.vec4i),
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        friction: wp.array2d(dtype=scalar),
        restitution: wp.array2d(dtype=scalar),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        slot_pair: wp.array2d(dtype=wp.int32),
        slot_feature: wp.array2d(dtype=wp.int32),
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
        local = wp.transform_multiply(wp.transform_inverse(pose_b), pose_a)
        feature = slot_feature[slot, world]
        size_row = wp.min(world, geometry_size.shape[0] - 1)
        height_row = wp.min(world, height.shape[0] - 1)
        ranges = hulls.ranges_of(extent[a], edge_extent[a])
        codes = hulls.corners_of(ranges, feature, face_start, face_corner, edges)
        element = hulls.element_of(ranges, feature)
        corners = grid.element_corners(height, height_row, field_shape[b], geometry_size[size_row, b], element)
        scale = geometry_size[size_row, a]
        distance, place, upward = hulls.hull_contact(
            element % KINDS,
            corners,
            local,
            codes,
            hulls.vertex(ranges, scale, vertices, codes[0]),
            hulls.vertex(ranges, scale, vertices, codes[1]),
            hulls.vertex(ranges, scale, vertices, codes[2]),
        )
        normal = -wp.quat_rotate(wp.transform_get_rotation(pose_b), upward)
        contact_point[slot, world] = wp.transform_point(pose_b, place + (scalar(0.5) * distance) * upward)
        contact_frame[slot, world] = frame.contact_frame(normal)
        contact_distance[slot, world] = distance
        contact_friction[slot, world] = materials.pair_product(friction, a, b, world)
        contact_restitution[slot, world] = materials.pair_product(restitution, a, b, world)

    return SimpleNamespace(evaluate_field_hull=evaluate_field_hull)
