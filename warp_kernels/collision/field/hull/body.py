"""Box or convex mesh over a heightfield, and the part of the field within its contact distance."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.hull.contact import hull_contact_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.types import warp_types


@functools.cache
def hull_body_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    surface = surface_functions(scalar, ground)
    hulls = hull_contact_functions(scalar, ground)
    Data, Field, Ranges = surface.Data, surface.Field, hulls.Ranges
    points = wp.array(dtype=vec3)

    @wp.struct
    class Hull:
        """Box or convex mesh in the field's frame."""

        ranges: Ranges
        scale: vec3
        pose: transform

    @wp.struct
    class Bounds:
        """Reach of a hull.

        ``low`` and ``high``: the box around the hull in its own frame, the cutoff added. ``bottom``: the lowest z of the
        field that may matter; ``around``: first and last row, first and last column; ``top``: greatest z of the field
        there. Of a mesh: ``top`` is below ``bottom`` if no triangle is within the cutoff. ``middle`` and ``extent``: the box
        around the hull in the field's frame, the cutoff added; ``depth``: maximum depth at which a vertex inside a mesh
        is found.
        """

        low: vec3
        high: vec3
        cutoff: scalar
        room: scalar
        bottom: scalar
        around: wp.vec4i
        top: scalar
        middle: vec3
        extent: vec3
        depth: scalar

    @wp.func
    def make_hull(extent: wp.vec4i, edge_extent: wp.vec2i, scale: vec3, pose: transform):
        hull = Hull()
        hull.ranges = hulls.ranges_of(extent, edge_extent)
        hull.scale = scale
        hull.pose = pose
        return hull

    @wp.func
    def hull_radius(extent: wp.vec4i, scale: vec3, vertices: points):
        """Return the distance of the farthest vertex from the hull's origin."""
        square = scalar(0.0)
        for code in range(extent[1]):
            square = wp.max(square, wp.length_sq(wp.cw_mul(vertices[extent[0] + code], scale)))
        return wp.sqrt(square)

    @wp.func
    def bounds_of(data: Data, field: Field, hull: Hull, vertices: points, cutoff: scalar):
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
        room = wp.max(cutoff, scalar(0.0))
        around = vec3(room, room, room)
        bounds = Bounds()
        bounds.low = low - around
        bounds.high = high + around
        bounds.cutoff = cutoff
        bounds.room = room
        bounds.bottom = field_low[2] - room
        middle = scalar(0.5) * (field_low + field_high)
        bounds.middle = middle
        bounds.extent = field_high - middle + around
        bounds.top = scalar(-1.0e30)
        if wp.static(ground == TRIANGLES):
            sides = high - low
            bounds.depth = wp.max(room, scalar(0.5) * wp.min(sides[0], wp.min(sides[1], sides[2])))
            query = wp.bvh_query_aabb(
                field.bvh, surface.box_low(field, middle, bounds.extent), surface.box_high(field, middle, bounds.extent)
            )
            triangle = wp.int32(0)
            if wp.bvh_query_next(query, triangle):
                bounds.top = -bounds.top
        else:
            bounds.around = surface.rows_and_columns(field, middle, bounds.extent)
            for row in range(bounds.around[0], bounds.around[1] + 1):
                for column in range(bounds.around[2], bounds.around[3] + 1):
                    bounds.top = wp.max(bounds.top, surface.top_of_cell(data, field, row, column))
        return bounds

    return SimpleNamespace(Hull=Hull, Bounds=Bounds, make_hull=make_hull, hull_radius=hull_radius, bounds_of=bounds_of)
