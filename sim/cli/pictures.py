"""Frames of a motion, for the commands that draw it."""

import numpy as np

from sim.arrays.device_model import DeviceModel
from sim.cli.files import UsageError, say
from sim.dynamics.kinematics import forward_kinematics
from sim.model.model import Model


def frames_per_second(given: float | None, usual: float, dt: float) -> float:
    """The rate of --fps, or the usual one, but at most one frame for each step; prints it if it isn't the given one.

    Raises:
        UsageError: for a number that is not positive.
    """
    if given is not None and not (np.isfinite(given) and given > 0.0):
        raise UsageError(f"--fps {given} must be positive")
    fps = usual if given is None else given
    if fps * dt <= 1.0 + 1e-9:
        return fps
    if given is not None:
        say([f"--fps {given:g} is more than the {1.0 / dt:g} steps per second; one frame per step is written"])
    return 1.0 / dt


def every(states: int, dt: float, fps: float) -> np.ndarray:
    """Indices of the states nearest to the times of the frames."""
    frames = int((states - 1) * dt * fps + 1e-9) + 1
    return np.minimum(np.round(np.arange(frames) / (fps * dt)).astype(int), states - 1)


def world_poses(model: Model, q: np.ndarray) -> np.ndarray:
    """Link poses [frames, worlds, num_links, 7] of coordinates [frames, worlds, nq]."""
    frames, worlds = q.shape[:2]
    poses = forward_kinematics(DeviceModel(model, "cpu"), q.reshape(frames * worlds, model.nq)).numpy()
    return poses.reshape(frames, worlds, model.num_links, 7)
