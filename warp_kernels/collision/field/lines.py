"""Points, balls, lines and rims of discs against elements of a heightfield; smooth, and differentiated.

The circle of a rim is nearest to the line of an edge where their difference is along edge x tangent, which is the
contact's normal. Seen along the edge the circle is an ellipse, and the line a point, so there are up to two such
points: one on either side of the ellipse's long axis.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import POINT, UPPER_TRIANGLE
from warp_kernels.types import warp_types

# Lines with a smaller squared sine between them (0.6 degrees) touch at their ends instead.
NEARLY_PARALLEL_SINE_SQUARED = 1.0e-4


@functools.cache
def line_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision.

    Contact functions return the distance, the contact's point on the field, and the unit normal from there to the body.
    """
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    # Squared sine below which the crossing of two lines is lost in rounding.
    parallel_sine_squared = 1.0e-10 if scalar == wp.float64 else 1.0e-6

    @wp.func
    def unit(v: vec3):
        """Return a vector scaled to unit length; +z for the zero vector."""
        square = wp.dot(v, v)
        result = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        if square > scalar(1.0e-24):
            result = v / wp.sqrt(square)
        return result

    @wp.func
    def upward(v: vec3, up: vec3):
        """Return a vector or its opposite, the one on the upper side."""
        result = v
        if wp.dot(v, up) < scalar(0.0):
            result = -v
        return result

    @wp.func
    def ball_contact(kind: int, corners: mat33, centre: vec3, radius: scalar):
        """Return the contact of a ball (with zero radius, a point) with the plane of a triangle, the line of an edge,
        or a point.
        """
        a = corners[0]
        distance = scalar(0.0)
        point = vec3()
        normal = vec3()
        if kind <= UPPER_TRIANGLE:
            normal = unit(wp.cross(corners[1] - a, corners[2] - a))
            distance = wp.dot(normal, centre - a)
            point = centre - distance * normal
        else:
            point = a
            if kind != POINT:
                edge = corners[1] - a
                point = a + (wp.dot(centre - a, edge) / wp.dot(edge, edge)) * edge
            delta = centre - point
            normal = unit(delta)
            distance = wp.dot(normal, delta)
        return distance - radius, point, normal

    @wp.func
    def line_contact(start: vec3, edge: vec3, up: vec3, centre: vec3, axis: vec3, radius: scalar):
        """Return the contact of the line of a body's edge or segment, with a radius, across the line of an edge of the
        field.
        """
        across = wp.cross(edge, axis)
        normal = unit(upward(across, up))
        delta = centre - start
        distance = wp.dot(normal, delta)
        point = start
        square = wp.dot(across, across)
        if square > scalar(1.0e-24):
            point = start + (wp.dot(wp.cross(delta, axis), across) / square) * edge
        return distance - radius, point, normal

    @wp.func
    def point_contact(point: vec3, up: vec3, centre: vec3, axis: vec3, radius: scalar):
        """Return the contact of the same line over a point of the field."""
        delta = centre + wp.dot(point - centre, axis) * axis - point
        normal = unit(upward(delta, up))
        return wp.dot(normal, delta) - radius, point, normal

    return SimpleNamespace(
        parallel_sine_squared=parallel_sine_squared,
        unit=unit,
        upward=upward,
        ball_contact=ball_contact,
        line_contact=line_contact,
        point_contact=point_contact,
    )


# Newton's method from below the root never overshoots it, so it ends once rounding stops it: five to ten iterations.
MAX_ITERATIONS = 40
NOWHERE = 1.0e30
# Tangent of an angle that counts as a right one: of a point next to a line that runs along the disc.
BESIDE = 1.0e9


@functools.cache
def rim_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    lines = line_functions(scalar)
    parallel = lines.parallel_sine_squared

    @wp.func
    def tangent_of_root(amplitude: scalar, kappa: scalar, offset: scalar):
        """Return the smallest x >= 0 with amplitude x / sqrt(1 + x^2) - kappa x = offset >= 0; -1 if there is none.

        The left side is concave and, up to its greatest value, rises.
        """
        x = scalar(0.0)
        for _ in range(MAX_ITERATIONS):
            share = scalar(1.0) / wp.sqrt(scalar(1.0) + x * x)
            slope = amplitude * share * share * share - kappa
            if slope <= scalar(0.0):
                return scalar(-1.0)
            following = x + (offset - amplitude * x * share + kappa * x) / slope
            if following <= x:
                break
            x = following
            if x > scalar(BESIDE):
                return scalar(BESIDE)
        return x

    @wp.func
    def crossing_direction(side: int, edge: vec3, delta: vec3, axis: vec3, radius: scalar) -> vec3:
        """Return the direction from the centre of a disc to the point of its rim that is nearest to a line; zero if
        there is none.

        edge: unit vector along the line; delta: from the centre to any point on it. Side 1 is that to which the edge
        goes, 0 that from which it comes. With u along the edge's part across the axis, at an angle f from it, the
        squared distance changes by cos f (rho^2 r sin f - beta) - zeta v sin f; divided by cos f that is an equation of
        tan f.
        """
        zeta = wp.dot(edge, axis)
        u = edge - zeta * axis
        if wp.length_sq(u) < scalar(1.0e-12):
            # Along the axis; any direction will do.
            u = wp.cross(axis, vec3(scalar(1.0), scalar(0.0), scalar(0.0)))
            if wp.length_sq(u) < scalar(0.1):
                u = wp.cross(axis, vec3(scalar(0.0), scalar(1.0), scalar(0.0)))
        u = wp.normalize(u)
        w = wp.cross(axis, u)
        rho = wp.dot(edge, u)
        beta = wp.dot(delta, w)
        sign = scalar(2 * side - 1)
        kappa = sign * zeta * (rho * wp.dot(delta, axis) - zeta * wp.dot(delta, u))
        x = tangent_of_root(rho * rho * radius, kappa, wp.abs(beta))
        result = vec3()
        if x >= scalar(0.0):
            if beta < scalar(0.0):
                x = -x
            result = (sign * u + x * w) / wp.sqrt(scalar(1.0) + x * x)
        return result

    @wp.func_grad(crossing_direction)
    def adjoint_crossing_direction(side: int, edge: vec3, delta: vec3, axis: vec3, radius: scalar, direction_bar: vec3):
        """Compute no adjoint: the Newton step from there has the whole derivative, by the implicit function theorem."""
        wp.adjoint[radius] += scalar(0.0) * direction_bar[0]

    @wp.func
    def rim_contact(side: int, corners: mat33, up: vec3, centre: vec3, axis: vec3, radius: scalar):
        """Return the distance, point on the edge, and normal to the rim; NOWHERE near if no point of that side is
        nearest.
        """
        edge = lines.unit(corners[1] - corners[0])
        start = corners[0]
        found = crossing_direction(side, edge, start - centre, axis, radius)
        outward = lines.unit(found - wp.dot(found, axis) * axis)
        tangent = wp.cross(axis, outward)
        delta = centre + radius * outward - start
        across = tangent - wp.dot(tangent, edge) * edge
        bend = radius * wp.dot(across, across) - wp.dot(delta, outward) + wp.dot(delta, edge) * wp.dot(outward, edge)
        turn = scalar(0.0)
        if bend > scalar(1.0e-12):
            turn = -wp.dot(delta, across) / bend
        outward = lines.unit(outward + turn * tangent)
        delta = centre + radius * outward - start
        towards = wp.cross(edge, wp.cross(axis, outward))
        if wp.dot(towards, towards) <= scalar(parallel):
            towards = delta - wp.dot(delta, edge) * edge
        normal = lines.unit(lines.upward(towards, up))
        distance = wp.dot(normal, delta)
        if wp.dot(found, found) == scalar(0.0):
            distance = scalar(NOWHERE)
        return distance, start + wp.dot(delta, edge) * edge, normal

    @wp.func
    def rim_over_point(point: vec3, up: vec3, centre: vec3, axis: vec3, radius: scalar):
        """Return the same for the point of a rim that is nearest to a point of the field outside the cylinder."""
        across = point - centre
        outward = lines.unit(across - wp.dot(across, axis) * axis)
        delta = radius * outward - across
        normal = lines.unit(lines.upward(delta, up))
        return wp.dot(normal, delta), point, normal

    return SimpleNamespace(
        crossing_direction=crossing_direction, rim_contact=rim_contact, rim_over_point=rim_over_point
    )
