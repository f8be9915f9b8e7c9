"""The adjoint of inverse dynamics, written by hand.

With w the cotangent of the joint forces, the gradient is that of the scalar w . ID(q, qd, qdd), at w = -M^-1 g the gradient of
forward dynamics. With y the velocities that w would give the links, the scalar is the power of their net forces,

    sum over links of  y . (I a + v x* I v - external wrench),

so that nothing of the recursion from the leaves is differentiated: the derivatives in each link's v, a and y are

    v_bar = I (y x v) - y x* I v,   a_bar = I y,   y_bar = I a + v x* I v - wrench,

and what moves a link moves all that it carries: one pass to the leaves, and one back that adds them up.

The pass to the leaves is that of the kernel ``rnea``, and stands here again: functions for a link's motion and net force made
that one 20 % slower.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.kinematics.kinematics import joint_functions
from warp_kernels.types import FREE, kernel_module, lane_types, warp_types


@functools.cache
def rnea_adjoint_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """The adjoint of the kernel ``rnea`` for one precision and a number of worlds in a block, over (tree, block)."""
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    sp, joints = spatial_functions(scalar, lanes), joint_functions(scalar, lanes)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia
    one_vec3 = warp_types(scalar).vec3
    module = kernel_module("rnea_adjoint", scalar, lanes)

    @wp.kernel(module=module, enable_backward=False)
    def rnea_adjoint(
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
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint in
        motion_weight: wp.array2d(dtype=scalar),
        # Adjoint out
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        direction: wp.array2d(dtype=spatial),
        velocity_bar: wp.array2d(dtype=spatial),
        acceleration_bar: wp.array2d(dtype=spatial),
        force: wp.array2d(dtype=spatial),
        gravity_bar: wp.array2d(dtype=one_vec3),
        qd_bar: wp.array2d(dtype=scalar),
        qdd_bar: wp.array2d(dtype=scalar),
        common_wrench_bar: wp.array2d(dtype=spatial),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """motion_weight: the cotangent of the joint forces. Six arrays of scratch, then what is added to, where it has rows."""
        tree, block = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        g = a.own_vec3(gravity, block, 0)
        for link in range(first, last):
            parent = link_parent[link]
            v_parent = spatial()
            acc = a.join(vec3(), -g)
            y = spatial()
            if parent >= 0:
                v_parent = velocity[parent, block]
                acc = acceleration[parent, block]
                y = direction[parent, block]
            v_joint = spatial()
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                s = subspace[k, block]
                v_joint += a.scale_spatial(a.load(qd, block, k), s)
                acc += a.scale_spatial(a.load(qdd, block, k), s)
                y += a.scale_spatial(a.load_bar(motion_weight, block, k), s)
            acc += joints.velocity_product(joint_type[link], v_parent, v_joint)
            v = v_parent + v_joint
            velocity[link, block] = v
            acceleration[link, block] = acc
            direction[link, block] = y
            rigid = link_inertia[link, block]
            momentum = sp.apply_inertia(rigid, v)
            turning = sp.cross_motion(y, v)
            f = sp.apply_inertia(rigid, acc) + sp.cross_force(v, momentum)
            if common_wrench.shape[0] > 0:
                f -= common_wrench[link, block]
            if common_wrench_bar.shape[0] > 0:
                common_wrench_bar[link, block] -= y
            force[link, block] = f
            acceleration_bar[link, block] = sp.apply_inertia(rigid, y)
            velocity_bar[link, block] = sp.apply_inertia(rigid, turning) - sp.cross_force(y, momentum)
            link_inertia_bar[link, block] += sp.inertia_quadratic(y, acc) + sp.inertia_quadratic(turning, v)
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = link_parent[link]
            v_bar = velocity_bar[link, block]
            a_bar = acceleration_bar[link, block]
            f = force[link, block]
            joint_bar = v_bar
            if parent >= 0:
                v_parent = velocity[parent, block]
                joint_bar -= sp.cross_force(v_parent, a_bar)
                velocity_bar[parent, block] += v_bar + sp.cross_force(velocity[link, block] - v_parent, a_bar)
                acceleration_bar[parent, block] += a_bar
                force[parent, block] += f
            elif gravity_bar.shape[0] > 0:
                a.add_vec3(gravity_bar, block, 0, -a.linear(a_bar))
            if joint_type[link] == FREE:
                # At a root; its velocity product is v x w.
                v = velocity[link, block]
                linear_bar = a.linear(a_bar)
                joint_bar += a.join(a.cross(linear_bar, a.linear(v)), a.cross(a.angular(v), linear_bar))
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                s = subspace[k, block]
                if qd_bar.shape[0] > 0:
                    a.add(qd_bar, block, k, a.dot_spatial(s, joint_bar))
                if qdd_bar.shape[0] > 0:
                    a.add(qdd_bar, block, k, a.dot_spatial(s, a_bar))
                subspace_bar[k, block] += (
                    a.scale_spatial(a.load(qd, block, k), joint_bar)
                    + a.scale_spatial(a.load(qdd, block, k), a_bar)
                    + a.scale_spatial(a.load_bar(motion_weight, block, k), f)
                )

    return SimpleNamespace(module=module, rnea_adjoint=rnea_adjoint)
