"""Contacts of cylinders with heightfields.

Points of the rims touch triangles, rims cross convex edges, discs touch points, and the curved surface touches edges
and points.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.body import body_functions
from warp_kernels.collision.field.capsules import segment_functions
from warp_kernels.collision.field.choice import TIE, choice_functions
from warp_kernels.collision.field.contact import FIRST_DISC, FIRST_RIM, PARTS, SIDE, field_contact_functions
from warp_kernels.collision.field.grid import EDGE_X, KINDS, LOWER_TRIANGLE, POINT, UPPER_TRIANGLE
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.collision.shapes.cylinders import RIM_POINTS, cylinder_functions
from warp_kernels.types import warp_types


@functools.cache
def field_cylinder_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    contacts = field_contact_functions(scalar, ground)
    surface = surface_functions(scalar, ground)
    segments = segment_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    rims = cylinder_functions(scalar)
    Data, Field, Body, Choice = surface.Data, surface.Field, body_functions(scalar).Body, choices.Choice
    angle, touching = surface.angle, surface.touching

    @wp.func
    def inside(body: Body, point: vec3, sine: scalar):
        """Return whether a point is in the cylinder, or outside by no more than the sine times its size."""
        local = wp.quat_rotate_inv(
            wp.transform_get_rotation(body.pose), point - wp.transform_get_translation(body.pose)
        )
        slack = sine * (body.size[0] + body.size[1])
        axial = wp.abs(local[2]) <= body.size[1] + slack
        return axial and wp.length(vec3(local[0], local[1], scalar(0.0))) <= body.size[0] + slack

    @wp.func
    def stands_on(
        data: Data, field: Field, body: Body, element: int, corners: mat33, point: vec3,
        distance: scalar, foot: vec3, slack: scalar,
    ):  # fmt: skip
        """Return whether a triangle supports a point: it is right under or above it on a heightfield, or has the
        closest point to it, which is where the cylinder is if the point is below. The higher end of one that leans by
        no more than the slack, a sine, is next to that point.
        """
        if wp.static(ground != TRIANGLES):
            if surface.triangle_at(data, field, point, scalar(0.0)) == element:
                return surface.nearest_on_triangle(data, field, corners, point, distance, foot)
        if not surface.beside_triangle(corners, point):
            return False
        beside = -slack * distance / (body.size[0] + body.size[1])
        return distance >= scalar(0.0) or inside(body, foot, scalar(angle) + beside)

    @wp.func
    def with_rims_on_triangle(
        choice: Choice, data: Data, field: Field, body: Body, key: wp.vec3i,
        corners: mat33,
    ):  # fmt: skip
        """Consider those points of the rims that would support the cylinder on the triangle's plane."""
        element = surface.number_of(field, key)
        normal = wp.normalize(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
        local = rims.local_normal(body.pose, normal)
        for part in range(RIM_POINTS):
            if rims.can_bear(part, local):
                distance, foot, _normal = contacts.rim_point_contact(part, corners, body.pose, body.size)
                if distance < body.cutoff:
                    point = foot + distance * normal
                    if stands_on(data, field, body, element, corners, point, distance, foot, choice.slack):
                        choice = choices.consider(choice, body.cutoff, PARTS * element + part, distance, foot, normal)
        return choice

    @wp.func
    def disc_touches(
        data: Data, field: Field, body: Body, end: int, key: wp.vec3i, distance: scalar,
        point: vec3, normal: vec3, slack: scalar,
    ):  # fmt: skip
        flat = wp.dot(normal, surface.up_at(data, field, key)) <= scalar(angle)
        if flat or distance < scalar(-2.0) * body.size[1]:
            return False
        across = wp.cross(point - contacts.end_of(end, body.pose, body.size), normal)
        if wp.length(across) > body.size[0] + surface.slack_at(distance, body.size[0]):
            return False
        return surface.least_beyond_neighbours(data, field, key, point, normal) >= -slack

    @wp.func
    def with_discs(
        choice: Choice,
        data: Data,
        field: Field,
        body: Body,
        key: wp.vec3i,
        corners: mat33,
    ):
        """Consider the lower disc, on a point."""
        element = surface.number_of(field, key)
        end = wp.where(wp.dot(contacts.axis_of(body.pose), surface.up_at(data, field, key)) < scalar(0.0), 1, 0)
        part = FIRST_DISC + end
        distance, point, normal = contacts.disc_contact(end, corners, body.pose, body.size)
        if distance < body.cutoff:
            if disc_touches(data, field, body, end, key, distance, point, normal, choice.slack):
                choice = choices.consider(choice, body.cutoff, PARTS * element + part, distance, point, normal)
        return choice

    @wp.func
    def faces_rim(body: Body, end: int, distance: scalar, point: vec3, normal: vec3, limit: scalar):
        """Return whether the normal of a rim contact lies between those of disc and side, up to a sine."""
        axis = scalar(2 * end - 1) * contacts.axis_of(body.pose)
        outward = point + distance * normal - contacts.end_of(end, body.pose, body.size)
        return wp.dot(normal, axis) <= limit and wp.dot(normal, outward) <= limit * body.size[0]

    @wp.func
    def rim_touches(
        data: Data, field: Field, body: Body, end: int, key: wp.vec3i,
        corners: mat33, distance: scalar, point: vec3, normal: vec3, slack: scalar,
    ):  # fmt: skip
        """Return whether a rim touches a convex edge: the normal lies between those of disc and side, and of the
        triangles.

        It may be outside by the slack, a sine, if it misses the disc's by no more, as for a disc that lies nearly flat,
        or if the cylinder lies nearly along the edge: then it rests on both rims.
        """
        if wp.dot(normal, surface.up_at(data, field, key)) <= scalar(angle):
            return False
        if not surface.between_ends(corners, point, surface.slack_at(distance, body.size[0])):
            return False
        axis = contacts.axis_of(body.pose)
        outward = point + distance * normal - contacts.end_of(end, body.pose, body.size)
        edge = wp.normalize(corners[1] - corners[0])
        limit = scalar(angle)
        if wp.min(wp.length(wp.cross(normal, axis)), wp.length(wp.cross(edge, axis))) < slack:
            limit = slack
        if not faces_rim(body, end, distance, point, normal, limit):
            return False
        across = wp.cross(edge, wp.cross(axis, outward))
        # Along the edge, at its contact, the rim has no normal.
        least = surface.least_sine_squared(distance, -scalar(touching))
        if distance < scalar(touching) and wp.length_sq(across) <= least * body.size[0] * body.size[0]:
            return False
        if distance < -scalar(touching) and not inside(body, point, limit):
            return False
        return surface.convex_within(data, field, key, corners, normal, limit)

    @wp.func
    def with_rims_on_edge(
        choice: Choice, data: Data, field: Field, body: Body, key: wp.vec3i,
        corners: mat33,
    ):  # fmt: skip
        """Consider both rims, each on either side, unless the edge's line is too far from all of their disc."""
        element = surface.number_of(field, key)
        up = surface.up_at(data, field, key)
        edge = corners[1] - corners[0]
        far = (body.size[0] + wp.max(body.cutoff, scalar(0.0))) * wp.length(edge)
        for end in range(2):
            centre = contacts.end_of(end, body.pose, body.size)
            if wp.length_sq(wp.cross(edge, centre - corners[0])) > far * far:
                continue
            for side in range(2):
                part = FIRST_RIM + 2 * end + side
                distance, point, normal = contacts.rim_contact(
                    part - FIRST_RIM, key[0], corners, up, body.pose, body.size
                )
                if distance < body.cutoff:
                    if rim_touches(data, field, body, end, key, corners, distance, point, normal, choice.slack):
                        choice = choices.consider(choice, body.cutoff, PARTS * element + part, distance, point, normal)
        return choice

    @wp.func
    def with_rims_on_point(
        choice: Choice,
        data: Data,
        field: Field,
        body: Body,
        key: wp.vec3i,
        corners: mat33,
    ):
        """Consider both rims separated from a point; if they touch it, disc or side does."""
        element = surface.number_of(field, key)
        up = surface.up_at(data, field, key)
        limit = scalar(angle)
        across = wp.cross(corners[0] - wp.transform_get_translation(body.pose), contacts.axis_of(body.pose))
        if wp.length(across) < (scalar(1.0) - limit) * body.size[0]:
            return choice
        for end in range(2):
            part = FIRST_RIM + 2 * end
            distance, point, normal = contacts.rim_contact(2 * end, POINT, corners, up, body.pose, body.size)
            if distance < body.cutoff and distance > scalar(touching) and wp.dot(normal, up) > limit:
                if faces_rim(body, end, distance, point, normal, limit):
                    if surface.least_beyond_neighbours(data, field, key, point, normal) >= -limit:
                        choice = choices.consider(choice, body.cutoff, PARTS * element + part, distance, point, normal)
        return choice

    @wp.func
    def with_cylinder_on_element(choice: Choice, data: Data, field: Field, body: Body, key: wp.vec3i):
        """Consider all contacts of a cylinder with an element."""
        corners = surface.corners_at(data, field, key)
        if key[0] <= UPPER_TRIANGLE:
            return with_rims_on_triangle(choice, data, field, body, key, corners)
        if key[0] != POINT:
            if not surface.folded(data, field, key, corners):
                return choice
            choice = with_rims_on_edge(choice, data, field, body, key, corners)
        else:
            choice = with_discs(choice, data, field, body, key, corners)
            choice = with_rims_on_point(choice, data, field, body, key, corners)
        return segments.with_segment(choice, data, field, body, SIDE, key, corners)

    @wp.func
    def enters(corners: mat33, body: Body):
        """Return whether an edge has a point inside the cylinder."""
        q = wp.transform_get_rotation(body.pose)
        start = wp.quat_rotate_inv(q, corners[0] - wp.transform_get_translation(body.pose))
        edge = wp.quat_rotate_inv(q, corners[1] - corners[0])
        first = scalar(0.0)
        last = scalar(1.0)
        if edge[2] != scalar(0.0):
            low = (-body.size[1] - start[2]) / edge[2]
            high = (body.size[1] - start[2]) / edge[2]
            first = wp.max(first, wp.min(low, high))
            last = wp.min(last, wp.max(low, high))
        elif wp.abs(start[2]) > body.size[1]:
            return False
        start[2] = scalar(0.0)
        edge[2] = scalar(0.0)
        along = first
        if wp.dot(edge, edge) > scalar(0.0):
            along = wp.clamp(-wp.dot(start, edge) / wp.dot(edge, edge), first, last)
        return first <= last and wp.length(start + along * edge) < body.size[0]

    @wp.func
    def with_deepest(choice: Choice, data: Data, field: Field, body: Body, element: int):
        """Consider the lowest point of the rims below a triangle's plane; also its distance, and whether the cylinder
        passes through the triangle between that point and the one opposite to it.
        """
        corners = surface.corners_of(data, field, element)
        normal = wp.normalize(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
        part = rims.lowest_feature(rims.local_normal(body.pose, normal))
        distance, point, _normal = contacts.rim_point_contact(part, corners, body.pose, body.size)
        half_height = wp.dot(normal, wp.transform_get_translation(body.pose) - corners[0]) - distance
        passes = bool(False)
        if distance < scalar(0.0) and distance + scalar(2.0) * half_height > scalar(0.0):
            lowest = point + distance * normal
            up = wp.transform_get_translation(body.pose) - lowest
            passes = surface.beside_triangle(corners, lowest - (distance / half_height) * up)
        result = choices.consider(choice, body.cutoff, PARTS * element + part, distance, point, normal)
        return result, distance, passes

    @wp.func
    def enters_triangle(data: Data, field: Field, body: Body, triangle: int):
        """Return whether an edge of a mesh's triangle has a point inside the cylinder."""
        corners = surface.corners_at(data, field, wp.vec3i(LOWER_TRIANGLE, triangle, 0))
        for k in range(3):
            other = corners[(k + 1) % 3]
            if enters(wp.matrix_from_rows(corners[k], other, other), body):
                return True
        return False

    @wp.func
    def enters_beside(data: Data, field: Field, body: Body, row: int, column: int):
        """Return whether an edge that belongs to a point of a heightfield has a point inside the cylinder."""
        for kind in range(EDGE_X, POINT):
            key = wp.vec3i(kind, row, column)
            if surface.exists(field, key):
                if enters(surface.corners_at(data, field, key), body):
                    return True
        return False

    @wp.struct
    class WayOut:
        """Triangle with the least depth so far through which a cylinder leaves the ground."""

        choice: Choice
        depth: scalar

    @wp.func
    def shallower(
        out: WayOut, choice: Choice, data: Data, field: Field, body: Body, key: wp.vec3i, entered: bool
    ):  # fmt: skip
        """Take a triangle at which the surface enters a cylinder if it is less deep in its plane."""
        above, distance, passes = with_deepest(choice, data, field, body, surface.number_of(field, key))
        if (entered or passes) and distance < scalar(0.0) and distance > out.depth:
            out.depth = distance
            out.choice = above
        return out

    @wp.func
    def shortest_exit(choice: Choice, data: Data, field: Field, body: Body, extent: vec3):
        """Return the choice for a cylinder inside so deep that none of its parts has a contact.

        If its centre is below the surface: the triangle above the centre. Otherwise, of the triangles at which the
        surface enters it, the one in whose plane it is least deep.
        """
        centre = wp.transform_get_translation(body.pose)
        under = surface.triangle_at(data, field, centre, wp.max(body.size[0], body.size[1]))
        if under >= 0:
            corners = surface.corners_of(data, field, under)
            if wp.dot(wp.cross(corners[1] - corners[0], corners[2] - corners[0]), centre - corners[0]) < scalar(0.0):
                above, _distance, _passes = with_deepest(choice, data, field, body, under)
                return above
        out = WayOut()
        out.choice = choice
        out.depth = scalar(-1.0e30)
        if wp.static(ground == TRIANGLES):
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, centre, extent), surface.box_high(field, centre, extent)
            )
            triangle = wp.int32(0)
            while wp.bvh_query_next(query, triangle):
                entered = enters_triangle(data, field, body, triangle)
                key = wp.vec3i(LOWER_TRIANGLE, triangle, 0)
                out = shallower(out, choice, data, field, body, key, entered)
        else:
            around = surface.rows_and_columns(field, centre, extent)
            for row in range(around[0], around[1] + 1):
                for column in range(around[2], around[3] + 1):
                    entered = enters_beside(data, field, body, row, column)
                    for kind in range(UPPER_TRIANGLE + 1):
                        key = wp.vec3i(kind, row, column)
                        if surface.exists(field, key):
                            out = shallower(out, choice, data, field, body, key, entered)
        return out.choice

    @wp.func
    def with_cylinder(choice: Choice, data: Data, field: Field, body: Body):
        """Consider all contacts of a cylinder."""
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
                for k in range(data.owned_start[own], data.owned_start[own + 1]):
                    choice = with_cylinder_on_element(choice, data, field, body, surface.key_at(field, data.owned[k]))
        else:
            around = surface.rows_and_columns(field, centre, extent)
            for row in range(around[0], around[1] + 1):
                for column in range(around[2], around[3] + 1):
                    if surface.top_of_cell(data, field, row, column) < centre[2] - extent[2]:
                        continue
                    for kind in range(KINDS):
                        key = wp.vec3i(kind, row, column)
                        if surface.exists(field, key):
                            choice = with_cylinder_on_element(choice, data, field, body, key)
        if choice.stage == 0 and (choice.feature < 0 or choice.score < -scalar(TIE)):
            choice = shortest_exit(choice, data, field, body, extent)
        return choice

    return SimpleNamespace(with_cylinder=with_cylinder)
