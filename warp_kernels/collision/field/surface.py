"""What the surface of a heightfield is like around its points, edges and triangles: where it is convex, what lies over what."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import POINT, UPPER_TRIANGLE, grid_functions
from warp_kernels.collision.field.lines import NEARLY_PARALLEL_SINE_SQUARED, line_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types

# Where sharp features touch, the direction from one to the other is lost in rounding, and faces give the normal. They do so
# as far from their border as this many times the distance that counts as touching.
AROUND_TOUCHING = 4.0


@functools.cache
def surface_functions(scalar: Any) -> SimpleNamespace:
    """The struct Field and Warp functions of one precision. All is in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    grid = grid_functions(scalar)
    Geometries = collision_structs(scalar).Geometries
    # Sine of an angle that counts as none: rounding must not lose a place between a triangle and its edge.
    angle = 1.0e-9 if scalar == wp.float64 else 1.0e-5
    # Distance that counts as touching where features without extent meet [m].
    touching = 1.0e-7 if scalar == wp.float64 else 1.0e-5
    parallel = line_functions(scalar).parallel_sine_squared

    @wp.struct
    class Field:
        """A heightfield: ``shape`` is the place of its first height, rows, columns; ``row`` that of the parameters."""

        shape: wp.vec3i
        size: vec3
        row: int

    @wp.func
    def field_of(geometries: Geometries, geometry: int, size: vec3, height: wp.array2d(dtype=scalar), world: int):
        """The heightfield of a geometry."""
        field = Field()
        field.shape = geometries.field_shape[geometry]
        field.size = size
        field.row = wp.min(world, height.shape[0] - 1)
        return field

    @wp.func
    def beyond(normal: vec3, direction: vec3):
        """Sine of the angle by which a direction lies below the plane across the normal, negative above it."""
        length = wp.length(direction)
        result = scalar(1.0)
        if length > scalar(0.0):
            result = -wp.dot(normal, direction) / length
        return result

    @wp.func
    def falls_away(across: vec3, direction: vec3, slack: scalar):
        """Whether a direction leads against another one, across an edge, by no more than the slack, a sine."""
        along = wp.dot(across, direction)
        limit = slack * slack * wp.dot(across, across) * wp.dot(direction, direction)
        return along >= scalar(0.0) or along * along <= limit

    @wp.func
    def beyond_side(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, side: int, corners: mat33,
        normal: vec3,
    ):  # fmt: skip
        """:func:`beyond` for the direction across an edge into the triangle on one side of it; 1 at the border."""
        offset = grid.opposite_offset(kind, side)
        r = row + offset[0]
        c = column + offset[1]
        result = scalar(1.0)
        if r >= 0 and c >= 0 and r < field.shape[1] and c < field.shape[2]:
            edge = corners[1] - corners[0]
            into = grid.surface_point(height, field.row, field.shape, field.size, r, c) - corners[0]
            into -= (wp.dot(into, edge) / wp.dot(edge, edge)) * edge
            result = beyond(normal, into)
        return result

    @wp.func
    def least_beyond_neighbours(
        height: wp.array2d(dtype=scalar), field: Field, row: int, column: int, point: vec3, normal: vec3
    ):
        """The least :func:`beyond` of the edges of a point."""
        least = scalar(1.0)
        for index in range(6):
            offset = grid.neighbour_offset(index)
            r = row + offset[0]
            c = column + offset[1]
            if r >= 0 and c >= 0 and r < field.shape[1] and c < field.shape[2]:
                other = grid.surface_point(height, field.row, field.shape, field.size, r, c)
                least = wp.min(least, beyond(normal, other - point))
        return least

    @wp.func
    def beside_triangle(corners: mat33, centre: vec3):
        """Whether a triangle has the place on its plane that is nearest to another one, seen from each of its edges."""
        normal = wp.cross(corners[1] - corners[0], corners[2] - corners[0])
        height = wp.dot(normal, centre - corners[0]) / wp.length(normal)
        inside = bool(True)
        for k in range(3):
            start = corners[k]
            inward = wp.normalize(wp.cross(normal, corners[(k + 1) % 3] - start))
            offset = wp.dot(inward, centre - start)
            if offset < -scalar(angle) * wp.sqrt(offset * offset + height * height):
                inside = False
        return inside

    @wp.func
    def over_triangle(corners: mat33, centre: vec3):
        """Whether a place above a triangle's plane is nearest to its inside."""
        normal = wp.cross(corners[1] - corners[0], corners[2] - corners[0])
        return wp.dot(normal, centre - corners[0]) >= scalar(0.0) and beside_triangle(corners, centre)

    @wp.func
    def nearest_on_triangle(
        height: wp.array2d(dtype=scalar), field: Field, corners: mat33, point: vec3, distance: scalar, place: vec3
    ):
        """Whether the plane of the triangle under a point is as far from it as the surface is, or further.

        place: the foot of the point on the plane, which may be past the triangle: in the ground beyond a hollow edge, in
        the air beyond a convex one.
        """
        if distance < scalar(touching) or beside_triangle(corners, point):
            return True
        under = grid.triangle_below(field.shape, field.size, place[0], place[1])
        if under < 0:
            return False
        other = grid.element_corners(height, field.row, field.shape, field.size, under)
        return wp.dot(wp.cross(other[1] - other[0], other[2] - other[0]), place - other[0]) <= scalar(0.0)

    @wp.func
    def between_ends(corners: mat33, place: vec3, slack: scalar):
        """Whether a place on an edge's line lies on the edge, or no further beyond it than the slack."""
        edge = corners[1] - corners[0]
        length = wp.length(edge)
        along = wp.dot(place - corners[0], edge) / length
        return along >= -slack and along <= length + slack

    @wp.func
    def nearest_on_element(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33, point: vec3,
        place: vec3, normal: vec3,
    ):  # fmt: skip
        """Whether the distance of a point above the surface has a local minimum on an element, at a place there."""
        result = normal[2] > scalar(0.0)
        if kind <= UPPER_TRIANGLE:
            result = over_triangle(corners, point)
        elif kind == POINT:
            if least_beyond_neighbours(height, field, row, column, place, normal) <= scalar(angle):
                result = False
        else:
            if not between_ends(corners, place, scalar(angle) * wp.length(point - place)):
                result = False
            for side in range(2):
                if beyond_side(height, field, kind, row, column, side, corners, normal) <= scalar(angle):
                    result = False
        return result

    @wp.func
    def rows_and_columns(field: Field, centre: vec3, extent: vec3):
        """First and last row, first and last column of the elements within half extents of a place."""
        step = grid.spacing(field.shape, field.size)
        low = centre - extent
        high = centre + extent
        rows = grid.index_range(low[1], high[1], field.size[1], step[1], field.shape[1])
        columns = grid.index_range(low[0], high[0], field.size[0], step[0], field.shape[2])
        return wp.vec4i(rows[0], rows[1], columns[0], columns[1])

    @wp.func
    def top_of_cell(height: wp.array2d(dtype=scalar), field: Field, row: int, column: int):
        """Greatest z of the points of the elements that belong to a point."""
        top = scalar(-1.0e30)
        for i in range(2):
            for j in range(2):
                if row + i < field.shape[1] and column + j < field.shape[2]:
                    k = field.shape[0] + (row + i) * field.shape[2] + column + j
                    top = wp.max(top, field.size[2] * height[field.row, k])
        return top

    @wp.func
    def convex_within(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33, normal: vec3,
        slack: scalar,
    ):  # fmt: skip
        """Whether an edge is convex, and the surface rises to neither side above the plane across the normal by more than
        the slack, a sine.
        """
        first = beyond_side(height, field, kind, row, column, 0, corners, normal)
        second = beyond_side(height, field, kind, row, column, 1, corners, normal)
        return wp.min(first, second) >= -slack and first + second > scalar(angle)

    @wp.func
    def convex_at(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33, normal: vec3
    ):
        """Whether the surface falls away from an edge to both sides, or lies in the plane across the normal on one."""
        return convex_within(height, field, kind, row, column, corners, normal, scalar(angle))

    @wp.func
    def least_sine_squared(distance: scalar, least: scalar):
        """The squared sine from which on two lines cross; a greater one where they are nearer than the least distance."""
        result = scalar(parallel)
        if distance < least:
            result = scalar(NEARLY_PARALLEL_SINE_SQUARED)
        return result

    @wp.func
    def slack_at(distance: scalar, size: scalar):
        """How far past its ends an edge or a face of a body of some size bears what is at this distance from it."""
        result = scalar(angle) * size
        if wp.abs(distance) < scalar(touching):
            result += scalar(AROUND_TOUCHING) * scalar(touching)
        return result

    @wp.func
    def crosses(
        corners: mat33, axis: vec3, half_length: scalar, start: vec3, distance: scalar, place: vec3, on_body: vec3
    ):
        """Whether two lines that aren't parallel are nearest within an edge and within a body's segment about start."""
        edge = corners[1] - corners[0]
        across = wp.cross(edge, axis)
        if wp.length_sq(across) <= least_sine_squared(distance, scalar(touching)) * wp.length_sq(edge):
            return False
        slack = scalar(angle) * half_length
        return between_ends(corners, place, slack) and wp.abs(wp.dot(on_body - start, axis)) <= half_length + slack

    @wp.func
    def folded(height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33):
        """Whether an edge is convex at all: most edges of a gentle surface hardly are, or not."""
        offset = grid.opposite_offset(kind, 0)
        r = row + offset[0]
        c = column + offset[1]
        if r >= field.shape[1] or c >= field.shape[2]:
            return True
        opposite = grid.surface_point(height, field.row, field.shape, field.size, r, c)
        normal = wp.normalize(wp.cross(corners[1] - corners[0], opposite - corners[0]))
        if normal[2] < scalar(0.0):
            normal = -normal
        return beyond_side(height, field, kind, row, column, 1, corners, normal) > scalar(angle)

    return SimpleNamespace(
        Field=Field,
        field_of=field_of,
        angle=angle,
        falls_away=falls_away,
        touching=touching,
        beyond_side=beyond_side,
        least_beyond_neighbours=least_beyond_neighbours,
        beside_triangle=beside_triangle,
        over_triangle=over_triangle,
        nearest_on_triangle=nearest_on_triangle,
        nearest_on_element=nearest_on_element,
        between_ends=between_ends,
        rows_and_columns=rows_and_columns,
        top_of_cell=top_of_cell,
        convex_at=convex_at,
        convex_within=convex_within,
        least_sine_squared=least_sine_squared,
        slack_at=slack_at,
        crosses=crosses,
        folded=folded,
    )
