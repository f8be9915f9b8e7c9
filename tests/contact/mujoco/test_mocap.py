"""Mocap bodies as kinematic links: one step beside MuJoCo, gradients in their pose, written again."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

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


class TestWithVelocity:
    """Mocap bodies on kinematic free joints, with a path of poses as input."""

    @pytest.mark.parametrize("contact", [None, sim.HardContact()])
    @pytest.mark.parametrize("speed", [0.1, 1.0, 10.0])
    def test_pushes_lifts_and_holds_without_lag(self, file, speed, contact):
        model = load_quietly(file, mocap="free")
        assert (model.nk, model.kinematic_links) == (12, ())
        simulator = sim.Simulator(model, 1e-3, contact=contact)
        q, steps = model.q0.copy(), 100
        hand, target, ball, held = (
            model.q_slice(model.joint_names[model.link(name)]) for name in ("hand", "target", "ball", "held")
        )
        q[ball] = (0.02 + 0.2, 0.0, 0.5, 0, 0, 0, 1)
        path = np.tile(np.concatenate([q[hand], q[target]]), (steps + 1, 1))
        path[:, [0, 7]] += speed * 1e-3 * np.arange(steps + 1)[:, None]
        turn = model.q0[hand][3:]
        given = sim.velocities_along(simulator, path)
        trajectory = simulator.rollout(simulator.state(q), kinematic_qd=given)
        end = trajectory.q.numpy()[-1, 0]
        np.testing.assert_allclose(end[hand][:3] - q[hand][:3], (0.1 * speed, 0, 0), atol=1e-12)
        np.testing.assert_allclose(end[hand][3:], turn, atol=1e-12)
        hit = q[hand][:3] + 0.1 * speed * np.eye(3)[0]
        sphere = hit + rotated(turn, (0.02, 0, 0))
        assert np.linalg.norm(end[ball][:3] - sphere) > 0.2 - (1e-4 if contact else 2e-3 + 5e-3 * speed)
        assert end[held][0] == pytest.approx(q[held][0] + 0.1 * speed, abs=1e-3 if contact else 0.05 * speed)

    def test_keyframes_have_their_poses(self, tmp_path):
        path = tmp_path / "key.xml"
        key = '<key name="up" qpos="0 1 2 1 0 0 0" qvel="1 2 3 0 0 0" mpos="1 2 3" mquat="0 0 0 2"/>'
        bodies = '<body name="ball" pos="0 1 1"><freejoint/><geom size="0.1"/></body><body name="hand" mocap="true"/>'
        path.write_text(f"<mujoco><worldbody>{bodies}</worldbody><keyframe>{key}</keyframe></mujoco>")
        scene = sim.ModelBuilder()
        part = scene.add_mjcf(path, mocap="free", position=(0, 0, 1))
        model = scene.finalize("float64")
        found = part.keyframes["up"]
        np.testing.assert_allclose(found.q, [0, 1, 3, 0, 0, 0, 1, 1, 2, 4, 0, 0, 1, 0], atol=1e-15)
        np.testing.assert_allclose(found.qd, [1, 2, 3, 0, 0, 0, *np.zeros(6)], atol=1e-15)
        assert model.prescribed.tolist() == [False] * 6 + [True] * 6
        with pytest.warns(sim.MJCFWarning, match="mocap"):
            sim.load(path)
        path.write_text(path.read_text().replace("0 0 0 2", "0 0 0 0"))
        with pytest.raises(sim.ImportFileError, match="mquat.*'hand'"):
            sim.load(path, mocap="free")
        with pytest.raises(sim.ModelError, match="mocap.*fixed, free"):
            sim.load(path, mocap="moving")


def rotated(turn: np.ndarray, vector) -> np.ndarray:
    return Rotation.from_quat(turn).apply(vector)
