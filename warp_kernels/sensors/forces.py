"""Sensors that measure forces of constraints: touch, and limits of joints and tendons; averaged over a step, with their adjoint.

A touch sensor adds up the normal forces of the contacts of some geometries that lie in a zone, or from which the way out of the body leads
through it, as MuJoCo's does. Which ones these are has no derivative; the forces do.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.checkpoint import STEP, checkpoint_kernels
from warp_kernels.checkpoint_rows import trajectory_row_functions
from warp_kernels.constraints.kinds import LOWER_LIMIT, TENDON_LIMIT, UPPER_LIMIT, is_in_cone
from warp_kernels.constraints.shared import row_functions
from warp_kernels.records import SLOT
from warp_kernels.sensors.zones import zone_functions
from warp_kernels.solver.structs import Constraints, TendonRows, solver_structs
from warp_kernels.types import kernel_module, warp_types

# What a sensor measures.
TOUCH, JOINT_LIMIT, TENDON_LIMIT_FORCE, FORCE, TORQUE = range(5)


@functools.cache
def force_sensor_structs(scalar: Any) -> SimpleNamespace:
    """The struct of one precision."""
    t = warp_types(scalar)

    @wp.struct
    class ForceSensors:
        """Sensors, each with a place among the forces that are measured.

        Attributes:
            kind: TOUCH, JOINT_LIMIT, TENDON_LIMIT_FORCE, or FORCE or TORQUE (:mod:`warp_kernels.sensors.wrenches`) [n].
            place: where its force goes [n].
            item: the degree of freedom, or the tendon [n].
            link: of its frame, -1 for the world [n].
            zone: shape of the zone, an index of ``ZONES`` [n].
            size: of that, half lengths and radii [n], m.
            placement: of the frame in its link [n].
            touches: 1 for the geometries whose contacts count [n, num_geometries].
        """

        kind: wp.array(dtype=int)
        place: wp.array(dtype=int)
        item: wp.array(dtype=int)
        link: wp.array(dtype=int)
        zone: wp.array(dtype=int)
        size: wp.array(dtype=t.vec3)
        placement: wp.array(dtype=t.transform)
        touches: wp.array2d(dtype=int)

    return SimpleNamespace(ForceSensors=ForceSensors)


@functools.cache
def force_sensor_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels for one precision, one thread per world."""
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    ForceSensors = force_sensor_structs(scalar).ForceSensors
    kept, rows = checkpoint_kernels(scalar), trajectory_row_functions(scalar)
    side_sign = row_functions(scalar).side_sign
    structs = solver_structs(scalar)
    Contacts, Motions, Options = structs.Contacts, structs.Motions, structs.Options
    module = kernel_module("force_sensors", scalar)
    wp.set_module_options({"max_unroll": 1}, module)
    zones = zone_functions(scalar)
    meets, seen_from = zones.meets, zones.seen_from
    zero = scalar(0.0)

    @wp.func
    def touched(
        i: int, side: int, slot: int, constraint: int, world: int, sensors: ForceSensors, link_tree: wp.array(dtype=int),
        pose: wp.array2d(dtype=transform), motions: Motions, contacts: Contacts, constraints: Constraints,
    ):  # fmt: skip
        """Whether a contact on one of a sensor's geometries, on a side, counts."""
        point = contacts.point[slot, world] + motions.origin[constraints.reference[constraint, world], world]
        frame = contacts.frame[slot, world]
        out = -side_sign(side) * vec3(frame[0, 0], frame[0, 1], frame[0, 2])
        to_zone, x = seen_from(sensors.link[i], sensors.placement[i], point, world, link_tree, pose, motions)
        return meets(sensors.zone[i], sensors.size[i], x, wp.transform_vector(to_zone, out))

    @wp.func
    def counts(
        i: int, constraint: int, world: int, sensors: ForceSensors, pair_a: wp.array(dtype=int), pair_b: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int), link_tree: wp.array(dtype=int), pose: wp.array2d(dtype=transform),
        motions: Motions, contacts: Contacts, constraints: Constraints,
    ):  # fmt: skip
        """Whether the first impulse of a constraint is part of what a touch sensor measures."""
        kind = constraints.kind[constraint, world]
        if not is_in_cone(kind):
            return False
        slot = constraints.item[constraint, world]
        pair = slot_pair[slot, world]
        for side in range(2):
            geometry = pair_a[pair]
            if side == 1:
                geometry = pair_b[pair]
            if sensors.touches[i, geometry] == 1:
                if touched(i, side, slot, constraint, world, sensors, link_tree, pose, motions, contacts, constraints):
                    return True
        return False

    @wp.func
    def limit_read(
        i: int, world: int, sensors: ForceSensors, options: Options, tendon_rows: TendonRows, constraints: Constraints,
        impulse: wp.array2d(dtype=vec3),
    ):  # fmt: skip
        """The constraint that a sensor of limits reads, -1 for none: of both limits the lower, which is listed first, as MuJoCo's.

        A limit that is only close enough to be reached within the step is no place to read at.
        """
        found = int(-1)
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            item = constraints.item[constraint, world]
            own = bool(False)
            if sensors.kind[i] == JOINT_LIMIT and (kind == LOWER_LIMIT or kind == UPPER_LIMIT):
                own = sensors.item[i] == item
            if sensors.kind[i] == TENDON_LIMIT_FORCE and kind == TENDON_LIMIT:
                own = sensors.item[i] == tendon_rows.tendon[item]
            if own and found < 0 and (impulse[constraint, world][0] > zero or options.limit_margin < zero):
                found = constraint
        return found

    @wp.kernel(module=module, enable_backward=False)
    def store_sensor_forces(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        options: Options,
        force_sensors: ForceSensors,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        tendon_rows: TendonRows,
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
        """After ``store_contact_forces`` of :mod:`warp_kernels.sensors.contact_force`: the first number of each place is the force."""
        world = wp.tid()
        address = table[wp.static(SLOT.contact_force)]
        if address == wp.uint64(0):
            return
        step = cursor[wp.static(STEP)]
        at = first_world + world
        force = rows.vector_row(address, step, total_worlds, num_sensors)
        for i in range(force_sensors.kind.shape[0]):
            if force_sensors.kind[i] >= FORCE:
                continue
            total = zero
            if force_sensors.kind[i] == TOUCH:
                for constraint in range(constraints.count[world]):
                    push = impulse[constraint, world][0]
                    if push > zero and counts(
                        i, constraint, world, force_sensors, pair_a, pair_b, slot_pair, link_tree, pose, motions, contacts,
                        constraints,
                    ):  # fmt: skip
                        total += push
            else:
                limit = limit_read(i, world, force_sensors, options, tendon_rows, constraints, impulse)
                if limit >= 0:
                    total = impulse[limit, world][0]
            force[at, force_sensors.place[i]] = vec3(total / dt, zero, zero)

    @wp.kernel(module=module, enable_backward=False)
    def sensor_force_adjoint(
        # Model
        total_worlds: int,
        first_world: int,
        num_sensors: int,
        dt: scalar,
        options: Options,
        force_sensors: ForceSensors,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        tendon_rows: TendonRows,
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
            bar = vec3(force_bar[at, force_sensors.place[i]][0] / dt, zero, zero)
            if force_sensors.kind[i] == TOUCH:
                for constraint in range(constraints.count[world]):
                    if impulse[constraint, world][0] > zero and counts(
                        i, constraint, world, force_sensors, pair_a, pair_b, slot_pair, link_tree, pose, motions, contacts,
                        constraints,
                    ):  # fmt: skip
                        further_impulse_bar[constraint, world] += bar
            else:
                limit = limit_read(i, world, force_sensors, options, tendon_rows, constraints, impulse)
                if limit >= 0:
                    further_impulse_bar[limit, world] += bar

    return SimpleNamespace(
        module=module, store_sensor_forces=store_sensor_forces, sensor_force_adjoint=sensor_force_adjoint
    )
