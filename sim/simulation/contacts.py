"""Contacts of a step, with their forces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.errors import ModelError
from sim.model.checks import require_whole
from sim.model.geometries import Geometry
from sim.model.model import Model
from sim.model.shapes.geometry_types import GEOMETRY_TYPES
from sim.model.specs import WORLD
from sim.simulation.stepping.pipeline import Step
from warp_kernels.constraints.kinds import CONTACT, ROLL, SPIN, TORSION
from warp_kernels.types import CONVEX

MOST_WORLDS = 2**31 - 1  # indices have 32 bits
DEEP = 1e-3  # m; penetration of bodies at rest is less
DEEP_SHARE = 0.1  # of the thinner body's half thickness; smaller penetrations vanish within a few steps


@dataclass(frozen=True)
class Contacts:
    """The contacts of one step in all worlds, those of world 0 first; made by :meth:`sim.Simulator.contacts`.

    Inactive contacts within the margin are included, with zero force. The normal points from geometry a to geometry b;
    the force acts on b and its opposite on a. All are along world axes.

    Attributes:
        world: world of each contact [n].
        geometry_a: index of one geometry in ``model.geometries`` [n].
        geometry_b: index of the other [n].
        point: midpoint between the two surfaces; where a plane is ahead of the body, the point on the body's surface,
            except under MuJoCo's law. In the world frame [n, 3], m.
        normal: unit vectors [n, 3].
        distance: signed distance of the surfaces, negative in penetration [n], m. For a pair that touches within the
            step, the gap that the normal velocity at the time of impact closes by that time.
        force: force on b, friction included, averaged over the step [n, 3], N.
        torque: torque on b about the point, of torsional and rolling friction [n, 3], N m.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.0999))
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu")
        >>> contacts = simulator.contacts(simulator.initial_state())
        >>> len(contacts), contacts.point.shape, [simulator.model.geometries[i].name for i in contacts.geometry_b[:1]]
        (4, (4, 3), ['box_0/geometry'])
    """

    world: np.ndarray
    geometry_a: np.ndarray
    geometry_b: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    distance: np.ndarray
    force: np.ndarray
    torque: np.ndarray

    def __len__(self) -> int:
        """Return the number of contacts."""
        return len(self.world)

    def of_world(self, world: int) -> Contacts:
        """Return the contacts of one world; none of a world that isn't there."""
        require_whole("of_world", world=world)
        chosen = self.world == world
        return Contacts(**{name: value[chosen] for name, value in vars(self).items()})

    def force_on(self, geometry: int, num_worlds: int) -> np.ndarray:
        """Return the sum of the forces on a geometry in each world [num_worlds, 3], N."""
        require_whole("force_on", geometry=geometry, num_worlds=num_worlds)
        if num_worlds > MOST_WORLDS:
            raise ModelError(f"force_on: num_worlds is {num_worlds}; at most {MOST_WORLDS} are supported")
        if self.world.max(initial=-1) >= num_worlds:
            raise ModelError(
                f"force_on: num_worlds is {num_worlds}, but there are contacts in world {self.world.max()}"
            )
        total = np.zeros((num_worlds, 3))
        for side, sign in ((self.geometry_b, 1.0), (self.geometry_a, -1.0)):
            np.add.at(total, self.world[side == geometry], sign * self.force[side == geometry])
        return total


def read_contacts(steps: list[Step]) -> Contacts:
    """Return the contacts of the step that shards have just taken, as float64."""
    parts = [_of_shard(step) for step in steps]
    return Contacts(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _of_shard(step: Step) -> tuple[np.ndarray, ...]:
    solved = _Solved(step)
    constraint, world = solved.constraints(CONTACT)
    # By world, and in the order of the constraints within each.
    order = np.lexsort((constraint, world))
    constraint, world = constraint[order], world[order]
    slot = solved.item[constraint, world]
    pair = step.contact_stage.slot_pair.numpy()[slot, world]
    reference = step.kinematics.origin.worlds.numpy()[
        step.constraint_stage.constraints.reference.numpy()[constraint, world], world
    ]
    torque = np.zeros((step.max_contacts, step.num_worlds, 3))
    spin = solved.constraints(TORSION)
    torque[solved.item[spin], spin[1]] = solved.average(TORSION, *spin)
    force = np.zeros_like(torque)
    force[slot, world] = solved.average(CONTACT, constraint, world)
    for kind, axes in ((SPIN, (0, 0)), (ROLL, (1, 2))):
        found = solved.constraints(kind)
        at = solved.item[found], found[1]
        impulse = solved.impulse[found].astype(np.float64)
        frame = solved.frames_of(kind, *at).astype(np.float64) / float(step.dt)
        force[at] += impulse[:, :1] * frame[:, 0]
        for part, axis in enumerate(axes, start=1):
            torque[at] += impulse[:, part : part + 1] * frame[:, axis]
    return (
        world + step.first_world,
        step.collision.pair_a.numpy()[pair],
        step.collision.pair_b.numpy()[pair],
        step.contact_stage.contact_point.numpy()[slot, world].astype(np.float64) + reference,
        solved.frame[slot, world, 0].astype(np.float64),
        step.contact_stage.contact_distance.numpy()[slot, world].astype(np.float64),
        force[slot, world],
        torque[slot, world],
    )


@dataclass(frozen=True)
class Overlap:
    """Penetration of two geometries.

    Attributes:
        geometry_a: index of one in ``model.geometries``.
        geometry_b: index of the other.
        depth: penetration depth [m].
    """

    geometry_a: int
    geometry_b: int
    depth: float

    def text(self, model: Model) -> str:
        """Return a text that names both geometries, their links and the depth."""
        first, second = (
            f"'{geometry.name}' of '{WORLD if geometry.link < 0 else model.link_names[geometry.link]}'"
            for geometry in (model.geometries[self.geometry_a], model.geometries[self.geometry_b])
        )
        return f"{first} and {second} penetrate by {1000.0 * self.depth:.3g} mm"

    def is_deep(self, model: Model) -> bool:
        """Return whether the depth exceeds a tenth of the thinner geometry, and neither is soft."""
        geometries = [self.geometry_a, self.geometry_b]
        if np.isfinite(model.parameters["contact_stiffness"][geometries]).any():
            return False
        thinner = min(_half_thickness(model.geometries[index]) for index in geometries)
        return self.depth > max(DEEP, DEEP_SHARE * thinner)


def overlaps_of(contacts: Contacts) -> list[Overlap]:
    """Return the pairs of geometries in deeper penetration than bodies at rest, the deepest first."""
    deepest: dict[tuple[int, int], float] = {}
    for a, b, distance in zip(contacts.geometry_a, contacts.geometry_b, contacts.distance, strict=True):
        deepest[int(a), int(b)] = max(deepest.get((int(a), int(b)), 0.0), -float(distance))
    found = [Overlap(a, b, depth) for (a, b), depth in deepest.items() if depth > DEEP]
    return sorted(found, key=lambda overlap: -overlap.depth)


def _half_thickness(geometry: Geometry) -> float:
    """Return half the smallest extent of a shape along its axes [m]; infinite for shapes that are only static."""
    if geometry.type == CONVEX:
        assert geometry.mesh is not None
        return float((0.5 * np.ptp(geometry.mesh.vertices, axis=0) * np.abs(geometry.size)).min())
    known = GEOMETRY_TYPES[geometry.type]
    return np.inf if known.support is None else float(known.extents(geometry.size).min())


class _Solved:
    """Solution of a step on the host, from which constraints of several kinds are read.

    Attributes:
        item: index of each constraint within its kind, such as its contact [constraints, num_worlds].
        impulse: impulses of the constraints [constraints, num_worlds, 3].
        frame: frames of the contacts, in rows [contacts, num_worlds, 3, 3], those of rolling friction after the
            others.
    """

    def __init__(self, step: Step):
        self.item, self.impulse, self.frame = (
            array.numpy()
            for array in (
                step.constraint_stage.constraints.item,
                step.constraint_stage.impulse,
                step.contact_stage.contact_frame,
            )
        )
        kinds = step.constraint_stage.constraints.kind.numpy()
        self._kinds = np.where(
            np.arange(len(kinds))[:, None] < step.constraint_stage.constraints.count.numpy(), kinds, -1
        )
        self._dt, self._max_contacts = float(step.dt), step.max_contacts

    def constraints(self, kind: int) -> tuple[np.ndarray, np.ndarray]:
        """Return indices and worlds of the constraints of one kind."""
        constraint, world = np.nonzero(self._kinds == kind)
        return constraint, world

    def frames_of(self, kind: int, slot: np.ndarray, world: np.ndarray) -> np.ndarray:
        """Return the frames of constraints of one kind, at the slots of their contacts [n, 3, 3]."""
        return np.asarray(self.frame[slot if kind == CONTACT else slot - self._max_contacts, world])

    def average(self, kind: int, constraint: np.ndarray, world: np.ndarray) -> np.ndarray:
        """Return the impulses of constraints of one kind, averaged over the step, along world axes [n, 3]."""
        frame = self.frames_of(kind, self.item[constraint, world], world).astype(np.float64)
        return np.einsum("nij,ni->nj", frame, self.impulse[constraint, world].astype(np.float64)) / self._dt
