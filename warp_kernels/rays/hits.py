"""Which piece of a primitive a ray meets first; the formulas of the pieces are in :mod:`warp_kernels.rays.surfaces`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.rays.surfaces import surface_time_functions
from warp_kernels.types import warp_types


@functools.cache
def hit_functions(scalar: Any) -> SimpleNamespace:
    """The struct Hit and Warp functions of one precision. A function returns the nearer of a hit and its own."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    surface_time = surface_time_functions(scalar).surface_time

    @wp.struct
    class Hit:
        """What a ray meets first so far: at which distance, of which target, which piece; -1 and -1 for nothing."""

        time: scalar
        target: int
        feature: int

    @wp.func
    def take(time: scalar, target: int, feature: int, hit: Hit):
        """The nearer of a hit and one at a time."""
        if time >= scalar(0.0) and time < hit.time:
            hit.time = time
            hit.target = target
            hit.feature = feature
        return hit

    @wp.func
    def consider(type: int, feature: int, target: int, o: vec3, d: vec3, size: vec3, corners: mat33, hit: Hit):
        """The nearer of a hit and a whole piece."""
        return take(surface_time(type, feature, o, d, size, corners), target, feature, hit)

    @wp.func
    def round_hit(type: int, target: int, o: vec3, d: vec3, size: vec3, hit: Hit):
        """A sphere or an ellipsoid."""
        hit = consider(type, 0, target, o, d, size, mat33(), hit)
        return consider(type, 1, target, o, d, size, mat33(), hit)

    @wp.func
    def plane_hit(target: int, o: vec3, d: vec3, size: vec3, hit: Hit):
        """A plane, which is seen from above only."""
        if d[2] < scalar(0.0):
            hit = consider(wp.static(codes.PLANE), 0, target, o, d, size, mat33(), hit)
        return hit

    @wp.func
    def rod_hit(type: int, target: int, o: vec3, d: vec3, size: vec3, hit: Hit):
        """A capsule or a cylinder."""
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
        """A box, by the times at which the ray is between the planes of each pair of faces."""
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
