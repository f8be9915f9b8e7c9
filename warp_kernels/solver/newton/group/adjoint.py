"""Backward pass through the constraints of the worlds of a lane group.

From the adjoint of v+ it solves one system for each world, with the transposed matrix, for the adjoints of row values,
and propagates these to the inputs of the rows. :mod:`warp_kernels.solver.newton.adjoint.adjoint`,
:mod:`warp_kernels.solver.newton.adjoint.regularisation`, the pushes of :mod:`warp_kernels.solver.impulse` and the
geometric rows of :mod:`warp_kernels.constraints.row_adjoint` do the same for one world.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.kinds import has_varying_row
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.mujoco.laws import CONES
from warp_kernels.solver.newton.adjoint.laws import law_adjoint_functions
from warp_kernels.solver.newton.group import system as kept
from warp_kernels.solver.newton.group.rows import group_geometry_functions
from warp_kernels.solver.newton.group.steps import group_step_functions
from warp_kernels.solver.newton.group.structs import GROUP_ADJOINT_HEADERS, SOLVED, group_structs, side_structs
from warp_kernels.solver.newton.group.sweeps import FIELDS
from warp_kernels.solver.newton.group.system import adjoint_system_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def adjoint_solve_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Return the Warp functions for one precision, friction model or cone of MuJoCo's, and number of worlds in a lane
    group.
    """
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    s = group_step_functions(scalar, friction, lanes)
    together, linear = s.together, adjoint_system_functions(scalar, lanes, friction in CONES.values())
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    Group = group_structs(scalar).Group
    eps = float(np.finfo(wp.dtype_to_numpy(scalar)).eps)
    rounding_square = scalar((1000.0 * eps) ** 2)  # as for one world

    @wp.func
    def get(i: int, what: int, n: int, shared: Group):
        """Return a vector of world n among the fields of constraint i."""
        at = (i * FIELDS + what) * lanes + n
        return vec3(shared.fields[at], shared.fields[at + lanes], shared.fields[at + 2 * lanes])

    @wp.func
    def keep_further(i: int, group: int, further_impulse_bar: wp.array2d(dtype=vec3), shared: Group):
        """Store the adjoint of the impulses in slot i except that from the next velocity."""
        for n in range(lanes):
            world = group * lanes + n
            further = vec3()
            constraint = shared.slot_constraint[i * lanes + n]
            if constraint >= 0:
                further = further_impulse_bar[constraint, world]
            for r in range(3):
                shared.fields[(i * FIELDS + kept.FURTHER + r) * lanes + n] = further[r]

    @wp.func
    def keep_block_bar(i: int, n: int, own: mat33, shared: Group):
        """Store the adjoint of the effective inverse masses of the rows in slot i of one world."""
        for r in range(3):
            shared.fields[(i * FIELDS + kept.BLOCK_BAR + r) * lanes + n] = own[r, r]
        shared.fields[(i * FIELDS + kept.BLOCK_BAR + 3) * lanes + n] = own[0, 1]
        shared.fields[(i * FIELDS + kept.BLOCK_BAR + 4) * lanes + n] = own[0, 2]
        shared.fields[(i * FIELDS + kept.BLOCK_BAR + 5) * lanes + n] = own[1, 2]

    @wp.func
    def find_residual(
        group: int,
        most: int,
        nv: int,
        has_further: bool,
        problem: Problem,
        weight: wp.array2d(dtype=scalar),
        shared: Group,
        iterate: Iterate,
    ):
        """Compute the residual of the right-hand side after the step, and its square."""
        linear.find_adjoint_residual(
            group, most, nv, has_further, weight, problem.inverse_mass, iterate.step, shared, iterate.residual
        )
        together.find_square(group, nv, problem.inverse_mass, iterate.residual, shared)

    @wp.func
    def is_left(shared: Group):
        """Stop worlds whose residual is rounding. Return whether any world continues."""
        goes_on = bool(False)
        for n in range(lanes):
            if shared.moves[n] == 1:
                shared.moves[n] = 0
                if not shared.square[n] <= rounding_square * shared.left[n]:
                    shared.moves[n] = 1
                    goes_on = True
        return goes_on

    @wp.func
    def solve(
        group: int,
        most: int,
        nv: int,
        has_further: bool,
        constraints: Constraints,
        problem: Problem,
        kept_system: System,
        solver_iterations: wp.array(dtype=int),
        stage: wp.array(dtype=int),
        weight: wp.array2d(dtype=scalar),
        shared: Group,
        iterate: Iterate,
    ):
        """Solve for x, stored in step, and the adjoints of row values.

        The factors of the last Newton step are reused as for one world. Otherwise the system is assembled at the
        solution.
        """
        reached = int(0)
        if has_further:
            reached = most
        any_kept = bool(False)
        for n in range(lanes):
            shared.moves[n] = 1
        linear.begin_step(group, nv, shared.moves, iterate.step)
        # Only zero steps without other adjoints of impulses have zero s.
        find_residual(group, reached, nv, has_further, problem, weight, shared, iterate)
        for n in range(lanes):
            world = group * lanes + n
            shared.left[n] = shared.square[n]
            shared.moves[n] = 0
            if s.has(0, world, constraints):
                if stage[world] == SOLVED and solver_iterations[world] > 0:
                    shared.moves[n] = 1
                    any_kept = True
        if any_kept:
            linear.solve_kept(group, nv, kept_system, iterate.residual, shared, iterate.step)
            find_residual(group, most, nv, has_further, problem, weight, shared, iterate)
        for n in range(lanes):
            if s.has(0, group * lanes + n, constraints):
                shared.moves[n] = 1
        again = is_left(shared)
        if again:
            for n in range(lanes):
                shared.coupled[n] = 0
            for i in range(most):
                s.find_slopes(i, group, constraints, problem, iterate, shared)
            s.factorise_slopes(group, most, nv, problem, shared)
            linear.begin_step(group, nv, shared.moves, iterate.step)
            find_residual(group, most, nv, has_further, problem, weight, shared, iterate)
        attempt = int(0)
        while again and attempt < 2:
            linear.solve_transposed(group, nv, iterate.residual, shared, iterate.step)
            find_residual(group, most, nv, has_further, problem, weight, shared, iterate)
            attempt += 1
            again = is_left(shared)

    return SimpleNamespace(get=get, keep_further=keep_further, keep_block_bar=keep_block_bar, solve=solve)


# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"group_adjoint_kernels": [(model,) for model in FRICTION_MODELS]}


@functools.cache
def group_adjoint_kernels(scalar: Any, friction: str = "cone", lanes: int = 1) -> SimpleNamespace:
    """Return the kernel of the adjoint for one precision, friction model and number of worlds in a lane group; empty
    with one lane.
    """
    if lanes == 1:
        return SimpleNamespace()
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    s = group_step_functions(scalar, friction, lanes)
    a, linear = adjoint_solve_functions(scalar, friction, lanes), adjoint_system_functions(scalar, lanes, False)
    geometry = group_geometry_functions(scalar, lanes)
    f = residual_functions(scalar, friction)
    law_adjoint = law_adjoint_functions(scalar, friction)
    factor = factor_kernels(scalar)
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    Rows, Equalities = solver_structs(scalar).Rows, solver_structs(scalar).Equalities
    Group, Work = group_structs(scalar).Group, group_structs(scalar).Work
    Geometry = side_structs(scalar, lanes).Geometry
    module = kernel_module(f"newton_group_adjoint.{friction}", scalar, lanes, headers=GROUP_ADJOINT_HEADERS)
    wp.set_module_options({"max_unroll": 1}, module)
    zero = scalar(0.0)

    @wp.func
    def find_bars(
        c: int,
        i: int,
        n: int,
        world: int,
        regularisation: wp.array2d(dtype=scalar),
        constraints: Constraints,
        problem: Problem,
        compliance: wp.array2d(dtype=scalar),
        iterate: Iterate,
        equalities: Equalities,
        equalities_bar: Equalities,
        shared: Group,
        rows_bar: Rows,
        regularisation_bar: wp.array2d(dtype=scalar),
    ):
        """Compute the adjoints of a constraint's law in one world, where it is in slot i. Return that of the effective
        inverse masses of its rows.
        """
        kind = constraints.kind[c, world]
        item = constraints.item[c, world]
        value_bar = a.get(i, kept.RHS_BAR, n, shared)
        rows_bar.rhs[c, world] = value_bar
        bounds = f.impulse_bounds(c, kind, item, world, COUPLED, problem, iterate)
        bars = law_adjoint.bound_adjoint(c, kind, item, world, a.get(i, kept.S, n, shared), bounds, problem, iterate)
        rows_bar.bound[c, world] = bars[0]
        value = iterate.value[c, world]
        resistance_bar = law_adjoint.resistance_adjoint(
            c, kind, world, value, value_bar, bounds, regularisation, constraints, problem, compliance
        )
        rows_bar.compliance[c, world] = resistance_bar[0]
        return law_adjoint.block_adjoint(
            c, kind, world, value, value_bar, resistance_bar, regularisation, constraints, problem, equalities,
            equalities_bar, regularisation_bar,
        )  # fmt: skip

    @wp.func
    def keep_response(
        i: int,
        world: int,
        n: int,
        paths: Paths,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        shared: Group,
        coupled_response: wp.array2d(dtype=vec3),
    ):
        """Write G of one world for the rows of joints and tendons."""
        for side in range(2):
            tail = constraints.tail[2 * i + side, world]
            if tail < 0:
                continue
            at = couplings.constraint_incidence[2 * i + side, world] * trees.max_tree_dofs
            at -= trees.tree_dof_start[trees.dof_tree[tail]]
            for d in range(paths.dof_depth[tail] + 1):
                k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                entry = 3 * k * lanes + n
                coupled_response[at + k, world] = vec3(
                    shared.response[entry], shared.response[entry + lanes], shared.response[entry + 2 * lanes]
                )

    @wp.kernel(module=module, enable_backward=False)
    def group_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        # Data in
        couplings: Couplings,
        compliance: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        row_geometry: Geometry,
        # Adjoint in
        further_impulse_bar: wp.array2d(dtype=vec3),
        # Data out
        work: Work,
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
        rows_bar: Rows,
        regularisation_bar: wp.array2d(dtype=scalar),
        coupled_response: wp.array2d(dtype=vec3),
        solver_mass_bar: wp.array2d(dtype=scalar),
        solver_mass_bar_diagonal: wp.array2d(dtype=scalar),
        row_geometry_bar: Geometry,
        qd_bar: wp.array2d(dtype=scalar),
        adjoint_residual: wp.array(dtype=scalar),
    ):
        """Compute the adjoint of the constraints of a lane group.

        weight: D^-1 L'^-1 v+_bar, becomes w.
        work: the solution, whose values and impulses are read; the rest of its iterate is scratch.
        coupled_response: G of the constraints of joints or tendons, whose rows are not made from link velocities; no
            rows without.
        solver_mass_bar: adjoints of L and of D.
        """
        group = wp.tid()
        constraints = work.constraints
        problem = work.problem
        iterate = work.iterate
        shared = work.shared
        worlds = wp.min(constraints.count.shape[0] - group * lanes, lanes)
        nv = paths.dof_depth.shape[0]
        linear.clear_mass_bars(group, solver_mass_bar, solver_mass_bar_diagonal)
        most = int(0)
        for n in range(worlds):
            most = wp.max(most, constraints.count[group * lanes + n])
        if most > 0:
            most = s.slots.assign(group, most, constraints, shared)
            s.gather(group, most, nv, paths, constraints, problem, shared)
            has_further = further_impulse_bar.shape[0] > 0
            for n in range(lanes):
                shared.waits[n] = 0
            for i in range(most):
                s.find_slopes(i, group, constraints, problem, iterate, shared)
                if has_further:
                    a.keep_further(i, group, further_impulse_bar, shared)
            a.solve(
                group, most, nv, has_further, constraints, problem, work.system, work.solver_iterations, work.stage, weight,
                shared, iterate,
            )  # fmt: skip
            for n in range(lanes):
                world = group * lanes + n
                shared.moves[n] = 0
                if s.has(0, world, constraints):
                    shared.moves[n] = 1
                    if shared.left[n] > zero:
                        left = wp.sqrt(shared.square[n] / shared.left[n])
                        adjoint_residual[world] = wp.max(adjoint_residual[world], left)
            linear.push_weights(
                group, nv, shared.moves, problem.inverse_mass, iterate.step, iterate.residual, weight
            )  # fmt: skip
        linear.finish_weights(group, nv, paths, factor_l, weight)
        if most == 0:
            return
        geometry.begin_rows(group, nv, qd, qd_solved, shared)
        equalities = row_geometry.equalities
        equalities_bar = row_geometry_bar.equalities
        for i in range(most):
            for n in range(lanes):
                world = group * lanes + n
                own = mat33()
                c = shared.slot_constraint[i * lanes + n]
                if c >= 0:
                    own = find_bars(
                        c, i, n, world, work.regularisation, constraints, problem, compliance, iterate, equalities,
                        equalities_bar, shared, rows_bar, regularisation_bar,
                    )  # fmt: skip
                a.keep_block_bar(i, n, own, shared)
            linear.find_own_response(
                i, group, nv, paths, factor_l, problem.inverse_mass, shared, solver_mass_bar, solver_mass_bar_diagonal
            )
            if coupled_response.shape[0] > 0:
                for n in range(worlds):
                    world = group * lanes + n
                    c = shared.slot_constraint[i * lanes + n]
                    if c >= 0:
                        kind = constraints.kind[c, world]
                        if has_varying_row(kind):
                            keep_response(
                                c, world, n, paths, trees, constraints, couplings, shared, coupled_response
                            )  # fmt: skip
            geometry.rows_adjoint(
                i, group, nv, trees, constraints, row_geometry, iterate.impulse, weight, shared, row_geometry_bar
            )
        geometry.end_rows(group, nv, shared, qd_bar)

    return SimpleNamespace(module=module, group_adjoint=group_adjoint)
