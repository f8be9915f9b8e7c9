"""Which contacts round bodies have with heightfields: slots for each world after those of other pairs, without gradient."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.candidates import candidate_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.frame import frame_functions
from warp_kernels.collision.pairs import pair_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def detect_field_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``detect_field`` of one precision, launched over (world,) after ``detect``."""
    t = warp_types(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    frame = frame_functions(scalar)
    surface = surface_functions(scalar)
    pairs = pair_functions(scalar)
    candidates = candidate_functions(scalar)
    mod = kernel_module("collision.field.detect", scalar)
    # Loops over kinds, parts and stages unrolled make the code many times as long, and no faster.
    wp.set_module_options({"max_unroll": 1}, mod)

    @wp.kernel(module=mod, enable_backward=False)
    def detect_field(
        # Model
        first_pair: int,
        end_pair: int,
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        geometry_link: wp.array(dtype=wp.int32),
        geometry_type: wp.array(dtype=wp.int32),
        link_tree: wp.array(dtype=wp.int32),
        field_shape: wp.array(dtype=wp.vec3i),
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial),
        margin: scalar,
        dt: scalar,
        # Data out
        slot_pair: wp.array2d(dtype=wp.int32),
        slot_feature: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        contact_overflow: wp.array(dtype=wp.int32),
    ):
        """Write a slot for each contact within reach of the pairs from ``first_pair`` to before ``end_pair``; see
        ``detect``.
        """
        world = wp.tid()
        size_row = wp.min(world, geometry_size.shape[0] - 1)
        found = contact_count[world] + contact_overflow[world]
        for pair in range(first_pair, end_pair):
            a = pair_a[pair]
            b = pair_b[pair]
            size = geometry_size[size_row, a]
            link_a = geometry_link[a]
            link_b = geometry_link[b]
            reference = frame.reference_tree(link_a, link_b, link_tree)
            pose_a = frame.geometry_pose(a, link_a, reference, link_tree, geometry_placement, pose, origin, world)
            pose_b = frame.geometry_pose(b, link_b, reference, link_tree, geometry_placement, pose, origin, world)
            local = wp.transform_multiply(wp.transform_inverse(pose_b), pose_a)
            radius = pairs.bounding_radius(geometry_type[a], size)
            centre = wp.transform_get_translation(pose_a)
            # The body, which is a, as seen from the field.
            offset_a = frame.origin_offset(link_a, reference, link_tree, origin, world)
            offset_b = frame.origin_offset(link_b, reference, link_tree, origin, world)
            reach = frame.reach(link_b, link_a, offset_b, offset_a, centre, radius, velocity, margin, dt, world)
            field = surface.Field()
            field.shape = field_shape[b]
            field.size = geometry_size[size_row, b]
            field.row = wp.min(world, height.shape[0] - 1)
            features = candidates.field_features(geometry_type[a], local, size, height, field, reach)
            for k in range(4):
                if features[k] >= 0:
                    if found < slot_pair.shape[0]:
                        slot_pair[found, world] = pair
                        slot_feature[found, world] = features[k]
                    found += 1
        contact_count[world] = wp.min(found, slot_pair.shape[0])
        contact_overflow[world] = wp.max(found - slot_pair.shape[0], 0)

    return SimpleNamespace(detect_field=detect_field)
