"""Direction of the greatest separation of two convex shapes, and the vertices facing each other across it.

For a unit direction n, from a to b, s(n) is the least of n . (b - a) over all pairs of points of the two cores. The
signed distance of the cores is the greatest s(n): their distance apart, or minus their penetration depth. Apart, the
points of the Minkowski difference b - a nearest to the origin are found by GJK (Gilbert, Johnson, Keerthi 1988);
overlapping, the nearest face of that difference by the expanding polytope (van den Bergen 2001).

Everything is in the frame of a. The number of iterations is bounded; s(n) of the returned direction never exceeds the
distance.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.simplex import simplex_functions
from warp_kernels.collision.convex.support import shape_functions
from warp_kernels.types import warp_types

MAX_STEPS = 40

# Results: further apart than the cutoff; apart; overlapping, or undecided at this precision.
FAR = 0
APART = 1
OVERLAP = 2


@functools.cache
def gjk_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    shapes = shape_functions(scalar)
    simplices = simplex_functions(scalar)
    Shape = shapes.Shape
    # As a share of the size of the shapes: nearer than this the expanding polytope is more accurate.
    tiny = scalar(1.0e-9 if scalar is wp.float64 else 1.0e-4)
    tolerance = scalar(1.0e-12 if scalar is wp.float64 else 1.0e-6)

    @wp.func
    def difference_support(a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: wp.array(dtype=vec3), n: vec3):
        """Return the point of b - a that is least along n, and the codes of its vertices."""
        point_a, code_a = shapes.core_support(a, vertices, n)
        point_b, code_b = shapes.core_support(b, vertices, wp.quat_rotate_inv(rotation, -n))
        return offset + wp.quat_rotate(rotation, point_b) - point_a, code_a, code_b

    @wp.func
    def separation(a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: wp.array(dtype=vec3), n: vec3):
        """Return s(n) of the cores."""
        point, _code_a, _code_b = difference_support(a, b, rotation, offset, vertices, n)
        return wp.dot(n, point)

    @wp.func
    def known(points: wp.array(dtype=vec3), count: int, point: vec3, extent: scalar):
        """Return whether a point is already in the simplex. Computed at two points of the code, the same one may be
        rounded differently.
        """
        within = tolerance * extent
        result = wp.bool(False)
        for k in range(count):
            if wp.length_sq(points[k] - point) <= within * within:
                result = True
        return result

    @wp.func(inline=False)
    def gjk(
        a: Shape,
        b: Shape,
        rotation: quat,
        offset: vec3,
        vertices: wp.array(dtype=vec3),
        cutoff: scalar,
        points: wp.array(dtype=vec3),
        codes_a: wp.array(dtype=wp.int32),
        codes_b: wp.array(dtype=wp.int32),
    ):
        """Return the result, the direction, and the number of points of the simplex, written to the arrays."""
        start = offset
        if wp.length_sq(start) < scalar(1.0e-20):
            start = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        n = wp.normalize(start)
        point, code_a, code_b = difference_support(a, b, rotation, offset, vertices, n)
        points[0] = point
        codes_a[0] = code_a
        codes_b[0] = code_b
        count = wp.int32(1)
        nearest = point
        extent = wp.length(point) + scalar(1.0e-6)
        result = wp.int32(OVERLAP)
        for _step in range(MAX_STEPS):
            length = wp.length(nearest)
            if length < tiny * extent:
                return OVERLAP, n, count
            n = nearest / length
            point, code_a, code_b = difference_support(a, b, rotation, offset, vertices, n)
            s = wp.dot(n, point)
            if s > cutoff:
                return FAR, n, count
            # A direction that separates proves that they are apart.
            result = wp.where(s > scalar(0.0), APART, OVERLAP)
            if length - s <= tolerance * length or known(points, count, point, extent):
                return result, n, count
            points[count] = point
            codes_a[count] = code_a
            codes_b[count] = code_b
            weights = simplices.simplex_weights(points, count + 1)
            if weights[0] < scalar(0.0):
                return OVERLAP, n, 4
            closer = vec3()
            for k in range(count + 1):
                closer += weights[k] * points[k]
            if wp.length_sq(closer) >= length * length:
                # Rounding: no point is nearer. The newest point may belong to the contact all the same.
                return result, n, wp.min(count + 1, 3)
            kept = wp.int32(0)
            for k in range(count + 1):
                if weights[k] > scalar(0.0):
                    points[kept] = points[k]
                    codes_a[kept] = codes_a[k]
                    codes_b[kept] = codes_b[k]
                    kept += 1
            count = kept
            nearest = closer
            extent = wp.max(extent, wp.length(point))
        return result, n, count

    return SimpleNamespace(difference_support=difference_support, separation=separation, gjk=gjk)
