"""What touches in a step, and with which force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warp_kernels.types import CONTACT

if TYPE_CHECKING:
    from sim.step import Step


@dataclass(frozen=True)
class Contacts:
    """The contacts of one step in all worlds, those of world 0 first; made by :meth:`sim.Simulator.contacts`.

    Those within reach that carry nothing are among them, with a force of zero. The normal points from geometry a to
    geometry b, the force acts on b and its opposite on a, all along world axes.

    Attributes:
        world: world of each contact [n].
        geometry_a: index of one geometry in ``model.geometries`` [n].
        geometry_b: index of the other [n].
        point: midway between the two surfaces, in the world frame [n, 3], m.
        normal: unit vectors [n, 3].
        distance: between the surfaces, negative where they overlap [n], m.
        force: on b, friction included, averaged over the step [n, 3], N.
    """

    world: np.ndarray
    geometry_a: np.ndarray
    geometry_b: np.ndarray
    point: np.ndarray
    normal: np.ndarray
    distance: np.ndarray
    force: np.ndarray

    def __len__(self) -> int:
        """Number of contacts."""
        return len(self.world)

    def of_world(self, world: int) -> Contacts:
        """Those of one world."""
        chosen = self.world == world
        return Contacts(**{name: value[chosen] for name, value in vars(self).items()})

    def force_on(self, geometry: int, num_worlds: int) -> np.ndarray:
        """Sum of the forces on a geometry in each world [num_worlds, 3], N."""
        total = np.zeros((num_worlds, 3))
        for side, sign in ((self.geometry_b, 1.0), (self.geometry_a, -1.0)):
            np.add.at(total, self.world[side == geometry], sign * self.force[side == geometry])
        return total


def read_contacts(steps: list[Step]) -> Contacts:
    """The contacts of the step that blocks of worlds have just taken, as float64."""
    parts = [_of_block(step) for step in steps]
    return Contacts(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _of_block(step: Step) -> tuple[np.ndarray, ...]:
    count, kind = step.block_count.numpy(), step.block_kind.numpy()
    # By worlds, and in the order of the blocks in each.
    world, block = np.nonzero(((kind == CONTACT) & (np.arange(len(kind))[:, None] < count)).T)
    slot = step.block_item.numpy()[block, world]
    pair = step.slot_pair.numpy()[slot, world]
    reference = step.origin.numpy()[step.block_reference.numpy()[block, world], world]
    frame = step.contact_frame.numpy()[slot, world].astype(np.float64)
    impulse = step.impulse.numpy()[block, world].astype(np.float64)
    return (
        world + step.place[1],
        step.collision.pair_a.numpy()[pair],
        step.collision.pair_b.numpy()[pair],
        step.contact_point.numpy()[slot, world].astype(np.float64) + reference,
        frame[:, 0],
        step.contact_distance.numpy()[slot, world].astype(np.float64),
        np.einsum("nij,ni->nj", frame, impulse) / float(step.dt),
    )
