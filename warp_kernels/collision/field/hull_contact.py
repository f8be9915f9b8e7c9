"""The contact of one part of a hull with one element of a heightfield; smooth, and differentiated.

A hull is a box or a convex mesh: V vertices, F faces and E edges, packed with those of other hulls (see sim/hulls.py). Its
vertices touch triangles, its faces points, its edges edges. A feature is (2 V + F + 3 E) * point + part with the point that
the element belongs to, and the part 2 * vertex + kind of triangle, 2 V + face, or 2 V + F + 3 * edge + kind of edge.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import EDGE_X, KINDS, POINT
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.types import warp_types


@functools.cache
def hull_contact_functions(scalar: Any) -> SimpleNamespace:
    """The struct Ranges and Warp functions of one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    lines = line_functions(scalar)

    @wp.struct
    class Ranges:
        """Where a hull lies in the packed arrays."""

        first_vertex: int
        num_vertices: int
        first_face: int
        num_faces: int
        first_edge: int
        num_edges: int

    @wp.func
    def ranges_of(extent: wp.vec4i, edge_extent: wp.vec2i):
        ranges = Ranges()
        ranges.first_vertex = extent[0]
        ranges.num_vertices = extent[1]
        ranges.first_face = extent[2]
        ranges.num_faces = extent[3]
        ranges.first_edge = edge_extent[0]
        ranges.num_edges = edge_extent[1]
        return ranges

    @wp.func
    def number_of_parts(ranges: Ranges):
        return 2 * ranges.num_vertices + ranges.num_faces + 3 * ranges.num_edges

    @wp.func
    def element_of(ranges: Ranges, feature: int):
        """The element of the field that a feature is of."""
        point = feature // number_of_parts(ranges)
        part = feature - point * number_of_parts(ranges)
        kind = part & 1
        if part >= 2 * ranges.num_vertices:
            kind = POINT
            edge = part - 2 * ranges.num_vertices - ranges.num_faces
            if edge >= 0:
                kind = EDGE_X + edge % 3
        return KINDS * point + kind

    @wp.func
    def corners_of(
        ranges: Ranges, feature: int, starts: wp.array(dtype=wp.int32), face_corner: wp.array(dtype=wp.int32),
        edges: wp.array(dtype=wp.vec4i),
    ):  # fmt: skip
        """The vertices of a feature's part: one, three of a face that are far from each other, or both ends of an edge."""
        part = feature % number_of_parts(ranges)
        face = part - 2 * ranges.num_vertices
        edge = face - ranges.num_faces
        codes = wp.vec3i(part >> 1, -1, -1)
        if edge >= 0:
            ends = edges[ranges.first_edge + edge // 3]
            codes = wp.vec3i(ends[0], ends[1], -1)
        elif face >= 0:
            start = starts[ranges.first_face + face]
            count = starts[ranges.first_face + face + 1] - start
            codes = wp.vec3i(face_corner[start], face_corner[start + count // 3], face_corner[start + 2 * count // 3])
        return codes

    @wp.func
    def vertex(ranges: Ranges, scale: vec3, vertices: wp.array(dtype=vec3), code: int):
        """A vertex in the hull's frame; the origin for the code -1."""
        result = vec3()
        if code >= 0:
            result = wp.cw_mul(vertices[ranges.first_vertex + code], scale)
        return result

    @wp.func
    def hull_contact(kind: int, corners: mat33, pose: transform, v0: vec3, v1: vec3, v2: vec3):
        """Distance, place on the field and normal of a part with these vertices and an element with these corners."""
        distance = scalar(0.0)
        place = corners[0]
        normal = vec3()
        p0 = wp.transform_point(pose, v0)
        if kind == POINT:
            outward = lines.unit(wp.cross(v1 - v0, v2 - v0))
            normal = -wp.quat_rotate(wp.transform_get_rotation(pose), outward)
            distance = wp.dot(normal, p0 - place)
        elif kind >= EDGE_X:
            along = lines.unit(wp.transform_point(pose, v1) - p0)
            distance, place, normal = lines.line_contact(place, corners[1] - place, p0, along, scalar(0.0))
        else:
            distance, place, normal = lines.ball_contact(kind, corners, p0, scalar(0.0))
        return distance, place, normal

    return SimpleNamespace(
        Ranges=Ranges,
        ranges_of=ranges_of,
        number_of_parts=number_of_parts,
        element_of=element_of,
        corners_of=corners_of,
        vertex=vertex,
        hull_contact=hull_contact,
    )
