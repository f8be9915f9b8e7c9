"""Adjoint of the solution of a step's problem: one system with the transposed matrix, however many iterations there
were.

At the solution ``D z = row' impulse(r)``. With G the derivative of the residual
(:mod:`warp_kernels.solver.newton.residual`), x solves

    G' x = L'^-1 v+_bar,   s = row x,

and the adjoint of a row value is (d impulse / d r)' s; those of bounds and of R follow from the same s. R contains the
effective inverse masses of the rows, so that it also propagates to the mass matrix and the rows.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.kinds import follows_contact
from warp_kernels.solver.mujoco.laws import ALL_CONES
from warp_kernels.solver.newton.adjoint.laws import law_adjoint_functions
from warp_kernels.solver.newton.parts import FACTORED
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import WORLD_HEADERS, newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {
    "newton_adjoint_kernels": [*((model,) for model in (*FRICTION_MODELS, *ALL_CONES)), ("cone", True)],
}


@functools.cache
def newton_adjoint_kernels(scalar: Any, friction: str = "cone", smoothed: bool = False) -> SimpleNamespace:
    """Return the kernel of the adjoint for one precision and friction model, exact or ``smoothed``
    (:mod:`warp_kernels.solver.newton.adjoint.smoothing`).
    """
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    f = residual_functions(scalar, friction, smoothed)
    linear, products = f.linear, f.products
    law_adjoint = law_adjoint_functions(scalar, friction, smoothed)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    Equalities = solver_structs(scalar).Equalities
    name = f"newton_adjoint.{friction}{'.smoothed' if smoothed else ''}"
    module = kernel_module(name, scalar, headers=WORLD_HEADERS)
    # Unrolled loops over sides and attempts make the code twice as long, and no faster.
    wp.set_module_options({"max_unroll": 1}, module)
    zero = scalar(0.0)
    eps = float(np.finfo(wp.dtype_to_numpy(scalar)).eps)
    # Rounding of the relative residual: an error of a row value changes impulses by 1 / regularisation times as much.
    rounding = scalar(1000.0 * eps)

    @wp.func
    def values_adjoint(
        world: int,
        count: int,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """Compute the adjoints of the row values for x, stored in step. Slips keep s."""
        for i in range(count):
            kind = constraints.kind[i, world]
            item = constraints.item[i, world]
            s = products.row_product(i, world, paths, constraints, problem.row, iterate.step)
            if further_impulse_bar.shape[0] > 0:
                s += further_impulse_bar[i, world]
            iterate.slip[i, world] = s
            if wp.static(f.paired):
                if f.is_paired(kind, item, world, problem):
                    continue  # with its TORSION, which comes later
                if follows_contact(kind):
                    own, mixed, other = f.pair_slopes(i, item, world, problem, iterate)
                    first = iterate.slip[item, world]
                    rhs_bar[item, world] = first * own + mixed * s
                    rhs_bar[i, world] = first * mixed + s * other
                    continue
            slope, follows = f.slopes(i, kind, item, world, COUPLED, problem, iterate)
            rhs_bar[i, world] = s * slope
            if wp.static(not f.coupled):
                if further_value_bar.shape[0] > 0:
                    rhs_bar[i, world] += further_value_bar[i, world]
            if follows_contact(kind):
                rhs_bar[item, world] += vec3(wp.dot(follows, s), zero, zero)

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
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """Compute the residual of the right-hand side for x, stored in step. Return its square, in the kinetic energy
        norm.
        """
        values_adjoint(
            world, count, paths, constraints, problem, iterate, further_impulse_bar, further_value_bar, rhs_bar
        )
        for k in range(nv):
            iterate.residual[k, world] = (weight[k, world] - iterate.step[k, world]) / problem.inverse_mass[k, world]
        for i in range(count):
            products.add_push(i, rhs_bar[i, world], world, paths, constraints, problem.row, iterate.residual)
        return f.residual_square(world, nv, problem, iterate)

    @wp.func
    def refine(
        world: int,
        count: int,
        nv: int,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        system: System,
        iterate: Iterate,
        weight: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """Solve for x with the current factors, and refine if the residual exceeds rounding.

        Return the residual relative to the right-hand side.
        """
        for k in range(nv):
            iterate.step[k, world] = zero
            iterate.residual[k, world] = weight[k, world] / problem.inverse_mass[k, world]
        square = f.residual_square(world, nv, problem, iterate)
        if further_impulse_bar.shape[0] > 0:
            square = system_residual(
                world,
                count,
                nv,
                paths,
                constraints,
                problem,
                iterate,
                weight,
                further_impulse_bar,
                further_value_bar,
                rhs_bar,
            )
        left = square
        for _attempt in range(2):
            for k in range(nv):
                iterate.work[system.permutation[k, world], world] = iterate.residual[k, world]
            linear.solve_transposed(world, nv, system, iterate.work)
            for k in range(nv):
                iterate.step[k, world] += iterate.work[system.permutation[k, world], world]
            left = system_residual(
                world,
                count,
                nv,
                paths,
                constraints,
                problem,
                iterate,
                weight,
                further_impulse_bar,
                further_value_bar,
                rhs_bar,
            )
            if left <= rounding * rounding * square:
                break
        if square > zero:
            return wp.sqrt(left / square)
        return zero

    @wp.func
    def find_values_adjoint(
        world: int,
        count: int,
        nv: int,
        factored: bool,
        trees: TreeDofs,
        paths: Paths,
        constraints: Constraints,
        couplings: Couplings,
        problem: Problem,
        system: System,
        iterate: Iterate,
        weight: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """Solve for x, stored in step, and for the adjoints of the row values. Return as :func:`refine`.

        The factors of the last Newton step, if one was ``factored``, are reused as long as the same constraints stick
        and slide in the solution. The residual tells.
        """
        left = scalar(wp.inf)
        # One call in a loop: a GPU's compiler repeats a function's code wherever it is called.
        attempt = int(1)
        if factored:
            attempt = 0
        while attempt < 2 and not left <= rounding:
            if attempt == 1:
                symmetric = f.assemble(
                    world, count, nv, COUPLED, trees, paths, constraints, couplings, problem, iterate, system
                )
                if linear.factorise(world, 0, nv, symmetric, system) == zero:
                    linear.spoil(world, nv, system)
            left = refine(
                world,
                count,
                nv,
                paths,
                constraints,
                problem,
                system,
                iterate,
                weight,
                further_impulse_bar,
                further_value_bar,
                rhs_bar,
            )
            attempt += 1
        return left

    @wp.func
    def has_factors(world: int, solver_iterations: wp.array(dtype=int), iterate: Iterate):
        """Return whether the system holds factors from the last Newton step, for each part if the world is divided."""
        if iterate.part.shape[0] > 0 and iterate.part[FACTORED, world] == 0:
            return False
        return solver_iterations[world] > 0

    @wp.kernel(module=module, enable_backward=False)
    def solution_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        constraints: Constraints,
        couplings: Couplings,
        problem: Problem,
        compliance: wp.array2d(dtype=scalar),
        equalities: Equalities,
        solver_iterations: wp.array(dtype=int),
        # Adjoint in
        weight: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        # Data out
        system: System,
        iterate: Iterate,
        # Adjoint out
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        compliance_bar: wp.array2d(dtype=scalar),
        block_bar: wp.array2d(dtype=mat33),
        equalities_bar: Equalities,
        contact_resistance_bar: wp.array2d(dtype=vec2),
        regularisation_bar: wp.array2d(dtype=scalar),
        adjoint_residual: wp.array(dtype=scalar),
    ):
        """Solve for the adjoint of the solution.

        weight: D^-1 L'^-1 v+_bar.
        iterate: the solution, whose values are read; everything else is scratch.
        solver_iterations: systems solved for it; system holds the last one.
        block_bar: adjoint of the effective inverse masses of a constraint's rows.
        further_value_bar: other contributions to the row values (:mod:`warp_kernels.solver.mujoco.noslip_adjoint`); no
            rows without.
        adjoint_residual: residual of the solution relative to its right-hand side, kept if it exceeds the stored value.
        """
        world = wp.tid()
        count = constraints.count[world]
        if count == 0:
            return
        nv = paths.dof_depth.shape[0]
        left = find_values_adjoint(
            world,
            count,
            nv,
            not wp.static(smoothed) and has_factors(world, solver_iterations, iterate),
            trees,
            paths,
            constraints,
            couplings,
            problem,
            system,
            iterate,
            weight,
            further_impulse_bar,
            further_value_bar,
            rhs_bar,
        )
        if wp.isnan(left):
            left = scalar(wp.inf)
        adjoint_residual[world] = wp.max(adjoint_residual[world], left)
        for i in range(count):
            kind = constraints.kind[i, world]
            item = constraints.item[i, world]
            bounds = f.impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
            if wp.static(f.paired) and (follows_contact(kind) or f.is_paired(kind, item, world, problem)):
                law_adjoint.pair_adjoint(
                    i, kind, item, world, problem, iterate, rhs_bar, bound_bar, compliance_bar, contact_resistance_bar
                )
                continue
            bars = law_adjoint.bound_adjoint(i, kind, item, world, iterate.slip[i, world], bounds, problem, iterate)
            bound_bar[i, world] = bars[0]
            if follows_contact(kind):
                contact_resistance_bar[item, world] += bars
            value = iterate.value[i, world]
            if wp.static(f.coupled):
                resistance_bar = law_adjoint.resistance_adjoint(
                    i, kind, world, value, rhs_bar[i, world], bounds, regularisation, constraints, problem, compliance
                )
                compliance_bar[i, world] = resistance_bar[0]
                block_bar[i, world] = law_adjoint.block_adjoint(
                    i, kind, world, value, rhs_bar[i, world], resistance_bar, regularisation, constraints, problem,
                    equalities, equalities_bar, regularisation_bar,
                )  # fmt: skip
            else:
                compliance_bar[i, world] = law_adjoint.common_resistance_adjoint(
                    i, world, value, rhs_bar[i, world], problem
                )

    return SimpleNamespace(module=module, solution_adjoint=solution_adjoint)
