"""MuJoCo's integrator "implicit" here and there, and its gradients."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

import sim
from tests.contact.mujoco.scenes import CONTROL, DT, SOLREF, Pair
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import assert_same_state, data_at
from tests.simulation.differences import case, check

WIDE = (0.7, 0.95, 0.02, 0.4, 3.0)
GENTLE = (-0.4, 0.3, 0.2)


@pytest.mark.parametrize("steps", [1, 50])
@pytest.mark.parametrize("control", [CONTROL, GENTLE], ids=["at limits", "within limits"])
def test_against_mujoco(tmp_path, control, steps):
    """Servos with velocity gains, at their limits of force and within; the arm is beyond its range."""
    pair = Pair(tmp_path)
    ours = sim.Simulator(pair.model, DT, 1, "cpu", pair.contact, integrator="implicit")
    end = ours.rollout(ours.state(pair.q, pair.qd), control=np.tile(control, (steps, 1, 1))).final_state
    ends = []
    for name in ("IMPLICIT", "IMPLICITFAST"):
        pair.peer.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{name}")
        data = pair.theirs()
        data.ctrl = control
        mujoco.mj_step(pair.peer, data, steps)
        ends.append(data)
    data, fast = ends
    assert np.abs(data.qvel - fast.qvel).max() > 1e-6
    assert_same_state(pair.model, end, data, 1e-13 if steps == 1 else 1e-9, 1e-11 if steps == 1 else 1e-8)


def test_gradients_in_contact(tmp_path):
    pair = Pair(tmp_path, solimp=WIDE)
    c = case(pair.model, 5, pair.q, pair.qd, contact=replace(pair.contact, solref=SOLREF, solimp=WIDE), dt=DT)
    names = ["mass", "com", "inertia", "armature", "damping", "friction", "actuator_kd", "actuator_gear"]
    check(replace(c, control=np.tile(GENTLE, (5, 1)), integrator="implicit"), names)


# Every kind of joint, on the world and above others, fast.
JOINTS = """
<mujoco>
  <option timestep="0.01" integrator="implicit"/><default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="float" pos="0 0 3"><joint type="free" damping="0.3"/>
      <geom type="box" pos=".1 .05 .02" size=".2 .15 .1" mass="2"/>
      <body name="arm" pos=".3 0 0"><joint name="yaw" axis="0 0 1" damping=".5" armature="0.03"/>
        <joint name="pitch" axis="0 1 0.2" damping=".1"/>
        <geom type="box" pos=".2 0 0" size=".2 .05 .1" mass="1"/>
        <body name="ball" pos=".4 0 0"><joint type="ball" damping="0.05"/>
          <geom type="box" pos=".1 .1 0" size=".1 .08 .05" mass="0.7"/>
          <body name="tip" pos="0 0 .2"><joint name="slide" type="slide" axis="1 0 1" damping=".2"/>
            <geom type="box" size=".05 .08 .1" mass="0.5"/><site name="tip" pos="0.1 0 0"/></body></body></body>
      <body name="wing" pos="-.3 0 0"><joint name="flap" axis="1 0 0" damping=".1"/>
        <geom type="box" pos="0 .2 0" size=".1 .2 .02" mass="0.4"/></body></body>
    <body name="top" pos="3 0 1"><joint type="ball"/><geom type="box" pos="0 0 .3" size=".2 .1 .05" mass="1"/></body>
  </worldbody>
  <tendon><fixed name="drive" armature="0.2"><joint joint="yaw" coef="1"/><joint joint="slide" coef="-2"/></fixed>
    <spatial name="rope" armature="0.3"><site site="peg"/><site site="tip"/></spatial></tendon>
</mujoco>
""".replace("<worldbody>", '<worldbody><site name="peg" pos="0 0 4"/>')


def moving(folder: Path, armature: bool) -> tuple[Path, sim.Model, np.ndarray, np.ndarray]:
    path = folder / "joints.xml"
    path.write_text(JOINTS if armature else JOINTS.replace('armature="0.2"', "").replace('armature="0.3"', ""))
    model = load_quietly(path)
    q = sim.integrate(model, model.q0[None], 0.4 * np.sin(1.0 + np.arange(model.nv))[None], 1.0).numpy()[0]
    return path, model, q, 4.0 * np.cos(1.7 * np.arange(model.nv))


@pytest.mark.parametrize("armature", [False, True], ids=["", "armature of tendons"])
@pytest.mark.parametrize("worlds", [1, 16])
def test_all_joints_turn_as_in_mujoco(tmp_path, worlds, armature):
    """A step changes velocities by some tenths, and differs from one of "implicitfast" by hundredths."""
    path, model, q, qd = moving(tmp_path, armature)
    peer = mujoco.MjModel.from_xml_path(str(path))
    settings = sim.mujoco_settings(model)
    assert settings["integrator"] == "implicit"
    ends = []
    for integrator in ("IMPLICIT", "IMPLICITFAST"):
        peer.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
        data = data_at(peer, model, q, qd)
        mujoco.mj_step(peer, data, 10)
        ends.append(data)
    ours = sim.Simulator(model, num_worlds=worlds, device="cpu", **settings)
    end = ours.rollout(ours.state(q, qd), steps=10).final_state
    assert np.abs(ends[0].qvel - ends[1].qvel).max() > 0.01
    assert_same_state(model, end, ends[0], 1e-12, 1e-10, world=-1)


@pytest.mark.parametrize("armature", [False, True], ids=["", "armature of tendons"])
def test_gradients_of_all_joints(tmp_path, armature):
    _, model, q, qd = moving(tmp_path, armature)
    c = case(model, 3, q, qd, contact=sim.MujocoContact(), dt=0.01)
    names = ["mass", "com", "inertia", "joint_placement", "armature", "damping", "gravity", "tendon_armature"]
    check(replace(c, integrator="implicit"), names if armature else names[:-1])


def test_gradients_are_those_of_one_world(tmp_path):
    _, model, q, qd = moving(tmp_path, True)
    found = []
    for worlds in (1, 16):
        ours = sim.Simulator(model, 0.01, worlds, "cpu", sim.MujocoContact(), integrator="implicit")
        trajectory = ours.rollout(ours.state(q, qd), steps=3)
        gradients = trajectory.backward(qd_grad=np.ones((worlds, model.nv)), parameters=["inertia"])
        found.append((gradients.q.numpy()[-1], gradients.qd.numpy()[-1], gradients.parameters["inertia"] / worlds))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11)
