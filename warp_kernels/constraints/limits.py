"""Rows of the limits of revolute and prismatic joints, hard or compliant."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.compliance import compliance_functions
from warp_kernels.constraints.kinds import LOWER_LIMIT
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import warp_types


@functools.cache
def limit_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of limit rows for one precision."""
    vec2 = warp_types(scalar).vec2
    common = row_functions(scalar)
    soft = compliance_functions(scalar)
    structs = solver_structs(scalar)
    Options, Limits = structs.Options, structs.Limits

    @wp.func
    def reach(options: Options, speed: scalar):
        """The gap below which a limit is listed: what may close in the step. None where limits bear only past them."""
        if options.limit_margin < scalar(0.0):
            return scalar(0.0)
        return options.limit_margin + options.dt * wp.abs(speed)

    @wp.func
    def limit_gap(limits: Limits, kind: int, dof: int, value: scalar, world: int):
        """Distance of a joint at ``value`` from where its limit begins to bear, negative past it."""
        gap = value
        if kind == LOWER_LIMIT:
            gap -= common.value_of(limits.lower, world, dof)
        else:
            gap = common.value_of(limits.upper, world, dof) - value
        return gap - common.value_of(limits.margin, world, dof)

    @wp.func
    def limit_bias(limits: Limits, dof: int, gap: scalar, options: Options, world: int):
        """Bias and softness."""
        stiffness = common.value_of(limits.stiffness, world, dof)
        if wp.isfinite(stiffness):
            damping = common.value_of(limits.damping, world, dof)
            return vec2(
                soft.compliant_bias(gap, stiffness, damping, options.dt), soft.softness(stiffness, damping, options.dt)
            )
        return common.stabilisation(gap, options.max_correction, options, world)

    @wp.func
    def limit_bias_adjoint(
        limits: Limits,
        dof: int,
        gap: scalar,
        options: Options,
        world: int,
        bias_bar: scalar,
        softness_bar: scalar,
        bars: Limits,
        options_bar: Options,
    ):
        """Adds to the adjoints of stiffness, damping and the options; returns that of the gap."""
        stiffness = common.value_of(limits.stiffness, world, dof)
        if wp.isfinite(stiffness):
            damping = common.value_of(limits.damping, world, dof)
            found = soft.compliance_adjoint(gap, stiffness, damping, options.dt, bias_bar, softness_bar)
            common.add_at(bars.stiffness, world, dof, found[1])
            common.add_at(bars.damping, world, dof, found[2])
            return found[0]
        return common.stabilisation_adjoint(
            gap, options.max_correction, options, world, bias_bar, softness_bar, options_bar
        )

    @wp.func
    def limit_adjoint(
        limits: Limits,
        kind: int,
        dof: int,
        value: scalar,
        options: Options,
        world: int,
        bias_bar: scalar,
        softness_bar: scalar,
        bars: Limits,
        options_bar: Options,
    ):
        """Adds to the adjoints of a limit's parameters and of the options; returns that of the joint's position."""
        gap = limit_gap(limits, kind, dof, value, world)
        gap_bar = limit_bias_adjoint(limits, dof, gap, options, world, bias_bar, softness_bar, bars, options_bar)
        common.add_at(bars.margin, world, dof, -gap_bar)
        if kind == LOWER_LIMIT:
            common.add_at(bars.lower, world, dof, -gap_bar)
            return gap_bar
        common.add_at(bars.upper, world, dof, gap_bar)
        return -gap_bar

    return SimpleNamespace(
        reach=reach,
        limit_gap=limit_gap,
        limit_bias=limit_bias,
        limit_bias_adjoint=limit_bias_adjoint,
        limit_adjoint=limit_adjoint,
    )
