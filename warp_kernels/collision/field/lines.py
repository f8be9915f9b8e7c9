"""Points, balls and lines against the triangles, edges and points of a heightfield; smooth, and differentiated."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import POINT, UPPER_TRIANGLE
from warp_kernels.types import warp_types

# Lines with a smaller squared sine between them (0.6 degrees) that touch do so at their ends instead.
NEARLY_PARALLEL_SINE_SQUARED = 1.0e-4


@functools.cache
def line_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision.

    Contact functions return the distance, the contact's place on the field, and the unit normal from there to the body.
    """
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    # Squared sine below which the crossing of two lines is lost in rounding.
    parallel_sine_squared = 1.0e-10 if scalar == wp.float64 else 1.0e-6

    @wp.func
    def unit(v: vec3):
        """A vector scaled to unit length; +z for the zero vector."""
        square = wp.dot(v, v)
        result = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        if square > scalar(1.0e-24):
            result = v / wp.sqrt(square)
        return result

    @wp.func
    def upward(v: vec3, up: vec3):
        """A vector or its opposite, the one on the upper side."""
        result = v
        if wp.dot(v, up) < scalar(0.0):
            result = -v
        return result

    @wp.func
    def ball_contact(kind: int, corners: mat33, centre: vec3, radius: scalar):
        """A ball (with zero radius, a point) against the plane of a triangle, the line of an edge, or a point."""
        a = corners[0]
        distance = scalar(0.0)
        place = vec3()
        normal = vec3()
        if kind <= UPPER_TRIANGLE:
            normal = unit(wp.cross(corners[1] - a, corners[2] - a))
            distance = wp.dot(normal, centre - a)
            place = centre - distance * normal
        else:
            place = a
            if kind != POINT:
                edge = corners[1] - a
                place = a + (wp.dot(centre - a, edge) / wp.dot(edge, edge)) * edge
            delta = centre - place
            normal = unit(delta)
            distance = wp.dot(normal, delta)
        return distance - radius, place, normal

    @wp.func
    def line_contact(start: vec3, edge: vec3, up: vec3, centre: vec3, axis: vec3, radius: scalar):
        """The line of a body's edge or segment, with a radius, across the line of an edge of the field."""
        across = wp.cross(edge, axis)
        normal = unit(upward(across, up))
        delta = centre - start
        distance = wp.dot(normal, delta)
        place = start
        square = wp.dot(across, across)
        if square > scalar(1.0e-24):
            place = start + (wp.dot(wp.cross(delta, axis), across) / square) * edge
        return distance - radius, place, normal

    @wp.func
    def point_contact(place: vec3, up: vec3, centre: vec3, axis: vec3, radius: scalar):
        """The same line over a point of the field."""
        delta = centre + wp.dot(place - centre, axis) * axis - place
        normal = unit(upward(delta, up))
        return wp.dot(normal, delta) - radius, place, normal

    return SimpleNamespace(
        parallel_sine_squared=parallel_sine_squared,
        unit=unit,
        upward=upward,
        ball_contact=ball_contact,
        line_contact=line_contact,
        point_contact=point_contact,
    )
