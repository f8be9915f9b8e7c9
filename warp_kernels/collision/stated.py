"""Friction that is stated for a pair of geometries, in the contacts of that pair; differentiated by Warp's own
adjoint.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.materials import LEAST_FRICTION
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import looped_over_slots


@functools.cache
def stated_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def resistance_and_lengths(along: scalar, across: scalar, by_mujoco: int):
        """Return the rolling friction of the circular cone, and the lengths of both tangents."""
        result = vec3(zero, one, one)
        if along > zero or across > zero:
            if by_mujoco == 1:
                # The cone has the friction along the first tangent, which MuJoCo raises to the least that it allows.
                raised = wp.max(along, scalar(LEAST_FRICTION))
                result = vec3(raised, one, across / raised)
            else:
                whole = wp.max(along, across)
                result = vec3(whole, along / whole, across / whole)
        return result

    return SimpleNamespace(resistance_and_lengths=resistance_and_lengths)


@functools.cache
def stated_kernels(scalar: Any, looping: bool) -> SimpleNamespace:
    """Return the kernels ``state_friction`` and ``state_resistance`` for one precision, over (slot, world), or worlds
    if ``looping``.
    """
    vec2 = warp_types(scalar).vec2
    f = stated_functions(scalar)
    module = kernel_module("collision.stated", scalar, looping=looping, inlined=True)

    @wp.kernel(module=module)
    @looped_over_slots(looping)
    def state_friction(
        # Model
        pair_stated: wp.array(dtype=wp.int32),
        # Parameters
        pair_friction: wp.array2d(dtype=scalar),
        # Data in
        slot_pair: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        contact_friction: wp.array2d(dtype=scalar),
    ):
        """Replace the friction of contacts of pairs that have their own, that along the first tangent."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        stated = pair_stated[slot_pair[slot, world]]
        if stated >= 0:
            contact_friction[slot, world] = pair_friction[wp.min(world, pair_friction.shape[0] - 1), stated]

    @wp.kernel(module=module)
    @looped_over_slots(looping)
    def state_resistance(
        # Model
        pair_stated: wp.array(dtype=wp.int32),
        by_mujoco: int,
        # Parameters
        pair_torsional_friction: wp.array2d(dtype=scalar),
        pair_rolling_friction: wp.array2d(dtype=scalar),
        pair_rolling_friction_across: wp.array2d(dtype=scalar),
        # Data in
        slot_pair: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        contact_resistance: wp.array2d(dtype=vec2),
    ):
        """Replace torsional and rolling friction likewise."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        stated = pair_stated[slot_pair[slot, world]]
        if stated >= 0:
            row = wp.min(world, pair_rolling_friction.shape[0] - 1)
            across_row = wp.min(world, pair_rolling_friction_across.shape[0] - 1)
            rolling = f.resistance_and_lengths(
                pair_rolling_friction[row, stated], pair_rolling_friction_across[across_row, stated], by_mujoco
            )
            spin = pair_torsional_friction[wp.min(world, pair_torsional_friction.shape[0] - 1), stated]
            contact_resistance[slot, world] = vec2(spin, rolling[0])

    return SimpleNamespace(module=module, state_friction=state_friction, state_resistance=state_resistance)
