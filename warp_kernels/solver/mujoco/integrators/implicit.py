"""MuJoCo's integrator "implicit": forces linearised in the velocity at the end of the step, bias forces included.

With the mass matrix M, the bias forces b(v), the damping D of joints and actuators, and the change d of the velocity
without their derivatives, a step changes the velocity by ``x = A^-1 M d`` with ``A = M + h (D + db/dv)``. A isn't
symmetric, but has the sparsity of M: its entries below and above the diagonal are packed alike, as in
:mod:`warp_kernels.dynamics.mass_matrix`, and eliminated from the leaves to the root, without fill-in. So A = U L with a
unit U above the diagonal and L below, the diagonal included.

The derivative of the forces of a link with the inertia I and the velocity v in the rate of a joint's column S above it
is ``I (p - v x S) + S x* I v + v x* I S``, where ``p = (u + w) x S`` has the velocities u of the joint's parent and w
of its link. Summed over all links that a column moves, that is ``I p + R S + S x* h`` with their inertia I, its rate R
and their momentum h. (Compare Singh, Russell and Wensing, *Efficient analytical derivatives of rigid-body dynamics
using spatial vector algebra*, 2022.)

Its adjoint solves with A' for ``w = A'^-1 v+_bar``: that of v is ``M w``, and with the loss ``c = d - x`` that of M is
``w c'``, that of D ``-h w x``. The bias is quadratic in v, so that its adjoint is ``-h w . (db/dv) x = -h/2 w . (b(v +
x) - b(v - x))``, two times the adjoint of inverse dynamics (:mod:`warp_kernels.dynamics.newton_euler`).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.solver.structs import Paths
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def implicit_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of a link's contribution to the derivative of the bias forces."""
    t = warp_types(scalar)
    sp, joints = spatial_functions(scalar), joint_functions(scalar)
    spatial, inertia10 = t.spatial, t.inertia
    zero, two = scalar(0.0), scalar(2.0)

    @wp.func
    def inertia_rate(body: inertia10, v: spatial):
        """Return the rate of the inertia about the origin with the motion of the body: v x* I - I v x, as an inertia
        without mass.
        """
        w = sp.angular(v)
        u = sp.linear(v)
        moment = sp.first_moment(body)
        about = sp.rotational(body)
        turned = wp.skew(w) * about
        turned += wp.transpose(turned)
        along = wp.outer(moment, u)
        shifted = two * wp.dot(u, moment) * wp.identity(n=3, dtype=scalar) - along - wp.transpose(along)
        rate = turned + shifted
        change = body[0] * u + wp.cross(w, moment)
        return inertia10(
            zero, change[0], change[1], change[2], rate[0, 0], rate[1, 1], rate[2, 2], rate[0, 1], rate[0, 2], rate[1, 2]
        )  # fmt: skip

    @wp.func
    def column_turn(kind: int, s: spatial, v_parent: spatial, v: spatial):
        """Return p of a column of a joint whose link moves with v."""
        turn = sp.cross_motion(v, s)
        if joints.keeps_axes(kind):
            moved = v - v_parent
            change = wp.cross(sp.linear(s), sp.angular(moved)) + wp.cross(sp.linear(moved), sp.angular(s))
            turn += spatial(zero, zero, zero, change[0], change[1], change[2])
        else:
            turn += sp.cross_motion(v_parent, s)
        return turn

    return SimpleNamespace(inertia_rate=inertia_rate, column_turn=column_turn)


@functools.cache
def implicit_integrator_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision over (tree, world), (world) and (dof, world)."""
    t = warp_types(scalar)
    sp, common, products, f = (
        spatial_functions(scalar), row_functions(scalar), product_functions(scalar), implicit_functions(scalar)
    )  # fmt: skip
    spatial, inertia10, array2d = t.spatial, t.inertia, wp.array2d(dtype=scalar)
    module = kernel_module("mujoco_implicit", scalar, headers=ROW_HEADERS)
    half = scalar(0.5)

    @wp.kernel(module=module, enable_backward=False)
    def implicit_matrix(
        # Model
        links: Links,
        paths: Paths,
        heavy_tendon: wp.array(dtype=int),
        dt: scalar,
        # Parameters
        armature: wp.array2d(dtype=scalar),
        damping: wp.array2d(dtype=scalar),
        tendon_armature: wp.array2d(dtype=scalar),
        # Data in
        velocity: wp.array2d(dtype=spatial),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        servo_damping: wp.array2d(dtype=scalar),
        tendon_slope: wp.array3d(dtype=scalar),
        # Data out
        composite_inertia: wp.array2d(dtype=inertia10),
        composite_rate: wp.array2d(dtype=inertia10),
        composite_momentum: wp.array2d(dtype=spatial),
        turn: wp.array2d(dtype=spatial),
        implicit_lower: wp.array2d(dtype=scalar),
        implicit_upper: wp.array2d(dtype=scalar),
        implicit_diagonal: wp.array2d(dtype=scalar),
    ):
        """Compute A of a tree; all arguments before it are scratch: I, R and h of each subtree, and p."""
        tree, world = wp.tid()
        first = links.tree_start[tree]
        last = links.tree_start[tree + 1]
        for link in range(first, last):
            v = velocity[link, world]
            v_parent = spatial()
            if links.parent[link] >= 0:
                v_parent = velocity[links.parent[link], world]
            body = link_inertia[link, world]
            composite_inertia[link, world] = body
            composite_rate[link, world] = f.inertia_rate(body, v)
            composite_momentum[link, world] = sp.apply_inertia(body, v)
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                turn[k, world] = f.column_turn(links.joint_type[link], subspace[k, world], v_parent, v)
        for back in range(last - first):
            link = last - 1 - back
            body = composite_inertia[link, world]
            rate = composite_rate[link, world]
            momentum = composite_momentum[link, world]
            parent = links.parent[link]
            if parent >= 0:
                composite_inertia[parent, world] += body
                composite_rate[parent, world] += rate
                composite_momentum[parent, world] += momentum
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                s = subspace[k, world]
                force = sp.apply_inertia(body, s)
                changed = sp.apply_inertia(rate, s)
                gyration = sp.cross_force(s, momentum)
                pull = sp.apply_inertia(body, turn[k, world]) + changed + gyration
                own = dt * common.value_of(damping, world, k)
                if servo_damping.shape[0] > 0:
                    own += dt * servo_damping[k, world]
                own += common.value_of(armature, world, k)
                implicit_diagonal[k, world] = own + wp.dot(s, force) + dt * wp.dot(s, pull)
                for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                    j = paths.ancestor[at]
                    above = subspace[j, world]
                    mass = wp.dot(above, force)
                    below = wp.dot(force, turn[j, world]) + wp.dot(changed - gyration, above)
                    implicit_lower[at, world] = mass + dt * below
                    implicit_upper[at, world] = mass + dt * wp.dot(above, pull)
                for number in range(heavy_tendon.shape[0]):
                    tendon = heavy_tendon[number]
                    pushed = common.value_of(tendon_armature, world, tendon) * tendon_slope[tendon, k, world]
                    implicit_diagonal[k, world] += pushed * tendon_slope[tendon, k, world]
                    for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                        mass = pushed * tendon_slope[tendon, paths.ancestor[at], world]
                        implicit_lower[at, world] += mass
                        implicit_upper[at, world] += mass

    @wp.kernel(module=module, enable_backward=False)
    def factor_implicit(
        # Model
        paths: Paths,
        # Data out
        implicit_lower: wp.array2d(dtype=scalar),
        implicit_upper: wp.array2d(dtype=scalar),
        implicit_diagonal: wp.array2d(dtype=scalar),
    ):
        """Factor A in place: entries of U above the diagonal, of L on it and below."""
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for back in range(nv):
            k = nv - 1 - back
            first = paths.dof_row_start[k]
            pivot = implicit_diagonal[k, world]
            for d in range(paths.dof_depth[k]):
                j = paths.ancestor[first + d]
                row = paths.dof_row_start[j]
                share = implicit_upper[first + d, world] / pivot
                below = implicit_lower[first + d, world]
                for e in range(d):
                    implicit_lower[row + e, world] -= share * implicit_lower[first + e, world]
                    implicit_upper[row + e, world] -= implicit_upper[first + e, world] * below
                implicit_diagonal[j, world] -= share * below
                implicit_upper[first + d, world] = share

    @wp.func
    def momentum_of(change: array2d, world: int, paths: Paths, factor_l: array2d, factor_d: array2d, result: array2d):
        """Compute result [dof, world]: M times a change of velocity [world, dof]."""
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            total = change[world, k]
            for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                total += factor_l[at, world] * change[world, paths.ancestor[at]]
            result[k, world] = total / factor_d[k, world]
        # An entry's own column comes last: the entries above it are still to be multiplied by it.
        for k in range(nv):
            total = result[k, world]
            for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                result[paths.ancestor[at], world] += factor_l[at, world] * total

    @wp.kernel(module=module, enable_backward=False)
    def implicit_velocity(
        # Model
        paths: Paths,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        implicit_lower: wp.array2d(dtype=scalar),
        implicit_upper: wp.array2d(dtype=scalar),
        implicit_diagonal: wp.array2d(dtype=scalar),
        # Data out
        implicit_scratch: wp.array2d(dtype=scalar),
        damping_push: wp.array2d(dtype=scalar),
        damping_loss: wp.array2d(dtype=scalar),
        qd_next: wp.array2d(dtype=scalar),
    ):
        """Compute the velocity after the step. damping_push: d; damping_loss: c [world, dof]."""
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            damping_push[world, k] = qd_solved[world, k] - qd[world, k]
        momentum_of(damping_push, world, paths, factor_l, factor_d, implicit_scratch)
        products.solve_transposed(paths, implicit_upper, implicit_scratch, world)
        for k in range(nv):
            total = implicit_scratch[k, world]
            for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                total -= implicit_lower[at, world] * implicit_scratch[paths.ancestor[at], world]
            x = total / implicit_diagonal[k, world]
            implicit_scratch[k, world] = x
            damping_loss[world, k] = damping_push[world, k] - x
            qd_next[world, k] = qd[world, k] + x

    @wp.kernel(module=module, enable_backward=False)
    def implicit_velocity_adjoint(
        # Model
        paths: Paths,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        implicit_lower: wp.array2d(dtype=scalar),
        implicit_upper: wp.array2d(dtype=scalar),
        implicit_diagonal: wp.array2d(dtype=scalar),
        # Adjoint in
        qd_next_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        implicit_scratch: wp.array2d(dtype=scalar),
        damping_weight: wp.array2d(dtype=scalar),
        qd_solved_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
    ):
        """Compute damping_weight: w [world, dof]."""
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            implicit_scratch[k, world] = qd_next_bar[world, k]
        for back in range(nv):
            k = nv - 1 - back
            value = implicit_scratch[k, world] / implicit_diagonal[k, world]
            implicit_scratch[k, world] = value
            for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                implicit_scratch[paths.ancestor[at], world] -= implicit_lower[at, world] * value
        products.solve_lower(paths, implicit_upper, implicit_scratch, world)
        for k in range(nv):
            damping_weight[world, k] = implicit_scratch[k, world]
        momentum_of(damping_weight, world, paths, factor_l, factor_d, implicit_scratch)
        for k in range(nv):
            qd_solved_bar[world, k] = implicit_scratch[k, world]
            qd_bar[world, k] += qd_next_bar[world, k] - implicit_scratch[k, world]

    @wp.kernel(module=module, enable_backward=False)
    def begin_bias_adjoint(
        # Model
        dt: scalar,
        sign: scalar,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qd_next: wp.array2d(dtype=scalar),
        damping_weight: wp.array2d(dtype=scalar),
        # Data out
        shifted_qd: wp.array2d(dtype=scalar),
        shifted_weight: wp.array2d(dtype=scalar),
    ):
        """Compute the velocity v + x or v - x, and the weights of its bias forces, over (dof, world)."""
        k, world = wp.tid()
        shifted_qd[world, k] = qd[world, k] + sign * (qd_next[world, k] - qd[world, k])
        shifted_weight[world, k] = -sign * half * dt * damping_weight[world, k]

    return SimpleNamespace(
        module=module,
        implicit_matrix=implicit_matrix,
        factor_implicit=factor_implicit,
        implicit_velocity=implicit_velocity,
        implicit_velocity_adjoint=implicit_velocity_adjoint,
        begin_bias_adjoint=begin_bias_adjoint,
    )
