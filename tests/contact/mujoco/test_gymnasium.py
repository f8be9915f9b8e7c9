"""One step of the robots of gymnasium beside MuJoCo, with the contacts that are found here."""

import mujoco
import numpy as np
import pytest

import sim
from tests.importers.mjcf_zoo import load_quietly
from tests.importers.reference import GYMNASIUM

# point.xml is left out: its body touches the floor at a distance of exactly zero, where rounding decides.
FILES = (
    "ant", "half_cheetah", "hopper", "humanoid", "humanoidstandup", "inverted_double_pendulum", "pusher", "reacher",
    "swimmer", "walker2d_v5",
)  # fmt: skip
STATES, APART = 30, 6


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
@pytest.mark.parametrize("name", FILES)
def test_one_step(name, integrator):
    path = GYMNASIUM / f"{name}.xml"
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    peer = mujoco.MjModel.from_xml_path(str(path))
    theirs = {"euler": mujoco.mjtIntegrator.mjINT_EULER, "rk4": mujoco.mjtIntegrator.mjINT_RK4}
    peer.opt.integrator, peer.opt.tolerance, peer.opt.iterations = theirs[integrator], 0.0, 200
    assert peer.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    model = load_quietly(path)
    contact = sim.MujocoContact(friction="pyramid", impratio=float(peer.opt.impratio))
    simulator = sim.Simulator(model, peer.opt.timestep, STATES, "cpu", contact, integrator=integrator)
    chance, data = np.random.default_rng(0), mujoco.MjData(peer)
    q, qd, before, after, touching = [], [], [], [], 0
    controls = chance.uniform(-0.4, 0.4, size=(STATES, peer.nu))
    for control in controls:
        for _ in range(APART):
            data.ctrl = chance.uniform(-0.4, 0.4, size=peer.nu)
            mujoco.mj_step(peer, data)
        data.ctrl = control
        states = sim.from_mujoco(model, data.qpos, data.qvel)
        q.append(states[0])
        qd.append(states[1])
        before.append(data.qvel.copy())
        mujoco.mj_step(peer, data)
        after.append(data.qvel.copy())
        touching += data.ncon
    end = simulator.rollout(simulator.state(q, qd), control=controls[None]).final_state
    velocities = [sim.to_mujoco(model, *pair)[1] for pair in zip(end.q.numpy(), end.qd.numpy(), strict=True)]
    changes = np.abs(np.subtract(after, before)).max(axis=1)
    np.testing.assert_array_less(np.abs(np.subtract(velocities, after)).max(axis=1), 1e-11 * (changes + 1.0))
    assert touching or name in ("inverted_double_pendulum", "reacher", "swimmer")
