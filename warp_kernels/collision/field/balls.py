"""Where a sphere, or the end of a capsule, touches a heightfield.

Above the surface it touches where its distance has a local minimum: on a triangle under its centre, on an edge beyond
both triangles, on a point beyond all its edges. So a crease of a flat or hollow surface is never felt. A centre below the
surface is pushed out of the triangle above it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.body import body_functions
from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.contact import PARTS
from warp_kernels.collision.field.grid import KINDS, POINT, UPPER_TRIANGLE, grid_functions
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.types import warp_types


@functools.cache
def field_ball_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    grid = grid_functions(scalar)
    lines = line_functions(scalar)
    surface = surface_functions(scalar)
    choices = choice_functions(scalar)
    Field, Body, Choice = surface.Field, body_functions(scalar).Body, choices.Choice
    angle = surface.angle

    @wp.func
    def ball_touches(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33, centre: vec3,
        place: vec3, normal: vec3,
    ):  # fmt: skip
        """Whether the distance of a centre above the surface has a local minimum on an element."""
        result = normal[2] > scalar(0.0)
        if kind <= UPPER_TRIANGLE:
            result = surface.over_triangle(corners, centre)
        elif kind == POINT:
            if surface.least_beyond_neighbours(height, field, row, column, place, normal) <= scalar(angle):
                result = False
        else:
            if not surface.between_ends(corners, place, scalar(angle) * wp.length(centre - place)):
                result = False
            for side in range(2):
                if surface.beyond_side(height, field, kind, row, column, side, corners, normal) <= scalar(angle):
                    result = False
        return result

    @wp.func
    def with_ball(choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body, part: int, centre: vec3):
        """Consider the places of a ball: the sphere, or an end of the capsule, of this body."""
        under = grid.triangle_below(field.shape, field.size, centre[0], centre[1])
        if under >= 0:
            corners = grid.element_corners(height, field.row, field.shape, field.size, under)
            distance, place, normal = lines.ball_contact(under % KINDS, corners, centre, body.size[0])
            if distance < -body.size[0]:
                return choices.consider(choice, body.reach, PARTS * under + part, distance, place, normal)
        ball = body.size[0] + wp.max(body.reach, scalar(0.0))
        around = surface.rows_and_columns(field, centre, vec3(ball, ball, ball))
        for row in range(around[0], around[1] + 1):
            for column in range(around[2], around[3] + 1):
                if surface.top_of_cell(height, field, row, column) < centre[2] - ball:
                    continue
                for kind in range(KINDS):
                    if grid.exists(field.shape, kind, row, column):
                        element = KINDS * (row * field.shape[2] + column) + kind
                        corners = grid.element_corners(height, field.row, field.shape, field.size, element)
                        distance, place, normal = lines.ball_contact(kind, corners, centre, body.size[0])
                        if distance < body.reach:
                            if ball_touches(height, field, kind, row, column, corners, centre, place, normal):
                                choice = choices.consider(
                                    choice, body.reach, PARTS * element + part, distance, place, normal
                                )
        return choice

    return SimpleNamespace(with_ball=with_ball)
