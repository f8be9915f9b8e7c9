"""Where vertices of a box or a convex mesh touch a heightfield.

They stand on triangles. Apart, they are nearest to edges and points as well; touching these, the direction from one to
the other is lost, and the triangle under the vertex bears.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.grid import KINDS, UPPER_TRIANGLE, grid_functions
from warp_kernels.collision.field.hull.body import hull_body_functions
from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.types import warp_types


@functools.cache
def hull_vertex_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    t = warp_types(scalar)
    vec3 = t.vec3
    grid = grid_functions(scalar)
    lines = line_functions(scalar)
    surface = surface_functions(scalar)
    choices = choice_functions(scalar)
    hulls = hull_contact_functions(scalar)
    bodies = hull_body_functions(scalar)
    Field, Hull, Bounds, Choice = surface.Field, bodies.Hull, bodies.Bounds, choices.Choice
    touching = surface.touching

    @wp.func
    def with_vertex(
        choice: Choice, height: wp.array2d(dtype=scalar), field: Field, hull: Hull, bounds: Bounds, code: int,
        vertex: vec3,
    ):  # fmt: skip
        """Consider a vertex with the triangle below or above it, and with whatever else it is nearest to."""
        parts = hulls.number_of_parts(hull.ranges)
        under = grid.triangle_below(field.shape, field.size, vertex[0], vertex[1])
        if under >= 0:
            corners = grid.element_corners(height, field.row, field.shape, field.size, under)
            distance, place, normal = lines.ball_contact(under % KINDS, corners, vertex, scalar(0.0))
            if surface.nearest_on_triangle(height, field, corners, vertex, distance, place):
                feature = parts * (under // KINDS) + hulls.vertex_part(code, under % KINDS)
                choice = choices.consider(choice, bounds.reach, feature, distance, place, normal)
            if distance < scalar(0.0):
                return choice
        around = surface.rows_and_columns(field, vertex, vec3(bounds.room, bounds.room, bounds.room))
        for row in range(around[0], around[1] + 1):
            for column in range(around[2], around[3] + 1):
                if surface.top_of_cell(height, field, row, column) < vertex[2] - bounds.room:
                    continue
                point = row * field.shape[2] + column
                for kind in range(KINDS):
                    if KINDS * point + kind != under and grid.exists(field.shape, kind, row, column):
                        corners = grid.element_corners(height, field.row, field.shape, field.size, KINDS * point + kind)
                        distance, place, normal = lines.ball_contact(kind, corners, vertex, scalar(0.0))
                        if distance < bounds.reach and (kind <= UPPER_TRIANGLE or distance > scalar(touching)):
                            if surface.nearest_on_element(
                                height, field, kind, row, column, corners, vertex, place, normal
                            ):
                                feature = parts * point + hulls.vertex_part(code, kind)
                                choice = choices.consider(choice, bounds.reach, feature, distance, place, normal)
        return choice

    return SimpleNamespace(with_vertex=with_vertex)
