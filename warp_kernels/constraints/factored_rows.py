"""Rows in the coordinates of the factored mass matrix."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import Paths
from warp_kernels.types import warp_types

# Warp's own access to an array looks at the sign of every index, which takes longer than the product. A GPU needs its registers
# for other things than several turns of a loop at a time.
_SOLVE_ROW = """
    using number = wp::{scalar};
    using triple = wp::vec_t<3, number>;
    const wp::int64 row_step = row.strides[0];
    char* rows = reinterpret_cast<char*>(row.data) + here * row_step + world * wp::int64(row.strides[1]);
    const int* starts = reinterpret_cast<const int*>(row_start.data);
    const int* above = reinterpret_cast<const int*>(ancestor.data) + starts[tail];
    const wp::int64 step = factor_l.strides[0];
    const char* factors = reinterpret_cast<const char*>(factor_l.data) + world * wp::int64(factor_l.strides[1]);
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int d = depth; d > 0; --d) {{
        const triple value = *reinterpret_cast<const triple*>(rows + d * row_step);
        const char* factor = factors + starts[d < depth ? above[d] : tail] * step;
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
        for (int e = 0; e < d; ++e, factor += step)
            *reinterpret_cast<triple*>(rows + e * row_step) -= value * *reinterpret_cast<const number*>(factor);
    }}
"""


@functools.cache
def factored_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3

    @wp.func_native(_SOLVE_ROW.format(scalar=scalar.__name__))
    def solve_row(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        row_start: wp.array(dtype=int),
        tail: int,
        depth: int,
        factor_l: wp.array2d(dtype=scalar),
        world: int,
    ):
        """Multiply the rows of one side by L'^-1, deepest first."""

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
        solve_row(row, at, paths.ancestor, paths.dof_row_start, tail, paths.dof_depth[tail], factor_l, world)

    return SimpleNamespace(multiply_by_inverse=multiply_by_inverse)
