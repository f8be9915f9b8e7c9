"""Stops of trees: all velocities of a robot are reduced by one factor, so that no limb passes a static triangle mesh.

The displacement of each inner ball's centre in a step, with the coordinates that the velocities after the contacts lead to, is tested
against the triangles. If it pierces one from outside, the tree moves for a share s of the step only, after which the height of the
centre over the triangle's plane is

    min(d / 2, r),

with the height d at the start and a clearance r, a fraction of the ball's radius. All velocities of the tree are multiplied by s, so
that its kinetic energy never grows. The path of a centre is curved: s is a root of the exact height, and its derivative follows from
the implicit function theorem.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.collision.touch.inner_ball import inner_ball_functions
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.kinematics.recentre import recentre_functions
from warp_kernels.stops.piercing import CLEARANCE, piercing_functions
from warp_kernels.types import FREE, PRISMATIC, REVOLUTE, SPHERICAL, kernel_module, warp_types

# Displacement in a step, in radii of the ball, up to which a centre isn't tested: contacts hold it.
SLOW = 0.25
# Rounds over the centres of a tree, after which its motion ends.
ROUNDS = 4
# Iterations for the share of a step, and the error of the height, in radii, at which they end.
ITERATIONS = 60
EXACT = 1.0e-5


@wp.struct
class TreePairs:
    """Geometries of articulated trees, and the static meshes that they may touch.

    Attributes:
        start: where the pairs of each tree start, and their end [trees + 1].
        body: geometry of the tree, in each pair [pairs].
        mesh: geometry of the mesh, in each pair [pairs].
        path_start: where the links of each pair start, and their end [pairs + 1].
        path: links from that of the geometry to the root.
        lever_start: where the degrees of freedom of each pair start, and their end [pairs + 1].
        lever_dof: degrees of freedom that move the geometry.
        lever: the largest speed that a unit velocity of each of them gives to its ball's centre, for the lengths of the model, m or 1.
    """

    start: wp.array(dtype=int)
    body: wp.array(dtype=int)
    mesh: wp.array(dtype=int)
    path_start: wp.array(dtype=int)
    path: wp.array(dtype=int)
    lever_start: wp.array(dtype=int)
    lever_dof: wp.array(dtype=int)
    lever: wp.array(dtype=float)


@functools.cache
def tree_stop_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels of one precision over (tree, world): ``find_tree_stops``, and ``tree_shares`` for its adjoint alone."""
    t = warp_types(scalar)
    vec3, transform, inertia10 = t.vec3, t.transform, t.inertia
    balls = inner_ball_functions(scalar)
    piercing = piercing_functions(scalar)
    load_turn = joint_functions(scalar).load_turn
    three, arm_of = recentre_functions(scalar).three, recentre_functions(scalar).arm_of
    rotation_exp = rotation_vector_functions(scalar).rotation_exp
    structs = collision_structs(scalar)
    Geometries, PackedShapes, Triangles = structs.Geometries, structs.PackedShapes, structs.Triangles
    module = kernel_module("tree_stops", scalar, inlined=True)
    zero, half = scalar(0.0), scalar(0.5)

    @wp.func
    def centre_in_link(
        geometries: Geometries, packed: PackedShapes, geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3), a: int, world: int,
    ):  # fmt: skip
        placement = geometry_placement[wp.min(world, geometry_placement.shape[0] - 1), a]
        size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), a]
        centre = balls.ball_centre(geometries, packed, a, size)
        turn = wp.normalize(wp.transform_get_rotation(placement))
        return wp.transform_get_translation(placement) + wp.quat_rotate(turn, centre)

    @wp.func
    def carried(
        links: Links, joint_axis: wp.array(dtype=vec3), joint_placement: wp.array2d(dtype=transform),
        link_inertia: wp.array2d(dtype=inertia10), q: wp.array2d(dtype=scalar), qd: wp.array2d(dtype=scalar),
        link: int, world: int, time: scalar, x: vec3,
    ):  # fmt: skip
        """Return where a point of a link is in its parent after a time, for a root from the tree's origin before it."""
        kind = links.joint_type[link]
        i = links.q_start[link]
        k = links.qd_start[link]
        axis = joint_axis[link]
        placement = joint_placement[wp.min(world, joint_placement.shape[0] - 1), link]
        base = vec3()
        before = zero
        if links.parent[link] >= 0:
            base = wp.transform_get_translation(placement)
            if kind == PRISMATIC:
                before = q[world, i]
        moved = x
        if kind == REVOLUTE:
            moved = wp.quat_rotate(wp.quat_from_axis_angle(axis, q[world, i] + time * qd[world, k]), x)
        if kind == PRISMATIC:
            moved = x + (before + time * qd[world, k]) * axis
        if kind == SPHERICAL:
            moved = wp.quat_rotate(load_turn(q, world, i) * rotation_exp(time * three(qd, world, k)), x)
        if kind == FREE:
            arm = arm_of(link_inertia[link, world])
            spin = three(qd, world, k + 3)
            turn = rotation_exp(time * spin)
            moved = wp.quat_rotate(turn, wp.quat_rotate(load_turn(q, world, i + 3), x) - arm)
            moved += arm + time * (three(qd, world, k) + wp.cross(spin, arm))
        return base + wp.quat_rotate(wp.transform_get_rotation(placement), moved)

    @wp.func
    def carried_rate(
        links: Links, joint_axis: wp.array(dtype=vec3), joint_placement: wp.array2d(dtype=transform),
        link_inertia: wp.array2d(dtype=inertia10), q: wp.array2d(dtype=scalar), qd: wp.array2d(dtype=scalar),
        link: int, world: int, time: scalar, x: vec3, x_rate: vec3,
    ):  # fmt: skip
        """Return the velocity of that point in the parent at that time, with its velocity in the link."""
        kind = links.joint_type[link]
        i = links.q_start[link]
        k = links.qd_start[link]
        axis = joint_axis[link]
        rate = x_rate
        if kind == REVOLUTE:
            turn = wp.quat_from_axis_angle(axis, q[world, i] + time * qd[world, k])
            rate = wp.quat_rotate(turn, x_rate) + qd[world, k] * wp.cross(axis, wp.quat_rotate(turn, x))
        if kind == PRISMATIC:
            rate = x_rate + qd[world, k] * axis
        if kind == SPHERICAL:
            spin = three(qd, world, k)
            turn = load_turn(q, world, i) * rotation_exp(time * spin)
            rate = wp.quat_rotate(turn, x_rate + wp.cross(spin, x))
        if kind == FREE:
            arm = arm_of(link_inertia[link, world])
            spin = three(qd, world, k + 3)
            turn = rotation_exp(time * spin)
            start = load_turn(q, world, i + 3)
            beside = wp.quat_rotate(turn, wp.quat_rotate(start, x) - arm)
            rate = wp.quat_rotate(turn, wp.quat_rotate(start, x_rate)) + wp.cross(spin, beside)
            rate += three(qd, world, k) + wp.cross(spin, arm)
        placement = joint_placement[wp.min(world, joint_placement.shape[0] - 1), link]
        return wp.quat_rotate(wp.transform_get_rotation(placement), rate)

    @wp.func
    def motion_after(
        links: Links, joint_axis: wp.array(dtype=vec3), tree_pairs: TreePairs,
        joint_placement: wp.array2d(dtype=transform), link_inertia: wp.array2d(dtype=inertia10),
        q: wp.array2d(dtype=scalar), qd: wp.array2d(dtype=scalar), pair: int, world: int, time: scalar, point: vec3,
    ):  # fmt: skip
        """Return where a point of a pair's link is after a time, from the tree's origin before it, and its velocity."""
        x = point
        rate = vec3()
        for n in range(tree_pairs.path_start[pair], tree_pairs.path_start[pair + 1]):
            link = tree_pairs.path[n]
            rate = carried_rate(
                links, joint_axis, joint_placement, link_inertia, q, qd, link, world, time, x, rate
            )  # fmt: skip
            x = carried(links, joint_axis, joint_placement, link_inertia, q, qd, link, world, time, x)
        return x, rate

    @wp.func
    def largest_speed(tree_pairs: TreePairs, qd: wp.array2d(dtype=scalar), pair: int, world: int):
        """Return an upper bound on the speed of a centre."""
        speed = scalar(0.0)
        for n in range(tree_pairs.lever_start[pair], tree_pairs.lever_start[pair + 1]):
            speed += wp.abs(qd[world, tree_pairs.lever_dof[n]]) * scalar(tree_pairs.lever[n])
        return speed

    @wp.kernel(module=module, enable_backward=False)
    def find_tree_stops(
        # Model
        links: Links,
        joint_axis: wp.array(dtype=vec3),
        geometries: Geometries,
        packed: PackedShapes,
        triangles: Triangles,
        tree_pairs: TreePairs,
        dt: scalar,
        # Parameters
        joint_placement: wp.array2d(dtype=transform),
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        link_inertia: wp.array2d(dtype=inertia10),
        q: wp.array2d(dtype=scalar),
        qd_unstopped: wp.array2d(dtype=scalar),
        # Data out
        slowing_pair: wp.array2d(dtype=int),
        slowing_triangle: wp.array2d(dtype=int),
        slowed_share: wp.array2d(dtype=scalar),
        closing_rate: wp.array2d(dtype=scalar),
        tree_share: wp.array2d(dtype=scalar),
    ):
        """Find the share of the step for which each tree moves, with the pair and the triangle that determine it.

        slowing_pair: -1 for none; slowing_triangle: of the pair's mesh; closing_rate: velocity of the centre along the
        triangle's normal after the share of the step.
        """
        item, world = wp.tid()
        share = scalar(1.0)
        slowing_pair[item, world] = -1
        rounds = int(0)
        slower = int(1)
        while slower == 1 and rounds < ROUNDS:
            rounds += 1
            slower = int(0)
            for pair in range(tree_pairs.start[item], tree_pairs.start[item + 1]):
                a = tree_pairs.body[pair]
                radius = piercing.radius_of(geometries, packed, geometry_size, a, world)
                furthest = share * dt * largest_speed(tree_pairs, qd_unstopped, pair, world)
                if furthest > scalar(SLOW) * radius:
                    start = piercing.start_of(
                        geometries, packed, geometry_placement, geometry_size, pose, origin, a, world
                    )  # fmt: skip
                    centre = piercing.centre_of(
                        geometries, packed, triangles, geometry_placement, geometry_size, pose, origin, a,
                        tree_pairs.mesh[pair], start, vec3(), world,
                    )  # fmt: skip
                    triangle = wp.int32(-1)
                    if piercing.has_triangle_within(centre, furthest):
                        point = centre_in_link(geometries, packed, geometry_placement, geometry_size, a, world)
                        end, rate = motion_after(
                            links, joint_axis, tree_pairs, joint_placement, link_inertia, q, qd_unstopped, pair, world,
                            share * dt, point,
                        )  # fmt: skip
                        centre.displacement = wp.quat_rotate_inv(centre.turn, end - start)
                        if wp.length_sq(centre.displacement) > zero:
                            triangle, _fraction = piercing.first_pierced(triangles, centre, zero)
                    if triangle >= 0:
                        slower = 1
                        local, height = piercing.plane_of(triangles, centre, triangle)
                        normal = wp.quat_rotate(centre.turn, local)
                        target = wp.min(half * height, scalar(CLEARANCE) * radius)
                        low = scalar(0.0)
                        high = scalar(share)
                        for _iteration in range(ITERATIONS):
                            error = height + wp.dot(normal, end - start) - target
                            if wp.abs(error) > scalar(EXACT) * target:
                                if error > zero:
                                    low = share
                                else:
                                    high = share
                                share = share - error / (dt * wp.dot(normal, rate))
                                if not (share > low and share < high):
                                    share = half * (low + high)
                                end, rate = motion_after(
                                    links, joint_axis, tree_pairs, joint_placement, link_inertia, q, qd_unstopped,
                                    pair, world, share * dt, point,
                                )  # fmt: skip
                        slowing_pair[item, world] = pair
                        slowing_triangle[item, world] = triangle
                        slowed_share[item, world] = share
                        closing_rate[item, world] = wp.dot(normal, rate)
        if slower == 1:
            share = zero
            slowing_pair[item, world] = -1
        tree_share[item, world] = share

    @wp.kernel(module=module)
    def tree_shares(
        # Model
        links: Links,
        joint_axis: wp.array(dtype=vec3),
        geometries: Geometries,
        packed: PackedShapes,
        triangles: Triangles,
        tree_pairs: TreePairs,
        dt: scalar,
        # Parameters
        joint_placement: wp.array2d(dtype=transform),
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        link_inertia: wp.array2d(dtype=inertia10),
        q: wp.array2d(dtype=scalar),
        qd_unstopped: wp.array2d(dtype=scalar),
        slowing_pair: wp.array2d(dtype=int),
        slowing_triangle: wp.array2d(dtype=int),
        slowed_share: wp.array2d(dtype=scalar),
        closing_rate: wp.array2d(dtype=scalar),
        # Data out
        carried_point: wp.array2d(dtype=vec3),
        carried_end: wp.array2d(dtype=vec3),
        tree_share: wp.array2d(dtype=scalar),
    ):
        """Compute the same shares as roots of the height, with Warp's own adjoint.

        carried_point, carried_end: the centre in each link of its path, and from the tree's origin, at the end.
        """
        item, world = wp.tid()
        pair = slowing_pair[item, world]
        if pair >= 0:
            share = slowed_share[item, world]
            a = tree_pairs.body[pair]
            carried_point[geometries.link[a], world] = centre_in_link(
                geometries, packed, geometry_placement, geometry_size, a, world
            )
            for n in range(tree_pairs.path_start[pair], tree_pairs.path_start[pair + 1]):
                link = tree_pairs.path[n]
                moved = carried(
                    links, joint_axis, joint_placement, link_inertia, q, qd_unstopped, link, world, share * dt,
                    carried_point[link, world],
                )  # fmt: skip
                parent = links.parent[link]
                if parent >= 0:
                    carried_point[parent, world] = moved
                else:
                    carried_end[item, world] = moved
            start = piercing.start_of(geometries, packed, geometry_placement, geometry_size, pose, origin, a, world)
            centre = piercing.centre_of(
                geometries, packed, triangles, geometry_placement, geometry_size, pose, origin, a,
                tree_pairs.mesh[pair], start, carried_end[item, world] - start, world,
            )  # fmt: skip
            normal, height = piercing.plane_of(triangles, centre, slowing_triangle[item, world])
            target = wp.min(half * height, scalar(CLEARANCE) * centre.radius)
            error = height + wp.dot(normal, centre.displacement) - target
            tree_share[item, world] = share - error / (dt * closing_rate[item, world])

    return SimpleNamespace(module=module, find_tree_stops=find_tree_stops, tree_shares=tree_shares)
