"""What the rows of all kinds share: the bias of a hard row, reading a parameter and adding to its adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import Constraints, TreeDofs, solver_structs
from warp_kernels.types import warp_types

# The least share of R that is left of a row whose error is removed at the largest velocity. It bears ten times the load.
LEAST_SHARE_OF_R = 0.1


@functools.cache
def row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions shared by the rows and by their adjoint."""
    Options = solver_structs(scalar).Options
    vec2 = warp_types(scalar).vec2
    least_share = scalar(LEAST_SHARE_OF_R)

    @wp.func
    def side_sign(side: int):
        return scalar(2 * side - 1)

    @wp.func
    def value_of(parameter: wp.array2d(dtype=scalar), world: int, item: int):
        """A parameter, shared (one row) or per world."""
        return parameter[wp.min(world, parameter.shape[0] - 1), item]

    @wp.func
    def held_within(x: scalar, lower: scalar, upper: scalar):
        """x, no less and no more than these. What isn't a number stays so: a clamp would make the lower one of it."""
        result = wp.clamp(x, lower, upper)
        if wp.isnan(x):
            result = x
        return result

    @wp.func
    def recovery(options: Options, world: int):
        """How long removing an error may take."""
        time = options.dt
        if options.recovery_time.shape[0] > 0:
            time = options.dt + value_of(options.recovery_time, world, 0)
        return time

    @wp.func
    def correction_time(distance: scalar, options: Options, world: int):
        """How long closing a gap, or resolving an overlap, may take."""
        if distance < scalar(0.0):
            return recovery(options, world)
        return options.dt

    @wp.func
    def contact_correction(constraint: int, world: int, trees: TreeDofs, constraints: Constraints, options: Options):
        """The largest velocity that removes the overlap of a contact."""
        tail_a = constraints.tail[2 * constraint, world]
        tail_b = constraints.tail[2 * constraint + 1, world]
        if tail_a >= 0 and tail_b >= 0 and trees.dof_tree[tail_a] == trees.dof_tree[tail_b]:
            return options.own_correction
        return options.max_correction

    @wp.func
    def correction(distance: scalar, most: scalar, options: Options, world: int):
        """Velocity bias of a hard row: linear in the signed distance on either side of the surface, at most so fast far inside."""
        return wp.max(options.erp * distance / correction_time(distance, options, world), -most)

    @wp.func
    def add_at(target: wp.array2d(dtype=scalar), world: int, item: int, value: scalar):
        """Add to the adjoint of a parameter, shared (one row) or per world; nothing if it wasn't asked for (no rows)."""
        if target.shape[0] > 0:
            wp.atomic_add(target, wp.min(world, target.shape[0] - 1), item, value)

    @wp.func
    def correction_adjoint(
        distance: scalar, most: scalar, options: Options, world: int, bias_bar: scalar, options_bar: Options
    ):
        """Returns the adjoint of the distance, and adds to that of the recovery time."""
        if not correction(distance, most, options, world) > -most:
            return scalar(0.0)
        time = correction_time(distance, options, world)
        distance_bar = bias_bar * options.erp / time
        if distance < scalar(0.0):
            add_at(options_bar.recovery_time, world, 0, -distance_bar * distance / time)
        return distance_bar

    @wp.func
    def share_of_regularisation(distance: scalar, most: scalar, options: Options, world: int):
        """Share of R that is left where ``most`` bounds the velocity that removes an error; zero where it doesn't, or with PGS.

        The impulse at rest is bias / R. With both reduced alike it is what it would be without a bound: the velocity is bounded, and not
        the load that a row carries.
        """
        share = scalar(0.0)
        if distance < scalar(0.0) and options.recovery_time.shape[0] > 0:
            wanted = -options.erp * distance / recovery(options, world)
            if wanted > most:
                share = wp.max(most / wanted, least_share)
        return share

    @wp.func
    def stabilisation(distance: scalar, most: scalar, options: Options, world: int):
        """Bias and softness of a hard row that removes its error at ``most``. Minus a softness below zero is a share of R."""
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
        softness_bar: scalar,
        options_bar: Options,
    ):
        """Returns the adjoint of the distance, and adds to that of the recovery time."""
        distance_bar = correction_adjoint(distance, most, options, world, bias_bar, options_bar)
        share = share_of_regularisation(distance, most, options, world)
        if share > least_share:
            distance_bar += softness_bar * share / distance
            time_bar = -softness_bar * share / recovery(options, world)
            add_at(options_bar.recovery_time, world, 0, time_bar)
        return distance_bar

    return SimpleNamespace(
        held_within=held_within,
        recovery=recovery,
        side_sign=side_sign,
        contact_correction=contact_correction,
        correction=correction,
        correction_adjoint=correction_adjoint,
        share_of_regularisation=share_of_regularisation,
        stabilisation=stabilisation,
        stabilisation_adjoint=stabilisation_adjoint,
        value_of=value_of,
        add_at=add_at,
    )
