"""Newton's method on worlds of many trees: what presses on each other is solved together, and each such island apart from the others.

Constraints that push at the first z connect what they touch. The islands are solved one by one, from what lies close together in memory,
and those that have converged don't wait for others. Where islands then come to press on each other, they are one island, and are
solved once more from where they are.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.islands.division import division_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.solve import solution_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.rows.shared import row_functions
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import kernel_module

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_island_kernels": [(model,) for model in FRICTION_MODELS]}

# Rounds after which islands are one with all that is near them.
ROUNDS = 8


@functools.cache
def newton_island_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """The solver for one precision and friction model, one thread per world."""
    f = residual_functions(scalar, friction, divided=True)
    descent = descent_functions(scalar, friction, divided=True)
    solution = solution_functions(scalar, friction, divided=True)
    division = division_functions(scalar, friction)
    common = row_functions(scalar)
    structs = newton_structs(scalar)
    Problem, Iterate, Islands, System = structs.Problem, structs.Iterate, structs.Islands, structs.System
    module = kernel_module(f"newton_islands.{friction}", scalar)
    # Unrolled loops over sides and attempts make the code twice as long, and no faster.
    wp.set_module_options({"max_unroll": 1}, module)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.kernel(module=module, enable_backward=False)
    def newton_islands(
        # Model
        paths: Paths,
        trees: TreeDofs,
        dt: scalar,
        iterations: int,
        tolerance: scalar,
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        constraints: Constraints,
        couplings: Couplings,
        problem: Problem,
        # Data out
        islands: Islands,
        system: System,
        iterate: Iterate,
        residual: wp.array(dtype=scalar),
        sweep_count: wp.array(dtype=int),
    ):
        """residual: the largest velocity that is still missing, by the pivots of each island's last system [m/s or rad/s].

        sweep_count: systems solved, of the island that takes the most of each round.
        """
        world = wp.tid()
        count = constraints.count[world]
        residual[world] = zero
        sweep_count[world] = 0
        if count == 0:
            return
        nv = paths.dof_depth.shape[0]
        division.whole_world(world, count, nv, islands.island.shape[0], iterate)
        descent.look_back(world, nv, dt, qd, qdd, factor_l, paths, problem, iterate)
        for k in range(nv):
            iterate.z[k, world] = iterate.step[k, world]
        f.find_residual(world, count, nv, COUPLED, paths, constraints, problem, iterate)
        division.connect(world, count, constraints, iterate, islands, system)
        turn = int(0)
        before = int(0)
        unsolved = bool(True)
        while unsolved:
            number = division.divide(world, before, turn == ROUNDS, trees, constraints, couplings, iterate, islands)
            most = int(0)
            for island in range(number - before):
                own_count, own_nv = division.go_to(island, world, iterate, islands)
                left, solved = solution.solve(
                    world, own_count, own_nv, turn == 0, dt, iterations, tolerance,
                    common.value_of(regularisation, world, 0), qd, qdd, factor_l, paths, trees, constraints,
                    couplings, problem, system, iterate,
                )  # fmt: skip
                residual[world] = wp.max(residual[world], left)
                most = wp.max(most, solved)
            sweep_count[world] = sweep_count[world] + most
            unsolved = division.join(
                world, before, number, trees, paths, constraints, couplings, problem, iterate, islands
            )
            before = number
            turn += 1

    return SimpleNamespace(module=module, newton_islands=newton_islands)
