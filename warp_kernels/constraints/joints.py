"""Rows of joints on their own degrees of freedom, and the adjoint of these rows."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import (
    ACTUATOR,
    CONE_LIMIT,
    COUPLING,
    FRICTION_LOSS,
    UPPER_LIMIT,
    has_varying_row,
)
from warp_kernels.constraints.limits import limit_functions
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.shared import entry_functions, row_functions
from warp_kernels.solver.structs import Constraints, Couplings, TreeDofs, solver_structs
from warp_kernels.types import warp_types


@functools.cache
def joint_row_functions(scalar: Any, of_dofs: bool = True) -> SimpleNamespace:
    """Return the Warp functions of joint rows for one precision. Without ``of_dofs`` the adjoint of rows leaves out
    velocities, which constraints share.
    """
    common, entries, limit = row_functions(scalar), entry_functions(scalar), limit_functions(scalar)
    reference_rows = reference_row_functions(scalar)
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    structs = solver_structs(scalar)
    Options, Limits, Equalities, Cones = structs.Options, structs.Limits, structs.Equalities, structs.Cones
    Rows, RowInputs, Solved = structs.Rows, structs.RowInputs, structs.Solved

    @wp.func
    def joint_row(
        kind: int,
        item: int,
        side: int,
        above: int,
        world: int,
        coupling_ratio: wp.array2d(dtype=scalar),
        cone_row: wp.array2d(dtype=vec3),
    ):
        """Return the entry of a joint's row for the degree of freedom ``above`` steps above the tail."""
        value = scalar(0.0)
        if kind == CONE_LIMIT:
            rate = cone_row[item, world]
            if above == 0:
                value = rate[2]
            elif above == 1:
                value = rate[1]
            elif above == 2:
                value = rate[0]
        elif above == 0:
            value = scalar(1.0)
            if kind == UPPER_LIMIT:
                value = scalar(-1.0)
            if kind == COUPLING and side == 0:
                value = -common.value_of(coupling_ratio, world, item)
        return value

    @wp.func(inline=True)
    def joint_bound(
        kind: int,
        item: int,
        world: int,
        options: Options,
        friction_loss: wp.array2d(dtype=scalar),
        actuator_row: wp.array2d(dtype=vec3),
    ):
        """Return the largest impulse of a joint's constraint; zero where it has none or is infinite."""
        most = scalar(0.0)
        if kind == FRICTION_LOSS:
            most = options.dt * common.value_of(friction_loss, world, item)
        elif kind == ACTUATOR:
            most = actuator_row[item, world][2]
        return most

    @wp.func(inline=True)
    def joint_bias(
        kind: int,
        constraint: int,
        item: int,
        world: int,
        q: wp.array2d(dtype=scalar),
        dof_q: wp.array(dtype=int),
        options: Options,
        limits: Limits,
        actuator_row: wp.array2d(dtype=vec3),
        equalities: Equalities,
        cones: Cones,
        constraints: Constraints,
    ):
        """Return the bias and the compliance of a joint's constraint without a reference."""
        bias = vec2()
        if kind == ACTUATOR:
            motor = actuator_row[item, world]
            bias = vec2(motor[0], motor[1] - options.cfm)
        elif kind == COUPLING:
            bias[0] = equalities.coupling_bias[item, world]
        elif kind == CONE_LIMIT:
            first = constraints.tail[2 * constraint + 1, world] - 2
            gap = cones.gap[item, world] - common.value_of(limits.margin, world, first)
            bias = limit.limit_bias(limits, first, gap, options, world)
        elif kind != FRICTION_LOSS:
            gap = limit.limit_gap(limits, kind, item, q[world, dof_q[item]], world)
            bias = limit.limit_bias(limits, item, gap, options, world)
        return bias

    @wp.func
    def bias_adjoint(
        constraint: int,
        kind: int,
        item: int,
        world: int,
        b_bar: scalar,
        dof_q: wp.array(dtype=int),
        constraints: Constraints,
        rows_bar: Rows,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """Propagate the adjoints of bias, compliance and bound to their inputs, except references."""
        compliance_bar = rows_bar.compliance[constraint, world]
        bound_bar = rows_bar.bound[constraint, world]
        if kind == FRICTION_LOSS:
            common.add_at(inputs_bar.friction_loss, world, item, inputs.options.dt * bound_bar)
        elif kind == ACTUATOR:
            inputs_bar.actuator_row[item, world] = vec3(b_bar, compliance_bar, bound_bar)
        elif reference_rows.is_referred(inputs.references, kind):
            return
        elif kind == COUPLING:
            inputs_bar.equalities.coupling_bias[item, world] = b_bar
        elif kind == CONE_LIMIT:
            first = constraints.tail[2 * constraint + 1, world] - 2
            gap = inputs.cones.gap[item, world] - common.value_of(inputs.limits.margin, world, first)
            gap_bar = limit.limit_bias_adjoint(
                inputs.limits, first, gap, inputs.options, world, b_bar, compliance_bar, inputs_bar.limits,
                inputs_bar.options,
            )  # fmt: skip
            common.add_at(inputs_bar.limits.margin, world, first, -gap_bar)
            inputs_bar.cones.gap[item, world] = gap_bar
        else:
            value = inputs.q[world, dof_q[item]]
            inputs_bar.q[world, dof_q[item]] += limit.limit_adjoint(
                inputs.limits, kind, item, value, inputs.options, world, b_bar, compliance_bar, inputs_bar.limits,
                inputs_bar.options,
            )  # fmt: skip

    @wp.func
    def row_length(kind: int):
        """Return how many degrees of freedom of a side a joint's row has: the last ones of the path."""
        length = int(1)
        if kind == CONE_LIMIT:
            length = 3
        return length

    @wp.func
    def velocity_bar(
        constraint: int,
        k: int,
        world: int,
        constraints: Constraints,
        rows_bar: Rows,
        inputs: RowInputs,
    ):
        """Return the adjoint of qd of degree of freedom k from a joint's row."""
        kind = constraints.kind[constraint, world]
        item = constraints.item[constraint, world]
        total = scalar(0.0)
        for side in range(2):
            above = constraints.tail[2 * constraint + side, world] - k
            if above >= 0 and above < row_length(kind):
                share = reference_rows.reference(inputs.references, kind, item, world)[2]
                value = joint_row(kind, item, side, above, world, inputs.coupling_ratio, inputs.cones.row)
                total += share * value * rows_bar.rhs[constraint, world][0]
        return total

    @wp.func
    def row_adjoint(
        constraint: int,
        world: int,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        solved: Solved,
        rows_bar: Rows,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """Propagate the adjoint of a joint's row to qd and to the row's inputs."""
        kind = constraints.kind[constraint, world]
        item = constraints.item[constraint, world]
        b_bar = rows_bar.rhs[constraint, world]
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail < 0:
                continue
            share = reference_rows.reference(inputs.references, kind, item, world)[2]
            share_bar = scalar(0.0)
            row_bar = vec3()
            for above in range(row_length(kind)):
                k = tail - above
                value = joint_row(kind, item, side, above, world, inputs.coupling_ratio, inputs.cones.row)
                share_bar += value * b_bar[0] * inputs.qd[world, k]
                if wp.static(of_dofs):
                    inputs_bar.qd[world, k] += share * value * b_bar[0]
                if has_varying_row(kind):
                    at = entries.response_start(constraint, side, tail, world, trees, couplings)
                    g = entries.entry_bar(constraint, at, k, world, share, solved, rows_bar, inputs)
                    row_bar[2 - above] = g[0]
            bar = vec3(scalar(0.0), scalar(0.0), share_bar)
            reference_rows.add_reference_bar(inputs_bar.references, kind, item, world, bar)
            if kind == CONE_LIMIT:
                inputs_bar.cones.row[item, world] = row_bar
            if kind == COUPLING and side == 0:
                common.add_at(inputs_bar.coupling_ratio, world, item, -row_bar[2])

    return SimpleNamespace(
        joint_row=joint_row,
        joint_bound=joint_bound,
        joint_bias=joint_bias,
        bias_adjoint=bias_adjoint,
        velocity_bar=velocity_bar,
        row_adjoint=row_adjoint,
    )
