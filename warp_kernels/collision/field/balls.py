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
from warp_kernels.collision.field.grid import KINDS
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.types import warp_types


@functools.cache
def field_ball_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Warp functions of one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3 = t.vec3
    lines = line_functions(scalar)
    surface = surface_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    Data, Field, Body, Choice = surface.Data, surface.Field, body_functions(scalar).Body, choices.Choice
    touching = surface.touching

    @wp.func
    def with_ball_on_element(
        choice: Choice, data: Data, field: Field, body: Body, part: int, key: wp.vec3i, centre: vec3
    ):
        """Consider the place of a ball on an element."""
        corners = surface.corners_at(data, field, key)
        distance, place, normal = lines.ball_contact(key[0], corners, centre, body.size[0])
        if distance < body.reach:
            if surface.nearest_on_element(data, field, key, corners, centre, place, normal):
                feature = PARTS * surface.number_of(field, key) + part
                choice = choices.consider(choice, body.reach, feature, distance, place, normal)
        return choice

    @wp.func
    def with_ball(choice: Choice, data: Data, field: Field, body: Body, part: int, centre: vec3):
        """Consider the places of a ball: the sphere, or an end of the capsule, of this body."""
        under = surface.triangle_at(data, field, centre, scalar(2.0) * body.size[0])
        if under >= 0:
            corners = surface.corners_of(data, field, under)
            distance, place, normal = lines.ball_contact(under % KINDS, corners, centre, body.size[0])
            if distance < scalar(touching) - body.size[0]:
                return choices.consider(choice, body.reach, PARTS * under + part, distance, place, normal)
        ball = body.size[0] + wp.max(body.reach, scalar(0.0))
        extent = vec3(ball, ball, ball)
        if wp.static(ground == TRIANGLES):
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, centre, extent), surface.box_high(field, centre, extent)
            )
            triangle = wp.int32(0)
            while wp.bvh_query_next(query, triangle):
                own = field.extent[0] + triangle
                for k in range(data.owned_start[own], data.owned_start[own + 1]):
                    key = surface.key_at(field, data.owned[k])
                    choice = with_ball_on_element(choice, data, field, body, part, key, centre)
        else:
            around = surface.rows_and_columns(field, centre, extent)
            for row in range(around[0], around[1] + 1):
                for column in range(around[2], around[3] + 1):
                    if surface.top_of_cell(data, field, row, column) < centre[2] - ball:
                        continue
                    for kind in range(KINDS):
                        key = wp.vec3i(kind, row, column)
                        if surface.exists(field, key):
                            choice = with_ball_on_element(choice, data, field, body, part, key, centre)
        return choice

    return SimpleNamespace(with_ball=with_ball)
