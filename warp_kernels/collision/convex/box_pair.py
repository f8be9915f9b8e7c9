"""Touching features of two boxes, by their separating axes.

s(n) of two boxes (:mod:`warp_kernels.collision.convex.gjk`) is greatest along the normal of a face or across two edges
if they overlap, and if they are apart unless a corner is nearest to a corner or to an edge. So fifteen axes replace the
expanding polytope, in a fraction of its time (Gottschalk, Lin and Manocha, *OBBTree*, 1996).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.contact import EDGES
from warp_kernels.collision.convex.support import shape_functions
from warp_kernels.collision.convex.witness import witness_functions
from warp_kernels.collision.shapes.boxes import box_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types

# Results: boxes further apart than the cutoff; the features that touch first; boxes that are apart, with other nearest
# features.
BEYOND = 0
FOUND = 1
UNDECIDED = 2


@functools.cache
def box_pair_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Points and directions are in the frame of box a, unless stated
    otherwise.
    """
    t = warp_types(scalar)
    vec3, mat33, quat = t.vec3, t.mat33, t.quat
    boxes = box_functions(scalar)
    corner_signs, magnitude, unit_axis, support_edge = (
        boxes.corner_signs,
        boxes.magnitude,
        boxes.unit_axis,
        boxes.support_edge,
    )
    shapes = shape_functions(scalar)
    PackedShapes = collision_structs(scalar).PackedShapes
    witnesses = witness_functions(scalar)
    Shape, Witness = shapes.Shape, witnesses.Witness
    slack, parallel = scalar(witnesses.slack), scalar(witnesses.parallel)
    zero = scalar(0.0)

    @wp.func
    def corner_over(box: vec3, axis: int, sign: scalar, other: vec3, turn: mat33, centre: vec3, height: scalar):
        """Return whether a corner of another box is straight above a face of a box, no higher than this.

        box, other: half extents; turn, centre: of the other one in the frame of the box.
        """
        for code in range(8):
            corner = centre + turn * wp.cw_mul(corner_signs(code), other)
            above = sign * corner[axis] - box[axis] <= height
            for k in range(3):
                if k != axis and wp.abs(corner[k]) > box[k]:
                    above = False
            if above:
                return True
        return False

    @wp.func
    def facing_axis(direction: vec3):
        """Return the axis of the faces most aligned with a direction or its opposite."""
        size = magnitude(direction)
        axis = wp.where(size[1] > size[0], 1, 0)
        return wp.where(size[2] > size[axis], 2, axis)

    @wp.func
    def edges_touch(a: Shape, b: Shape, turn: mat33, offset: vec3, vertices: wp.array(dtype=vec3), codes_a: wp.vec3i,
                    codes_b: wp.vec3i):  # fmt: skip
        """Return whether the closest points of the lines through two edges are on the edges."""
        start_a = shapes.vertex(a, vertices, codes_a[0])
        start_b = shapes.vertex(b, vertices, codes_b[0])
        edge_a = shapes.vertex(a, vertices, codes_a[1]) - start_a
        edge_b = turn * (shapes.vertex(b, vertices, codes_b[1]) - start_b)
        delta = offset + turn * start_b - start_a
        return witnesses.over(delta, edge_a, edge_b, zero) and witnesses.over(-delta, edge_b, edge_a, zero)

    @wp.func
    def faces_touch(
        a: Shape, b: Shape, turn: mat33, back: mat33, offset: vec3, local: vec3, normal: vec3, separation: scalar
    ):
        """Return whether a corner of one box is straight above a face of the other, no higher than the separation along
        the normal.
        """
        height = separation + slack
        axis_a = facing_axis(normal)
        if corner_over(a.size, axis_a, wp.sign(normal[axis_a]), b.size, turn, offset, height):
            return True
        against = back * normal
        axis_b = facing_axis(against)
        return corner_over(b.size, axis_b, -wp.sign(against[axis_b]), a.size, back, -local, height)

    @wp.func(inline=False)
    def separate_boxes(a: Shape, b: Shape, rotation: quat, offset: vec3, packed: PackedShapes, cutoff: scalar):
        """Return the result, and the features that touch first."""
        turn = wp.quat_to_matrix(rotation)
        back = wp.transpose(turn)
        local = back * offset
        most = scalar(-1.0e30)
        normal = vec3()
        axis = wp.int32(-1)
        of_b = wp.int32(0)
        for k in range(3):
            s = wp.abs(offset[k]) - a.size[k] - wp.dot(magnitude(turn[k]), b.size)
            if s > most + slack:
                most = s
                axis = k
                normal = unit_axis(k)
        for k in range(3):
            s = wp.abs(local[k]) - b.size[k] - wp.dot(magnitude(back[k]), a.size)
            if s > most + slack:
                most = s
                axis = k
                of_b = 1
                normal = back[k]
        # Boxes at poses that aren't finite have no such axis.
        if axis < 0:
            return int(UNDECIDED), Witness()
        edge_a = wp.int32(-1)
        edge_b = wp.int32(-1)
        for i in range(3):
            for j in range(3):
                across = wp.cross(unit_axis(i), back[j])
                square = wp.length_sq(across)
                if square > parallel:
                    n = across / wp.sqrt(square)
                    s = wp.abs(wp.dot(n, offset)) - wp.dot(magnitude(n), a.size) - wp.dot(magnitude(back * n), b.size)
                    if s > most + slack:
                        most = s
                        edge_a = i
                        edge_b = j
                        normal = n
        if most > cutoff:
            return int(BEYOND), Witness()
        # From a to b: out of a face of a, and into one of b.
        backwards = wp.dot(normal, offset) < zero
        normal = wp.where(backwards, -normal, normal)
        if edge_a >= 0:
            codes_a = support_edge(edge_a, normal)
            codes_b = support_edge(edge_b, -(back * normal))
            # Edges of overlapping boxes always do, where the separation is greatest.
            if most > zero and not edges_touch(a, b, turn, offset, packed.vertices, codes_a, codes_b):
                return int(UNDECIDED), Witness()
            found = witnesses.by_face(a, b, rotation, offset, packed, normal)
            found.mode = EDGES
            found.codes_a = codes_a
            found.codes_b = codes_b
            found.normal = normal
            found.separation = most
            return int(FOUND), witnesses.completed(a, b, rotation, offset, packed, found)
        if most > zero and not faces_touch(a, b, turn, back, offset, local, normal, most):
            return int(UNDECIDED), Witness()
        face = 2 * axis + wp.where(backwards == (of_b == 1), 1, 0)
        return int(FOUND), witnesses.with_face(a, b, rotation, packed, of_b, face, normal, most)

    return SimpleNamespace(separate_boxes=separate_boxes)
