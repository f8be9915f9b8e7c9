"""Newton's method on worlds of many trees: what presses on each other is solved together, and each such island apart from the others.

Constraints that push at the first z connect what they touch. The islands are solved one by one, from what lies close together in memory,
and those that have converged don't wait for others. Where islands then come to press on each other, they are one, and are solved once
more from where they are. Far from the solution nobody knows what presses: there islands are what is near each other.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.constants import AFAR, DIVISIONS, TANGLE
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.islands.division import division_functions
from warp_kernels.solver.newton.islands.parts import FACTORED
from warp_kernels.solver.newton.islands.single import single_functions
from warp_kernels.solver.newton.one_world import one_world_functions
from warp_kernels.solver.newton.residual import COUPLED
from warp_kernels.solver.newton.structs import WORLD_HEADERS, newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.types import kernel_module

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_island_kernels": [(model,) for model in FRICTION_MODELS]}


@functools.cache
def newton_island_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """The solver for one precision and friction model, one thread per world."""
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

    # Inline: a call copies the descriptions of all arrays, which takes as long as to solve a small island.
    @wp.func(inline=True)
    def solve_island(work: Work, first_square: scalar, iterations: int):
        """As ``solve`` of :mod:`warp_kernels.solver.newton.one_world`."""
        square = scalar(first_square)
        if work.count == 1 and square > zero and wp.isfinite(square):
            left, steps = single.solve(work, iterations)
            if steps > 0:
                return left, steps
            square = residuals.find_residual(
                work.world, work.count, work.nv, COUPLED, work.paths, work.constraints, work.problem, work.iterate
            )
        left, solved = solution.solve(work, square, iterations)
        return left, solved

    @wp.func
    def keep_factors(work: Work, solved: int):
        """Let ``system`` hold the factors of an island that was solved without, or say that it doesn't."""
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
            first = residuals.parts.first_place(world, work.iterate)
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
        sweep_count: wp.array(dtype=int),
    ):
        """keeps: 1 if ``system`` is to hold the factors of all islands, for the backward pass.

        residual: the largest velocity that is still missing, by the pivots of each island's last system [m/s or rad/s]. sweep_count:
        systems solved, of the island that takes the most of each round. work: its problem has other grips in between, and those that it had in the end.
        """
        world = wp.tid()
        count = work.constraints.count[world]
        residual[world] = zero
        sweep_count[world] = 0
        if count == 0:
            return
        nv = work.paths.dof_depth.shape[0]
        scale = zero
        for tree in range(islands.scale.shape[0]):
            own_scale = descent.look_back(
                work.trees.tree_dof_start[tree], work.trees.tree_dof_start[tree + 1], dt, qd, qdd, work.paths, factor_l,
                work.problem.inverse_mass, work.iterate.step, world,
            )  # fmt: skip
            islands.scale[tree, world] = own_scale
            scale += own_scale
        square = whole.begin(world, count, nv, scale, work.paths, work.constraints, work.problem, work.iterate)
        # Without impulses there is nothing to solve, and of a state that isn't finite there is no solution.
        if square == zero or not wp.isfinite(square):
            return
        work.epsilon = solution.share_of(world, work)
        at_hand = whole.square_at_hand(world, count, work.epsilon, work.constraints, work.problem, work.iterate)
        far = count > TANGLE and square > scalar(AFAR) * at_hand
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
                # At first the residual is that of the whole world, to which nothing between islands adds.
                if turn == 0:
                    square = residuals.residual_square(world, work.nv, work.problem, work.iterate)
                else:
                    square = residuals.find_residual(
                        world, work.count, work.nv, COUPLED, work.paths, work.constraints, work.problem, work.iterate
                    )
                left, solved = solve_island(work, square, iterations)
                most = wp.max(most, solved)
                division.note(world, left, work.iterate, islands)
                if keeps == 1:
                    keep_factors(work, solved)
            sweep_count[world] = sweep_count[world] + most
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
