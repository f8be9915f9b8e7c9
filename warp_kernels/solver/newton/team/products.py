"""Products with rows for one degree of freedom at a time, the items of a phase over degrees of freedom."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types


@wp.struct
class Levels:
    """Degrees of freedom by the number of those above them: those of a level don't depend on each other.

    Attributes:
        start: first entry of each level in ``dof``, and nv [max_depth + 1].
        dof: degrees of freedom, level by level [nv].
    """

    start: wp.array(dtype=int)
    dof: wp.array(dtype=int)


@functools.cache
def team_product_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3
    factor, zero = factor_kernels(scalar), scalar(0.0)

    @wp.func
    def path_dof(tail: int, d: int, paths: Paths):
        """Return the degree of freedom at depth d of the path to ``tail``."""
        return factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)

    @wp.func
    def is_on_path(k: int, tail: int, paths: Paths):
        """Return whether degree of freedom k is on the path to ``tail``, which is -1 for none."""
        if tail < 0 or paths.dof_depth[k] > paths.dof_depth[tail]:
            return False
        return path_dof(tail, paths.dof_depth[k], paths) == k

    @wp.func
    def entry(i: int, k: int, world: int, paths: Paths, constraints: Constraints, row: wp.array2d(dtype=vec3)):
        """Return the rows' entry of constraint i at degree of freedom k, of both sides; zero if it isn't on a path."""
        total = vec3()
        for side in range(2):
            if is_on_path(k, constraints.tail[2 * i + side, world], paths):
                total += row[(2 * i + side) * paths.max_depth + paths.dof_depth[k], world]
        return total

    @wp.func
    def with_pushes(
        k: int,
        value: scalar,
        share: scalar,
        pushes: wp.array2d(dtype=vec3),
        count: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
    ):
        """Add a share of the transposed rows times ``pushes`` of the first ``count`` constraints to a value of degree
        of freedom k. NaN is propagated.
        """
        total = value
        for i in range(count):
            push = pushes[i, world]
            if wp.dot(push, push) != zero:
                total += share * wp.dot(entry(i, k, world, paths, constraints, row), push)
        return total

    @wp.func
    def without_above(
        k: int,
        value: scalar,
        factor_l: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
        world: int,
        paths: Paths,
    ):
        """Subtract the row of L of degree of freedom k times x from a value."""
        left = value
        first = paths.dof_row_start[k]
        for d in range(paths.dof_depth[k]):
            left -= factor_l[first + d, world] * x[paths.ancestor[first + d], world]
        return left

    return SimpleNamespace(
        path_dof=path_dof, is_on_path=is_on_path, entry=entry, with_pushes=with_pushes, without_above=without_above
    )
