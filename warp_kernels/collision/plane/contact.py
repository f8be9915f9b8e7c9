"""Contacts of a plane (geometry a) with spheres, capsules, boxes, convex hulls, cylinders and ellipsoids (geometry b).

The plane is the one through the origin of its frame, its solid side below z = 0. Every contact is a ball of some
radius (zero for a corner, a point of a rim or an ellipsoid's lowest point) against the plane, so the normal is the plane's.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def plane_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform

    @wp.func
    def plane_normal(plane: transform):
        return wp.quat_rotate(wp.transform_get_rotation(plane), vec3(scalar(0.0), scalar(0.0), scalar(1.0)))

    @wp.func
    def plane_ball(plane: transform, centre: vec3, radius: scalar):
        """Distance, point and normal of a ball; the point is midway between the plane and the ball's lowest point."""
        normal = plane_normal(plane)
        distance = wp.dot(normal, centre - wp.transform_get_translation(plane)) - radius
        point = centre - (radius + scalar(0.5) * distance) * normal
        return distance, point, normal

    return SimpleNamespace(plane_normal=plane_normal, plane_ball=plane_ball)
