"""Corners of boxes, and contacts of boxes with spheres."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.shapes.capsules import ball_functions
from warp_kernels.types import warp_types


@functools.cache
def box_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Contact functions return (distance, point, normal from a to b)."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    balls = ball_functions(scalar)

    @wp.func
    def corner_signs(index: int):
        """Return the signs of corner 0 to 7; bits 0, 1, 2 of the index select the positive side of x, y, z."""
        return vec3(scalar(2 * (index & 1) - 1), scalar(2 * ((index >> 1) & 1) - 1), scalar(2 * ((index >> 2) & 1) - 1))

    @wp.func
    def sign_bit(x: scalar):
        return wp.where(x > scalar(0.0), 1, 0)

    @wp.func
    def magnitude(v: vec3):
        return vec3(wp.abs(v[0]), wp.abs(v[1]), wp.abs(v[2]))

    @wp.func
    def unit_axis(k: int):
        result = vec3()
        result[k] = scalar(1.0)
        return result

    @wp.func
    def support_edge(axis: int, direction: vec3):
        """Return the corners of the edge along an axis that is farthest in a direction, both in the box's own frame."""
        code = sign_bit(direction[0]) + 2 * sign_bit(direction[1]) + 4 * sign_bit(direction[2])
        bit = 1 << axis
        start = code & (7 - bit)
        return wp.vec3i(start, start + bit, -1)

    @wp.func
    def face_corners(pose: transform, direction: vec3):
        """Return the corners, in ascending order, of the face whose normal is most opposite to a direction.

        The corner that is deepest along it is among them, and so are both corners of the lowest edge.
        """
        local = wp.quat_rotate_inv(wp.transform_get_rotation(pose), direction)
        corners = wp.vec4i(0, 2, 4, 6)
        bit = 1
        along = local[0]
        if wp.abs(local[1]) > wp.abs(along):
            corners = wp.vec4i(0, 1, 4, 5)
            bit = 2
            along = local[1]
        if wp.abs(local[2]) > wp.abs(along):
            corners = wp.vec4i(0, 1, 2, 3)
            bit = 4
            along = local[2]
        if along < scalar(0.0):
            corners += wp.vec4i(bit, bit, bit, bit)
        return corners

    @wp.func
    def zone(coordinate: scalar, half_extent: scalar):
        """Return the zone of a coordinate: 0 within the box, 1 below it, 2 above it.

        A nanometre outside counts as within: as close as that, an edge or corner would give no direction.
        """
        result = 0
        if coordinate < -half_extent - scalar(1.0e-9):
            result = 1
        if coordinate > half_extent + scalar(1.0e-9):
            result = 2
        return result

    @wp.func
    def nearest_face(local: vec3, half_extents: vec3):
        """Return the zones of the face nearest to a point inside the box."""
        depth = vec3(
            half_extents[0] - wp.abs(local[0]), half_extents[1] - wp.abs(local[1]), half_extents[2] - wp.abs(local[2])
        )
        weight = 1
        along = local[0]
        least = depth[0]
        if depth[1] < least:
            weight = 3
            along = local[1]
            least = depth[1]
        if depth[2] < least:
            weight = 9
            along = local[2]
        if along >= scalar(0.0):
            weight = 2 * weight
        return weight

    @wp.func
    def sphere_box_feature(pose_a: transform, pose_b: transform, size_b: vec3):
        """Return the zones of the sphere's centre, zone x + 3 zone y + 9 zone z; inside the box those of the nearest
        face.

        One nonzero zone means a face, two an edge, three a corner.
        """
        local = wp.transform_point(wp.transform_inverse(pose_b), wp.transform_get_translation(pose_a))
        feature = zone(local[0], size_b[0]) + 3 * zone(local[1], size_b[1]) + 9 * zone(local[2], size_b[2])
        if feature == 0:
            feature = nearest_face(local, size_b)
        return feature

    @wp.func
    def zone_sign(zone_code: int):
        sign = 0
        if zone_code == 1:
            sign = -1
        if zone_code == 2:
            sign = 1
        return sign

    @wp.func
    def sphere_box(feature: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3):
        centre = wp.transform_get_translation(pose_a)
        q = wp.transform_get_rotation(pose_b)
        local = wp.quat_rotate_inv(q, centre - wp.transform_get_translation(pose_b))
        x = zone_sign(feature % 3)
        y = zone_sign((feature // 3) % 3)
        z = zone_sign(feature // 9)
        signs = vec3(scalar(x), scalar(y), scalar(z))
        # From the sphere's centre to the closest point of the face, edge or corner, as if a face or an edge were
        # unbounded.
        delta = wp.cw_mul(signs, size_b) - wp.cw_mul(wp.cw_mul(signs, signs), local)
        if x * x + y * y + z * z == 1:
            # A face: the same formula outside and inside, so that nothing jumps when the centre crosses the surface.
            normal = -wp.quat_rotate(q, signs)
            distance = -wp.dot(delta, signs) - size_a[0]
            point = centre + (size_a[0] + scalar(0.5) * distance) * normal
            return distance, point, normal
        return balls.ball_ball(centre, size_a[0], centre + wp.quat_rotate(q, delta), scalar(0.0))

    return SimpleNamespace(
        corner_signs=corner_signs,
        magnitude=magnitude,
        unit_axis=unit_axis,
        support_edge=support_edge,
        face_corners=face_corners,
        sphere_box_feature=sphere_box_feature,
        sphere_box=sphere_box,
    )
