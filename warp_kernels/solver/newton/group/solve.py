"""Solver of either law for all worlds of a lane group together: see :mod:`warp_kernels.solver.newton.group.worlds`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.mujoco.laws import CONES
from warp_kernels.solver.newton.group.structs import GROUP_HEADERS, MUJOCO_GROUP_HEADERS
from warp_kernels.solver.newton.group.worlds import group_world_functions
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Paths
from warp_kernels.types import kernel_module

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_group_kernels": [(cone,) for cone in (*FRICTION_MODELS, *CONES.values())]}


@functools.cache
def newton_group_kernels(scalar: Any, cone: str = "cone", lanes: int = 1) -> SimpleNamespace:
    """Return the kernel ``solve`` for one precision, cone of either law and number of worlds in a lane group; empty
    with one lane.
    """
    if lanes == 1:
        return SimpleNamespace()
    hard = cone in FRICTION_MODELS
    w = group_world_functions(scalar, cone, lanes)
    Work = w.Work
    headers = GROUP_HEADERS if hard else MUJOCO_GROUP_HEADERS
    module = kernel_module(f"{'newton' if hard else 'mujoco'}_group.{cone}", scalar, lanes, headers=headers)
    wp.set_module_options({"max_unroll": 1}, module)

    @wp.kernel(name="newton_group" if hard else "convex_group", module=module, enable_backward=False)
    def solve(
        # Model
        paths: Paths,
        dt: scalar,
        iterations: int,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        # Data out
        work: Work,
    ):
        """Solve the worlds of each lane group.

        work: its system is the last one of each world, if the adjoint ``keeps`` it, see
            :mod:`warp_kernels.solver.newton.group.structs`.
        stage: SOLVED, or UNSOLVED for worlds that need more; residual and solver_iterations of the former as for one
            world.
        """
        work.group = wp.tid()
        work.worlds = wp.min(work.constraints.count.shape[0] - work.group * lanes, lanes)
        work.nv = paths.dof_depth.shape[0]
        work.most = w.begin(work, dt, paths, qd, qdd, factor_l)
        if work.most > 0:
            w.solve(work, iterations)

    return SimpleNamespace(module=module, solve=solve)
