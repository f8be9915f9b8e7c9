"""Contacts of a plane (geometry a) with spheres, capsules, boxes, convex hulls, cylinders and ellipsoids (geometry b).

The plane is the one through the origin of its frame, its solid side below z = 0. Every contact is a ball of some radius
(zero for a corner, a point of a rim or an ellipsoid's lowest point) against the plane, so the normal is the plane's.

A contact lies midway between the surfaces. One found at a distance d ahead of its touch would give the impulse a lever
that is d/2 too long, depending on the phase of the touch within the step. The point therefore moves to the surface of
the other body, which touches the plane there. Resting contacts penetrate: their points stay midway, and the transition
is smooth, so that the step is differentiable there.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def plane_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform

    @wp.func
    def plane_normal(plane: transform):
        return wp.quat_rotate(wp.transform_get_rotation(plane), vec3(scalar(0.0), scalar(0.0), scalar(1.0)))

    @wp.func
    def plane_ball(plane: transform, centre: vec3, radius: scalar):
        """Return the distance, point and normal of a ball; the point is midway between the plane and the ball's lowest
        point.
        """
        normal = plane_normal(plane)
        distance = wp.dot(normal, centre - wp.transform_get_translation(plane)) - radius
        point = centre - (radius + scalar(0.5) * distance) * normal
        return distance, point, normal

    return SimpleNamespace(plane_normal=plane_normal, plane_ball=plane_ball)


# Distance from which the point is on the surface, as a share of the margin: 0.2 mm with its default.
ARRIVAL = 0.01


@functools.cache
def lever_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    zero, half, one = scalar(0.0), scalar(0.5), scalar(1.0)
    six, ten = scalar(6.0), scalar(10.0)

    @wp.func
    def lever_shift(distance: scalar, arrival: scalar):
        """Return the displacement of the point along the normal from midway: half of the distance from ``arrival`` on,
        zero below zero.

        arrival: [m]; zero leaves all points midway.
        """
        if arrival == zero or distance <= zero:
            return zero
        x = wp.min(distance / arrival, one)
        return half * distance * (x * x * x * (ten + x * (six * x - scalar(15.0))))

    @wp.func
    def lever_slope(distance: scalar, arrival: scalar):
        """Return the derivative of :func:`lever_shift` with respect to the distance."""
        if arrival == zero or distance <= zero:
            return zero
        x = wp.min(distance / arrival, one)
        if x == one:
            return half
        return x * x * x * (scalar(20.0) + x * (scalar(18.0) * x - scalar(37.5)))

    return SimpleNamespace(lever_shift=lever_shift, lever_slope=lever_slope)
