"""Contacts of vertices, faces and edges of a box or a convex mesh with a heightfield, at points of either.

Vertices touch triangles. Apart, they are nearest to edges and points as well; touching these, the direction from one to
the other is lost, and the triangle under the vertex supports it.

A face touches a point with lower neighbours. Apart, edges are nearest to points as well; touching, the direction from
one to the other is lost, and the faces next to the edge support it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.choice import NEARLY_FLAT, choice_functions
from warp_kernels.collision.field.grid import KINDS, POINT, UPPER_TRIANGLE
from warp_kernels.collision.field.hull.body import hull_body_functions
from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types


@functools.cache
def hull_vertex_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
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
        distance, point, normal = lines.ball_contact(key[0], corners, vertex, scalar(0.0))
        if distance < bounds.cutoff and (key[0] <= UPPER_TRIANGLE or distance > scalar(touching)):
            if surface.nearest_on_element(data, field, key, corners, vertex, point, normal):
                parts = hulls.number_of_parts(hull.ranges)
                number = hulls.number_in_window(field, parts, surface.number_at(field, key))
                feature = parts * number + hulls.vertex_part(code, key[0])
                choice = choices.consider(choice, bounds.cutoff, feature, distance, point, normal)
        return choice

    @wp.func
    def with_vertex(
        choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds, code: int,
        vertex: vec3,
    ):  # fmt: skip
        """Consider a vertex with the triangle below or above it, and with any other nearest element."""
        parts = hulls.number_of_parts(hull.ranges)
        under = surface.triangle_at(data, field, vertex, bounds.depth)
        if under >= 0:
            corners = surface.corners_of(data, field, under)
            distance, point, normal = lines.ball_contact(under % KINDS, corners, vertex, scalar(0.0))
            if surface.nearest_on_triangle(data, field, corners, vertex, distance, point):
                number = hulls.number_in_window(field, parts, under // KINDS)
                feature = parts * number + hulls.vertex_part(code, under % KINDS)
                choice = choices.consider(choice, bounds.cutoff, feature, distance, point, normal)
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


@functools.cache
def hull_point_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3 = t.vec3
    PackedShapes = collision_structs(scalar).PackedShapes
    lines = line_functions(scalar)
    surface = surface_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    hulls = hull_contact_functions(scalar, ground)
    bodies = hull_body_functions(scalar, ground)
    Data, Field, Hull, Bounds, Choice = surface.Data, surface.Field, bodies.Hull, bodies.Bounds, choices.Choice
    angle, touching = surface.angle, surface.touching

    @wp.func
    def face_plane(hull: Hull, packed: PackedShapes, face: int):
        """Return the outward unit normal of a face in the hull's frame, and a point on it."""
        n = packed.face_normal[hull.ranges.first_face + face]
        s = hull.scale
        normal = lines.unit(vec3(n[0] * s[1] * s[2], n[1] * s[2] * s[0], n[2] * s[0] * s[1]))
        corner = packed.face_corner[packed.face_start[hull.ranges.first_face + face]]
        return normal, hulls.vertex(hull.ranges, hull.scale, packed.vertices, corner)

    @wp.func
    def outermost(hull: Hull, packed: PackedShapes, point: vec3, limit: scalar):
        """Return the maximum distance of a point beyond the faces' planes, and that face; the search ends at the
        limit.
        """
        most = scalar(-1.0e30)
        best = wp.int32(-1)
        for face in range(hull.ranges.num_faces):
            if most < limit:
                normal, start = face_plane(hull, packed, face)
                beyond = wp.dot(normal, point - start)
                if beyond > most:
                    most = beyond
                    best = face
        return most, best

    @wp.func
    def face_bears(
        hull: Hull, packed: PackedShapes, outward: vec3, beyond: scalar,
        point: vec3, inside: bool, up: vec3, slack: scalar,
    ):  # fmt: skip
        """Return whether a point leaves through a face: along its normal, or straight down if the hull is below a
        heightfield.

        Everything is in the hull's frame; ``beyond``: distance of the point beyond the face's plane; ``inside``:
        whether it is in the hull.
        """
        outside = slack
        if inside or beyond >= scalar(0.0):
            foot = point - beyond * outward
            outside, _face = outermost(hull, packed, foot, slack)
        if wp.static(ground != TRIANGLES):
            if outside >= slack and beyond < scalar(0.0):
                foot = point - (beyond / wp.dot(outward, up)) * up
                outside, _face = outermost(hull, packed, foot, slack)
        return outside < slack

    @wp.func
    def with_face(
        choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds,
        packed: PackedShapes, key: wp.vec3i, point: vec3, local: vec3, most: scalar,
        outer: int,
    ):  # fmt: skip
        """Consider a point with the face that lies on it; of several that it could leave through, the nearest."""
        q = wp.transform_get_rotation(hull.pose)
        up = wp.quat_rotate_inv(q, surface.up_at(data, field, key))
        first = wp.int32(0)
        last = hull.ranges.num_faces - 1
        if most >= scalar(0.0):
            # Below the hull only the face that it is beyond can lie on it.
            outward, _start = face_plane(hull, packed, outer)
            if wp.dot(outward, up) < scalar(0.0):
                first = outer
                last = outer
        best = wp.int32(-1)
        least = scalar(-1.0e30)
        normal = vec3()
        for face in range(first, last + 1):
            outward, start = face_plane(hull, packed, face)
            beyond = wp.dot(outward, local - start)
            if wp.dot(outward, up) < -scalar(angle) and beyond > least and (beyond < scalar(0.0) or first == last):
                slack = surface.slack_at(beyond, wp.length(bounds.high - bounds.low))
                if face_bears(hull, packed, outward, beyond, local, most < scalar(0.0), up, slack):
                    upward = -wp.quat_rotate(q, outward)
                    # The nearest face is the exit, even if its normal is slightly outside of those of the ground.
                    if surface.least_beyond_neighbours(data, field, key, point, upward) >= -scalar(NEARLY_FLAT):
                        least = beyond
                        best = face
                        normal = upward
        if best >= 0:
            if surface.least_beyond_neighbours(data, field, key, point, normal) < -choice.slack:
                best = -1
        if best >= 0:
            parts = hulls.number_of_parts(hull.ranges)
            number = hulls.number_in_window(field, parts, surface.number_at(field, key))
            feature = parts * number + hulls.face_part(hull.ranges, best)
            choice = choices.consider(choice, bounds.cutoff, feature, least, point, normal)
        return choice

    @wp.func
    def edge_over(hull: Hull, packed: PackedShapes, edge: wp.vec4i, local: vec3):
        """Return the vector from a point in the hull's frame to an edge of the hull; zero if other features of it are
        nearer.
        """
        v = hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[0])
        along = hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[1]) - v
        square = wp.dot(along, along)
        part = wp.dot(local - v, along)
        result = vec3()
        if part > scalar(0.0) and part < square:
            offset = v + (part / square) * along - local
            if surface.falls_away(
                offset, hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[2]) - v, scalar(angle)
            ):
                if surface.falls_away(
                    offset, hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[3]) - v, scalar(angle)
                ):
                    result = offset
        return result

    @wp.func
    def with_edge_over(
        choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds,
        packed: PackedShapes, key: wp.vec3i, point: vec3, local: vec3,
    ):  # fmt: skip
        """Consider a point with the edge of the hull that is nearest to it."""
        q = wp.transform_get_rotation(hull.pose)
        for k in range(hull.ranges.num_edges):
            offset = edge_over(hull, packed, packed.edges[hull.ranges.first_edge + k], local)
            distance = wp.length(offset)
            if distance > scalar(touching) and distance < bounds.cutoff:
                normal = wp.quat_rotate(q, offset / distance)
                # An edge level with the point is next to it: rounding would decide which of them is higher.
                level = scalar(angle) * wp.length(bounds.high - bounds.low)
                if wp.dot(normal, surface.up_at(data, field, key)) * distance > level:
                    if surface.least_beyond_neighbours(data, field, key, point, normal) >= -scalar(angle):
                        parts = hulls.number_of_parts(hull.ranges)
                        number = hulls.number_in_window(field, parts, surface.number_at(field, key))
                        feature = parts * number + hulls.edge_part(hull.ranges, k, POINT)
                        choice = choices.consider(choice, bounds.cutoff, feature, distance, point, normal)
        return choice

    @wp.func
    def with_point(
        choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds,
        packed: PackedShapes, key: wp.vec3i,
    ):  # fmt: skip
        """Consider a point of the field with the faces and edges of the hull."""
        point = surface.corners_at(data, field, key)[0]
        local = wp.transform_point(wp.transform_inverse(hull.pose), point)
        most, outer = outermost(hull, packed, local, bounds.room)
        if most < bounds.room:
            choice = with_face(
                choice, data, field, hull, bounds, packed, key, point, local,
                most, outer,
            )  # fmt: skip
            if most > scalar(0.0):
                choice = with_edge_over(choice, data, field, hull, bounds, packed, key, point, local)
        return choice

    return SimpleNamespace(with_point=with_point, face_plane=face_plane, outermost=outermost)
