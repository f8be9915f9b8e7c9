"""The adjoint of forward kinematics, written by hand: nothing of the forward part is run again.

One pass from the leaves to the roots. What reaches a link is kept as two vectors in world axes: ``turn_bar``, the derivative in a
rotation of the link about its own origin, and ``shift_bar``, that in a displacement of it. A unit quaternion q turned by a small
world rotation d changes by (d, 0) q / 2, which leads from derivatives in quaternions to those in rotations and back.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.kinematics.kinematics import joint_functions
from warp_kernels.types import FREE, PRISMATIC, REVOLUTE, SPHERICAL, kernel_module, lane_types, warp_types


@functools.cache
def turn_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """From derivatives in unit quaternions to those in rotations and back."""
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    quat, vec3 = t.quat, t.vec3

    @wp.func
    def turn_of_quaternion(q: quat, q_bar: quat):
        """Derivative in a world rotation, from that in the unit quaternion it turns."""
        v = a.imaginary(q)
        v_bar = a.imaginary(q_bar)
        return scalar(0.5) * (a.scale(q[3], v_bar) + a.cross(v, v_bar) - a.scale(q_bar[3], v))

    @wp.func
    def quaternion_of_turn(q: quat, turn: vec3):
        """Derivative in a unit quaternion, tangent to the unit sphere, from that in a rotation to the left of it."""
        v = a.imaginary(q)
        v_bar = scalar(2.0) * (a.scale(q[3], turn) - a.cross(v, turn))
        return a.make_quat(v_bar[0], v_bar[1], v_bar[2], scalar(-2.0) * a.dot(turn, v))

    return SimpleNamespace(turn_of_quaternion=turn_of_quaternion, quaternion_of_turn=quaternion_of_turn)


@functools.cache
def kinematics_adjoint_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """The adjoint of the kernel ``kinematics`` for one precision, launched over (tree, block of worlds)."""
    t, one, a, sp = (
        lane_types(scalar, lanes),
        warp_types(scalar),
        algebra(scalar, lanes),
        spatial_functions(scalar, lanes),
    )
    joints, turns = joint_functions(scalar, lanes), turn_functions(scalar, lanes)
    vec3, quat, transform, spatial, inertia10 = t.vec3, t.quat, t.transform, t.spatial, t.inertia
    axis3 = one.vec3
    module = kernel_module("kinematics_adjoint", scalar, lanes)
    numbers, array2d, states2d = wp.array(dtype=scalar), wp.array2d(dtype=scalar), t.states2d
    vectors, motions = wp.array2d(dtype=vec3), wp.array2d(dtype=spatial)
    one_vectors, one_matrices = wp.array2d(dtype=one.vec3), wp.array2d(dtype=one.mat33)

    @wp.func
    def put_quaternion_bar(q: states2d, buffer: numbers, q_bar: states2d, block: int, start: int, turn: vec3):
        """Put the derivative in a quaternion that is normalised on entry; nothing where it is zero, which stands for no turn."""
        given = a.load_quat(q, block, start)
        over = a.over_length(given)
        unit_bar = turns.quaternion_of_turn(a.unit(given), turn)
        for i in range(4):
            a.put_bar(buffer, q_bar, block, start + i, a.mul(unit_bar[i], over))

    @wp.func
    def add_column_bars(
        axis: vec3, r: vec3, column_bar: spatial, link: int, block: int, turn_bar: vectors, shift_bar: vectors
    ):
        """Add what the column of a rotational degree of freedom gives."""
        linear = a.linear(column_bar)
        turn_bar[link, block] = turn_bar[link, block] + a.cross(axis, a.angular(column_bar) + a.cross(linear, r))
        shift_bar[link, block] = shift_bar[link, block] + a.cross(axis, linear)

    @wp.func
    def add_subspace_bars(
        kind: int,
        axis: axis3,
        own: transform,
        dof: int,
        subspace_bar: motions,
        link: int,
        block: int,
        turn_bar: vectors,
        shift_bar: vectors,
    ):
        """Add what the motion subspace gives; that of a free joint is constant."""
        p = a.position(own)
        r = a.rotation(own)
        if kind == REVOLUTE:
            column_bar = subspace_bar[dof, block]
            add_column_bars(a.rotate(r, a.same_vec3(axis)), p, column_bar, link, block, turn_bar, shift_bar)
        if kind == PRISMATIC:
            turn_bar[link, block] = turn_bar[link, block] + a.cross(
                a.rotate(r, a.same_vec3(axis)), a.linear(subspace_bar[dof, block])
            )
        if kind == SPHERICAL:
            for k in range(3):
                column = a.rotate(r, joints.basis(k))
                add_column_bars(column, p, subspace_bar[dof + k, block], link, block, turn_bar, shift_bar)

    @wp.func
    def symmetric(i: inertia10):
        """The matrix whose product with a change of the rotational inertia is that of the ten entries."""
        half = scalar(0.5)
        return a.mat_rows(
            a.make_vec3(i[4], half * i[7], half * i[8]),
            a.make_vec3(half * i[7], i[5], half * i[9]),
            a.make_vec3(half * i[8], half * i[9], i[6]),
        )

    @wp.func
    def add_inertia_bars(
        own: transform,
        mass: array2d,
        com: one_vectors,
        ten: inertia10,
        about_origin: inertia10,
        link: int,
        block: int,
        turn_bar: vectors,
        shift_bar: vectors,
        mass_bar: array2d,
        com_bar: one_vectors,
        inertia_bar: one_matrices,
    ):
        """Add what the spatial inertia about the tree's origin gives: h = m c, I = R Ic R' + (h . c) 1 - h c'."""
        r = a.rotation(own)
        m = a.own_scalar(mass, block, link)
        offset = a.rotate(r, a.own_vec3(com, block, link))
        c = a.position(own) + offset
        h_bar = sp.first_moment(ten)
        g = symmetric(ten)
        g_c = a.mat_vec(g, c)
        trace = ten[4] + ten[5] + ten[6]
        c_bar = a.scale(m, h_bar + scalar(2.0) * (a.scale(trace, c) - g_c))
        cc = a.dot(c, c)
        # R Ic R' = I - m (c . c) 1 + m c c' turns with the link: twice the axial vector of its product with g.
        turn = a.axial(sp.rotational(about_origin), g) + a.cross(a.scale(m, c), g_c)
        turn_bar[link, block] = turn_bar[link, block] + scalar(2.0) * turn + a.cross(offset, c_bar)
        shift_bar[link, block] = shift_bar[link, block] + c_bar
        if mass_bar.shape[0] > 0:
            a.add_scalar(mass_bar, block, link, ten[0] + a.dot(h_bar, c) + a.mul(trace, cc) - a.dot(c, g_c))
        if com_bar.shape[0] > 0:
            a.add_vec3(com_bar, block, link, a.rotate_back(r, c_bar))
        if inertia_bar.shape[0] > 0:
            rows = a.matrix(r)
            in_link = (
                a.outer(a.mat_row(rows, 0), a.vec_mat(a.mat_row(g, 0), rows))
                + a.outer(a.mat_row(rows, 1), a.vec_mat(a.mat_row(g, 1), rows))
                + a.outer(a.mat_row(rows, 2), a.vec_mat(a.mat_row(g, 2), rows))
            )
            a.add_mat33(inertia_bar, block, link, in_link)

    @wp.func
    def put_q_bars(
        kind: int,
        axis: axis3,
        own: quat,
        q: states2d,
        start: int,
        turn: vec3,
        shift: vec3,
        block: int,
        buffer: numbers,
        q_bar: states2d,
    ):
        """Put the derivatives in the coordinates of a joint. A joint's own turn leads from the link's axes to its frame's."""
        if kind == REVOLUTE:
            a.put_bar(buffer, q_bar, block, start, a.dot(a.rotate(own, a.same_vec3(axis)), turn))
        if kind == PRISMATIC:
            a.put_bar(buffer, q_bar, block, start, a.dot(a.rotate(own, a.same_vec3(axis)), shift))
        if kind == SPHERICAL:
            joint_turn = joints.load_turn(q, block, start)
            put_quaternion_bar(q, buffer, q_bar, block, start, a.rotate(joint_turn, a.rotate_back(own, turn)))
        if kind == FREE:
            joint_turn = joints.load_turn(q, block, start + 3)
            position_bar = a.rotate(joint_turn, a.rotate_back(own, shift))
            for i in range(3):
                a.put_bar(buffer, q_bar, block, start + i, position_bar[i])
            put_quaternion_bar(q, buffer, q_bar, block, start + 3, a.rotate(joint_turn, a.rotate_back(own, turn)))

    @wp.func
    def add_moved_turn(
        kind: int,
        axis: axis3,
        own: quat,
        q: states2d,
        start: int,
        shift: vec3,
        link: int,
        block: int,
        turn_bar: vectors,
    ):
        """A turn of the joint's frame swings what the joint moves away from it."""
        if kind == PRISMATIC:
            along = a.rotate(own, a.same_vec3(axis))
            turn_bar[link, block] = turn_bar[link, block] + a.cross(a.scale(a.load(q, block, start), along), shift)
        if kind == FREE:
            joint_turn = joints.load_turn(q, block, start + 3)
            moved = a.rotate(own, a.rotate_back(joint_turn, a.load_vec3(q, block, start)))
            turn_bar[link, block] = turn_bar[link, block] + a.cross(moved, shift)

    @wp.func
    def placement_change(carrier: quat, placement: transform, turn: vec3, shift: vec3):
        return a.make_pose(
            a.rotate_back(carrier, shift),
            turns.quaternion_of_turn(a.rotation(placement), a.rotate_back(carrier, turn)),
        )

    @wp.kernel(module=module, enable_backward=False)
    def kinematics_adjoint(
        # Model
        visit_start: wp.array(dtype=int),
        visit: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        joint_axis: wp.array(dtype=one.vec3),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        nq: int,
        # Parameters
        joint_placement: wp.array2d(dtype=one.transform),
        mass: wp.array2d(dtype=scalar),
        com: wp.array2d(dtype=one.vec3),
        # Data in
        q: t.states2d,
        pose: wp.array2d(dtype=transform),
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint in
        pose_bar: wp.array2d(dtype=transform),
        origin_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
        # Adjoint out
        turn_bar: wp.array2d(dtype=vec3),
        shift_bar: wp.array2d(dtype=vec3),
        q_bar_buffer: numbers,
        joint_placement_bar: wp.array2d(dtype=one.transform),
        mass_bar: wp.array2d(dtype=scalar),
        com_bar: wp.array2d(dtype=one.vec3),
        inertia_bar: wp.array2d(dtype=one.mat33),
        q_bar: t.states2d,
    ):
        """turn_bar, shift_bar and q_bar_buffer are scratch; the other outputs are added to. Arrays of no rows are left out."""
        tree, block = wp.tid()
        if q_bar.shape[0] > 0:
            a.begin(q_bar_buffer, block, nq)
        first = visit_start[tree]
        last = visit_start[tree + 1]
        for place in range(first, last):
            link = visit[place]
            bar = pose_bar[link, block]
            turn_bar[link, block] = turns.turn_of_quaternion(a.rotation(pose[link, block]), a.rotation(bar))
            shift_bar[link, block] = a.position(bar)
        for reverse in range(last - first):
            link = visit[last - 1 - reverse]
            parent = link_parent[link]
            kind = joint_type[link]
            axis = joint_axis[link]
            own = pose[link, block]
            start = joint_q_start[link]
            if subspace_bar.shape[0] > 0:
                dof = joint_qd_start[link]
                add_subspace_bars(kind, axis, own, dof, subspace_bar, link, block, turn_bar, shift_bar)
            if link_inertia_bar.shape[0] > 0:
                add_inertia_bars(
                    own, mass, com, link_inertia_bar[link, block], link_inertia[link, block], link, block,
                    turn_bar, shift_bar, mass_bar, com_bar, inertia_bar,
                )  # fmt: skip
            # The joint: pose = pose of the parent * placement * joint transform.
            if parent < 0:
                shift_bar[link, block] = origin_bar[tree, block]
            turn = turn_bar[link, block]
            shift = shift_bar[link, block]
            if q_bar.shape[0] > 0:
                put_q_bars(kind, axis, a.rotation(own), q, start, turn, shift, block, q_bar_buffer, q_bar)
            if parent >= 0:
                arm = a.position(own) - a.position(pose[parent, block])
                turn_bar[parent, block] = turn_bar[parent, block] + turn + a.cross(arm, shift)
                shift_bar[parent, block] = shift_bar[parent, block] + shift
            if joint_placement_bar.shape[0] > 0:
                add_moved_turn(kind, axis, a.rotation(own), q, start, shift, link, block, turn_bar)
                placement = a.own_transform(joint_placement, block, link)
                whole_turn = turn_bar[link, block]
                if parent >= 0:
                    carrier = a.rotation(pose[parent, block])
                    change = placement_change(carrier, placement, whole_turn, shift)
                    a.add_transform(joint_placement_bar, block, link, change)
                else:
                    change_of_root = placement_change(a.no_turn(), placement, whole_turn, shift)
                    a.add_transform(joint_placement_bar, block, link, change_of_root)
        if q_bar.shape[0] > 0:
            a.end_bars(q_bar_buffer, q_bar, block, tree, nq)

    return SimpleNamespace(module=module, kinematics_adjoint=kinematics_adjoint)
