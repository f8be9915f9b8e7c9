"""The adjoint of inverse dynamics, written by hand.

With w the cotangent of the joint forces, the gradient is that of the scalar w . ID(q, qd, qdd), at w = -M^-1 g the gradient of
forward dynamics. With y the velocities that w would give the links, the scalar is the power of their net forces,

    sum over links of  y . (I a + v x* I v - external wrench),

so that nothing of the recursion from the leaves is differentiated: the derivatives in each link's v, a and y are

    v_bar = I (y x v) - y x* I v,   a_bar = I y,   y_bar = I a + v x* I v - wrench,

and what moves a link moves all that it carries: one pass to the leaves, and one back that adds them up.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.kinematics import joint_functions
from warp_kernels.spatial import spatial_functions
from warp_kernels.types import FREE, kernel_module, warp_types


@functools.cache
def rnea_adjoint_kernels(scalar: Any) -> SimpleNamespace:
    """The adjoint of the kernel ``rnea`` for one precision, launched over (tree, world)."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    joints = joint_functions(scalar)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia
    module = kernel_module("rnea_adjoint", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def rnea_adjoint(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Parameters
        gravity: wp.array2d(dtype=vec3),
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        wrench: wp.array2d(dtype=spatial),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        weight: wp.array2d(dtype=scalar),
        # Adjoint out
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        direction: wp.array2d(dtype=spatial),
        velocity_bar: wp.array2d(dtype=spatial),
        acceleration_bar: wp.array2d(dtype=spatial),
        force: wp.array2d(dtype=spatial),
        gravity_bar: wp.array2d(dtype=vec3),
        qd_bar: wp.array2d(dtype=scalar),
        qdd_bar: wp.array2d(dtype=scalar),
        wrench_bar: wp.array2d(dtype=spatial),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """weight: the cotangent of the joint forces. Six arrays of scratch, then what is added to, where it has rows."""
        tree, world = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        g = gravity[wp.min(world, gravity.shape[0] - 1), 0]
        for link in range(first, last):
            parent = link_parent[link]
            v_parent = spatial()
            a = sp.join(vec3(), -g)
            y = spatial()
            if parent >= 0:
                v_parent = velocity[parent, world]
                a = acceleration[parent, world]
                y = direction[parent, world]
            v_joint = spatial()
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                s = subspace[k, world]
                v_joint += s * qd[world, k]
                a += s * qdd[world, k]
                y += s * weight[world, k]
            a += joints.velocity_product(joint_type[link], v_parent, v_joint)
            v = v_parent + v_joint
            velocity[link, world] = v
            acceleration[link, world] = a
            direction[link, world] = y
            rigid = link_inertia[link, world]
            momentum = sp.apply_inertia(rigid, v)
            turning = sp.cross_motion(y, v)
            f = sp.apply_inertia(rigid, a) + sp.cross_force(v, momentum)
            if wrench.shape[0] > 0:
                f -= wrench[link, world]
            if wrench_bar.shape[0] > 0:
                wrench_bar[link, world] -= y
            force[link, world] = f
            acceleration_bar[link, world] = sp.apply_inertia(rigid, y)
            velocity_bar[link, world] = sp.apply_inertia(rigid, turning) - sp.cross_force(y, momentum)
            link_inertia_bar[link, world] += sp.inertia_quadratic(y, a) + sp.inertia_quadratic(turning, v)
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = link_parent[link]
            v_bar = velocity_bar[link, world]
            a_bar = acceleration_bar[link, world]
            f = force[link, world]
            joint_bar = v_bar
            if parent >= 0:
                v_parent = velocity[parent, world]
                joint_bar -= sp.cross_force(v_parent, a_bar)
                velocity_bar[parent, world] += v_bar + sp.cross_force(velocity[link, world] - v_parent, a_bar)
                acceleration_bar[parent, world] += a_bar
                force[parent, world] += f
            elif gravity_bar.shape[0] > 0:
                wp.atomic_add(gravity_bar, wp.min(world, gravity_bar.shape[0] - 1), 0, -sp.linear(a_bar))
            if joint_type[link] == FREE:
                # At a root; its velocity product is v x w.
                v = velocity[link, world]
                linear_bar = sp.linear(a_bar)
                joint_bar += sp.join(wp.cross(linear_bar, sp.linear(v)), wp.cross(sp.angular(v), linear_bar))
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                s = subspace[k, world]
                if qd_bar.shape[0] > 0:
                    qd_bar[world, k] += wp.dot(s, joint_bar)
                if qdd_bar.shape[0] > 0:
                    qdd_bar[world, k] += wp.dot(s, a_bar)
                subspace_bar[k, world] += joint_bar * qd[world, k] + a_bar * qdd[world, k] + f * weight[world, k]

    return SimpleNamespace(module=module, rnea_adjoint=rnea_adjoint)
