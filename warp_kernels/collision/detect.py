"""Which contacts exist: integer slots for each world, without gradient."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import frame_functions
from warp_kernels.collision.near import next_near
from warp_kernels.collision.pairs import NUM_TYPES, pair_functions
from warp_kernels.types import CONVEX, kernel_module, warp_types


@functools.cache
def detect_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``detect`` of one precision, launched over (world,)."""
    t = warp_types(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    frame = frame_functions(scalar)
    pairs = pair_functions(scalar)
    mod = kernel_module("collision.detect", scalar)

    @wp.kernel(module=mod, enable_backward=False)
    def detect(
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
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial),
        near: wp.array2d(dtype=wp.uint32),
        margin: scalar,
        dt: scalar,
        # Data out
        slot_pair: wp.array2d(dtype=wp.int32),
        slot_feature: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        contact_overflow: wp.array(dtype=wp.int32),
    ):
        """Write a slot for each contact of a near pair within reach, pairs in order and features in order.

        The reach is the margin plus the way that the two may approach each other within dt, so that a contact is there
        before it closes, however fast. velocity: of the links, about the origins of their trees.
        Contacts that find no free slot are counted in ``contact_overflow``; slots past ``contact_count`` are left alone.
        """
        world = wp.tid()
        size_row = wp.min(world, geometry_size.shape[0] - 1)
        found = wp.int32(0)
        following = next_near(0, pair_a.shape[0], near, world)
        while following < pair_a.shape[0]:
            pair = int(following)
            following = next_near(pair + 1, pair_a.shape[0], near, world)
            a = pair_a[pair]
            b = pair_b[pair]
            link_a = geometry_link[a]
            link_b = geometry_link[b]
            reference = frame.reference_tree(link_a, link_b, link_tree)
            offset_a = frame.origin_offset(link_a, reference, link_tree, origin, world)
            offset_b = frame.origin_offset(link_b, reference, link_tree, origin, world)
            centre_a = frame.geometry_centre(a, link_a, geometry_placement, pose, world) + offset_a
            centre_b = frame.geometry_centre(b, link_b, geometry_placement, pose, world) + offset_b
            type_a = geometry_type[a]
            type_b = geometry_type[b]
            size_a = geometry_size[size_row, a]
            size_b = geometry_size[size_row, b]
            radius_b = wp.max(pairs.bounding_radius(type_b, size_b), scalar(0.0))
            reach = frame.reach(link_a, link_b, offset_a, offset_b, centre_b, radius_b, velocity, margin, dt, world)
            if pairs.far_apart(type_a, size_a, type_b, size_b, centre_b - centre_a, reach):
                continue
            pose_a = transform(centre_a, frame.geometry_orientation(a, link_a, geometry_placement, pose, world))
            pose_b = transform(centre_b, frame.geometry_orientation(b, link_b, geometry_placement, pose, world))
            kind = type_a * NUM_TYPES + type_b
            start = vertex_start[b]
            features = pairs.candidate_features(
                kind, pose_a, size_a, pose_b, size_b, hull_vertices, start, vertex_start[b + 1], reach
            )
            k = wp.int32(0)
            while k < 4:
                feature = features[k]
                k += 1
                if feature >= 0:
                    vertex = vec3()
                    if type_b == CONVEX:
                        vertex = hull_vertices[start + feature]
                    distance, _point, _normal = pairs.feature_contact(
                        kind, feature, pose_a, size_a, pose_b, size_b, vertex
                    )
                    if distance < reach:
                        if found < slot_pair.shape[0]:
                            slot_pair[found, world] = pair
                            slot_feature[found, world] = feature
                        found += 1
        contact_count[world] = wp.min(found, slot_pair.shape[0])
        contact_overflow[world] = wp.max(found - slot_pair.shape[0], 0)

    return SimpleNamespace(detect=detect)
