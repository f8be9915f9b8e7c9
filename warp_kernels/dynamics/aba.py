"""Forward dynamics by the articulated-body algorithm.

Articulated-body algorithm: Featherstone 2014, table 7.1, treating every joint as a sequence of one-degree-of-freedom
joints, so that its inner step is one symmetric rank-1 update. Articulated-body inertias are symmetric 6x6 matrices in
21 entries. The factors U and D give the sparse factorisation M = L' D L (see :mod:`warp_kernels.dynamics.mass_matrix`).
Reverse mode never differentiates it: the gradient of qdd = ABA(q, qd, tau) with cotangent g is that of -w . ID(q, qd,
qdd) at fixed qdd and w = M^-1 g (see :mod:`warp_kernels.dynamics.newton_euler`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.dynamics.rnea import friction_functions
from warp_kernels.dynamics.symmetric import symmetric_functions, symmetric_headers
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.kinematics.propagation import Links, propagation
from warp_kernels.types import kernel_module, lane_types, most_registers, warp_types
from warp_kernels.variants import used_arguments_only


@functools.cache
def articulated_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the Warp functions of articulated inertias for one precision and a number of worlds in a lane group.

    The matrix is ((A, B), (B', C)), angular part first. ``types.articulated`` holds Axx, Ayy, Azz, Axy, Axz, Ayz, then
    B row by row, then C like A.
    """
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    real, vec3, spatial, inertia10, articulated = t.real, t.vec3, t.spatial, t.inertia, t.articulated

    @wp.func
    def from_rigid(i: inertia10):
        """Return the spatial inertia of a rigid body."""
        z = a.real(scalar(0.0))
        return a.make_articulated(
            a.make_vec3(i[4], i[5], i[6]),
            a.make_vec3(i[7], i[8], i[9]),
            a.make_vec3(z, -i[3], i[2]),
            a.make_vec3(i[3], z, -i[1]),
            a.make_vec3(-i[2], i[1], z),
            a.make_vec3(i[0], i[0], i[0]),
            vec3(),
        )

    @wp.func
    def symmetric_product(d: vec3, r: vec3, v: vec3):
        """Multiply a symmetric matrix, given by its diagonal and xy, xz, yz, by a vector."""
        return a.make_vec3(
            a.mul(d[0], v[0]) + a.mul(r[0], v[1]) + a.mul(r[1], v[2]),
            a.mul(r[0], v[0]) + a.mul(d[1], v[1]) + a.mul(r[2], v[2]),
            a.mul(r[1], v[0]) + a.mul(r[2], v[1]) + a.mul(d[2], v[2]),
        )

    @wp.func
    def apply(i: articulated, m: spatial):
        """Return the force I m."""
        w = a.angular(m)
        v = a.linear(m)
        b = a.mat_rows(a.make_vec3(i[6], i[7], i[8]), a.make_vec3(i[9], i[10], i[11]), a.make_vec3(i[12], i[13], i[14]))
        return a.join(
            symmetric_product(a.make_vec3(i[0], i[1], i[2]), a.make_vec3(i[3], i[4], i[5]), w) + a.mat_vec(b, v),
            a.vec_mat(w, b) + symmetric_product(a.make_vec3(i[15], i[16], i[17]), a.make_vec3(i[18], i[19], i[20]), v),
        )

    @wp.func
    def square(u: spatial, factor: real):
        """Return the matrix u u' times a factor."""
        f = a.scale_spatial(factor, u)
        v = a.linear(u)
        return a.make_articulated(
            a.make_vec3(a.mul(f[0], u[0]), a.mul(f[1], u[1]), a.mul(f[2], u[2])),
            a.make_vec3(a.mul(f[0], u[1]), a.mul(f[0], u[2]), a.mul(f[1], u[2])),
            a.scale(f[0], v),
            a.scale(f[1], v),
            a.scale(f[2], v),
            a.make_vec3(a.mul(f[3], u[3]), a.mul(f[4], u[4]), a.mul(f[5], u[5])),
            a.make_vec3(a.mul(f[3], u[4]), a.mul(f[3], u[5]), a.mul(f[4], u[5])),
        )

    return SimpleNamespace(from_rigid=from_rigid, apply=apply, square=square)


@functools.cache
def aba_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the articulated-body algorithm for one precision and a number of worlds in a lane group, launched over
    (tree, group).

    ``aba`` computes accelerations. The others are for its gradient, in a separate module, so that the two are compiled
    at the same time. ``solve_mass_matrix`` is ``aba`` for bodies at rest without gravity, springs and dampers: qdd =
    M^-1 tau. There bias_force and acceleration may be the same array. ``damped_aba`` adds symmetric matrices to the
    inertias of links where these act on changes of velocities, but not on accelerations of bodies whose velocities
    stay, such as gravity.
    """
    a = algebra(scalar, lanes)
    module, adjoint_module = (kernel_module(name, scalar, lanes) for name in ("aba", "aba_adjoint"))
    damped_module = kernel_module("damped_aba", scalar, lanes, headers=symmetric_headers(lanes))

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def forward_dynamics_adjoint(
        # Adjoint in
        w: wp.array2d(dtype=scalar),
        # Adjoint out
        tau_bar: wp.array2d(dtype=scalar),
        minus_w: wp.array2d(dtype=scalar),
    ):
        """Add w to the adjoint of tau, if requested, and negate it, over groups."""
        group = wp.tid()
        for k in range(w.shape[1]):
            value = a.load(w, group, k)
            if tau_bar.shape[0] > 0:
                a.add(tau_bar, group, k, value)
            a.store(minus_w, group, k, -value)

    return SimpleNamespace(
        modules=(module, damped_module, adjoint_module),
        aba=_articulated_body("aba", scalar, lanes, module),
        damped_aba=_articulated_body("damped_aba", scalar, lanes, damped_module, damped=True),
        solve_mass_matrix=_articulated_body("solve_mass_matrix", scalar, lanes, adjoint_module, moving=False),
        forward_dynamics_adjoint=forward_dynamics_adjoint,
    )


def _articulated_body(
    name: str, scalar: Any, lanes: int, module: wp.Module, moving: bool = True, damped: bool = False
) -> wp.Kernel:
    """Return one of the kernels.

    Args:
        name: of the kernel.
        scalar: precision.
        lanes: number of worlds in a lane group.
        module: its Warp module.
        moving: whether bodies move, and forces act besides tau.
        damped: whether links have matrices besides their inertias. Then inertias act on what joint accelerations add to
            those of the bodies, and forces at zero joint accelerations are among the bias forces.
    """
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    sp, joints = spatial_functions(scalar, lanes), joint_functions(scalar, lanes)
    art, dry = articulated_functions(scalar, lanes), friction_functions(scalar, lanes)
    hand, symmetric = propagation(lanes), symmetric_functions(scalar, lanes)
    real, vec3, spatial, inertia10 = t.real, t.vec3, t.spatial, t.inertia

    @wp.kernel(name=name, module=module, enable_backward=False, cuda_max_registers=most_registers(scalar))
    @used_arguments_only
    def articulated_body(
        # Model
        links: Links,
        dt: scalar,
        # Parameters
        damping: wp.array2d(dtype=scalar),
        armature: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        friction_loss: wp.array2d(dtype=scalar),
        gravity: wp.array2d(dtype=warp_types(scalar).vec3),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        tau: wp.array2d(dtype=scalar),
        implicit: wp.array2d(dtype=real),
        common_wrench: wp.array2d(dtype=spatial),
        lift: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        link_damping: wp.array2d(dtype=t.articulated),
        # Data out
        velocity: wp.array2d(dtype=spatial),
        acceleration: wp.array2d(dtype=spatial),
        bias_force: wp.array2d(dtype=spatial),
        articulated: wp.array2d(dtype=t.articulated),
        factor_u: wp.array2d(dtype=spatial),
        factor_d: wp.array2d(dtype=real),
        innovation: wp.array2d(dtype=real),
        qdd: wp.array2d(dtype=scalar),
    ):
        """Compute accelerations and factors of a tree.

        implicit: additional diagonal of the mass matrix [dof, group], or empty.
        friction_loss: dry friction, or empty to ignore it, as in a step, which has constraints for it.
        lift: gravity of a tree in addition to that of its world [tree, group], or empty. link_damping: the matrices.
        articulated: scratch.
        """
        tree, group = wp.tid()
        first = links.tree_start[tree]
        last = links.tree_start[tree + 1]
        if wp.static(moving):
            g = a.load_param_vec3(gravity, group, 0)
            if lift.shape[0] > 0:
                g += lift[tree, group]
        # Velocities, velocity products (kept in acceleration until the last pass), bias forces.
        v = spatial()
        if wp.static(damped):
            coasting = spatial()
        for link in range(first, last):
            rigid = link_inertia[link, group]
            hand.keep(art.from_rigid(rigid), link, group, links.forks, articulated)
            if wp.static(damped):
                if wp.static(lanes > 1) or links.forks[link] == 1:
                    symmetric.add_matrix(link_damping, link, articulated, link, group)
            if wp.static(moving):
                parent = links.parent[link]
                v_joint = spatial()
                for k in range(links.qd_start[link], links.qd_start[link + 1]):
                    v_joint += a.scale_spatial(a.load(qd, group, k), subspace[k, group])
                v_parent = hand.from_parent(v, spatial(), parent, link - 1, group, velocity)
                v = v_parent + v_joint
                velocity[link, group] = v
                turning = joints.velocity_product(links.joint_type[link], v_parent, v_joint)
                force = sp.cross_force(v, sp.apply_inertia(rigid, v))
                if common_wrench.shape[0] > 0:
                    force -= common_wrench[link, group]
                if wp.static(damped):
                    base = a.join(vec3(), -g)
                    coasting = turning + hand.from_parent(coasting, base, parent, link - 1, group, acceleration)
                    acceleration[link, group] = coasting
                    force += sp.apply_inertia(rigid, coasting)
                else:
                    acceleration[link, group] = turning
            else:
                force = spatial()
            bias_force[link, group] = force
        # Articulated inertias and bias forces, leaves to root.
        whole = t.articulated()
        force = spatial()
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = links.parent[link]
            own = art.from_rigid(link_inertia[link, group])
            if wp.static(damped and lanes == 1):
                own += link_damping[link, group]
            own = hand.kept(own, link, group, links.forks, articulated)
            whole = hand.from_children(whole, own, link, last, links.parent)
            force = hand.from_children(force, bias_force[link, group], link, last, links.parent)
            dof_first = links.qd_start[link]
            dof_last = links.qd_start[link + 1]
            for back in range(dof_last - dof_first):
                k = dof_last - 1 - back
                s = subspace[k, group]
                torque = a.load(tau, group, k)
                u = art.apply(whole, s)
                rotor = a.load_param_scalar(armature, group, k)
                d = a.dot_spatial(s, u) + rotor
                if wp.static(moving):
                    damp = a.load_param_scalar(damping, group, k)
                    spring = a.load_param_scalar(stiffness, group, k)
                    d = d + dt * damp
                    if implicit.shape[0] > 0:
                        d += implicit[k, group]
                    speed = a.load(qd, group, k)
                    if friction_loss.shape[0] > 0:
                        # First of all: if friction is nearly all of tau, their difference is exact.
                        loss = a.load_param_scalar(friction_loss, group, k)
                        torque -= dry.force_against(loss, speed)
                    torque -= a.mul(damp, speed)
                    if links.dof_q[k] >= 0:
                        d += dt * dt * spring
                        rest = a.load_param_scalar(rest_position, group, k)
                        torque -= a.mul(spring, a.load(q, group, links.dof_q[k]) + dt * speed - rest)
                d_inv = a.div(a.real(scalar(1.0)), d)
                factor_u[k, group] = u
                factor_d[k, group] = d_inv
                whole -= art.square(u, d_inv)
                innov = torque - a.dot_spatial(s, force)
                innovation[k, group] = innov
                force += a.scale_spatial(a.mul(d_inv, innov), u)
            if parent >= 0:
                if wp.static(moving and not damped):
                    force += art.apply(whole, acceleration[link, group])
                hand.to_parent(whole, link, parent, group, articulated)
                hand.to_parent(force, link, parent, group, bias_force)
        # Accelerations, root to leaves.
        base = spatial()
        if wp.static(moving and not damped):
            base = a.join(vec3(), -g)
        acc = spatial()
        for link in range(first, last):
            parent = links.parent[link]
            acc = hand.from_parent(acc, base, parent, link - 1, group, acceleration)
            if wp.static(moving and not damped):
                acc += acceleration[link, group]
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                value = a.mul(innovation[k, group] - a.dot_spatial(factor_u[k, group], acc), factor_d[k, group])
                a.store(qdd, group, k, value)
                acc += a.scale_spatial(value, subspace[k, group])
            acceleration[link, group] = acc

    return articulated_body
