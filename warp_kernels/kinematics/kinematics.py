"""Forward kinematics: link poses, the motion subspace of every degree of freedom, spatial inertias in the common frame.

Its adjoint is hand-written, see :mod:`warp_kernels.kinematics.kinematics_adjoint`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.kinematics.propagation import Links, propagation
from warp_kernels.types import kernel_module, lane_types, warp_types


@functools.cache
def kinematics_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernel of forward kinematics for one precision, launched over (tree, lane group), and its functions."""
    t, a, joints = lane_types(scalar, lanes), algebra(scalar, lanes), joint_functions(scalar, lanes)
    hand = propagation(lanes)
    one = warp_types(scalar)
    real, vec3, quat, mat33, transform = t.real, t.vec3, t.quat, t.mat33, t.transform
    spatial, inertia10 = t.spatial, t.inertia
    axis3 = one.vec3
    module = kernel_module("kinematics", scalar, lanes)

    @wp.func
    def common_frame_inertia(pose: transform, mass: real, com: vec3, inertia: mat33):
        """Return the spatial inertia of a link about the tree's origin in world axes (Featherstone 2014, equation
        2.63).
        """
        rows = a.matrix(a.rotation(pose))
        x = a.mat_row(rows, 0)
        y = a.mat_row(rows, 1)
        z = a.mat_row(rows, 2)
        along_x = a.mat_vec(inertia, x)
        along_y = a.mat_vec(inertia, y)
        along_z = a.mat_vec(inertia, z)
        c = a.position(pose) + a.mat_vec(rows, com)
        h = a.scale(mass, c)
        hx = a.mul(h[0], c[0])
        hy = a.mul(h[1], c[1])
        hz = a.mul(h[2], c[2])
        return a.make_inertia(
            mass,
            h,
            a.make_vec3(a.dot(x, along_x) + hy + hz, a.dot(y, along_y) + hx + hz, a.dot(z, along_z) + hx + hy),
            a.make_vec3(
                a.dot(x, along_y) - a.mul(h[0], c[1]),
                a.dot(x, along_z) - a.mul(h[0], c[2]),
                a.dot(y, along_z) - a.mul(h[1], c[2]),
            ),
        )

    @wp.func
    def slides_ahead(
        root: int,
        last: int,
        links: Links,
        joint_axis: wp.array(dtype=axis3),
        joint_placement: wp.array2d(dtype=one.transform),
        r: quat,
        q: t.states2d,
        group: int,
    ):
        """Return the displacement from the root of a tree, with rotation r, to the last of the slides that it begins
        with.
        """
        total = vec3()
        for link in range(root + 1, last + 1):
            placement = a.load_param_transform(joint_placement, group, link)
            kind = links.joint_type[link]
            local = joints.joint_transform(placement, kind, joint_axis[link], q, group, links.q_start[link])
            total += a.rotate(r, a.position(local))
            r = a.product(r, a.rotation(local))
        return total

    @wp.kernel(module=module, enable_backward=False)
    def kinematics(
        # Model
        visit_start: wp.array(dtype=int),
        visit: wp.array(dtype=int),
        links: Links,
        joint_axis: wp.array(dtype=axis3),
        # Parameters
        joint_placement: wp.array2d(dtype=one.transform),
        mass: wp.array2d(dtype=scalar),
        com: wp.array2d(dtype=axis3),
        inertia: wp.array2d(dtype=one.mat33),
        # Data in
        q: t.states2d,
        # Data out
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint out
        pose_bar: wp.array2d(dtype=transform),
        origin_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Compute the kinematics of the links in ``visit``, parents first, those of a tree together. Outputs without
        rows are skipped.

        A tree's origin is the position of the last of the slides that it begins with, so that poses are small
        wherever these have carried it. The adjoint takes the displacement from the root as constant: no result depends
        on the choice of the origin.

        Adjoints become zero, for later additions.
        """
        tree, group = wp.tid()
        a.fetch_to_read(q, group)
        own = a.zero_pose()
        before = int(-1)
        for index in range(visit_start[tree], visit_start[tree + 1]):
            link = visit[index]
            parent = links.parent[link]
            kind = links.joint_type[link]
            axis = joint_axis[link]
            placement = a.load_param_transform(joint_placement, group, link)
            local = joints.joint_transform(placement, kind, axis, q, group, links.q_start[link])
            p = a.position(local)
            r = a.rotation(local)
            if parent < 0:
                ahead = slides_ahead(link, links.last_slide[tree], links, joint_axis, joint_placement, r, q, group)
                origin[tree, group] = p + ahead
                p = vec3() - ahead
                if origin_bar.shape[0] > 0:
                    origin_bar[tree, group] = vec3()
            else:
                carrying = hand.from_parent(own, a.zero_pose(), parent, before, group, pose)
                carrier = a.rotation(carrying)
                p = a.position(carrying) + a.rotate(carrier, p)
                r = a.product(carrier, r)
            own = a.make_pose(p, r)
            before = link
            pose[link, group] = own
            if pose_bar.shape[0] > 0:
                pose_bar[link, group] = a.zero_pose()
            if subspace.shape[0] > 0:
                joints.write_subspace(kind, axis, own, links.qd_start[link], group, subspace)
            if subspace_bar.shape[0] > 0:
                for k in range(links.qd_start[link], links.qd_start[link + 1]):
                    subspace_bar[k, group] = spatial()
            if link_inertia.shape[0] > 0:
                link_inertia[link, group] = common_frame_inertia(
                    own,
                    a.load_param_scalar(mass, group, link),
                    a.load_param_vec3(com, group, link),
                    a.load_param_mat33(inertia, group, link),
                )
            if link_inertia_bar.shape[0] > 0:
                link_inertia_bar[link, group] = inertia10()

    return SimpleNamespace(
        module=module, kinematics=kinematics, slides_ahead=slides_ahead, common_frame_inertia=common_frame_inertia
    )
