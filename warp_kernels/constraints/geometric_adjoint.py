"""Adjoint of geometric rows: of contacts, of their spinning and rolling, and of anchors."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.entries import entry_functions
from warp_kernels.constraints.geometric import geometric_functions
from warp_kernels.constraints.kinds import is_angular, is_contact, is_of_contact_frame
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import warp_types


@functools.cache
def geometric_adjoint_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    common, entries, factor = row_functions(scalar), entry_functions(scalar), factor_kernels(scalar)
    geometric, reference_rows = geometric_functions(scalar), reference_row_functions(scalar)
    structs = solver_structs(scalar)
    Bounces, Rows, RowInputs, Solved = structs.Bounces, structs.Rows, structs.RowInputs, structs.Solved
    zero = scalar(0.0)

    @wp.func
    def add_side_bars(
        kind: int, item: int, world: int, sign: scalar, lever_bar: vec3, frame_bar: mat33, inputs_bar: RowInputs
    ):
        """Add the adjoints of point and frame of one side to those of a contact or an anchor."""
        if is_of_contact_frame(kind):
            inputs_bar.contacts.frame[item, world] += frame_bar * sign
            inputs_bar.contacts.point[item, world] += lever_bar
            if inputs_bar.contacts.apart.shape[0] > 0:
                inputs_bar.contacts.apart[item, world] += (scalar(0.5) * sign) * lever_bar
        elif not is_angular(kind):
            inputs_bar.equalities.anchor_point[item, world] += lever_bar
            if inputs_bar.equalities.anchor_apart.shape[0] > 0:
                inputs_bar.equalities.anchor_apart[item, world] += (scalar(0.5) * sign) * lever_bar
        elif inputs_bar.equalities.anchor_apart.shape[0] > 0:
            inputs_bar.equalities.anchor_frame[2 * item + 1, world] += frame_bar * sign

    @wp.func
    def row_adjoint(
        constraint: int,
        world: int,
        paths: Paths,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        bounces: Bounces,
        solved: Solved,
        rows_bar: Rows,
        bounces_bar: Bounces,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """From the adjoint of a constraint's rows to those of motions, frames, points and qd."""
        kind = constraints.kind[constraint, world]
        item = constraints.item[constraint, world]
        b_bar = rows_bar.rhs[constraint, world]
        share = reference_rows.reference(inputs.references, kind, item, world)[2]
        share_bar = scalar(0.0)
        before_bar = scalar(0.0)
        free_bar = scalar(0.0)
        late_impulse = vec3()
        if bounces.free.shape[0] > 0:
            if is_contact(kind):
                before_bar = bounces_bar.before[constraint, world]
                free_bar = bounces_bar.free[constraint, world]
            if is_of_contact_frame(kind):
                late_impulse = bounces.late[item, world] * solved.impulse[constraint, world]
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail < 0:
                continue
            tree = trees.dof_tree[tail]
            reference = constraints.reference[constraint, world]
            sign = common.side_sign(side)
            at = entries.response_start(constraint, side, tail, world, trees, couplings)
            point, frame = geometric.point_and_frame(kind, side, item, world, inputs)
            lever = point + (inputs.motions.origin[reference, world] - inputs.motions.origin[tree, world])
            frame_bar = mat33()
            lever_bar = vec3()
            for d in range(paths.dof_depth[tail] + 1):
                k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                g = entries.entry_bar(constraint, at, k, world, share, solved, rows_bar, inputs)
                if bounces.free.shape[0] > 0:
                    before = inputs.qd[world, k]
                    free = before + inputs.options.dt * solved.qdd[world, k]
                    g += vec3(before_bar * before + free_bar * free, zero, zero)
                    g += late_impulse * solved.lag_weight[k, world]
                column = inputs.motions.subspace[k, world]
                push = g * frame
                inputs_bar.motions.subspace[k, world] += geometric.column_adjoint(kind, push, lever)
                lever_bar += geometric.lever_adjoint(kind, push, column)
                motion = geometric.motion(kind, column, lever)
                frame_bar += wp.outer(g, motion)
                jacobian = frame * motion
                along = wp.dot(jacobian, b_bar)
                share_bar += along * inputs.qd[world, k]
                inputs_bar.qd[world, k] += share * along + jacobian[0] * (before_bar + free_bar)
            add_side_bars(kind, item, world, sign, lever_bar, frame_bar, inputs_bar)
            inputs_bar.motions.origin[reference, world] += lever_bar
            inputs_bar.motions.origin[tree, world] -= lever_bar
        reference_rows.add_reference_bar(inputs_bar.references, kind, item, world, vec3(zero, zero, share_bar))

    return SimpleNamespace(row_adjoint=row_adjoint)
