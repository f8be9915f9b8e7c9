"""What sensors of contacts read of each: where it is, how it lies, and what it does, averaged over a step; with their adjoint.

Each sensor has room for some contacts, the first ones that match; :class:`sim.torch.Sensors` makes of them what is asked for. Which
contacts there are has no derivative; what they are and what they do has.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.checkpoint import STEP, checkpoint_kernels
from warp_kernels.checkpoint_rows import trajectory_row_functions
from warp_kernels.constraints.kinds import is_contact, is_of_contact
from warp_kernels.records import SLOT
from warp_kernels.sensors.parts import part_functions
from warp_kernels.sensors.zones import zone_functions
from warp_kernels.solver.structs import Constraints, solver_structs
from warp_kernels.types import kernel_module, warp_types

# Of a contact: its geometries from 1 on, first and second, and its sign; its distance; its place; its normal; force; torque.
MEMBERS, DISTANCE, PLACE, NORMAL, FORCE, TORQUE = range(6)
PER_CONTACT = 6


@functools.cache
def contact_sensor_structs(scalar: Any) -> SimpleNamespace:
    """The struct of one precision."""
    t = warp_types(scalar)

    @wp.struct
    class ContactSensors:
        """Sensors of contacts, each with a place among the forces that are measured, for how many there are, and others.

        Attributes:
            place: where the number of contacts goes [n].
            first: the first place of what is read of each contact [n].
            room: how many contacts that is for [n].
            sides: 1 for the geometries that may be first, 2 for those that may be second, 3 for both [n, num_geometries].
            rank: which of two geometries is the first, the one of the lower rank [num_geometries].
            idle: 1 if contacts count that neither push nor overlap.
            zone: in which contacts count, an index of ``ZONES``; -1 for everywhere [n].
            size: of that, half lengths and radii [n], m.
            link: of its frame, -1 for the world [n].
            placement: of the frame in its link [n].
        """

        place: wp.array(dtype=int)
        first: wp.array(dtype=int)
        room: wp.array(dtype=int)
        sides: wp.array2d(dtype=int)
        rank: wp.array(dtype=int)
        idle: int
        zone: wp.array(dtype=int)
        size: wp.array(dtype=t.vec3)
        link: wp.array(dtype=int)
        placement: wp.array(dtype=t.transform)

    return SimpleNamespace(ContactSensors=ContactSensors)


@functools.cache
def contact_sensor_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels for one precision, one thread per world."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    ContactSensors = contact_sensor_structs(scalar).ContactSensors
    kept, rows = checkpoint_kernels(scalar), trajectory_row_functions(scalar)
    zones = zone_functions(scalar)
    holds, seen_from = zones.holds, zones.seen_from
    parts = part_functions(scalar)
    force_part, torque_part, torque_part_bar = parts.force_part, parts.torque_part, parts.torque_part_bar
    structs = solver_structs(scalar)
    Contacts, Motions = structs.Contacts, structs.Motions
    module = kernel_module("contact_sensors", scalar)
    wp.set_module_options({"max_unroll": 1}, module)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def in_zone(
        i: int, constraint: int, slot: int, world: int, sensors: ContactSensors, link_tree: wp.array(dtype=int),
        pose: wp.array2d(dtype=transform), motions: Motions, contacts: Contacts, constraints: Constraints,
    ):  # fmt: skip
        """Whether a contact is in the zone of a sensor."""
        if sensors.zone[i] < 0:
            return True
        point = contacts.point[slot, world] + motions.origin[constraints.reference[constraint, world], world]
        _to_zone, x = seen_from(sensors.link[i], sensors.placement[i], point, world, link_tree, pose, motions)
        return holds(sensors.zone[i], sensors.size[i], x)

    @wp.func
    def match(
        i: int, constraint: int, world: int, sensors: ContactSensors, pair_a: wp.array(dtype=int), pair_b: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int), link_tree: wp.array(dtype=int), pose: wp.array2d(dtype=transform),
        motions: Motions, contacts: Contacts, constraints: Constraints, impulse: wp.array2d(dtype=vec3),
    ):  # fmt: skip
        """Whether a constraint is a contact that counts: 1 where side a is first, 2 where b is; the negative of that
        where this isn't the order of ranks; and 0 where it doesn't count.
        """
        if not is_contact(constraints.kind[constraint, world]):
            return int(0)
        slot = constraints.item[constraint, world]
        pushes = impulse[constraint, world][0] > zero
        if sensors.idle == 0 and not pushes and contacts.distance[slot, world] > zero:
            return int(0)
        a = pair_a[slot_pair[slot, world]]
        b = pair_b[slot_pair[slot, world]]
        forth = (sensors.sides[i, a] & 1) != 0 and (sensors.sides[i, b] & 2) != 0
        back = (sensors.sides[i, b] & 1) != 0 and (sensors.sides[i, a] & 2) != 0
        if not (forth or back):
            return int(0)
        if not in_zone(i, constraint, slot, world, sensors, link_tree, pose, motions, contacts, constraints):
            return int(0)
        if sensors.rank[a] < sensors.rank[b]:
            if forth:
                return int(1)
            return int(-2)
        if back:
            return int(2)
        return int(-1)

    @wp.kernel(module=module, enable_backward=False)
    def store_contact_readings(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        contact_sensors: ContactSensors,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        pose: wp.array2d(dtype=transform),
        motions: Motions,
        contacts: Contacts,
        constraints: Constraints,
        impulse: wp.array2d(dtype=vec3),
    ):
        """After ``store_contact_forces`` of :mod:`warp_kernels.sensors.contact_force`, which clears all places."""
        world = wp.tid()
        address = table[wp.static(SLOT.contact_force)]
        if address == wp.uint64(0):
            return
        step = cursor[wp.static(STEP)]
        at = first_world + world
        reading = rows.vector_row(address, step, total_worlds, num_sensors)
        for i in range(contact_sensors.place.shape[0]):
            found = int(0)
            for constraint in range(constraints.count[world]):
                sides = match(
                    i, constraint, world, contact_sensors, pair_a, pair_b, slot_pair, link_tree, pose, motions, contacts,
                    constraints, impulse,
                )  # fmt: skip
                if sides == 0:
                    continue
                found += 1
                if found > contact_sensors.room[i]:
                    continue
                slot = constraints.item[constraint, world]
                first = pair_a[slot_pair[slot, world]]
                second = pair_b[slot_pair[slot, world]]
                sign = one
                if sides == 2 or sides == -2:
                    sign = -one
                    second = pair_a[slot_pair[slot, world]]
                    first = pair_b[slot_pair[slot, world]]
                ordered = one
                if sides < 0:
                    ordered = -one
                frame = sign * wp.transpose(contacts.frame[slot, world])
                force = vec3()
                torque = vec3()
                for other in range(constraint, constraints.count[world]):
                    kind = constraints.kind[other, world]
                    if is_of_contact(kind) and constraints.item[other, world] == slot:
                        force += frame * force_part(kind, impulse[other, world])
                        torque += frame * torque_part(kind, impulse[other, world])
                k = contact_sensors.first[i] + (found - 1) * PER_CONTACT
                reading[at, k + MEMBERS] = vec3(scalar(first + 1), scalar(second + 1), ordered)
                reading[at, k + DISTANCE] = vec3(contacts.distance[slot, world], zero, zero)
                reading[at, k + PLACE] = (
                    contacts.point[slot, world] + motions.origin[constraints.reference[constraint, world], world]
                )
                reading[at, k + NORMAL] = frame * vec3(one, zero, zero)
                reading[at, k + FORCE] = force / dt
                reading[at, k + TORQUE] = torque / dt
            reading[at, contact_sensors.place[i]] = vec3(scalar(found), zero, zero)

    @wp.kernel(module=module, enable_backward=False)
    def contact_reading_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        contact_sensors: ContactSensors,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        pose: wp.array2d(dtype=transform),
        motions: Motions,
        contacts: Contacts,
        constraints: Constraints,
        impulse: wp.array2d(dtype=vec3),
        # Adjoint out
        motions_bar: Motions,
        contacts_bar: Contacts,
        further_impulse_bar: wp.array2d(dtype=vec3),
    ):
        world = wp.tid()
        address = table[wp.static(SLOT.contact_force_bar)]
        at = first_world + world
        if address == wp.uint64(0) or kept.is_left_out(at, total_worlds, table):
            return
        step = cursor[wp.static(STEP)]
        bar = rows.vector_row(address, step, total_worlds, num_sensors)
        for i in range(contact_sensors.place.shape[0]):
            found = int(0)
            for constraint in range(constraints.count[world]):
                sides = match(
                    i, constraint, world, contact_sensors, pair_a, pair_b, slot_pair, link_tree, pose, motions, contacts,
                    constraints, impulse,
                )  # fmt: skip
                if sides == 0:
                    continue
                found += 1
                if found > contact_sensors.room[i]:
                    break
                slot = constraints.item[constraint, world]
                sign = one
                if sides == 2 or sides == -2:
                    sign = -one
                k = contact_sensors.first[i] + (found - 1) * PER_CONTACT
                point_bar = bar[at, k + PLACE]
                contacts_bar.distance[slot, world] += bar[at, k + DISTANCE][0]
                contacts_bar.point[slot, world] += point_bar
                motions_bar.origin[constraints.reference[constraint, world], world] += point_bar
                frame = contacts.frame[slot, world]
                force_bar = sign * bar[at, k + FORCE] / dt
                torque_bar = sign * bar[at, k + TORQUE] / dt
                frame_bar = wp.outer(vec3(sign, zero, zero), bar[at, k + NORMAL])
                for other in range(constraint, constraints.count[world]):
                    kind = constraints.kind[other, world]
                    if is_of_contact(kind) and constraints.item[other, world] == slot:
                        frame_bar += wp.outer(force_part(kind, impulse[other, world]), force_bar)
                        frame_bar += wp.outer(torque_part(kind, impulse[other, world]), torque_bar)
                        further_impulse_bar[other, world] += force_part(kind, frame * force_bar)
                        further_impulse_bar[other, world] += torque_part_bar(kind, frame * torque_bar)
                contacts_bar.frame[slot, world] += frame_bar

    return SimpleNamespace(
        module=module,
        store_contact_readings=store_contact_readings,
        contact_reading_adjoint=contact_reading_adjoint,
    )
