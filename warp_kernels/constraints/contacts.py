"""Where a contact acts, and its normal row: the bias that closes or opens it, or its spring.

Bounces are in :mod:`warp_kernels.constraints.bounces`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.compliance import compliance_functions
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import Constraints, TreeDofs, solver_structs
from warp_kernels.types import warp_types


@functools.cache
def contact_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of contact rows for one precision."""
    common = row_functions(scalar)
    soft = compliance_functions(scalar)
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    reference_rows = reference_row_functions(scalar)
    structs = solver_structs(scalar)
    Options, Bounces, Rows, RowInputs = structs.Options, structs.Bounces, structs.Rows, structs.RowInputs

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
    def bias_adjoint(
        constraint: int,
        item: int,
        world: int,
        b_bar: scalar,
        trees: TreeDofs,
        constraints: Constraints,
        bounces: Bounces,
        rows_bar: Rows,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """Add to the adjoints of distance, spring and friction of a contact, and of the options."""
        referred = reference_rows.is_referred(inputs.references, constraints.kind[constraint, world])
        bouncing = bool(False)
        if bounces.free.shape[0] > 0:
            bouncing = bounces.free[constraint, world] != scalar(0.0)
        if not referred and not bouncing:
            distance = inputs.contacts.distance[item, world]
            most = common.contact_correction(constraint, world, trees, constraints, inputs.options)
            softness_bar = rows_bar.softness[constraint, world]
            if is_compliant(inputs.contacts.spring, item, world):
                pair = inputs.contacts.spring[item, world]
                bars = soft.compliance_adjoint(distance, pair[0], pair[1], inputs.options.dt, b_bar, softness_bar)
                inputs_bar.contacts.distance[item, world] += bars[0]
                inputs_bar.contacts.spring[item, world] = vec2(bars[1], bars[2])
            elif most < inputs.options.max_correction:
                inputs_bar.contacts.distance[item, world] += common.correction_adjoint(
                    distance, most, inputs.options, world, b_bar, inputs_bar.options
                )
            else:
                inputs_bar.contacts.distance[item, world] += common.stabilisation_adjoint(
                    distance, most, inputs.options, world, b_bar, softness_bar, inputs_bar.options
                )
        inputs_bar.contacts.friction[item, world] = rows_bar.bound[constraint, world]

    return SimpleNamespace(
        is_compliant=is_compliant,
        point_on_side=point_on_side,
        contact_bias=contact_bias,
        bias_adjoint=bias_adjoint,
    )
