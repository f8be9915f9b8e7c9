"""Steps of an MJCF file here and in MuJoCo, whose solver runs to the end."""

import warnings
from pathlib import Path

import mujoco
import numpy as np

import sim


def load_noting(path: Path) -> tuple[sim.Model, str]:
    """The model in float64, and what its one warning says after the file's name; "" without one."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = sim.load(path, dtype="float64")
    assert len(said) <= 1
    assert all(warning.category is sim.MJCFWarning for warning in said)
    return model, "".join(str(warning.message).removeprefix(f"{path}: ") for warning in said)


def exactly(peer: mujoco.MjModel) -> mujoco.MjModel:
    """MuJoCo's model with a solver and a search for contacts that run to the end."""
    peer.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    peer.opt.tolerance, peer.opt.iterations, peer.opt.ls_iterations, peer.opt.ls_tolerance = 0.0, 100, 100, 1e-10
    peer.opt.ccd_tolerance, peer.opt.ccd_iterations = 1e-12, 200
    return peer


def difference(path: Path, qpos=None, qvel=None, ctrl=None, steps: int = 10) -> float:
    """The largest difference of coordinates and velocities along some steps."""
    peer = exactly(mujoco.MjModel.from_xml_path(str(path)))
    data = mujoco.MjData(peer)
    data.qpos = peer.qpos0 if qpos is None else qpos
    data.qvel = 0.0 if qvel is None else qvel
    data.ctrl = 0.0 if ctrl is None else ctrl
    model, _ = load_noting(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    state, worst = simulator.state(*sim.from_mujoco(model, data.qpos, data.qvel)), 0.0
    for _ in range(steps):
        mujoco.mj_step(peer, data)
        state = simulator.step(state, **({} if ctrl is None else {"control": np.array(ctrl)}))
        q, qd = sim.to_mujoco(model, state.q.numpy()[0], state.qd.numpy()[0])
        worst = max(worst, np.abs(q - data.qpos).max(), np.abs(qd - data.qvel).max())
    return worst
