"""Point of a simplex closest to the origin, as weights of its corners."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def simplex_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision (after Ericson 2005, *Real-Time Collision Detection*, 5.1)."""
    t = warp_types(scalar)
    vec3 = t.vec3
    vec4 = wp.types.vector(4, scalar)
    zero, one = scalar(0.0), scalar(1.0)
    # Squared sine at the corner of a triangle whose corners are collinear up to rounding.
    flat = scalar(1.0e-28 if scalar is wp.float64 else 1.0e-11)

    @wp.func
    def segment_weights(p: vec3, q: vec3):
        along = q - p
        square = wp.dot(along, along)
        fraction = zero
        if square > zero:
            fraction = wp.clamp(-wp.dot(p, along) / square, zero, one)
        return vec3(one - fraction, fraction, zero)

    @wp.func
    def row_weights(p: vec3, q: vec3, r: vec3):
        """Return the weights of collinear corners: of the segment closest to the origin."""
        u = segment_weights(p, q)
        v = segment_weights(q, r)
        w = segment_weights(r, p)
        result = vec3(u[0], u[1], zero)
        least = wp.length_sq(u[0] * p + u[1] * q)
        square = wp.length_sq(v[0] * q + v[1] * r)
        if square < least:
            least = square
            result = vec3(zero, v[0], v[1])
        if wp.length_sq(w[0] * r + w[1] * p) < least:
            result = vec3(w[1], zero, w[0])
        return result

    @wp.func
    def triangle_weights(p: vec3, q: vec3, r: vec3):
        pq = q - p
        pr = r - p
        across = wp.cross(pq, pr)
        square = wp.dot(across, across)
        if square <= flat * wp.dot(pq, pq) * wp.dot(pr, pr):
            return row_weights(p, q, r)
        d1 = -wp.dot(pq, p)
        d2 = -wp.dot(pr, p)
        d3 = -wp.dot(pq, q)
        d4 = -wp.dot(pr, q)
        d5 = -wp.dot(pq, r)
        d6 = -wp.dot(pr, r)
        if d1 <= zero and d2 <= zero:
            return vec3(one, zero, zero)
        if d3 >= zero and d4 <= d3:
            return vec3(zero, one, zero)
        if d6 >= zero and d5 <= d6:
            return vec3(zero, zero, one)
        vc = d1 * d4 - d3 * d2
        vb = d5 * d2 - d1 * d6
        va = d3 * d6 - d5 * d4
        if vc <= zero and d1 >= zero and d3 <= zero:
            w = segment_weights(p, q)
            return vec3(w[0], w[1], zero)
        if vb <= zero and d2 >= zero and d6 <= zero:
            w = segment_weights(p, r)
            return vec3(w[0], zero, w[1])
        if va <= zero and d4 - d3 >= zero and d5 - d6 >= zero:
            w = segment_weights(q, r)
            return vec3(zero, w[0], w[1])
        # In a thin triangle these cancel, areas about the foot of the origin don't.
        foot = (wp.dot(across, p) / square) * across
        va = wp.max(wp.dot(across, wp.cross(q - foot, r - foot)), zero)
        vb = wp.max(wp.dot(across, wp.cross(r - foot, p - foot)), zero)
        vc = wp.max(wp.dot(across, wp.cross(p - foot, q - foot)), zero)
        return vec3(va, vb, vc) / (va + vb + vc)

    @wp.func
    def beyond(p: vec3, q: vec3, r: vec3, opposite: vec3):
        """Return whether the origin and the opposite corner lie on different sides of a triangle, or the four are
        coplanar.
        """
        normal = wp.cross(q - p, r - p)
        inside = wp.dot(normal, opposite - p)
        return wp.dot(normal, -p) * inside < zero or inside == zero

    @wp.func
    def tetrahedron_weights(p: vec3, q: vec3, r: vec3, s: vec3):
        """Return the weights of the four corners; all negative if the origin is inside."""
        best = vec4(-one, -one, -one, -one)
        least = scalar(1.0e30)
        if beyond(p, q, r, s):
            w = triangle_weights(p, q, r)
            square = wp.length_sq(w[0] * p + w[1] * q + w[2] * r)
            if square < least:
                least = square
                best = vec4(w[0], w[1], w[2], zero)
        if beyond(p, r, s, q):
            w = triangle_weights(p, r, s)
            square = wp.length_sq(w[0] * p + w[1] * r + w[2] * s)
            if square < least:
                least = square
                best = vec4(w[0], zero, w[1], w[2])
        if beyond(p, s, q, r):
            w = triangle_weights(p, s, q)
            square = wp.length_sq(w[0] * p + w[1] * s + w[2] * q)
            if square < least:
                least = square
                best = vec4(w[0], w[2], zero, w[1])
        if beyond(q, s, r, p):
            w = triangle_weights(q, s, r)
            square = wp.length_sq(w[0] * q + w[1] * s + w[2] * r)
            if square < least:
                best = vec4(zero, w[0], w[2], w[1])
        return best

    @wp.func
    def simplex_weights(points: wp.array(dtype=vec3), count: int):
        """Return the weights of the first ``count`` points, 1 to 4."""
        if count == 1:
            return vec4(one, zero, zero, zero)
        if count == 2:
            w = segment_weights(points[0], points[1])
            return vec4(w[0], w[1], zero, zero)
        if count == 3:
            w = triangle_weights(points[0], points[1], points[2])
            return vec4(w[0], w[1], w[2], zero)
        return tetrahedron_weights(points[0], points[1], points[2], points[3])

    return SimpleNamespace(simplex_weights=simplex_weights)
