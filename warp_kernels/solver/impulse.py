"""Next velocity from impulses, ``v+ = v* + M^-1 J' lambda``, and the hand-written adjoint of the whole constrained
step.

Nothing is differentiated through a factorisation. Given ``A = J M^-1 J' + cfm``, ``b = J v* + bias``, the free step ``M
(v* - qd) = dt (tau - h)`` and the cotangents of v+, A and b, let

    w = M^-1 (v+_bar + J' b_bar),   u = v+ - v* = M^-1 J' lambda,   Y = M^-1 J',   D = A_bar - b_bar lambda'.

The adjoint of the mass matrix is ``-w u' - Y D Y'`` (only its entries at ancestors matter); that of the free step is
the gradient of ``-dt w . ID(q, qd, (v* - qd)/dt)``; that of the rows is in :mod:`warp_kernels.constraints.row_adjoint`.
D is zero once the sweeps have converged, and absent for the adjoint of the solution
(:mod:`warp_kernels.solver.implicit`).

Y and its products are stored for each incidence of a constraint and a tree (:mod:`warp_kernels.solver.delassus`),
``[incidence max_tree_dofs + i, world]`` with i counted from the first degree of freedom of the tree,
``tree_dof_start``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def impulse_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels that apply impulses, those of the backward pass, and responses to impulses, which only some
    backward passes need.
    """
    t = warp_types(scalar)
    common = row_functions(scalar)
    factor = factor_kernels(scalar)
    products = product_functions(scalar)
    vec3, mat33 = t.vec3, t.mat33
    structs = solver_structs(scalar)
    JointParameters, Beginning, Solved = structs.JointParameters, structs.Beginning, structs.Solved
    module, adjoint_module, push_module, response_module = (
        kernel_module(name, scalar, headers=ROW_HEADERS)
        for name in ("impulse", "impulse_adjoint", "impulse_pushes", "responses")
    )

    @wp.kernel(module=module, enable_backward=False)
    def apply_impulses(
        # Model
        paths: Paths,
        dt: scalar,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Data out
        response: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
    ):
        """Add the impulses to the velocity.

        response: M^-1 J' lambda, [dof, world]. qd_solved: v+, which is the velocity after the step except for MuJoCo's
        damping.
        """
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            response[k, world] = scalar(0.0)
        for constraint in range(constraints.count[world]):
            push = impulse[constraint, world]
            # Most candidate contacts of a heap have zero impulse. NaN is propagated.
            if wp.dot(push, push) != scalar(0.0):
                products.add_push(constraint, push, world, paths, constraints, row, response)
        if constraints.count[world] > 0:
            products.solve_pushes(world, paths, factor_l, factor_d, response)
        for k in range(nv):
            qd_solved[world, k] = qd[world, k] + dt * qdd[world, k] + response[k, world]

    @wp.kernel(module=push_module, enable_backward=False)
    def push_impulses(
        # Model
        paths: Paths,
        # Data in
        row: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Data out
        response: wp.array2d(dtype=scalar),
    ):
        """Compute the momenta of the impulses. response: L'^-1 J' lambda, for
        :mod:`warp_kernels.solver.impulse_groups`.
        """
        world = wp.tid()
        for k in range(paths.dof_depth.shape[0]):
            response[k, world] = scalar(0.0)
        for constraint in range(constraints.count[world]):
            push = impulse[constraint, world]
            # Most candidate contacts of a heap have zero impulse. NaN is propagated.
            if wp.dot(push, push) != scalar(0.0):
                products.add_push(constraint, push, world, paths, constraints, row, response)

    @wp.kernel(module=push_module, enable_backward=False)
    def push_weights(
        # Model
        paths: Paths,
        # Data in
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Adjoint in
        rhs_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
    ):
        """Add D^-1 L'^-1 J' b_bar to weight, in the same way."""
        world = wp.tid()
        for constraint in range(constraints.count[world]):
            push = rhs_bar[constraint, world]
            products.add_scaled_push(constraint, push, world, paths, constraints, row, factor_d, weight)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def velocity_adjoint(
        # Model
        paths: Paths,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Adjoint in
        qd_solved_bar: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
        impulse_bar: wp.array2d(dtype=vec3),
    ):
        """Begin the backward pass of the velocity. weight: v+_bar half way through the solve with M [dof, world].
        impulse_bar = J M^-1 v+_bar; no rows for Newton's method.

        further_impulse_bar: contribution of bounces and measured forces to impulse_bar
        (:mod:`warp_kernels.solver.impact_time`, :mod:`warp_kernels.sensors.readings`); no rows without these.
        """
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            weight[k, world] = qd_solved_bar[world, k]
        products.begin_solve(world, paths, factor_l, factor_d, weight)
        if impulse_bar.shape[0] == 0:
            return
        for constraint in range(constraints.count[world]):
            bar = products.row_product(constraint, world, paths, constraints, row, weight)
            if further_impulse_bar.shape[0] > 0:
                bar += further_impulse_bar[constraint, world]
            impulse_bar[constraint, world] = bar

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def weight_adjoint(
        # Model
        paths: Paths,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Adjoint in
        rhs_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
    ):
        """Compute w = M^-1 (v+_bar + J' b_bar) from the result of :func:`velocity_adjoint`."""
        world = wp.tid()
        for constraint in range(constraints.count[world]):
            push = rhs_bar[constraint, world]
            products.add_scaled_push(constraint, push, world, paths, constraints, row, factor_d, weight)
        products.solve_lower(paths, factor_l, weight, world)

    @wp.kernel(module=response_module, enable_backward=False)
    def constraint_response(
        # Model
        threads: int,
        paths: Paths,
        trees: TreeDofs,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        couplings: Couplings,
        # Adjoint out
        constraint_response: wp.array2d(dtype=vec3),
    ):
        """Compute Y = M^-1 J' of the incidences of a constraint."""
        thread, world = wp.tid()
        for constraint in range(thread, constraints.count[world], threads):
            for side in range(2):
                here = 2 * constraint + side
                tail = constraints.tail[here, world]
                incidence = couplings.constraint_incidence[here, world]
                if incidence >= 0:
                    tree = trees.dof_tree[tail]
                    first = trees.tree_dof_start[tree]
                    at = incidence * trees.max_tree_dofs - first
                    if side == 0 or couplings.constraint_incidence[here - 1, world] != incidence:
                        for k in range(first, trees.tree_dof_start[tree + 1]):
                            constraint_response[at + k, world] = vec3()
                    for d in range(paths.dof_depth[tail] + 1):
                        k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                        constraint_response[at + k, world] += (
                            row[here * paths.max_depth + d, world] * factor_d[k, world]
                        )
                    if side == 1 or couplings.constraint_incidence[here + 1, world] != incidence:
                        for k in range(first, trees.tree_dof_start[tree + 1]):
                            value = constraint_response[at + k, world]
                            for d in range(paths.dof_depth[k]):
                                entry = paths.dof_row_start[k] + d
                                value -= constraint_response[at + paths.ancestor[entry], world] * factor_l[entry, world]
                            constraint_response[at + k, world] = value

    @wp.func
    def first_incidence(constraint: int, side: int, world: int, couplings: Couplings):
        """Return a side's incidence with its tree; -1 for the world, and for side b if side a has the same one."""
        incidence = couplings.constraint_incidence[2 * constraint + side, world]
        if side == 1 and incidence == couplings.constraint_incidence[2 * constraint, world]:
            return -1
        return incidence

    @wp.func
    def incidence_between(constraint: int, start: int, end: int, world: int, couplings: Couplings):
        """Return a constraint's incidence with the tree whose incidences are those from start to before end; -1 if it
        has none.
        """
        incidence = couplings.constraint_incidence[2 * constraint + 1, world]
        if incidence < start or incidence >= end:
            incidence = couplings.constraint_incidence[2 * constraint, world]
            if incidence < start or incidence >= end:
                incidence = -1
        return incidence

    @wp.kernel(module=response_module, enable_backward=False)
    def coupled_response(
        # Model
        threads: int,
        trees: TreeDofs,
        # Data in
        constraints: Constraints,
        couplings: Couplings,
        constraint_response: wp.array2d(dtype=vec3),
        # Adjoint in
        matrix_bar: wp.array2d(dtype=mat33),
        # Adjoint out
        coupled_response: wp.array2d(dtype=vec3),
    ):
        """Compute G = (D + D') Y of the incidences of a constraint: for each, the sum over the constraints that act on
        its tree.
        """
        thread, world = wp.tid()
        for constraint in range(thread, constraints.count[world], threads):
            for side in range(2):
                incidence = first_incidence(constraint, side, world, couplings)
                if incidence < 0:
                    continue
                tree = trees.dof_tree[constraints.tail[2 * constraint + side, world]]
                start = couplings.tree_start[tree, world]
                end = couplings.tree_start[tree + 1, world]
                dofs = trees.tree_dof_start[tree + 1] - trees.tree_dof_start[tree]
                at = incidence * trees.max_tree_dofs
                for i in range(dofs):
                    coupled_response[at + i, world] = vec3()
                ranges = couplings.row[constraint, world]
                entry = ranges[0]
                for r in range(ranges[2], ranges[3]):
                    run = couplings.run[r, world]
                    for other in range(run[0], run[1]):
                        mate = incidence_between(other, start, end, world, couplings) * trees.max_tree_dofs
                        if mate >= 0:
                            m = matrix_bar[entry, world]
                            for i in range(dofs):
                                coupled_response[at + i, world] += m * constraint_response[mate + i, world]
                        entry += 1

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def free_step_adjoint(
        # Model
        threads: int,
        paths: Paths,
        dof_q: wp.array(dtype=int),
        trees: TreeDofs,
        dt: scalar,
        ahead: scalar,
        # Parameters
        joints: JointParameters,
        # Data in
        beginning: Beginning,
        response: wp.array2d(dtype=scalar),
        couplings: Couplings,
        constraint_response: wp.array2d(dtype=vec3),
        solved: Solved,
        # Adjoint in
        solver_mass_bar: wp.array2d(dtype=scalar),
        solver_mass_bar_diagonal: wp.array2d(dtype=scalar),
        qd_solved_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        motion_weight: wp.array2d(dtype=scalar),
        mass_bar: wp.array2d(dtype=scalar),
        mass_bar_diagonal: wp.array2d(dtype=scalar),
        beginning_bar: Beginning,
        joints_bar: JointParameters,
    ):
        """Compute the adjoint of the free step for one degree of freedom: motion_weight = -dt w, packed M_bar of the
        impulses, and the terms on the joint's own diagonal.

        constraint_response holds Y, empty if there is no D; solver_mass_bar is the contribution of Newton's method to
        M_bar (:mod:`warp_kernels.solver.newton.adjoint.regularisation`), empty elsewhere. The step's implicit diagonal
        is armature + ahead damping + dt ahead stiffness.

        ahead: dt, or zero if springs and dampers act at the beginning of the step.
        """
        thread, world = wp.tid()
        for k in range(thread, paths.dof_depth.shape[0], threads):
            w = solved.weight[k, world]
            u = response[k, world]
            diagonal = -w * u
            first = paths.dof_row_start[k]
            for d in range(paths.dof_depth[k]):
                j = paths.ancestor[first + d]
                mass_bar[first + d, world] = -w * response[j, world] - solved.weight[j, world] * u
            if solved.lag.shape[0] > 0:
                late_w = solved.lag_weight[k, world]
                late_u = solved.lag[k, world]
                diagonal -= late_w * late_u
                for d in range(paths.dof_depth[k]):
                    j = paths.ancestor[first + d]
                    mass_bar[first + d, world] -= late_w * solved.lag[j, world] + solved.lag_weight[j, world] * late_u
                w += solved.free_weight[k, world]
            if solver_mass_bar_diagonal.shape[0] > 0:
                diagonal += solver_mass_bar_diagonal[k, world]
                for d in range(paths.dof_depth[k]):
                    mass_bar[first + d, world] += solver_mass_bar[first + d, world]
            if constraint_response.shape[0] > 0:
                tree = trees.dof_tree[k]
                for incidence in range(couplings.tree_start[tree, world], couplings.tree_start[tree + 1, world]):
                    at = incidence * trees.max_tree_dofs - trees.tree_dof_start[tree]
                    y = constraint_response[at + k, world]
                    diagonal -= scalar(0.5) * wp.dot(y, solved.response[at + k, world])
                    for d in range(paths.dof_depth[k]):
                        mass_bar[first + d, world] -= wp.dot(y, solved.response[at + paths.ancestor[first + d], world])
            free = beginning.qd[world, k] + ahead * solved.qdd[world, k]
            damping_here = -dt * w * free
            if solved.damping_loss.shape[0] > 0:
                late = solved.damping_weight[world, k]
                loss = solved.damping_loss[world, k]
                diagonal += late * loss
                damping_here += dt * late * (loss - solved.qd[world, k] + beginning.qd[world, k])
                for d in range(paths.dof_depth[k]):
                    j = paths.ancestor[first + d]
                    mass_bar[first + d, world] += (
                        late * solved.damping_loss[world, j] + solved.damping_weight[world, j] * loss
                    )
            mass_bar_diagonal[k, world] = diagonal
            motion_weight[world, k] = -dt * w
            beginning_bar.tau[world, k] += dt * w
            damp = joints.damping[wp.min(world, joints.damping.shape[0] - 1), k]
            spring = joints.stiffness[wp.min(world, joints.stiffness.shape[0] - 1), k]
            common.add_at(joints_bar.armature, world, k, diagonal - w * dt * solved.qdd[world, k])
            common.add_at(joints_bar.damping, world, k, ahead * diagonal + damping_here)
            # v*_bar reaches qd directly as M w minus the implicit diagonal's share; the rows add theirs in row_adjoint.
            beginning_bar.qd[world, k] += qd_solved_bar[world, k] - dt * damp * w
            if dof_q[k] >= 0:
                beginning_bar.qd[world, k] -= dt * ahead * spring * w
                stretch = (
                    beginning.q[world, dof_q[k]]
                    - joints.rest_position[wp.min(world, joints.rest_position.shape[0] - 1), k]
                    + ahead * free
                )
                beginning_bar.q[world, dof_q[k]] -= dt * spring * w
                common.add_at(joints_bar.stiffness, world, k, dt * (ahead * diagonal - w * stretch))
                common.add_at(joints_bar.rest_position, world, k, dt * spring * w)

    return SimpleNamespace(
        module=module,
        apply_impulses=apply_impulses,
        push_impulses=push_impulses,
        push_weights=push_weights,
        velocity_adjoint=velocity_adjoint,
        weight_adjoint=weight_adjoint,
        constraint_response=constraint_response,
        coupled_response=coupled_response,
        free_step_adjoint=free_step_adjoint,
    )
