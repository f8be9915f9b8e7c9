"""Stops: limits on velocities that keep the centre of a free body from passing a static triangle mesh.

A contact has one normal and one point for the whole step. A body that is hit off its centre can turn by a radian or more within the
step: it leaves that point, and its centre would pass a thin wall. So the displacement of the centre in a step, by the velocities after
the contacts, is tested against the triangles. If it pierces one from outside, the velocity along the triangle's normal is reduced, so
that the centre stays in front. A body deflected by an edge pierces no triangle and isn't changed.

The centre is that of the inner ball of a geometry (:mod:`warp_kernels.collision.touch.inner_ball`). With the height d of the centre over
the triangle's plane, its displacement w, and a clearance r, a fraction of the ball's radius, the displacement along the normal n changes by

    max(0, min(-n . w, -n . w (1 + r / |w|) - d)).

The displacement extended by r then ends on the plane, or the centre comes no nearer to it. A stop doesn't turn the body.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.collision.field.ground.triangles import triangle_functions
from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.collision.touch.inner_ball import inner_ball_functions
from warp_kernels.kinematics.recentre import recentre_functions
from warp_kernels.types import kernel_module, warp_types

# Stops of a body in a step. The last one ends the motion: two planes may each lead through the other one.
STOPS = 3
# Clearance between the centre and a triangle, in radii of its ball; for grazing paths this times the least cosine.
CLEARANCE = 0.5
LEAST_COSINE = 0.125


@wp.struct
class StopPairs:
    """The geometries of free bodies, and the static meshes that they may touch.

    Attributes:
        link: link of each body [bodies].
        start: where the pairs of each body start, and their end [bodies + 1].
        body: geometry of the body, in each pair [pairs].
        mesh: geometry of the mesh, in each pair [pairs].
        dof: three times the body that a degree of freedom translates, plus the axis; -1 for other degrees of freedom [dof].
    """

    link: wp.array(dtype=int)
    start: wp.array(dtype=int)
    body: wp.array(dtype=int)
    mesh: wp.array(dtype=int)
    dof: wp.array(dtype=int)


@functools.cache
def stop_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels of one precision, in the order of their launches: ``find_stops``, ``stop_shifts`` for its adjoint alone, ``apply_stops``."""
    t = warp_types(scalar)
    vec3, mat33, transform, inertia10 = t.vec3, t.mat33, t.transform, t.inertia
    frame = geometry_frame_functions(scalar)
    balls = inner_ball_functions(scalar)
    mesh = triangle_functions(scalar)
    arm_of = recentre_functions(scalar).arm_of
    rotation_exp = rotation_vector_functions(scalar).rotation_exp
    structs = collision_structs(scalar)
    Geometries, PackedShapes, Triangles, Field = (
        structs.Geometries, structs.PackedShapes, structs.Triangles, mesh.Field
    )  # fmt: skip
    module = kernel_module("stops", scalar, inlined=True)
    zero, one, half = scalar(0.0), scalar(1.0), scalar(0.5)

    @wp.struct
    class Centre:
        """Centre of a ball and its displacement in a step, in the frame of a mesh; radius of the ball; the mesh and its orientation."""

        start: vec3
        displacement: vec3
        radius: scalar
        turn: t.quat
        field: Field

    @wp.func
    def three(x: wp.array2d(dtype=scalar), world: int, k: int):
        return vec3(x[world, k], x[world, k + 1], x[world, k + 2])

    @wp.func
    def displacement_of(
        geometries: Geometries, packed: PackedShapes, geometry_placement: wp.array2d(dtype=transform), size: vec3,
        pose: wp.array2d(dtype=transform), origin: wp.array2d(dtype=vec3), a: int, arm: vec3, linear: vec3, spin: vec3,
        dt: scalar, world: int,
    ):  # fmt: skip
        """Return the centre of a geometry, from the origin of its body, and its displacement.

        arm: from the origin of the body to its centre of mass. linear, spin: the velocities of a step.
        """
        link = geometries.link[a]
        tree = geometries.link_tree[link]
        pose_a = frame.geometry_pose(a, link, tree, geometries.link_tree, geometry_placement, pose, origin, world)
        centre = wp.transform_point(pose_a, balls.ball_centre(geometries, packed, a, size))
        beside = centre - arm
        turned = wp.quat_rotate(rotation_exp(dt * spin), beside) - beside
        return centre, dt * (linear + wp.cross(spin, arm)) + turned

    @wp.func
    def centre_of(
        geometries: Geometries, packed: PackedShapes, triangles: Triangles, geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3), pose: wp.array2d(dtype=transform), origin: wp.array2d(dtype=vec3),
        a: int, b: int, centre: vec3, displacement: vec3, world: int,
    ):  # fmt: skip
        """Return the centre of a geometry a with respect to a mesh b."""
        tree = geometries.link_tree[geometries.link[a]]
        row = wp.min(world, geometry_size.shape[0] - 1)
        size = geometry_size[row, a]
        pose_b = frame.geometry_pose(
            b, geometries.link[b], tree, geometries.link_tree, geometry_placement, pose, origin, world
        )
        result = Centre()
        result.turn = wp.transform_get_rotation(pose_b)
        result.start = wp.quat_rotate_inv(result.turn, centre - wp.transform_get_translation(pose_b))
        result.displacement = wp.quat_rotate_inv(result.turn, displacement)
        result.radius = balls.ball_radius(geometries, packed, a, size)
        result.field = mesh.field_of(geometries, b, geometry_size[row, b], triangles, world)
        return result

    @wp.func
    def stop(centre: Centre, corners: mat33):
        """Return the change of a displacement that pierces a triangle, in world axes."""
        normal = wp.normalize(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
        height = wp.dot(normal, centre.start - corners[0])
        closing = -wp.dot(normal, centre.displacement)
        cosine = wp.max(closing / wp.length(centre.displacement), scalar(LEAST_COSINE))
        change = wp.max(wp.min(closing, closing - height + scalar(CLEARANCE) * centre.radius * cosine), zero)
        return change * wp.quat_rotate(centre.turn, normal)

    @wp.func
    def first_pierced(data: Triangles, centre: Centre):
        """Return the first triangle that a displacement pierces from outside, -1 for none, and the fraction of it up to there."""
        displacement = (one + scalar(CLEARANCE) * centre.radius / wp.length(centre.displacement)) * centre.displacement
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

    @wp.kernel(module=module, enable_backward=False)
    def find_stops(
        # Model
        joint_qd_start: wp.array(dtype=int),
        geometries: Geometries,
        packed: PackedShapes,
        triangles: Triangles,
        stop_pairs: StopPairs,
        dt: scalar,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        link_inertia: wp.array2d(dtype=inertia10),
        qd_unstopped: wp.array2d(dtype=scalar),
        # Data out
        stop_pair: wp.array2d(dtype=int),
        stop_triangle: wp.array2d(dtype=int),
        stop_shift: wp.array2d(dtype=vec3),
    ):
        """Find the triangles that stop each body in turn, STOPS rows a body.

        stop_pair: -1 for none; stop_triangle: of the pair's mesh; stop_shift: change of each body's displacement, m.
        """
        item, world = wp.tid()
        for n in range(wp.static(STOPS)):
            stop_pair[STOPS * item + n, world] = -1
        link = stop_pairs.link[item]
        k = joint_qd_start[link]
        arm = arm_of(link_inertia[link, world])
        linear = three(qd_unstopped, world, k)
        spin = three(qd_unstopped, world, k + 3)
        shift = vec3()
        count = wp.int32(0)
        while count < STOPS:
            row = STOPS * item + count
            count = STOPS
            earliest = scalar(2.0)
            change = vec3()
            for pair in range(stop_pairs.start[item], stop_pairs.start[item + 1]):
                a = stop_pairs.body[pair]
                size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), a]
                position, displacement = displacement_of(
                    geometries, packed, geometry_placement, size, pose, origin, a, arm, linear, spin, dt, world
                )
                displacement += shift
                if wp.length_sq(displacement) > zero:
                    centre = centre_of(
                        geometries, packed, triangles, geometry_placement, geometry_size, pose, origin, a,
                        stop_pairs.mesh[pair], position, displacement, world,
                    )  # fmt: skip
                    triangle, share = first_pierced(triangles, centre)
                    if triangle >= 0 and share < earliest:
                        earliest = share
                        stop_pair[row, world] = pair
                        stop_triangle[row, world] = triangle
                        count = row - STOPS * item + 1
                        change = -displacement
                        if count < STOPS:
                            corners = mesh.corners_at(triangles, centre.field, mesh.key_at(centre.field, triangle))
                            change = stop(centre, corners)
            shift += change
        stop_shift[item, world] = shift

    @wp.kernel(module=module)
    def stop_shifts(
        # Model
        joint_qd_start: wp.array(dtype=int),
        geometries: Geometries,
        packed: PackedShapes,
        triangles: Triangles,
        stop_pairs: StopPairs,
        dt: scalar,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        link_inertia: wp.array2d(dtype=inertia10),
        qd_unstopped: wp.array2d(dtype=scalar),
        stop_pair: wp.array2d(dtype=int),
        stop_triangle: wp.array2d(dtype=int),
        # Data out
        stop_shift: wp.array2d(dtype=vec3),
    ):
        """Compute the same shifts from the triangles, with Warp's own adjoint."""
        item, world = wp.tid()
        link = stop_pairs.link[item]
        k = joint_qd_start[link]
        arm = arm_of(link_inertia[link, world])
        linear = three(qd_unstopped, world, k)
        spin = three(qd_unstopped, world, k + 3)
        shift = vec3()
        for n in range(wp.static(STOPS)):
            pair = stop_pair[STOPS * item + n, world]
            if pair >= 0:
                a = stop_pairs.body[pair]
                size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), a]
                position, displacement = displacement_of(
                    geometries, packed, geometry_placement, size, pose, origin, a, arm, linear, spin, dt, world
                )
                centre = centre_of(
                    geometries, packed, triangles, geometry_placement, geometry_size, pose, origin, a,
                    stop_pairs.mesh[pair], position, shift + displacement, world,
                )  # fmt: skip
                if n == STOPS - 1:
                    shift -= wp.quat_rotate(centre.turn, centre.displacement)
                else:
                    triangle = stop_triangle[STOPS * item + n, world]
                    corners = mesh.corners_at(triangles, centre.field, mesh.key_at(centre.field, triangle))
                    shift += stop(centre, corners)
        stop_shift[item, world] = shift

    @wp.kernel(module=module)
    def apply_stops(
        # Model
        stop_pairs: StopPairs,
        bouncing: int,
        dt: scalar,
        # Data in
        stop_shift: wp.array2d(dtype=vec3),
        qd_solved: wp.array2d(dtype=scalar),
        qd_unstopped: wp.array2d(dtype=scalar),
        # Data out
        qd_next: wp.array2d(dtype=scalar),
        qd_path: wp.array2d(dtype=scalar),
    ):
        """Change the velocities after the step; qd_path: no other array unless something may bounce."""
        k, world = wp.tid()
        first_dof = stop_pairs.dof[k]
        change = zero
        if first_dof >= 0:
            shift = stop_shift[first_dof // 3, world]
            change = shift[first_dof % 3] / dt
        qd_next[world, k] = qd_solved[world, k] + change
        if bouncing == 1:
            qd_path[world, k] = qd_unstopped[world, k] + change

    return SimpleNamespace(module=module, find_stops=find_stops, stop_shifts=stop_shifts, apply_stops=apply_stops)
