"""Hand-written adjoint of forward kinematics, without recomputing the forward part.

One pass from the leaves to the roots. The adjoint of a link's pose is stored as two vectors in world axes:
``turn_bar``, the derivative in a rotation of the link about its own origin, and ``shift_bar``, that in a displacement
of it. A unit quaternion q turned by a small world rotation d changes by (d, 0) q / 2, which converts derivatives in
quaternions to those in rotations and back.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.kinematics.joints import joint_adjoint_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.types import kernel_module, lane_types, warp_types


@functools.cache
def kinematics_adjoint_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the adjoint of the kernel ``kinematics`` for one precision, launched over (tree, lane group), and
    its functions.
    """
    t, one, a, sp = (
        lane_types(scalar, lanes),
        warp_types(scalar),
        algebra(scalar, lanes),
        spatial_functions(scalar, lanes),
    )
    joints = joint_adjoint_functions(scalar, lanes)
    vec3, quat, transform, spatial, inertia10 = t.vec3, t.quat, t.transform, t.spatial, t.inertia
    module = kernel_module("kinematics_adjoint", scalar, lanes)
    numbers, array2d = wp.array(dtype=scalar), wp.array2d(dtype=scalar)
    vectors = wp.array2d(dtype=vec3)
    one_vectors, one_matrices = wp.array2d(dtype=one.vec3), wp.array2d(dtype=one.mat33)

    @wp.func
    def symmetric(i: inertia10):
        """Return the matrix whose product with a change of the rotational inertia is that of the ten entries."""
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
        group: int,
        turn_bar: vectors,
        shift_bar: vectors,
        mass_bar: array2d,
        com_bar: one_vectors,
        inertia_bar: one_matrices,
    ):
        """Add the adjoint of the spatial inertia about the tree's origin: h = m c, I = R Ic R' + (h . c) 1 - h c'."""
        r = a.rotation(own)
        m = a.load_param_scalar(mass, group, link)
        offset = a.rotate(r, a.load_param_vec3(com, group, link))
        c = a.position(own) + offset
        h_bar = sp.first_moment(ten)
        g = symmetric(ten)
        g_c = a.mat_vec(g, c)
        trace = ten[4] + ten[5] + ten[6]
        c_bar = a.scale(m, h_bar + scalar(2.0) * (a.scale(trace, c) - g_c))
        cc = a.dot(c, c)
        # R Ic R' = I - m (c . c) 1 + m c c' turns with the link: twice the axial vector of its product with g.
        turn = a.axial(sp.rotational(about_origin), g) + a.cross(a.scale(m, c), g_c)
        turn_bar[link, group] = turn_bar[link, group] + scalar(2.0) * turn + a.cross(offset, c_bar)
        shift_bar[link, group] = shift_bar[link, group] + c_bar
        if mass_bar.shape[0] > 0:
            a.add_scalar(mass_bar, group, link, ten[0] + a.dot(h_bar, c) + a.mul(trace, cc) - a.dot(c, g_c))
        if com_bar.shape[0] > 0:
            a.add_vec3(com_bar, group, link, a.rotate_back(r, c_bar))
        if inertia_bar.shape[0] > 0:
            rows = a.matrix(r)
            in_link = (
                a.outer(a.mat_row(rows, 0), a.vec_mat(a.mat_row(g, 0), rows))
                + a.outer(a.mat_row(rows, 1), a.vec_mat(a.mat_row(g, 1), rows))
                + a.outer(a.mat_row(rows, 2), a.vec_mat(a.mat_row(g, 2), rows))
            )
            a.add_mat33(inertia_bar, group, link, in_link)

    @wp.func
    def placement_change(carrier: quat, placement: transform, turn: vec3, shift: vec3):
        return a.make_pose(
            a.rotate_back(carrier, shift),
            a.quaternion_of_turn(a.rotation(placement), a.rotate_back(carrier, turn)),
        )

    @wp.kernel(module=module, enable_backward=False)
    def kinematics_adjoint(
        # Model
        visit_start: wp.array(dtype=int),
        visit: wp.array(dtype=int),
        links: Links,
        joint_axis: wp.array(dtype=one.vec3),
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
        """Propagate adjoints from the leaves to the roots. turn_bar, shift_bar and q_bar_buffer are scratch; the other
        outputs are added to. Arrays without rows are skipped.
        """
        tree, group = wp.tid()
        if q_bar.shape[0] > 0:
            a.begin(q_bar_buffer, group, nq)
        first = visit_start[tree]
        last = visit_start[tree + 1]
        for index in range(first, last):
            link = visit[index]
            bar = pose_bar[link, group]
            turn_bar[link, group] = a.turn_of_quaternion(a.rotation(pose[link, group]), a.rotation(bar))
            shift_bar[link, group] = a.position(bar)
        for reverse in range(last - first):
            link = visit[last - 1 - reverse]
            parent = links.parent[link]
            kind = links.joint_type[link]
            axis = joint_axis[link]
            own = pose[link, group]
            start = links.q_start[link]
            if subspace_bar.shape[0] > 0:
                dof = links.qd_start[link]
                joints.add_subspace_bars(kind, axis, own, dof, subspace_bar, link, group, turn_bar, shift_bar)
            if link_inertia_bar.shape[0] > 0:
                add_inertia_bars(
                    own, mass, com, link_inertia_bar[link, group], link_inertia[link, group], link, group,
                    turn_bar, shift_bar, mass_bar, com_bar, inertia_bar,
                )  # fmt: skip
            # The joint: pose = pose of the parent * placement * joint transform.
            if parent < 0:
                shift_bar[link, group] = origin_bar[tree, group]
            turn = turn_bar[link, group]
            shift = shift_bar[link, group]
            if q_bar.shape[0] > 0:
                joints.put_q_bars(kind, axis, a.rotation(own), q, start, turn, shift, group, q_bar_buffer, q_bar)
            if parent >= 0:
                arm = a.position(own) - a.position(pose[parent, group])
                turn_bar[parent, group] = turn_bar[parent, group] + turn + a.cross(arm, shift)
                shift_bar[parent, group] = shift_bar[parent, group] + shift
            if joint_placement_bar.shape[0] > 0:
                joints.add_moved_turn(kind, axis, a.rotation(own), q, start, shift, link, group, turn_bar)
                placement = a.load_param_transform(joint_placement, group, link)
                whole_turn = turn_bar[link, group]
                if parent >= 0:
                    carrier = a.rotation(pose[parent, group])
                    change = placement_change(carrier, placement, whole_turn, shift)
                    a.add_transform(joint_placement_bar, group, link, change)
                else:
                    change_of_root = placement_change(a.no_turn(), placement, whole_turn, shift)
                    a.add_transform(joint_placement_bar, group, link, change_of_root)
        if q_bar.shape[0] > 0:
            a.end_bars(q_bar_buffer, q_bar, group, tree, nq)

    return SimpleNamespace(
        module=module,
        kinematics_adjoint=kinematics_adjoint,
        add_inertia_bars=add_inertia_bars,
        placement_change=placement_change,
    )
