"""Contacts of edges of a box or a convex mesh with edges of a heightfield.

Both fall away from the contact to their sides: the normal lies between those of the faces on both sides.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.hull.body import hull_body_functions
from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.hull.points import hull_point_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types


@functools.cache
def hull_edge_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    PackedShapes = collision_structs(scalar).PackedShapes
    surface = surface_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    hulls = hull_contact_functions(scalar, ground)
    bodies = hull_body_functions(scalar, ground)
    points = hull_point_functions(scalar, ground)
    Data, Field, Hull, Bounds, Choice = surface.Data, surface.Field, bodies.Hull, bodies.Bounds, choices.Choice
    angle, touching = surface.angle, surface.touching

    @wp.func
    def clipped(start: vec3, segment: vec3, low: vec3, high: vec3):
        """Return first and last fraction of a path on which it is in a box; empty if the first is greater."""
        first = scalar(0.0)
        last = scalar(1.0)
        for k in range(3):
            if segment[k] == scalar(0.0):
                if start[k] < low[k] or start[k] > high[k]:
                    last = scalar(-1.0)
            else:
                one = (low[k] - start[k]) / segment[k]
                other = (high[k] - start[k]) / segment[k]
                first = wp.max(first, wp.min(one, other))
                last = wp.min(last, wp.max(one, other))
        return vec2(first, last)

    @wp.func
    def crossing(start: vec3, segment: vec3, other: vec3, along: vec3, direction: vec3):
        """Return the crossing of two lines, seen along a direction: fractions of the path and of the other line's."""
        square = wp.dot(wp.cross(segment, along), direction)
        delta = other - start
        result = vec2(scalar(-1.0), scalar(-1.0))
        if square != scalar(0.0):
            on_segment = wp.dot(wp.cross(delta, along), direction) / square
            result = vec2(on_segment, wp.dot(wp.cross(delta, segment), direction) / square)
        return result

    @wp.func
    def edge_crosses(
        hull: Hull,
        packed: PackedShapes,
        edge: wp.vec4i,
        start: vec3,
        segment: vec3,
        within: vec2,
        up: vec3,
        tilt: scalar,
    ):
        """Return whether an edge of the hull crosses a line, below the hull; the distance, its fraction of the path,
        the normal.

        Apart, and on a mesh, they cross at their closest points. Penetrating a heightfield, they cross as seen from
        above: so does the deepest pair of a penetrating hull, unless a vertex is deeper below a triangle or a point
        deeper above a face. Everything is in the hull's frame; ``within``: first and last fraction of the path that
        count; ``tilt``: sine by which the normal may be outside of those of the faces next to the edge.
        """
        v = hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[0])
        along = hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[1]) - v
        normal = wp.cross(segment, along)
        if wp.dot(normal, up) < scalar(0.0):
            normal = -normal
        square = wp.dot(normal, normal)
        touches = surface.falls_away(normal, hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[2]) - v, tilt)
        if touches:
            touches = surface.falls_away(
                normal, hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[3]) - v, tilt
            )
        if not touches or square == scalar(0.0):
            return False, scalar(0.0), scalar(0.0), normal
        normal = normal / wp.sqrt(square)
        distance = wp.dot(normal, v - start)
        segment_length = wp.length(segment)
        length = wp.length(along)
        least = surface.least_sine_squared(distance, scalar(touching))
        if square <= least * segment_length * segment_length * length * length:
            return False, scalar(0.0), scalar(0.0), normal
        direction = normal
        if wp.static(ground != TRIANGLES):
            if distance < scalar(0.0):
                direction = up
        point = crossing(start, segment, v, along, direction)
        slack = surface.slack_at(distance, length)
        on_segment = slack / segment_length
        on_edge = slack / length
        touches = point[0] >= within[0] - on_segment and point[0] <= within[1] + on_segment
        touches = touches and point[1] >= -on_edge and point[1] <= scalar(1.0) + on_edge
        if wp.static(ground == TRIANGLES):
            # A crossing closer to the end of either edge than it is deep is not the shortest exit: the border between
            # two flush pieces of ground doesn't stop a sliding body.
            if distance < scalar(0.0):
                end = wp.min(point[1], scalar(1.0) - point[1]) * length
                end = wp.min(end, wp.min(point[0], scalar(1.0) - point[0]) * segment_length)
                touches = touches and end >= -distance
        return touches and wp.dot(normal, up) > scalar(angle), distance, point[0], normal

    @wp.func
    def with_edges(
        choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds,
        packed: PackedShapes, key: wp.vec3i,
    ):  # fmt: skip
        """Consider an edge of the field with the edges of the hull that cross it."""
        corners = surface.corners_at(data, field, key)
        q = wp.transform_get_rotation(hull.pose)
        start = wp.quat_rotate_inv(q, corners[0] - wp.transform_get_translation(hull.pose))
        segment = wp.quat_rotate_inv(q, corners[1] - corners[0])
        within = clipped(start, segment, bounds.low, bounds.high)
        if within[0] > within[1]:
            return choice
        if not surface.folded(data, field, key, corners):
            return choice
        up = wp.quat_rotate_inv(q, surface.up_at(data, field, key))
        for k in range(hull.ranges.num_edges):
            crosses, distance, on_segment, local = edge_crosses(
                hull, packed, packed.edges[hull.ranges.first_edge + k], start, segment, within, up, choice.slack
            )
            if crosses and distance < bounds.cutoff:
                normal = wp.quat_rotate(q, local)
                if wp.static(ground == TRIANGLES):
                    # Behind a mesh there is air again: only geometry inside of the hull obstructs it.
                    if distance < -scalar(touching):
                        beyond, _face = points.outermost(hull, packed, start + on_segment * segment, scalar(touching))
                        if beyond >= scalar(touching):
                            continue
                if surface.convex_within(data, field, key, corners, normal, choice.slack):
                    parts = hulls.number_of_parts(hull.ranges)
                    number = hulls.number_in_window(field, parts, surface.number_at(field, key))
                    feature = parts * number + hulls.edge_part(hull.ranges, k, key[0])
                    point = corners[0] + on_segment * (corners[1] - corners[0])
                    choice = choices.consider(choice, bounds.cutoff, feature, distance, point, normal)
        return choice

    return SimpleNamespace(with_edges=with_edges)
