"""Solver of MuJoCo's law: Newton's method with an exact line search on a convex function (Todorov 2014).

The equations are those of :mod:`warp_kernels.solver.newton.solve`, but nothing depends on the normal impulses: each
step descends, and converges near the minimum.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_of_contact
from warp_kernels.solver.mujoco.laws import ALL_CONES
from warp_kernels.solver.newton.one_world import solve_kernel
from warp_kernels.solver.newton.structs import WORLD_HEADERS
from warp_kernels.solver.structs import Constraints
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"mujoco_kernels": [(cone,) for cone in ALL_CONES]}


@functools.cache
def mujoco_kernels(scalar: Any, cone: str = "elliptic") -> SimpleNamespace:
    """Return the solver for one precision and cone, one thread per world."""
    t = warp_types(scalar)
    vec2 = t.vec2
    module = kernel_module(f"mujoco.{cone}", scalar, headers=WORLD_HEADERS)
    wp.set_module_options({"max_unroll": 1}, module)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.kernel(module=module, enable_backward=False)
    def soften(
        # Model
        threads: int,
        impedance_ratio: scalar,
        # Data in
        compliance: wp.array2d(dtype=scalar),
        constraints: Constraints,
        # Data out
        row_stiffness: wp.array2d(dtype=vec2),
    ):
        """Compute the regularisation. row_stiffness: 1 / R of the first row and of the others, where friction has
        ``impedance_ratio`` times as much; zero without R.
        """
        thread, world = wp.tid()
        for i in range(thread, constraints.count[world], threads):
            pair = vec2()
            if compliance[i, world] > zero:
                first = one / compliance[i, world]
                pair = vec2(first, first)
                if is_of_contact(constraints.kind[i, world]):
                    pair[1] = impedance_ratio * first
            row_stiffness[i, world] = pair

    convex_solve = solve_kernel(scalar, cone, module)
    return SimpleNamespace(module=module, soften=soften, convex_solve=convex_solve)
