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
from warp_kernels.collision.structs import collision_structs
from warp_kernels.kinematics.recentre import recentre_functions
from warp_kernels.stops.piercing import CLEARANCE, piercing_functions
from warp_kernels.types import kernel_module, warp_types

# Stops of a body in a step. The last one ends the motion: two planes may each lead through the other one.
STOPS = 3
# For grazing paths the clearance is this times smaller.
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
        dof_tree: slowed tree of a degree of freedom, see :class:`warp_kernels.stops.trees.TreePairs`; -1 for none [dof].
    """

    link: wp.array(dtype=int)
    start: wp.array(dtype=int)
    body: wp.array(dtype=int)
    mesh: wp.array(dtype=int)
    dof: wp.array(dtype=int)
    dof_tree: wp.array(dtype=int)


@functools.cache
def stop_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels of one precision, in the order of their launches: ``find_stops``, ``stop_shifts`` for its adjoint alone, ``apply_stops``."""
    t = warp_types(scalar)
    vec3, transform, inertia10 = t.vec3, t.transform, t.inertia
    piercing = piercing_functions(scalar)
    Centre = piercing.Centre
    three, arm_of = recentre_functions(scalar).three, recentre_functions(scalar).arm_of
    rotation_exp = rotation_vector_functions(scalar).rotation_exp
    structs = collision_structs(scalar)
    Geometries, PackedShapes, Triangles = structs.Geometries, structs.PackedShapes, structs.Triangles
    module = kernel_module("stops", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def displacement_of(
        geometries: Geometries, packed: PackedShapes, geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3), pose: wp.array2d(dtype=transform), origin: wp.array2d(dtype=vec3), a: int, arm: vec3, linear: vec3, spin: vec3,
        dt: scalar, world: int,
    ):  # fmt: skip
        """Return the centre of a geometry, from the origin of its body, and its displacement.

        arm: from the origin of the body to its centre of mass. linear, spin: the velocities of a step.
        """
        centre = piercing.start_of(
            geometries, packed, geometry_placement, geometry_size, pose, origin, a, world
        )  # fmt: skip
        beside = centre - arm
        turned = wp.quat_rotate(rotation_exp(dt * spin), beside) - beside
        return centre, dt * (linear + wp.cross(spin, arm)) + turned

    @wp.func
    def stop(triangles: Triangles, centre: Centre, triangle: int):
        """Return the change of a displacement that pierces a triangle, in world axes."""
        normal, height = piercing.plane_of(triangles, centre, triangle)
        closing = -wp.dot(normal, centre.displacement)
        cosine = wp.max(closing / wp.length(centre.displacement), scalar(LEAST_COSINE))
        change = wp.max(wp.min(closing, closing - height + scalar(CLEARANCE) * centre.radius * cosine), zero)
        return change * wp.quat_rotate(centre.turn, normal)

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
                position, displacement = displacement_of(
                    geometries, packed, geometry_placement, geometry_size, pose, origin, a, arm, linear, spin, dt, world
                )
                displacement += shift
                if wp.length_sq(displacement) > zero:
                    centre = piercing.centre_of(
                        geometries, packed, triangles, geometry_placement, geometry_size, pose, origin, a,
                        stop_pairs.mesh[pair], position, displacement, world,
                    )  # fmt: skip
                    triangle, share = piercing.first_pierced(triangles, centre, scalar(CLEARANCE))
                    if triangle >= 0 and share < earliest:
                        earliest = share
                        stop_pair[row, world] = pair
                        stop_triangle[row, world] = triangle
                        count = row - STOPS * item + 1
                        change = -displacement
                        if count < STOPS:
                            change = stop(triangles, centre, triangle)
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
                position, displacement = displacement_of(
                    geometries, packed, geometry_placement, geometry_size, pose, origin, a, arm, linear, spin, dt, world
                )
                centre = piercing.centre_of(
                    geometries, packed, triangles, geometry_placement, geometry_size, pose, origin, a,
                    stop_pairs.mesh[pair], position, shift + displacement, world,
                )  # fmt: skip
                if n == STOPS - 1:
                    shift -= wp.quat_rotate(centre.turn, centre.displacement)
                else:
                    triangle = stop_triangle[STOPS * item + n, world]
                    shift += stop(triangles, centre, triangle)
        stop_shift[item, world] = shift

    @wp.kernel(module=module)
    def apply_stops(
        # Model
        stop_pairs: StopPairs,
        bouncing: int,
        dt: scalar,
        # Data in
        stop_shift: wp.array2d(dtype=vec3),
        tree_share: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        qd_unstopped: wp.array2d(dtype=scalar),
        # Data out
        qd_next: wp.array2d(dtype=scalar),
        qd_path: wp.array2d(dtype=scalar),
    ):
        """Change the velocities after the step; qd_path: no other array unless something may bounce."""
        k, world = wp.tid()
        translation = stop_pairs.dof[k]
        change = zero
        if translation >= 0:
            shift = stop_shift[translation // 3, world]
            change = shift[translation % 3] / dt
        tree = stop_pairs.dof_tree[k]
        share = one
        if tree >= 0:
            share = tree_share[tree, world]
        qd_next[world, k] = share * qd_solved[world, k] + change
        if bouncing == 1:
            qd_path[world, k] = share * qd_unstopped[world, k] + change

    return SimpleNamespace(module=module, find_stops=find_stops, stop_shifts=stop_shifts, apply_stops=apply_stops)
