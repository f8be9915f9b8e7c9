"""The normal row of a contact: the bias that closes, opens or bounces it, or its spring."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.rows.compliance import compliance_functions
from warp_kernels.solver.rows.shared import row_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import warp_types


@functools.cache
def contact_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of contact rows for one precision."""
    common = row_functions(scalar)
    soft = compliance_functions(scalar)
    vec2 = warp_types(scalar).vec2
    Options = solver_structs(scalar).Options

    @wp.func
    def is_compliant(spring: wp.array2d(dtype=vec2), item: int, world: int):
        """spring: stiffness and damping of each contact; no rows where all are hard."""
        if spring.shape[0] == 0:
            return False
        return wp.isfinite(spring[item, world][0])

    @wp.func
    def bouncing_approach(
        distance: scalar,
        approach: scalar,
        free: scalar,
        restitution: scalar,
        spring: wp.array2d(dtype=vec2),
        item: int,
        world: int,
        options: Options,
    ):
        """The normal velocity before a step in which a hard contact bounces; zero if it doesn't.

        It bounces if it would close within the step, with the velocity that it would have without contact (``free``), and
        leaves fast enough. A slower one goes on to the surface, while a bounce turns back from where it is: with the
        threshold on the velocity after, nothing jumps as restitution goes to zero.
        """
        closes = distance + options.dt * free < scalar(0.0)
        if closes and restitution * approach < -options.restitution_threshold and not is_compliant(spring, item, world):
            return approach
        return scalar(0.0)

    @wp.func
    def contact_bias(
        distance: scalar,
        approach: scalar,
        restitution: scalar,
        spring: wp.array2d(dtype=vec2),
        item: int,
        world: int,
        options: Options,
    ):
        """Bias and softness of the normal row, from the result of ``bouncing_approach``."""
        if is_compliant(spring, item, world):
            pair = spring[item, world]
            return vec2(
                soft.compliant_bias(distance, pair[0], pair[1], options.dt),
                soft.softness(pair[0], pair[1], options.dt),
            )
        bias = common.correction(distance, options)
        if approach < scalar(0.0):
            bias = wp.min(bias, restitution * approach)
        return vec2(bias, scalar(0.0))

    @wp.func
    def approach_adjoint(distance: scalar, approach: scalar, restitution: scalar, options: Options, bias_bar: scalar):
        """Adjoint of the normal velocity before the step."""
        bar = scalar(0.0)
        if approach < scalar(0.0) and restitution * approach < common.correction(distance, options):
            bar = bias_bar * restitution
        return bar

    @wp.func
    def contact_bias_adjoint(
        distance: scalar,
        approach: scalar,
        restitution: scalar,
        spring: wp.array2d(dtype=vec2),
        item: int,
        world: int,
        options: Options,
        bias_bar: scalar,
        softness_bar: scalar,
        distance_bar: wp.array2d(dtype=scalar),
        restitution_bar: wp.array2d(dtype=scalar),
        spring_bar: wp.array2d(dtype=vec2),
    ):
        """Writes the adjoints of distance, restitution and spring."""
        bias = common.correction(distance, options)
        if is_compliant(spring, item, world):
            pair = spring[item, world]
            bars = soft.compliance_adjoint(distance, pair[0], pair[1], options.dt, bias_bar, softness_bar)
            distance_bar[item, world] = bars[0]
            spring_bar[item, world] = vec2(bars[1], bars[2])
        elif approach < scalar(0.0) and restitution * approach < bias:
            restitution_bar[item, world] = bias_bar * approach
        else:
            distance_bar[item, world] = common.correction_adjoint(distance, options, bias_bar)

    return SimpleNamespace(
        bouncing_approach=bouncing_approach,
        contact_bias=contact_bias,
        contact_bias_adjoint=contact_bias_adjoint,
        approach_adjoint=approach_adjoint,
    )
