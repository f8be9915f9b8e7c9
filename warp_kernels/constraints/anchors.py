"""Rows of pairs of anchors: points that coincide, and orientations."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.geometric import geometric_functions
from warp_kernels.constraints.kinds import is_angular
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import warp_types


@functools.cache
def anchor_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of the rows of anchors for one precision."""
    vec3 = warp_types(scalar).vec3
    geometric, reference_rows = geometric_functions(scalar), reference_row_functions(scalar)
    RowInputs = solver_structs(scalar).RowInputs

    @wp.func
    def bias_adjoint(kind: int, item: int, world: int, b_bar: vec3, inputs: RowInputs, inputs_bar: RowInputs):
        """Write the adjoint of the bias."""
        bar = b_bar
        if not reference_rows.is_referred(inputs.references, kind):
            bar = b_bar * inputs.equalities.anchor_frame[geometric.frame_of(kind, item), world]
        if is_angular(kind):
            inputs_bar.equalities.anchor_turn[item, world] = bar
        else:
            inputs_bar.equalities.anchor_bias[item, world] = bar

    return SimpleNamespace(bias_adjoint=bias_adjoint)
