"""Reduction of a manifold to four contacts: the deepest, then those that span the largest area across the normal."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def spread_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    # Contacts that are deeper by less than this are equally deep: rounding must not choose among them [m].
    equal = scalar(3.0e-7 if scalar is wp.float64 else 2.0e-5)

    @wp.func
    def twice_area(p: vec3, q: vec3, r: vec3, normal: vec3):
        return wp.dot(wp.cross(q - p, r - p), normal)

    @wp.func
    def gain(stage: int, point: vec3, distance: scalar, chosen: mat33, normal: vec3):
        """Return the score by which the next contact is selected.

        Stage 0: depth; 1: squared distance from the first; 2: squared distance from the segment of the first two, so
        that of collinear contacts both ends are found; 3: area outside the triangle.
        """
        p = chosen[0]
        q = chosen[1]
        r = chosen[2]
        if stage == 0:
            return -distance
        if stage == 1:
            return wp.length_sq(wp.cross(point - p, normal))
        if stage == 2:
            offset = point - p - wp.dot(point - p, normal) * normal
            edge = q - p - wp.dot(q - p, normal) * normal
            along = wp.clamp(wp.dot(offset, edge) / wp.dot(edge, edge), scalar(0.0), scalar(1.0))
            return wp.length_sq(offset - along * edge)
        turn = -wp.sign(twice_area(p, q, r, normal))
        return wp.max(
            turn * twice_area(p, q, point, normal),
            wp.max(turn * twice_area(q, r, point, normal), turn * twice_area(r, p, point, normal)),
        )

    @wp.func
    def next_contact(stage: int, points: wp.array(dtype=vec3), distances: wp.array(dtype=scalar), count: int,
                     chosen: mat33, normal: vec3):  # fmt: skip
        """Return the first contact that is as good as the best up to rounding; -1 if none adds anything."""
        most = scalar(-1.0e30)
        for k in range(count):
            most = wp.max(most, gain(stage, points[k], distances[k], chosen, normal))
        enough = most - equal
        if stage > 0:
            if most < scalar(1.0e-10):
                return -1
            enough = scalar(0.999) * most
        for k in range(count):
            if gain(stage, points[k], distances[k], chosen, normal) >= enough:
                return k
        return -1

    @wp.func
    def spread(points: wp.array(dtype=vec3), distances: wp.array(dtype=scalar), count: int, normal: vec3):
        """Return the indices of up to four contacts; -1 for missing ones."""
        chosen = mat33()
        result = wp.vec4i(-1, -1, -1, -1)
        for stage in range(4):
            index = next_contact(stage, points, distances, count, chosen, normal)
            if index < 0:
                return result
            result[stage] = index
            if stage < 3:
                chosen[stage] = points[index]
        return result

    return SimpleNamespace(spread=spread)
