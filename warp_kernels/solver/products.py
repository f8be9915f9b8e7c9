"""Products with a constraint's rows, which lie along the paths of its two sides."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types

# Warp's own access to an array looks at the sign of every index, which takes longer than the product. The six degrees of freedom of
# a floating base, with which its paths begin, follow each other: a CPU's compiler writes their loop out. A GPU needs its registers.
_PATH = """
    using number = wp::{scalar};
    using triple = wp::vec_t<3, number>;
    const wp::int64 row_step = row.strides[0], step = x.strides[0];
    const char* rows = reinterpret_cast<const char*>(row.data) + here * row_step + world * wp::int64(row.strides[1]);
    char* entries = reinterpret_cast<char*>(x.data) + world * wp::int64(x.strides[1]);
    const int* above = reinterpret_cast<const int*>(ancestor.data) + start;
    {before}
    int d = 0;
#ifndef __CUDA_ARCH__
    if (depth >= 5 && (depth > 5 ? above[5] : tail) - above[0] == 5) {{
        const int first = above[0];
        for (; d < 6; ++d) {{
            const int k = first + d;
            {each}
        }}
    }}
#endif
    for (; d <= depth; ++d) {{
        const int k = d < depth ? above[d] : tail;
        {each}
    }}
    {after}
"""
_AT = "*reinterpret_cast<const triple*>(rows + d * row_step)"
_X = "*reinterpret_cast<number*>(entries + k * step)"
_SCALE = "*reinterpret_cast<const number*>(scales + k * wp::int64(scale.strides[0]))"
_SCALES = "const char* scales = reinterpret_cast<const char*>(scale.data) + world * wp::int64(scale.strides[1]);"


def _along_path(scalar: Any, each: str, before: str = "", after: str = "") -> str:
    """What a function does at ``each`` degree of freedom k of a path, which lies at depth d of it."""
    return _PATH.format(scalar=scalar.__name__, before=before, each=each, after=after)


@functools.cache
def product_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of products with rows, for one precision."""
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    factor, immovable = factor_kernels(scalar), immovable_functions(scalar)

    @wp.func_native(_along_path(scalar, f"total += {_AT} * {_X};", "triple total;", "return total;"))
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

    @wp.func_native(_along_path(scalar, f"{_X} += wp::dot({_AT}, push);"))
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

    @wp.func_native(_along_path(scalar, f"{_X} += wp::dot({_AT}, push) * {_SCALE};", _SCALES))
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

    @wp.func_native(
        _along_path(
            scalar,
            f"total += wp::outer({_AT}, {_AT} * {_X});",
            "wp::mat_t<3, 3, number> total;",
            "return total;",
        )
    )
    def path_mobility(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        start: int,
        depth: int,
        tail: int,
        x: wp.array2d(dtype=scalar),
        world: int,
    ) -> mat33:
        """The rows of one side times their transpose, with x between them."""

    @wp.func_native(
        _along_path(scalar, f"total += wp::dot({_AT}, {_AT}) * {_X};", "number total = 0;", "return total;")
    )
    def path_square(
        row: wp.array2d(dtype=vec3),
        here: int,
        ancestor: wp.array(dtype=int),
        start: int,
        depth: int,
        tail: int,
        x: wp.array2d(dtype=scalar),
        world: int,
    ) -> scalar:
        """The trace of :func:`path_mobility`."""

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
    def shared_mobility(
        constraint: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        scale: wp.array2d(dtype=scalar),
    ):
        """The rows of one side times those of the other, both ways, where their paths are one."""
        total = mat33()
        a = constraints.tail[2 * constraint, world]
        b = constraints.tail[2 * constraint + 1, world]
        if a >= 0 and b >= 0:
            for d in range(wp.min(paths.dof_depth[a], paths.dof_depth[b]) + 1):
                k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, a, d)
                if k != factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, b, d):
                    break
                near = row[2 * constraint * paths.max_depth + d, world]
                far = row[(2 * constraint + 1) * paths.max_depth + d, world]
                total += (wp.outer(near, far) + wp.outer(far, near)) * scale[k, world]
        return total

    @wp.func
    def apart_mobility(
        constraint: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        scale: wp.array2d(dtype=scalar),
    ):
        """The sum over both sides of the rows times their transpose, with ``scale`` [dof, world] between them."""
        total = mat33()
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                here = (2 * constraint + side) * paths.max_depth
                total += path_mobility(
                    row, here, paths.ancestor, paths.dof_row_start[tail], paths.dof_depth[tail], tail, scale, world
                )
        return total

    @wp.func
    def own_mobility(
        constraint: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        scale: wp.array2d(dtype=scalar),
    ):
        """The rows times their transpose, with ``scale`` [dof, world] between them."""
        apart = apart_mobility(constraint, world, paths, constraints, row, scale)
        return apart + shared_mobility(constraint, world, paths, constraints, row, scale)

    @wp.func
    def mobility_trace(
        constraint: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        scale: wp.array2d(dtype=scalar),
    ):
        """The trace of :func:`own_mobility`; zero where both sides move alike."""
        apart = scalar(0.0)
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                here = (2 * constraint + side) * paths.max_depth
                apart += path_square(
                    row, here, paths.ancestor, paths.dof_row_start[tail], paths.dof_depth[tail], tail, scale, world
                )
        total = apart + wp.trace(shared_mobility(constraint, world, paths, constraints, row, scale))
        if immovable.move_alike(total, apart):
            total = scalar(0.0)
        return total

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
    def solve(
        world: int,
        paths: Paths,
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
    ):
        """x := M^-1 x [dof, world]."""
        begin_solve(world, paths, factor_l, factor_d, x)
        nv = paths.dof_depth.shape[0]
        factor.solve_lower(paths.dof_row_start, paths.dof_depth, paths.ancestor, factor_l, x, nv, world)

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
        solve=solve,
        solve_pushes=solve_pushes,
        row_product=row_product,
        add_push=add_push,
        add_scaled_push=add_scaled_push,
        whole_entry=whole_entry,
        apart_mobility=apart_mobility,
        shared_mobility=shared_mobility,
        own_mobility=own_mobility,
        mobility_trace=mobility_trace,
    )
