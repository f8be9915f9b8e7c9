"""Contacts of spheres, ends of capsules, and sides of capsules and cylinders with heightfields.

Above the surface a sphere touches at local minima of its distance: on a triangle under its centre, on an edge beyond
both triangles, on a point beyond all its edges. So a crease of a flat or concave surface has no effect. A centre below
the surface is pushed out of the triangle above it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.body import body_functions
from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.contact import PARTS, SEGMENT, field_contact_functions
from warp_kernels.collision.field.grid import EDGE_X, KINDS, POINT
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.types import warp_types


@functools.cache
def field_ball_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision. Poses are in the field's frame."""
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
        """Consider the contact of a ball with an element."""
        corners = surface.corners_at(data, field, key)
        distance, point, normal = lines.ball_contact(key[0], corners, centre, body.size[0])
        if distance < body.cutoff:
            if surface.nearest_on_element(data, field, key, corners, centre, point, normal):
                feature = PARTS * surface.number_of(field, key) + part
                choice = choices.consider(choice, body.cutoff, feature, distance, point, normal)
        return choice

    @wp.func
    def with_ball(choice: Choice, data: Data, field: Field, body: Body, part: int, centre: vec3):
        """Consider the contacts of a ball: the sphere, or an end of the capsule, of this body."""
        under = surface.triangle_at(data, field, centre, scalar(2.0) * body.size[0])
        if under >= 0:
            corners = surface.corners_of(data, field, under)
            distance, point, normal = lines.ball_contact(under % KINDS, corners, centre, body.size[0])
            if distance < scalar(touching) - body.size[0]:
                return choices.consider(choice, body.cutoff, PARTS * under + part, distance, point, normal)
        ball = body.size[0] + wp.max(body.cutoff, scalar(0.0))
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


@functools.cache
def segment_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    contacts = field_contact_functions(scalar, ground)
    lines = line_functions(scalar)
    surface = surface_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    Data, Field, Body, Choice = surface.Data, surface.Field, body_functions(scalar).Body, choices.Choice
    angle = surface.angle

    @wp.func
    def segment_touches(
        data: Data, field: Field, body: Body, key: wp.vec3i, corners: mat33,
        distance: scalar, point: vec3, normal: vec3, slack: scalar,
    ):  # fmt: skip
        """Return whether the side of a capsule or a cylinder, a radius around its axis, touches a point or an edge.

        slack: sine by which the normal may be outside of those of an edge's triangles. It is outside only if the axis
        isn't parallel to them; at a point it would be as a body rolls towards it.
        """
        centre = wp.transform_get_translation(body.pose)
        axis = contacts.axis_of(body.pose)
        on_body = point + (distance + body.size[0]) * normal
        # Deeper than this, the contact is on the far side of the axis.
        if distance < scalar(-2.0) * body.size[0] or wp.dot(normal, surface.up_at(data, field, key)) <= scalar(angle):
            return False
        # On the axis itself there is no direction from it to the point.
        if wp.abs(wp.dot(normal, axis)) > scalar(0.5):
            return False
        if key[0] == POINT:
            if wp.abs(wp.dot(on_body - centre, axis)) > body.size[1] + surface.slack_at(distance, body.size[1]):
                return False
            return surface.least_beyond_neighbours(data, field, key, point, normal) >= -scalar(angle)
        if not surface.crosses(corners, axis, body.size[1], centre, distance, point, on_body):
            return False
        return surface.convex_within(data, field, key, corners, normal, slack)

    @wp.func
    def leaves_by_disc(body: Body, distance: scalar, point: vec3):
        """Return whether a disc of a cylinder is nearer to an inner point than its side, at this distance, is.

        Then the body leaves through the disc: the border between two flush pieces of ground doesn't stop a sliding
        body.
        """
        axial = wp.dot(point - wp.transform_get_translation(body.pose), contacts.axis_of(body.pose))
        return distance < scalar(0.0) and body.size[1] - wp.abs(axial) < -distance

    @wp.func
    def with_segment(
        choice: Choice, data: Data, field: Field, body: Body, part: int, key: wp.vec3i, corners: mat33,
    ):  # fmt: skip
        """Consider the contact of a capsule's or cylinder's side with an edge or a point."""
        up = surface.up_at(data, field, key)
        distance, point, normal = contacts.segment_contact(key[0], corners, up, body.pose, body.size)
        if distance < body.cutoff:
            touches = segment_touches(data, field, body, key, corners, distance, point, normal, choice.slack)
            if part != SEGMENT and leaves_by_disc(body, distance, point):
                touches = False
            if touches:
                feature = PARTS * surface.number_of(field, key) + part
                choice = choices.consider(choice, body.cutoff, feature, distance, point, normal)
        return choice

    @wp.func
    def with_capsule_segment(choice: Choice, data: Data, field: Field, body: Body):
        """Consider all contacts of a capsule between its ends."""
        centre = wp.transform_get_translation(body.pose)
        room = wp.max(body.cutoff, scalar(0.0))
        extent = body.extent + vec3(room, room, room)
        if wp.static(ground == TRIANGLES):
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, centre, extent), surface.box_high(field, centre, extent)
            )
            triangle = wp.int32(0)
            while wp.bvh_query_next(query, triangle):
                own = field.extent[0] + triangle
                for k in range(data.owned_start[own] + 1, data.owned_start[own + 1]):
                    key = surface.key_at(field, data.owned[k])
                    corners = surface.corners_at(data, field, key)
                    choice = with_segment(choice, data, field, body, SEGMENT, key, corners)
        else:
            around = surface.rows_and_columns(field, centre, extent)
            for row in range(around[0], around[1] + 1):
                for column in range(around[2], around[3] + 1):
                    if surface.top_of_cell(data, field, row, column) < centre[2] - extent[2]:
                        continue
                    for kind in range(EDGE_X, KINDS):
                        key = wp.vec3i(kind, row, column)
                        if surface.exists(field, key):
                            corners = surface.corners_at(data, field, key)
                            if kind == POINT or surface.folded(data, field, key, corners):
                                choice = with_segment(choice, data, field, body, SEGMENT, key, corners)
        return choice

    @wp.func
    def with_pierced(choice: Choice, data: Data, field: Field, body: Body):
        """Return the choice for a capsule whose axis passes through a mesh: back through the triangle with the least
        depth.
        """
        result = choice
        if wp.static(ground == TRIANGLES):
            shallowest = scalar(-1.0e30)
            centre = wp.transform_get_translation(body.pose)
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, centre, body.extent), surface.box_high(field, centre, body.extent)
            )
            triangle = wp.int32(0)
            while wp.bvh_query_next(query, triangle):
                key = surface.key_at(field, triangle)
                corners = surface.corners_at(data, field, key)
                for end in range(2):
                    behind = contacts.end_of(end, body.pose, body.size)
                    if surface.pierced(corners, contacts.end_of(1 - end, body.pose, body.size), behind):
                        distance, point, normal = lines.ball_contact(key[0], corners, behind, body.size[0])
                        if distance > shallowest:
                            shallowest = distance
                            feature = PARTS * surface.number_of(field, key) + end
                            result = choices.consider(choice, body.cutoff, feature, distance, point, normal)
        return result

    return SimpleNamespace(
        with_segment=with_segment, with_capsule_segment=with_capsule_segment, with_pierced=with_pierced
    )
