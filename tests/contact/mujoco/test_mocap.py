"""Mocap bodies as kinematic links: one step beside MuJoCo, gradients in their pose, written again."""

import mujoco
import numpy as np
import pytest

import sim
from tests.importers.mjcf_zoo import load_quietly
from tests.simulation.differences import case, check

XML = """
<mujoco>
  <option timestep="0.003" cone="elliptic" tolerance="0" iterations="200"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body name="hand" mocap="true" pos="0 0 0.5" quat="0.9 0.1 0.3 0"><geom type="sphere" size="0.1" pos="0.02 0 0"/>
      <body name="thumb" pos="0.3 0 0"><geom type="capsule" size="0.02 0.1"/>
        <body name="flap" pos="0 0 0.2"><joint name="flap" axis="0 1 0"/><geom type="sphere" size="0.05" pos="0.1 0 0"/>
    </body></body></body>
    <body name="ball" pos="0 0 0.65"><freejoint/><geom type="sphere" size="0.1"/></body>
    <body name="held" pos="0 1 1"><freejoint/><geom type="box" size="0.1 0.06 0.05"/></body>
    <body name="target" mocap="true" pos="0 1 1.02"/>
  </worldbody>
  <equality><weld body1="target" body2="held" solref="0.03 1"/></equality>
</mujoco>
"""
POSES = {"hand": (0.01, -0.02, 0.57, 0.8, 0.2, 0.1, -0.3), "target": (0.05, 1.0, 1.1, 1.0, 0.0, 0.3, 0.1)}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mocap.xml"
    path.write_text(XML)
    return path


def moved(model: sim.Model) -> np.ndarray:
    """The placements of all joints, with those of mocap bodies elsewhere; MuJoCo's quaternions are wxyz."""
    placement = model.parameters["joint_placement"].copy()
    for name, pose in POSES.items():
        turn = np.roll(pose[3:], -1)
        placement[model.link(name)] = (*pose[:3], *(turn / np.linalg.norm(turn)))
    return placement


def test_one_step(file):
    peer, model = mujoco.MjModel.from_xml_path(str(file)), load_quietly(file)
    assert model.kinematic_links == ("hand", "target")
    data = mujoco.MjData(peer)
    for body, (name, pose) in enumerate(POSES.items()):
        assert peer.body_mocapid[peer.body(name).id] == body
        data.mocap_pos[body], data.mocap_quat[body] = pose[:3], pose[3:] / np.linalg.norm(pose[3:])
    qd = np.cos(np.arange(model.nv))
    data.qpos, data.qvel = sim.to_mujoco(model, model.q0, qd)
    mujoco.mj_step(peer, data)
    assert {tuple(sorted(pair)) for pair in data.contact.geom.tolist()} == {(1, 4)}
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    still = simulator.step(simulator.state(model.q0, qd)).qd.numpy()
    simulator.parameters["joint_placement"] = moved(model)
    end = simulator.step(simulator.state(model.q0, qd))
    _, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-11)
    assert np.abs(still - end.qd.numpy()).max() > 0.1


def test_gradients(file):
    model = load_quietly(file)
    model.parameters["joint_placement"][:] = moved(model)
    c = case(model, 3, model.q0, np.cos(np.arange(model.nv)), contact=sim.MujocoContact(), dt=0.003)
    check(c, ["joint_placement"])
    check(case(model, 3, model.q0, np.cos(np.arange(model.nv)), dt=0.003), ["joint_placement"])


def test_written_again(file, tmp_path):
    from sim.exporters import write_mjcf

    model = load_quietly(file)
    write_mjcf(tmp_path / "again.xml", model)
    again = load_quietly(tmp_path / "again.xml")
    assert again.kinematic_links == model.kinematic_links
    np.testing.assert_allclose(
        again.parameters["joint_placement"], model.parameters["joint_placement"], rtol=1e-12, atol=1e-15
    )
