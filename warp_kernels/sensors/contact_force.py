"""Forces of contacts on chosen geometries, averaged over a step, and their adjoint.

The force on a geometry is the sum of ``frame' lambda / dt`` over its contacts, with the sign of its side. Its adjoint reaches the
impulses beside what the next velocity says of them, and the frames of the contacts.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.checkpoint import STEP, checkpoint_kernels
from warp_kernels.checkpoint_rows import trajectory_row_functions
from warp_kernels.constraints.kinds import is_in_cone
from warp_kernels.constraints.shared import row_functions
from warp_kernels.records import SLOT
from warp_kernels.sensors.parts import part_functions
from warp_kernels.solver.structs import Constraints, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def contact_force_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels for one precision, one thread per world.

    ``sensor`` is the place of each geometry in the output, -1 for those that nobody asks for; ``num_sensors`` counts the
    places. The output is ``[steps, total_worlds, num_sensors]`` in the trajectory's memory.
    """
    vec3 = warp_types(scalar).vec3
    kept, rows = checkpoint_kernels(scalar), trajectory_row_functions(scalar)
    side_sign = row_functions(scalar).side_sign
    force_part = part_functions(scalar).force_part
    Contacts = solver_structs(scalar).Contacts
    module = kernel_module("contact_force", scalar)

    @wp.func
    def sensor_of(
        side: int,
        pair: int,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        sensor: wp.array(dtype=int),
    ):
        if side == 0:
            return sensor[pair_a[pair]]
        return sensor[pair_b[pair]]

    @wp.kernel(module=module, enable_backward=False)
    def store_contact_forces(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        sensor: wp.array(dtype=int),
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        contacts: Contacts,
        constraints: Constraints,
        impulse: wp.array2d(dtype=vec3),
    ):
        """Writes the forces of the step at the cursor, unless the table has no place for them."""
        world = wp.tid()
        address = table[wp.static(SLOT.contact_force)]
        if address == wp.uint64(0):
            return
        step = cursor[wp.static(STEP)]
        at = first_world + world
        force = rows.vector_row(address, step, total_worlds, num_sensors)
        for i in range(num_sensors):
            force[at, i] = vec3()
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            if is_in_cone(kind):
                slot = constraints.item[constraint, world]
                push = wp.transpose(contacts.frame[slot, world]) * force_part(kind, impulse[constraint, world]) / dt
                for side in range(2):
                    i = sensor_of(side, slot_pair[slot, world], pair_a, pair_b, sensor)
                    if i >= 0:
                        force[at, i] += side_sign(side) * push

    @wp.kernel(module=module, enable_backward=False)
    def contact_force_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        sensor: wp.array(dtype=int),
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        contacts: Contacts,
        constraints: Constraints,
        impulse: wp.array2d(dtype=vec3),
        # Adjoint out
        contacts_bar: Contacts,
        further_impulse_bar: wp.array2d(dtype=vec3),
    ):
        world = wp.tid()
        address = table[wp.static(SLOT.contact_force_bar)]
        at = first_world + world
        if address == wp.uint64(0) or kept.is_left_out(at, total_worlds, table):
            return
        step = cursor[wp.static(STEP)]
        force_bar = rows.vector_row(address, step, total_worlds, num_sensors)
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            if is_in_cone(kind):
                slot = constraints.item[constraint, world]
                push_bar = vec3()
                for side in range(2):
                    i = sensor_of(side, slot_pair[slot, world], pair_a, pair_b, sensor)
                    if i >= 0:
                        push_bar += side_sign(side) / dt * force_bar[at, i]
                further_impulse_bar[constraint, world] += force_part(kind, contacts.frame[slot, world] * push_bar)
                contacts_bar.frame[slot, world] += wp.outer(force_part(kind, impulse[constraint, world]), push_bar)

    return SimpleNamespace(
        module=module, store_contact_forces=store_contact_forces, contact_force_adjoint=contact_force_adjoint
    )
