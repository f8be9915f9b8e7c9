"""Constraints of tendons: limits, dry friction, coupled lengths; differentiated by Warp's own adjoint.

Each constraint has one row, a sum of the Jacobians of one or two tendons. Its bias, R and share of the velocity before
the step are stored in the references of :mod:`warp_kernels.solver.structs`, whatever the law.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import TendonRows, solver_structs
from warp_kernels.types import kernel_module, warp_types

# Kinds of constraint of a tendon.
LOWER, UPPER, LOSS, TIED = range(4)


@functools.cache
def tendon_row_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions shared by both laws."""
    common = row_functions(scalar)
    vec2, vec5 = warp_types(scalar).vec2, warp_types(scalar).vec5
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def violation(
        kind: int,
        tendon: int,
        other: int,
        coupling: int,
        world: int,
        tied_reference: wp.array(dtype=vec2),
        lower_limit: wp.array2d(dtype=scalar),
        upper_limit: wp.array2d(dtype=scalar),
        limit_margin: wp.array2d(dtype=scalar),
        polynomial: wp.array2d(dtype=vec5),
        tendon_length: wp.array2d(dtype=scalar),
    ):
        """Return the distance to a limit, or the difference of coupled lengths; and the factor of the other tendon's
        Jacobian.
        """
        x = zero
        factor = zero
        length = tendon_length[tendon, world]
        if kind == LOWER:
            x = length - common.value_of(lower_limit, world, tendon) - common.value_of(limit_margin, world, tendon)
        if kind == UPPER:
            x = common.value_of(upper_limit, world, tendon) - length - common.value_of(limit_margin, world, tendon)
        if kind == TIED:
            p = polynomial[wp.min(world, polynomial.shape[0] - 1), coupling]
            x = length - tied_reference[coupling][0] - p[0]
            if other >= 0:
                y = tendon_length[other, world] - tied_reference[coupling][1]
                x -= y * (p[1] + y * (p[2] + y * (p[3] + y * p[4])))
                factor = -(p[1] + y * (scalar(2.0) * p[2] + y * (scalar(3.0) * p[3] + y * (scalar(4.0) * p[4]))))
        return vec2(x, factor)

    @wp.func
    def own_factor(kind: int):
        """Return the factor of a tendon's own Jacobian."""
        if kind == UPPER:
            return -one
        return one

    return SimpleNamespace(violation=violation, own_factor=own_factor)


@functools.cache
def tendon_row_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision that both laws share."""
    vec2 = warp_types(scalar).vec2
    f = tendon_row_functions(scalar)
    Options = solver_structs(scalar).Options
    module = kernel_module("tendon_rows", scalar, inlined=True)

    @wp.kernel(module=module)
    def tendon_rows(
        # Model
        tendon_rows: TendonRows,
        # Data in
        tendon_slope: wp.array3d(dtype=scalar),
        tendon_position: wp.array2d(dtype=vec2),
        # Data out
        tendon_row: wp.array3d(dtype=scalar),
    ):
        """Compute the row of each constraint, over (constraint, dof, world)."""
        i, k, world = wp.tid()
        value = f.own_factor(tendon_rows.kind[i]) * tendon_slope[tendon_rows.tendon[i], k, world]
        if tendon_rows.other[i] >= 0:
            value += tendon_position[i, world][1] * tendon_slope[tendon_rows.other[i], k, world]
        tendon_row[i, k, world] = value

    @wp.kernel(module=module, enable_backward=False)
    def tendon_activity(
        # Model
        tendon_rows: TendonRows,
        options: Options,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        tendon_position: wp.array2d(dtype=vec2),
        tendon_row: wp.array3d(dtype=scalar),
        # Data out
        tendon_active: wp.array2d(dtype=int),
    ):
        """Mark active constraints with 1, over (constraint, world); a limit is active if it may be reached within the
        step.

        A constraint that no joint moves is inactive, as in MuJoCo.
        """
        i, world = wp.tid()
        active = int(0)
        for k in range(qd.shape[1]):
            if tendon_row[i, k, world] != scalar(0.0):
                active = 1
        if tendon_rows.kind[i] <= UPPER:
            cutoff = scalar(0.0)
            if options.limit_margin >= scalar(0.0):
                speed = scalar(0.0)
                for k in range(qd.shape[1]):
                    speed += tendon_row[i, k, world] * (qd[world, k] + options.dt * qdd[world, k])
                cutoff = options.limit_margin + options.dt * wp.abs(speed)
            if not tendon_position[i, world][0] < cutoff:
                active = 0
        tendon_active[i, world] = active

    return SimpleNamespace(module=module, tendon_rows=tendon_rows, tendon_activity=tendon_activity)


@functools.cache
def hard_tendon_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel of the law "hard" for one precision."""
    t = warp_types(scalar)
    vec2, vec3, vec5 = t.vec2, t.vec3, t.vec5
    common, f = row_functions(scalar), tendon_row_functions(scalar)
    Options = solver_structs(scalar).Options
    module = kernel_module("tendon_constraints", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.kernel(module=module)
    def tendon_constraints(
        # Model
        tendon_rows: TendonRows,
        tied_reference: wp.array(dtype=vec2),
        options: Options,
        # Parameters
        tendon_lower_limit: wp.array2d(dtype=scalar),
        tendon_upper_limit: wp.array2d(dtype=scalar),
        tendon_limit_margin: wp.array2d(dtype=scalar),
        tendon_friction_loss: wp.array2d(dtype=scalar),
        tendon_polynomial: wp.array2d(dtype=vec5),
        # Data in
        tendon_length: wp.array2d(dtype=scalar),
        tendon_drift: wp.array2d(dtype=scalar),
        # Data out
        tendon_position: wp.array2d(dtype=vec2),
        tendon_reference: wp.array2d(dtype=vec3),
        tendon_bound: wp.array2d(dtype=scalar),
    ):
        """Compute bias and compliance over (constraint, world). tendon_drift: second derivatives of lengths at constant
        joint rates.
        """
        i, world = wp.tid()
        kind = tendon_rows.kind[i]
        tendon = tendon_rows.tendon[i]
        other = tendon_rows.other[i]
        found = f.violation(
            kind, tendon, tendon_rows.other[i], tendon_rows.coupling[i], world, tied_reference, tendon_lower_limit,
            tendon_upper_limit, tendon_limit_margin, tendon_polynomial, tendon_length,
        )  # fmt: skip
        x = found[0]
        # Half of the drift in a step is the mean over the step.
        drift = f.own_factor(kind) * tendon_drift[tendon, world]
        if other >= 0:
            drift += found[1] * tendon_drift[other, world]
        change = scalar(0.5) * options.dt * drift
        most = options.max_correction + wp.abs(change)
        bias = vec2()  # and compliance
        bound = zero
        if kind == LOSS:
            bound = options.dt * common.value_of(tendon_friction_loss, world, tendon)
        elif kind == TIED:
            bias[0] = change + wp.clamp(x * (options.erp / common.recovery(options, world)), -most, most)
            bound = scalar(wp.inf)
        elif wp.isfinite(x):
            bias = common.stabilisation(x, most, options, world)
            bias[0] += change
        tendon_position[i, world] = found
        tendon_reference[i, world] = vec3(bias[0], bias[1], one)
        tendon_bound[i, world] = bound

    return SimpleNamespace(module=module, tendon_constraints=tendon_constraints)
