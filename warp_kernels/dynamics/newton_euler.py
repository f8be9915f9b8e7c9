"""Recursive Newton-Euler algorithm (Featherstone 2014, table 5.1) in the common frame, and its adjoint, from one
source.

With w the cotangent of the joint forces, the gradient is that of the scalar w . ID(q, qd, qdd), at w = -M^-1 g the
gradient of forward dynamics. With y the velocities of the links for joint velocities w, the scalar is the power of
their net forces,

    sum over links of  y . (I a + v x* I v - external wrench),

so that the recursion from the leaves isn't differentiated: the derivatives in each link's v, a and y are

    v_bar = I (y x v) - y x* I v,   a_bar = I y,   y_bar = I a + v x* I v - wrench,

and the motion of a link moves its whole subtree: one pass to the leaves, and one back that adds them up.
"""

from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.kinematics.joints import joint_adjoint_functions, joint_functions
from warp_kernels.kinematics.propagation import propagation
from warp_kernels.types import lane_types, warp_types
from warp_kernels.variants import used_arguments_only


def newton_euler(module: wp.Module, scalar: Any, lanes: int, adjoint: bool) -> wp.Kernel:
    """Return the kernel ``rnea``, or ``rnea_adjoint``, over (tree, lane group).

    Args:
        module: its Warp module.
        scalar: precision.
        lanes: number of worlds in a lane group.
        adjoint: whether to compute derivatives of the joint forces of rigid bodies, weighted by ``motion_weight``,
            instead of these forces.
    """
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    sp, joints = spatial_functions(scalar, lanes), joint_functions(scalar, lanes)
    joint_adjoints, hand = joint_adjoint_functions(scalar, lanes), propagation(lanes)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia
    one_vec3 = warp_types(scalar).vec3

    # In float64 rnea alone takes fewer registers of a GPU with a loop over indices, 128 for 152.
    in_loop = True if scalar is wp.float64 and not adjoint else None

    @wp.kernel(name="rnea_adjoint" if adjoint else "rnea", module=module, enable_backward=False, grid_stride=in_loop)
    @used_arguments_only
    def recursion(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Parameters
        gravity: wp.array2d(dtype=one_vec3),
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        common_wrench: wp.array2d(dtype=spatial),
        lift: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint in
        motion_weight: wp.array2d(dtype=scalar),
        # Data out
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        force: wp.array2d(dtype=spatial),
        tau: wp.array2d(dtype=scalar),
        # Adjoint out
        direction: wp.array2d(dtype=spatial),
        velocity_bar: wp.array2d(dtype=spatial),
        acceleration_bar: wp.array2d(dtype=spatial),
        gravity_bar: wp.array2d(dtype=one_vec3),
        qd_bar: wp.array2d(dtype=scalar),
        qdd_bar: wp.array2d(dtype=scalar),
        common_wrench_bar: wp.array2d(dtype=spatial),
        lift_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Add to tau, or to the outputs of the adjoint that have rows; all arguments before them are scratch.

        lift: gravity of a tree in addition to that of its world [tree, group], or empty.
        """
        tree, group = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        g = a.load_param_vec3(gravity, group, 0)
        if wp.static(adjoint):
            if lift.shape[0] > 0:
                g += lift[tree, group]
        base = a.join(vec3(), -g)
        v = spatial()
        acc = base
        if wp.static(adjoint):
            y = spatial()
        for link in range(first, last):
            parent = link_parent[link]
            v_parent = hand.from_parent(v, spatial(), parent, link - 1, group, velocity)
            acc = hand.from_parent(acc, base, parent, link - 1, group, acceleration)
            if wp.static(adjoint):
                y = hand.from_parent(y, spatial(), parent, link - 1, group, direction)
            v_joint = spatial()
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                s = subspace[k, group]
                v_joint += a.scale_spatial(a.load(qd, group, k), s)
                acc += a.scale_spatial(a.load(qdd, group, k), s)
                if wp.static(adjoint):
                    y += a.scale_spatial(a.load_bar(motion_weight, group, k), s)
            acc += joints.velocity_product(joint_type[link], v_parent, v_joint)
            v = v_parent + v_joint
            rigid = link_inertia[link, group]
            inertial = sp.apply_inertia(rigid, acc)
            momentum = sp.apply_inertia(rigid, v)
            f = inertial + sp.cross_force(v, momentum)
            if common_wrench.shape[0] > 0:
                f -= common_wrench[link, group]
            velocity[link, group] = v
            acceleration[link, group] = acc
            force[link, group] = f
            if wp.static(adjoint):
                direction[link, group] = y
                if common_wrench_bar.shape[0] > 0:
                    common_wrench_bar[link, group] -= y
                turning = sp.cross_motion(y, v)
                acceleration_bar[link, group] = sp.apply_inertia(rigid, y)
                velocity_bar[link, group] = sp.apply_inertia(rigid, turning) - sp.cross_force(y, momentum)
                link_inertia_bar[link, group] += sp.inertia_quadratic(y, acc) + sp.inertia_quadratic(turning, v)
        f = spatial()
        if wp.static(adjoint):
            v_bar = spatial()
            a_bar = spatial()
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = link_parent[link]
            f = hand.from_children(f, force[link, group], link, last, link_parent)
            if wp.static(adjoint):
                v_bar = hand.from_children(v_bar, velocity_bar[link, group], link, last, link_parent)
                a_bar = hand.from_children(a_bar, acceleration_bar[link, group], link, last, link_parent)
                joint_bar = v_bar
                if parent >= 0:
                    v_parent = velocity[parent, group]
                    joint_bar -= sp.cross_force(v_parent, a_bar)
                    v_bar += sp.cross_force(velocity[link, group] - v_parent, a_bar)
                    hand.to_parent(v_bar, link, parent, group, velocity_bar)
                    hand.to_parent(a_bar, link, parent, group, acceleration_bar)
                else:
                    if gravity_bar.shape[0] > 0:
                        a.add_vec3(gravity_bar, group, 0, -a.linear(a_bar))
                    if lift_bar.shape[0] > 0:
                        lift_bar[tree, group] -= a.linear(a_bar)
                if joints.keeps_axes(joint_type[link]):
                    v = velocity[link, group]
                    joint_bar += joint_adjoints.kept_axes_bar(v, a_bar)
                for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                    s = subspace[k, group]
                    if qd_bar.shape[0] > 0:
                        a.add(qd_bar, group, k, a.dot_spatial(s, joint_bar))
                    if qdd_bar.shape[0] > 0:
                        a.add(qdd_bar, group, k, a.dot_spatial(s, a_bar))
                    subspace_bar[k, group] += (
                        a.scale_spatial(a.load(qd, group, k), joint_bar)
                        + a.scale_spatial(a.load(qdd, group, k), a_bar)
                        + a.scale_spatial(a.load_bar(motion_weight, group, k), f)
                    )
            else:
                for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                    a.add(tau, group, k, a.dot_spatial(subspace[k, group], f))
            hand.to_parent(f, link, parent, group, force)

    return recursion
