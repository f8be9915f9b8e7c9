"""Products with a constraint's rows, which lie along the paths of its two sides."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types


@functools.cache
def product_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of products with rows, for one precision."""
    vec3 = warp_types(scalar).vec3
    factor = factor_kernels(scalar)

    @wp.func
    def velocity(
        constraint: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        x: wp.array2d(dtype=scalar),
    ):
        """The rows times x [dof, world]."""
        total = vec3()
        for side in range(2):
            here = 2 * constraint + side
            tail = constraints.tail[here, world]
            if tail >= 0:
                for d in range(paths.dof_depth[tail] + 1):
                    k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                    total += row[here * paths.max_depth + d, world] * x[k, world]
        return total

    @wp.func
    def add_push(
        constraint: int,
        push: vec3,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        x: wp.array2d(dtype=scalar),
    ):
        """Add the transposed rows times ``push`` to x [dof, world]."""
        for side in range(2):
            here = 2 * constraint + side
            tail = constraints.tail[here, world]
            if tail >= 0:
                for d in range(paths.dof_depth[tail] + 1):
                    k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                    x[k, world] += wp.dot(row[here * paths.max_depth + d, world], push)

    return SimpleNamespace(velocity=velocity, add_push=add_push)
