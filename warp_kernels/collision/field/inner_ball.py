"""Contact of a body's inner ball with a thin wall of a static triangle mesh: it pushes back to the side of the ball's centre.

A mesh has no inside that would push a body back. If a wall is through a body, contacts behind the wall would push the body out on the far
side. So triangles that have the centre of the inner ball (:mod:`warp_kernels.collision.touch.inner_ball`) behind them are dropped if the
nearest triangle within the body's bounding ball faces the other way and has the centre in front. The inner ball touches the plane of
that triangle instead.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.broad_phase import bounding_functions
from warp_kernels.collision.field.grid import KINDS, UPPER_TRIANGLE
from warp_kernels.collision.field.ground.triangles import triangle_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.collision.touch.inner_ball import inner_ball_functions
from warp_kernels.types import warp_types

# Feature id of such a contact: this minus the index of the triangle; -1 is none.
FIRST_BALL = -2
# Radius of the ball in this contact, in radii of the inner ball: ends of long bodies are further through the wall. If the wall is
# beyond it, it is that of the bounding ball.
SCALE = 2.0
# Penetration, in radii of the inner ball, up to which no wall counts as through a body.
SHALLOW = 0.0005


@functools.cache
def mesh_ball_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of one precision, for pairs of a body and a mesh."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    balls = inner_ball_functions(scalar)
    bounds = bounding_functions(scalar)
    mesh = triangle_functions(scalar)
    Field = mesh.Field
    structs = collision_structs(scalar)
    Geometries, PackedShapes, Triangles = structs.Geometries, structs.PackedShapes, structs.Triangles
    zero, half = scalar(0.0), scalar(0.5)

    @wp.func
    def centre_in_mesh(
        geometries: Geometries, packed: PackedShapes, a: int, size_a: vec3, pose_a: transform, pose_b: transform
    ):
        """Return the centre of a body's ball in the frame of the mesh."""
        centre = wp.transform_point(pose_a, balls.ball_centre(geometries, packed, a, size_a))
        return wp.transform_point(wp.transform_inverse(pose_b), centre)

    @wp.func
    def plane_of(data: Triangles, field: Field, triangle: int):
        """Return a triangle's unit normal, and a point on its plane."""
        corners = mesh.corners_at(data, field, mesh.key_at(field, triangle))
        return wp.normalize(wp.cross(corners[1] - corners[0], corners[2] - corners[0])), corners[0]

    @wp.func
    def has_behind(data: Triangles, field: Field, element: int, centre: vec3):
        """Return whether an element is a triangle that has a point behind it."""
        if element % KINDS > UPPER_TRIANGLE:
            return False
        normal, point = plane_of(data, field, element // KINDS)
        return wp.dot(normal, centre - point) < zero

    @wp.func
    def wall_before(data: Triangles, field: Field, centre: vec3, distance: scalar):
        """Return the triangle nearest to a point in front of it, -1 where none is within a distance."""
        triangle = mesh.triangle_at(data, field, centre, distance)
        if triangle >= 0:
            triangle = triangle // KINDS
            normal, point = plane_of(data, field, triangle)
            if wp.dot(normal, centre - point) <= zero:
                triangle = -1
        return triangle

    @wp.func
    def faces_away(data: Triangles, field: Field, element: int, wall: int, centre: vec3):
        """Return whether an element is a triangle that has a point behind it, and another side than a wall."""
        if not has_behind(data, field, element, centre):
            return False
        normal, _point = plane_of(data, field, element // KINDS)
        front, _front_point = plane_of(data, field, wall)
        return wp.dot(normal, front) < zero

    @wp.func
    def ball_contact(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, feature: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, data: Triangles, world: int,
    ):  # fmt: skip
        """Return distance, point midway between the surfaces and normal of a body's ball and the plane of a triangle."""
        field = mesh.field_of(geometries, b, size_b, data, world)
        centre = centre_in_mesh(geometries, packed, a, size_a, pose_a, pose_b)
        upward, on_plane = plane_of(data, field, FIRST_BALL - feature)
        radius = scalar(SCALE) * balls.ball_radius(geometries, packed, a, size_a)
        height = wp.dot(upward, centre - on_plane)
        if height > radius:
            radius = bounds.ball_radius(geometries, a, size_a)
        distance = height - radius
        point = wp.transform_point(pose_b, centre - (radius + half * distance) * upward)
        return distance, point, -wp.quat_rotate(wp.transform_get_rotation(pose_b), upward)

    return SimpleNamespace(
        field_of=mesh.field_of,
        ball_radius=balls.ball_radius,
        centre_in_mesh=centre_in_mesh,
        has_behind=has_behind,
        wall_before=wall_before,
        faces_away=faces_away,
        ball_contact=ball_contact,
    )
