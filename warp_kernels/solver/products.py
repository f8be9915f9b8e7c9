"""Products with a constraint's rows, which lie along the paths of its two sides."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types

# Warp's own access to an array looks at the sign of every index, which takes longer than the product.
_ROWS = """
    const char* rows = reinterpret_cast<const char*>(row.data) + here * wp::int64(row.strides[0]) + world * wp::int64(row.strides[1]);
    char* entries = reinterpret_cast<char*>(x.data) + world * wp::int64(x.strides[1]);
    const char* above = reinterpret_cast<const char*>(ancestor.data) + start * wp::int64(ancestor.strides[0]);
"""
_PRODUCT = (
    _ROWS
    + """
    wp::vec_t<3, wp::{scalar}> total;
    for (int d = 0; d <= depth; ++d) {{
        const int k = d < depth ? *reinterpret_cast<const int*>(above + d * wp::int64(ancestor.strides[0])) : tail;
        total += *reinterpret_cast<const wp::vec_t<3, wp::{scalar}>*>(rows + d * wp::int64(row.strides[0]))
            * *reinterpret_cast<const wp::{scalar}*>(entries + k * wp::int64(x.strides[0]));
    }}
    return total;
"""
)
_PUSH = (
    _ROWS
    + """
    for (int d = 0; d <= depth; ++d) {{
        const int k = d < depth ? *reinterpret_cast<const int*>(above + d * wp::int64(ancestor.strides[0])) : tail;
        wp::{scalar} change = wp::dot(*reinterpret_cast<const wp::vec_t<3, wp::{scalar}>*>(rows + d * wp::int64(row.strides[0])), push);
        {scaling}
        *reinterpret_cast<wp::{scalar}*>(entries + k * wp::int64(x.strides[0])) += change;
    }}
"""
)
_SCALING = """
        change *= *reinterpret_cast<const wp::{scalar}*>(
            reinterpret_cast<const char*>(scale.data) + k * wp::int64(scale.strides[0]) + world * wp::int64(scale.strides[1]));
"""


@functools.cache
def product_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of products with rows, for one precision."""
    vec3 = warp_types(scalar).vec3
    factor = factor_kernels(scalar)

    @wp.func_native(_PRODUCT.format(scalar=scalar.__name__))
    def path_product(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        start: int,
        depth: int,
        tail: int,
        x: wp.array2d(dtype=scalar),
        world: int,
    ) -> vec3:
        """The rows of one side, which begin at ``here``, times x."""

    @wp.func_native(_PUSH.format(scalar=scalar.__name__, scaling=""))
    def push_path(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        start: int,
        depth: int,
        tail: int,
        push: vec3,
        x: wp.array2d(dtype=scalar),
        world: int,
    ):
        """Add the transposed rows of one side times ``push`` to x."""

    @wp.func_native(_PUSH.format(scalar=scalar.__name__, scaling=_SCALING.format(scalar=scalar.__name__)))
    def push_path_scaled(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        start: int,
        depth: int,
        tail: int,
        push: vec3,
        scale: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
        world: int,
    ):
        """The same, each entry times ``scale``."""

    @wp.func
    def row_product(
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
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                here = (2 * constraint + side) * paths.max_depth
                total += path_product(
                    row, here, paths.ancestor, paths.dof_row_start[tail], paths.dof_depth[tail], tail, x, world
                )
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
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                here = (2 * constraint + side) * paths.max_depth
                push_path(
                    row, here, paths.ancestor, paths.dof_row_start[tail], paths.dof_depth[tail], tail, push, x, world
                )

    @wp.func
    def add_scaled_push(
        constraint: int,
        push: vec3,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        scale: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
    ):
        """Add the transposed rows times ``push``, each entry times ``scale``, to x; both [dof, world]."""
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                here = (2 * constraint + side) * paths.max_depth
                push_path_scaled(
                    row,
                    here,
                    paths.ancestor,
                    paths.dof_row_start[tail],
                    paths.dof_depth[tail],
                    tail,
                    push,
                    scale,
                    x,
                    world,
                )

    @wp.func
    def whole_entry(
        constraint: int,
        side: int,
        d: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
    ):
        """The rows' entry at depth d of the path of a side, with that of the other side where the paths share it."""
        tail = constraints.tail[2 * constraint + side, world]
        mate = constraints.tail[2 * constraint + 1 - side, world]
        entry = row[(2 * constraint + side) * paths.max_depth + d, world]
        if mate >= 0 and d <= paths.dof_depth[mate]:
            k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
            if k == factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, mate, d):
                entry += row[(2 * constraint + 1 - side) * paths.max_depth + d, world]
        return entry

    @wp.func
    def begin_solve(
        world: int,
        paths: Paths,
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
    ):
        """x := D^-1 L'^-1 x, half of M^-1 x [dof, world]."""
        nv = paths.dof_depth.shape[0]
        factor.solve_transposed(paths.dof_row_start, paths.dof_depth, paths.ancestor, factor_l, x, nv, world)
        for k in range(nv):
            x[k, world] = x[k, world] * factor_d[k, world]

    @wp.func
    def solve_pushes(
        world: int,
        paths: Paths,
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
    ):
        """x := L^-1 D^-1 x: what a sum of ``add_push`` does to velocities [dof, world]."""
        nv = paths.dof_depth.shape[0]
        for k in range(nv):
            x[k, world] = x[k, world] * factor_d[k, world]
        factor.solve_lower(paths.dof_row_start, paths.dof_depth, paths.ancestor, factor_l, x, nv, world)

    return SimpleNamespace(
        begin_solve=begin_solve,
        solve_pushes=solve_pushes,
        row_product=row_product,
        add_push=add_push,
        add_scaled_push=add_scaled_push,
        whole_entry=whole_entry,
    )
