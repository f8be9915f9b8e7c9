"""What a contact of two convex shapes is known by from one step to the next.

Its features are no good for that: shapes that lie flat on each other touch in many features at once, and which of them
stand for the contact changes with rounding. Where the contact lies does not: the octants of its point in the frames of
both shapes tell the corners of a manifold apart, unless they all lie in one octant of both.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import frame_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def identity_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``contact_identity`` of one precision, launched over (slot, world) once contacts have been evaluated."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    frame = frame_functions(scalar)
    module = kernel_module("collision.convex.identity", scalar)

    @wp.func
    def octant(local: vec3):
        result = int(0)
        for axis in range(3):
            if local[axis] >= scalar(0.0):
                result += 1 << axis
        return result

    @wp.kernel(module=module, enable_backward=False)
    def contact_identity(
        # Model
        first_pair: int,
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        geometry_link: wp.array(dtype=wp.int32),
        link_tree: wp.array(dtype=wp.int32),
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        slot_pair: wp.array2d(dtype=wp.int32),
        slot_feature: wp.array2d(dtype=wp.int32),
        contact_point: wp.array2d(dtype=vec3),
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        slot_identity: wp.array2d(dtype=wp.int32),
    ):
        """The feature, and for the pairs from ``first_pair`` to before ``end_pair`` both octants."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        identity = slot_feature[slot, world]
        if pair >= first_pair and pair < pair_a.shape[0]:
            reference = frame.reference_tree(geometry_link[pair_a[pair]], geometry_link[pair_b[pair]], link_tree)
            identity = int(0)
            for side in range(2):
                geometry = pair_a[pair]
                if side == 1:
                    geometry = pair_b[pair]
                link = geometry_link[geometry]
                place = frame.geometry_pose(
                    geometry, link, reference, link_tree, geometry_placement, pose, origin, world
                )
                point = contact_point[slot, world] - wp.transform_get_translation(place)
                identity = 8 * identity + octant(wp.quat_rotate_inv(wp.transform_get_rotation(place), point))
        slot_identity[slot, world] = identity

    return SimpleNamespace(module=module, contact_identity=contact_identity)
