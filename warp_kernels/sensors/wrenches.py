"""Sensors of the force and torque of contacts on a part of a robot, averaged over a step, with their adjoint.

The torque is that about the origin of a frame. :class:`sim.torch.Sensors` subtracts both from what moves the part, which leaves what the joint that
carries it transmits.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.checkpoint import STEP, checkpoint_kernels
from warp_kernels.checkpoint_rows import trajectory_row_functions
from warp_kernels.constraints.contacts import contact_row_functions
from warp_kernels.constraints.kinds import is_of_contact
from warp_kernels.constraints.shared import row_functions
from warp_kernels.records import SLOT
from warp_kernels.sensors.forces import FORCE, TORQUE, force_sensor_structs
from warp_kernels.sensors.parts import part_functions
from warp_kernels.solver.structs import Constraints, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def wrench_sensor_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels for one precision, one thread per world."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    ForceSensors = force_sensor_structs(scalar).ForceSensors
    kept, rows = checkpoint_kernels(scalar), trajectory_row_functions(scalar)
    side_sign = row_functions(scalar).side_sign
    point_on_side = contact_row_functions(scalar).point_on_side
    structs = solver_structs(scalar)
    Contacts, Motions = structs.Contacts, structs.Motions
    module = kernel_module("wrench_sensors", scalar)
    wp.set_module_options({"max_unroll": 1}, module)
    parts = part_functions(scalar)
    force_part, torque_part, torque_part_bar = parts.force_part, parts.torque_part, parts.torque_part_bar

    @wp.func
    def arm_power(pose: transform, place: vec3, bar: vec3):
        return wp.dot(bar, wp.transform_point(pose, place))

    @wp.func
    def arm(
        i: int, side: int, constraint: int, world: int, sensors: ForceSensors, link_tree: wp.array(dtype=int),
        pose: wp.array2d(dtype=transform), motions: Motions, contacts: Contacts, constraints: Constraints,
    ):  # fmt: skip
        """From the origin of a sensor's frame to where a contact acts on a side."""
        slot = constraints.item[constraint, world]
        link = sensors.link[i]
        point = point_on_side(contacts.point, contacts.apart, side, slot, world)
        point += (
            motions.origin[constraints.reference[constraint, world], world] - motions.origin[link_tree[link], world]
        )
        return point - wp.transform_point(pose[link, world], wp.transform_get_translation(sensors.placement[i]))

    @wp.func
    def acts(
        i: int,
        side: int,
        kind: int,
        slot: int,
        world: int,
        sensors: ForceSensors,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
    ):
        """Whether a constraint is of a contact on a sensor's part, on a side."""
        if not is_of_contact(kind):
            return False
        geometry = pair_a[slot_pair[slot, world]]
        if side == 1:
            geometry = pair_b[slot_pair[slot, world]]
        return sensors.touches[i, geometry] == 1

    @wp.kernel(module=module, enable_backward=False)
    def store_wrenches(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        force_sensors: ForceSensors,
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
        """After ``store_contact_forces`` of :mod:`warp_kernels.sensors.contact_force`; along world axes."""
        world = wp.tid()
        address = table[wp.static(SLOT.contact_force)]
        if address == wp.uint64(0):
            return
        step = cursor[wp.static(STEP)]
        at = first_world + world
        force = rows.vector_row(address, step, total_worlds, num_sensors)
        for i in range(force_sensors.kind.shape[0]):
            of = force_sensors.kind[i]
            if of < FORCE:
                continue
            total = vec3()
            for constraint in range(constraints.count[world]):
                kind = constraints.kind[constraint, world]
                slot = constraints.item[constraint, world]
                for side in range(2):
                    if acts(i, side, kind, slot, world, force_sensors, pair_a, pair_b, slot_pair):
                        frame = wp.transpose(contacts.frame[slot, world]) * side_sign(side)
                        push = frame * force_part(kind, impulse[constraint, world])
                        if of == TORQUE:
                            total += frame * torque_part(kind, impulse[constraint, world])
                            push = wp.cross(
                                arm(
                                    i,
                                    side,
                                    constraint,
                                    world,
                                    force_sensors,
                                    link_tree,
                                    pose,
                                    motions,
                                    contacts,
                                    constraints,
                                ),
                                push,
                            )
                        total += push
            force[at, force_sensors.place[i]] = total / dt

    # A module of its own, for wp.grad (see warp_kernels.solver.pgs).
    adjoint_module = kernel_module("wrench_sensors_adjoint", scalar)
    wp.set_module_options({"max_unroll": 1}, adjoint_module)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def wrench_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        force_sensors: ForceSensors,
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
        pose_bar: wp.array2d(dtype=transform),
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
        force_bar = rows.vector_row(address, step, total_worlds, num_sensors)
        for i in range(force_sensors.kind.shape[0]):
            of = force_sensors.kind[i]
            if of < FORCE:
                continue
            bar = force_bar[at, force_sensors.place[i]] / dt
            for constraint in range(constraints.count[world]):
                kind = constraints.kind[constraint, world]
                slot = constraints.item[constraint, world]
                for side in range(2):
                    if acts(i, side, kind, slot, world, force_sensors, pair_a, pair_b, slot_pair):
                        sign = side_sign(side)
                        frame = contacts.frame[slot, world]
                        part = force_part(kind, impulse[constraint, world])
                        push_bar = sign * bar
                        if of == TORQUE:
                            lever = arm(
                                i,
                                side,
                                constraint,
                                world,
                                force_sensors,
                                link_tree,
                                pose,
                                motions,
                                contacts,
                                constraints,
                            )
                            push_bar = sign * wp.cross(bar, lever)
                            lever_bar = wp.cross(sign * (wp.transpose(frame) * part), bar)
                            turn = torque_part(kind, impulse[constraint, world])
                            contacts_bar.frame[slot, world] += sign * wp.outer(turn, bar)
                            further_impulse_bar[constraint, world] += torque_part_bar(kind, sign * (frame * bar))
                            contacts_bar.point[slot, world] += lever_bar
                            if contacts.apart.shape[0] > 0:
                                contacts_bar.apart[slot, world] += (scalar(0.5) * sign) * lever_bar
                            link = force_sensors.link[i]
                            motions_bar.origin[constraints.reference[constraint, world], world] += lever_bar
                            motions_bar.origin[link_tree[link], world] -= lever_bar
                            own_bar, _place_bar, _bar = wp.grad(arm_power)(
                                pose[link, world],
                                wp.transform_get_translation(force_sensors.placement[i]),
                                -lever_bar,
                            )
                            pose_bar[link, world] += own_bar
                        further_impulse_bar[constraint, world] += force_part(kind, frame * push_bar)
                        contacts_bar.frame[slot, world] += wp.outer(part, push_bar)

    return SimpleNamespace(
        modules=(module, adjoint_module), store_wrenches=store_wrenches, wrench_adjoint=wrench_adjoint
    )
