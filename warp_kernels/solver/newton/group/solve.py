"""The solver of either law for the worlds of a lane group together: see :mod:`warp_kernels.solver.newton.group.worlds`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.mujoco.laws import CONES
from warp_kernels.solver.newton.group.structs import GROUP_HEADERS, MUJOCO_GROUP_HEADERS, group_structs
from warp_kernels.solver.newton.group.worlds import group_world_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import kernel_module
from warp_kernels.variants import used_arguments_only

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_group_kernels": [(cone,) for cone in (*FRICTION_MODELS, *CONES.values())]}


@functools.cache
def newton_group_kernels(scalar: Any, cone: str = "cone", lanes: int = 1) -> SimpleNamespace:
    """Kernel ``solve`` for one precision, cone of either law and number of worlds in a lane group; none with one lane."""
    if lanes == 1:
        return SimpleNamespace()
    hard = cone in FRICTION_MODELS
    w = group_world_functions(scalar, cone, lanes)
    Work = w.Work
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    Group = group_structs(scalar).Group
    headers = GROUP_HEADERS if hard else MUJOCO_GROUP_HEADERS
    module = kernel_module(f"{'newton' if hard else 'mujoco'}_group.{cone}", scalar, lanes, headers=headers)
    wp.set_module_options({"max_unroll": 1}, module)

    @wp.kernel(name="newton_group" if hard else "convex_group", module=module, enable_backward=False)
    @used_arguments_only
    def solve(
        # Model
        paths: Paths,
        dt: scalar,
        iterations: int,
        tolerance: scalar,
        keeps: int,
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        constraints: Constraints,
        problem: Problem,
        # Data out
        shared: Group,
        system: System,
        iterate: Iterate,
        residual: wp.array(dtype=scalar),
        sweep_count: wp.array(dtype=int),
        stage: wp.array(dtype=int),
    ):
        """system: the last one of each world, where the adjoint ``keeps`` it, see :mod:`warp_kernels.solver.newton.group.structs`.

        stage: SOLVED, or UNSOLVED for worlds that need more [world]. residual and sweep_count of the former as for one world.
        """
        work = Work()
        work.group = wp.tid()
        work.worlds = wp.min(constraints.count.shape[0] - work.group * lanes, lanes)
        work.nv = paths.dof_depth.shape[0]
        work.tolerance = tolerance
        work.keeps = keeps
        if wp.static(hard):
            work.regularisation = regularisation
        work.constraints = constraints
        work.problem = problem
        work.shared = shared
        work.system = system
        work.iterate = iterate
        work.residual = residual
        work.sweep_count = sweep_count
        work.stage = stage
        work.most = w.begin(work, dt, paths, qd, qdd, factor_l)
        if work.most > 0:
            w.solve(work, iterations)

    return SimpleNamespace(module=module, solve=solve)
