"""Surface of a heightfield: its points, edges and triangles.

A field of ``rows`` x ``columns`` heights has its points in row order, x along the columns and y along the rows, centred
on the origin of its frame; its size is (half extent along x, half extent along y, scale of the heights). Each cell has
two triangles, divided as in MuJoCo along the diagonal from its point of smallest x and y to that of largest. The solid
side is below.

An element of the surface belongs to the point of its smallest row and column and has the index 6 * point + kind: the
triangle below the diagonal of the cell that starts there, the one above it, the edges along x, along y and along the
diagonal, and the point itself.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

LOWER_TRIANGLE = 0
UPPER_TRIANGLE = 1
EDGE_X = 2
EDGE_Y = 3
DIAGONAL = 4
POINT = 5
KINDS = 6


@functools.cache
def grid_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. ``shape`` of a field: offset of its first height, rows, columns."""
    t = warp_types(scalar)
    vec3 = t.vec3

    @wp.func
    def spacing(shape: wp.vec3i, size: vec3):
        """Return the distances of neighbouring points along x and y."""
        return vec3(
            scalar(2.0) * size[0] / scalar(shape[2] - 1), scalar(2.0) * size[1] / scalar(shape[1] - 1), scalar(0.0)
        )

    @wp.func
    def surface_point(
        height: wp.array2d(dtype=scalar), height_row: int, shape: wp.vec3i, size: vec3, row: int, column: int
    ):
        """Return a point of the surface in the field's frame."""
        step = spacing(shape, size)
        return vec3(
            scalar(column) * step[0] - size[0],
            scalar(row) * step[1] - size[1],
            size[2] * height[height_row, shape[0] + row * shape[2] + column],
        )

    @wp.func
    def exists(shape: wp.vec3i, kind: int, row: int, column: int):
        """Return whether the grid has this element: at its last row and column some are missing."""
        result = row >= 0 and column >= 0 and row < shape[1] and column < shape[2]
        if kind != POINT and kind != EDGE_X and row >= shape[1] - 1:
            result = False
        if kind != POINT and kind != EDGE_Y and column >= shape[2] - 1:
            result = False
        return result

    @wp.func
    def element_offset(kind: int, corner: int):
        """Return rows and columns from an element's own point to its corner 0, 1 or 2, triangles counter-clockwise from
        above.

        Missing corners repeat its own point.
        """
        offset = wp.vec2i(0, 0)
        if corner == 1:
            if kind == LOWER_TRIANGLE or kind == EDGE_X:
                offset = wp.vec2i(0, 1)
            elif kind == UPPER_TRIANGLE or kind == DIAGONAL:
                offset = wp.vec2i(1, 1)
            elif kind == EDGE_Y:
                offset = wp.vec2i(1, 0)
        elif corner == 2:
            if kind == LOWER_TRIANGLE:
                offset = wp.vec2i(1, 1)
            elif kind == UPPER_TRIANGLE:
                offset = wp.vec2i(1, 0)
        return offset

    @wp.func
    def element_corners(height: wp.array2d(dtype=scalar), height_row: int, shape: wp.vec3i, size: vec3, element: int):
        """Return the corners of an element in the field's frame, one a row."""
        kind = element % KINDS
        point = element // KINDS
        row = point // shape[2]
        column = point - row * shape[2]
        first = element_offset(kind, 1)
        second = element_offset(kind, 2)
        return wp.matrix_from_rows(
            surface_point(height, height_row, shape, size, row, column),
            surface_point(height, height_row, shape, size, row + first[0], column + first[1]),
            surface_point(height, height_row, shape, size, row + second[0], column + second[1]),
        )

    @wp.func
    def neighbour_offset(index: int):
        """Return rows and columns to the six points that share an edge with one, by index."""
        offset = wp.vec2i(0, 1)
        if index == 1:
            offset = wp.vec2i(1, 1)
        elif index == 2:
            offset = wp.vec2i(1, 0)
        elif index == 3:
            offset = wp.vec2i(0, -1)
        elif index == 4:
            offset = wp.vec2i(-1, -1)
        elif index == 5:
            offset = wp.vec2i(-1, 0)
        return offset

    @wp.func
    def opposite_offset(kind: int, side: int):
        """Return rows and columns from an edge's own point to the third corner of the triangle on either side of it."""
        offset = wp.vec2i(1, 1)
        if kind == EDGE_X and side == 1:
            offset = wp.vec2i(-1, 0)
        elif kind == EDGE_Y and side == 1:
            offset = wp.vec2i(0, -1)
        elif kind == DIAGONAL:
            offset = wp.vec2i(0, 1)
            if side == 1:
                offset = wp.vec2i(1, 0)
        return offset

    @wp.func
    def triangle_below(shape: wp.vec3i, size: vec3, x: scalar, y: scalar):
        """Return the triangle over or under a point in the field's frame, as an element; -1 outside the field's
        extent.
        """
        step = spacing(shape, size)
        element = int(-1)
        if wp.abs(x) <= size[0] and wp.abs(y) <= size[1] and step[0] > scalar(0.0) and step[1] > scalar(0.0):
            along = (x + size[0]) / step[0]
            across = (y + size[1]) / step[1]
            column = wp.min(int(along), shape[2] - 2)
            row = wp.min(int(across), shape[1] - 2)
            kind = LOWER_TRIANGLE
            if across - scalar(row) > along - scalar(column):
                kind = UPPER_TRIANGLE
            element = KINDS * (row * shape[2] + column) + kind
        return element

    @wp.func
    def index_range(low: scalar, high: scalar, half: scalar, step: scalar, count: int):
        """Return first and last index of the points whose elements may lie between two coordinates; empty if last <
        first.
        """
        result = wp.vec2i(0, -1)
        if step > scalar(0.0) and high >= -half and low <= half:
            # Clamped to the field first: far outside, the conversion to whole numbers isn't defined.
            first = int((wp.max(low, -half) + half) / step)
            last = int((wp.min(high, half) + half) / step)
            result = wp.vec2i(wp.clamp(first, 0, count - 1), wp.clamp(last, 0, count - 1))
        return result

    return SimpleNamespace(
        surface_point=surface_point,
        exists=exists,
        element_corners=element_corners,
        neighbour_offset=neighbour_offset,
        opposite_offset=opposite_offset,
        triangle_below=triangle_below,
        index_range=index_range,
        spacing=spacing,
    )
