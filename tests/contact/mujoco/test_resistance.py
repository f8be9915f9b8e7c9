"""Torsional and rolling friction by MuJoCo's pyramids and cones: one step beside MuJoCo, forces, gradients."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

import sim
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import blocks, case, check
from warp_kernels.constraints.kinds import CONTACT, ROLL, SPIN, TORSION

DT = 0.004
XML = """
<mujoco>
  <option timestep="0.004" cone="{cone}" impratio="{impratio}" tolerance="0" iterations="200"/>
  <default><geom solref="0.03 0.9" solimp="0.7 0.95 0.02 0.4 3"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" friction="0.7 0.02 0.003"/>
    <body pos="0 0 0.098"><freejoint/>
      <geom type="sphere" size="0.1" mass="1.3" friction="0.5 0.03 0.01" condim="6"/></body>
    <body pos="1 0 0.0985"><freejoint/>
      <geom type="sphere" size="0.1" mass="0.8" friction="0.9 0.05 0" condim="4"/></body>
    <body pos="1.195 0 0.0997"><freejoint/>
      <geom type="sphere" size="0.1" mass="0.8" friction="0.4 0.01 0.02" condim="6"/></body>
    <body pos="3 0 0.5"><joint name="turn" type="hinge" axis="0 0 1"/><joint name="press" type="slide" axis="0 0 1"/>
      <geom type="sphere" pos="0.2 0 -0.402" size="0.1" friction="0.6 0.04 0.001" condim="4"/></body>
  </worldbody>
</mujoco>
"""


def scene(folder, cone="pyramidal", impratio=1.0):
    path = folder / "scene.xml"
    path.write_text(XML.format(cone=cone, impratio=impratio))
    model = load_quietly(path)
    qd = np.cos(1.3 * np.arange(model.nv))
    qd[2:18:6] = -0.2  # no contact opens
    return path, model, qd


@pytest.mark.parametrize("speed", [1.0, 1e-4])
@pytest.mark.parametrize("impratio", [1.0, 5.0])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_one_step(tmp_path, cone, impratio, speed):
    """Sliding, spinning and rolling, and at speeds at which friction holds."""
    path, model, qd = scene(tmp_path, cone, impratio)
    qd = speed * qd
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(peer, model, model.q0, qd)
    mujoco.mj_step(peer, data)
    assert sorted(data.contact.dim.tolist()) == [4, 4, 6, 6, 6]
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    end = simulator.step(simulator.state(model.q0, qd))
    _, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    np.testing.assert_allclose(qvel, data.qvel, atol=1e-11)
    kinds = [block.kind for block in blocks(simulator)]
    found = [kinds.count(kind) for kind in (CONTACT, SPIN, ROLL, TORSION)]
    assert found == ([5, 5, 3, 0] if cone == "pyramidal" else [5, 0, 0, 5])


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_forces_and_torques(tmp_path, cone):
    path, model, qd = scene(tmp_path, cone)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(peer, model, model.q0, qd)
    mujoco.mj_forward(peer, data)
    settings = sim.mujoco_settings(model)
    simulator = sim.Simulator(model, **settings, contact_sensors=[1])
    found = simulator.contacts(simulator.state(model.q0, qd))
    theirs = []
    for number in range(data.ncon):
        wrench, frame = np.zeros(6), data.contact.frame[number].reshape(3, 3)
        mujoco.mj_contactForce(peer, data, number, wrench)
        theirs.append((frame.T @ wrench[:3], frame.T @ wrench[3:], data.contact.pos[number]))
    for force, torque, position in theirs:
        nearest = np.linalg.norm(found.point - position, axis=1).argmin()
        sign = np.sign(found.force[nearest] @ force)
        np.testing.assert_allclose(sign * found.force[nearest], force, atol=1e-9)
        np.testing.assert_allclose(sign * found.torque[nearest], torque, atol=1e-10)
    trajectory = simulator.rollout(simulator.state(model.q0, qd), steps=1)
    measured = trajectory.contact_force.numpy()[0, 0, 0]
    np.testing.assert_allclose(measured, found.force_on(1, 1)[0], atol=1e-10)


@pytest.mark.parametrize("speed", [1.0, 1e-3])
@pytest.mark.parametrize("impratio", [1.0, 5.0])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_gradients(tmp_path, cone, impratio, speed):
    _, model, qd = scene(tmp_path, cone, impratio)
    qd = speed * qd
    contact = replace(sim.mujoco_settings(model)["contact"], solref=(0.03, 0.9), solimp=(0.7, 0.95, 0.02, 0.4, 3.0))
    names = [
        "mass",
        "inertia",
        "friction",
        "torsional_friction",
        "rolling_friction",
        "geometry_size",
        "solref",
        "solimp",
    ]
    check(case(model, 3, model.q0, qd, contact=contact, dt=DT), names)
