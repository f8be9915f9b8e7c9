"""Elements of a static triangle mesh: their geometry, their neighbours, and the triangle near a point.

The mesh is one-sided: the side to which its triangles turn counter-clockwise is outside. Its elements have indices
within the mesh: triangles first, then edges, then points. Only convex edges are listed, and only points that aren't
coplanar with all their neighbours: others have no effect, see sim/model/shapes/triangles.py. A key is the kind of an element,
its number, and 0.

A tree of boxes around the triangles, ``bvh``, finds those near a point. Each edge and point belongs to one of its
triangles.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import EDGE_X, KINDS, LOWER_TRIANGLE, POINT
from warp_kernels.collision.field.ground.sides import side_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types

# Triangles whose squared distances differ by less than this share are equally near: the point is on the edge between
# two.
EQUALLY_NEAR = 1.0e-6
# Enlargement of boxes, relative to the point's coordinates: those of the tree are in single precision.
ROUNDING = 1.0e-6


@functools.cache
def triangle_functions(scalar: Any) -> SimpleNamespace:
    """Return the type of the data, the struct Field and Warp functions for one precision. Everything is in the mesh's
    frame.
    """
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    sides = side_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, Data = structs.Geometries, structs.Triangles
    zero, one = scalar(0.0), scalar(1.0)

    @wp.struct
    class Field:
        """Mesh: ``extent`` is its first element among those of all meshes, and its numbers of triangles and edges."""

        bvh: wp.uint64
        extent: wp.vec3i
        size: vec3

    @wp.func
    def field_of(geometries: Geometries, geometry: int, size: vec3, data: Data, world: int):
        """Return the mesh of a geometry."""
        field = Field()
        field.bvh = data.bvh[geometry]
        field.extent = data.extent[geometry]
        field.size = size
        return field

    @wp.func
    def number_at(field: Field, key: wp.vec3i):
        """Return the number of an element."""
        return key[1]

    @wp.func
    def key_at(field: Field, number: int):
        """Return the key of the element with a number."""
        kind = POINT
        if number < field.extent[1]:
            kind = LOWER_TRIANGLE
        elif number < field.extent[1] + field.extent[2]:
            kind = EDGE_X
        return wp.vec3i(kind, number, 0)

    @wp.func
    def key_of(field: Field, element: int):
        """Return the key of an element, KINDS * number + kind."""
        return wp.vec3i(element % KINDS, element // KINDS, 0)

    @wp.func
    def corners_with(data: Data, field: Field, number: int):
        codes = data.corner[field.extent[0] + number]
        return wp.matrix_from_rows(
            wp.cw_mul(data.vertices[codes[0]], field.size),
            wp.cw_mul(data.vertices[codes[1]], field.size),
            wp.cw_mul(data.vertices[codes[2]], field.size),
        )

    @wp.func
    def corners_of(data: Data, field: Field, element: int):
        """Return the corners of an element, one a row; missing ones repeat its first."""
        return corners_with(data, field, element // KINDS)

    @wp.func
    def corners_at(data: Data, field: Field, key: wp.vec3i):
        """Return the corners of the element with a key."""
        return corners_with(data, field, key[1])

    @wp.func
    def up_with(data: Data, field: Field, number: int):
        scaled = wp.cw_div(data.outward[field.extent[0] + number], field.size)
        return scaled / wp.length(scaled)

    @wp.func
    def up_of(data: Data, field: Field, element: int):
        """Return the outer side of an element: the mean of the normals around it."""
        return up_with(data, field, element // KINDS)

    @wp.func
    def up_at(data: Data, field: Field, key: wp.vec3i):
        """Return the outer side of the element with a key."""
        return up_with(data, field, key[1])

    @wp.func
    def beyond_side(data: Data, field: Field, key: wp.vec3i, side: int, corners: mat33, normal: vec3):
        """Return :func:`beyond` for the direction across an edge into the triangle on one side of it; 1 at the
        border.
        """
        code = data.beside[field.extent[0] + key[1]][side]
        result = one
        if code >= 0:
            edge = corners[1] - corners[0]
            into = wp.cw_mul(data.vertices[code], field.size) - corners[0]
            into -= (wp.dot(into, edge) / wp.dot(edge, edge)) * edge
            result = sides.beyond(normal, into)
        return result

    @wp.func
    def least_beyond_neighbours(data: Data, field: Field, key: wp.vec3i, point: vec3, normal: vec3):
        """Return the least :func:`beyond` of the edges of a point."""
        around = data.beside[field.extent[0] + key[1]]
        least = one
        for k in range(around[0], around[1]):
            other = wp.cw_mul(data.vertices[data.neighbour[k]], field.size)
            least = wp.min(least, sides.beyond(normal, other - point))
        return least

    @wp.func
    def box_low(field: Field, centre: vec3, extent: vec3):
        """Return the lower corner of a box in the frame of the tree."""
        low = wp.cw_div(centre - extent, field.size)
        room = scalar(ROUNDING) * (wp.length(wp.cw_div(centre, field.size)) + wp.length(wp.cw_div(extent, field.size)))
        return wp.vec3(wp.float32(low[0] - room), wp.float32(low[1] - room), wp.float32(low[2] - room))

    @wp.func
    def box_high(field: Field, centre: vec3, extent: vec3):
        """Return the upper corner of a box in the frame of the tree."""
        high = wp.cw_div(centre + extent, field.size)
        room = scalar(ROUNDING) * (wp.length(wp.cw_div(centre, field.size)) + wp.length(wp.cw_div(extent, field.size)))
        return wp.vec3(wp.float32(high[0] + room), wp.float32(high[1] + room), wp.float32(high[2] + room))

    @wp.func
    def nearest_point(corners: mat33, p: vec3):
        """Return the point of a triangle closest to another point (Ericson 2005, 5.1.5)."""
        a = corners[0]
        ab = corners[1] - a
        ac = corners[2] - a
        d1 = wp.dot(ab, p - a)
        d2 = wp.dot(ac, p - a)
        if d1 <= zero and d2 <= zero:
            return a
        d3 = wp.dot(ab, p - corners[1])
        d4 = wp.dot(ac, p - corners[1])
        if d3 >= zero and d4 <= d3:
            return corners[1]
        vc = d1 * d4 - d3 * d2
        if vc <= zero and d1 >= zero and d3 <= zero:
            return a + (d1 / (d1 - d3)) * ab
        d5 = wp.dot(ab, p - corners[2])
        d6 = wp.dot(ac, p - corners[2])
        if d6 >= zero and d5 <= d6:
            return corners[2]
        vb = d5 * d2 - d1 * d6
        if vb <= zero and d2 >= zero and d6 <= zero:
            return a + (d2 / (d2 - d6)) * ac
        va = d3 * d6 - d5 * d4
        if va <= zero and d4 - d3 >= zero and d5 - d6 >= zero:
            return corners[1] + ((d4 - d3) / ((d4 - d3) + (d5 - d6))) * (corners[2] - corners[1])
        share = one / (va + vb + vc)
        return a + (vb * share) * ab + (vc * share) * ac

    @wp.func
    def past_border(data: Data, field: Field, triangle: int, corners: mat33, point: vec3):
        """Return whether a point lies beyond a border edge of a triangle."""
        borders = data.beside[field.extent[0] + triangle][0]
        normal = wp.cross(corners[1] - corners[0], corners[2] - corners[0])
        for k in range(3):
            if (borders >> k) % 2 == 1:
                inward = wp.cross(normal, corners[(k + 1) % 3] - corners[k])
                if wp.dot(inward, point - corners[k]) < zero:
                    return True
        return False

    @wp.func
    def triangle_at(data: Data, field: Field, point: vec3, depth: scalar):
        """Return the triangle nearest to a point, as an element, if it is nearer than the depth; otherwise -1, and -1
        beyond a border.

        Of triangles that are equally near, on both sides of an edge, the one that faces the point most: its plane
        decides on which side of the surface the point is (Baerentzen and Aanaes 2005).
        """
        least = depth * depth
        facing = zero
        found = wp.int32(-1)
        extent = vec3(depth, depth, depth)
        query = wp.bvh_query_aabb(field.bvh, box_low(field, point, extent), box_high(field, point, extent))
        triangle = wp.int32(0)
        while wp.bvh_query_next(query, triangle):
            corners = corners_with(data, field, triangle)
            offset = point - nearest_point(corners, point)
            square = wp.length_sq(offset)
            if square <= (one + scalar(EQUALLY_NEAR)) * least:
                normal = wp.normalize(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
                towards = wp.abs(wp.dot(normal, offset))
                if square < (one - scalar(EQUALLY_NEAR)) * least or found < 0 or towards > facing:
                    facing = towards
                    found = wp.int32(triangle)
                    least = wp.min(least, square)
        if found >= 0:
            if past_border(data, field, found, corners_with(data, field, found), point):
                return -1
            return KINDS * found
        return -1

    @wp.func
    def pierced(corners: mat33, start: vec3, end: vec3):
        """Return whether a path from outside to inside passes through a triangle."""
        normal = wp.cross(corners[1] - corners[0], corners[2] - corners[0])
        above = wp.dot(normal, start - corners[0])
        below = wp.dot(normal, end - corners[0])
        if above < zero or below >= zero:
            return False
        point = start + (above / (above - below)) * (end - start)
        for k in range(3):
            if wp.dot(wp.cross(normal, corners[(k + 1) % 3] - corners[k]), point - corners[k]) < zero:
                return False
        return True

    @wp.func
    def folded(data: Data, field: Field, key: wp.vec3i, corners: mat33):
        """Return whether an edge is convex: all that are listed are."""
        return True

    @wp.func
    def above_ground(data: Data, field: Field, point: vec3):
        """Return false: points past a triangle say nothing about its neighbours."""
        return True

    return SimpleNamespace(
        Data=Data, Field=Field, field_of=field_of, number_at=number_at, key_at=key_at, key_of=key_of,
        corners_of=corners_of, corners_at=corners_at, up_of=up_of, up_at=up_at, beyond_side=beyond_side,
        least_beyond_neighbours=least_beyond_neighbours, triangle_at=triangle_at, box_low=box_low, box_high=box_high,
        nearest_point=nearest_point, pierced=pierced, folded=folded, above_ground=above_ground,
    )  # fmt: skip
