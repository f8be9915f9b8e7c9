"""Contacts of ellipsoids with heightfields: their lowest points over triangles, the closest to convex edges and
points.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.body import body_functions
from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.contact import PARTS, field_contact_functions
from warp_kernels.collision.field.grid import KINDS, POINT, UPPER_TRIANGLE
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.types import warp_types


@functools.cache
def field_ellipsoid_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    contacts = field_contact_functions(scalar, ground)
    surface = surface_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    Data, Field, Body, Choice = surface.Data, surface.Field, body_functions(scalar).Body, choices.Choice
    angle = surface.angle

    @wp.func
    def ellipsoid_touches(
        data: Data, field: Field, key: wp.vec3i, corners: mat33, centre: vec3,
        least: scalar, distance: scalar, point: vec3, normal: vec3,
    ):  # fmt: skip
        """Return whether an ellipsoid, given by its centre and smallest semi-axis, touches an element."""
        kind = key[0]
        if kind <= UPPER_TRIANGLE:
            # All behind the plane, it is on the other side of a ridge or a peak.
            if distance > scalar(2.0) * wp.dot(normal, centre - corners[0]):
                return False
            return surface.over_triangle(corners, point + least * normal)
        # Deeper than this, the contact is on the far side of the ellipsoid.
        if distance < scalar(-2.0) * least or wp.dot(normal, surface.up_at(data, field, key)) <= scalar(angle):
            return False
        if kind == POINT:
            return surface.least_beyond_neighbours(data, field, key, point, normal) >= -scalar(angle)
        if not surface.between_ends(corners, point, scalar(angle) * least):
            return False
        return surface.convex_at(data, field, key, corners, normal)

    @wp.func
    def enters(corners: mat33, body: Body):
        """Return whether an edge, or a point as an edge without length, has a point inside an ellipsoid."""
        q = wp.transform_get_rotation(body.pose)
        start = wp.cw_div(wp.quat_rotate_inv(q, corners[0] - wp.transform_get_translation(body.pose)), body.size)
        edge = wp.cw_div(wp.quat_rotate_inv(q, corners[1] - corners[0]), body.size)
        along = scalar(0.0)
        if wp.dot(edge, edge) > scalar(0.0):
            along = wp.clamp(-wp.dot(start, edge) / wp.dot(edge, edge), scalar(0.0), scalar(1.0))
        return wp.length_sq(start + along * edge) < scalar(1.0)

    @wp.func
    def in_unit_ball(corners: mat33, body: Body):
        """Return a triangle in the frame in which the ellipsoid is the unit ball about the origin."""
        q = wp.transform_get_rotation(body.pose)
        centre = wp.transform_get_translation(body.pose)
        return wp.matrix_from_rows(
            wp.cw_div(wp.quat_rotate_inv(q, corners[0] - centre), body.size),
            wp.cw_div(wp.quat_rotate_inv(q, corners[1] - centre), body.size),
            wp.cw_div(wp.quat_rotate_inv(q, corners[2] - centre), body.size),
        )

    @wp.struct
    class Found:
        """Best candidate so far; and, of the triangles where edges and points have entered, that with the least
        depth.
        """

        choice: Choice
        depth: scalar
        rescue: Choice

    @wp.func
    def with_rescue(found: Found, data: Data, field: Field, body: Body, key: wp.vec3i):
        """Consider a triangle in which an ellipsoid is as the exit."""
        corners = surface.corners_at(data, field, key)
        up = surface.up_at(data, field, key)
        distance, point, normal = contacts.ellipsoid_contact(key[0], corners, up, body.pose, body.size)
        if distance < scalar(0.0) and distance > found.depth:
            found.depth = distance
            feature = PARTS * surface.number_of(field, key)
            found.rescue = choices.consider(found.choice, body.cutoff, feature, distance, point, normal)
        return found

    @wp.func
    def with_ellipsoid_on_element(
        found: Found, data: Data, field: Field, body: Body, key: wp.vec3i, centre: vec3, least: scalar
    ):
        """Consider an element."""
        corners = surface.corners_at(data, field, key)
        up = surface.up_at(data, field, key)
        distance, point, normal = contacts.ellipsoid_contact(key[0], corners, up, body.pose, body.size)
        if distance < body.cutoff:
            if ellipsoid_touches(data, field, key, corners, centre, least, distance, point, normal):
                feature = PARTS * surface.number_of(field, key)
                found.choice = choices.consider(found.choice, body.cutoff, feature, distance, point, normal)
            elif wp.static(ground == TRIANGLES):
                if key[0] <= UPPER_TRIANGLE and found.choice.stage == 0:
                    if wp.length_sq(surface.nearest_point(in_unit_ball(corners, body), vec3())) < scalar(1.0):
                        found = with_rescue(found, data, field, body, key)
            elif key[0] > UPPER_TRIANGLE and found.choice.stage == 0 and enters(corners, body):
                for kind in range(UPPER_TRIANGLE + 1):
                    beside = wp.vec3i(kind, key[1], key[2])
                    if surface.exists(field, beside):
                        found = with_rescue(found, data, field, body, beside)
        return found

    @wp.func
    def with_ellipsoid(choice: Choice, data: Data, field: Field, body: Body):
        """Consider the contacts of an ellipsoid: with its centre below the surface only the triangle above that.

        If edges and points have entered past the middle, so that the shortest exit would be further in, it leaves by
        the adjacent triangle with the least depth.
        """
        centre = wp.transform_get_translation(body.pose)
        under = surface.triangle_at(data, field, centre, wp.max(body.size[0], wp.max(body.size[1], body.size[2])))
        if under >= 0:
            corners = surface.corners_of(data, field, under)
            up = surface.up_of(data, field, under)
            distance, point, normal = contacts.ellipsoid_contact(under % KINDS, corners, up, body.pose, body.size)
            if wp.dot(normal, centre - corners[0]) < scalar(0.0):
                return choices.consider(choice, body.cutoff, PARTS * under, distance, point, normal)
        least = wp.min(body.size[0], wp.min(body.size[1], body.size[2]))
        found = Found()
        found.choice = choice
        found.rescue = choice
        found.depth = scalar(-1.0e30)
        room = wp.max(body.cutoff, scalar(0.0))
        extent = body.extent + vec3(room, room, room)
        if wp.static(ground == TRIANGLES):
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, centre, extent), surface.box_high(field, centre, extent)
            )
            triangle = wp.int32(0)
            while wp.bvh_query_next(query, triangle):
                own = field.extent[0] + triangle
                for k in range(data.owned_start[own], data.owned_start[own + 1]):
                    key = surface.key_at(field, data.owned[k])
                    found = with_ellipsoid_on_element(found, data, field, body, key, centre, least)
        else:
            around = surface.rows_and_columns(field, centre, extent)
            for row in range(around[0], around[1] + 1):
                for column in range(around[2], around[3] + 1):
                    if surface.top_of_cell(data, field, row, column) < centre[2] - extent[2]:
                        continue
                    for kind in range(KINDS):
                        key = wp.vec3i(kind, row, column)
                        if surface.exists(field, key):
                            found = with_ellipsoid_on_element(found, data, field, body, key, centre, least)
        if found.choice.feature < 0:
            return found.rescue
        return found.choice

    return SimpleNamespace(with_ellipsoid=with_ellipsoid)
