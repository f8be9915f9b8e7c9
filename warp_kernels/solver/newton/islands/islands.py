"""Newton's method on worlds of many trees: interacting trees are solved together, and each such island separately.

Constraints with an impulse at the initial z connect their trees. The islands are solved one by one, from contiguous
memory, and converged ones don't wait for others. Islands that then interact are merged, and solved again from their
present state. Far from the solution the active set is unknown: there islands are formed by proximity.

An island with a single constraint, such as a ball on the ground, reduces to a 3x3 problem, with z + z_v = D^-1 row'
impulse and the row values r = r* + G impulse, where r* are those without impulses and G = row D^-1 row'. With p the
impulse of the constraint for r and P its derivative, a step ends at

    (1 - P G) impulse = p + P (r* - r).

This equals a step of the whole system (:mod:`warp_kernels.solver.newton.system`), without its ordering, its sparsity
pattern and its factors, and no large numbers cancel: p is homogeneous in r while a contact sticks or slides, so that p
- P r is rounding there.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.constants import AFAR, CROWD, DIVISIONS, RECALLED_SHARE, SINGLE_STEPS, SUMS
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.islands.division import division_functions
from warp_kernels.solver.newton.one_world import one_world_functions, work_struct
from warp_kernels.solver.newton.parts import FACTORED
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import WORLD_HEADERS, newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def single_functions(scalar: Any, friction: str) -> SimpleNamespace:
    """Return the Warp functions for one precision and friction model."""
    mat33 = warp_types(scalar).mat33
    f = residual_functions(scalar, friction, divided=True)
    descent = descent_functions(scalar, friction, divided=True)
    parts, products = f.parts, f.products
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    Work = work_struct(scalar)
    zero, singular, squared_sums = scalar(0.0), descent.singular, scalar(SUMS[scalar] ** 2)
    identity = wp.constant(mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0))

    @wp.func
    def inverse_of(matrix: mat33):
        """Return the inverse by Cramer's rule, and whether the determinant is above rounding."""
        a, b, c = matrix[0], matrix[1], matrix[2]
        bc, ca, ab = wp.cross(b, c), wp.cross(c, a), wp.cross(a, b)
        determinant = wp.dot(a, bc)
        if not determinant > singular * wp.max(wp.abs(a)) * wp.max(wp.abs(b)) * wp.max(wp.abs(c)):
            return mat33(), False
        return wp.matrix_from_cols(bc, ca, ab) / determinant, True

    @wp.func
    def impulse_at(i: int, world: int, constraints: Constraints, problem: Problem, iterate: Iterate):
        """Return the constraint's impulse for the row values of ``iterate``."""
        kind, item = constraints.kind[i, world], constraints.item[i, world]
        bounds = f.impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
        return f.laws.impulse_at(kind, iterate.value[i, world], problem.row_stiffness[i, world], bounds)

    @wp.func
    def find_motion(
        i: int, world: int, nv: int, paths: Paths, constraints: Constraints, problem: Problem, iterate: Iterate
    ):
        """Set z to the velocity of the impulse."""
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            iterate.z[k, world] = -iterate.z_before[k, world]
        products.add_scaled_push(
            i, iterate.impulse[i, world], world, paths, constraints, problem.row, problem.inverse_mass, iterate.z
        )

    @wp.func
    def solve(work: Work, iterations: int):
        """Solve the island from the row values and impulses of ``iterate``, like ``solve`` of one_world.

        Return the largest velocity of a row that a further step with the last slope would add [m/s or rad/s], and the
        number of steps: zero if they didn't converge. Then row values, impulses and the residual must be recomputed; z
        is unchanged.
        """
        world = work.world
        i = parts.constraint_of(0, world, work.iterate)
        kind, item = work.constraints.kind[i, world], work.constraints.item[i, world]
        mobility = products.diagonal_block(
            i, world, work.paths, work.constraints, work.problem.row, work.problem.inverse_mass
        )
        for step in range(wp.min(iterations, SINGLE_STEPS)):
            slope, _follows = f.slopes(i, kind, item, world, COUPLED, work.problem, work.iterate)
            inverse, found = inverse_of(identity - slope * mobility)
            if not found:
                return zero, int(0)
            free = work.problem.rhs[i, world]
            impulse = inverse * (work.iterate.impulse[i, world] + slope * (free - work.iterate.value[i, world]))
            work.iterate.value[i, world] = free + mobility * impulse
            target = impulse_at(i, world, work.constraints, work.problem, work.iterate)
            work.iterate.impulse[i, world] = target
            miss = target - impulse
            terms = descent.magnitudes(world, 1, work.epsilon, work.constraints, work.problem, work.iterate)
            if wp.dot(miss, mobility * miss) <= descent.goal(
                squared_sums * terms[0], work.scale, work.epsilon, work.tolerance
            ):
                work.iterate.impulse[i, world] = impulse
                find_motion(i, world, work.nv, work.paths, work.constraints, work.problem, work.iterate)
                return wp.max(wp.abs(mobility * (inverse * miss))), step + 1
        return zero, int(0)

    return SimpleNamespace(solve=solve)


# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_island_kernels": [(model,) for model in FRICTION_MODELS]}


@functools.cache
def newton_island_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """Return the solver for one precision and friction model, one thread per world."""
    solution = one_world_functions(scalar, friction, divided=True)
    Work = solution.Work
    descent, residuals = solution.descent, solution.residual
    whole, single = descent_functions(scalar, friction), single_functions(scalar, friction)
    division = division_functions(scalar, friction)
    Islands = newton_structs(scalar).Islands
    module = kernel_module(f"newton_islands.{friction}", scalar, headers=WORLD_HEADERS)
    # Unrolled loops over sides and attempts make the code twice as long, and no faster.
    wp.set_module_options({"max_unroll": 1}, module)
    zero = scalar(0.0)

    # Inline: a call copies the descriptors of all arrays, which takes as long as solving a small island.
    @wp.func(inline=True)
    def solve_island(work: Work, first_square: scalar, iterations: int):
        """Solve one island like ``solve`` of :mod:`warp_kernels.solver.newton.one_world`."""
        square = scalar(first_square)
        if work.count == 1 and square > zero and wp.isfinite(square):
            left, steps = single.solve(work, iterations)
            if steps > 0:
                return left, steps
            work.recalled = 0
            square = residuals.find_residual(
                work.world, work.count, work.nv, COUPLED, work.paths, work.constraints, work.problem, work.iterate
            )
        left, solved = solution.solve(work, square, iterations)
        return left, solved

    @wp.func
    def keep_factors(work: Work, solved: int):
        """Store in ``system`` the factors of an island that was solved without, or mark them as absent."""
        world, nv = work.world, work.nv
        if solved == 0 and descent.pushes(world, work.count, work.iterate):
            work.iterate.part[FACTORED, world] = 0
        elif solved == 0:
            residuals.linear.keep_masses(world, nv, work.problem.inverse_mass, work.iterate, work.system)
        elif work.count == 1:
            symmetric = residuals.assemble(
                world, work.count, nv, COUPLED, work.trees, work.paths, work.constraints, work.couplings, work.problem,
                work.iterate, work.system,
            )  # fmt: skip
            first = residuals.parts.first_index(world, work.iterate)
            residuals.linear.factorise(world, first, nv, symmetric, work.system)

    @wp.kernel(module=module, enable_backward=False)
    def newton_islands(
        # Model
        dt: scalar,
        iterations: int,
        keeps: int,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        # Data out
        work: Work,
        islands: Islands,
        residual: wp.array(dtype=scalar),
        solver_iterations: wp.array(dtype=int),
    ):
        """Solve all worlds, island by island.

        keeps: 1 if ``system`` is to hold the factors of all islands, for the backward pass.
        residual: as the largest velocity, by the pivots of each island's last system [m/s or rad/s].
        solver_iterations: systems solved, of the island with the most in each round.
        work: ``row_stiffness`` of its problem changes during the solve, and keeps the value of the end.
        """
        world = wp.tid()
        count = work.constraints.count[world]
        residual[world] = zero
        solver_iterations[world] = 0
        if count == 0:
            return
        nv = work.paths.dof_depth.shape[0]
        scale = zero
        for tree in range(islands.scale.shape[0]):
            own_scale = descent.initial_guess(
                work.trees.tree_dof_start[tree], work.trees.tree_dof_start[tree + 1], dt, qd, qdd, work.paths, factor_l,
                work.problem.inverse_mass, work.iterate.z_before, world,
            )  # fmt: skip
            islands.scale[tree, world] = own_scale
            scale += own_scale
        square, recalled = whole.begin(
            world, count, nv, scale, work.paths, work.constraints, work.problem, work.iterate
        )
        # Without impulses there is nothing to solve, and a state that isn't finite has no solution.
        if square == zero or not wp.isfinite(square):
            return
        work.epsilon = solution.share_of(world, work)
        terms = whole.magnitudes(world, count, work.epsilon, work.constraints, work.problem, work.iterate)
        far = square > scalar(AFAR) * terms[0]
        if recalled:
            far = not square < scalar(RECALLED_SHARE) * whole.free_square(world, nv, work.problem, work.iterate)
        far = far and count > CROWD
        division.connect(world, count, work.constraints, work.iterate, islands, work.system)
        work.world = world
        before = int(0)
        turn = int(0)
        unsolved = bool(True)
        while unsolved:
            number = division.divide(
                world,
                before,
                far or turn == DIVISIONS,
                work.trees,
                work.constraints,
                work.couplings,
                work.iterate,
                islands,
            )
            division.begin_turn(world, turn, work.iterate)
            most = int(0)
            for island in range(number - before):
                own_count, own_nv = division.go_to(island, world, work.iterate, islands)
                work.count = own_count
                work.nv = own_nv
                work.scale = division.island_scale(world, work.iterate, islands)
                work.recalled = 0
                if turn == 0 and recalled and descent.pushes(world, work.count, work.iterate):
                    # Nothing acts between islands, so that the residual of the world is that of each.
                    work.recalled = 1
                    square = residuals.residual_square(world, work.nv, work.problem, work.iterate)
                elif turn == 0:
                    square, own_recalled = descent.begin(
                        world, work.count, work.nv, work.scale, work.paths, work.constraints, work.problem, work.iterate
                    )
                    work.recalled = int(own_recalled)
                else:
                    square = residuals.find_residual(
                        world, work.count, work.nv, COUPLED, work.paths, work.constraints, work.problem, work.iterate
                    )
                left, solved = solve_island(work, square, iterations)
                most = wp.max(most, solved)
                division.note(world, left, work.iterate, islands)
                if keeps == 1:
                    keep_factors(work, solved)
            solver_iterations[world] = solver_iterations[world] + most
            unsolved = division.join_islands(
                world,
                before,
                number,
                work.trees,
                work.paths,
                work.constraints,
                work.couplings,
                work.problem,
                work.iterate,
                islands,
            )
            before = number
            turn += 1
        for tree in range(islands.left.shape[0]):
            residual[world] = wp.max(residual[world], islands.left[tree, world])

    return SimpleNamespace(module=module, newton_islands=newton_islands)
