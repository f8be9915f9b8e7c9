"""Biases and compliance of constraints under MuJoCo's law, read from the results of
:mod:`warp_kernels.solver.mujoco.references`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import (
    ACTUATOR,
    CONE_LIMIT,
    COUPLING,
    FRICTION_LOSS,
    follows_contact,
    is_contact,
    is_of_anchor,
    is_of_contact_frame,
    is_of_tendon,
    pair_index,
)
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import warp_types


@functools.cache
def reference_row_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3
    References = solver_structs(scalar).References

    @wp.func
    def is_referred(references: References, kind: int):
        """Return whether a constraint has a reference: all but actuators under MuJoCo's law, and tendons under either
        law.
        """
        return is_of_tendon(kind) or (references.limit.shape[0] > 0 and kind != ACTUATOR)

    @wp.func
    def reference(references: References, kind: int, item: int, world: int):
        """Return bias, R and share of the velocity before the step. Without a reference, rows use all of that
        velocity.
        """
        if not is_referred(references, kind):
            return vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        if is_of_tendon(kind):
            return references.tendon[item, world]
        if is_of_contact_frame(kind):
            own = references.contact[item, world]
            if follows_contact(kind):
                own[0] = scalar(0.0)
            return own
        if kind == FRICTION_LOSS:
            return references.loss[item, world]
        if kind == COUPLING:
            return references.coupling[item, world]
        if kind == CONE_LIMIT:
            return references.cone[item, world]
        if is_of_anchor(kind):
            return references.anchor[pair_index(kind, item), world]
        return references.limit[pair_index(kind, item), world]

    @wp.func
    def add_reference_bar(references_bar: References, kind: int, item: int, world: int, bar: vec3):
        """Add to the adjoint of :func:`reference`."""
        if not is_referred(references_bar, kind):
            return
        if is_of_tendon(kind):
            references_bar.tendon[item, world] += bar
        elif is_contact(kind):
            references_bar.contact[item, world] += bar
        elif follows_contact(kind):
            references_bar.contact[item, world] += vec3(scalar(0.0), bar[1], bar[2])
        elif kind == FRICTION_LOSS:
            references_bar.loss[item, world] += bar
        elif kind == COUPLING:
            references_bar.coupling[item, world] += bar
        elif kind == CONE_LIMIT:
            references_bar.cone[item, world] += bar
        elif is_of_anchor(kind):
            references_bar.anchor[pair_index(kind, item), world] += bar
        else:
            references_bar.limit[pair_index(kind, item), world] += bar

    return SimpleNamespace(
        is_referred=is_referred,
        reference=reference,
        add_reference_bar=add_reference_bar,
    )
