"""MuJoCo's law solved: Newton's method with an exact line search on a convex function (Todorov 2014).

The equations are those of :mod:`warp_kernels.solver.newton.solve`, without anything that follows the normal impulses: each step leads
down, and near the minimum to it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_of_contact
from warp_kernels.solver.mujoco.laws import ALL_CONES
from warp_kernels.solver.newton.constants import STIFFEST
from warp_kernels.solver.newton.one_world import one_world_functions
from warp_kernels.solver.newton.structs import WORLD_HEADERS, newton_structs
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"mujoco_kernels": [(cone,) for cone in ALL_CONES]}


@functools.cache
def mujoco_kernels(scalar: Any, cone: str = "elliptic") -> SimpleNamespace:
    """The solver for one precision and cone, one thread per world."""
    t = warp_types(scalar)
    vec2 = t.vec2
    f = one_world_functions(scalar, cone)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    module = kernel_module(f"mujoco.{cone}", scalar, headers=WORLD_HEADERS)
    wp.set_module_options({"max_unroll": 1}, module)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.kernel(module=module, enable_backward=False)
    def soften(
        # Model
        threads: int,
        impedance_ratio: scalar,
        # Data in
        softness: wp.array2d(dtype=scalar),
        constraints: Constraints,
        # Data out
        grip: wp.array2d(dtype=vec2),
    ):
        """grip: 1 / R of the first row and of the others, of which friction has ``impedance_ratio`` times as much; zero without R."""
        thread, world = wp.tid()
        for i in range(thread, constraints.count[world], threads):
            pair = vec2()
            if softness[i, world] > zero:
                first = one / softness[i, world]
                pair = vec2(first, first)
                if is_of_contact(constraints.kind[i, world]):
                    pair[1] = impedance_ratio * first
            grip[i, world] = pair

    @wp.kernel(module=module, enable_backward=False)
    def convex_solve(
        # Model
        paths: Paths,
        trees: TreeDofs,
        dt: scalar,
        iterations: int,
        tolerance: scalar,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        constraints: Constraints,
        couplings: Couplings,
        problem: Problem,
        stage: wp.array(dtype=int),
        # Data out
        system: System,
        iterate: Iterate,
        residual: wp.array(dtype=scalar),
        sweep_count: wp.array(dtype=int),
    ):
        """residual: the largest velocity that is still missing, by the pivots of the last system [m/s or rad/s].

        sweep_count: systems solved. stage: zero for worlds that are solved already (:mod:`warp_kernels.solver.newton.group.solve`); no rows
        where none is.
        """
        world = wp.tid()
        if stage.shape[0] > 0 and stage[world] == 0:
            return
        count = constraints.count[world]
        residual[world] = zero
        sweep_count[world] = 0
        if count == 0:
            return
        nv = paths.dof_depth.shape[0]
        scale = f.descent.look_back(
            0, nv, dt, qd, qdd, paths, factor_l, problem.inverse_mass,
            iterate.step, world,
        )  # fmt: skip
        square = f.descent.begin(world, count, nv, scale, paths, constraints, problem, iterate)
        # R as a share of the inverse mass decides what rounding of the values makes of the impulses.
        epsilon = scalar(STIFFEST)
        work = f.gather(world, tolerance, epsilon, paths, trees, constraints, couplings, problem, system, iterate)
        work.count = count
        work.nv = nv
        work.scale = scale
        left, solved = f.solve(work, square, iterations)
        residual[world] = left
        sweep_count[world] = solved

    return SimpleNamespace(module=module, soften=soften, convex_solve=convex_solve)
