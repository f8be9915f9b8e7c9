"""The adjoint of forward kinematics, written by hand: half the time of the generated one.

One pass from the leaves to the roots. What reaches a link is kept as two vectors in world axes: ``turn_bar``, the derivative in a
rotation of the link about its own origin, and ``shift_bar``, that in a displacement of it. A unit quaternion q turned by a small
world rotation d changes by (d, 0) q / 2, which leads from derivatives in quaternions to those in rotations and back.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.spatial import spatial_functions
from warp_kernels.types import FREE, PRISMATIC, REVOLUTE, SPHERICAL, kernel_module, warp_types


@functools.cache
def kinematics_adjoint_kernels(scalar: Any) -> SimpleNamespace:
    """The adjoint of the kernel ``kinematics`` for one precision, launched over (tree, world)."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, quat, mat33, transform, spatial, inertia10 = t.vec3, t.quat, t.mat33, t.transform, t.spatial, t.inertia
    module = kernel_module("kinematics_adjoint", scalar)
    array2d = wp.array2d(dtype=scalar)

    @wp.func
    def turn_of_quaternion(q: quat, q_bar: quat):
        """Derivative in a world rotation, from that in the unit quaternion it turns."""
        v = vec3(q[0], q[1], q[2])
        v_bar = vec3(q_bar[0], q_bar[1], q_bar[2])
        return scalar(0.5) * (q[3] * v_bar + wp.cross(v, v_bar) - q_bar[3] * v)

    @wp.func
    def quaternion_of_turn(q: quat, turn: vec3):
        """Derivative in a unit quaternion, tangent to the unit sphere, from that in a rotation to the left of it."""
        v = vec3(q[0], q[1], q[2])
        v_bar = scalar(2.0) * (q[3] * turn - wp.cross(v, turn))
        return quat(v_bar[0], v_bar[1], v_bar[2], scalar(-2.0) * wp.dot(turn, v))

    @wp.func
    def add_quaternion_bar(q: array2d, q_bar: array2d, world: int, start: int, turn: vec3):
        """Add the derivative in a quaternion that is normalised on entry."""
        raw = quat(q[world, start], q[world, start + 1], q[world, start + 2], q[world, start + 3])
        length = wp.length(raw)
        unit_bar = quaternion_of_turn(raw / length, turn)
        for i in range(4):
            q_bar[world, start + i] += unit_bar[i] / length

    @wp.func
    def axis_bars(axis: vec3, r: vec3, column_bar: spatial):
        """What the column of a rotational degree of freedom gives: (derivative in a turn, in the link's position)."""
        linear = sp.linear(column_bar)
        axis_bar = sp.angular(column_bar) + wp.cross(linear, r)
        return wp.cross(axis, axis_bar), wp.cross(axis, linear)

    @wp.func
    def symmetric(i: inertia10):
        """The matrix whose product with a change of the rotational inertia is that of the ten entries."""
        half = scalar(0.5)
        return mat33(
            i[4], half * i[7], half * i[8], half * i[7], i[5], half * i[9], half * i[8], half * i[9], i[6]
        )  # fmt: skip

    @wp.kernel(module=module, enable_backward=False)
    def kinematics_adjoint(
        # Model
        visit_start: wp.array(dtype=int),
        visit: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        joint_axis: wp.array(dtype=vec3),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Parameters
        joint_placement: wp.array2d(dtype=transform),
        mass: wp.array2d(dtype=scalar),
        com: wp.array2d(dtype=vec3),
        # Data in
        q: wp.array2d(dtype=scalar),
        pose: wp.array2d(dtype=transform),
        link_inertia: wp.array2d(dtype=inertia10),
        pose_bar: wp.array2d(dtype=transform),
        origin_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
        # Adjoint out
        turn_bar: wp.array2d(dtype=vec3),
        shift_bar: wp.array2d(dtype=vec3),
        joint_placement_bar: wp.array2d(dtype=transform),
        mass_bar: wp.array2d(dtype=scalar),
        com_bar: wp.array2d(dtype=vec3),
        inertia_bar: wp.array2d(dtype=mat33),
        q_bar: wp.array2d(dtype=scalar),
    ):
        """turn_bar and shift_bar are scratch; the other outputs are added to. Arrays of no rows are left out."""
        tree, world = wp.tid()
        first = visit_start[tree]
        last = visit_start[tree + 1]
        for place in range(first, last):
            link = visit[place]
            bar = pose_bar[link, world]
            turn_bar[link, world] = turn_of_quaternion(
                wp.transform_get_rotation(pose[link, world]), wp.transform_get_rotation(bar)
            )
            shift_bar[link, world] = wp.transform_get_translation(bar)
        for reverse in range(last - first):
            link = visit[last - 1 - reverse]
            parent = link_parent[link]
            kind = joint_type[link]
            own = pose[link, world]
            r = wp.transform_get_translation(own)
            turn = turn_bar[link, world]
            shift = shift_bar[link, world]
            axis = wp.transform_vector(own, joint_axis[link])
            # The motion subspace; that of a free joint is constant.
            if subspace_bar.shape[0] > 0:
                dof = joint_qd_start[link]
                if kind == REVOLUTE:
                    turn_part, shift_part = axis_bars(axis, r, subspace_bar[dof, world])
                    turn += turn_part
                    shift += shift_part
                if kind == PRISMATIC:
                    turn += wp.cross(axis, sp.linear(subspace_bar[dof, world]))
                if kind == SPHERICAL:
                    rotation = wp.quat_to_matrix(wp.transform_get_rotation(own))
                    for k in range(3):
                        column = vec3(rotation[0, k], rotation[1, k], rotation[2, k])
                        turn_part, shift_part = axis_bars(column, r, subspace_bar[dof + k, world])
                        turn += turn_part
                        shift += shift_part
            # The spatial inertia about the tree's origin: h = m c, I = R Ic R' + (h . c) 1 - h c'.
            if link_inertia_bar.shape[0] > 0:
                ten = link_inertia_bar[link, world]
                h_bar = sp.first_moment(ten)
                g = symmetric(ten)
                trace = g[0, 0] + g[1, 1] + g[2, 2]
                m = mass[wp.min(world, mass.shape[0] - 1), link]
                offset = wp.transform_vector(own, com[wp.min(world, com.shape[0] - 1), link])
                c = r + offset
                g_c = g * c
                c_bar = m * (h_bar + scalar(2.0) * (trace * c - g_c))
                about_com = sp.rotational(link_inertia[link, world]) - m * (
                    wp.dot(c, c) * wp.identity(n=3, dtype=scalar) - wp.outer(c, c)
                )
                x = about_com * g
                turn += scalar(2.0) * vec3(x[1, 2] - x[2, 1], x[2, 0] - x[0, 2], x[0, 1] - x[1, 0])
                turn += wp.cross(offset, c_bar)
                shift += c_bar
                if mass_bar.shape[0] > 0:
                    mass_part = ten[0] + wp.dot(h_bar, c) + trace * wp.dot(c, c) - wp.dot(c, g_c)
                    wp.atomic_add(mass_bar, wp.min(world, mass_bar.shape[0] - 1), link, mass_part)
                if com_bar.shape[0] > 0:
                    turned = wp.quat_rotate_inv(wp.transform_get_rotation(own), c_bar)
                    wp.atomic_add(com_bar, wp.min(world, com_bar.shape[0] - 1), link, turned)
                if inertia_bar.shape[0] > 0:
                    rotation = wp.quat_to_matrix(wp.transform_get_rotation(own))
                    turned_back = wp.transpose(rotation) * g * rotation
                    wp.atomic_add(inertia_bar, wp.min(world, inertia_bar.shape[0] - 1), link, turned_back)
            # The joint: pose = pose of the parent * placement * joint transform.
            placement = joint_placement[wp.min(world, joint_placement.shape[0] - 1), link]
            carrier = quat(scalar(0.0), scalar(0.0), scalar(0.0), scalar(1.0))
            if parent >= 0:
                carrier = wp.transform_get_rotation(pose[parent, world])
            else:
                shift = origin_bar[tree, world]
            frame = carrier * wp.transform_get_rotation(placement)
            start = joint_q_start[link]
            moved = vec3()
            if kind == PRISMATIC:
                moved = axis * q[world, start]
            if kind == FREE:
                moved = wp.quat_rotate(frame, vec3(q[world, start], q[world, start + 1], q[world, start + 2]))
            if q_bar.shape[0] > 0:
                if kind == REVOLUTE:
                    q_bar[world, start] += wp.dot(axis, turn)
                if kind == PRISMATIC:
                    q_bar[world, start] += wp.dot(axis, shift)
                if kind == SPHERICAL:
                    add_quaternion_bar(q, q_bar, world, start, wp.quat_rotate_inv(frame, turn))
                if kind == FREE:
                    position_bar = wp.quat_rotate_inv(frame, shift)
                    for i in range(3):
                        q_bar[world, start + i] += position_bar[i]
                    add_quaternion_bar(q, q_bar, world, start + 3, wp.quat_rotate_inv(frame, turn))
            if joint_placement_bar.shape[0] > 0:
                placement_turn = wp.quat_rotate_inv(carrier, turn + wp.cross(moved, shift))
                pose_change = transform(
                    wp.quat_rotate_inv(carrier, shift),
                    quaternion_of_turn(wp.transform_get_rotation(placement), placement_turn),
                )
                row = wp.min(world, joint_placement_bar.shape[0] - 1)
                wp.atomic_add(joint_placement_bar, row, link, pose_change)
            if parent >= 0:
                arm = r - wp.transform_get_translation(pose[parent, world])
                turn_bar[parent, world] += turn + wp.cross(arm, shift)
                shift_bar[parent, world] += shift

    return SimpleNamespace(module=module, kinematics_adjoint=kinematics_adjoint)
