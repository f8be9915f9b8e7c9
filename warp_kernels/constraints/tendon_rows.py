"""Rows of the listed tendon constraints along both paths, with right-hand sides and bounds, and their adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_of_tendon
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import entry_functions
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constrained, Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def tendon_row_functions(scalar: Any, of_dofs: bool = True) -> SimpleNamespace:
    """Return the Warp functions of the adjoint for one precision. Without ``of_dofs`` it leaves out velocities, which
    constraints share.
    """
    vec3 = warp_types(scalar).vec3
    entries, factor = entry_functions(scalar), factor_kernels(scalar)
    structs = solver_structs(scalar)
    Rows, RowInputs, Solved = structs.Rows, structs.RowInputs, structs.Solved
    zero = scalar(0.0)

    @wp.func
    def velocity_bar(
        constraint: int,
        side: int,
        k: int,
        world: int,
        constrained: Constrained,
        constraints: Constraints,
        rows_bar: Rows,
        inputs: RowInputs,
    ):
        """Return the adjoint of qd of degree of freedom k, on the path of a side, from a constraint's row."""
        item = constraints.item[constraint, world]
        bar = zero
        if constrained.tendon_side[item, k] == side:
            share = inputs.references.tendon[item, world][2]
            bar = share * inputs.tendon_row[item, k, world] * rows_bar.rhs[constraint, world][0]
        return bar

    @wp.func
    def row_adjoint(
        constraint: int,
        world: int,
        paths: Paths,
        trees: TreeDofs,
        constrained: Constrained,
        constraints: Constraints,
        couplings: Couplings,
        solved: Solved,
        rows_bar: Rows,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """Propagate the adjoint of a constraint's row to qd, to the tendon's Jacobian and to the share of qd in the
        row.
        """
        item = constraints.item[constraint, world]
        b_bar = rows_bar.rhs[constraint, world]
        share = inputs.references.tendon[item, world][2]
        share_bar = scalar(0.0)
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail < 0:
                continue
            at = entries.response_start(constraint, side, tail, world, trees, couplings)
            for d in range(paths.dof_depth[tail] + 1):
                k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                if constrained.tendon_side[item, k] == side:
                    value = inputs.tendon_row[item, k, world]
                    share_bar += value * b_bar[0] * inputs.qd[world, k]
                    if wp.static(of_dofs):
                        inputs_bar.qd[world, k] += share * value * b_bar[0]
                    g = entries.entry_bar(constraint, at, k, world, share, solved, rows_bar, inputs)
                    inputs_bar.tendon_row[item, k, world] = g[0]
        inputs_bar.references.tendon[item, world] += vec3(zero, zero, share_bar)

    return SimpleNamespace(velocity_bar=velocity_bar, row_adjoint=row_adjoint)


@functools.cache
def tendon_constraint_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel for one precision, over (thread, world): threads share the constraints of a world."""
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    factor, products = factor_kernels(scalar), product_functions(scalar)
    structs = solver_structs(scalar)
    Options, Rows = structs.Options, structs.Rows
    module = kernel_module("tendon_constraint_rows", scalar, headers=ROW_HEADERS)
    zero = scalar(0.0)

    @wp.kernel(module=module, enable_backward=False)
    def tendon_constraint_rows(
        # Model
        threads: int,
        paths: Paths,
        constrained: Constrained,
        options: Options,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        tendon_row: wp.array3d(dtype=scalar),
        tendon_bound: wp.array2d(dtype=scalar),
        tendon_reference: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Data out
        row: wp.array2d(dtype=vec3),
        rows: Rows,
    ):
        """Build the rows of tendons like ``constraint_rows`` of :mod:`warp_kernels.constraints.rows`, which omits
        them.
        """
        thread, world = wp.tid()
        for constraint in range(thread, constraints.count[world], threads):
            if not is_of_tendon(constraints.kind[constraint, world]):
                continue
            item = constraints.item[constraint, world]
            reference = tendon_reference[item, world]
            before = zero
            change = zero
            size = vec2()  # of the terms of both
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail < 0:
                    continue
                at = (2 * constraint + side) * paths.max_depth
                for d in range(paths.dof_depth[tail] + 1):
                    k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                    value = zero
                    if constrained.tendon_side[item, k] == side:
                        value = tendon_row[item, k, world]
                    row[at + d, world] = vec3(value, zero, zero)
                    own_before = value * qd[world, k]
                    own_change = value * options.dt * qdd[world, k]
                    before += own_before
                    change += own_change
                    size += vec2(wp.abs(own_before), wp.abs(own_change))
                products.solve_row(row, at, paths, tail, factor_l, world)
            value_before = vec3(reference[2] * before + reference[0], zero, zero)
            rows.rhs[constraint, world] = value_before + vec3(change, zero, zero)
            rows.bound[constraint, world] = tendon_bound[item, world]
            rows.compliance[constraint, world] = reference[1]
            if rows.size.shape[0] > 0:
                rows.size[constraint, world] = vec2(size[0] + size[1], zero)
                rows.value_before[constraint, world] = value_before
                rows.size_before[constraint, world] = vec2(size[0], zero)

    return SimpleNamespace(module=module, tendon_constraint_rows=tendon_constraint_rows)
