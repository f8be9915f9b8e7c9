"""Combination of the materials of two geometries in a contact; differentiated by Warp's own adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import looped_over_slots

# Rules that combine the friction of two geometries: the product (the sum of torsional or rolling friction), the larger,
# one side's, or a value given for the pair.
PRODUCT = 0
MAXIMUM = 1
FIRST = 2
SECOND = 3
STATED = 4
# Smallest coefficient under MuJoCo's law, which divides by it (mjMINMU).
LEAST_FRICTION = 1e-5


@functools.cache
def material_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""

    @wp.func
    def pair_product(values: wp.array2d(dtype=scalar), a: int, b: int, world: int):
        """Return the product of a parameter of two geometries, such as restitution."""
        row = wp.min(world, values.shape[0] - 1)
        return values[row, a] * values[row, b]

    @wp.func
    def by_rule(value_a: scalar, value_b: scalar, combined: scalar, stated: scalar, rule: int):
        """Apply the rule to the values of two geometries, of which ``combined`` is the product or the sum."""
        result = combined
        if rule == MAXIMUM:
            result = wp.max(value_a, value_b)
        elif rule == FIRST:
            result = value_a
        elif rule == SECOND:
            result = value_b
        elif rule == STATED:
            result = stated
        return result

    @wp.func
    def pair_friction(friction: wp.array2d(dtype=scalar), a: int, b: int, stated: scalar, rule: int, world: int):
        """Return the sliding friction of two geometries."""
        row = wp.min(world, friction.shape[0] - 1)
        return by_rule(friction[row, a], friction[row, b], friction[row, a] * friction[row, b], stated, rule)

    @wp.func
    def pair_resistance(resistance: wp.array2d(dtype=scalar), a: int, b: int, stated: scalar, rule: int, world: int):
        """Return the torsional or rolling friction of two geometries."""
        row = wp.min(world, resistance.shape[0] - 1)
        return by_rule(resistance[row, a], resistance[row, b], resistance[row, a] + resistance[row, b], stated, rule)

    return SimpleNamespace(
        pair_product=pair_product, by_rule=by_rule, pair_friction=pair_friction, pair_resistance=pair_resistance
    )


@functools.cache
def material_kernels(scalar: Any, looping: bool) -> SimpleNamespace:
    """Return the kernels ``pair_spring`` and ``pair_resistance`` for one precision, over (slot, world), or worlds if
    ``looping``.
    """
    vec2 = warp_types(scalar).vec2
    f = material_functions(scalar)
    module = kernel_module("collision.materials", scalar, looping=looping, inlined=True)

    @wp.func
    def in_series(stiffness_a: scalar, damping_a: scalar, stiffness_b: scalar, damping_b: scalar):
        """Return stiffness and damping of two springs and dampers in series; infinite and zero if both are hard.

        Each side's damper moves with its spring's share of the deformation, and takes that share's power.
        """
        result = vec2(stiffness_a, damping_a)
        if wp.isfinite(stiffness_a) and wp.isfinite(stiffness_b):
            share_a = stiffness_b / (stiffness_a + stiffness_b)
            share_b = stiffness_a / (stiffness_a + stiffness_b)
            result = vec2(stiffness_a * share_a, damping_a * share_a * share_a + damping_b * share_b * share_b)
        elif wp.isfinite(stiffness_b):
            result = vec2(stiffness_b, damping_b)
        return result

    @wp.kernel(module=module)
    @looped_over_slots(looping)
    def pair_spring(
        # Model
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        # Parameters
        contact_stiffness: wp.array2d(dtype=scalar),
        contact_damping: wp.array2d(dtype=scalar),
        # Data in
        slot_pair: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        contact_spring: wp.array2d(dtype=vec2),
    ):
        """Compute stiffness and damping of each contact. Slots past ``contact_count`` are unchanged."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        a = pair_a[slot_pair[slot, world]]
        b = pair_b[slot_pair[slot, world]]
        k = wp.min(world, contact_stiffness.shape[0] - 1)
        c = wp.min(world, contact_damping.shape[0] - 1)
        contact_spring[slot, world] = in_series(
            contact_stiffness[k, a], contact_damping[c, a], contact_stiffness[k, b], contact_damping[c, b]
        )

    @wp.kernel(module=module)
    @looped_over_slots(looping)
    def pair_resistance(
        # Model
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        pair_rule: wp.array(dtype=wp.int32),
        # Parameters
        torsional_friction: wp.array2d(dtype=scalar),
        rolling_friction: wp.array2d(dtype=scalar),
        # Data in
        slot_pair: wp.array2d(dtype=wp.int32),
        contact_count: wp.array(dtype=wp.int32),
        # Data out
        contact_resistance: wp.array2d(dtype=vec2),
    ):
        """Compute torsional and rolling friction of each contact by the pair's rule, zero if the pair has its own. Slots
        past ``contact_count`` are unchanged.
        """
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        pair = slot_pair[slot, world]
        a = pair_a[pair]
        b = pair_b[pair]
        rule = pair_rule[pair]
        contact_resistance[slot, world] = vec2(
            f.pair_resistance(torsional_friction, a, b, scalar(0.0), rule, world),
            f.pair_resistance(rolling_friction, a, b, scalar(0.0), rule, world),
        )

    return SimpleNamespace(module=module, pair_spring=pair_spring, pair_resistance=pair_resistance)
