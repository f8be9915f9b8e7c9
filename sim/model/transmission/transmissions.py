"""Actuators that push a frame of a link, or pull at the contacts of a link."""

from dataclasses import dataclass, field

import numpy as np

# In place of a link: a frame is pushed along its own axes; an actuator of contacts has no frame.
NO_LINK = -2


@dataclass(frozen=True)
class Transmissions:
    """The actuators of a model that act neither on a joint nor on a tendon; force and torque axes are parameters.

    Attributes:
        actuator: index of each one among the actuators [n].
        target: name of its frame or link, of an actuator of contacts that of the link [n].
        reference: name of the frame that it counts from; empty for none [n].
        link: link of its frame, -1 for the world, -2 for an actuator of contacts [n].
        placement: of the frame in that link [n, 7].
        reference_link: link of the frame that it counts from, -1 for the world, -2 for none [n].
        reference_placement: of that frame in its link [n, 7].
        adheres: 1 for a geometry at whose contacts an actuator pulls [n, num_geometries].
    """

    actuator: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    target: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    link: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    placement: np.ndarray = field(default_factory=lambda: np.zeros((0, 7)))
    reference_link: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    reference_placement: np.ndarray = field(default_factory=lambda: np.zeros((0, 7)))
    adheres: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.actuator)
