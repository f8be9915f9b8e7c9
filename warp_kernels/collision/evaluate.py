"""The smooth quantities of the contacts that exist; differentiated by Warp's own adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import frame_functions
from warp_kernels.collision.materials import material_functions
from warp_kernels.collision.pairs import NUM_TYPES, pair_functions
from warp_kernels.types import CONVEX, kernel_module, warp_types


@functools.cache
def evaluate_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``evaluate`` of one precision, launched over (slot, world)."""
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    frame = frame_functions(scalar)
    materials = material_functions(scalar)
    pairs = pair_functions(scalar)
    mod = kernel_module("collision.evaluate", scalar)

    @wp.kernel(module=mod)
    def evaluate(
        # Model
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        geometry_link: wp.array(dtype=wp.int32),
        geometry_type: wp.array(dtype=wp.int32),
        link_tree: wp.array(dtype=wp.int32),
        vertex_start: wp.array(dtype=wp.int32),
        hull_vertices: wp.array(dtype=vec3),
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
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        contact_point: wp.array2d(dtype=vec3),
        contact_frame: wp.array2d(dtype=mat33),
        contact_distance: wp.array2d(dtype=scalar),
        contact_friction: wp.array2d(dtype=scalar),
        contact_restitution: wp.array2d(dtype=scalar),
    ):
        """Point midway between the surfaces, relative to the origin of the pair's reference tree; frame with rows normal
        (from a to b) and two tangents; signed distance, negative when penetrating; products of friction and restitution.
        Slots past ``contact_count`` are left alone.
        """
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        # Pairs after these have kernels of their own.
        if pair >= pair_a.shape[0]:
            return
        a = pair_a[pair]
        b = pair_b[pair]
        link_a = geometry_link[a]
        link_b = geometry_link[b]
        reference = frame.reference_tree(link_a, link_b, link_tree)
        pose_a = frame.geometry_pose(a, link_a, reference, link_tree, geometry_placement, pose, origin, world)
        pose_b = frame.geometry_pose(b, link_b, reference, link_tree, geometry_placement, pose, origin, world)
        feature = slot_feature[slot, world]
        vertex = vec3()
        if geometry_type[b] == CONVEX:
            vertex = hull_vertices[vertex_start[b] + feature]
        kind = geometry_type[a] * NUM_TYPES + geometry_type[b]
        row = wp.min(world, geometry_size.shape[0] - 1)
        distance, point, normal = pairs.feature_contact(
            kind, feature, pose_a, geometry_size[row, a], pose_b, geometry_size[row, b], vertex
        )
        contact_point[slot, world] = point
        contact_frame[slot, world] = frame.contact_frame(normal)
        contact_distance[slot, world] = distance
        contact_friction[slot, world] = materials.pair_product(friction, a, b, world)
        contact_restitution[slot, world] = materials.pair_product(restitution, a, b, world)

    return SimpleNamespace(evaluate=evaluate)
