"""Warm start of a step from the impulses at the end of the previous step, and its adjoint.

A constraint is identified by its key: a contact by its pair of geometries and its feature id, or for convex shapes by
its location on them; spinning and rolling friction by that of their contact; any other constraint by its joint,
actuator or constraint. A new constraint starts from zero. Impulses are reused unchanged, in the axes of the contact's
own frame.

Impulses and keys of a step follow the order of its constraints, ``[constraint, world]``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import NO_KEY, is_of_contact_frame
from warp_kernels.solver.structs import Constraints
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def warm_start_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, none with an adjoint of Warp's."""
    vec3 = warp_types(scalar).vec3
    module = kernel_module("warm_start", scalar)

    @wp.func
    def key_of(
        kind: int,
        item: int,
        world: int,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        slot_identity: wp.array2d(dtype=int),
    ):
        """Return the kind, and of a contact both geometries and the feature: its pair may have another index in the
        next step's list.
        """
        key = wp.vec4i(kind, item, 0, 0)
        if is_of_contact_frame(kind):
            pair = slot_pair[item, world]
            key = wp.vec4i(kind, pair_a[pair], pair_b[pair], slot_identity[item, world])
        return key

    @wp.kernel(module=module, enable_backward=False)
    def match_constraints(
        # Model
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        # Data in
        constraints: Constraints,
        slot_pair: wp.array2d(dtype=int),
        slot_identity: wp.array2d(dtype=int),
        previous_key: wp.array2d(dtype=wp.vec4i),
        previous_impulse: wp.array2d(dtype=vec3),
        # Data out
        constraint_key: wp.array2d(dtype=wp.vec4i),
        start_source: wp.array2d(dtype=int),
        start: wp.array2d(dtype=vec3),
    ):
        """Match constraints to those of the previous step, one thread per world. start_source: matching constraint, -1
        if there is none; start: its impulses, or zero.
        """
        world = wp.tid()
        room = previous_key.shape[0]
        count = constraints.count[world]
        before = int(0)
        while before < room and previous_key[wp.min(before, room - 1), world][0] != wp.static(NO_KEY):
            before += 1
        guess = int(0)
        for i in range(room):
            key = wp.vec4i(wp.static(NO_KEY), 0, 0, 0)
            found = int(-1)
            value = vec3()
            if i < count:
                key = key_of(
                    constraints.kind[i, world],
                    constraints.item[i, world],
                    world,
                    pair_a,
                    pair_b,
                    slot_pair,
                    slot_identity,
                )
                # Usually it is the one after the last match.
                tried = int(0)
                while found < 0 and tried < before:
                    j = (guess + tried) % before
                    other = previous_key[j, world]
                    if other == key:
                        found = j
                    tried += 1
                if found >= 0:
                    value = previous_impulse[found, world]
                    guess = found + 1
                start[i, world] = value
                start_source[i, world] = found
            constraint_key[i, world] = key

    @wp.func
    def matching(i: int, key: wp.vec4i, previous_key: wp.array2d(dtype=wp.vec4i), world: int):
        """Return the constraint of the previous step with this key, -1 if there is none; usually it is the i-th."""
        room = previous_key.shape[0]
        found = int(-1)
        tried = int(0)
        j = int(i)
        while found < 0 and tried < room:
            other = previous_key[j, world]
            if other == key:
                found = j
            elif other[0] == wp.static(NO_KEY):  # nor have those after it a key
                tried += room - j
                j = 0
            else:
                tried += 1
                j += 1
                if j == room:
                    j = 0
        return found

    @wp.kernel(module=module, enable_backward=False)
    def match_each_constraint(
        # Model
        threads: int,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        # Data in
        constraints: Constraints,
        slot_pair: wp.array2d(dtype=int),
        slot_identity: wp.array2d(dtype=int),
        previous_key: wp.array2d(dtype=wp.vec4i),
        previous_impulse: wp.array2d(dtype=vec3),
        # Data out
        constraint_key: wp.array2d(dtype=wp.vec4i),
        start_source: wp.array2d(dtype=int),
        start: wp.array2d(dtype=vec3),
    ):
        """Match constraints as ``match_constraints``, over (thread, world): threads share the constraints of a
        world.
        """
        thread, world = wp.tid()
        count = constraints.count[world]
        for i in range(thread, previous_key.shape[0], threads):
            key = wp.vec4i(wp.static(NO_KEY), 0, 0, 0)
            if i < count:
                kind = constraints.kind[i, world]
                key = key_of(kind, constraints.item[i, world], world, pair_a, pair_b, slot_pair, slot_identity)
                found = matching(i, key, previous_key, world)
                value = vec3()
                if found >= 0:
                    value = previous_impulse[found, world]
                start[i, world] = value
                start_source[i, world] = found
            constraint_key[i, world] = key

    @wp.kernel(module=module, enable_backward=False)
    def start_adjoint(
        # Data in
        constraints: Constraints,
        start_source: wp.array2d(dtype=int),
        # Adjoint in
        start_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        previous_impulse_bar: wp.array2d(dtype=vec3),
    ):
        """Propagate the adjoint of the initial impulses to those at the end of the previous step, one thread per
        world.
        """
        world = wp.tid()
        for j in range(previous_impulse_bar.shape[0]):
            previous_impulse_bar[j, world] = vec3()
        for i in range(constraints.count[world]):
            j = start_source[i, world]
            if j >= 0:
                previous_impulse_bar[j, world] += start_bar[i, world]

    @wp.kernel(module=module, enable_backward=False)
    def store_impulse_adjoint(
        # Model
        first_world: int,
        # Adjoint in
        accumulated_impulse_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        impulse_bar: wp.array2d(dtype=vec3),
    ):
        """Transpose the adjoint from [constraint, world] to [world, constraint]."""
        constraint, world = wp.tid()
        impulse_bar[first_world + world, constraint] = accumulated_impulse_bar[constraint, world]

    return SimpleNamespace(
        module=module,
        match_constraints=match_constraints,
        match_each_constraint=match_each_constraint,
        start_adjoint=start_adjoint,
        store_impulse_adjoint=store_impulse_adjoint,
    )
