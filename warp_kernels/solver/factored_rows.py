"""Rows in the coordinates of the factored mass matrix."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.structs import Paths
from warp_kernels.types import warp_types


@functools.cache
def factored_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3
    factor = factor_kernels(scalar)

    @wp.func
    def multiply_by_inverse(
        at: int,
        tail: int,
        world: int,
        paths: Paths,
        factor_l: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
    ):
        """Multiply the entries along the path to ``tail``, which stand from ``at`` on, by L'^-1: deepest first."""
        depth = paths.dof_depth[tail]
        for back in range(depth):
            d = depth - back
            k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
            value = row[at + d, world]
            first = paths.dof_row_start[k]
            for e in range(d):
                row[at + e, world] -= factor_l[first + e, world] * value

    return SimpleNamespace(multiply_by_inverse=multiply_by_inverse)
