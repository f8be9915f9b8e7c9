"""States here and in MuJoCo: set there, compared here."""

import mujoco
import numpy as np
from numpy.typing import ArrayLike

import sim


def data_at(
    peer: mujoco.MjModel, model: sim.Model, q: ArrayLike, qd: ArrayLike, *, ctrl: ArrayLike = 0.0
) -> mujoco.MjData:
    """Return MuJoCo's data with coordinates, velocities and controls set; nothing is computed from them yet."""
    data = mujoco.MjData(peer)
    data.qpos, data.qvel = sim.to_mujoco(model, q, qd)
    data.ctrl = ctrl
    return data


def assert_same_state(
    model: sim.Model, state: sim.State, data: mujoco.MjData, qpos_atol: float, qvel_atol: float, *, world: int = 0
) -> None:
    """Check coordinates and velocities of a world against those of MuJoCo."""
    qpos, qvel = sim.to_mujoco(model, state.q.numpy()[world], state.qd.numpy()[world])
    np.testing.assert_allclose(qvel, data.qvel, atol=qvel_atol)
    np.testing.assert_allclose(qpos, data.qpos, atol=qpos_atol)
