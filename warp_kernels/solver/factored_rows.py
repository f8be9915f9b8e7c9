"""Rows along a path, and in the coordinates of the factored mass matrix."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import Paths
from warp_kernels.types import warp_types

# Warp's own access to an array looks at the sign of every index, which takes longer than the product.
_ROW = """
    using number = wp::{scalar};
    using triple = wp::vec_t<3, number>;
    const wp::int64 row_step = row.strides[0];
    char* rows = reinterpret_cast<char*>(row.data) + here * row_step + world * wp::int64(row.strides[1]);
    const int* starts = reinterpret_cast<const int*>(row_start.data);
    const int* above = reinterpret_cast<const int*>(ancestor.data) + starts[tail];
"""
_WRITE_ROW = (
    _ROW
    + """
    const char* columns = reinterpret_cast<const char*>(subspace.data) + world * wp::int64(subspace.strides[1]);
    for (int d = 0; d <= depth; ++d, rows += row_step) {{
        const char* column = columns + (d < depth ? above[d] : tail) * wp::int64(subspace.strides[0]);
        const triple angular = *reinterpret_cast<const triple*>(column);
        triple motion = angular;
        if (linear) motion = *reinterpret_cast<const triple*>(column + sizeof(triple)) + wp::cross(angular, lever);
        *reinterpret_cast<triple*>(rows) = wp::mul(frame, motion);
    }}
"""
)
_SUM_ROW = (
    _ROW
    + """
    const char* speeds = reinterpret_cast<const char*>(qd.data) + world * wp::int64(qd.strides[0]);
    const char* changes = reinterpret_cast<const char*>(qdd.data) + world * wp::int64(qdd.strides[0]);
    wp::mat_t<3, 3, number> sums;
    for (int d = 0; d <= depth; ++d, rows += row_step) {{
        const int k = d < depth ? above[d] : tail;
        const number speed = *reinterpret_cast<const number*>(speeds + k * wp::int64(qd.strides[1]));
        const number change = dt * *reinterpret_cast<const number*>(changes + k * wp::int64(qdd.strides[1]));
        const triple value = *reinterpret_cast<const triple*>(rows);
        for (int r = 0; r < 3; ++r) {{
            sums.data[0][r] += value[r] * (share * speed + change);
            sums.data[1][r] += wp::abs(value[r]) * (wp::abs(speed) + wp::abs(change));
            sums.data[2][r] += value[r] * speed;
        }}
    }}
    return sums;
"""
)
_SOLVE_ROW = (
    _ROW
    + """
    const wp::int64 step = factor_l.strides[0];
    const char* factors = reinterpret_cast<const char*>(factor_l.data) + world * wp::int64(factor_l.strides[1]);
    for (int d = depth; d > 0; --d) {{
        const triple value = *reinterpret_cast<const triple*>(rows + d * row_step);
        const char* factor = factors + starts[d < depth ? above[d] : tail] * step;
        for (int e = 0; e < d; ++e, factor += step)
            *reinterpret_cast<triple*>(rows + e * row_step) -= value * *reinterpret_cast<const number*>(factor);
    }}
"""
)


@functools.cache
def factored_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions for one precision."""
    t = warp_types(scalar)
    vec3 = t.vec3

    @wp.func_native(_WRITE_ROW.format(scalar=scalar.__name__))
    def write_row(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        row_start: wp.array(dtype=int),
        tail: int,
        depth: int,
        subspace: wp.array2d(dtype=t.spatial),
        frame: t.mat33,
        lever: vec3,
        linear: bool,
        world: int,
    ):
        """The rows of one side of a constraint between links: a frame times :func:`geometric_functions`' motion."""

    @wp.func_native(_SUM_ROW.format(scalar=scalar.__name__))
    def sum_row(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        row_start: wp.array(dtype=int),
        tail: int,
        depth: int,
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        share: scalar,
        dt: scalar,
        world: int,
    ) -> t.mat33:
        """What one side's rows make of velocities, row by row: of the share of qd and the change by dt qdd, of their sizes, of qd alone."""

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

    return SimpleNamespace(write_row=write_row, sum_row=sum_row, multiply_by_inverse=multiply_by_inverse)
