"""Pulling on a link of a running simulation with the mouse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim.dynamics.kinematics import forward_kinematics, jacobian
from sim.dynamics.mass_matrix import mass_matrix
from sim.model.model import Model

RATE = 10.0  # natural frequency of the spring [rad/s]; the damping is critical


@dataclass(frozen=True)
class Pull:
    """A critically damped spring from a point of a link to the pointer.

    Its stiffness is proportional to the mass that the point resists with, so that links of all masses follow alike.

    Attributes:
        world: index of the world.
        link: index of the link.
        point: the point that was grabbed, in the frame of the link [3].
        target: the pointer, in the frame of the world [3].
    """

    world: int
    link: int
    point: np.ndarray
    target: np.ndarray

    @classmethod
    def at(cls, poses: np.ndarray, world: int, link: int, point: np.ndarray, target: np.ndarray) -> Pull:
        """Return the pull on a point in the frame of the world [3], at link poses [num_worlds, num_links, 7]."""
        pose = poses[world, link]
        return cls(world, link, Rotation.from_quat(pose[3:]).inv().apply(point - pose[:3]), target)

    def grabbed(self, poses: np.ndarray) -> np.ndarray:
        """Return the point in the frame of its world [3], from link poses [num_worlds, num_links, 7]."""
        pose = poses[self.world, self.link]
        return pose[:3] + self._lever(pose)

    def joint_forces(self, model: Model, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """Return the joint forces of the spring [num_worlds, nv], from coordinates and velocities of all worlds."""
        own = q[None, self.world]
        pose = forward_kinematics(model, own).numpy()[0, self.link].astype(np.float64)
        lever = self._lever(pose)
        rows = jacobian(model, own, model.link_names[self.link]).numpy()[0].astype(np.float64)
        moving = rows[3:] + np.cross(rows[:3], lever, axisa=0, axisb=0, axisc=0)
        mobility = moving @ np.linalg.solve(mass_matrix(model, own).numpy()[0].astype(np.float64), moving.T)
        mass = 3.0 / max(float(np.trace(mobility)), 1e-12)
        force = mass * (RATE**2 * (self.target - pose[:3] - lever) - 2.0 * RATE * moving @ qd[self.world])
        found = np.zeros((len(q), model.nv))
        found[self.world] = moving.T @ force
        return found

    def _lever(self, pose: np.ndarray) -> np.ndarray:
        """Return the vector from the origin of the link to the point, along world axes [3], from the link's pose."""
        return np.asarray(Rotation.from_quat(pose[3:]).apply(self.point))
