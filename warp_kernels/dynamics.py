"""Forward dynamics by the articulated-body algorithm.

Articulated-body algorithm: Featherstone 2014, table 7.1, with every joint taken as a sequence of one-degree-of-freedom joints,
so that its inner step is one symmetric rank-1 update. Its factors U and D give the sparse factorisation M = L' D L
(see :mod:`warp_kernels.factor`). Reverse mode never goes through it: the gradient of qdd = ABA(q, qd, tau) with cotangent g
is that of -w . ID(q, qd, qdd) at fixed qdd and w = M^-1 g (see :mod:`warp_kernels.rnea_adjoint`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.articulated import articulated_functions
from warp_kernels.friction import friction_functions
from warp_kernels.kinematics import joint_functions
from warp_kernels.spatial import spatial_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def aba_kernels(scalar: Any) -> SimpleNamespace:
    """The articulated-body algorithm for one precision, launched over (tree, world)."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    joints = joint_functions(scalar)
    art = articulated_functions(scalar)
    dry = friction_functions(scalar)
    vec3, spatial, inertia10, articulated = t.vec3, t.spatial, t.inertia, t.articulated
    module = kernel_module("aba", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def aba(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        dt: scalar,
        # Parameters
        damping: wp.array2d(dtype=scalar),
        armature: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        friction_loss: wp.array2d(dtype=scalar),
        gravity: wp.array2d(dtype=vec3),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        tau: wp.array2d(dtype=scalar),
        implicit: wp.array2d(dtype=scalar),
        wrench: wp.array2d(dtype=spatial),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        bias_force: wp.array2d(dtype=spatial),
        inertia: wp.array2d(dtype=articulated),
        factor_u: wp.array2d(dtype=spatial),
        factor_d: wp.array2d(dtype=scalar),
        innovation: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
    ):
        """implicit: what else stands on the diagonal of the mass matrix [dof, world], or empty.

        friction_loss: dry friction, or empty where it isn't to count, as in a step, which has constraints for it.
        """
        tree, world = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        g = gravity[wp.min(world, gravity.shape[0] - 1), 0]
        # Velocities, velocity products (kept in acceleration until the last pass), rigid inertias, bias forces.
        for link in range(first, last):
            parent = link_parent[link]
            v_joint = spatial()
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                v_joint += subspace[k, world] * qd[world, k]
            v_parent = spatial()
            if parent >= 0:
                v_parent = velocity[parent, world]
            v = v_parent + v_joint
            velocity[link, world] = v
            acceleration[link, world] = joints.velocity_product(joint_type[link], v_parent, v_joint)
            rigid = link_inertia[link, world]
            inertia[link, world] = art.from_rigid(rigid)
            force = sp.cross_force(v, sp.apply_inertia(rigid, v))
            if wrench.shape[0] > 0:
                force -= wrench[link, world]
            bias_force[link, world] = force
        # Articulated inertias and bias forces, leaves to root.
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = link_parent[link]
            whole = inertia[link, world]
            force = bias_force[link, world]
            dof_first = joint_qd_start[link]
            dof_last = joint_qd_start[link + 1]
            for back in range(dof_last - dof_first):
                k = dof_last - 1 - back
                s = subspace[k, world]
                u = art.apply(whole, s)
                damp = damping[wp.min(world, damping.shape[0] - 1), k]
                spring = stiffness[wp.min(world, stiffness.shape[0] - 1), k]
                rotor = armature[wp.min(world, armature.shape[0] - 1), k]
                d = wp.dot(s, u) + rotor + dt * damp
                if implicit.shape[0] > 0:
                    d += implicit[k, world]
                torque = tau[world, k]
                if friction_loss.shape[0] > 0:
                    # First of all: where friction is nearly all of tau, their difference is exact.
                    loss = friction_loss[wp.min(world, friction_loss.shape[0] - 1), k]
                    torque -= dry.force_against(loss, qd[world, k])
                torque -= damp * qd[world, k]
                if dof_q[k] >= 0:
                    d += dt * dt * spring
                    rest = rest_position[wp.min(world, rest_position.shape[0] - 1), k]
                    torque -= spring * (q[world, dof_q[k]] + dt * qd[world, k] - rest)
                d_inv = scalar(1.0) / d
                innov = torque - wp.dot(s, force)
                factor_u[k, world] = u
                factor_d[k, world] = d_inv
                innovation[k, world] = innov
                whole -= art.square(u, d_inv)
                force += u * (d_inv * innov)
            if parent >= 0:
                inertia[parent, world] += whole
                bias_force[parent, world] += force + art.apply(whole, acceleration[link, world])
        # Accelerations, root to leaves.
        for link in range(first, last):
            parent = link_parent[link]
            acc = sp.join(vec3(), -g)
            if parent >= 0:
                acc = acceleration[parent, world]
            acc += acceleration[link, world]
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                value = (innovation[k, world] - wp.dot(factor_u[k, world], acc)) * factor_d[k, world]
                qdd[world, k] = value
                acc += subspace[k, world] * value
            acceleration[link, world] = acc

    @wp.kernel(module=module, enable_backward=False)
    def solve_mass_matrix(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Parameters
        armature: wp.array2d(dtype=scalar),
        # Data in
        right: wp.array2d(dtype=scalar),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        inertia: wp.array2d(dtype=articulated),
        motion: wp.array2d(dtype=spatial),
        factor_u: wp.array2d(dtype=spatial),
        factor_d: wp.array2d(dtype=scalar),
        innovation: wp.array2d(dtype=scalar),
        solution: wp.array2d(dtype=scalar),
    ):
        """M^-1 right: what is left of ``aba`` for bodies at rest without weight.

        ``motion`` holds the forces on the way to the roots, then the accelerations.
        """
        tree, world = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        for link in range(first, last):
            inertia[link, world] = art.from_rigid(link_inertia[link, world])
            motion[link, world] = spatial()
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = link_parent[link]
            whole = inertia[link, world]
            force = motion[link, world]
            dof_first = joint_qd_start[link]
            dof_last = joint_qd_start[link + 1]
            for back in range(dof_last - dof_first):
                k = dof_last - 1 - back
                s = subspace[k, world]
                u = art.apply(whole, s)
                rotor = armature[wp.min(world, armature.shape[0] - 1), k]
                d_inv = scalar(1.0) / (wp.dot(s, u) + rotor)
                innov = right[world, k] - wp.dot(s, force)
                factor_u[k, world] = u
                factor_d[k, world] = d_inv
                innovation[k, world] = innov
                whole -= art.square(u, d_inv)
                force += u * (d_inv * innov)
            if parent >= 0:
                inertia[parent, world] += whole
                motion[parent, world] += force
        for link in range(first, last):
            parent = link_parent[link]
            acc = spatial()
            if parent >= 0:
                acc = motion[parent, world]
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                value = (innovation[k, world] - wp.dot(factor_u[k, world], acc)) * factor_d[k, world]
                solution[world, k] = value
                acc += subspace[k, world] * value
            motion[link, world] = acc

    return SimpleNamespace(module=module, aba=aba, solve_mass_matrix=solve_mass_matrix)
