"""Exit from a triangle mesh for a box or a convex mesh that is inside so deep that none of its features has a
contact.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.choice import choice_functions
from warp_kernels.collision.field.grid import LOWER_TRIANGLE
from warp_kernels.collision.field.hull.body import hull_body_functions
from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.hull.points import hull_point_functions
from warp_kernels.collision.field.lines import line_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types


@functools.cache
def hull_inside_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    PackedShapes = collision_structs(scalar).PackedShapes
    lines = line_functions(scalar)
    surface = surface_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    hulls = hull_contact_functions(scalar, ground)
    bodies = hull_body_functions(scalar, ground)
    points = hull_point_functions(scalar, ground)
    Data, Field, Hull, Bounds, Choice = surface.Data, surface.Field, bodies.Hull, bodies.Bounds, choices.Choice

    @wp.func
    def lowest_vertex(hull: Hull, packed: PackedShapes, normal: vec3):
        """Return the vertex that is farthest against a direction of the field's frame."""
        lowest = wp.int32(0)
        least = scalar(1.0e30)
        for code in range(hull.ranges.num_vertices):
            vertex = wp.transform_point(hull.pose, hulls.vertex(hull.ranges, hull.scale, packed.vertices, code))
            if wp.dot(normal, vertex) < least:
                least = wp.dot(normal, vertex)
                lowest = code
        return lowest

    @wp.func
    def edge_enters(hull: Hull, packed: PackedShapes, start: vec3, end: vec3):
        """Return whether a path has a point inside the hull, in whose frame it is."""
        first = scalar(0.0)
        last = scalar(1.0)
        for face in range(hull.ranges.num_faces):
            normal, point = points.face_plane(hull, packed, face)
            before = wp.dot(normal, start - point)
            after = wp.dot(normal, end - point)
            if before >= scalar(0.0) and after >= scalar(0.0):
                return False
            if before >= scalar(0.0):
                first = wp.max(first, before / (before - after))
            elif after >= scalar(0.0):
                last = wp.min(last, before / (before - after))
        return first < last

    @wp.func
    def overlaps(hull: Hull, packed: PackedShapes, corners: mat33):
        """Return whether an edge of a triangle enters the hull, or one of the hull passes through the triangle."""
        back = wp.transform_inverse(hull.pose)
        for k in range(3):
            end = wp.transform_point(back, corners[(k + 1) % 3])
            if edge_enters(hull, packed, wp.transform_point(back, corners[k]), end):
                return True
        for k in range(hull.ranges.num_edges):
            edge = packed.edges[hull.ranges.first_edge + k]
            a = wp.transform_point(hull.pose, hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[0]))
            b = wp.transform_point(hull.pose, hulls.vertex(hull.ranges, hull.scale, packed.vertices, edge[1]))
            if surface.pierced(corners, a, b) or surface.pierced(corners, b, a):
                return True
        return False

    @wp.func
    def shortest_exit(choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds, packed: PackedShapes):
        """Return the triangle, of those that overlap the hull, behind which its deepest vertex is least deep."""
        result = choice
        if wp.static(ground == TRIANGLES):
            shallowest = scalar(-1.0e30)
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, bounds.middle, bounds.extent),
                surface.box_high(field, bounds.middle, bounds.extent),
            )  # fmt: skip
            triangle = wp.int32(0)
            while wp.bvh_query_next(query, triangle):
                corners = surface.corners_at(data, field, wp.vec3i(LOWER_TRIANGLE, triangle, 0))
                code = lowest_vertex(
                    hull, packed, lines.unit(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
                )
                vertex = wp.transform_point(hull.pose, hulls.vertex(hull.ranges, hull.scale, packed.vertices, code))
                distance, point, normal = lines.ball_contact(LOWER_TRIANGLE, corners, vertex, scalar(0.0))
                if distance < scalar(0.0) and distance > shallowest:
                    if overlaps(hull, packed, corners):
                        shallowest = distance
                        feature = hulls.number_of_parts(hull.ranges) * triangle + hulls.vertex_part(
                            code, LOWER_TRIANGLE
                        )
                        result = choices.consider(choice, bounds.cutoff, feature, distance, point, normal)
        return result

    return SimpleNamespace(shortest_exit=shortest_exit)
