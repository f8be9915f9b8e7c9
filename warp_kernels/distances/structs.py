"""What the kernels of distances share."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

# What a pair gives: distance, both points and normal; then, for the gradient, the feature, the vertices of either side and the
# normal that the search has found, see :mod:`warp_kernels.collision.convex.contact`.
RESULTS = 10
DISTANCE_NUMBERS = RESULTS + 10


@wp.struct
class DistancePairs:
    """The pairs of one family whose distance is asked for.

    Attributes:
        a: geometry of the lower type [pairs of the family].
        b: the other one.
        place: the place of each pair among all that are asked for.
        swapped: 1 where b is the pair's first geometry.
    """

    a: wp.array(dtype=wp.int32)
    b: wp.array(dtype=wp.int32)
    place: wp.array(dtype=wp.int32)
    swapped: wp.array(dtype=wp.int32)


@functools.cache
def distance_pose_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    t = warp_types(scalar)
    vec3, quat, transform = t.vec3, t.quat, t.transform

    @wp.func
    def geometry_pose(
        geometry: int,
        link: int,
        geometry_placement: wp.array2d(dtype=transform),
        link_pose: wp.array3d(dtype=scalar),
        world: int,
    ):
        """Pose of a geometry in the world; the quaternion of its placement need not be of unit length."""
        placement = geometry_placement[wp.min(world, geometry_placement.shape[0] - 1), geometry]
        pose = transform(wp.transform_get_translation(placement), wp.normalize(wp.transform_get_rotation(placement)))
        if link >= 0:
            place = vec3(link_pose[world, link, 0], link_pose[world, link, 1], link_pose[world, link, 2])
            turn = quat(
                link_pose[world, link, 3],
                link_pose[world, link, 4],
                link_pose[world, link, 5],
                link_pose[world, link, 6],
            )
            pose = wp.transform_multiply(transform(place, turn), pose)
        return pose

    return SimpleNamespace(geometry_pose=geometry_pose)
