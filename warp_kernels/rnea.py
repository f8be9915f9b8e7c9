"""Inverse dynamics by the recursive Newton-Euler algorithm (Featherstone 2014, table 5.1), in the common frame.

Its adjoint is in :mod:`warp_kernels.rnea_adjoint`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.friction import friction_functions
from warp_kernels.kinematics import joint_functions
from warp_kernels.spatial import spatial_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def rnea_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of inverse dynamics for one precision."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    joints = joint_functions(scalar)
    dry = friction_functions(scalar)
    vec3, transform, spatial, inertia10 = t.vec3, t.transform, t.spatial, t.inertia
    module = kernel_module("rnea", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def rnea(
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
        # Data out
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        force: wp.array2d(dtype=spatial),
        tau: wp.array2d(dtype=scalar),
    ):
        """Adds the joint forces that move rigid bodies to tau, over (tree, world)."""
        tree, world = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        g = gravity[wp.min(world, gravity.shape[0] - 1), 0]
        for link in range(first, last):
            parent = link_parent[link]
            v_parent = spatial()
            acc = sp.join(vec3(), -g)
            if parent >= 0:
                v_parent = velocity[parent, world]
                acc = acceleration[parent, world]
            v_joint = spatial()
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                v_joint += subspace[k, world] * qd[world, k]
                acc += subspace[k, world] * qdd[world, k]
            acc += joints.velocity_product(joint_type[link], v_parent, v_joint)
            v = v_parent + v_joint
            rigid = link_inertia[link, world]
            f = sp.apply_inertia(rigid, acc) + sp.cross_force(v, sp.apply_inertia(rigid, v))
            if wrench.shape[0] > 0:
                f -= wrench[link, world]
            velocity[link, world] = v
            acceleration[link, world] = acc
            force[link, world] = f
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = link_parent[link]
            f = force[link, world]
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                tau[world, k] += wp.dot(subspace[k, world], f)
            if parent >= 0:
                force[parent, world] += f

    @wp.kernel(module=module)
    def passive_force(
        # Model
        dof_q: wp.array(dtype=int),
        # Parameters
        damping: wp.array2d(dtype=scalar),
        armature: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        friction_loss: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        # Data out
        tau: wp.array2d(dtype=scalar),
    ):
        """Joint forces against rotor inertia, damping, spring and dry friction, over (dof, world)."""
        k, world = wp.tid()
        rotor = armature[wp.min(world, armature.shape[0] - 1), k]
        damp = damping[wp.min(world, damping.shape[0] - 1), k]
        spring = scalar(0.0)
        if dof_q[k] >= 0:
            rest = rest_position[wp.min(world, rest_position.shape[0] - 1), k]
            spring = stiffness[wp.min(world, stiffness.shape[0] - 1), k] * (q[world, dof_q[k]] - rest)
        loss = friction_loss[wp.min(world, friction_loss.shape[0] - 1), k]
        speed = qd[world, k]
        tau[world, k] = rotor * qdd[world, k] + damp * speed + spring + dry.force_against(loss, speed)

    @wp.kernel(module=module)
    def wrench_to_common_frame(
        # Data in
        pose: wp.array2d(dtype=transform),
        wrench: wp.array3d(dtype=scalar),
        # Data out
        wrench_common: wp.array2d(dtype=spatial),
    ):
        """Wrenches about the origin of each link's frame to wrenches about the tree's origin, over (link, world)."""
        link, world = wp.tid()
        moment = vec3(wrench[world, link, 0], wrench[world, link, 1], wrench[world, link, 2])
        force = vec3(wrench[world, link, 3], wrench[world, link, 4], wrench[world, link, 5])
        r = wp.transform_get_translation(pose[link, world])
        wrench_common[link, world] = sp.join(moment + wp.cross(r, force), force)

    @wp.kernel(module=module, enable_backward=False)
    def forward_dynamics_adjoint(
        # Adjoint in
        w: wp.array2d(dtype=scalar),
        # Adjoint out
        tau_bar: wp.array2d(dtype=scalar),
        minus_w: wp.array2d(dtype=scalar),
    ):
        """Adds w to the adjoint of tau, where it is asked for, and turns its sign, over (world, dof)."""
        world, k = wp.tid()
        if tau_bar.shape[0] > 0:
            tau_bar[world, k] += w[world, k]
        minus_w[world, k] = -w[world, k]

    return SimpleNamespace(
        module=module,
        rnea=rnea,
        passive_force=passive_force,
        wrench_to_common_frame=wrench_to_common_frame,
        forward_dynamics_adjoint=forward_dynamics_adjoint,
    )
