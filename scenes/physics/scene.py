"""Data types of the fidelity suite, and their simulation in Backswing."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import sim
from sim.model.model import Model
from sim.simulation.options import ContactMethod

G = 9.81


@dataclass(frozen=True)
class Motion:
    """Motion of one world, in Backswing's conventions for every engine.

    Attributes:
        time: time of every state [steps + 1], s.
        q: coordinates [steps + 1, nq].
        qd: velocities [steps + 1, nv].
        support: force of the world's geometries on the bodies, in the step that starts at the last state [3], N.
    """

    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    support: np.ndarray


@dataclass(frozen=True)
class Quantity:
    """Quantity to measure in a motion.

    Attributes:
        name: name of the quantity.
        unit: its unit.
        expected: value from a closed form or another integrator.
        bound: largest error allowed in Backswing.
        why: reason for the bound.
        measure: computes the quantity from a motion.
        softness: largest error that the regularisation of Newton's method adds.
    """

    name: str
    unit: str
    expected: float
    bound: float
    why: str
    measure: Callable[[Motion], float]
    softness: float = 0.0


@dataclass(frozen=True)
class PhysicsScene:
    """Scene, its duration, and the quantities to measure.

    Attributes:
        name: name of the scene.
        model: the model, in float64.
        qd0: initial velocities [nv]; the initial coordinates are the model's.
        dt: time step [s].
        seconds: duration [s].
        quantities: the quantities to measure.
        kinematic_qd: velocities of kinematic joints in each step [steps, nk]; None to keep the initial ones.
    """

    name: str
    model: Model
    qd0: np.ndarray
    dt: float
    seconds: float
    quantities: tuple[Quantity, ...]
    kinematic_qd: np.ndarray | None = None

    @property
    def steps(self) -> int:
        """Number of steps."""
        return round(self.seconds / self.dt)

    @property
    def time(self) -> np.ndarray:
        """Times of all states [steps + 1], s."""
        return self.dt * np.arange(self.steps + 1)

    def run(self, device: str = "cpu", contact: ContactMethod | None = None, integrator: str | None = None) -> Motion:
        """Simulate the scene in Backswing, with default options unless others are given."""
        simulator = sim.Simulator(self.model, self.dt, device=device, contact=contact, integrator=integrator)
        state = simulator.state(self.model.q0, self.qd0)
        trajectory = simulator.rollout(state, steps=self.steps, kinematic_qd=self.kinematic_qd)
        contacts = simulator.contacts(trajectory.final_state)
        fixed = [index for index, geometry in enumerate(self.model.geometries) if geometry.link < 0]
        support = -sum((contacts.force_on(index, 1)[0] for index in fixed), np.zeros(3))
        return Motion(self.time, trajectory.q.numpy()[:, 0].copy(), trajectory.qd.numpy()[:, 0].copy(), support)


def rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Rotate vectors [..., 3] by unit quaternions xyzw [..., 4]."""
    u, w = quaternion[..., :3], quaternion[..., 3:]
    return vector + 2.0 * np.cross(u, np.cross(u, vector) + w * vector)


def conjugate(quaternion: np.ndarray) -> np.ndarray:
    """Return the inverse of unit quaternions xyzw [..., 4]."""
    return quaternion * [-1.0, -1.0, -1.0, 1.0]


def turn_about(axis: int, angle: float) -> tuple[float, float, float, float]:
    """Return the quaternion xyzw of a rotation about an axis of the frame."""
    quaternion = np.zeros(4)
    quaternion[axis], quaternion[3] = np.sin(0.5 * angle), np.cos(0.5 * angle)
    x, y, z, w = quaternion.tolist()
    return x, y, z, w
