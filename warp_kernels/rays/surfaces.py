"""Intersection of a ray with one piece of a geometry's surface, the normal there, and the first piece hit.

A ray starts at ``o`` with the direction ``d``; both are in the geometry's frame. A *feature* is a piece of the surface
with one formula, so that the formulas are smooth and have Warp's own adjoint:

- sphere and ellipsoid: 0 for the entry point, 1 for the exit point;
- capsule and cylinder: 0 and 1 likewise for the side; 2 and 3 for the end at negative z, 4 and 5 for the one at
  positive z (a flat end is 2 or 4);
- box: twice the axis of the face, plus 1 for the face on its positive side;
- plane: 0;
- convex mesh: the index of the triangle; heightfield: the element, see :mod:`warp_kernels.collision.field.grid`.

Sizes are those of :class:`sim.model.geometries.Geometry`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.types import warp_types

NEVER = -1.0  # time of a ray that misses a piece


@functools.cache
def surface_time_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. ``corners`` of a triangle are one a row."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33

    @wp.func
    def round_time(o: vec3, d: vec3, radius: scalar, side: scalar):
        """Return the time at which a ray crosses a sphere about the origin: side -1 for entry, 1 for exit."""
        speed2 = wp.dot(d, d)
        nearest = -wp.dot(o, d) / speed2
        # From the point of the ray nearest to the centre, which keeps its digits however far away the ray starts.
        miss = o + d * nearest
        free = radius * radius - wp.dot(miss, miss)
        time = scalar(NEVER)
        if free > scalar(0.0):
            time = nearest + side * wp.sqrt(free / speed2)
        return time

    @wp.func
    def side_time(o: vec3, d: vec3, radius: scalar, side: scalar):
        """Return the time for an endless cylinder about z, like :func:`round_time`."""
        speed2 = d[0] * d[0] + d[1] * d[1]
        time = scalar(NEVER)
        if speed2 > scalar(0.0):
            nearest = -(o[0] * d[0] + o[1] * d[1]) / speed2
            x = o[0] + d[0] * nearest
            y = o[1] + d[1] * nearest
            free = radius * radius - x * x - y * y
            if free > scalar(0.0):
                time = nearest + side * wp.sqrt(free / speed2)
        return time

    @wp.func
    def level_time(o: scalar, d: scalar, level: scalar):
        """Return the time at which a coordinate has a value."""
        time = scalar(NEVER)
        if d != scalar(0.0):
            time = (level - o) / d
        return time

    @wp.func
    def triangle_time(o: vec3, d: vec3, corners: mat33):
        """Return the time at which a ray crosses the plane of a triangle."""
        a = vec3(corners[0, 0], corners[0, 1], corners[0, 2])
        normal = triangle_area(corners)
        closing = wp.dot(normal, d)
        time = scalar(NEVER)
        if closing != scalar(0.0):
            time = wp.dot(normal, a - o) / closing
        return time

    @wp.func
    def triangle_area(corners: mat33):
        """Return the outward normal of a triangle with twice its area as length."""
        a = vec3(corners[0, 0], corners[0, 1], corners[0, 2])
        b = vec3(corners[1, 0], corners[1, 1], corners[1, 2])
        c = vec3(corners[2, 0], corners[2, 1], corners[2, 2])
        return wp.cross(b - a, c - a)

    @wp.func
    def end_side(feature: int):
        """Return -1 for the end at negative z, 1 for the other."""
        side = scalar(-1.0)
        if feature >= 4:
            side = scalar(1.0)
        return side

    @wp.func
    def crossing_sign(feature: int):
        """Return -1 for the entry of a ray, 1 for the exit."""
        side = scalar(-1.0)
        if feature % 2 == 1:
            side = scalar(1.0)
        return side

    @wp.func
    def surface_time(type: int, feature: int, o: vec3, d: vec3, size: vec3, corners: mat33):
        """Return the distance along the ray to a feature, in lengths of ``d``; negative for a miss."""
        time = scalar(NEVER)
        if type == wp.static(codes.SPHERE):
            time = round_time(o, d, size[0], crossing_sign(feature))
        elif type == wp.static(codes.ELLIPSOID):
            time = round_time(wp.cw_div(o, size), wp.cw_div(d, size), scalar(1.0), crossing_sign(feature))
        elif type == wp.static(codes.CAPSULE) or type == wp.static(codes.CYLINDER):
            if feature < 2:
                time = side_time(o, d, size[0], crossing_sign(feature))
            elif type == wp.static(codes.CYLINDER):
                time = level_time(o[2], d[2], end_side(feature) * size[1])
            else:
                centre = vec3(scalar(0.0), scalar(0.0), end_side(feature) * size[1])
                time = round_time(o - centre, d, size[0], crossing_sign(feature))
        elif type == wp.static(codes.BOX):
            axis = feature // 2
            time = level_time(o[axis], d[axis], crossing_sign(feature) * size[axis])
        elif type == wp.static(codes.PLANE):
            time = level_time(o[2], d[2], scalar(0.0))
        else:
            time = triangle_time(o, d, corners)
        return time

    @wp.func
    def surface_normal(type: int, feature: int, point: vec3, size: vec3, corners: mat33):
        """Return the outward unit normal at a point of a feature."""
        normal = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        if type == wp.static(codes.SPHERE):
            normal = wp.normalize(point)
        elif type == wp.static(codes.ELLIPSOID):
            normal = wp.normalize(wp.cw_div(wp.cw_div(point, size), size))
        elif type == wp.static(codes.CAPSULE) or type == wp.static(codes.CYLINDER):
            if feature < 2:
                normal = wp.normalize(vec3(point[0], point[1], scalar(0.0)))
            elif type == wp.static(codes.CYLINDER):
                normal = vec3(scalar(0.0), scalar(0.0), end_side(feature))
            else:
                normal = wp.normalize(point - vec3(scalar(0.0), scalar(0.0), end_side(feature) * size[1]))
        elif type == wp.static(codes.BOX):
            if feature // 2 == 0:
                normal = vec3(crossing_sign(feature), scalar(0.0), scalar(0.0))
            elif feature // 2 == 1:
                normal = vec3(scalar(0.0), crossing_sign(feature), scalar(0.0))
            else:
                normal = vec3(scalar(0.0), scalar(0.0), crossing_sign(feature))
        elif type != wp.static(codes.PLANE):
            normal = wp.normalize(triangle_area(corners))
        return normal

    return SimpleNamespace(surface_time=surface_time, surface_normal=surface_normal)


@functools.cache
def hit_functions(scalar: Any) -> SimpleNamespace:
    """Return the struct Hit and Warp functions for one precision. A function returns the nearer of a hit and its
    own.
    """
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    surface_time = surface_time_functions(scalar).surface_time

    @wp.struct
    class Hit:
        """First hit of a ray so far: distance, target and piece; -1 and -1 for none."""

        time: scalar
        target: int
        feature: int

    @wp.func
    def take(time: scalar, target: int, feature: int, hit: Hit):
        """Return the nearer of a hit and one at a time."""
        if time >= scalar(0.0) and time < hit.time:
            hit.time = time
            hit.target = target
            hit.feature = feature
        return hit

    @wp.func
    def consider(type: int, feature: int, target: int, o: vec3, d: vec3, size: vec3, corners: mat33, hit: Hit):
        """Return the nearer of a hit and a whole piece."""
        return take(surface_time(type, feature, o, d, size, corners), target, feature, hit)

    @wp.func
    def round_hit(type: int, target: int, o: vec3, d: vec3, size: vec3, hit: Hit):
        """Test a sphere or an ellipsoid."""
        hit = consider(type, 0, target, o, d, size, mat33(), hit)
        return consider(type, 1, target, o, d, size, mat33(), hit)

    @wp.func
    def plane_hit(target: int, o: vec3, d: vec3, size: vec3, hit: Hit):
        """Test a plane, which is visible from above only."""
        if d[2] < scalar(0.0):
            hit = consider(wp.static(codes.PLANE), 0, target, o, d, size, mat33(), hit)
        return hit

    @wp.func
    def rod_hit(type: int, target: int, o: vec3, d: vec3, size: vec3, hit: Hit):
        """Test a capsule or a cylinder."""
        for feature in range(6):
            if type == wp.static(codes.CAPSULE) or feature < 2 or feature % 2 == 0:
                time = surface_time(type, feature, o, d, size, mat33())
                point = o + d * time
                fits = wp.abs(point[2]) <= size[1]
                if feature >= 2:
                    if type == wp.static(codes.CAPSULE):
                        fits = point[2] >= size[1]
                        if feature < 4:
                            fits = point[2] <= -size[1]
                    else:
                        fits = point[0] * point[0] + point[1] * point[1] <= size[0] * size[0]
                if fits:
                    hit = take(time, target, feature, hit)
        return hit

    @wp.func
    def box_hit(target: int, o: vec3, d: vec3, size: vec3, hit: Hit):
        """Test a box, by the times at which the ray is between the planes of each pair of faces."""
        enter = scalar(-wp.inf)
        leave = scalar(wp.inf)
        entered = int(0)
        left = int(0)
        for axis in range(3):
            if d[axis] != scalar(0.0):
                ahead = int(1)
                if d[axis] < scalar(0.0):
                    ahead = 0
                side = scalar(2 * ahead - 1)
                first = (-side * size[axis] - o[axis]) / d[axis]
                last = (side * size[axis] - o[axis]) / d[axis]
                if first > enter:
                    enter = first
                    entered = 2 * axis + 1 - ahead
                if last < leave:
                    leave = last
                    left = 2 * axis + ahead
            elif wp.abs(o[axis]) > size[axis]:
                leave = scalar(-wp.inf)
        if enter <= leave:
            if enter >= scalar(0.0):
                hit = take(enter, target, entered, hit)
            else:
                hit = take(leave, target, left, hit)
        return hit

    return SimpleNamespace(
        Hit=Hit,
        take=take,
        consider=consider,
        round_hit=round_hit,
        plane_hit=plane_hit,
        rod_hit=rod_hit,
        box_hit=box_hit,
    )
