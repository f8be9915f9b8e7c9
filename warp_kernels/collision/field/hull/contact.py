"""The contact of one part of a hull with one element of a heightfield; smooth, and differentiated.

A hull is a box or a convex mesh: V vertices, F faces and E edges, packed with those of other hulls (see sim/model/shapes/hulls.py). Its
vertices touch triangles, edges and points, its faces points, its edges edges and points. A feature is (6 V + F + 4 E) *
point + part with the point that the element belongs to, and the part 6 * vertex + kind, 6 V + face, or 6 V + F + 4 * edge +
kind - EDGE_X.

If that would exceed 31 bits on a heightfield, its points are numbered within a square window that is repeated over the
field. Such a number is unique near the hull, which is much smaller than the window, and doesn't change when the hull moves.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import EDGE_X, KINDS, POINT
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types

# Kinds of element that an edge touches, EDGE_X and those after it.
EDGE_KINDS = KINDS - EDGE_X
# Greatest feature.
MOST = 2**31 - 1


def window_size(parts: int) -> int:
    """Return the rows and columns of the window, a power of two, for this number of parts of a hull."""
    size = 1
    while 4 * size * size <= MOST // parts:
        size *= 2
    return size


@functools.cache
def hull_contact_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the struct Ranges and Warp functions for one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    surface = surface_functions(scalar, ground)
    Data, Field = surface.Data, surface.Field
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    lines = line_functions(scalar)

    @wp.struct
    class Ranges:
        """Ranges of a hull in the packed arrays."""

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
    def vertex_part(code: int, kind: int):
        return KINDS * code + kind

    @wp.func
    def face_part(ranges: Ranges, face: int):
        return KINDS * ranges.num_vertices + face

    @wp.func
    def edge_part(ranges: Ranges, edge: int, kind: int):
        return KINDS * ranges.num_vertices + ranges.num_faces + EDGE_KINDS * edge + kind - EDGE_X

    @wp.func
    def number_of_parts(ranges: Ranges):
        return edge_part(ranges, ranges.num_edges, EDGE_X)

    @wp.func
    def window_of(parts: int):
        """Return :func:`window_size`, by a binary search: Warp would doubt the adjoint of a loop."""
        points = wp.static(MOST) // parts
        bits = int(0)
        if points >= 65536:
            bits = 8
            points = points >> 16
        if points >= 256:
            bits += 4
            points = points >> 8
        if points >= 16:
            bits += 2
            points = points >> 4
        if points >= 4:
            bits += 1
        return 1 << bits

    @wp.func
    def number_in_window(field: Field, parts: int, point: int):
        """Return the number of a point in the window, or its own number if that of all features has 31 bits."""
        result = point
        if wp.static(ground != TRIANGLES):
            columns = field.shape[2]
            if field.shape[1] * columns > wp.static(MOST) // parts:
                size = window_of(parts)
                row = point // columns
                result = (row % size) * size + (point - row * columns) % size
        return result

    @wp.func
    def nearest_in_line(number: int, size: int, near: scalar, count: int):
        """Return the index below ``count`` that is ``number`` in a window of this size, and nearest to another index."""
        start = int(wp.clamp(near, scalar(0.0), scalar(count - 1)))
        offset = (number - start % size + size) % size
        if 2 * offset >= size:
            offset -= size
        return wp.clamp(start + offset, 0, count - 1)

    @wp.func
    def point_of(field: Field, parts: int, number: int, near: vec3):
        """Return the point of the ground with a number in the window, nearest to a position in the field's frame."""
        result = number
        if wp.static(ground != TRIANGLES):
            rows = field.shape[1]
            columns = field.shape[2]
            if rows * columns > wp.static(MOST) // parts:
                size = window_of(parts)
                along_x = scalar(0.5) * (near[0] / field.size[0] + scalar(1.0)) * scalar(columns - 1)
                along_y = scalar(0.5) * (near[1] / field.size[1] + scalar(1.0)) * scalar(rows - 1)
                row = nearest_in_line(number // size, size, along_y, rows)
                result = row * columns + nearest_in_line(number % size, size, along_x, columns)
        return result

    @wp.func
    def element_of(ranges: Ranges, field: Field, feature: int, centre: vec3):
        """Return the element of the ground of a feature. centre: the hull's origin in the field's frame."""
        parts = number_of_parts(ranges)
        number = feature // parts
        part = feature - number * parts
        kind = part % KINDS
        if part >= face_part(ranges, 0):
            kind = POINT
            edge = part - edge_part(ranges, 0, EDGE_X)
            if edge >= 0:
                kind = EDGE_X + edge % EDGE_KINDS
        return KINDS * point_of(field, parts, number, centre) + kind

    @wp.func
    def corners_of(ranges: Ranges, feature: int, packed: PackedShapes):
        """Return the vertices of a feature's part: one, three of a face that are far from each other, or both ends of
        an edge.
        """
        part = feature % number_of_parts(ranges)
        face = part - face_part(ranges, 0)
        edge = part - edge_part(ranges, 0, EDGE_X)
        codes = wp.vec3i(part // KINDS, -1, -1)
        if edge >= 0:
            ends = packed.edges[ranges.first_edge + edge // EDGE_KINDS]
            codes = wp.vec3i(ends[0], ends[1], -1)
        elif face >= 0:
            start = packed.face_start[ranges.first_face + face]
            count = packed.face_start[ranges.first_face + face + 1] - start
            corner = packed.face_corner
            codes = wp.vec3i(corner[start], corner[start + count // 3], corner[start + 2 * count // 3])
        return codes

    @wp.func
    def vertex(ranges: Ranges, scale: vec3, vertices: wp.array(dtype=vec3), code: int):
        """Return a vertex in the hull's frame; the origin for the code -1."""
        result = vec3()
        if code >= 0:
            result = wp.cw_mul(vertices[ranges.first_vertex + code], scale)
        return result

    @wp.func
    def hull_contact(
        kind: int, corners: mat33, up: vec3, pose: transform, codes: wp.vec3i, v0: vec3, v1: vec3, v2: vec3
    ):
        """Return the distance, point on the field and normal of a part with these vertices and an element with these
        corners.
        """
        distance = scalar(0.0)
        point = corners[0]
        normal = vec3()
        p0 = wp.transform_point(pose, v0)
        if codes[1] < 0:
            distance, point, normal = lines.ball_contact(kind, corners, p0, scalar(0.0))
        elif codes[2] >= 0:
            outward = lines.unit(wp.cross(v1 - v0, v2 - v0))
            normal = -wp.quat_rotate(wp.transform_get_rotation(pose), outward)
            distance = wp.dot(normal, p0 - point)
        else:
            along = lines.unit(wp.transform_point(pose, v1) - p0)
            if kind == POINT:
                distance, point, normal = lines.point_contact(point, up, p0, along, scalar(0.0))
            else:
                distance, point, normal = lines.line_contact(point, corners[1] - point, up, p0, along, scalar(0.0))
        return distance, point, normal

    @wp.func
    def field_hull_contact(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, feature: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, data: Data, world: int,
    ):  # fmt: skip
        """Return the distance, the point midway between the surfaces and the normal of a feature of a hull and a field
        at these poses.
        """
        local = wp.transform_multiply(wp.transform_inverse(pose_b), pose_a)
        ranges = ranges_of(packed.extent[a], packed.edge_extent[a])
        codes = corners_of(ranges, feature, packed)
        field = surface.field_of(geometries, b, size_b, data, world)
        element = element_of(ranges, field, feature, wp.transform_get_translation(local))
        corners = surface.corners_of(data, field, element)
        distance, point, upward = hull_contact(
            element % KINDS,
            corners,
            surface.up_of(data, field, element),
            local,
            codes,
            vertex(ranges, size_a, packed.vertices, codes[0]),
            vertex(ranges, size_a, packed.vertices, codes[1]),
            vertex(ranges, size_a, packed.vertices, codes[2]),
        )
        normal = -wp.quat_rotate(wp.transform_get_rotation(pose_b), upward)
        return distance, wp.transform_point(pose_b, point + (scalar(0.5) * distance) * upward), normal

    return SimpleNamespace(
        Ranges=Ranges,
        ranges_of=ranges_of,
        vertex_part=vertex_part,
        face_part=face_part,
        edge_part=edge_part,
        number_of_parts=number_of_parts,
        number_in_window=number_in_window,
        element_of=element_of,
        corners_of=corners_of,
        vertex=vertex,
        hull_contact=hull_contact,
        field_hull_contact=field_hull_contact,
    )
