"""Where vertices of a box or a convex mesh touch a heightfield.

They stand on triangles. Apart, they are nearest to edges and points as well; touching these, the direction from one to
the other is lost, and the triangle under the vertex bears.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.grid import KINDS, UPPER_TRIANGLE
from warp_kernels.collision.field.hull.body import hull_body_functions
from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.types import warp_types


@functools.cache
def hull_vertex_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Warp functions of one precision."""
    t = warp_types(scalar)
    vec3 = t.vec3
    lines = line_functions(scalar)
    surface = surface_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    hulls = hull_contact_functions(scalar, ground)
    bodies = hull_body_functions(scalar, ground)
    Data, Field, Hull, Bounds, Choice = surface.Data, surface.Field, bodies.Hull, bodies.Bounds, choices.Choice
    touching = surface.touching

    @wp.func
    def with_vertex_on_element(
        choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds, code: int, vertex: vec3, under: int,
        key: wp.vec3i,
    ):  # fmt: skip
        """Consider a vertex with an element that isn't the triangle below it."""
        if surface.number_of(field, key) == under:
            return choice
        corners = surface.corners_at(data, field, key)
        distance, place, normal = lines.ball_contact(key[0], corners, vertex, scalar(0.0))
        if distance < bounds.reach and (key[0] <= UPPER_TRIANGLE or distance > scalar(touching)):
            if surface.nearest_on_element(data, field, key, corners, vertex, place, normal):
                parts = hulls.number_of_parts(hull.ranges)
                feature = parts * surface.number_at(field, key) + hulls.vertex_part(code, key[0])
                choice = choices.consider(choice, bounds.reach, feature, distance, place, normal)
        return choice

    @wp.func
    def with_vertex(
        choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds, code: int,
        vertex: vec3,
    ):  # fmt: skip
        """Consider a vertex with the triangle below or above it, and with whatever else it is nearest to."""
        parts = hulls.number_of_parts(hull.ranges)
        under = surface.triangle_at(data, field, vertex, bounds.depth)
        if under >= 0:
            corners = surface.corners_of(data, field, under)
            distance, place, normal = lines.ball_contact(under % KINDS, corners, vertex, scalar(0.0))
            if surface.nearest_on_triangle(data, field, corners, vertex, distance, place):
                feature = parts * (under // KINDS) + hulls.vertex_part(code, under % KINDS)
                choice = choices.consider(choice, bounds.reach, feature, distance, place, normal)
            if distance < scalar(0.0):
                return choice
        extent = vec3(bounds.room, bounds.room, bounds.room)
        if wp.static(ground == TRIANGLES):
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, vertex, extent), surface.box_high(field, vertex, extent)
            )
            triangle = wp.int32(0)
            while wp.bvh_query_next(query, triangle):
                own = field.extent[0] + triangle
                for k in range(data.owned_start[own], data.owned_start[own + 1]):
                    key = surface.key_at(field, data.owned[k])
                    choice = with_vertex_on_element(choice, data, field, hull, bounds, code, vertex, under, key)
        else:
            around = surface.rows_and_columns(field, vertex, extent)
            for row in range(around[0], around[1] + 1):
                for column in range(around[2], around[3] + 1):
                    if surface.top_of_cell(data, field, row, column) < vertex[2] - bounds.room:
                        continue
                    for kind in range(KINDS):
                        key = wp.vec3i(kind, row, column)
                        if surface.exists(field, key):
                            choice = with_vertex_on_element(choice, data, field, hull, bounds, code, vertex, under, key)
        return choice

    return SimpleNamespace(with_vertex=with_vertex)
