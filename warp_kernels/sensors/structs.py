"""Structs of the sensors of contacts and of forces of constraints, and the codes in them."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.structs import Constraints, solver_structs
from warp_kernels.types import warp_types

# Kinds of sensors. The first three measure one number: the normal force of contacts in a zone, or the force of a limit.
TOUCH, DOF_LIMIT_FORCE, TENDON_LIMIT_FORCE, FORCE, TORQUE, CONTACTS = range(6)

# Readings of each contact for CONTACTS: indices of the first and second geometry from 1 on, and their order; distance;
# point; normal; force; torque.
MEMBERS, DISTANCE, POINT, NORMAL, CONTACT_FORCE, CONTACT_TORQUE = range(6)
PER_CONTACT = 6


@functools.cache
def sensor_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision."""
    t = warp_types(scalar)
    structs = solver_structs(scalar)

    @wp.struct
    class Sensors:
        """Sensors of a simulator, and the slots of their readings among the vectors that are recorded.

        Attributes:
            geometry_slot: slot of the contact force on each geometry; -1 for no slot [num_geometries].
            kind: TOUCH, DOF_LIMIT_FORCE, TENDON_LIMIT_FORCE, FORCE, TORQUE or CONTACTS [n].
            slot: slot of the reading; for CONTACTS of the number of contacts [n].
            item: degree of freedom or tendon of a limit [n].
            first: first slot of the readings of contacts [n].
            capacity: largest number of contacts that are recorded [n].
            sides: geometries whose contacts count, 0 for no and 3 for yes; for CONTACTS 1 for the first of a contact, 2
                for the second, 3 for both [n, num_geometries].
            rank: the geometry of the lower rank is the first of a contact for CONTACTS [num_geometries].
            idle: 1 if CONTACTS counts contacts without impulse and penetration.
            zone: index of ``ZONES``, shape of the zone in which contacts count; -1 for everywhere [n].
            size: half lengths and radii of the zone [n], m.
            link: link of the sensor's frame, -1 for the world [n].
            placement: pose of the frame in its link [n].
        """

        geometry_slot: wp.array(dtype=int)
        kind: wp.array(dtype=int)
        slot: wp.array(dtype=int)
        item: wp.array(dtype=int)
        first: wp.array(dtype=int)
        capacity: wp.array(dtype=int)
        sides: wp.array2d(dtype=int)
        rank: wp.array(dtype=int)
        idle: int
        zone: wp.array(dtype=int)
        size: wp.array(dtype=t.vec3)
        link: wp.array(dtype=int)
        placement: wp.array(dtype=t.transform)

    @wp.struct
    class Sensed:
        """State, contacts and constraints of a step that sensors read.

        Attributes:
            limit_margin: distance at which a joint limit is listed [m or rad]; negative if limits are listed once
                passed.
            pair_a, pair_b: geometries of each pair.
            slot_pair: pair of each contact [max_contacts, world].
            link_tree: tree of each link [num_links].
            row_tendon: tendon of each constraint that tendons may have.
            pose: pose of each link from the origin of its tree [num_links, world].
            impulse: impulses of each constraint [nc, world], N s and N m s.
        """

        limit_margin: scalar
        pair_a: wp.array(dtype=int)
        pair_b: wp.array(dtype=int)
        slot_pair: wp.array2d(dtype=int)
        link_tree: wp.array(dtype=int)
        row_tendon: wp.array(dtype=int)
        pose: wp.array2d(dtype=t.transform)
        motions: structs.Motions
        contacts: structs.Contacts
        constraints: Constraints
        impulse: wp.array2d(dtype=t.vec3)

    return SimpleNamespace(Sensors=Sensors, Sensed=Sensed)
