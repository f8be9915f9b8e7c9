"""Derivatives of contacts between parallel faces: one-sided derivatives for the resting side after a small rotation.

Such contacts have the same point, distance and normal along either face. After a small rotation in any direction, the
face without a corner above the other one separates the shapes more: the lowest corner above a face is less low the
smaller the other face is. So this face's normal is the one to differentiate. If neither face has such a corner, as with
two crossing bars, each separates more as they turn about its short side, and the normal is that across an edge of both.
If both have some, as with a box that is moved along another one of its size, the sides differ, and any of them will do.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.contact import EDGES, FACE_BACK, FACE_VERTEX, OF_B
from warp_kernels.collision.convex.support import shape_functions
from warp_kernels.collision.convex.witness import witness_functions
from warp_kernels.types import warp_types


@functools.cache
def tie_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Everything is in the frame of shape a."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    shapes = shape_functions(scalar)
    witnesses = witness_functions(scalar)
    Shape = shapes.Shape
    ints, triples, points = wp.array(dtype=wp.int32), wp.array(dtype=wp.vec3i), wp.array(dtype=vec3)
    # Squared sine between faces that count as parallel.
    parallel = scalar(1.0e-12 if scalar is wp.float64 else 1.0e-10)
    # Squared sine from which the edges of two such faces cross clearly (30 degrees).
    crossing = scalar(0.25)

    @wp.func
    def first_edge(shape: Shape, vertices: points, codes: wp.vec3i):
        """Return the edge between the first two corners of a face, in the shape's frame."""
        return shapes.vertex(shape, vertices, codes[1]) - shapes.vertex(shape, vertices, codes[0])

    @wp.func
    def face_direction(shape: Shape, vertices: points, codes: wp.vec3i):
        """Return the normal of three corners of a face, of any length, in the shape's frame."""
        start = shapes.vertex(shape, vertices, codes[0])
        return wp.cross(first_edge(shape, vertices, codes), shapes.vertex(shape, vertices, codes[2]) - start)

    @wp.func(inline=False)
    def settle_tie(a: Shape, b: Shape, rotation: quat, vertices: points, normal: vec3, first: int, end: int,
                   modes: ints, codes_a: triples, codes_b: triples):  # fmt: skip
        """Set the normals of the contacts of two parallel faces, those from ``first`` to before ``end``, to those of
        slightly rotated faces.

        The contacts are the same along either face, the derivatives of their normals are not. However little the shapes
        turn, the face without corners above the other one separates more. If neither has any, as with crossing bars,
        each does about its own long side: the normal is that across both edges.
        """
        backs = wp.int32(0)
        for k in range(first, end):
            feature = modes[k] % OF_B
            if feature == FACE_VERTEX or codes_a[k][2] < 0 or codes_b[k][2] < 0:
                return
            if feature == FACE_BACK:
                backs += 1
        if first == end or (backs == 0 and end - first > 4):
            return
        other = face_direction(a, vertices, codes_a[first])
        if modes[first] < OF_B:
            other = wp.quat_rotate(rotation, face_direction(b, vertices, codes_b[first]))
        if wp.length_sq(wp.cross(normal, other)) > parallel * wp.length_sq(other):
            return
        for k in range(first, end):
            if backs > 0:
                modes[k] = (modes[k] + OF_B) % (2 * OF_B)
                if modes[k] % OF_B == FACE_BACK:
                    modes[k] = modes[k] - FACE_BACK + FACE_VERTEX
            else:
                edge_a = first_edge(a, vertices, codes_a[k])
                edge_b = wp.quat_rotate(rotation, first_edge(b, vertices, codes_b[k]))
                square = wp.length_sq(wp.cross(edge_a, edge_b))
                if square > crossing * wp.length_sq(edge_a) * wp.length_sq(edge_b):
                    modes[k] = EDGES
                    codes_a[k] = witnesses.outward_order(a, b, rotation, vertices, codes_a[k], codes_b[k], normal)

    return SimpleNamespace(face_direction=face_direction, settle_tie=settle_tie)
