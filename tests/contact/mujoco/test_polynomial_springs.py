"""Springs and dampers whose force grows with higher powers: beside MuJoCo's, with gradients, through files."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

import sim
from sim.exporters import write_mjcf
from sim.usd import write_usd
from tests.errors import refuses
from tests.importers.mjcf_zoo import load_quietly
from tests.simulation.differences import METHODS, Case, check

DT = 0.004
XML = """
<mujoco>
  <option timestep="0.004" integrator="{integrator}">{flags}</option>
  <worldbody>
    <site name="hook" pos="0.1 0.2 0.8"/>
    <body name="arm" pos="0 0 1"><joint name="shoulder" axis="0 1 0" stiffness="8 3 20" springref="15" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" contype="0" conaffinity="0"/>
      <body name="hand" pos="0.4 0 0">
        <joint name="wrist" type="slide" axis="1 0.2 0" ref="0.1" stiffness="2 40 900" springref="0.15"/>
        <geom type="box" size="0.05 0.04 0.03" contype="0" conaffinity="0"/><site name="tip" pos="0.02 0.01 0"/></body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="both" stiffness="30 -200 4000" damping="{damping}" springlength="0.1 0.15">
      <joint joint="shoulder" coef="0.5"/><joint joint="wrist" coef="-1.2"/></fixed>
    <spatial name="cord" stiffness="5 60 100" springlength="0.2"><site site="hook"/><site site="tip"/></spatial>
  </tendon>
  <sensor><e_potential name="potential"/></sensor>
</mujoco>
"""
NAMES = (
    "mass", "stiffness", "rest_position", "tendon_stiffness", "tendon_damping", "tendon_stiffness_polynomial",
    "tendon_damping_polynomial", "tendon_rest_lower", "tendon_rest_upper", "tendon_coefficient", "tendon_point",
)  # fmt: skip


def scene(folder, integrator="Euler", damping="2 1 3", flags=""):
    path = folder / "scene.xml"
    path.write_text(XML.format(integrator=integrator, damping=damping, flags=flags))
    return path, load_quietly(path)


def start():
    return np.array([0.5, -0.1]), np.array([1.5, -0.8])


@pytest.mark.parametrize(("integrator", "damping"), [("Euler", "2 1 3"), ("RK4", "2 1 3"), ("implicitfast", "0")])
def test_beside_mujoco(tmp_path, integrator, damping):
    path, model = scene(tmp_path, integrator, damping)
    assert model.tendons.names == ("both", "cord", "shoulder/spring", "wrist/spring")
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos, data.qvel = start()
    theirs = []
    for _ in range(40):
        mujoco.mj_step(peer, data)
        theirs.append(np.concatenate([data.qpos, data.qvel, data.sensordata]))
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    q, qd = (torch.tensor(each[None]) for each in start())
    q, qd, energy = sim.torch.rollout(simulator, q, qd, steps=40, sensors=sim.torch.Sensors(simulator))
    found = torch.cat([q[1:], qd[1:], energy], dim=-1)[:, 0].numpy()
    np.testing.assert_allclose(found, theirs, atol=1e-10 * np.abs(theirs).max())


def test_their_forces_are_among_those_of_joints(tmp_path):
    path, model = scene(tmp_path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos, data.qvel = start()
    mujoco.mj_step(peer, data)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    q, qd = (torch.tensor(each[None]) for each in start())
    q, qd = sim.torch.rollout(simulator, q, qd, steps=1)
    passive = sim.torch.JointForces(simulator)(q, qd).passive[0, 0].numpy()
    later = -model.parameters["damping"] * (qd[1] - qd[0])[0].numpy()  # dampers of joints act at the end of a step
    np.testing.assert_allclose(passive - later, data.qfrc_passive, rtol=1e-12)


@pytest.mark.parametrize(("law", "integrator"), [("mujoco", "euler"), ("mujoco", "rk4"), ("hard", "euler")])
def test_gradients(tmp_path, law, integrator):
    _, model = scene(tmp_path)
    # Zero can't be lowered.
    raised = {name: model.parameters[name] + 0.5 for name in ("tendon_stiffness", "tendon_damping")}
    model = replace(model, parameters={**model.parameters, **raised})
    contact = METHODS[law]()
    q, qd = start()
    check(Case(model, q, qd, np.zeros((3, 2)), contact, DT, integrator=integrator), NAMES)


@pytest.mark.parametrize("ending", [".xml", ".usdc"])
def test_they_come_back_from_files(tmp_path, ending):
    _, model = scene(tmp_path)
    file = tmp_path / f"again{ending}"
    if ending == ".xml":
        write_mjcf(file, model)
    else:
        write_usd(file, model, sim.forward_kinematics(model, model.q0[None]), fps=30)
    again = sim.load(file, dtype="float64")
    for name in NAMES[3:7]:
        np.testing.assert_allclose(again.parameters[name], model.parameters[name], rtol=1e-12)


def test_flags_switch_springs_off(tmp_path):
    _, model = scene(tmp_path, flags='<flag spring="disable"/>')
    assert model.tendons.names == ("both", "cord")
    assert not model.parameters["tendon_stiffness_polynomial"].any()
    assert model.parameters["tendon_damping_polynomial"].any()
    _, model = scene(tmp_path, flags='<flag damper="disable"/>')
    assert not model.parameters["tendon_damping_polynomial"].any()


def test_what_is_refused(tmp_path):
    _, model = scene(tmp_path, "implicitfast", "0 0 30")
    refuses(lambda: sim.Simulator(model, **sim.mujoco_settings(model), device="cpu"), "'implicitfast'", "tendon 'both'")
    builder = sim.ModelBuilder()
    builder.add_link("a", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("j", "revolute", child="a")
    for given in ((1.0, 2.0, 3.0, 4.0), (), np.nan):
        with pytest.raises(sim.ModelError, match=r"^Spring: stiffness is .*up to three"):
            builder.add_fixed_tendon("t", {"j": 1.0}, spring=sim.Spring(stiffness=given))
    refuses(lambda: builder.add_fixed_tendon("t", {"j": 1.0}, spring=sim.Spring(damping=(-1.0, 2.0))), "damping", -1)
