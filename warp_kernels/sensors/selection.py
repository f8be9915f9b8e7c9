"""Selection of the constraints that a sensor reads. It has no derivative."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_contact, is_dof_limit, is_in_cone, is_of_contact, is_tendon_limit
from warp_kernels.constraints.shared import row_functions
from warp_kernels.sensors.structs import FORCE, TENDON_LIMIT_FORCE, TOUCH, sensor_structs
from warp_kernels.sensors.zones import zone_functions
from warp_kernels.types import warp_types


@functools.cache
def selection_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3
    structs = sensor_structs(scalar)
    Sensors, Sensed = structs.Sensors, structs.Sensed
    side_sign = row_functions(scalar).side_sign
    zones = zone_functions(scalar)
    holds, meets, seen_from = zones.holds, zones.meets, zones.seen_from
    zero = scalar(0.0)

    @wp.func(inline=True)
    def geometry_on(side: int, slot: int, world: int, sensed: Sensed):
        """Return the geometry on a side of a contact."""
        if side == 0:
            return sensed.pair_a[sensed.slot_pair[slot, world]]
        return sensed.pair_b[sensed.slot_pair[slot, world]]

    @wp.func(inline=True)
    def contact_point(constraint: int, world: int, sensed: Sensed):
        """Return the point of a contact in the world."""
        origin = sensed.motions.origin[sensed.constraints.reference[constraint, world], world]
        return sensed.contacts.point[sensed.constraints.item[constraint, world], world] + origin

    @wp.func(inline=True)
    def is_touch(i: int, side: int, constraint: int, world: int, sensors: Sensors, sensed: Sensed):
        """Return whether a contact on a side is in the zone of a touch sensor, or its normal out of the body intersects
        it, as in MuJoCo.
        """
        slot = sensed.constraints.item[constraint, world]
        if sensors.sides[i, geometry_on(side, slot, world, sensed)] == 0:
            return False
        point = contact_point(constraint, world, sensed)
        frame = sensed.contacts.frame[slot, world]
        out = -side_sign(side) * vec3(frame[0, 0], frame[0, 1], frame[0, 2])
        to_zone, x = seen_from(
            sensors.link[i], sensors.placement[i], point, world, sensed.link_tree, sensed.pose, sensed.motions
        )
        return meets(sensors.zone[i], sensors.size[i], x, wp.transform_vector(to_zone, out))

    @wp.func(inline=True)
    def is_limit(of: int, item: int, constraint: int, world: int, sensed: Sensed):
        """Return whether a constraint is the limit that a sensor reads, with an impulse or listed only once passed."""
        kind = sensed.constraints.kind[constraint, world]
        limited = sensed.constraints.item[constraint, world]
        if of == TENDON_LIMIT_FORCE:
            if not is_tendon_limit(kind):
                return False
            limited = sensed.row_tendon[limited]
        elif not is_dof_limit(kind):
            return False
        return limited == item and (sensed.impulse[constraint, world][0] > zero or sensed.limit_margin < zero)

    @wp.func(inline=True)
    def reads(of: int, i: int, side: int, constraint: int, world: int, sensors: Sensors, sensed: Sensed):
        """Return whether sensor i of kind ``of`` reads the impulse of a constraint on a side; one number is read on
        side 0 only.

        Of both limits of a joint or tendon the one that is listed first is read, as in MuJoCo.
        """
        kind = sensed.constraints.kind[constraint, world]
        if of >= FORCE:
            if not is_of_contact(kind):
                return False
            return sensors.sides[i, geometry_on(side, sensed.constraints.item[constraint, world], world, sensed)] != 0
        if side == 1:
            return False
        if of == TOUCH:
            if not (is_in_cone(kind) and sensed.impulse[constraint, world][0] > zero):
                return False
            for touched in range(2):
                if is_touch(i, touched, constraint, world, sensors, sensed):
                    return True
            return False
        if not is_limit(of, sensors.item[i], constraint, world, sensed):
            return False
        for earlier in range(constraint):
            if is_limit(of, sensors.item[i], earlier, world, sensed):
                return False
        return True

    @wp.func(inline=True)
    def match(i: int, constraint: int, world: int, sensors: Sensors, sensed: Sensed):
        """Return 1 for a contact that counts with its side a first, 2 with side b first, 0 for others.

        The result is negative if this isn't the order of ranks.
        """
        if not is_contact(sensed.constraints.kind[constraint, world]):
            return int(0)
        slot = sensed.constraints.item[constraint, world]
        pushes = sensed.impulse[constraint, world][0] > zero
        if sensors.idle == 0 and not pushes and sensed.contacts.distance[slot, world] > zero:
            return int(0)
        a = geometry_on(0, slot, world, sensed)
        b = geometry_on(1, slot, world, sensed)
        forth = (sensors.sides[i, a] & 1) != 0 and (sensors.sides[i, b] & 2) != 0
        back = (sensors.sides[i, b] & 1) != 0 and (sensors.sides[i, a] & 2) != 0
        if not (forth or back):
            return int(0)
        if sensors.zone[i] >= 0:
            point = contact_point(constraint, world, sensed)
            _to_zone, x = seen_from(
                sensors.link[i], sensors.placement[i], point, world, sensed.link_tree, sensed.pose, sensed.motions
            )
            if not holds(sensors.zone[i], sensors.size[i], x):
                return int(0)
        if sensors.rank[a] < sensors.rank[b]:
            if forth:
                return int(1)
            return int(-2)
        if back:
            return int(2)
        return int(-1)

    return SimpleNamespace(geometry_on=geometry_on, contact_point=contact_point, reads=reads, match=match)
