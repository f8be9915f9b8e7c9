"""Where a contact acts, and its normal row: the bias that closes or opens it, or its spring.

Bounces are in :mod:`warp_kernels.constraints.bounces`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.compliance import compliance_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import warp_types


@functools.cache
def contact_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of contact rows for one precision."""
    common = row_functions(scalar)
    soft = compliance_functions(scalar)
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    Options = solver_structs(scalar).Options

    @wp.func
    def is_compliant(spring: wp.array2d(dtype=vec2), item: int, world: int):
        """spring: stiffness and damping of each contact; no rows where all are hard."""
        if spring.shape[0] == 0:
            return False
        return wp.isfinite(spring[item, world][0])

    @wp.func
    def point_on_side(point: wp.array2d(dtype=vec3), apart: wp.array2d(dtype=vec3), side: int, item: int, world: int):
        """Where a contact acts on one of its sides."""
        result = point[item, world]
        if apart.shape[0] > 0:
            result += (scalar(0.5) * common.side_sign(side)) * apart[item, world]
        return result

    @wp.func
    def contact_bias(
        distance: scalar, most: scalar, spring: wp.array2d(dtype=vec2), item: int, world: int, options: Options
    ):
        """Bias and softness of the normal row of a contact that doesn't bounce; most: the velocity that removes an overlap."""
        if is_compliant(spring, item, world):
            pair = spring[item, world]
            return vec2(
                soft.compliant_bias(distance, pair[0], pair[1], options.dt),
                soft.softness(pair[0], pair[1], options.dt),
            )
        if most < options.max_correction:
            # Between links of one tree the impulse is bounded, too.
            return vec2(common.correction(distance, most, options, world), scalar(0.0))
        return common.stabilisation(distance, most, options, world)

    @wp.func
    def contact_bias_adjoint(
        distance: scalar,
        most: scalar,
        spring: wp.array2d(dtype=vec2),
        item: int,
        world: int,
        options: Options,
        bias_bar: scalar,
        softness_bar: scalar,
        distance_bar: wp.array2d(dtype=scalar),
        spring_bar: wp.array2d(dtype=vec2),
        options_bar: Options,
    ):
        """Writes the adjoint of the spring, and adds to those of the distance and the options."""
        if is_compliant(spring, item, world):
            pair = spring[item, world]
            bars = soft.compliance_adjoint(distance, pair[0], pair[1], options.dt, bias_bar, softness_bar)
            distance_bar[item, world] += bars[0]
            spring_bar[item, world] = vec2(bars[1], bars[2])
        elif most < options.max_correction:
            distance_bar[item, world] += common.correction_adjoint(
                distance, most, options, world, bias_bar, options_bar
            )
        else:
            distance_bar[item, world] += common.stabilisation_adjoint(
                distance, most, options, world, bias_bar, softness_bar, options_bar
            )

    return SimpleNamespace(
        is_compliant=is_compliant,
        point_on_side=point_on_side,
        contact_bias=contact_bias,
        contact_bias_adjoint=contact_bias_adjoint,
    )
