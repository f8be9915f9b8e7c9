"""Biases and softness of constraints under MuJoCo's law, from what :mod:`warp_kernels.solver.mujoco.references` has evaluated."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import CONTACT, FRICTION_LOSS, UPPER_LIMIT, warp_types


@functools.cache
def reference_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions for one precision."""
    vec2 = warp_types(scalar).vec2
    References = solver_structs(scalar).References

    @wp.func
    def limit_place(kind: int, dof: int):
        """Where the reference of a joint's limit is."""
        place = 2 * dof
        if kind == UPPER_LIMIT:
            place += 1
        return place

    @wp.func
    def reference(references: References, kind: int, item: int, world: int):
        """Bias and R of the first row of a contact, a limit or dry friction."""
        if kind == CONTACT:
            return references.contact[item, world]
        if kind == FRICTION_LOSS:
            return vec2(scalar(0.0), references.loss[item, world])
        return references.limit[limit_place(kind, item), world]

    @wp.func
    def reference_adjoint(references_bar: References, kind: int, item: int, world: int, bias_bar: scalar, bar: scalar):
        """Write the adjoints of the bias and of R."""
        if kind == CONTACT:
            references_bar.contact[item, world] = vec2(bias_bar, bar)
        elif kind == FRICTION_LOSS:
            references_bar.loss[item, world] = bar
        else:
            references_bar.limit[limit_place(kind, item), world] = vec2(bias_bar, bar)

    return SimpleNamespace(reference=reference, reference_adjoint=reference_adjoint)
