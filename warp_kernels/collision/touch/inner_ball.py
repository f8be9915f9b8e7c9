"""Inner ball of a convex shape, which prevents tunnelling however a hit spins the shape.

A contact has one normal and one point for the whole step. A body that is hit off its centre and then turns by a radian
or more within the step leaves that point, and its centre passes through thin geometry. So if the ball of a fast or
spinning shape would enter the other shape, the pair has one more contact: the ball against the plane of the touch. Its
lever is along the normal, and it adds no spin. If the other contacts stop the body, it has no impulse.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, CONVEX, CYLINDER, SPHERE, warp_types

# Mark of such a contact in ``slot_feature``, combined with the feature of the pair that gives the plane.
INNER_BALL = 64
# Side of the ball.
NEITHER, OF_A, OF_B = range(3)
# Rotation within a step [rad] beyond which the distance of a pair is no convex function of time, so that a touch may be
# missed.
SPINNING = 0.5


@functools.cache
def inner_ball_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision, for pairs of convex shapes."""
    t = warp_types(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    sp = spatial_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    zero, one, half = scalar(0.0), scalar(1.0), scalar(0.5)

    @wp.func
    def ball_centre(geometries: Geometries, packed: PackedShapes, g: int, size: vec3):
        """Return the ball's centre in the geometry's frame."""
        centre = vec3()
        if geometries.type[g] == CONVEX:
            centre = wp.cw_mul(size, packed.ball_centre[g])
        return centre

    @wp.func
    def ball_radius(geometries: Geometries, packed: PackedShapes, g: int, size: vec3):
        """Return the ball's radius; for a scaled convex mesh that of a smaller ball, which is inside too."""
        kind = geometries.type[g]
        radius = wp.min(wp.abs(size[0]), wp.min(wp.abs(size[1]), wp.abs(size[2])))
        if kind == SPHERE or kind == CAPSULE:
            radius = size[0]
        elif kind == CYLINDER:
            radius = wp.min(size[0], size[1])
        elif kind == CONVEX:
            radius = radius * packed.ball_radius[g]
        return radius

    @wp.func
    def side_of_ball(geometries: Geometries, packed: PackedShapes, a: int, b: int, size_a: vec3, size_b: vec3):
        """Return the side with the larger ball. A sphere is its own ball: pairs with one have no use for another
        contact.
        """
        side = int(OF_B)
        if geometries.type[a] == SPHERE or geometries.type[b] == SPHERE:
            side = NEITHER
        elif ball_radius(geometries, packed, a, size_a) > ball_radius(geometries, packed, b, size_b):
            side = OF_A
        return side

    @wp.func
    def box_around(geometries: Geometries, packed: PackedShapes, g: int, size: vec3):
        """Return centre and half extents of the box around a geometry along the axes of its frame."""
        kind = geometries.type[g]
        centre = vec3()
        extents = size
        if kind == CAPSULE:
            extents = vec3(size[0], size[0], size[0] + size[1])
        elif kind == CYLINDER:
            extents = vec3(size[0], size[0], size[1])
        elif kind == CONVEX:
            centre = wp.cw_mul(size, packed.box_centre[g])
            extents = wp.abs(wp.cw_mul(size, packed.box_extents[g]))
        return centre, extents

    @wp.func
    def enters(start: vec3, end: vec3, extents: vec3):
        """Return whether a straight path from outside enters a box about the origin."""
        first = scalar(-1.0)
        last = scalar(one)
        for axis in range(3):
            travel = end[axis] - start[axis]
            if travel == zero:
                if wp.abs(start[axis]) > extents[axis]:
                    first = scalar(2.0)
            else:
                one_side = (-extents[axis] - start[axis]) / travel
                other_side = (extents[axis] - start[axis]) / travel
                first = wp.max(first, wp.min(one_side, other_side))
                last = wp.min(last, wp.max(one_side, other_side))
        return first >= zero and first <= last

    @wp.func
    def spins(motion_a: spatial, motion_b: spatial):
        """Return whether one side turns so far that the search for a touch may miss it."""
        return wp.max(wp.length(sp.angular(motion_a)), wp.length(sp.angular(motion_b))) > scalar(SPINNING)

    @wp.func
    def ball_enters(
        geometries: Geometries, packed: PackedShapes, ball: int, ball_size: vec3, other: int, other_size: vec3,
        ball_pose: transform, other_pose: transform, ball_motion: spatial, other_motion: spatial,
        ball_offset: vec3, other_offset: vec3,
    ):  # fmt: skip
        """Return whether the front of a ball, at its present velocity, enters the box around the other shape within the
        step.
        """
        centre = wp.transform_point(ball_pose, ball_centre(geometries, packed, ball, ball_size))
        radius = ball_radius(geometries, packed, ball, ball_size)
        displacement = sp.point_velocity(ball_motion, centre - ball_offset)
        displacement -= sp.point_velocity(other_motion, centre - other_offset)
        length = wp.length(displacement)
        if length == zero or (length < radius and not spins(ball_motion, other_motion)):
            return False
        displacement = (one + radius / length) * displacement
        box_centre, extents = box_around(geometries, packed, other, other_size)
        turn = wp.transform_get_rotation(other_pose)
        start = wp.quat_rotate_inv(turn, centre - wp.transform_point(other_pose, box_centre))
        return enters(start, start + wp.quat_rotate_inv(turn, displacement), extents)

    @wp.func
    def is_needed(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, size_a: vec3, size_b: vec3, pose_a: transform,
        pose_b: transform, motion_a: spatial, motion_b: spatial, offset_a: vec3, offset_b: vec3,
    ):  # fmt: skip
        """Return whether the larger ball needs a contact in this step, from poses at its beginning and the motions
        within it.
        """
        side = side_of_ball(geometries, packed, a, b, size_a, size_b)
        needed = False
        if side == OF_A:
            needed = ball_enters(
                geometries, packed, a, size_a, b, size_b, pose_a, pose_b, motion_a, motion_b, offset_a, offset_b
            )
        elif side == OF_B:
            needed = ball_enters(
                geometries, packed, b, size_b, a, size_a, pose_b, pose_a, motion_b, motion_a, offset_b, offset_a
            )
        return needed

    @wp.func
    def ball_contact(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, size_a: vec3, size_b: vec3, pose_a: transform,
        pose_b: transform, distance: scalar, point: vec3, normal: vec3,
    ):  # fmt: skip
        """Return the distance and point of the larger ball's contact with the plane of the other shape's contact."""
        gap = distance
        midpoint = point
        if side_of_ball(geometries, packed, a, b, size_a, size_b) == OF_A:
            centre = wp.transform_point(pose_a, ball_centre(geometries, packed, a, size_a))
            radius = ball_radius(geometries, packed, a, size_a)
            gap = wp.dot(normal, point - centre) + half * distance - radius
            midpoint = centre + (radius + half * gap) * normal
        else:
            centre_b = wp.transform_point(pose_b, ball_centre(geometries, packed, b, size_b))
            radius_b = ball_radius(geometries, packed, b, size_b)
            gap = wp.dot(normal, centre_b - point) + half * distance - radius_b
            midpoint = centre_b - (radius_b + half * gap) * normal
        return gap, midpoint

    @wp.func
    def is_before(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, size_a: vec3, size_b: vec3, pose_a: transform,
        pose_b: transform, distance: scalar, point: vec3, normal: vec3,
    ):  # fmt: skip
        """Return whether the centre of the larger ball is on its own side of that plane."""
        gap, _midpoint = ball_contact(
            geometries, packed, a, b, size_a, size_b, pose_a, pose_b, distance, point, normal
        )  # fmt: skip
        radius_a = ball_radius(geometries, packed, a, size_a)
        return gap > -wp.max(radius_a, ball_radius(geometries, packed, b, size_b))

    return SimpleNamespace(
        ball_centre=ball_centre,
        ball_radius=ball_radius,
        is_needed=is_needed,
        spins=spins,
        ball_contact=ball_contact,
        is_before=is_before,
    )
