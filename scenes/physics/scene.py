"""What the scenes of the fidelity suite are made of, and how Backswing runs them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import sim
from sim.model.model import Model
from sim.simulation.options import ContactOptions

G = 9.81


@dataclass(frozen=True)
class Motion:
    """The motion of one world, in Backswing's conventions whoever computed it.

    Attributes:
        time: of every state [steps + 1], s.
        q: coordinates [steps + 1, nq].
        qd: velocities [steps + 1, nv].
        support: force of the world's own geometries on the bodies in the step that begins at the last state [3], N.
    """

    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    support: np.ndarray


@dataclass(frozen=True)
class Quantity:
    """A number to be read off a motion.

    Attributes:
        name: what it is.
        unit: its unit.
        expected: by closed form or another integrator.
        bound: of its difference from that in Backswing.
        why: where the bound comes from.
        measure: reads it off.
    """

    name: str
    unit: str
    expected: float
    bound: float
    why: str
    measure: Callable[[Motion], float]


@dataclass(frozen=True)
class PhysicsScene:
    """A scene, how long it is watched, and what is measured.

    Attributes:
        name: of the scene.
        model: of float64.
        qd0: start velocities [nv]; the start coordinates are the model's.
        dt: time step [s].
        seconds: how long.
        quantities: what is measured.
        contact: Backswing's options.
    """

    name: str
    model: Model
    qd0: np.ndarray
    dt: float
    seconds: float
    quantities: tuple[Quantity, ...]
    contact: ContactOptions = field(default_factory=ContactOptions)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return round(self.seconds / self.dt)

    @property
    def time(self) -> np.ndarray:
        """Times of all states [steps + 1], s."""
        return self.dt * np.arange(self.steps + 1)

    def run(self, device: str = "cpu") -> Motion:
        """The motion as Backswing computes it."""
        simulator = sim.Simulator(self.model, self.dt, device=device, contact=self.contact)
        trajectory = simulator.rollout(simulator.state(self.model.q0, self.qd0), steps=self.steps)
        contacts = simulator.contacts(trajectory.final_state)
        fixed = [index for index, geometry in enumerate(self.model.geometries) if geometry.link < 0]
        support = -sum((contacts.force_on(index, 1)[0] for index in fixed), np.zeros(3))
        return Motion(self.time, trajectory.q.numpy()[:, 0].copy(), trajectory.qd.numpy()[:, 0].copy(), support)


def rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Turn vectors [..., 3] by unit quaternions xyzw [..., 4]."""
    u, w = quaternion[..., :3], quaternion[..., 3:]
    return vector + 2.0 * np.cross(u, np.cross(u, vector) + w * vector)


def conjugate(quaternion: np.ndarray) -> np.ndarray:
    """The inverse of unit quaternions xyzw [..., 4]."""
    return quaternion * [-1.0, -1.0, -1.0, 1.0]


def turn_about(axis: int, angle: float) -> tuple[float, float, float, float]:
    """Quaternion xyzw of a rotation about an axis of the frame."""
    quaternion = np.zeros(4)
    quaternion[axis], quaternion[3] = np.sin(0.5 * angle), np.cos(0.5 * angle)
    x, y, z, w = quaternion.tolist()
    return x, y, z, w
