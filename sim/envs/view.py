"""Cameras for images of an environment: fixed, and following a model that travels."""

import numpy as np
import warp as wp

from sim.dynamics.kinematics import forward_kinematics
from sim.model.model import Model
from sim.render.fit import fit_worlds_camera, visible_points
from sim.render.frames import grid_offsets
from sim.render.view import Camera, Marker
from warp_kernels.types import REVOLUTE

POSTURES = 24  # random ones, to estimate a model's extent
MARGIN = 0.05  # of that extent, on each side
APART = 1.1  # of adjacent worlds, relative to the box of one


class View:
    """A box that contains all reachable postures. It moves no farther than needed to contain the visible worlds.

    With a separate camera for each image, a swinging pendulum would grow and shrink.

    Args:
        model: the model to show.
    """

    def __init__(self, model: Model):
        self._model = model
        points = visible_points(model, _poses(model, _postures(model)))
        room = np.ptp(points, axis=0)
        self._low, self._size = points.min(axis=0) - MARGIN * room, (1.0 + 2.0 * MARGIN) * room

    def camera(self, poses: np.ndarray, aspect: float) -> tuple[Camera, float]:
        """Return the camera for an image, and the distance between adjacent worlds [m].

        Args:
            poses: poses of the links of the visible worlds [num_worlds, num_links, 7].
            aspect: width / height of the image.
        """
        points = visible_points(self._model, poses)
        low, high = points.min(axis=0), points.max(axis=0)
        self._size = np.maximum(self._size, high - low)
        self._low = np.clip(self._low, high - self._size, low)
        spacing = APART * float(self._size[:2].max())
        offsets = grid_offsets(len(poses), spacing)
        corners = self._low + self._size * np.array(list(np.ndindex(2, 2, 2)))
        seen = [Marker("corner", corner + offset, radius=1e-6) for offset in offsets for corner in corners]
        return fit_worlds_camera(self._model, poses[None], offsets, markers=seen, aspect=aspect, margin=1.0), spacing


def _postures(model: Model) -> np.ndarray:
    """Return coordinates with joints anywhere in their ranges [POSTURES, nq]; slides without limits keep their initial
    value.
    """
    rng = np.random.default_rng(0)
    q = np.repeat(model.q0[None], POSTURES, axis=0)
    for dof in np.flatnonzero(model.dof_q >= 0):
        lower, upper = (float(model.parameters[f"{end}_limit"][dof]) for end in ("lower", "upper"))
        if np.isfinite(lower) and np.isfinite(upper):
            q[:, model.dof_q[dof]] = rng.uniform(lower, upper, POSTURES)
        elif model.joint_type[model.dof_link[dof]] == REVOLUTE:
            q[:, model.dof_q[dof]] = rng.uniform(-np.pi, np.pi, POSTURES)
    return q


def _poses(model: Model, q: np.ndarray) -> np.ndarray:
    return forward_kinematics(model, wp.array(q, dtype=model.scalar, device="cpu")).numpy()
