"""Zones of sensors: containment of points, intersection with rays, and the transform into a zone's axes."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import warp_types

# Shapes of zones.
ZONES = ("sphere", "capsule", "ellipsoid", "cylinder", "box")
SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX = range(5)


@functools.cache
def zone_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision; a zone is about the origin of its axes."""
    t = warp_types(scalar)
    vec2, vec3, transform = t.vec2, t.vec3, t.transform
    Motions = solver_structs(scalar).Motions
    zero, one = scalar(0.0), scalar(1.0)
    far = scalar(1.0e30)

    @wp.func
    def in_quadric(x: vec3, d: vec3):
        """Return the interval of lengths along d, from x, in which a ray is in the unit ball of the given
        coordinates.
        """
        a = wp.dot(d, d)
        b = wp.dot(x, d)
        c = wp.dot(x, x) - one
        if a == zero:
            if c <= zero:
                return vec2(-far, far)
            return vec2(one, zero)
        root = b * b - a * c
        if root < zero:
            return vec2(one, zero)
        root = wp.sqrt(root)
        return vec2((-b - root) / a, (-b + root) / a)

    @wp.func
    def in_slab(x: scalar, d: scalar, half: scalar):
        if d == zero:
            if wp.abs(x) <= half:
                return vec2(-far, far)
            return vec2(one, zero)
        first = (-half - x) / d
        second = (half - x) / d
        return vec2(wp.min(first, second), wp.max(first, second))

    @wp.func
    def both(a: vec2, b: vec2):
        return vec2(wp.max(a[0], b[0]), wp.min(a[1], b[1]))

    @wp.func
    def ahead(a: vec2):
        """Return whether part of an interval lies at or beyond the beginning of a ray."""
        return a[0] <= a[1] and a[1] >= zero

    @wp.func
    def meets(zone: int, size: vec3, x: vec3, d: vec3):
        """Return whether a ray from x along d, both in the axes of a zone, intersects it."""
        if zone == SPHERE:
            return ahead(in_quadric(x / size[0], d / size[0]))
        if zone == ELLIPSOID:
            return ahead(in_quadric(wp.cw_div(x, size), wp.cw_div(d, size)))
        if zone == BOX:
            found = in_slab(x[0], d[0], size[0])
            found = both(found, in_slab(x[1], d[1], size[1]))
            return ahead(both(found, in_slab(x[2], d[2], size[2])))
        flat = vec3(one, one, zero) / size[0]
        found = both(in_quadric(wp.cw_mul(x, flat), wp.cw_mul(d, flat)), in_slab(x[2], d[2], size[1]))
        if zone == CYLINDER or ahead(found):
            return ahead(found)
        end = vec3(zero, zero, size[1])
        above = ahead(in_quadric((x - end) / size[0], d / size[0]))
        return above or ahead(in_quadric((x + end) / size[0], d / size[0]))

    @wp.func
    def holds(zone: int, size: vec3, x: vec3):
        """Return whether a point is in a zone."""
        if zone == SPHERE:
            return wp.length(x) <= size[0]
        if zone == ELLIPSOID:
            return wp.length(wp.cw_div(x, size)) <= one
        if zone == BOX:
            return wp.abs(x[0]) <= size[0] and wp.abs(x[1]) <= size[1] and wp.abs(x[2]) <= size[2]
        beyond = x[2] - wp.clamp(x[2], -size[1], size[1])
        if zone == CYLINDER:
            return beyond == zero and wp.length(vec2(x[0], x[1])) <= size[0]
        return wp.length(vec3(x[0], x[1], beyond)) <= size[0]

    @wp.func
    def seen_from(
        link: int, placement: transform, point: vec3, world: int, link_tree: wp.array(dtype=int),
        pose: wp.array2d(dtype=transform), motions: Motions,
    ):  # fmt: skip
        """Return the rotation from world axes to those of a frame in a link, and a world point in these axes."""
        frame = placement
        if link >= 0:
            # Poses are about the origin of their tree.
            point -= motions.origin[link_tree[link], world]
            frame = pose[link, world] * frame
        to_frame = wp.transform_inverse(frame)
        return to_frame, wp.transform_point(to_frame, point)

    return SimpleNamespace(holds=holds, meets=meets, seen_from=seen_from)
