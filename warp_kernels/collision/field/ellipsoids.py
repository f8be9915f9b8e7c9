"""Where an ellipsoid touches a heightfield: its lowest points over triangles, the closest to convex edges and points."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.body import body_functions
from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.contact import PARTS, field_contact_functions
from warp_kernels.collision.field.grid import KINDS, POINT, UPPER_TRIANGLE, grid_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.types import warp_types


@functools.cache
def field_ellipsoid_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    grid = grid_functions(scalar)
    contacts = field_contact_functions(scalar)
    surface = surface_functions(scalar)
    choices = choice_functions(scalar)
    Field, Body, Choice = surface.Field, body_functions(scalar).Body, choices.Choice
    angle = surface.angle

    @wp.func
    def ellipsoid_touches(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33, centre: vec3,
        least: scalar, distance: scalar, place: vec3, normal: vec3,
    ):  # fmt: skip
        """Whether an ellipsoid, whose centre and least semi-axis are given, touches an element."""
        if kind <= UPPER_TRIANGLE:
            # All behind the plane, it is on the other side of a ridge or a peak.
            if distance > scalar(2.0) * wp.dot(normal, centre - corners[0]):
                return False
            return surface.over_triangle(corners, place + least * normal)
        # Deeper than this, the place is on the far side of the ellipsoid.
        if distance < scalar(-2.0) * least or normal[2] <= scalar(angle):
            return False
        if kind == POINT:
            return surface.least_beyond_neighbours(height, field, row, column, place, normal) >= -scalar(angle)
        if not surface.between_ends(corners, place, scalar(angle) * least):
            return False
        return surface.convex_at(height, field, kind, row, column, corners, normal)

    @wp.func
    def enters(corners: mat33, body: Body):
        """Whether an edge, or a point as an edge without length, has a place inside an ellipsoid."""
        q = wp.transform_get_rotation(body.pose)
        start = wp.cw_div(wp.quat_rotate_inv(q, corners[0] - wp.transform_get_translation(body.pose)), body.size)
        edge = wp.cw_div(wp.quat_rotate_inv(q, corners[1] - corners[0]), body.size)
        along = scalar(0.0)
        if wp.dot(edge, edge) > scalar(0.0):
            along = wp.clamp(-wp.dot(start, edge) / wp.dot(edge, edge), scalar(0.0), scalar(1.0))
        return wp.length_sq(start + along * edge) < scalar(1.0)

    @wp.func
    def shallowest_triangle(
        choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body, row: int, column: int
    ):
        """Distance and choice of the triangle of a cell in which an ellipsoid is; of both, where it is least deep."""
        depth = scalar(-1.0e30)
        result = choice
        for kind in range(UPPER_TRIANGLE + 1):
            if grid.exists(field.shape, kind, row, column):
                element = KINDS * (row * field.shape[2] + column) + kind
                corners = grid.element_corners(height, field.row, field.shape, field.size, element)
                distance, place, normal = contacts.ellipsoid_contact(kind, corners, body.pose, body.size)
                if distance < scalar(0.0) and distance > depth:
                    depth = distance
                    result = choices.consider(choice, body.reach, PARTS * element, distance, place, normal)
        return depth, result

    @wp.func
    def with_ellipsoid(choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body):
        """Consider the places of an ellipsoid: with its centre below the surface only the triangle above that.

        Where edges and points have come in past the middle, so that the nearest way out would be further in, it leaves
        by the triangle at one of them that is the shallowest.
        """
        centre = wp.transform_get_translation(body.pose)
        under = grid.triangle_below(field.shape, field.size, centre[0], centre[1])
        if under >= 0:
            corners = grid.element_corners(height, field.row, field.shape, field.size, under)
            distance, place, normal = contacts.ellipsoid_contact(under % KINDS, corners, body.pose, body.size)
            if wp.dot(normal, centre - corners[0]) < scalar(0.0):
                return choices.consider(choice, body.reach, PARTS * under, distance, place, normal)
        least = wp.min(body.size[0], wp.min(body.size[1], body.size[2]))
        shallowest = scalar(-1.0e30)
        rescue = choice
        room = wp.max(body.reach, scalar(0.0))
        extent = body.extent + vec3(room, room, room)
        around = surface.rows_and_columns(field, centre, extent)
        for row in range(around[0], around[1] + 1):
            for column in range(around[2], around[3] + 1):
                if surface.top_of_cell(height, field, row, column) < centre[2] - extent[2]:
                    continue
                for kind in range(KINDS):
                    if grid.exists(field.shape, kind, row, column):
                        element = KINDS * (row * field.shape[2] + column) + kind
                        corners = grid.element_corners(height, field.row, field.shape, field.size, element)
                        distance, place, normal = contacts.ellipsoid_contact(kind, corners, body.pose, body.size)
                        if distance < body.reach:
                            if ellipsoid_touches(
                                height, field, kind, row, column, corners, centre, least, distance, place, normal
                            ):
                                choice = choices.consider(choice, body.reach, PARTS * element, distance, place, normal)
                            elif kind > UPPER_TRIANGLE and choice.stage == 0 and enters(corners, body):
                                depth, way_out = shallowest_triangle(choice, height, field, body, row, column)
                                if depth > shallowest:
                                    shallowest = depth
                                    rescue = way_out
        if choice.feature < 0:
            choice = rescue
        return choice

    return SimpleNamespace(with_ellipsoid=with_ellipsoid)
