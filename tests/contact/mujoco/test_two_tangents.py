"""Pairs of geoms with MuJoCo's five friction numbers: one step beside MuJoCo, forces, gradients."""

import mujoco
import numpy as np
import pytest

import sim
from sim.exporters.mjcf.exporter import write_mjcf
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import case, check

DT = 0.004
XML = """
<mujoco>
  <option timestep="0.004" cone="{cone}" impratio="{impratio}" noslip_iterations="{noslip}" tolerance="0"
    iterations="200"/>
  <default><geom solref="0.03 0.9" solimp="0.7 0.95 0.02 0.4 3"/></default>
  <worldbody>
    <geom name="ground" type="plane" size="5 5 1"/>
    <body pos="0 0 0.098" euler="10 20 30"><freejoint/><geom name="ball" type="sphere" size="0.1" mass="1.3"/></body>
    <body pos="1 0 0.098" euler="0 0 30"><freejoint/><geom name="box" type="box" size="0.15 0.2 0.1" mass="1.3"/></body>
    <body pos="2 0 0.0985" euler="0 90 25"><freejoint/>
      <geom name="capsule" type="capsule" size="0.1 0.2" mass="0.8"/></body>
    <body pos="0.195 0 0.12"><freejoint/><geom name="other" type="sphere" size="0.1" mass="1.1"/></body>
  </worldbody>
  <contact>
    <pair geom1="ground" geom2="ball" condim="6" friction="0.4 0.9 0.02 0.01 0.002"/>
    <pair geom1="ground" geom2="box" condim="3" friction="0.8 0.3 0.02 0.01 0.002"/>
    <pair geom1="capsule" geom2="ground" condim="4" friction="0.2 0.7 0.03 0.005 0.02"/>
    <pair geom1="ball" geom2="other" condim="6" friction="0.1 0.7 0.03 0.005 0.02"/>
  </contact>
</mujoco>
"""


def scene(folder, cone, impratio=1.0, noslip=0):
    path = folder / "scene.xml"
    path.write_text(XML.format(cone=cone, impratio=impratio, noslip=noslip))
    model = load_quietly(path)
    qd = np.cos(1.3 * np.arange(model.nv))
    qd[2::6] = -0.2  # no contact opens
    return path, model, qd


@pytest.mark.parametrize("speed", [1.0, 1e-4])
@pytest.mark.parametrize("impratio", [1.0, 5.0])
@pytest.mark.parametrize("noslip", [0, 3])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_one_step(tmp_path, cone, noslip, impratio, speed):
    """At speeds at which the bodies slide and at which friction holds; read again from our own file, too."""
    path, model, qd = scene(tmp_path, cone, impratio, noslip)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(peer, model, model.q0, speed * qd)
    mujoco.mj_step(peer, data)
    assert data.ncon == 8
    again = load_quietly(write_mjcf(tmp_path / "again.xml", model))
    for read in (model, again):
        assert len(read.pair_frictions) == len(model.pair_frictions)
        simulator = sim.Simulator(read, **sim.mujoco_settings(model))
        end = simulator.step(simulator.state(model.q0, speed * qd))
        _, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
        # MuJoCo's noslip solver ends its sweeps of pyramids early.
        np.testing.assert_allclose(qvel, data.qvel, atol=1e-8 if noslip and cone == "pyramidal" else 1e-11)


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_forces_and_torques(tmp_path, cone):
    path, model, qd = scene(tmp_path, cone)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(peer, model, model.q0, qd)
    mujoco.mj_forward(peer, data)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), contact_sensors=[1])
    found = simulator.contacts(simulator.state(model.q0, qd))
    for number in range(data.ncon):
        wrench, frame = np.zeros(6), data.contact.frame[number].reshape(3, 3)
        mujoco.mj_contactForce(peer, data, number, wrench)
        force, torque = frame.T @ wrench[:3], frame.T @ wrench[3:]
        nearest = np.linalg.norm(found.point - data.contact.pos[number], axis=1).argmin()
        sign = np.sign(found.force[nearest] @ force)
        np.testing.assert_allclose(sign * found.force[nearest], force, atol=1e-9)
        np.testing.assert_allclose(sign * found.torque[nearest], torque, atol=1e-10)
    trajectory = simulator.rollout(simulator.state(model.q0, qd), steps=1)
    np.testing.assert_allclose(trajectory.contact_force.numpy()[0, 0, 0], found.force_on(1, 1)[0], atol=1e-10)


@pytest.mark.parametrize("speed", [1.0, 1e-3])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_gradients(tmp_path, cone, speed):
    _, model, qd = scene(tmp_path, cone)
    contact = sim.mujoco_settings(model)["contact"]
    check(case(model, 3, model.q0, speed * qd, contact=contact, dt=DT), ["mass", "inertia", "geometry_size"])
