"""Contacts of balls, and of capsules with spheres and with each other.

Spheres, capsules and the edges and corners of boxes reduce to balls. A capsule is the set of points within a radius of
a segment along z. A point on the segment has one of three modes: free (closest to the other shape), lower end, upper
end. The feature of a pair fixes the modes, so that its contact is smooth.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def ball_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3 = t.vec3

    @wp.func
    def ball_ball(centre_a: vec3, radius_a: scalar, centre_b: vec3, radius_b: scalar):
        """Return the distance, the point midway between the surfaces, and the normal from a to b.

        Closer than a nanometre the centres give no direction: the normal is then +z, and all numbers stay finite.
        """
        delta = centre_b - centre_a
        normal = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        gap = delta[2]
        square = wp.dot(delta, delta)
        if square > scalar(1.0e-18):
            gap = wp.sqrt(square)
            normal = delta / gap
        distance = gap - radius_a - radius_b
        point = centre_a + (radius_a + scalar(0.5) * distance) * normal
        return distance, point, normal

    return SimpleNamespace(ball_ball=ball_ball)


FREE = 0
LOWER = 1
UPPER = 2

# Axes with a smaller squared sine between them (0.57 degrees) count as parallel: they touch at both ends of their
# overlap. If such axes cross, the distance at those ends exceeds the minimum by at most (0.01 l)^2 / (2 d), with l the
# distance from the crossing to the end and d the distance of the axes.
PARALLEL_SINE_SQUARED = 1.0e-4
# The same of MuJoCo's law. Axes that cross at a larger angle have one contact there, which moves fast.
MUJOCO_PARALLEL_SINE_SQUARED = 1.0e-8


@functools.cache
def capsule_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Contact functions return (distance, point, normal from a to b)."""
    t = warp_types(scalar)
    vec3, vec2, transform = t.vec3, t.vec2, t.transform
    balls = ball_functions(scalar)

    @wp.func
    def axis(pose: transform):
        return wp.quat_rotate(wp.transform_get_rotation(pose), vec3(scalar(0.0), scalar(0.0), scalar(1.0)))

    @wp.func
    def mode_of(coordinate: scalar, half_length: scalar):
        mode = FREE
        if coordinate <= -half_length:
            mode = LOWER
        if coordinate >= half_length:
            mode = UPPER
        return mode

    @wp.func
    def end_coordinate(mode: int, half_length: scalar):
        """Return the coordinate of an end along the axis; zero for the free mode."""
        coordinate = scalar(0.0)
        if mode == LOWER:
            coordinate = -half_length
        if mode == UPPER:
            coordinate = half_length
        return coordinate

    @wp.func
    def sphere_capsule_feature(pose_a: transform, pose_b: transform, size_b: vec3):
        """Return the mode of the point on the capsule's segment that is closest to the sphere."""
        delta = wp.transform_get_translation(pose_a) - wp.transform_get_translation(pose_b)
        return mode_of(wp.dot(delta, axis(pose_b)), size_b[1])

    @wp.func
    def sphere_capsule(feature: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3):
        centre_a = wp.transform_get_translation(pose_a)
        centre_b = wp.transform_get_translation(pose_b)
        direction = axis(pose_b)
        coordinate = end_coordinate(feature, size_b[1])
        if feature == FREE:
            coordinate = wp.dot(centre_a - centre_b, direction)
        return balls.ball_ball(centre_a, size_a[0], centre_b + coordinate * direction, size_b[0])

    @wp.func
    def line_coordinates(delta: vec3, axis_a: vec3, axis_b: vec3):
        """Return the closest points along two lines; delta is from the centre of a to that of b."""
        cosine = wp.dot(axis_a, axis_b)
        normal = wp.cross(axis_a, axis_b)
        sine_squared = wp.dot(normal, normal)
        along_a = wp.dot(delta, axis_a)
        along_b = wp.dot(delta, axis_b)
        coordinates = vec2(along_a, scalar(0.0))
        # Closer to parallel than this, single precision would leave nothing of the numerators.
        if sine_squared > scalar(1.0e-10):
            coordinates = vec2(along_a - cosine * along_b, cosine * along_a - along_b) / sine_squared
        return coordinates

    @wp.func
    def overlap_features(along_a: scalar, cosine: scalar, half_a: scalar, half_b: scalar):
        """Return the two ends of the overlap of parallel segments: each an end of one against the free point of the
        other.

        ``along_a`` is the centre of b along the axis of a. Without overlap, -1 twice.
        """
        extent = half_b * wp.abs(cosine)
        lower_end = LOWER
        upper_end = UPPER
        if cosine < scalar(0.0):
            lower_end = UPPER
            upper_end = LOWER
        if -half_a >= along_a - extent:
            lower_end = 3 * LOWER
        if half_a <= along_a + extent:
            upper_end = 3 * UPPER
        if wp.abs(along_a) >= half_a + extent:
            lower_end = -1
            upper_end = -1
        return wp.vec2i(wp.min(lower_end, upper_end), wp.max(lower_end, upper_end))

    @wp.func
    def closest_feature(delta: vec3, axis_a: vec3, axis_b: vec3, half_a: scalar, half_b: scalar):
        """Return the modes of the closest points of two segments (Ericson 2005, *Real-Time Collision Detection*,
        5.1.9).
        """
        cosine = wp.dot(axis_a, axis_b)
        coordinate_a = wp.clamp(line_coordinates(delta, axis_a, axis_b)[0], -half_a, half_a)
        coordinate_b = coordinate_a * cosine - wp.dot(delta, axis_b)
        mode_b = mode_of(coordinate_b, half_b)
        if mode_b != FREE:
            coordinate_a = wp.dot(delta, axis_a) + end_coordinate(mode_b, half_b) * cosine
        return 3 * mode_of(coordinate_a, half_a) + mode_b

    @wp.func
    def capsule_capsule_features(pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3, parallel: scalar):
        """Return the features 3 * mode on a + mode on b: both ends of the overlap of parallel capsules, else the
        closest points.

        ``parallel`` is the squared sine between their axes below which they are.
        """
        axis_a = axis(pose_a)
        axis_b = axis(pose_b)
        delta = wp.transform_get_translation(pose_b) - wp.transform_get_translation(pose_a)
        features = wp.vec2i(-1, -1)
        if wp.length_sq(wp.cross(axis_a, axis_b)) < parallel:
            features = overlap_features(wp.dot(delta, axis_a), wp.dot(axis_a, axis_b), size_a[1], size_b[1])
        if features[0] < 0:
            features = wp.vec2i(closest_feature(delta, axis_a, axis_b, size_a[1], size_b[1]), -1)
        return features

    @wp.func
    def capsule_capsule(feature: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3):
        centre_a = wp.transform_get_translation(pose_a)
        centre_b = wp.transform_get_translation(pose_b)
        axis_a = axis(pose_a)
        axis_b = axis(pose_b)
        delta = centre_b - centre_a
        cosine = wp.dot(axis_a, axis_b)
        mode_a = feature // 3
        mode_b = feature - 3 * mode_a
        coordinate_a = end_coordinate(mode_a, size_a[1])
        coordinate_b = end_coordinate(mode_b, size_b[1])
        if mode_a == FREE:
            if mode_b == FREE:
                coordinates = line_coordinates(delta, axis_a, axis_b)
                coordinate_a = coordinates[0]
                coordinate_b = coordinates[1]
            else:
                coordinate_a = wp.dot(delta, axis_a) + coordinate_b * cosine
        elif mode_b == FREE:
            coordinate_b = coordinate_a * cosine - wp.dot(delta, axis_b)
        return balls.ball_ball(centre_a + coordinate_a * axis_a, size_a[0], centre_b + coordinate_b * axis_b, size_b[0])

    return SimpleNamespace(
        end_coordinate=end_coordinate,
        sphere_capsule_feature=sphere_capsule_feature,
        sphere_capsule=sphere_capsule,
        capsule_capsule_features=capsule_capsule_features,
        capsule_capsule=capsule_capsule,
    )
