"""Adjoint of the solution of a step's problem: one system with the transposed matrix, whatever the iterations were.

At the solution ``D z = row' impulse(r)``. With G the derivative of the residual (:mod:`warp_kernels.solver.newton.residual`), x solves

    G' x = L'^-1 v+_bar,   s = row x,

and the adjoint of a row value is (d impulse / d r)' s; those of bounds and of R follow from the same s. R holds the inverse masses
of the rows, so that the mass matrix and the rows are reached through it too.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.ordering import ordering_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import ACTUATOR, CONTACT, TORSION, kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_adjoint_kernels": [(model,) for model in FRICTION_MODELS]}


@functools.cache
def newton_adjoint_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """The adjoint for one precision and friction model."""
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    f = residual_functions(scalar, friction)
    laws, linear, products = f.laws, f.linear, f.products
    ordering = ordering_functions(scalar)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    module = kernel_module(f"newton_adjoint.{friction}", scalar)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def normal_share(
        constraint: int, kind: int, item: int, world: int, s: vec3, bounds: vec2, problem: Problem, iterate: Iterate
    ):
        """Adjoint of the normal impulse that bounds friction, for that of the friction, s."""
        rates = f.bound_rates(constraint, kind, item, world, problem)
        follows = laws.bound_slope(
            kind, iterate.value[constraint, world], problem.grip[constraint, world], bounds, rates
        )
        return wp.dot(follows, s)

    @wp.func
    def values_adjoint(
        world: int,
        count: int,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
        x: wp.array2d(dtype=scalar),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """Adjoints of the row values, for x. Slips keep s."""
        for i in range(count):
            kind = constraints.kind[i, world]
            item = constraints.item[i, world]
            s = products.row_product(i, world, paths, constraints, problem.row, x)
            iterate.slip[i, world] = s
            bounds = f.impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
            slope = laws.slope(kind, iterate.value[i, world], problem.grip[i, world], bounds)
            rhs_bar[i, world] = slope * s
            if (kind == CONTACT or kind == TORSION) and (bounds[0] > zero or bounds[1] > zero):
                # Bounds are positive where the contact bears: then its normal impulse follows its own value.
                share = normal_share(i, kind, item, world, s, bounds, problem, iterate)
                rhs_bar[item, world] -= vec3(share * problem.grip[item, world][0], zero, zero)

    @wp.func
    def system_residual(
        world: int,
        count: int,
        nv: int,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
        weight: wp.array2d(dtype=scalar),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """What x leaves of the right-hand side. Returns the square of it, weighed as kinetic energy is."""
        values_adjoint(world, count, paths, constraints, problem, iterate, iterate.step, rhs_bar)
        for k in range(nv):
            iterate.residual[k, world] = (weight[k, world] - iterate.step[k, world]) / problem.inverse_mass[k, world]
        for i in range(count):
            products.add_push(i, rhs_bar[i, world], world, paths, constraints, problem.row, iterate.residual)
        square = zero
        for k in range(nv):
            square += iterate.residual[k, world] * iterate.residual[k, world] * problem.inverse_mass[k, world]
        return square

    @wp.func
    def bound_adjoint(
        constraint: int, kind: int, item: int, world: int, s: vec3, bounds: vec2, problem: Problem, iterate: Iterate
    ):
        """Adjoint of the friction coefficient, of both of TORSION, or of the bound."""
        size = one
        if kind == CONTACT or kind == TORSION:
            size = f.normal_impulse(item, world, COUPLED, problem, iterate)
        value = iterate.value[constraint, world]
        grip = problem.grip[constraint, world]
        first = laws.bound_slope(kind, value, grip, bounds, vec2(size, zero))
        second = laws.bound_slope(kind, value, grip, bounds, vec2(zero, size))
        return vec2(wp.dot(first, s), wp.dot(second, s))

    @wp.kernel(module=module, enable_backward=False)
    def solution_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        regularisation: scalar,
        # Data in
        constraints: Constraints,
        couplings: Couplings,
        problem: Problem,
        softness: wp.array2d(dtype=scalar),
        # Adjoint in
        weight: wp.array2d(dtype=scalar),
        # Data out
        system: System,
        iterate: Iterate,
        # Adjoint out
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        softness_bar: wp.array2d(dtype=scalar),
        own_bar: wp.array2d(dtype=scalar),
        contact_resistance_bar: wp.array2d(dtype=vec2),
        adjoint_residual: wp.array(dtype=scalar),
    ):
        """weight: D^-1 L'^-1 v+_bar. iterate: the solution, whose values are read; all else of it is scratch. own_bar: adjoint of the squares of a constraint's rows, those of their inverse masses.

        adjoint_residual: what the solution leaves of its right-hand side, relative to that, kept if it is more than what is there
        already.
        """
        world = wp.tid()
        count = constraints.count[world]
        if count == 0:
            return
        nv = paths.dof_depth.shape[0]
        ordering.order(world, trees, constraints, couplings, system)
        linear.outline(world, count, nv, paths, constraints, system)
        symmetric = f.assemble(world, count, nv, COUPLED, paths, constraints, problem, iterate, system)
        linear.factorise(world, nv, symmetric, system)
        square = zero
        for k in range(nv):
            iterate.step[k, world] = zero
            iterate.residual[k, world] = weight[k, world] / problem.inverse_mass[k, world]
            square += weight[k, world] * iterate.residual[k, world]
        left = square
        # Once, and once more for what rounding left.
        for _again in range(2):
            for k in range(nv):
                iterate.work[system.place[k, world], world] = iterate.residual[k, world]
            linear.solve_transposed(world, nv, system, iterate.work)
            for k in range(nv):
                iterate.step[k, world] += iterate.work[system.place[k, world], world]
            left = system_residual(world, count, nv, paths, constraints, problem, iterate, weight, rhs_bar)
        if square > zero:
            adjoint_residual[world] = wp.max(adjoint_residual[world], wp.sqrt(left / square))
        for i in range(count):
            kind = constraints.kind[i, world]
            item = constraints.item[i, world]
            value = iterate.value[i, world]
            grip = problem.grip[i, world]
            value_bar = rhs_bar[i, world]
            bounds = f.impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
            bars = bound_adjoint(i, kind, item, world, iterate.slip[i, world], bounds, problem, iterate)
            bound_bar[i, world] = bars[0]
            if kind == TORSION:
                contact_resistance_bar[item, world] += bars
            # Impulses within their bounds are -r / R: what reaches r reaches R as well.
            first = -grip[0] * value_bar[0] * value[0]
            others = -grip[1] * (value_bar[1] * value[1] + value_bar[2] * value[2])
            spring = softness[i, world]
            if kind == ACTUATOR or spring * grip[0] > one - scalar(1.0e-6):
                softness_bar[i, world] = first
                first = zero
            else:
                softness_bar[i, world] = zero
            own_bar[i, world] = regularisation * (first + others) / laws.row_count(kind)

    @wp.kernel(module=module, enable_backward=False)
    def own_response(
        # Model
        threads: int,
        trees: TreeDofs,
        # Data in
        constraints: Constraints,
        couplings: Couplings,
        constraint_response: wp.array2d(dtype=vec3),
        # Adjoint in
        own_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        coupled_response: wp.array2d(dtype=vec3),
    ):
        """G = (D + D') Y of the incidences of a constraint, D being own_bar times one."""
        thread, world = wp.tid()
        for constraint in range(thread, constraints.count[world], threads):
            for side in range(2):
                incidence = couplings.constraint_incidence[2 * constraint + side, world]
                if incidence < 0 or (side == 1 and incidence == couplings.constraint_incidence[2 * constraint, world]):
                    continue
                tree = trees.dof_tree[constraints.tail[2 * constraint + side, world]]
                at = incidence * trees.max_tree_dofs
                for i in range(trees.tree_dof_start[tree + 1] - trees.tree_dof_start[tree]):
                    coupled_response[at + i, world] = (
                        scalar(2.0) * own_bar[constraint, world] * constraint_response[at + i, world]
                    )

    return SimpleNamespace(module=module, solution_adjoint=solution_adjoint, own_response=own_response)
