"""Vertices of convex hulls that carry the contact with a plane."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

# Vertices of the face on which a body lies support it; those of bevelled or rounded edges around it don't, however far
# out they are. So the next vertex is first searched among those that rise from the deepest one by no more than these
# shares of the distance, seen along the normal: a body that lies flat, one that is tilted by half a degree, any other.
SLOPES = (1.0e-4, 1.0e-2, 1.0e30)


@functools.cache
def hull_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision.

    A hull is the part of the packed array ``hull`` from ``start`` to before ``end``; features are vertices counted from
    ``start``. A plane is given in the hull's frame by its unit normal and the height of the frame's origin above it.
    """
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    slopes = vec3(*SLOPES)

    @wp.func
    def vertex(hull: wp.array(dtype=vec3), start: int, scale: vec3, index: int):
        return wp.cw_mul(hull[start + index], scale)

    @wp.func
    def across(v: vec3, normal: vec3):
        return v - wp.dot(v, normal) * normal

    @wp.func
    def signed_area(a: vec3, b: vec3, c: vec3, normal: vec3):
        return wp.dot(wp.cross(b - a, c - a), normal)

    @wp.func
    def score(stage: int, v: vec3, chosen: mat33, normal: vec3, height: scalar):
        """Return the score by which the next vertex of the manifold is selected, seen along the normal.

        Stage 0: depth; 1: squared distance from the first; 2: squared distance from the segment of the first two, so
        that of collinear vertices both ends are found; 3: area outside the triangle.
        """
        a = chosen[0]
        b = chosen[1]
        c = chosen[2]
        if stage == 0:
            return -(wp.dot(normal, v) + height)
        if stage == 1:
            return wp.length_sq(across(v - a, normal))
        if stage == 2:
            offset = across(v - a, normal)
            edge = across(b - a, normal)
            fraction = wp.clamp(wp.dot(offset, edge) / wp.dot(edge, edge), scalar(0.0), scalar(1.0))
            return wp.length_sq(offset - fraction * edge)
        turn = -wp.sign(signed_area(a, b, c, normal))
        return wp.max(
            turn * signed_area(a, b, v, normal),
            wp.max(turn * signed_area(b, c, v, normal), turn * signed_area(c, a, v, normal)),
        )

    @wp.func
    def is_candidate(stage: int, v: vec3, chosen: mat33, normal: vec3, height: scalar, margin: scalar, slope: scalar):
        """Return whether a vertex is within the margin, and after the first stage no steeper than the slope from the
        first.
        """
        if stage > 0:
            offset = v - chosen[0]
            if wp.dot(normal, offset) > slope * wp.length(across(offset, normal)):
                return False
        return wp.dot(normal, v) + height < margin

    @wp.func
    def best_vertex(
        stage: int,
        hull: wp.array(dtype=vec3),
        start: int,
        end: int,
        scale: vec3,
        chosen: mat33,
        normal: vec3,
        height: scalar,
        margin: scalar,
        slope: scalar,
    ):
        """Return the first vertex within the margin whose score is as good as the best; -1 if none adds anything. Those
        that rise more steeply than the slope from the first chosen one are skipped.

        "As good" allows for rounding (1e-6 m of depth, a thousandth of the others): the vertices of a resting face are
        equally deep, and the choice among them should stay the same from step to step.
        """
        best = scalar(-1.0e30)
        for k in range(end - start):
            v = vertex(hull, start, scale, k)
            if is_candidate(stage, v, chosen, normal, height, margin, slope):
                best = wp.max(best, score(stage, v, chosen, normal, height))
        enough = best - scalar(1.0e-6)
        if stage > 0:
            enough = scalar(0.999) * best
            if best < scalar(1.0e-12):
                return -1
        result = wp.int32(-1)
        for k in range(end - start):
            v = vertex(hull, start, scale, k)
            if result < 0:
                if is_candidate(stage, v, chosen, normal, height, margin, slope):
                    if score(stage, v, chosen, normal, height) >= enough:
                        result = k
        return result

    @wp.func
    def spread_vertices(
        hull: wp.array(dtype=vec3), start: int, end: int, scale: vec3, normal: vec3, height: scalar, margin: scalar
    ):
        """Return four vertices (or three) of many within the margin: the deepest, then those that span most area, first
        of those that lie in one plane with it.
        """
        chosen = mat33()
        features = wp.vec4i(-1, -1, -1, -1)
        stage = wp.int32(0)
        attempt = wp.int32(0)
        while stage < 4 and attempt < wp.static(len(SLOPES)):
            index = best_vertex(stage, hull, start, end, scale, chosen, normal, height, margin, slopes[attempt])
            if index < 0:
                attempt += 1
            else:
                features[stage] = index
                if stage < 3:
                    chosen[stage] = vertex(hull, start, scale, index)
                stage += 1
        return features

    @wp.func
    def ascending(f: wp.vec4i):
        low_a = wp.min(f[0], f[1])
        high_a = wp.max(f[0], f[1])
        low_b = wp.min(f[2], f[3])
        high_b = wp.max(f[2], f[3])
        inner_a = wp.max(low_a, low_b)
        inner_b = wp.min(high_a, high_b)
        return wp.vec4i(
            wp.min(low_a, low_b), wp.min(inner_a, inner_b), wp.max(inner_a, inner_b), wp.max(high_a, high_b)
        )

    @wp.func
    def lowest_vertices(
        hull: wp.array(dtype=vec3), start: int, end: int, scale: vec3, normal: vec3, height: scalar, margin: scalar
    ):
        """Return up to four vertices within the margin of a plane, in ascending order, with -1 for missing ones."""
        features = wp.vec4i(-1, -1, -1, -1)
        found = wp.int32(0)
        for k in range(end - start):
            if wp.dot(normal, vertex(hull, start, scale, k)) + height < margin:
                if found < 4:
                    features[found] = k
                found += 1
        if found > 4:
            features = ascending(spread_vertices(hull, start, end, scale, normal, height, margin))
        return features

    return SimpleNamespace(lowest_vertices=lowest_vertices, score=score, ascending=ascending)
