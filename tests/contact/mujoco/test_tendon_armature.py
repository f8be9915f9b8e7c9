"""Armature of tendons: steps and energy beside MuJoCo, and gradients."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import sim
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS, case, check

DT = 0.003
XML = """
<mujoco>
  <option timestep="0.003" cone="elliptic" integrator="{integrator}" tolerance="0" iterations="200"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <site name="ceiling" pos="0.3 0.2 2"/>
    <body name="upper" pos="0 0 1"><joint name="a" type="hinge" axis="0 1 0" damping="0.8" armature="0.02"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/><site name="elbow" pos="0.3 0 0.1"/>
      <body name="lower" pos="0.4 0 0"><joint name="b" type="hinge" axis="0 1 0.2" ref="20" damping="0.3"/>
        <geom type="capsule" fromto="0 0 0 0 0.1 -0.4" size="0.04"/><site name="wrist" pos="0 0.1 -0.3"/></body>
      <body name="twin" pos="0.2 0 0"><joint name="c" type="slide" axis="1 0 0.3"/>
        <geom type="box" size="0.05 0.06 0.07"/></body></body>
    <body name="loose" pos="1 0.3 0.05"><freejoint/><geom type="box" size="0.1 0.06 0.05"/>
      <site name="hook" pos="0.1 0.06 0.05"/></body>
  </worldbody>
  <tendon>
    <fixed name="sum" stiffness="8" armature="0.3" limited="true" range="-0.1 0.15">
      <joint joint="a" coef="0.7"/><joint joint="b" coef="-1.2"/></fixed>
    <fixed name="light" stiffness="5" frictionloss="0.1"><joint joint="c" coef="2"/></fixed>
    <spatial name="rope" stiffness="3" armature="0.5" frictionloss="0.2">
      <site site="ceiling"/><site site="elbow"/><site site="wrist"/></spatial>
    <spatial name="pulley" armature="1.4" stiffness="2" springlength="1.5">
      <site site="ceiling"/><site site="hook"/><pulley divisor="2"/>
      <site site="ceiling"/><site site="hook"/></spatial>
  </tendon>
  <actuator><motor name="winch" tendon="rope" gear="-3"/></actuator>
  <sensor><e_kinetic/></sensor>
</mujoco>
"""
CONTROL = (0.4,)
CONTACT = sim.MujocoContact(solref=(0.05, 0.7), solimp=(0.5, 0.95, 0.3, 0.4, 3.0))


def written(folder: Path, integrator: str = "Euler") -> Path:
    path = folder / "scene.xml"
    path.write_text(XML.format(integrator=integrator))
    return path


def start(model: sim.Model) -> tuple[np.ndarray, np.ndarray]:
    """The box touches the ground, a tendon is beyond its limit, and all move."""
    rate = 0.05 * np.sin(1.0 + np.arange(model.nv))
    rate[-6:] = 0.0
    q = sim.integrate(model, model.q0[None], rate[None], 1.0).numpy()[0]
    q[-5] -= 0.002
    qd = np.cos(1.7 * np.arange(model.nv))
    qd[-4] = -0.1
    return q, qd


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_steps(tmp_path, integrator):
    path = written(tmp_path, integrator)
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    q, qd = start(model)
    data = data_at(peer, model, q, qd, ctrl=CONTROL)
    mujoco.mj_forward(peer, data)
    assert {"mjCNSTR_LIMIT_TENDON", "mjCNSTR_CONTACT_ELLIPTIC", "mjCNSTR_FRICTION_TENDON"} <= {
        mujoco.mjtConstraint(int(kind)).name for kind in data.efc_type
    }
    states = (torch.tensor(np.tile(each, (2, 1, 1))) for each in (q, qd))
    energy = sim.torch.Sensors(simulator)(*states)
    np.testing.assert_allclose(energy.item(), data.sensordata[0], rtol=1e-12)
    bodies = sim.kinetic_energy(model, q[None], qd[None]).numpy().item()
    assert data.sensordata[0] - bodies > 0.1
    for _ in range(5):
        mujoco.mj_step(peer, data)
    end = simulator.rollout(simulator.state(q, qd), steps=5, control=np.tile(CONTROL, (5, 1, 1))).final_state
    qpos, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    np.testing.assert_allclose(
        simulator.engine.shards[0].step.law.tendon_inverse_weight.numpy(), peer.tendon_invweight0
    )
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-10)
    np.testing.assert_allclose(qpos, data.qpos, atol=1e-12)


NAMES = (
    "mass", "com", "inertia", "armature", "damping", "joint_placement", "tendon_coefficient", "tendon_point",
    "tendon_armature", "tendon_stiffness", "gravity",
)  # fmt: skip


@pytest.mark.parametrize("contact", [CONTACT, sim.HardContact(), sim.PgsContact()],
                         ids=["mujoco", "hard", "pgs"])  # fmt: skip
def test_gradients(tmp_path, contact):
    model = load_quietly(written(tmp_path))
    c = case(model, 4, *start(model), contact=contact, dt=DT)
    check(replace(c, control=np.tile(CONTROL, (4, 1))), NAMES)


def test_gradients_with_rk4(tmp_path):
    model = load_quietly(written(tmp_path))
    c = case(model, 2, *start(model), contact=CONTACT, dt=DT)
    check(replace(c, integrator="rk4", control=np.tile(CONTROL, (2, 1))), NAMES)


@pytest.mark.parametrize("law", ["mujoco", "hard"])
def test_many_worlds_are_as_one(tmp_path, law):
    """On a CPU sixteen worlds or more are worked on eight at a time."""
    model = load_quietly(written(tmp_path))
    q, qd = start(model)
    ends = []
    for worlds in (1, 16):
        simulator = sim.Simulator(model, DT, worlds, "cpu", METHODS[law]())
        trajectory = simulator.rollout(simulator.state(q, qd), steps=4)
        gradients = trajectory.backward(qd_grad=np.ones((worlds, model.nv)), parameters=["tendon_armature"])
        gradient = gradients.parameters["tendon_armature"] / worlds
        ends.append((trajectory.final_state.qd.numpy()[-1], gradient))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_a_rotor_behind_a_rope_is_a_rotor_in_the_joint():
    """A mass that hangs from a drum: the tendon's armature acts like the mass's own, but bears no weight."""
    builder = sim.ModelBuilder()
    link = builder.add_link("mass", mass=2.0)
    builder.add_joint("slide", "prismatic", child=link, axis=(0, 0, 1))
    builder.add_spatial_tendon("rope", [("world", (0, 0, 3)), ("mass", (0, 0, 0))], armature=3.0)
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 0.01, device="cpu")
    end = simulator.step(simulator.initial_state())
    np.testing.assert_allclose(end.qd.numpy()[0, 0], -0.01 * 9.81 * 2.0 / 5.0, rtol=1e-12)


def test_written_again(tmp_path):
    from sim.exporters import write_mjcf
    from sim.usd import write_usd

    model = load_quietly(written(tmp_path))
    assert model.parameters["tendon_armature"].tolist() == [0.3, 0.0, 0.5, 1.4]
    write_mjcf(tmp_path / "again.xml", model)
    write_usd(tmp_path / "again.usda", model, sim.forward_kinematics(model, model.q0[None]).numpy(), fps=24)
    for name in ("again.xml", "again.usda"):
        again = load_quietly(tmp_path / name)
        assert again.parameters["tendon_armature"].tolist() == [0.3, 0.0, 0.5, 1.4], name


def test_what_is_refused(tmp_path):
    builder = sim.ModelBuilder()
    for name in "ab":
        link = builder.add_link(name, mass=1.0, inertia=(1, 1, 1))
        builder.add_joint(f"j{name}", "revolute", child=link, axis=(0, 1, 0))
    pin = sim.TendonWrap(link="world", radius=0.05)
    with pytest.raises(sim.ModelError, match="tendon 't': armature is -1"):
        builder.add_fixed_tendon("t", {"ja": 1.0}, armature=-1.0)
    builder.add_fixed_tendon("both", {"ja": 1.0, "jb": 1.0})
    builder.add_spatial_tendon("around", [("world", (-0.2, 0, 0.03)), pin, ("a", (0.2, 0, 0.03))])
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, DT, device="cpu")
    with pytest.raises(sim.ModelError, match=r"'both': its armature acts on joints of 2 branches, .* 'ja', 'jb'"):
        simulator.parameters["tendon_armature"] = np.array([1.0, 0.0])
    with pytest.raises(sim.ModelError, match="tendon 'around': armature"):
        simulator.parameters["tendon_armature"] = np.array([0.0, 1.0])
    heavy = sim.Simulator(load_quietly(written(tmp_path)), DT, device="cpu")
    with pytest.raises(sim.ModelError, match="JointForces: .* armature"):
        sim.torch.JointForces(heavy)
    with pytest.raises(sim.ModelError, match="integrator=.* tendon 'pulley'"):
        sim.Simulator(load_quietly(written(tmp_path)), DT, contact=CONTACT, integrator="implicitfast")
