"""The centre of a geometry's inner ball, and the triangles that its displacement in a step pierces."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.ground.triangles import triangle_functions
from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.collision.touch.inner_ball import inner_ball_functions
from warp_kernels.types import warp_types

# Clearance between the centre and a triangle, in radii of its ball.
CLEARANCE = 0.5


@functools.cache
def piercing_functions(scalar: Any) -> SimpleNamespace:
    """Return the struct Centre and the Warp functions of one precision."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    frame = geometry_frame_functions(scalar)
    balls = inner_ball_functions(scalar)
    mesh = triangle_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes, Triangles, Field = (
        structs.Geometries, structs.PackedShapes, structs.Triangles, mesh.Field
    )  # fmt: skip
    one, half = scalar(1.0), scalar(0.5)

    @wp.struct
    class Centre:
        """Centre of a ball and its displacement in a step, in the frame of a mesh; radius of the ball; the mesh and its orientation."""

        start: vec3
        displacement: vec3
        radius: scalar
        turn: t.quat
        field: Field

    @wp.func
    def radius_of(
        geometries: Geometries, packed: PackedShapes, geometry_size: wp.array2d(dtype=vec3), a: int, world: int
    ):  # fmt: skip
        """Return the radius of a geometry's ball."""
        return balls.ball_radius(geometries, packed, a, geometry_size[wp.min(world, geometry_size.shape[0] - 1), a])

    @wp.func
    def start_of(
        geometries: Geometries, packed: PackedShapes, geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3), pose: wp.array2d(dtype=transform), origin: wp.array2d(dtype=vec3),
        a: int, world: int,
    ):  # fmt: skip
        """Return the centre of a geometry's ball at the start of a step, from the origin of its tree."""
        link = geometries.link[a]
        tree = geometries.link_tree[link]
        size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), a]
        pose_a = frame.geometry_pose(a, link, tree, geometries.link_tree, geometry_placement, pose, origin, world)
        return wp.transform_point(pose_a, balls.ball_centre(geometries, packed, a, size))

    @wp.func
    def triangle_corners(data: Triangles, centre: Centre, triangle: int):
        """Return the corners of a triangle, one a row."""
        return mesh.corners_at(data, centre.field, mesh.key_at(centre.field, triangle))

    @wp.func
    def plane_of(data: Triangles, centre: Centre, triangle: int):
        """Return a triangle's normal, and the height of the centre over its plane at the start of the step."""
        corners = triangle_corners(data, centre, triangle)
        normal = wp.normalize(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
        return normal, wp.dot(normal, centre.start - corners[0])

    @wp.func
    def centre_of(
        geometries: Geometries, packed: PackedShapes, triangles: Triangles, geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3), pose: wp.array2d(dtype=transform), origin: wp.array2d(dtype=vec3),
        a: int, b: int, centre: vec3, displacement: vec3, world: int,
    ):  # fmt: skip
        """Return the centre of a geometry a with respect to a mesh b."""
        tree = geometries.link_tree[geometries.link[a]]
        pose_b = frame.geometry_pose(
            b, geometries.link[b], tree, geometries.link_tree, geometry_placement, pose, origin, world
        )
        result = Centre()
        result.turn = wp.transform_get_rotation(pose_b)
        result.start = wp.quat_rotate_inv(result.turn, centre - wp.transform_get_translation(pose_b))
        result.displacement = wp.quat_rotate_inv(result.turn, displacement)
        result.radius = radius_of(geometries, packed, geometry_size, a, world)
        result.field = mesh.field_of(
            geometries, b, geometry_size[wp.min(world, geometry_size.shape[0] - 1), b], triangles, world
        )
        return result

    @wp.func
    def first_pierced(data: Triangles, centre: Centre, extension: scalar):
        """Return the first triangle that a displacement pierces from outside, -1 for none, and the fraction of it up to
        there.

        extension: length by which the displacement is extended, in radii of the ball.
        """
        displacement = (one + extension * centre.radius / wp.length(centre.displacement)) * centre.displacement
        field = centre.field
        middle = centre.start + half * displacement
        extent = half * wp.abs(displacement)
        found = wp.int32(-1)
        earliest = scalar(2.0)
        query = wp.bvh_query_aabb(field.bvh, mesh.box_low(field, middle, extent), mesh.box_high(field, middle, extent))
        triangle = wp.int32(0)
        while wp.bvh_query_next(query, triangle):
            corners = mesh.corners_at(data, field, mesh.key_at(field, triangle))
            if mesh.pierced(corners, centre.start, centre.start + displacement):
                normal = wp.cross(corners[1] - corners[0], corners[2] - corners[0])
                share = wp.dot(normal, corners[0] - centre.start) / wp.dot(normal, centre.displacement)
                if share < earliest:
                    earliest = share
                    found = wp.int32(triangle)
        return found, earliest

    @wp.func
    def has_triangle_within(centre: Centre, distance: scalar):
        """Return whether the box of a triangle is within a distance of the centre along each axis."""
        extent = vec3(distance, distance, distance)
        low = mesh.box_low(centre.field, centre.start, extent)
        query = wp.bvh_query_aabb(centre.field.bvh, low, mesh.box_high(centre.field, centre.start, extent))
        triangle = wp.int32(0)
        return wp.bvh_query_next(query, triangle)

    return SimpleNamespace(
        Centre=Centre,
        radius_of=radius_of,
        start_of=start_of,
        centre_of=centre_of,
        plane_of=plane_of,
        first_pierced=first_pierced,
        has_triangle_within=has_triangle_within,
    )
