"""Ground around its points, edges and triangles: convexity, and closest elements.

The ground is a heightfield or a static triangle mesh, whose elements are defined in the folder ``ground``. An element
has a key, and the number KINDS * number + kind; ``up`` is its outer side.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import KINDS, POINT, UPPER_TRIANGLE
from warp_kernels.collision.field.ground.heightfield import heightfield_functions
from warp_kernels.collision.field.ground.sides import side_functions
from warp_kernels.collision.field.ground.triangles import triangle_functions
from warp_kernels.collision.field.lines import NEARLY_PARALLEL_SINE_SQUARED, line_functions
from warp_kernels.collision.pairs import TRIANGLES
from warp_kernels.types import warp_types

# In contacts of sharp features, rounding loses the direction from one to the other, and faces give the normal. They do
# so within this many times the touching tolerance from their border.
AROUND_TOUCHING = 4.0


@functools.cache
def surface_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the type Data, the struct Field and Warp functions for one precision and kind of ground. Everything is in
    its frame.
    """
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    sides = side_functions(scalar)
    angle, touching = sides.angle, sides.touching
    elements = triangle_functions(scalar) if ground == TRIANGLES else heightfield_functions(scalar)
    Data, Field = elements.Data, elements.Field
    parallel = line_functions(scalar).parallel_sine_squared

    @wp.func
    def falls_away(across: vec3, direction: vec3, slack: scalar):
        """Return whether a direction leads against another one, across an edge, by no more than the slack, a sine."""
        along = wp.dot(across, direction)
        limit = slack * slack * wp.dot(across, across) * wp.dot(direction, direction)
        return along >= scalar(0.0) or along * along <= limit

    @wp.func
    def beside_triangle(corners: mat33, centre: vec3):
        """Return whether a triangle contains the foot of a point on its plane, seen from each of its edges."""
        normal = wp.cross(corners[1] - corners[0], corners[2] - corners[0])
        height = wp.dot(normal, centre - corners[0]) / wp.length(normal)
        inside = bool(True)
        for k in range(3):
            start = corners[k]
            inward = wp.normalize(wp.cross(normal, corners[(k + 1) % 3] - start))
            offset = wp.dot(inward, centre - start)
            if offset < -scalar(angle) * wp.sqrt(offset * offset + height * height):
                inside = False
        return inside

    @wp.func
    def over_triangle(corners: mat33, centre: vec3):
        """Return whether a point above a triangle's plane is nearest to its inside."""
        normal = wp.cross(corners[1] - corners[0], corners[2] - corners[0])
        return wp.dot(normal, centre - corners[0]) >= scalar(0.0) and beside_triangle(corners, centre)

    @wp.func
    def nearest_on_triangle(data: Data, field: Field, corners: mat33, point: vec3, distance: scalar, foot: vec3):
        """Return whether the plane of the triangle under a point is as far from it as the surface is, or further.

        foot: the foot of the point on the plane, which may be past the triangle: in the ground beyond a concave edge,
        in the air beyond a convex one.
        """
        if distance < scalar(touching) or beside_triangle(corners, point):
            return True
        return not elements.above_ground(data, field, foot)

    @wp.func
    def between_ends(corners: mat33, point: vec3, slack: scalar):
        """Return whether a point on an edge's line lies on the edge, or no further beyond it than the slack."""
        edge = corners[1] - corners[0]
        length = wp.length(edge)
        along = wp.dot(point - corners[0], edge) / length
        return along >= -slack and along <= length + slack

    @wp.func
    def nearest_on_element(
        data: Data, field: Field, key: wp.vec3i, corners: mat33, point: vec3,
        foot: vec3, normal: vec3,
    ):  # fmt: skip
        """Return whether the distance of a point above the surface has a local minimum on an element, at a given point
        there.
        """
        kind = key[0]
        result = wp.dot(normal, elements.up_at(data, field, key)) > scalar(0.0)
        if kind <= UPPER_TRIANGLE:
            result = over_triangle(corners, point)
        elif kind == POINT:
            if elements.least_beyond_neighbours(data, field, key, foot, normal) <= scalar(angle):
                result = False
        else:
            if not between_ends(corners, foot, scalar(angle) * wp.length(point - foot)):
                result = False
            for side in range(2):
                if elements.beyond_side(data, field, key, side, corners, normal) <= scalar(angle):
                    result = False
        return result

    @wp.func
    def convex_within(
        data: Data, field: Field, key: wp.vec3i, corners: mat33, normal: vec3,
        slack: scalar,
    ):  # fmt: skip
        """Return whether an edge is convex, and the surface rises to neither side above the plane across the normal by
        more than the slack, a sine.
        """
        first = elements.beyond_side(data, field, key, 0, corners, normal)
        second = elements.beyond_side(data, field, key, 1, corners, normal)
        return wp.min(first, second) >= -slack and first + second > scalar(angle)

    @wp.func
    def convex_at(data: Data, field: Field, key: wp.vec3i, corners: mat33, normal: vec3):
        """Return whether the surface falls away from an edge to both sides, or lies in the plane across the normal on
        one.
        """
        return convex_within(data, field, key, corners, normal, scalar(angle))

    @wp.func
    def least_sine_squared(distance: scalar, least: scalar):
        """Return the squared sine above which two lines cross; a greater one if they are nearer than the least
        distance.
        """
        result = scalar(parallel)
        if distance < least:
            result = scalar(NEARLY_PARALLEL_SINE_SQUARED)
        return result

    @wp.func
    def slack_at(distance: scalar, size: scalar):
        """Return the distance past its ends within which an edge or a face of a body of some size supports features at
        this distance.
        """
        result = scalar(angle) * size
        if wp.abs(distance) < scalar(touching):
            result += scalar(AROUND_TOUCHING) * scalar(touching)
        return result

    @wp.func
    def crosses(
        corners: mat33, axis: vec3, half_length: scalar, start: vec3, distance: scalar, point: vec3, on_body: vec3
    ):
        """Return whether two non-parallel lines are nearest within an edge and within a body's segment about start."""
        edge = corners[1] - corners[0]
        across = wp.cross(edge, axis)
        if wp.length_sq(across) <= least_sine_squared(distance, scalar(touching)) * wp.length_sq(edge):
            return False
        slack = scalar(angle) * half_length
        return between_ends(corners, point, slack) and wp.abs(wp.dot(on_body - start, axis)) <= half_length + slack

    @wp.func
    def number_of(field: Field, key: wp.vec3i):
        """Return the number of the element with a key."""
        return KINDS * elements.number_at(field, key) + key[0]

    return SimpleNamespace(
        **vars(elements),
        angle=angle,
        touching=touching,
        number_of=number_of,
        falls_away=falls_away,
        beside_triangle=beside_triangle,
        over_triangle=over_triangle,
        nearest_on_triangle=nearest_on_triangle,
        nearest_on_element=nearest_on_element,
        between_ends=between_ends,
        convex_at=convex_at,
        convex_within=convex_within,
        least_sine_squared=least_sine_squared,
        slack_at=slack_at,
        crosses=crosses,
    )
