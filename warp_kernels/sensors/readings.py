"""Readings of sensors of contacts and of forces of constraints, averaged over a step, and their adjoint.

Impulses have gradients through readings, and the frames, points and distances of contacts.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.contacts import contact_row_functions
from warp_kernels.constraints.kinds import follows_contact, is_contact, is_of_contact, spins
from warp_kernels.constraints.shared import row_functions
from warp_kernels.kinematics.frames import frame_functions
from warp_kernels.rollout.checkpoint import STEP, checkpoint_kernels
from warp_kernels.rollout.checkpoint_rows import trajectory_row_functions
from warp_kernels.rollout.records import SLOT
from warp_kernels.sensors.selection import selection_functions
from warp_kernels.sensors.structs import (
    CONTACT_FORCE,
    CONTACT_TORQUE,
    CONTACTS,
    DISTANCE,
    FORCE,
    MEMBERS,
    NORMAL,
    PER_CONTACT,
    POINT,
    TORQUE,
    sensor_structs,
)
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def reading_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision: the reading of a sensor from one constraint or contact, and its
    adjoint.
    """
    vec3 = warp_types(scalar).vec3
    structs = sensor_structs(scalar)
    Sensors, Sensed = structs.Sensors, structs.Sensed
    side_sign = row_functions(scalar).side_sign
    contact_rows = contact_row_functions(scalar)
    frame_slot, point_on_side = contact_rows.frame_slot, contact_rows.point_on_side
    selection = selection_functions(scalar)
    geometry_on, contact_point = selection.geometry_on, selection.contact_point
    frames = frame_functions(scalar)
    frame_pose, add_frame_bar = frames.frame_pose, frames.add_frame_bar
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def force_part(kind: int, impulse: vec3):
        """Return the linear part of the impulse of a contact's constraint, along the axes of the contact."""
        if is_contact(kind):
            return impulse
        if follows_contact(kind):
            return vec3()
        return vec3(impulse[0], zero, zero)

    @wp.func
    def torque_part(kind: int, impulse: vec3):
        """Return the angular part; both angular rows of SPIN are about the normal."""
        if is_contact(kind):
            return vec3()
        if follows_contact(kind):
            return impulse
        if spins(kind):
            return vec3(impulse[1] + impulse[2], zero, zero)
        return vec3(zero, impulse[1], impulse[2])

    @wp.func
    def torque_part_bar(kind: int, bar: vec3):
        """Return the adjoint of the impulse from that of its angular part."""
        if is_contact(kind):
            return vec3()
        if follows_contact(kind):
            return bar
        if spins(kind):
            return vec3(zero, bar[0], bar[0])
        return vec3(zero, bar[1], bar[2])

    @wp.func(inline=True)
    def arm(i: int, side: int, constraint: int, world: int, sensors: Sensors, sensed: Sensed):
        """Return the vector from the origin of a sensor's frame to the contact point on a side."""
        link = sensors.link[i]
        slot = sensed.constraints.item[constraint, world]
        point = point_on_side(sensed.contacts.point, sensed.contacts.apart, side, slot, world)
        point += (
            sensed.motions.origin[sensed.constraints.reference[constraint, world], world]
            - sensed.motions.origin[sensed.link_tree[link], world]
        )
        return point - wp.transform_point(sensed.pose[link, world], wp.transform_get_translation(sensors.placement[i]))

    @wp.func(inline=True)
    def arm_adjoint(
        i: int, side: int, constraint: int, world: int, bar: vec3, sensors: Sensors, sensed: Sensed, sensed_bar: Sensed
    ):
        link = sensors.link[i]
        slot = sensed.constraints.item[constraint, world]
        sensed_bar.contacts.point[slot, world] += bar
        if sensed.contacts.apart.shape[0] > 0:
            sensed_bar.contacts.apart[slot, world] += (scalar(0.5) * side_sign(side)) * bar
        sensed_bar.motions.origin[sensed.constraints.reference[constraint, world], world] += bar
        sensed_bar.motions.origin[sensed.link_tree[link], world] -= bar
        frame = frame_pose(sensed.pose[link, world], sensors.placement[i])
        add_frame_bar(link, world, frame, vec3(), -bar, sensed.pose, sensed_bar.pose)

    @wp.func(inline=True)
    def read(of: int, i: int, side: int, constraint: int, world: int, sensors: Sensors, sensed: Sensed):
        """Return the reading of a constraint's impulse on a side, along world axes, or one number."""
        impulse = sensed.impulse[constraint, world]
        if of < FORCE:
            return vec3(impulse[0], zero, zero)
        kind = sensed.constraints.kind[constraint, world]
        slot = frame_slot(kind, sensed.constraints.item[constraint, world], sensed.contacts)
        frame = wp.transpose(sensed.contacts.frame[slot, world]) * side_sign(side)
        force = frame * force_part(kind, impulse)
        if of == TORQUE:
            torque = frame * torque_part(kind, impulse)
            return torque + wp.cross(arm(i, side, constraint, world, sensors, sensed), force)
        return force

    @wp.func(inline=True)
    def read_adjoint(
        of: int,
        i: int,
        side: int,
        constraint: int,
        world: int,
        bar: vec3,
        sensors: Sensors,
        sensed: Sensed,
        sensed_bar: Sensed,
    ):
        if of < FORCE:
            sensed_bar.impulse[constraint, world] += vec3(bar[0], zero, zero)
            return
        kind = sensed.constraints.kind[constraint, world]
        slot = frame_slot(kind, sensed.constraints.item[constraint, world], sensed.contacts)
        frame = sensed.contacts.frame[slot, world]
        turned = side_sign(side) * bar
        force = force_part(kind, sensed.impulse[constraint, world])
        force_bar = turned
        if of == TORQUE:
            force_bar = wp.cross(turned, arm(i, side, constraint, world, sensors, sensed))
            arm_bar = wp.cross(wp.transpose(frame) * force, turned)
            arm_adjoint(i, side, constraint, world, arm_bar, sensors, sensed, sensed_bar)
            torque = torque_part(kind, sensed.impulse[constraint, world])
            sensed_bar.contacts.frame[slot, world] += wp.outer(torque, turned)
            sensed_bar.impulse[constraint, world] += torque_part_bar(kind, frame * turned)
        sensed_bar.impulse[constraint, world] += force_part(kind, frame * force_bar)
        sensed_bar.contacts.frame[slot, world] += wp.outer(force, force_bar)

    @wp.func
    def contact_sign(sides: int):
        """Return -1 if side b of a contact counts as first, see ``match``, otherwise 1."""
        return scalar(3 - 2 * wp.abs(sides))

    @wp.func(inline=True)
    def read_contact(
        reading: wp.array2d(dtype=vec3),
        at: int,
        k: int,
        sides: int,
        constraint: int,
        world: int,
        dt: scalar,
        sensed: Sensed,
    ):
        """Write the CONTACTS readings of a contact, from slot k of row ``at`` on."""
        slot = sensed.constraints.item[constraint, world]
        frame = contact_sign(sides) * wp.transpose(sensed.contacts.frame[slot, world])
        force = vec3()
        torque = vec3()
        for other in range(constraint, sensed.constraints.count[world]):
            kind = sensed.constraints.kind[other, world]
            if is_of_contact(kind) and sensed.constraints.item[other, world] == slot:
                of_torque = frame_slot(kind, slot, sensed.contacts)
                force += frame * force_part(kind, sensed.impulse[other, world])
                turning = contact_sign(sides) * wp.transpose(sensed.contacts.frame[of_torque, world])
                torque += turning * torque_part(kind, sensed.impulse[other, world])
        side = wp.abs(sides) - 1
        first = geometry_on(side, slot, world, sensed) + 1
        second = geometry_on(1 - side, slot, world, sensed) + 1
        reading[at, k + MEMBERS] = vec3(scalar(first), scalar(second), scalar(wp.sign(sides)))
        reading[at, k + DISTANCE] = vec3(sensed.contacts.distance[slot, world], zero, zero)
        reading[at, k + POINT] = contact_point(constraint, world, sensed)
        reading[at, k + NORMAL] = frame * vec3(one, zero, zero)
        reading[at, k + CONTACT_FORCE] = force / dt
        reading[at, k + CONTACT_TORQUE] = torque / dt

    @wp.func(inline=True)
    def read_contact_adjoint(
        bar: wp.array2d(dtype=vec3), at: int, k: int, sides: int, constraint: int, world: int, dt: scalar, sensed: Sensed,
        sensed_bar: Sensed,
    ):  # fmt: skip
        slot = sensed.constraints.item[constraint, world]
        sign = contact_sign(sides)
        sensed_bar.contacts.distance[slot, world] += bar[at, k + DISTANCE][0]
        sensed_bar.contacts.point[slot, world] += bar[at, k + POINT]
        sensed_bar.motions.origin[sensed.constraints.reference[constraint, world], world] += bar[at, k + POINT]
        force_bar = sign * bar[at, k + CONTACT_FORCE] / dt
        torque_bar = sign * bar[at, k + CONTACT_TORQUE] / dt
        frame_bar = wp.outer(vec3(sign, zero, zero), bar[at, k + NORMAL])
        for other in range(constraint, sensed.constraints.count[world]):
            kind = sensed.constraints.kind[other, world]
            if is_of_contact(kind) and sensed.constraints.item[other, world] == slot:
                of_kind = frame_slot(kind, slot, sensed.contacts)
                frame = sensed.contacts.frame[of_kind, world]
                torque_frame_bar = wp.outer(torque_part(kind, sensed.impulse[other, world]), torque_bar)
                frame_bar += wp.outer(force_part(kind, sensed.impulse[other, world]), force_bar)
                if of_kind == slot:
                    frame_bar += torque_frame_bar
                else:
                    sensed_bar.contacts.frame[of_kind, world] += torque_frame_bar
                sensed_bar.impulse[other, world] += force_part(kind, frame * force_bar)
                sensed_bar.impulse[other, world] += torque_part_bar(kind, frame * torque_bar)
        sensed_bar.contacts.frame[slot, world] += frame_bar

    return SimpleNamespace(
        force_part=force_part,
        read=read,
        read_adjoint=read_adjoint,
        read_contact=read_contact,
        read_contact_adjoint=read_contact_adjoint,
    )


@functools.cache
def sensor_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, one thread per world.

    Readings are vectors ``[steps, total_worlds, num_sensors]`` in the trajectory's memory.
    """
    vec3 = warp_types(scalar).vec3
    structs = sensor_structs(scalar)
    Sensors, Sensed = structs.Sensors, structs.Sensed
    kept, rows = checkpoint_kernels(scalar), trajectory_row_functions(scalar)
    side_sign = row_functions(scalar).side_sign
    selection, readings = selection_functions(scalar), reading_functions(scalar)
    geometry_on, reads, match = selection.geometry_on, selection.reads, selection.match
    force_part, read, read_adjoint = readings.force_part, readings.read, readings.read_adjoint
    read_contact, read_contact_adjoint = readings.read_contact, readings.read_contact_adjoint
    module = kernel_module("sensors", scalar)
    wp.set_module_options({"max_unroll": 1}, module)
    zero = scalar(0.0)

    @wp.kernel(module=module, enable_backward=False)
    def store_sensor_readings(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        sensors: Sensors,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        sensed: Sensed,
    ):
        """Write the readings of the step at the cursor, along world axes, unless the table has no address for them."""
        world = wp.tid()
        address = table[wp.static(SLOT.contact_force)]
        if address == wp.uint64(0):
            return
        at = first_world + world
        reading = rows.vector_row(address, cursor[wp.static(STEP)], total_worlds, num_sensors)
        for i in range(num_sensors):
            reading[at, i] = vec3()
        count = sensed.constraints.count[world]
        for constraint in range(count):
            kind = sensed.constraints.kind[constraint, world]
            if is_of_contact(kind):
                slot = sensed.constraints.item[constraint, world]
                frame = wp.transpose(sensed.contacts.frame[slot, world])
                force = frame * force_part(kind, sensed.impulse[constraint, world]) / dt
                for side in range(2):
                    i = sensors.geometry_slot[geometry_on(side, slot, world, sensed)]
                    if i >= 0:
                        reading[at, i] += side_sign(side) * force
        for i in range(sensors.kind.shape[0]):
            of = sensors.kind[i]
            total = vec3()
            found = int(0)
            for constraint in range(count):
                if of == CONTACTS:
                    sides = match(i, constraint, world, sensors, sensed)
                    if sides != 0:
                        if found < sensors.capacity[i]:
                            k = sensors.first[i] + PER_CONTACT * found
                            read_contact(reading, at, k, sides, constraint, world, dt, sensed)
                        found += 1
                else:
                    for side in range(2):
                        if reads(of, i, side, constraint, world, sensors, sensed):
                            total += read(of, i, side, constraint, world, sensors, sensed)
            total /= dt
            if of == CONTACTS:
                total = vec3(scalar(found), zero, zero)
            reading[at, sensors.slot[i]] = total

    @wp.kernel(module=module, enable_backward=False)
    def sensor_reading_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        sensors: Sensors,
        # Data in
        table: wp.array(dtype=wp.uint64),
        cursor: wp.array(dtype=int),
        sensed: Sensed,
        # Adjoint out
        sensed_bar: Sensed,
    ):
        world = wp.tid()
        address = table[wp.static(SLOT.contact_force_bar)]
        at = first_world + world
        if address == wp.uint64(0) or kept.is_left_out(at, total_worlds, table):
            return
        bar = rows.vector_row(address, cursor[wp.static(STEP)], total_worlds, num_sensors)
        count = sensed.constraints.count[world]
        for constraint in range(count):
            kind = sensed.constraints.kind[constraint, world]
            if is_of_contact(kind):
                slot = sensed.constraints.item[constraint, world]
                force_bar = vec3()
                for side in range(2):
                    i = sensors.geometry_slot[geometry_on(side, slot, world, sensed)]
                    if i >= 0:
                        force_bar += side_sign(side) / dt * bar[at, i]
                frame = sensed.contacts.frame[slot, world]
                sensed_bar.impulse[constraint, world] += force_part(kind, frame * force_bar)
                part = force_part(kind, sensed.impulse[constraint, world])
                sensed_bar.contacts.frame[slot, world] += wp.outer(part, force_bar)
        for i in range(sensors.kind.shape[0]):
            of = sensors.kind[i]
            found = int(0)
            for constraint in range(count):
                if of == CONTACTS:
                    sides = match(i, constraint, world, sensors, sensed)
                    if sides != 0 and found < sensors.capacity[i]:
                        k = sensors.first[i] + PER_CONTACT * found
                        read_contact_adjoint(bar, at, k, sides, constraint, world, dt, sensed, sensed_bar)
                        found += 1
                else:
                    reading_bar = bar[at, sensors.slot[i]] / dt
                    for side in range(2):
                        if reads(of, i, side, constraint, world, sensors, sensed):
                            read_adjoint(of, i, side, constraint, world, reading_bar, sensors, sensed, sensed_bar)

    return SimpleNamespace(
        module=module,
        store_sensor_readings=store_sensor_readings,
        sensor_reading_adjoint=sensor_reading_adjoint,
    )
