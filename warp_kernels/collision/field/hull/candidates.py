"""Candidate contacts of a box or a convex mesh with a heightfield, and the selection of up to four.

Vertices touch triangles, faces touch points, edges cross edges of the surface. A face touches a point, and an edge an
edge, with lower neighbours: the normal lies between those of the faces on both sides. So only vertices touch a flat or
concave surface.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.choice import TIE, choice_functions
from warp_kernels.collision.field.grid import DIAGONAL, EDGE_X, POINT
from warp_kernels.collision.field.hull.body import hull_body_functions
from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.hull.edges import hull_edge_functions
from warp_kernels.collision.field.hull.inside import hull_inside_functions
from warp_kernels.collision.field.hull.points import hull_point_functions, hull_vertex_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import warp_types


@functools.cache
def field_hull_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    surface = surface_functions(scalar, ground)
    choices = choice_functions(scalar, ground)
    hulls = hull_contact_functions(scalar, ground)
    bodies = hull_body_functions(scalar, ground)
    corners = hull_vertex_functions(scalar, ground)
    points = hull_point_functions(scalar, ground)
    crossings = hull_edge_functions(scalar, ground)
    inside = hull_inside_functions(scalar, ground)
    Data, Field, Hull, Bounds = surface.Data, surface.Field, bodies.Hull, bodies.Bounds
    Choice, Drift = choices.Choice, choices.Drift

    @wp.func
    def best_point(
        choice: Choice, data: Data, field: Field, hull: Hull, bounds: Bounds,
        packed: PackedShapes,
    ):  # fmt: skip
        """Return the best of all candidates of a hull in one stage."""
        for code in range(hull.ranges.num_vertices):
            vertex = wp.transform_point(hull.pose, hulls.vertex(hull.ranges, hull.scale, packed.vertices, code))
            if vertex[2] - bounds.room <= bounds.top:
                choice = corners.with_vertex(choice, data, field, hull, bounds, code, vertex)
        if wp.static(ground == TRIANGLES):
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, bounds.middle, bounds.extent),
                surface.box_high(field, bounds.middle, bounds.extent),
            )  # fmt: skip
            triangle = wp.int32(0)
            while wp.bvh_query_next(query, triangle):
                own = field.extent[0] + triangle
                for k in range(data.owned_start[own] + 1, data.owned_start[own + 1]):
                    key = surface.key_at(field, data.owned[k])
                    if key[0] == POINT:
                        choice = points.with_point(choice, data, field, hull, bounds, packed, key)
                    else:
                        choice = crossings.with_edges(choice, data, field, hull, bounds, packed, key)
            if choice.stage == 0 and (choice.feature < 0 or choice.score < -scalar(TIE)):
                choice = inside.shortest_exit(choice, data, field, hull, bounds, packed)
        else:
            for row in range(bounds.around[0], bounds.around[1] + 1):
                for column in range(bounds.around[2], bounds.around[3] + 1):
                    if surface.top_of_cell(data, field, row, column) < bounds.bottom:
                        continue
                    for kind in range(EDGE_X, DIAGONAL + 1):
                        key = wp.vec3i(kind, row, column)
                        if surface.exists(field, key):
                            choice = crossings.with_edges(choice, data, field, hull, bounds, packed, key)
                    key = wp.vec3i(POINT, row, column)
                    choice = points.with_point(choice, data, field, hull, bounds, packed, key)
        return choice

    @wp.func
    def soonest(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, data: Data, world: int, cutoff: scalar, drift: Drift,
    ):  # fmt: skip
        """Return the feature within the cutoff that touches first, -1 for none, its distance, and the decrease of that in a
        step.
        """
        local = wp.transform_multiply(wp.transform_inverse(pose_b), pose_a)
        hull = bodies.make_hull(packed.extent[a], packed.edge_extent[a], size_a, local)
        field = surface.field_of(geometries, b, size_b, data, world)
        bounds = bodies.bounds_of(data, field, hull, packed.vertices, cutoff)
        choice = choices.soonest(drift)
        if bounds.top >= bounds.bottom:
            choice = best_point(choice, data, field, hull, bounds, packed)
        return choice.feature, choice.point[0], choice.point[1]

    @wp.func
    def features(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, data: Data, world: int, cutoff: scalar, lead: int,
        fast: bool,
    ):  # fmt: skip
        """Return up to four features within the cutoff in ascending order, with -1 for missing ones, and the least distance.

        The deepest, then those that span most area, seen from above. lead: a feature that is always one of them, or -1.
        fast: whether the body moves fast, see :mod:`warp_kernels.collision.field.choice`.
        """
        local = wp.transform_multiply(wp.transform_inverse(pose_b), pose_a)
        hull = bodies.make_hull(packed.extent[a], packed.edge_extent[a], size_a, local)
        field = surface.field_of(geometries, b, size_b, data, world)
        bounds = bodies.bounds_of(data, field, hull, packed.vertices, cutoff)
        found = wp.vec4i(-1, -1, -1, -1)
        chosen = mat33()
        deepest = scalar(0.0)
        if bounds.top < bounds.bottom:
            return found, deepest
        for stage in range(4):
            choice = best_point(choices.in_stage(stage, chosen, deepest, fast), data, field, hull, bounds, packed)
            if choice.feature < 0:
                return choices.with_lead(found, stage, lead), deepest
            found[stage] = choice.feature
            if stage == 0:
                deepest = -choice.score
            if stage < 3:
                chosen[stage] = choice.point
        return choices.with_lead(found, 4, lead), deepest

    @wp.func
    def element_of(packed: PackedShapes, a: int, field: Field, feature: int):
        """Return the element of a feature on a mesh."""
        return hulls.element_of(hulls.ranges_of(packed.extent[a], packed.edge_extent[a]), field, feature, vec3())

    return SimpleNamespace(
        Data=Data,
        Drift=Drift,
        hull_radius=bodies.hull_radius,
        soonest=soonest,
        features=features,
        element_of=element_of,
    )
