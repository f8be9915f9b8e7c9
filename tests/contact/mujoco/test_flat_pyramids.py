"""Pyramids with little friction under MuJoCo's law, whose edges are stiffer than the normal force by 1 / (2 mu^2)."""

import mujoco
import numpy as np
import pytest

import sim
from tests.importers.mjcf_zoo import load_quietly

XML = """
<mujoco>
  <option cone="{cone}" tolerance="1e-14" iterations="200"/>
  <worldbody>
    <geom type="plane" size="5 5 1" friction="{friction}"/>
    <body pos="0 0 0.095"><freejoint/><geom type="sphere" size="0.1" condim="{condim}" friction="{friction}"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("condim", [3, 6])
@pytest.mark.parametrize("friction", ["0 0 0", "1e-2 0.01 0.01", "1e-3 0.01 0.01", "0 0.01 0.01"])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_motion(tmp_path, cone, friction, condim):
    """A ball slides into the floor and out of it as in MuJoCo, which has no friction below 1e-5."""
    path = tmp_path / "scene.xml"
    path.write_text(XML.format(cone=cone, friction=friction, condim=condim))
    model = load_quietly(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qvel = [1.0, 0.3, 0.0, 0.5, 0.2, 0.1]
    q, qd = sim.from_mujoco(model, data.qpos, data.qvel)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    trajectory = simulator.rollout(simulator.state(q, qd), steps=60)
    theirs = np.zeros((60, 6))
    for step in range(60):
        mujoco.mj_step(peer, data)
        theirs[step] = data.qvel
    _, ours = sim.to_mujoco(model, trajectory.q.numpy()[1:, 0], trajectory.qd.numpy()[1:, 0])
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize("num_worlds", [1, 16])
@pytest.mark.parametrize(("dtype", "left"), [("float64", 1e-4), ("float32", 0.1)])
@pytest.mark.parametrize("friction", [1e-2, 1e-5])
def test_stack(friction, dtype, left, num_worlds):
    """Every step of a stack that slides apart is solved, also in single precision, for one world and for many."""
    builder = sim.ModelBuilder()
    material = {"friction": friction, "friction_rule": "maximum"}
    builder.add_ground(**material)
    for number in range(4):
        place = (0, 0, 0.1 + 0.2 * number)
        builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0 + number, position=place, **material)
    model = builder.finalize(dtype)
    contact = sim.ContactOptions(law="mujoco", friction="pyramid")
    simulator = sim.Simulator(model, 2e-3, num_worlds=num_worlds, device="cpu", contact=contact)
    pushes = 0.3 * np.random.default_rng(0).normal(size=(num_worlds, model.nv))
    trajectory = simulator.rollout(simulator.state(model.q0, pushes), steps=150)
    assert simulator.residual.max() < left
    assert np.abs(trajectory.qd.numpy()).max() < 10.0
