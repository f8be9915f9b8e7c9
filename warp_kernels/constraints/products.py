"""Products with a constraint's rows, stored along the paths of its two sides, and with the factors of the mass
matrix.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.cpu.native import Native
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types

# C++ of these functions, and of :mod:`warp_kernels.constraints.geometric`.
ROW_HEADERS = ("constraints/rows.h",)


@functools.cache
def product_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of products with rows, for one precision."""
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    factor, immovable = factor_kernels(scalar), immovable_functions(scalar)
    vectors, numbers = wp.array2d(dtype=vec3), wp.array2d(dtype=scalar)
    native = Native(scalar, 1, "rows")

    @native.func_native()
    def solve_transposed(paths: Paths, factor_l: numbers, x: numbers, world: int):
        """Solve in place: x := L'^-1 x [dof, world]."""

    @native.func_native()
    def solve_lower(paths: Paths, factor_l: numbers, x: numbers, world: int):
        """Solve in place: x := L^-1 x [dof, world]."""

    @native.func_native()
    def solve_row(row: vectors, here: int, paths: Paths, tail: int, factor_l: numbers, world: int):
        """Multiply the entries of one side, which begin at ``here``, by L'^-1: deepest first."""

    @native.func_native()
    def path_product(row: vectors, here: int, paths: Paths, tail: int, x: numbers, world: int) -> vec3:
        """Multiply the rows of one side, which begin at ``here``, by x."""

    @native.func_native()
    def push_path(row: vectors, here: int, paths: Paths, tail: int, push: vec3, x: numbers, world: int):
        """Add the transposed rows of one side times ``push`` to x."""

    @native.func_native()
    def push_path_scaled(
        row: vectors, here: int, paths: Paths, tail: int, push: vec3, scale: numbers, x: numbers, world: int
    ):
        """Add the transposed rows of one side times ``push``, each entry times ``scale``, to x."""

    @native.func_native()
    def path_mobility(row: vectors, here: int, paths: Paths, tail: int, x: numbers, world: int) -> mat33:
        """Multiply the rows of one side by their transpose, with x between them."""

    @native.func_native()
    def path_square(row: vectors, here: int, paths: Paths, tail: int, x: numbers, world: int) -> scalar:
        """Return the trace of :func:`path_mobility`."""

    @wp.func
    def row_product(
        constraint: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        x: wp.array2d(dtype=scalar),
    ):
        """Multiply the rows by x [dof, world]."""
        total = vec3()
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                here = (2 * constraint + side) * paths.max_depth
                total += path_product(row, here, paths, tail, x, world)
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
                push_path(row, here, paths, tail, push, x, world)

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
                push_path_scaled(row, here, paths, tail, push, scale, x, world)

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
        """Return the rows' entry at depth d of the path of a side, with that of the other side where the paths are
        shared.
        """
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
        """Multiply the rows of one side by those of the other, both ways, where their paths are shared."""
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
        """Return the sum over both sides of the rows times their transpose, with ``scale`` [dof, world] between
        them.
        """
        total = mat33()
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                here = (2 * constraint + side) * paths.max_depth
                total += path_mobility(row, here, paths, tail, scale, world)
        return total

    @wp.func
    def diagonal_block(
        constraint: int,
        world: int,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        scale: wp.array2d(dtype=scalar),
    ):
        """Multiply the rows by their transpose, with ``scale`` [dof, world] between them."""
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
        """Return the trace of :func:`diagonal_block`; zero where both sides move alike."""
        apart = scalar(0.0)
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                here = (2 * constraint + side) * paths.max_depth
                apart += path_square(row, here, paths, tail, scale, world)
        total = apart + wp.trace(shared_mobility(constraint, world, paths, constraints, row, scale))
        if immovable.move_together(total, apart):
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
        """Solve half of M^-1 x in place: x := D^-1 L'^-1 x [dof, world]."""
        solve_transposed(paths, factor_l, x, world)
        for k in range(paths.dof_depth.shape[0]):
            x[k, world] = x[k, world] * factor_d[k, world]

    @wp.func
    def solve(
        world: int,
        paths: Paths,
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
    ):
        """Solve in place: x := M^-1 x [dof, world]."""
        begin_solve(world, paths, factor_l, factor_d, x)
        solve_lower(paths, factor_l, x, world)

    @wp.func
    def solve_pushes(
        world: int,
        paths: Paths,
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        x: wp.array2d(dtype=scalar),
    ):
        """Convert a sum of ``add_push`` to velocities: x := L^-1 D^-1 x [dof, world]."""
        for k in range(paths.dof_depth.shape[0]):
            x[k, world] = x[k, world] * factor_d[k, world]
        solve_lower(paths, factor_l, x, world)

    return SimpleNamespace(
        solve_transposed=solve_transposed,
        solve_lower=solve_lower,
        solve_row=solve_row,
        begin_solve=begin_solve,
        solve=solve,
        solve_pushes=solve_pushes,
        row_product=row_product,
        add_push=add_push,
        add_scaled_push=add_scaled_push,
        whole_entry=whole_entry,
        apart_mobility=apart_mobility,
        shared_mobility=shared_mobility,
        diagonal_block=diagonal_block,
        mobility_trace=mobility_trace,
    )
