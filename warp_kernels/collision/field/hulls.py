"""Where a box or a convex mesh touches a heightfield, and which few of these places carry it.

Its vertices stand on the triangles under them, its faces lie on points, its edges cross edges of the surface. A face
touches a point, and an edge an edge, whose other neighbours are below: where the normal lies between those of the
faces on both sides. So a flat or hollow surface is felt by vertices alone.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.grid import DIAGONAL, EDGE_X, KINDS, UPPER_TRIANGLE, grid_functions
from warp_kernels.collision.field.hull_contact import hull_contact_functions
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import PARALLEL_SINE_SQUARED, surface_functions
from warp_kernels.types import warp_types


@functools.cache
def field_hull_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    t = warp_types(scalar)
    vec2, vec3, mat33, transform = t.vec2, t.vec3, t.mat33, t.transform
    grid = grid_functions(scalar)
    lines = line_functions(scalar)
    surface = surface_functions(scalar)
    choices = choice_functions(scalar)
    hulls = hull_contact_functions(scalar)
    Field, Ranges, Choice = surface.Field, hulls.Ranges, choices.Choice
    angle = surface.angle
    places, ints, fours = wp.array(dtype=vec3), wp.array(dtype=wp.int32), wp.array(dtype=wp.vec4i)

    @wp.struct
    class Hull:
        """A box or a convex mesh in the field's frame."""

        ranges: Ranges
        scale: vec3
        pose: transform

    @wp.struct
    class Bounds:
        """What is within reach of a hull.

        ``low`` and ``high``: the box around the hull in its own frame, the reach added. ``bottom``: the lowest z of the field
        that may matter; ``around``: first and last row, first and last column; ``top``: greatest z of the field there.
        """

        low: vec3
        high: vec3
        reach: scalar
        room: scalar
        bottom: scalar
        around: wp.vec4i
        top: scalar

    @wp.func
    def make_hull(extent: wp.vec4i, edge_extent: wp.vec2i, scale: vec3, pose: transform):
        hull = Hull()
        hull.ranges = hulls.ranges_of(extent, edge_extent)
        hull.scale = scale
        hull.pose = pose
        return hull

    @wp.func
    def radius_of(hull: Hull, vertices: places):
        """The distance of the farthest vertex from the hull's origin."""
        square = scalar(0.0)
        for code in range(hull.ranges.num_vertices):
            square = wp.max(square, wp.length_sq(hulls.vertex(hull.ranges, hull.scale, vertices, code)))
        return wp.sqrt(square)

    @wp.func
    def bounds_of(height: wp.array2d(dtype=scalar), field: Field, hull: Hull, vertices: places, reach: scalar):
        low = vec3(scalar(1.0e30), scalar(1.0e30), scalar(1.0e30))
        high = -low
        field_low = low
        field_high = high
        for code in range(hull.ranges.num_vertices):
            v = hulls.vertex(hull.ranges, hull.scale, vertices, code)
            low = wp.min(low, v)
            high = wp.max(high, v)
            v = wp.transform_point(hull.pose, v)
            field_low = wp.min(field_low, v)
            field_high = wp.max(field_high, v)
        room = wp.max(reach, scalar(0.0))
        around = vec3(room, room, room)
        bounds = Bounds()
        bounds.low = low - around
        bounds.high = high + around
        bounds.reach = reach
        bounds.room = room
        bounds.bottom = field_low[2] - room
        middle = scalar(0.5) * (field_low + field_high)
        bounds.around = surface.rows_and_columns(field, middle, field_high - middle + around)
        bounds.top = scalar(-1.0e30)
        for row in range(bounds.around[0], bounds.around[1] + 1):
            for column in range(bounds.around[2], bounds.around[3] + 1):
                bounds.top = wp.max(bounds.top, surface.top_of_cell(height, field, row, column))
        return bounds

    @wp.func
    def with_vertex(
        choice: Choice, height: wp.array2d(dtype=scalar), field: Field, hull: Hull, bounds: Bounds, code: int,
        vertex: vec3,
    ):  # fmt: skip
        """Consider a vertex with the triangle below or above it, and with others that it stands over.

        Never with edges and points, near which the normal of a place without extent would turn about.
        """
        parts = hulls.number_of_parts(hull.ranges)
        under = grid.triangle_below(field.shape, field.size, vertex[0], vertex[1])
        if under >= 0:
            corners = grid.element_corners(height, field.row, field.shape, field.size, under)
            distance, place, normal = lines.ball_contact(under % KINDS, corners, vertex, scalar(0.0))
            feature = parts * (under // KINDS) + 2 * code + under % KINDS
            choice = choices.consider(choice, bounds.reach, feature, distance, place, normal)
            if distance < scalar(0.0):
                return choice
        around = surface.rows_and_columns(field, vertex, vec3(bounds.room, bounds.room, bounds.room))
        for row in range(around[0], around[1] + 1):
            for column in range(around[2], around[3] + 1):
                if surface.top_of_cell(height, field, row, column) < vertex[2] - bounds.room:
                    continue
                point = row * field.shape[2] + column
                for kind in range(UPPER_TRIANGLE + 1):
                    if KINDS * point + kind != under and grid.exists(field.shape, kind, row, column):
                        corners = grid.element_corners(height, field.row, field.shape, field.size, KINDS * point + kind)
                        if surface.over_triangle(corners, vertex):
                            distance, place, normal = lines.ball_contact(kind, corners, vertex, scalar(0.0))
                            feature = parts * point + 2 * code + kind
                            choice = choices.consider(choice, bounds.reach, feature, distance, place, normal)
        return choice

    @wp.func
    def face_plane(hull: Hull, vertices: places, starts: ints, face_corner: ints, normals: places, face: int):
        """Outward unit normal of a face in the hull's frame, and a place on it."""
        n = normals[hull.ranges.first_face + face]
        s = hull.scale
        normal = lines.unit(vec3(n[0] * s[1] * s[2], n[1] * s[2] * s[0], n[2] * s[0] * s[1]))
        return normal, hulls.vertex(
            hull.ranges, hull.scale, vertices, face_corner[starts[hull.ranges.first_face + face]]
        )

    @wp.func
    def outermost(
        hull: Hull, vertices: places, starts: ints, face_corner: ints, normals: places, place: vec3, limit: scalar
    ):
        """The face beyond whose plane a place is farthest, and how far; or one beyond which it is by the limit."""
        most = scalar(-1.0e30)
        best = wp.int32(-1)
        for face in range(hull.ranges.num_faces):
            if most < limit:
                normal, start = face_plane(hull, vertices, starts, face_corner, normals, face)
                beyond = wp.dot(normal, place - start)
                if beyond > most:
                    most = beyond
                    best = face
        return most, best

    @wp.func
    def face_bears(
        hull: Hull, vertices: places, starts: ints, face_corner: ints, normals: places, outward: vec3, beyond: scalar,
        place: vec3, inside: bool, up: vec3, slack: scalar,
    ):  # fmt: skip
        """Whether a place comes out of a face: along its normal, or straight down where the hull is below the ground.

        All in the hull's frame; ``beyond``: how far the place is beyond the face's plane; ``inside``: whether it is in the
        hull.
        """
        outside = slack
        if inside or beyond >= scalar(0.0):
            foot = place - beyond * outward
            outside, _face = outermost(hull, vertices, starts, face_corner, normals, foot, slack)
        if outside >= slack and beyond < scalar(0.0):
            foot = place - (beyond / wp.dot(outward, up)) * up
            outside, _face = outermost(hull, vertices, starts, face_corner, normals, foot, slack)
        return outside < slack

    @wp.func
    def with_face(
        choice: Choice, height: wp.array2d(dtype=scalar), field: Field, hull: Hull, bounds: Bounds, vertices: places,
        starts: ints, face_corner: ints, normals: places, row: int, column: int,
    ):  # fmt: skip
        """Consider a point with the face that lies on it; of several that it could leave through, the nearest."""
        q = wp.transform_get_rotation(hull.pose)
        up = wp.quat_rotate_inv(q, vec3(scalar(0.0), scalar(0.0), scalar(1.0)))
        slack = scalar(angle) * wp.length(bounds.high - bounds.low)
        point = grid.surface_point(height, field.row, field.shape, field.size, row, column)
        local = wp.transform_point(wp.transform_inverse(hull.pose), point)
        most, outer = outermost(hull, vertices, starts, face_corner, normals, local, bounds.room)
        first = wp.int32(0)
        last = hull.ranges.num_faces - 1
        if most >= scalar(0.0):
            # Below the hull only the face that it is beyond can lie on it.
            outward, _start = face_plane(hull, vertices, starts, face_corner, normals, outer)
            if wp.dot(outward, up) < scalar(0.0):
                first = outer
                last = outer
                if most >= bounds.room:
                    return choice
        best = wp.int32(-1)
        least = scalar(-1.0e30)
        normal = vec3()
        for face in range(first, last + 1):
            outward, start = face_plane(hull, vertices, starts, face_corner, normals, face)
            beyond = wp.dot(outward, local - start)
            if wp.dot(outward, up) < -scalar(angle) and beyond > least and (beyond < scalar(0.0) or first == last):
                if face_bears(
                    hull, vertices, starts, face_corner, normals, outward, beyond, local, most < scalar(0.0), up, slack
                ):
                    upward = -wp.quat_rotate(q, outward)
                    if surface.least_beyond_neighbours(height, field, row, column, point, upward) >= -scalar(angle):
                        least = beyond
                        best = face
                        normal = upward
        if best >= 0:
            part = 2 * hull.ranges.num_vertices + best
            feature = hulls.number_of_parts(hull.ranges) * (row * field.shape[2] + column) + part
            choice = choices.consider(choice, bounds.reach, feature, least, point, normal)
        return choice

    @wp.func
    def clipped(start: vec3, way: vec3, low: vec3, high: vec3):
        """First and last part of the way from a start on which it is in a box; none if the first is greater."""
        first = scalar(0.0)
        last = scalar(1.0)
        for k in range(3):
            if way[k] == scalar(0.0):
                if start[k] < low[k] or start[k] > high[k]:
                    last = scalar(-1.0)
            else:
                one = (low[k] - start[k]) / way[k]
                other = (high[k] - start[k]) / way[k]
                first = wp.max(first, wp.min(one, other))
                last = wp.min(last, wp.max(one, other))
        return vec2(first, last)

    @wp.func
    def falls_away(across: vec3, direction: vec3):
        """Whether a direction doesn't lead against another one that is across an edge, but for rounding."""
        along = wp.dot(across, direction)
        limit = scalar(angle * angle) * wp.dot(across, across) * wp.dot(direction, direction)
        return along >= scalar(0.0) or along * along <= limit

    @wp.func
    def crossing(start: vec3, way: vec3, other: vec3, along: vec3, direction: vec3):
        """Where two lines pass each other, seen along a direction: parts of the way and of the other line's."""
        square = wp.dot(wp.cross(way, along), direction)
        delta = other - start
        result = vec2(scalar(-1.0), scalar(-1.0))
        if square != scalar(0.0):
            on_way = wp.dot(wp.cross(delta, along), direction) / square
            result = vec2(on_way, wp.dot(wp.cross(delta, way), direction) / square)
        return result

    @wp.func
    def edge_crosses(hull: Hull, vertices: places, edge: wp.vec4i, start: vec3, way: vec3, within: vec2, up: vec3):
        """Whether an edge of the hull crosses a line, below the hull; the distance, its part of the way, the normal.

        Apart they cross where they are nearest. Overlapping they cross seen from above: so does, wherever hull and ground
        overlap, the deepest pair, or else a vertex is deeper below a triangle or a point above a face. All in the hull's
        frame; ``within``: first and last part of the way that count.
        """
        v = hulls.vertex(hull.ranges, hull.scale, vertices, edge[0])
        along = hulls.vertex(hull.ranges, hull.scale, vertices, edge[1]) - v
        normal = wp.cross(way, along)
        if wp.dot(normal, up) < scalar(0.0):
            normal = -normal
        square = wp.dot(normal, normal)
        touches = falls_away(normal, hulls.vertex(hull.ranges, hull.scale, vertices, edge[2]) - v)
        if touches:
            touches = falls_away(normal, hulls.vertex(hull.ranges, hull.scale, vertices, edge[3]) - v)
        if square <= scalar(PARALLEL_SINE_SQUARED) * wp.dot(way, way) * wp.dot(along, along):
            touches = False
        if not touches:
            return False, scalar(0.0), scalar(0.0), normal
        normal = normal / wp.sqrt(square)
        distance = wp.dot(normal, v - start)
        direction = normal
        if distance < scalar(0.0):
            direction = up
        place = crossing(start, way, v, along, direction)
        touches = (
            place[0] >= within[0] and place[0] <= within[1] and place[1] >= scalar(0.0) and place[1] <= scalar(1.0)
        )
        return touches and wp.dot(normal, up) > scalar(angle), distance, place[0], normal

    @wp.func
    def with_edges(
        choice: Choice, height: wp.array2d(dtype=scalar), field: Field, hull: Hull, bounds: Bounds, vertices: places,
        edges: fours, kind: int, row: int, column: int,
    ):  # fmt: skip
        """Consider an edge of the field with the edges of the hull that cross it."""
        point = row * field.shape[2] + column
        corners = grid.element_corners(height, field.row, field.shape, field.size, KINDS * point + kind)
        q = wp.transform_get_rotation(hull.pose)
        start = wp.quat_rotate_inv(q, corners[0] - wp.transform_get_translation(hull.pose))
        way = wp.quat_rotate_inv(q, corners[1] - corners[0])
        within = clipped(start, way, bounds.low, bounds.high)
        if within[0] > within[1]:
            return choice
        if not surface.folded(height, field, kind, row, column, corners):
            return choice
        up = wp.quat_rotate_inv(q, vec3(scalar(0.0), scalar(0.0), scalar(1.0)))
        for k in range(hull.ranges.num_edges):
            crosses, distance, on_way, local = edge_crosses(
                hull, vertices, edges[hull.ranges.first_edge + k], start, way, within, up
            )
            if crosses and distance < bounds.reach:
                normal = wp.quat_rotate(q, local)
                if surface.convex_at(height, field, kind, row, column, corners, normal):
                    part = 2 * hull.ranges.num_vertices + hull.ranges.num_faces + 3 * k + kind - EDGE_X
                    feature = hulls.number_of_parts(hull.ranges) * point + part
                    place = corners[0] + on_way * (corners[1] - corners[0])
                    choice = choices.consider(choice, bounds.reach, feature, distance, place, normal)
        return choice

    @wp.func
    def best_place(
        choice: Choice, height: wp.array2d(dtype=scalar), field: Field, hull: Hull, bounds: Bounds, vertices: places,
        starts: ints, face_corner: ints, normals: places, edges: fours,
    ):  # fmt: skip
        """The best of all places of a hull in one stage."""
        for code in range(hull.ranges.num_vertices):
            vertex = wp.transform_point(hull.pose, hulls.vertex(hull.ranges, hull.scale, vertices, code))
            if vertex[2] - bounds.room <= bounds.top:
                choice = with_vertex(choice, height, field, hull, bounds, code, vertex)
        for row in range(bounds.around[0], bounds.around[1] + 1):
            for column in range(bounds.around[2], bounds.around[3] + 1):
                if surface.top_of_cell(height, field, row, column) < bounds.bottom:
                    continue
                for kind in range(EDGE_X, DIAGONAL + 1):
                    if grid.exists(field.shape, kind, row, column):
                        choice = with_edges(choice, height, field, hull, bounds, vertices, edges, kind, row, column)
                choice = with_face(
                    choice, height, field, hull, bounds, vertices, starts, face_corner, normals, row, column
                )
        return choice

    @wp.func
    def hull_features(
        height: wp.array2d(dtype=scalar), field: Field, hull: Hull, reach: scalar, vertices: places, starts: ints,
        face_corner: ints, normals: places, edges: fours,
    ):  # fmt: skip
        """Up to four features within reach in ascending order, with -1 for those that are missing.

        The deepest, then those that span most area, seen from above.
        """
        bounds = bounds_of(height, field, hull, vertices, reach)
        features = wp.vec4i(-1, -1, -1, -1)
        if bounds.top < bounds.bottom:
            return features
        chosen = mat33()
        deepest = scalar(0.0)
        for stage in range(4):
            choice = best_place(
                choices.in_stage(stage, chosen, deepest), height, field, hull, bounds, vertices, starts, face_corner,
                normals, edges,
            )  # fmt: skip
            if choice.feature < 0:
                return choices.ascending(features)
            features[stage] = choice.feature
            if stage == 0:
                deepest = -choice.score
            if stage < 3:
                chosen[stage] = choice.place
        return choices.ascending(features)

    return SimpleNamespace(make_hull=make_hull, radius_of=radius_of, hull_features=hull_features)
