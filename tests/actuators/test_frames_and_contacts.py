"""Actuators on sites and on the contacts of bodies: steps beside MuJoCo, gradients, files, messages."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import sim
from tests.errors import raises_naming
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS, case, check

DT = 0.002
XML = """
<mujoco>
  <option timestep="0.002" cone="{cone}" integrator="{integrator}" tolerance="0" iterations="200"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" margin="0.001" gap="0.001"/>
    <site name="post" pos="0.3 0.2 1" euler="20 -30 40"/>
    <body name="arm" pos="0 0 1"><joint name="a" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/>
      <site name="elbow" pos="0.3 0 0.1" euler="-10 60 30"/>
      <body name="hand" pos="0.4 0 0"><joint name="b" type="ball"/>
        <geom type="capsule" fromto="0 0 0 0 0.1 -0.4" size="0.04"/>
        <site name="tip" pos="0 0.1 -0.3" euler="40 10 -70"/></body>
      <body name="side" pos="0.1 0.2 0"><joint name="c" type="slide" axis="1 0.2 0"/>
        <geom type="box" size="0.05 0.06 0.07"/><site name="slider" pos="0.02 0 0.03" euler="5 15 25"/></body></body>
    <body name="drone" pos="1 0.3 1.2" euler="10 20 30"><freejoint/><geom type="box" size="0.1 0.06 0.05"/>
      <site name="rotor" pos="0.1 0.06 0.05" euler="3 0 10"/></body>
    <body name="foot" pos="-0.5 0 0.1008"><freejoint/><geom name="sole" type="sphere" size="0.1" gap="0.002"/>
      <geom name="heel" type="capsule" fromto="-0.2 0.1 -0.06 0.05 0.1 -0.06" size="0.04"/>
      <body name="pad" pos="0 0 0.2"><joint name="d" type="slide" axis="0 0.1 1"/>
        <geom name="pad" type="sphere" size="0.08" gap="0.01"/></body></body>
    <body name="ball" pos="-0.5 0.09 0.43"><freejoint/><geom name="ball" type="sphere" size="0.0745"/></body>
  </worldbody>
  <actuator>
    <motor name="thrust" site="rotor" gear="0.1 0 1 0 0.02 -0.05" ctrlrange="0 20"/>
    <position name="reach" site="tip" refsite="post" kp="30" kv="2" gear="1 0.2 0 0 0 0" forcerange="-3 4"/>
    <position name="turn" site="tip" refsite="elbow" kp="4" kv="0.3" gear="0 0 0 0.5 1 -0.3"/>
    <general name="odd" site="tip" refsite="slider" gear="0.6 0 3 0.8 0 0.5" gaintype="affine" gainprm="3 0.5 0.2"
      biastype="affine" biasprm="0.4 -5 -0.7" forcerange="-30 20"/>
    <general name="drag" site="slider" gear="1 0 0 0 0 0.1" gainprm="2" biastype="affine" biasprm="0 0 -0.5"/>
    <general name="lag" site="rotor" gear="0 0 0 0 0 0.3" dyntype="filter" dynprm="0.03"/>
    <adhesion name="stick" body="foot" ctrlrange="0 1" gain="8"/>
    <adhesion name="cling" body="pad" ctrlrange="0 2" gain="3"/>
    <motor name="lift" joint="d"/>
  </actuator>
</mujoco>
"""
CONTROL = (15.0, 0.4, -0.3, 0.7, 0.2, 0.6, 0.8, 1.5, 0.3)
NAMES = (
    "mass", "com", "inertia", "joint_placement", "geometry_placement", "geometry_size", "actuator_gear", "actuator_kp",
    "actuator_kd", "actuator_gain", "actuator_offset", "actuator_kp_per_input", "actuator_kd_per_input",
    "actuator_force_limit", "actuator_force_axis", "actuator_torque_axis", "actuator_time_constant",
)  # fmt: skip


def written(folder: Path, integrator: str = "Euler", cone: str = "elliptic") -> Path:
    path = folder / "scene.xml"
    path.write_text(XML.format(integrator=integrator, cone=cone))
    return path


def start(model: sim.Model) -> tuple[np.ndarray, np.ndarray]:
    rate = 0.2 * np.sin(1.0 + np.arange(model.nv))
    rate[model.qd_slice("foot_joint").start :] = 0.0
    q = sim.integrate(model, model.q0[None], rate[None], 1.0).numpy()[0]
    return q, 0.3 * np.cos(1.7 * np.arange(model.nv))


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
def test_steps(tmp_path, integrator, cone):
    path = written(tmp_path, integrator, cone)
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    q, qd = start(model)
    data = data_at(peer, model, q, qd, ctrl=CONTROL)
    state, excluded = simulator.state(q, qd), set()
    for _ in range(10):
        before = data.qvel.copy()
        mujoco.mj_step(peer, data)
        excluded |= {(peer.geom(int(c.geom2)).name, int(c.exclude)) for c in data.contact}
        state = simulator.step(state, control=np.array([CONTROL]))
        _, qvel = sim.to_mujoco(model, state.q.numpy()[0], state.qd.numpy()[0])
        assert np.abs(data.qvel - before).max() > 0.01
        np.testing.assert_allclose(qvel, data.qvel, atol=1e-10)
    # One that acts, and one in the gap, which only adheres.
    assert {("sole", 0), ("ball", 1)} <= excluded
    assert (np.abs(data.actuator_force) > 1e-3).all()


@pytest.mark.parametrize(("law", "friction"), [("mujoco", "cone"), ("mujoco", "pyramid"), ("hard", "cone")])
def test_gradients(tmp_path, law, friction):
    model = load_quietly(written(tmp_path))
    contact = METHODS[law](friction=friction)
    c = case(model, 4, *start(model), contact=contact, dt=DT)
    check(replace(c, control=np.tile(CONTROL, (4, 1)), act=np.array([0.3])), NAMES)


def test_gradients_with_rk4(tmp_path):
    model = load_quietly(written(tmp_path))
    c = case(model, 2, *start(model), contact=sim.MujocoContact(), dt=DT)
    names = ("actuator_gear", "actuator_kp", "actuator_force_axis", "actuator_torque_axis", "geometry_placement")
    check(replace(c, integrator="rk4", control=np.tile(CONTROL, (2, 1)), act=np.array([0.3])), names)


def test_many_worlds_do_what_one_does(tmp_path):
    """Sixteen worlds take lane groups under the law "hard"."""
    model = load_quietly(written(tmp_path))
    q, qd = start(model)
    ends = []
    for count in (1, 16):
        simulator = sim.Simulator(model, DT, num_worlds=count)
        state = simulator.state(np.tile(q, (count, 1)), np.tile(qd, (count, 1)))
        ends.append(simulator.rollout(state, control=np.tile(CONTROL, (10, count, 1))).final_state.qd.numpy())
    np.testing.assert_allclose(ends[1], np.tile(ends[0], (16, 1)), atol=1e-9)


def test_sensors_of_forces_beside_mujoco(tmp_path):
    """Of joints that frames are pushed through, and of what adhesion presses; without damping, implicit in MuJoCo."""
    sensors = """<sensor><force name="tip" site="tip"/><torque name="twist" site="tip"/>
    <force name="rotor" site="rotor"/><force name="cling" site="pad"/><touch name="touch" site="foot"/></sensor>
    <actuator>"""
    text = written(tmp_path).read_text().replace("<actuator>", sensors).replace('damping="0.1"', "")
    text = text.replace('<geom name="sole"', '<site name="foot" size="0.2"/><geom name="sole"')
    path = tmp_path / "sensors.xml"
    path.write_text(text.replace('<geom name="pad"', '<site name="pad" pos="0 0 0.02"/><geom name="pad"'))
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    q, qd = start(model)
    data = data_at(peer, model, q, qd, ctrl=CONTROL)
    theirs = []
    for _ in range(8):
        mujoco.mj_step(peer, data)
        theirs.append(data.sensordata.copy())
    names = [sensor.name for sensor in model.sensors]
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), contact_sensors=names)
    rollout = simulator.rollout(simulator.state(q, qd), control=np.tile(CONTROL, (8, 1, 1)))
    states = [torch.tensor(each.numpy()) for each in (rollout.q, rollout.qd, rollout.contact_force)]
    found = sim.torch.Sensors(simulator, names)(*states[:2], contact_force=states[2])[:, 0].numpy()
    assert (np.abs(theirs).max(axis=0)[[0, 3, 8, 11, 12]] > 1.0).all()
    np.testing.assert_allclose(found, theirs, atol=1e-9 * np.abs(theirs).max())


def test_written_again(tmp_path):
    """Read, written and read: in MuJoCo the same steps."""
    path = written(tmp_path)
    model = load_quietly(path)
    sim.exporters.write_mjcf(tmp_path / "again.xml", model)
    again = load_quietly(tmp_path / "again.xml")
    assert again.actuator_names == model.actuator_names
    assert again.transmissions.target == model.transmissions.target
    np.testing.assert_array_equal(again.transmissions.adheres, model.transmissions.adheres)
    for name in ("actuator_force_axis", "actuator_torque_axis", "actuator_gain", "actuator_kp"):
        np.testing.assert_allclose(again.parameters[name], model.parameters[name], atol=1e-14, err_msg=name)
    ends = []
    for file in (path, tmp_path / "again.xml"):
        peer = mujoco.MjModel.from_xml_path(str(file))
        peer.opt.tolerance, peer.opt.iterations = 0.0, 200  # which aren't written
        data = data_at(peer, model, *start(model), ctrl=CONTROL)
        for _ in range(5):
            mujoco.mj_step(peer, data)
        ends.append(data.qvel.copy())
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)


def test_a_thrust_through_the_centre_of_mass():
    """A closed form: a body that turns keeps its push along its own axis."""
    builder = sim.ModelBuilder()
    builder.gravity = np.zeros(3)
    builder.add_box(half_extents=(0.1, 0.2, 0.3), mass=2.0, name="drone")
    builder.add_actuator(frame="drone", force_axis=(0.0, 0.0, 1.0), torque_axis=(0.0, 0.0, 0.1), control_range=(0, 5))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 0.01)
    end = simulator.step(simulator.initial_state(), control=np.array([[7.0]]))
    inertia = model.parameters["inertia"][0, 2, 2]
    np.testing.assert_allclose(end.qd.numpy()[0], [0, 0, 0.025, 0, 0, 0.01 * 0.5 / inertia], atol=1e-12)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "joint, tendon, frame and adhesion"),
        ({"frame": "ball", "adhesion": "ball"}, "joint, tendon, frame and adhesion"),
        ({"frame": "ball"}, "force_axis and torque_axis are zero"),
        ({"frame": "ball", "force_axis": (0.0, np.nan, 0.0)}, "force_axis"),
        ({"adhesion": "ball", "force_axis": (0, 0, 1)}, "reference, force_axis and torque_axis .*frame"),
    ],
)
def test_what_the_builder_refuses(given, said):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    with pytest.raises(sim.ModelError, match=said):
        builder.add_actuator(name="a", **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"frame": "none", "force_axis": (0, 0, 1)}, "actuator 'a': unknown frame 'none'"),
        ({"frame": "ball", "reference": "none", "force_axis": (0, 0, 1)}, "actuator 'a': unknown frame 'none'"),
        ({"adhesion": "none"}, "actuator 'a': unknown link 'none'"),
    ],
)
def test_what_finalize_refuses(given, said):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    builder.add_actuator(name="a", **given)
    with pytest.raises(sim.ModelError, match=said):
        builder.finalize()


def test_what_has_no_place_for_them_says_so(tmp_path):
    model = load_quietly(written(tmp_path))
    simulator = sim.Simulator(model, DT, contact=sim.MujocoContact())
    with raises_naming("parameter 'actuator_force_axis'", "zero", "actuator 'stick'"):
        simulator.parameters["actuator_force_axis"] = np.ones((model.nu, 3))
    with raises_naming("'implicitfast'", "actuator 'reach'"):
        sim.Simulator(model, DT, integrator="implicitfast", contact=sim.MujocoContact())
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    builder.add_actuator(name="sticky", adhesion="ball")
    simulator = sim.Simulator(builder.finalize("float64"), DT)
    states = [torch.zeros(3, 1, size, dtype=torch.float64) for size in (7, 6)]
    with raises_naming("actuator 'sticky'", "frame", "contacts"):
        sim.torch.actuator_forces(simulator, *states, torch.zeros(2, 1, 1, dtype=torch.float64))


def test_sensors_of_other_actuators_read_beside_them(tmp_path):
    """An actuator on a joint reads as in MuJoCo; of those on frames and contacts the sensor's own one is named."""
    sensors = """<sensor><actuatorfrc actuator="lift"/><actuatorpos actuator="lift"/><actuatorfrc actuator="stick"/>
      <actuatorvel actuator="reach"/><jointactuatorfrc joint="d"/></sensor></mujoco>"""
    path = written(tmp_path)
    path.write_text(path.read_text().replace("</mujoco>", sensors))
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.ctrl = CONTROL
    model = load_quietly(path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), device="cpu")
    given = [torch.tensor(each)[None] for each in sim.from_mujoco(model, data.qpos, data.qvel)]
    inputs = {"control": torch.tensor(CONTROL, dtype=torch.float64)[None, None], "act": torch.zeros(1, 1).double()}
    mujoco.mj_step(peer, data)

    def read(*names: str) -> torch.Tensor:
        chosen = sim.torch.Sensors(simulator, names)
        return sim.torch.rollout(simulator, *given, sensors=chosen, **inputs).readings

    names = [sensor.name for sensor in model.sensors]
    np.testing.assert_allclose(read(*names[:2])[0, 0], data.sensordata[:2], rtol=1e-12)
    for name, actuator in ((names[2], "stick"), (names[3], "reach"), (names[4], "thrust")):
        with pytest.raises(sim.ModelError, match=f"Sensors: actuator '{actuator}' acts on a frame or on contacts"):
            read(name)
