"""Shared by rows of all kinds: bias of a hard or compliant row, reading a parameter, adjoint of a parameter and of an
entry.

With stiffness k, damping c and time step h, a row with compliance 1 / (h (h k + c)) on the diagonal and the bias k x /
(h k + c) gives the impulse h (-k (x + h v) - c v), v being its velocity after the step: a spring and damper, integrated
implicitly (Smith, *Open Dynamics Engine: User Guide*, 2006, section 3.8; Catto, *Soft Constraints*, GDC 2011). At a
positive distance x nothing touches: the bias is x / h then, so that neither spring nor damper acts before contact.

With the names of :mod:`warp_kernels.solver.impulse`, the adjoint of the rows of constraint c along the path to its tail
is

    g_c = lambda_c w + b_bar_c v+ + sum_c' (D + D')_cc' Y_c'.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import Constraints, Couplings, TreeDofs, solver_structs
from warp_kernels.types import warp_types


@functools.cache
def compliance_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of compliant rows for one precision. A row with infinite stiffness is hard."""
    vec3 = warp_types(scalar).vec3

    @wp.func
    def compliance(stiffness: scalar, damping: scalar, dt: scalar):
        """Return the diagonal term of a compliant row [1/kg]."""
        return scalar(1.0) / (dt * (dt * stiffness + damping))

    @wp.func
    def compliant_bias(distance: scalar, stiffness: scalar, damping: scalar, dt: scalar):
        bias = distance / dt
        if distance < scalar(0.0):
            bias = stiffness * distance / (dt * stiffness + damping)
        return bias

    @wp.func
    def compliance_adjoint(
        distance: scalar, stiffness: scalar, damping: scalar, dt: scalar, bias_bar: scalar, compliance_bar: scalar
    ):
        """Return the adjoints of distance, stiffness and damping."""
        total = dt * stiffness + damping
        distance_bar = bias_bar / dt
        stiffness_bar = -compliance_bar / (total * total)
        damping_bar = stiffness_bar / dt
        if distance < scalar(0.0):
            distance_bar = bias_bar * stiffness / total
            stiffness_bar += bias_bar * distance * damping / (total * total)
            damping_bar -= bias_bar * distance * stiffness / (total * total)
        return vec3(distance_bar, stiffness_bar, damping_bar)

    return SimpleNamespace(compliance=compliance, compliant_bias=compliant_bias, compliance_adjoint=compliance_adjoint)


@functools.cache
def entry_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    structs = solver_structs(scalar)
    Rows, RowInputs, Solved = structs.Rows, structs.RowInputs, structs.Solved

    @wp.func
    def response_start(constraint: int, side: int, tail: int, world: int, trees: TreeDofs, couplings: Couplings):
        """Return the index of the response of degree of freedom 0 for the incidence of a side."""
        incidence = couplings.constraint_incidence[2 * constraint + side, world]
        return incidence * trees.max_tree_dofs - trees.tree_dof_start[trees.dof_tree[tail]]

    @wp.func
    def entry_bar(
        constraint: int,
        at: int,
        k: int,
        world: int,
        share: scalar,
        solved: Solved,
        rows_bar: Rows,
        inputs: RowInputs,
    ):
        """Return the adjoint of a constraint's rows at degree of freedom k.

        at: see :func:`response_start`.
        share: of the velocity before the step in the rows.
        """
        gain = solved.qd[world, k] - (scalar(1.0) - share) * inputs.qd[world, k]
        g = solved.impulse[constraint, world] * solved.weight[k, world] + rows_bar.rhs[constraint, world] * gain
        if solved.response.shape[0] > 0:
            g += solved.response[at + k, world]
        return g

    return SimpleNamespace(response_start=response_start, entry_bar=entry_bar)


# The smallest share of R of a row whose error is removed at the largest velocity. It carries ten times the load.
LEAST_SHARE_OF_R = 0.1


@functools.cache
def row_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions shared by the rows and by their adjoint."""
    Options = solver_structs(scalar).Options
    vec2, vec3 = warp_types(scalar).vec2, warp_types(scalar).vec3
    least_share = scalar(LEAST_SHARE_OF_R)

    @wp.func
    def side_sign(side: int):
        return scalar(2 * side - 1)

    @wp.func
    def sizes(x: vec3):
        """Return the magnitudes of three rows: of the first, and the larger one of the others."""
        return vec2(wp.abs(x[0]), wp.max(wp.abs(x[1]), wp.abs(x[2])))

    @wp.func
    def value_of(parameter: wp.array2d(dtype=scalar), world: int, item: int):
        """Return a parameter, shared (one row) or per world."""
        return parameter[wp.min(world, parameter.shape[0] - 1), item]

    @wp.func
    def held_within(x: scalar, lower: scalar, upper: scalar):
        """Clamp x to these bounds. NaN stays NaN, whereas a clamp would return the lower bound."""
        result = wp.clamp(x, lower, upper)
        if wp.isnan(x):
            result = x
        return result

    @wp.func
    def held_between(
        x: scalar, lower: wp.array2d(dtype=scalar), upper: wp.array2d(dtype=scalar), world: int, item: int
    ):
        """Clamp x to the bounds of an item, parameters [1 or world, item]."""
        return held_within(x, value_of(lower, world, item), value_of(upper, world, item))

    @wp.func
    def recovery(options: Options, world: int):
        """Return the time for removing an error."""
        time = options.dt
        if options.recovery_time.shape[0] > 0:
            time = options.dt + value_of(options.recovery_time, world, 0)
        return time

    @wp.func
    def correction_time(distance: scalar, options: Options, world: int):
        """Return the time for closing a gap, or resolving a penetration."""
        if distance < scalar(0.0):
            return recovery(options, world)
        return options.dt

    @wp.func
    def contact_correction(constraint: int, world: int, trees: TreeDofs, constraints: Constraints, options: Options):
        """Return the maximum depenetration velocity of a contact."""
        tail_a = constraints.tail[2 * constraint, world]
        tail_b = constraints.tail[2 * constraint + 1, world]
        if tail_a >= 0 and tail_b >= 0 and trees.dof_tree[tail_a] == trees.dof_tree[tail_b]:
            return options.own_correction
        return options.max_correction

    @wp.func
    def correction(distance: scalar, most: scalar, options: Options, world: int):
        """Return the velocity bias of a hard row: linear in the signed distance near the surface, bounded for deep
        penetration.
        """
        return wp.max(options.erp * distance / correction_time(distance, options, world), -most)

    @wp.func
    def add_at(target: wp.array2d(dtype=scalar), world: int, item: int, value: scalar):
        """Add to the adjoint of a parameter, shared (one row) or per world. No-op if it wasn't requested (no rows)."""
        if target.shape[0] > 0:
            wp.atomic_add(target, wp.min(world, target.shape[0] - 1), item, value)

    @wp.func
    def correction_adjoint(
        distance: scalar, most: scalar, options: Options, world: int, bias_bar: scalar, options_bar: Options
    ):
        """Return the adjoint of the distance, and add to that of the recovery time."""
        if not correction(distance, most, options, world) > -most:
            return scalar(0.0)
        time = correction_time(distance, options, world)
        distance_bar = bias_bar * options.erp / time
        if distance < scalar(0.0):
            add_at(options_bar.recovery_time, world, 0, -distance_bar * distance / time)
        return distance_bar

    @wp.func
    def share_of_regularisation(distance: scalar, most: scalar, options: Options, world: int):
        """Return the share of R that remains where ``most`` bounds the correction velocity; zero where it doesn't, or
        with PGS.

        The impulse at rest is bias / R. Reducing both alike keeps that impulse: the velocity is bounded, not the load
        of a row.
        """
        share = scalar(0.0)
        if distance < scalar(0.0) and options.recovery_time.shape[0] > 0:
            wanted = -options.erp * distance / recovery(options, world)
            if wanted > most:
                share = wp.max(most / wanted, least_share)
        return share

    @wp.func
    def stabilisation(distance: scalar, most: scalar, options: Options, world: int):
        """Return bias and compliance of a hard row that removes its error at ``most``. A negative compliance is minus a
        share of R.
        """
        return vec2(
            correction(distance, most, options, world), -share_of_regularisation(distance, most, options, world)
        )

    @wp.func
    def stabilisation_adjoint(
        distance: scalar,
        most: scalar,
        options: Options,
        world: int,
        bias_bar: scalar,
        compliance_bar: scalar,
        options_bar: Options,
    ):
        """Return the adjoint of the distance, and add to that of the recovery time."""
        distance_bar = correction_adjoint(distance, most, options, world, bias_bar, options_bar)
        share = share_of_regularisation(distance, most, options, world)
        if share > least_share:
            distance_bar += compliance_bar * share / distance
            time_bar = -compliance_bar * share / recovery(options, world)
            add_at(options_bar.recovery_time, world, 0, time_bar)
        return distance_bar

    return SimpleNamespace(
        held_within=held_within,
        held_between=held_between,
        recovery=recovery,
        side_sign=side_sign,
        sizes=sizes,
        contact_correction=contact_correction,
        correction=correction,
        correction_adjoint=correction_adjoint,
        share_of_regularisation=share_of_regularisation,
        stabilisation=stabilisation,
        stabilisation_adjoint=stabilisation_adjoint,
        value_of=value_of,
        add_at=add_at,
    )
