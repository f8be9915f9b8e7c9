"""Second solution of a step under the hard law, in which sticking friction hardly creeps.

Friction that sticks slips by R times its impulse. A second solution with the friction law moved by the impulses of the
first, ``impulse = project(first_impulse - r / R)`` in place of ``project(-r / R)``, leaves R times the change of the
impulse, about the regularisation times as much (method of multipliers; Rockafellar, *Augmented Lagrangians and
Applications of the Proximal Point Algorithm in Convex Programming*, 1976). R is the same in both, so that the second is
as well conditioned as the first. It has the same equations, with the row values of friction shifted by ``-R
first_impulse``, and is measured from the velocity of the first solution, so that it begins there.

Backward pass: the adjoint of the second solution gives those of the shifts, thus of the impulses of the first, whose
adjoint is the same kernel. With s the adjoints of the row values of both and w those of the weights, the adjoints of
rows and the mass matrix would be

    J_bar = impulse_2 w_2' + s_2 v_2' + impulse_1 w_1' + s_1 v_1'.

Other kernels compute ``impulse_2 (w_1 + w_2)' + (s_1 + s_2) v_2'``; :func:`add_first_products` adds the rest.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact, has_own_compliance, is_contact, is_in_interval
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.newton.adjoint.laws import law_adjoint_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def newton_noslip_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, one thread per world."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    products, factor = product_functions(scalar), factor_kernels(scalar)
    law_adjoint = law_adjoint_functions(scalar, "cone")
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    module, adjoint_module = (
        kernel_module(name, scalar, headers=ROW_HEADERS) for name in ("newton_noslip", "newton_noslip_adjoint")
    )
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def resistances(i: int, world: int, constraints: Constraints, problem: Problem):
        """Return R of the rows of friction, zero for other rows and for immovable ones."""
        kind = constraints.kind[i, world]
        result = vec3()
        stiffness = problem.row_stiffness[i, world]
        if (is_contact(kind) or follows_contact(kind)) and stiffness[1] > zero:
            result = vec3(zero, one / stiffness[1], one / stiffness[1])
        is_dry = is_in_interval(kind) and not has_own_compliance(kind) and problem.bound[i, world] < scalar(wp.inf)
        if (is_dry or follows_contact(kind)) and stiffness[0] > zero:
            result[0] = one / stiffness[0]
        return result

    @wp.kernel(module=module, enable_backward=False)
    def shift_friction(
        # Data in
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
        response: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        residual: wp.array(dtype=scalar),
        solver_iterations: wp.array(dtype=int),
        # Data out
        first_value: wp.array2d(dtype=vec3),
        first_impulse: wp.array2d(dtype=vec3),
        first_qd: wp.array2d(dtype=scalar),
        first_loss: wp.array2d(dtype=scalar),
        first_residual: wp.array(dtype=scalar),
        first_iterations: wp.array(dtype=int),
        shifted_value: wp.array2d(dtype=vec3),
        shifted_rhs: wp.array2d(dtype=vec3),
    ):
        """Keep the first solution, and state the problem of the second.

        response, qd_solved: effect of the first impulses, and the velocity after them.
        first_loss: minus that effect, the change of velocity without impulses from there [world, dof].
        shifted_value, shifted_rhs: row values after the first impulses and without any, shifted.
        """
        world = wp.tid()
        for k in range(first_qd.shape[1]):
            first_qd[world, k] = qd_solved[world, k]
            first_loss[world, k] = -response[k, world]
        first_residual[world] = residual[world]
        first_iterations[world] = solver_iterations[world]
        for i in range(constraints.count[world]):
            impulse = iterate.impulse[i, world]
            shift = wp.cw_mul(resistances(i, world, constraints, problem), impulse)
            first_value[i, world] = iterate.value[i, world]
            first_impulse[i, world] = impulse
            shifted_value[i, world] = iterate.value[i, world] - shift
            shifted_rhs[i, world] = problem.rhs[i, world] - shift

    @wp.kernel(module=module, enable_backward=False)
    def report_both(
        # Data in
        first_residual: wp.array(dtype=scalar),
        first_iterations: wp.array(dtype=int),
        # Data out
        residual: wp.array(dtype=scalar),
        solver_iterations: wp.array(dtype=int),
    ):
        """Report the larger residual of both solutions, and the systems of both."""
        world = wp.tid()
        residual[world] = wp.max(residual[world], first_residual[world])
        solver_iterations[world] += first_iterations[world]

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def shift_adjoint(
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        constraints: Constraints,
        problem: Problem,
        compliance: wp.array2d(dtype=scalar),
        first_impulse: wp.array2d(dtype=vec3),
        # Adjoint in
        rhs_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        first_impulse_bar: wp.array2d(dtype=vec3),
        compliance_bar: wp.array2d(dtype=scalar),
        block_bar: wp.array2d(dtype=mat33),
        regularisation_bar: wp.array2d(dtype=scalar),
    ):
        """Propagate the adjoints of shifted row values to R and to the impulses of the first solution.

        The adjoint of the second solution takes its shifted values for -R impulse; the difference is added to those of
        R.
        """
        world = wp.tid()
        for i in range(constraints.count[world]):
            shift = resistances(i, world, constraints, problem)
            first_impulse_bar[i, world] = -wp.cw_mul(shift, rhs_bar[i, world])
            if wp.dot(shift, shift) == zero:
                continue
            kind = constraints.kind[i, world]
            value = wp.cw_mul(shift, first_impulse[i, world])
            bars = law_adjoint.resistance_adjoint(
                i, kind, world, value, rhs_bar[i, world], vec2(), regularisation, constraints, problem, compliance
            )
            compliance_bar[i, world] += bars[0]
            mean = law_adjoint.mobility_adjoint(
                i, kind, world, bars, regularisation, constraints, problem, regularisation_bar
            )
            block_bar[i, world] += mean * wp.identity(n=3, dtype=scalar)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def add_first_adjoints(
        # Data in
        constraints: Constraints,
        # Adjoint in
        first_rhs_bar: wp.array2d(dtype=vec3),
        first_bound_bar: wp.array2d(dtype=scalar),
        first_compliance_bar: wp.array2d(dtype=scalar),
        first_block_bar: wp.array2d(dtype=mat33),
        # Adjoint out
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        compliance_bar: wp.array2d(dtype=scalar),
        block_bar: wp.array2d(dtype=mat33),
    ):
        """Add the adjoints of the first solution to those of the second."""
        world = wp.tid()
        for i in range(constraints.count[world]):
            rhs_bar[i, world] += first_rhs_bar[i, world]
            bound_bar[i, world] += first_bound_bar[i, world]
            compliance_bar[i, world] += first_compliance_bar[i, world]
            block_bar[i, world] += first_block_bar[i, world]

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def add_first_products(
        # Model
        paths: Paths,
        trees: TreeDofs,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        couplings: Couplings,
        impulse: wp.array2d(dtype=vec3),
        response: wp.array2d(dtype=scalar),
        first_impulse: wp.array2d(dtype=vec3),
        first_loss: wp.array2d(dtype=scalar),
        # Adjoint in
        first_rhs_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        first_weight: wp.array2d(dtype=scalar),
        coupled_response: wp.array2d(dtype=vec3),
        solver_mass_bar: wp.array2d(dtype=scalar),
        solver_mass_bar_diagonal: wp.array2d(dtype=scalar),
    ):
        """Add the products in which the two solutions differ to the adjoints of rows and the mass matrix.

        first_weight: M^-1 J' first_rhs_bar. coupled_response: the adjoint of rows, at the degrees of freedom of both
        paths. solver_mass_bar: packed, and its diagonal.
        """
        world = wp.tid()
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            first_weight[k, world] = zero
        for i in range(constraints.count[world]):
            push = first_rhs_bar[i, world]
            products.add_scaled_push(i, push, world, paths, constraints, row, factor_d, first_weight)
        products.solve_lower(paths, factor_l, first_weight, world)
        for i in range(constraints.count[world]):
            more = first_impulse[i, world] - impulse[i, world]
            for side in range(2):
                tail = constraints.tail[2 * i + side, world]
                if tail < 0:
                    continue
                mate = constraints.tail[2 * i, world]
                at = couplings.constraint_incidence[2 * i + side, world] * trees.max_tree_dofs
                at -= trees.tree_dof_start[trees.dof_tree[tail]]
                for d in range(paths.dof_depth[tail] + 1):
                    k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                    if side == 1 and mate >= 0 and d <= paths.dof_depth[mate]:
                        if k == factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, mate, d):
                            continue  # with the first side
                    faster = -first_loss[world, k] - response[k, world]
                    coupled_response[at + k, world] += more * first_weight[k, world] + first_rhs_bar[i, world] * faster
        for k in range(nv):
            w = first_weight[k, world]
            u = -first_loss[world, k] - response[k, world]
            solver_mass_bar_diagonal[k, world] -= w * u
            first = paths.dof_row_start[k]
            for d in range(paths.dof_depth[k]):
                j = paths.ancestor[first + d]
                other = -first_loss[world, j] - response[j, world]
                solver_mass_bar[first + d, world] -= w * other + first_weight[j, world] * u

    return SimpleNamespace(
        module=module,
        shift_friction=shift_friction,
        report_both=report_both,
        shift_adjoint=shift_adjoint,
        add_first_adjoints=add_first_adjoints,
        add_first_products=add_first_products,
    )
