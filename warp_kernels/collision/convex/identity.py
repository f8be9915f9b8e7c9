"""Feature id of a contact of two convex shapes, which identifies it from one step to the next.

Its features don't identify it: shapes that lie flat on each other touch in many features at the same time, and rounding
selects among them. The location of a contact hardly changes: the octants of its point in the frames of both shapes
distinguish the corners of a manifold, unless these all lie in one octant of both.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.structs import Pairs, collision_structs
from warp_kernels.collision.touch.inner_ball import INNER_BALL
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import looped_over_slots


@functools.cache
def identity_kernels(scalar: Any, looping: bool) -> SimpleNamespace:
    """Return the kernel ``contact_identity`` for one precision, launched over (slot, world) once contacts have been
    evaluated.
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    frame = geometry_frame_functions(scalar)
    Geometries = collision_structs(scalar).Geometries
    module = kernel_module("collision.convex.identity", scalar, looping=looping)

    @wp.func
    def octant(local: vec3):
        result = int(0)
        for axis in range(3):
            if local[axis] >= scalar(0.0):
                result += 1 << axis
        return result

    @wp.kernel(module=module, enable_backward=False)
    @looped_over_slots(looping)
    def contact_identity(
        # Model
        pairs: Pairs,
        geometries: Geometries,
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
        """Compute the octants of both sides for the pairs of the family, the feature for the others."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        identity = slot_feature[slot, world]
        if pair >= pairs.first and pair < pairs.end:
            reference = frame.reference_tree(
                geometries.link[pairs.a[pair]], geometries.link[pairs.b[pair]], geometries.link_tree
            )
            # The contact of an inner ball shares no octant with the others: its id is beyond all 8 x 8 of them.
            identity = identity // INNER_BALL
            for side in range(2):
                geometry = pairs.a[pair]
                if side == 1:
                    geometry = pairs.b[pair]
                link = geometries.link[geometry]
                geometry_pose = frame.geometry_pose(
                    geometry, link, reference, geometries.link_tree, geometry_placement, pose, origin, world
                )
                point = contact_point[slot, world] - wp.transform_get_translation(geometry_pose)
                identity = 8 * identity + octant(wp.quat_rotate_inv(wp.transform_get_rotation(geometry_pose), point))
        slot_identity[slot, world] = identity

    return SimpleNamespace(module=module, contact_identity=contact_identity)
