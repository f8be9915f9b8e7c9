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
from warp_kernels.collision.field.grid import KINDS, grid_functions
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.types import warp_types


@functools.cache
def field_ball_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3 = t.vec3
    grid = grid_functions(scalar)
    lines = line_functions(scalar)
    surface = surface_functions(scalar)
    choices = choice_functions(scalar)
    Field, Body, Choice = surface.Field, body_functions(scalar).Body, choices.Choice
    touching = surface.touching

    @wp.func
    def with_ball(choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body, part: int, centre: vec3):
        """Consider the places of a ball: the sphere, or an end of the capsule, of this body."""
        under = grid.triangle_below(field.shape, field.size, centre[0], centre[1])
        if under >= 0:
            corners = grid.element_corners(height, field.row, field.shape, field.size, under)
            distance, place, normal = lines.ball_contact(under % KINDS, corners, centre, body.size[0])
            if distance < scalar(touching) - body.size[0]:
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
                            if surface.nearest_on_element(
                                height, field, kind, row, column, corners, centre, place, normal
                            ):
                                choice = choices.consider(
                                    choice, body.reach, PARTS * element + part, distance, place, normal
                                )
        return choice

    return SimpleNamespace(with_ball=with_ball)
