"""Frames of a motion, for the commands that draw it."""

import numpy as np

from sim.cli.files import UsageError
from sim.dynamics.kinematics import forward_kinematics
from sim.model.model import Model


def every(states: int, dt: float, fps: float) -> np.ndarray:
    """Indices of the states nearest to the times of the frames."""
    if not (np.isfinite(fps) and fps > 0.0):
        raise UsageError(f"--fps {fps} must be positive")
    frames = int((states - 1) * dt * fps + 1e-9) + 1
    return np.minimum(np.round(np.arange(frames) / (fps * dt)).astype(int), states - 1)


def world_poses(model: Model, q: np.ndarray) -> np.ndarray:
    """Link poses [frames, worlds, num_links, 7] of coordinates [frames, worlds, nq]."""
    frames, worlds = q.shape[:2]
    poses = forward_kinematics(model, q.reshape(-1, model.nq)).numpy()
    return poses.reshape(frames, worlds, model.num_links, 7)
