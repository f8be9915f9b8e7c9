"""Elements of a heightfield: their geometry, their neighbours, and the element under a point.

A key is the kind of an element, and the row and the column of the point that it belongs to.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import KINDS, grid_functions
from warp_kernels.collision.field.ground.sides import side_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types


@functools.cache
def heightfield_functions(scalar: Any) -> SimpleNamespace:
    """Return the type of the data, the struct Field and Warp functions for one precision. Everything is in the field's
    frame.
    """
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    grid = grid_functions(scalar)
    sides = side_functions(scalar)
    angle = sides.angle
    Geometries = collision_structs(scalar).Geometries
    Data = wp.array2d(dtype=scalar)  # the heights of all fields [P, heights]

    @wp.struct
    class Field:
        """Heightfield: ``shape`` is the offset of its first height, rows, columns; ``row`` that of the parameters."""

        shape: wp.vec3i
        size: vec3
        row: int

    @wp.func
    def field_of(geometries: Geometries, geometry: int, size: vec3, data: Data, world: int):
        """Return the heightfield of a geometry."""
        field = Field()
        field.shape = geometries.field_shape[geometry]
        field.size = size
        field.row = wp.min(world, data.shape[0] - 1)
        return field

    @wp.func
    def number_at(field: Field, key: wp.vec3i):
        """Return the index of the point that an element belongs to."""
        return key[1] * field.shape[2] + key[2]

    @wp.func
    def key_of(field: Field, element: int):
        """Return the key of an element, KINDS * number + kind."""
        point = element // KINDS
        row = point // field.shape[2]
        return wp.vec3i(element % KINDS, row, point - row * field.shape[2])

    @wp.func
    def corners_of(data: Data, field: Field, element: int):
        """Return the corners of an element, one a row; missing ones repeat its own point."""
        return grid.element_corners(data, field.row, field.shape, field.size, element)

    @wp.func
    def corners_at(data: Data, field: Field, key: wp.vec3i):
        """Return the corners of the element with a key."""
        return corners_of(data, field, KINDS * number_at(field, key) + key[0])

    @wp.func
    def up_of(data: Data, field: Field, element: int):
        """Return the outer side of an element."""
        return vec3(scalar(0.0), scalar(0.0), scalar(1.0))

    @wp.func
    def up_at(data: Data, field: Field, key: wp.vec3i):
        """Return the outer side of the element with a key."""
        return vec3(scalar(0.0), scalar(0.0), scalar(1.0))

    @wp.func
    def beyond_side(data: Data, field: Field, key: wp.vec3i, side: int, corners: mat33, normal: vec3):
        """Return :func:`beyond` for the direction across an edge into the triangle on one side of it; 1 at the
        border.
        """
        offset = grid.opposite_offset(key[0], side)
        r = key[1] + offset[0]
        c = key[2] + offset[1]
        result = scalar(1.0)
        if r >= 0 and c >= 0 and r < field.shape[1] and c < field.shape[2]:
            edge = corners[1] - corners[0]
            into = grid.surface_point(data, field.row, field.shape, field.size, r, c) - corners[0]
            into -= (wp.dot(into, edge) / wp.dot(edge, edge)) * edge
            result = sides.beyond(normal, into)
        return result

    @wp.func
    def least_beyond_neighbours(data: Data, field: Field, key: wp.vec3i, point: vec3, normal: vec3):
        """Return the least :func:`beyond` of the edges of a point."""
        least = scalar(1.0)
        for index in range(6):
            offset = grid.neighbour_offset(index)
            r = key[1] + offset[0]
            c = key[2] + offset[1]
            if r >= 0 and c >= 0 and r < field.shape[1] and c < field.shape[2]:
                other = grid.surface_point(data, field.row, field.shape, field.size, r, c)
                least = wp.min(least, sides.beyond(normal, other - point))
        return least

    @wp.func
    def triangle_at(data: Data, field: Field, point: vec3, depth: scalar):
        """Return the triangle over or under a point, as an element, however deep; -1 outside the field's extent."""
        return grid.triangle_below(field.shape, field.size, point[0], point[1])

    @wp.func
    def rows_and_columns(field: Field, centre: vec3, extent: vec3):
        """Return first and last row, first and last column of the elements within half extents of a point."""
        step = grid.spacing(field.shape, field.size)
        low = centre - extent
        high = centre + extent
        rows = grid.index_range(low[1], high[1], field.size[1], step[1], field.shape[1])
        columns = grid.index_range(low[0], high[0], field.size[0], step[0], field.shape[2])
        return wp.vec4i(rows[0], rows[1], columns[0], columns[1])

    @wp.func
    def top_of_cell(data: Data, field: Field, row: int, column: int):
        """Return the greatest z of the points of the elements that belong to a point."""
        top = scalar(-1.0e30)
        for i in range(2):
            for j in range(2):
                if row + i < field.shape[1] and column + j < field.shape[2]:
                    k = field.shape[0] + (row + i) * field.shape[2] + column + j
                    top = wp.max(top, field.size[2] * data[field.row, k])
        return top

    @wp.func
    def folded(data: Data, field: Field, key: wp.vec3i, corners: mat33):
        """Return whether an edge is convex at all: most edges of a gentle surface hardly are, or not."""
        offset = grid.opposite_offset(key[0], 0)
        r = key[1] + offset[0]
        c = key[2] + offset[1]
        if r >= field.shape[1] or c >= field.shape[2]:
            return True
        opposite = grid.surface_point(data, field.row, field.shape, field.size, r, c)
        normal = wp.normalize(wp.cross(corners[1] - corners[0], opposite - corners[0]))
        if normal[2] < scalar(0.0):
            normal = -normal
        return beyond_side(data, field, key, 1, corners, normal) > scalar(angle)

    @wp.func
    def above_ground(data: Data, field: Field, point: vec3):
        """Return whether a point lies above the surface, or beyond its border."""
        under = grid.triangle_below(field.shape, field.size, point[0], point[1])
        if under < 0:
            return True
        other = corners_of(data, field, under)
        return wp.dot(wp.cross(other[1] - other[0], other[2] - other[0]), point - other[0]) > scalar(0.0)

    @wp.func
    def exists(field: Field, key: wp.vec3i):
        """Return whether the grid has this element: at its last row and column some are missing."""
        return grid.exists(field.shape, key[0], key[1], key[2])

    return SimpleNamespace(
        Data=Data, Field=Field, field_of=field_of, number_at=number_at, key_of=key_of, corners_of=corners_of,
        corners_at=corners_at, up_of=up_of, up_at=up_at, beyond_side=beyond_side,
        least_beyond_neighbours=least_beyond_neighbours, triangle_at=triangle_at, rows_and_columns=rows_and_columns,
        top_of_cell=top_of_cell, folded=folded, above_ground=above_ground, exists=exists,
    )  # fmt: skip
