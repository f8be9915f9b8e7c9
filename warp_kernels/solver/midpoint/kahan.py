"""Velocity-dependent forces of trees in the middle of a step, linearised in the change of velocity (Kahan's rule).

The bias forces c are quadratic in the velocity v, with the symmetric bilinear form C: c(v) = C(v, v). Kahan's rule
replaces them by ``c(v) + 2 th C(v, x)`` with the change x of the velocity in the step, which is linear in x. With th =
1/2 these are C(v, v + x), of second order and symmetric in time. A tree whose links turn far in a step needs more:

    th = 1 - 1/2 / (1 + t^4),   t = dt^2 times the sum of w . w over the links, with their angular velocities w.

Of a link that is symmetric about an axis (a wheel, a top), only the part of w across that axis counts: its spin doesn't
change the mass matrix. ``symmetry`` has the axis as a combination of its joint's columns, and zeros for other links.

Given the change d with the forces at v, ``M d = dt (tau - c(v))``, the change is ``x = d - A^-1 N d`` with ``N = dt th
dc/dv`` and ``A = M + N``. A isn't symmetric, but has the sparsity of M, see
:mod:`warp_kernels.solver.mujoco.integrators.implicit`, where dc/dv is derived.

Columns of motion of a free base are unit vectors, and a uniform velocity of the whole tree changes no bias force, so
that N has no rows and no entries in other rows for it below the diagonal.

The bias forces of a floating base are those without the acceleration of its origin about its centre of mass: ``lift(w)
= w x (w x a)`` with the arm a is added to the gravity of its tree, see :mod:`warp_kernels.dynamics.gyroscopic`. It is
quadratic in v too, and is part of c.

The adjoint solves ``A' w = v*_bar`` with the cotangent of ``v* = v + x``. The rest is the gradient, at fixed w and x,
of

    -dt w . (ID(v + th x, x / dt) - th^2 ID0(x, 0)),

with inverse dynamics ID, and ID0 without gravity and external forces: no second derivatives. That in th is ``-w . N x /
th``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.solver.midpoint.bias_rates import bias_rate_functions
from warp_kernels.solver.midpoint.coupled_system import coupled_system_functions, coupled_system_headers
from warp_kernels.solver.structs import Paths
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def kahan_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision and a number of worlds in a lane group, over (tree, group).

    ``coupled`` has 1 for trees with Kahan's rule. The other trees keep their velocities.
    """
    t, a, sp = lane_types(scalar, lanes), algebra(scalar, lanes), spatial_functions(scalar, lanes)
    joints, f = joint_functions(scalar, lanes), bias_rate_functions(scalar, lanes)
    system = coupled_system_functions(scalar, lanes)
    real, vec3, spatial, inertia10 = t.real, t.vec3, t.spatial, t.inertia
    states, reals, ints = wp.array2d(dtype=scalar), wp.array2d(dtype=real), wp.array(dtype=int)
    motions, inertias, vectors = wp.array2d(dtype=spatial), wp.array2d(dtype=inertia10), wp.array2d(dtype=vec3)
    headers = coupled_system_headers(lanes)
    module, adjoint_module = (
        kernel_module(name, scalar, lanes, headers=headers) for name in ("kahan", "kahan_adjoint")
    )
    zero, one, half = scalar(0.0), scalar(1.0), scalar(0.5)

    @wp.func
    def spin_of(qd: states, group: int, k: int):
        """Return the angular velocity of a free joint whose degrees of freedom begin with k."""
        return a.make_vec3(a.load(qd, group, k + 3), a.load(qd, group, k + 4), a.load(qd, group, k + 5))

    @wp.func
    def share_of_squares(dt: scalar, squares: real):
        """Return 1 / (1 + t^4) for a sum of w . w."""
        far = dt * dt * squares
        far = a.mul(far, far)
        return a.div(a.real(one), a.real(one) + a.mul(far, far))

    @wp.func
    def add_lift_columns(links: Links, first: int, group: int, w: vec3, arm: vec3, turn: motions):
        """Add the lift to the derivatives of accelerations in the spin of a floating base."""
        for j in range(3):
            k = links.qd_start[first] + 3 + j
            turn[k, group] -= a.join(vec3(), f.lift_rate(w, joints.basis(j), arm))

    @wp.func
    def add_lifted_rotors(
        links: Links, paths: Paths, first: int, group: int, rate: real, dt: scalar, w: vec3, arm: vec3,
        armature: states, qdd: states, upper: reals, loss: reals,
    ):  # fmt: skip
        """Add the lift of rotor inertias of a floating base, which gravity doesn't act on, to N and N d."""
        start = links.qd_start[first]
        for j in range(3):
            k = start + 3 + j
            lifted = f.lift_rate(w, joints.basis(j), arm)
            for i in range(3):
                pushed = -a.mul(a.mul(rate, a.load_param_scalar(armature, group, start + i)), lifted[i])
                upper[paths.dof_row_start[k] + i, group] += pushed
                loss[start + i, group] += dt * a.mul(pushed, a.load(qdd, group, k))

    @wp.func
    def mass_entry(at: int, group: int, mass: real, kahan_mass: reals):
        """Return an entry of the mass matrix with the armature of tendons."""
        found = mass
        if kahan_mass.shape[0] > 0:
            found += kahan_mass[at, group]
        return found

    @wp.func
    def couple_to_base(
        k: int, start: int, first: int, group: int, rate: real, dt: scalar, change: real, force: spatial,
        turned: spatial, pull: spatial, turn: motions, kahan_mass: reals, qdd: states, lower: reals, upper: reals,
        loss: reals,
    ):  # fmt: skip
        """Write the entries of a row of A at the degrees of freedom of a free base, whose columns of motion are unit
        vectors, and add to N d. Return the contribution to row k.

        Bias forces don't depend on a uniform velocity, so that N has no entries below the diagonal for that.
        """
        lost = a.real(zero)
        for c in range(3):
            at = first + c
            mass = mass_entry(at, group, force[3 + c], kahan_mass)
            beyond = a.mul(rate, pull[3 + c])
            lower[at, group] = mass
            upper[at, group] = mass + beyond
            loss[start + c, group] = loss[start + c, group] + a.mul(beyond, change)
        for c in range(3):
            j = start + 3 + c
            if j < k:
                at = first + 3 + c
                mass = mass_entry(at, group, force[c], kahan_mass)
                below = a.mul(rate, a.dot_spatial(force, turn[j, group]) + turned[c])
                beyond = a.mul(rate, pull[c])
                lower[at, group] = mass + below
                upper[at, group] = mass + beyond
                lost += dt * a.mul(below, a.load(qdd, group, j))
                loss[j, group] = loss[j, group] + a.mul(beyond, change)
        return lost

    @wp.func
    def begin_translations(
        start: int, group: int, paths: Paths, mass: real, armature: states, joint_diagonal: reals, kahan_mass: reals,
        lower: reals, upper: reals, diagonal: reals,
    ):  # fmt: skip
        """Write the rows of A of the velocity of a free base: its mass."""
        for c in range(3):
            k = start + c
            diagonal[k, group] = mass + a.load_param_scalar(armature, group, k) + joint_diagonal[k, group]
            for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + c):
                entry = mass_entry(at, group, a.real(zero), kahan_mass)
                lower[at, group] = entry
                upper[at, group] = entry

    @wp.kernel(module=module, enable_backward=False)
    def couple_velocities(
        # Model
        coupled: ints,
        links: Links,
        paths: Paths,
        floating: ints,
        symmetry: wp.array(dtype=scalar),
        dt: scalar,
        # Parameters
        armature: states,
        # Data in
        velocity: motions,
        subspace: motions,
        link_inertia: inertias,
        joint_diagonal: reals,
        kahan_mass: reals,
        # Data out
        kahan_inertia: inertias,
        kahan_rate: inertias,
        kahan_momentum: motions,
        turn: motions,
        kahan_lower: reals,
        kahan_upper: reals,
        kahan_diagonal: reals,
        kahan_theta: reals,
        kahan_loss: reals,
        kahan_change: reals,
        qdd: states,
    ):
        """Change qdd from d / dt to x / dt. kahan_loss: d - x; kahan_change: x; the factors of A and th are for the
        backward pass.

        joint_diagonal: implicit terms on the diagonal of M besides armature. kahan_mass: armature of tendons off the
        diagonal, if it has rows. The first four outputs are scratch.
        """
        tree, group = wp.tid()
        if coupled[tree] == 0:
            return
        first = links.tree_start[tree]
        last = links.tree_start[tree + 1]
        start = links.qd_start[first]
        end = links.qd_start[last]
        translations = int(0)  # coordinates of the position of a free base
        if joints.keeps_axes(links.joint_type[first]):
            translations = 3
        for k in range(start, start + translations):
            kahan_loss[k, group] = a.real(zero)
        squares = a.real(zero)
        for link in range(first, last):
            v = velocity[link, group]
            v_parent = spatial()
            if links.parent[link] >= 0:
                v_parent = velocity[links.parent[link], group]
            body = link_inertia[link, group]
            kahan_inertia[link, group] = body
            kahan_rate[link, group] = f.inertia_rate(body, v)
            kahan_momentum[link, group] = sp.apply_inertia(body, v)
            axis = vec3()
            for k in range(wp.max(links.qd_start[link], start + translations), links.qd_start[link + 1]):
                axis += symmetry[k] * a.angular(subspace[k, group])
                turn[k, group] = f.column_turn(links.joint_type[link], subspace[k, group], v_parent, v)
                kahan_loss[k, group] = a.real(zero)
            spin = a.dot(a.angular(v), axis)
            squares += a.dot(a.angular(v), a.angular(v)) - a.mul(spin, spin)
        w = a.angular(velocity[first, group])
        arm = f.arm_of(link_inertia[first, group])
        if floating[first] == 1:
            add_lift_columns(links, first, group, w, arm, turn)
        theta = a.real(one) - half * share_of_squares(dt, squares)
        kahan_theta[tree, group] = theta
        rate = dt * theta
        for back in range(last - first):
            link = last - 1 - back
            body = kahan_inertia[link, group]
            changing = kahan_rate[link, group]
            momentum = kahan_momentum[link, group]
            parent = links.parent[link]
            if parent >= 0:
                kahan_inertia[parent, group] = kahan_inertia[parent, group] + body
                kahan_rate[parent, group] = kahan_rate[parent, group] + changing
                kahan_momentum[parent, group] = kahan_momentum[parent, group] + momentum
            for k in range(wp.max(links.qd_start[link], start + translations), links.qd_start[link + 1]):
                s = subspace[k, group]
                force = sp.apply_inertia(body, s)
                changed = sp.apply_inertia(changing, s)
                gyration = sp.cross_force(s, momentum)
                pull = sp.apply_inertia(body, turn[k, group]) + changed + gyration
                change = dt * a.load(qdd, group, k)
                own = a.mul(rate, a.dot_spatial(s, pull))
                rotor = a.load_param_scalar(armature, group, k) + joint_diagonal[k, group]
                kahan_diagonal[k, group] = rotor + a.dot_spatial(s, force) + own
                lost = a.mul(own, change)
                of_base = int(0)
                if translations > 0:
                    of_base = wp.min(paths.dof_depth[k], 6)
                    lost += couple_to_base(
                        k, start, paths.dof_row_start[k], group, rate, dt, change, force, changed - gyration, pull,
                        turn, kahan_mass, qdd, kahan_lower, kahan_upper, kahan_loss,
                    )  # fmt: skip
                for at in range(paths.dof_row_start[k] + of_base, paths.dof_row_start[k] + paths.dof_depth[k]):
                    j = paths.ancestor[at]
                    above = subspace[j, group]
                    mass = mass_entry(at, group, a.dot_spatial(above, force), kahan_mass)
                    below = a.dot_spatial(force, turn[j, group]) + a.dot_spatial(changed - gyration, above)
                    below = a.mul(rate, below)
                    beyond = a.mul(rate, a.dot_spatial(above, pull))
                    kahan_lower[at, group] = mass + below
                    kahan_upper[at, group] = mass + beyond
                    lost += dt * a.mul(below, a.load(qdd, group, j))
                    kahan_loss[j, group] = kahan_loss[j, group] + a.mul(beyond, change)
                kahan_loss[k, group] = kahan_loss[k, group] + lost
        if translations > 0:
            begin_translations(
                start, group, paths, kahan_inertia[first, group][0], armature, joint_diagonal, kahan_mass, kahan_lower,
                kahan_upper, kahan_diagonal,
            )  # fmt: skip
        if floating[first] == 1:
            add_lifted_rotors(links, paths, first, group, rate, dt, w, arm, armature, qdd, kahan_upper, kahan_loss)
        system.factor_tree(paths, start, end, group, kahan_lower, kahan_upper, kahan_diagonal)
        system.solve_tree(paths, start, end, group, kahan_lower, kahan_upper, kahan_diagonal, kahan_loss)
        for k in range(start, end):
            found = a.load(qdd, group, k) - (one / dt) * kahan_loss[k, group]
            a.store(qdd, group, k, found)
            kahan_change[k, group] = dt * found

    @wp.func
    def symmetry_axis(links: Links, link: int, group: int, symmetry: wp.array(dtype=scalar), subspace: motions):
        """Return the axis about which a link is symmetric; zero without one."""
        axis = vec3()
        for k in range(links.qd_start[link], links.qd_start[link + 1]):
            axis += symmetry[k] * a.angular(subspace[k, group])
        return axis

    @wp.func
    def add_theta_bar(
        links: Links, first: int, last: int, group: int, symmetry: wp.array(dtype=scalar), dt: scalar, theta_bar: real,
        qd: states, subspace: motions, link_spin: vectors, subspace_bar: motions, qd_bar: states,
    ):  # fmt: skip
        """Propagate the adjoint of th to the angular velocities of the links, and from them to the joints."""
        squares = a.real(zero)
        for link in range(first, last):
            w = vec3()
            if links.parent[link] >= 0:
                w = link_spin[links.parent[link], group]
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                w += a.scale(a.load(qd, group, k), a.angular(subspace[k, group]))
            link_spin[link, group] = w
            spin = a.dot(w, symmetry_axis(links, link, group, symmetry, subspace))
            squares += a.dot(w, w) - a.mul(spin, spin)
        share = share_of_squares(dt, squares)
        far = dt * dt * squares
        slope = a.mul(a.mul(far, a.mul(far, far)), a.mul(share, share))
        factor = (scalar(4.0) * dt * dt) * a.mul(theta_bar, slope)
        for link in range(first, last):
            axis = symmetry_axis(links, link, group, symmetry, subspace)
            w = link_spin[link, group]
            spin = a.dot(w, axis)
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                bar = a.scale((-symmetry[k]) * a.mul(factor, spin), w)
                subspace_bar[k, group] += a.join(bar, vec3())
            link_spin[link, group] = w - a.scale(spin, axis)
        for back in range(last - first):
            link = last - 1 - back
            total = link_spin[link, group]
            parent = links.parent[link]
            # From here on link_spin has the sums over subtrees; a parent adds its own when its children have.
            if parent >= 0:
                link_spin[parent, group] = link_spin[parent, group] + total
            bar = a.scale(factor, total)
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                s = subspace[k, group]
                subspace_bar[k, group] += a.join(a.scale(a.load(qd, group, k), bar), vec3())
                a.add(qd_bar, group, k, a.dot(a.angular(s), bar))

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def couple_adjoint(
        # Model
        coupled: ints,
        links: Links,
        paths: Paths,
        floating: ints,
        symmetry: wp.array(dtype=scalar),
        dt: scalar,
        # Data in
        qd: states,
        subspace: motions,
        link_inertia: inertias,
        lift: vectors,
        factor_l: reals,
        factor_d: reals,
        kahan_lower: reals,
        kahan_upper: reals,
        kahan_diagonal: reals,
        kahan_theta: reals,
        kahan_loss: reals,
        kahan_change: reals,
        # Data out
        kahan_weight: reals,
        kahan_force: reals,
        link_spin: vectors,
        middle_qd: states,
        middle_lift: vectors,
        change_qd: states,
        change_lift: vectors,
        # Adjoint out
        motion_weight: states,
        change_weight: states,
        tau_bar: states,
        qd_bar: states,
        subspace_bar: motions,
    ):
        """Change motion_weight from -dt M^-1 v*_bar to -dt w, and the adjoint of tau with it; propagate that of th.

        middle_qd, middle_lift: v + th x and its lift; change_qd, change_lift: x and its lift; change_weight: dt th^2 w.
        All are inputs of the adjoint of inverse dynamics; the first three outputs are scratch. With loops x is y, see
        :mod:`warp_kernels.solver.midpoint.loops`.
        """
        tree, group = wp.tid()
        first = links.tree_start[tree]
        last = links.tree_start[tree + 1]
        start = links.qd_start[first]
        end = links.qd_start[last]
        if coupled[tree] == 0:
            for k in range(start, end):
                a.store(middle_qd, group, k, a.load(qd, group, k))
                a.store(change_qd, group, k, a.real(zero))
                a.store(change_weight, group, k, a.real(zero))
            if lift.shape[0] > 0:
                middle_lift[tree, group] = lift[tree, group]
                change_lift[tree, group] = vec3()
            return
        theta = kahan_theta[tree, group]
        for k in range(start, end):
            kahan_weight[k, group] = (-one / dt) * a.load_bar(motion_weight, group, k)
            kahan_force[k, group] = kahan_loss[k, group]
        system.multiply_tree(paths, start, end, group, factor_l, factor_d, kahan_weight)
        system.solve_tree_transposed(paths, start, end, group, kahan_lower, kahan_upper, kahan_diagonal, kahan_weight)
        system.multiply_tree(paths, start, end, group, factor_l, factor_d, kahan_force)
        slope = a.real(zero)
        for k in range(start, end):
            weight = kahan_weight[k, group]
            slope += a.mul(weight, kahan_force[k, group])
            if tau_bar.shape[0] > 0:
                a.add(tau_bar, group, k, dt * weight + a.load_bar(motion_weight, group, k))
            a.store(motion_weight, group, k, -dt * weight)
            change = kahan_change[k, group]
            a.store(middle_qd, group, k, a.load(qd, group, k) + a.mul(theta, change))
            a.store(change_qd, group, k, change)
            a.store(change_weight, group, k, dt * a.mul(a.mul(theta, theta), weight))
        theta_bar = -a.div(slope, theta)
        add_theta_bar(links, first, last, group, symmetry, dt, theta_bar, qd, subspace, link_spin, subspace_bar, qd_bar)
        if lift.shape[0] > 0:
            arm = f.arm_of(link_inertia[first, group])
            middle_lift[tree, group] = vec3()
            change_lift[tree, group] = vec3()
            if floating[first] == 1:
                middle_lift[tree, group] = f.lift_of(spin_of(middle_qd, group, start), arm)
                change_lift[tree, group] = f.lift_of(spin_of(change_qd, group, start), arm)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def lift_adjoint(
        # Model
        coupled: ints,
        links: Links,
        floating: ints,
        # Parameters
        armature: states,
        # Data in
        qd: states,
        link_inertia: inertias,
        middle_qd: states,
        change_qd: states,
        # Adjoint in
        motion_weight: states,
        change_weight: states,
        lift_bar: vectors,
        change_lift_bar: vectors,
        # Adjoint out
        qd_bar: states,
        link_inertia_bar: inertias,
        armature_bar: states,
    ):
        """Propagate the adjoints of the lifts of v + th x and x to v and the arm. That of the lift of v, as which
        lift_bar counts elsewhere, is subtracted.
        """
        tree, group = wp.tid()
        first = links.tree_start[tree]
        if coupled[tree] == 0 or floating[first] == 0:
            return
        start = links.qd_start[first]
        w = spin_of(qd, group, start)
        middle = spin_of(middle_qd, group, start)
        change = spin_of(change_qd, group, start)
        body = link_inertia[first, group]
        arm = f.arm_of(body)
        gained = f.lift_of(middle, arm) - f.lift_of(w, arm)
        curved = f.lift_of(change, arm)
        bar = lift_bar[tree, group]
        change_bar = change_lift_bar[tree, group]
        for i in range(3):
            rotor = a.load_param_scalar(armature, group, start + i)
            weight = -a.load_bar(motion_weight, group, start + i)
            second = -a.load_bar(change_weight, group, start + i)
            bar += a.scale(a.mul(rotor, weight), joints.basis(i))
            change_bar += a.scale(a.mul(rotor, second), joints.basis(i))
            if armature_bar.shape[0] > 0:
                a.add_scalar(armature_bar, group, start + i, a.mul(weight, gained[i]) + a.mul(second, curved[i]))
        spin_bar = f.lift_spin_bar(middle, arm, bar) - f.lift_spin_bar(w, arm, bar)
        for i in range(3):
            a.add(qd_bar, group, start + 3 + i, spin_bar[i])
        arm_bar = f.lift_arm_bar(middle, bar) - f.lift_arm_bar(w, bar) + f.lift_arm_bar(change, change_bar)
        over = a.div(body[0], a.mul(body[0], body[0]) + a.real(scalar(1.0e-36)))
        link_inertia_bar[first, group] += a.make_inertia(
            -a.mul(over, a.dot(arm, arm_bar)), a.scale(over, arm_bar), vec3(), vec3()
        )

    return SimpleNamespace(
        module=module, couple_velocities=couple_velocities, couple_adjoint=couple_adjoint, lift_adjoint=lift_adjoint
    )
