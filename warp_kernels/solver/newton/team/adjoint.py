"""Adjoint of the solution by a team of threads per world, see :mod:`warp_kernels.solver.newton.adjoint.adjoint` for the
equations.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.kinds import follows_contact
from warp_kernels.solver.newton.adjoint.laws import law_adjoint_functions
from warp_kernels.solver.newton.residual import COUPLED
from warp_kernels.solver.newton.team.solve import VARIANTS as SOLVERS
from warp_kernels.solver.newton.team.solve import solver_module
from warp_kernels.solver.newton.team.system import team_system_functions, team_work_struct
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_adjoint_kernels": SOLVERS["team_newton_kernels"]}


@functools.cache
def team_adjoint_kernels(scalar: Any, friction: str, width: int, dofs: int) -> SimpleNamespace:
    """Return the kernel of the adjoint; arguments as of
    :func:`warp_kernels.solver.newton.team.solve.team_newton_kernels`.
    """
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    system = team_system_functions(scalar, friction, width, dofs)
    f, team, products = system.residual, system.team, system.residual.products
    law_adjoint = law_adjoint_functions(scalar, friction, False)
    Work, Equalities = team_work_struct(scalar), solver_structs(scalar).Equalities
    module = solver_module("team_adjoint", scalar, friction, width, dofs)
    zero, one = scalar(0.0), scalar(1.0)
    # Rounding of the relative residual: an error of a row value changes impulses by 1 / regularisation times as much.
    rounding = scalar(1000.0 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps))

    @wp.func
    def values_adjoint(
        work: Work,
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """Compute the adjoints of the row values for x, stored in step. Slips keep s."""
        world = work.world
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            s = products.row_product(i, world, work.paths, work.constraints, work.problem.row, work.iterate.step)
            if further_impulse_bar.shape[0] > 0:
                s += further_impulse_bar[i, world]
            work.iterate.slip[i, world] = s
            bar = s * work.slope[i, world]
            if further_value_bar.shape[0] > 0:
                bar += further_value_bar[i, world]
            rhs_bar[i, world] = bar
        team.sync()
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            if follows_contact(work.constraints.kind[i, world]):
                contact = work.constraints.item[i, world]
                mixed = work.mixed[i, world]
                rhs_bar[contact, world] = rhs_bar[contact, world] + work.iterate.slip[i, world] * mixed
                if wp.static(f.paired):
                    rhs_bar[i, world] = rhs_bar[i, world] + mixed * work.iterate.slip[contact, world]
        team.sync()

    @wp.func
    def system_residual(
        work: Work,
        weight: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """Compute the residual of the right-hand side for x, stored in step. Return its square, in the kinetic energy
        norm.
        """
        values_adjoint(work, further_impulse_bar, further_value_bar, rhs_bar)
        square = zero
        for n in range(team.lane(), work.nv, team.size()):
            k = team.item(n, work.nv)
            inverse = work.problem.inverse_mass[k, work.world]
            left = (weight[k, work.world] - work.iterate.step[k, work.world]) / inverse
            left = system.with_pushes(k, left, one, rhs_bar, work)
            work.iterate.residual[k, work.world] = left
            square += left * left * inverse
        return team.total(square)

    @wp.func
    def find_values_adjoint(
        work: Work,
        weight: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        rhs_bar: wp.array2d(dtype=vec3),
    ):
        """Solve for x, stored in step, and for the adjoints of the row values; refine if the residual exceeds rounding.

        Return the residual relative to the right-hand side.
        """
        world = work.world
        system.assemble(COUPLED, True, work)
        for n in range(team.lane(), work.nv, team.size()):
            work.iterate.step[team.item(n, work.nv), world] = zero
        team.sync()
        square = system_residual(work, weight, further_impulse_bar, further_value_bar, rhs_bar)
        left = square
        for attempt in range(2):
            system.set_side(one, work.iterate.residual, work)
            if attempt == 0:
                system.factorise(work)
            else:
                system.solve_lower(work)
            system.solve_upper(work.iterate.work, work)
            for n in range(team.lane(), work.nv, team.size()):
                k = team.item(n, work.nv)
                work.iterate.step[k, world] = work.iterate.step[k, world] + work.iterate.work[k, world]
            team.sync()
            left = system_residual(work, weight, further_impulse_bar, further_value_bar, rhs_bar)
            if left <= rounding * rounding * square:
                break
        if square > zero:
            return wp.sqrt(left / square)
        return zero

    @wp.kernel(module=module, enable_backward=False)
    def team_solution_adjoint(
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        compliance: wp.array2d(dtype=scalar),
        equalities: Equalities,
        # Adjoint in
        weight: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        further_value_bar: wp.array2d(dtype=vec3),
        # Data out
        work: Work,
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
        """Solve for the adjoint of the solution; arguments as of
        :func:`warp_kernels.solver.newton.adjoint.adjoint.newton_adjoint_kernels`.

        work: with the values of the solution in its iterate; everything else there is scratch.
        """
        world, _lane = wp.tid()
        team.begin(work.scratch, world)
        count = work.constraints.count[world]
        if count == 0:
            return
        work.world = world
        work.count = count
        work.nv = work.paths.dof_depth.shape[0]
        left = find_values_adjoint(work, weight, further_impulse_bar, further_value_bar, rhs_bar)
        if wp.isnan(left):
            left = scalar(wp.inf)
        if team.is_first():
            adjoint_residual[world] = wp.max(adjoint_residual[world], left)
        for n in range(team.lane(), count, team.size()):
            i = team.item(n, count)
            kind = work.constraints.kind[i, world]
            item = work.constraints.item[i, world]
            if wp.static(f.paired) and (follows_contact(kind) or f.is_paired(kind, item, world, work.problem)):
                law_adjoint.pair_adjoint(
                    i, kind, item, world, work.problem, work.iterate, rhs_bar, bound_bar, compliance_bar,
                    contact_resistance_bar,
                )  # fmt: skip
                continue
            bounds = f.impulse_bounds(i, kind, item, world, COUPLED, work.problem, work.iterate)
            bars = law_adjoint.bound_adjoint(
                i, kind, item, world, work.iterate.slip[i, world], bounds, work.problem, work.iterate
            )
            bound_bar[i, world] = bars[0]
            if follows_contact(kind):
                contact_resistance_bar[item, world] = contact_resistance_bar[item, world] + bars
            value = work.iterate.value[i, world]
            if wp.static(f.coupled):
                resistance_bar = law_adjoint.resistance_adjoint(
                    i, kind, world, value, rhs_bar[i, world], bounds, regularisation, work.constraints, work.problem,
                    compliance,
                )  # fmt: skip
                compliance_bar[i, world] = resistance_bar[0]
                block_bar[i, world] = law_adjoint.block_adjoint(
                    i, kind, world, value, rhs_bar[i, world], resistance_bar, regularisation, work.constraints,
                    work.problem, equalities, equalities_bar, regularisation_bar,
                )  # fmt: skip
            else:
                compliance_bar[i, world] = law_adjoint.common_resistance_adjoint(
                    i, world, value, rhs_bar[i, world], work.problem
                )

    return SimpleNamespace(module=module, team_solution_adjoint=team_solution_adjoint)
