"""Sensors of force and torque in a joint beside MuJoCo's, through contacts that slide, spin and roll; gradients."""

import mujoco
import numpy as np
import pytest
import torch

import sim
from tests.errors import raises_naming, refuses
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS

XML = """
<mujoco>
  <option timestep="0.002" cone="{cone}" tolerance="0" iterations="200"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" friction="0.6 0.03 0.01"/>
    <body name="base" pos="0.3 -0.2 0.5"><freejoint/>
      <geom name="trunk" type="box" size="0.2 0.1 0.05" mass="3"/>
      <site name="waist" pos="0.05 0.02 0.01" euler="10 20 30"/>
      <body name="thigh" pos="0.1 0 -0.05" euler="0 15 0">
        <joint name="hip" axis="0 1 0" damping="0.3"/>
        <geom name="thigh" type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" mass="0.5" contype="0" conaffinity="0"/>
        <site name="hip" pos="0.01 -0.02 0.03" euler="30 -20 50"/>
        <body name="foot" pos="0 0 -0.2"><joint name="ankle" axis="1 0.3 0"/>
          <geom name="foot" type="box" size="0.01 0.02 0.01" mass="0.1" contype="0" conaffinity="0"/>
          <site name="ankle" pos="0.02 0.01 -0.01" euler="-15 40 5"/>
            <body name="sole" pos="0.02 0 -0.03" euler="0 20 0">
              <geom name="sole" type="sphere" size="0.06" mass="0.2" condim="6"/>
              <site name="sole" pos="0 0.01 0.02"/></body>
          </body>
      </body>
    </body>
    <body name="ball" pos="0.42 -0.2 0.1"><freejoint/>
      <geom name="ball" type="sphere" size="0.1008" mass="0.6" condim="4"/></body>
  </worldbody>
  <sensor>
    <force name="hip force" site="hip"/> <torque name="hip torque" site="hip" cutoff="50"/>
    <force name="ankle force" site="ankle"/> <torque name="ankle torque" site="ankle"/>
    <force name="sole force" site="sole"/> <torque name="sole torque" site="sole"/>
    <force name="base force" site="waist"/> <torque name="base torque" site="waist"/>
  </sensor>
</mujoco>
"""
NAMES = (
    "hip force",
    "hip torque",
    "ankle force",
    "ankle torque",
    "sole force",
    "sole torque",
    "base force",
    "base torque",
)
STEPS = 30


def scene(folder, cone="elliptic"):
    """A leg that stands on a ball that lies on the floor."""
    path = folder / "scene.xml"
    path.write_text(XML.format(cone=cone))
    model = load_quietly(path)
    q = model.q0.copy()
    q[2] = 0.5025
    qd = 0.3 * np.cos(1.7 * np.arange(model.nv))
    qd[2] = -0.6
    return path, model, q, qd


def readings(simulator, q, qd, steps, names=NAMES):
    *states, force = sim.torch.rollout(simulator, q[None], qd[None], steps=steps, contact_forces=True)
    return sim.torch.Sensors(simulator, names)(*states, contact_force=force)


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_readings_beside_mujoco(tmp_path, cone):
    path, model, q, qd = scene(tmp_path, cone)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(peer, model, q, qd)
    theirs, touching = [], 0
    for _ in range(STEPS):
        mujoco.mj_step(peer, data)
        theirs.append(data.sensordata.copy())
        touching = max(touching, data.ncon)
    assert touching >= 2
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), contact_sensors=NAMES)
    found = readings(simulator, torch.tensor(q), torch.tensor(qd), STEPS)[:, 0].numpy()
    np.testing.assert_allclose(found, theirs, atol=1e-7 * np.abs(theirs).max())
    assert (np.abs(found[:, :18]).max(axis=0) > 0.01).all()
    # Nothing carries the base.
    np.testing.assert_allclose(found[:, 18:], 0.0, atol=1e-7 * np.abs(found).max())


@pytest.mark.parametrize(("law", "friction"), [("hard", "cone"), ("mujoco", "cone"), ("mujoco", "pyramid")])
def test_gradients(tmp_path, law, friction):
    _, model, q, qd = scene(tmp_path)
    contact = METHODS[law](friction=friction)
    simulator = sim.Simulator(model, 0.002, contact=contact, contact_sensors=NAMES)
    weights = torch.tensor(np.random.default_rng(0).normal(size=(3, 1, 24)))

    def loss(q, qd):
        return (weights * readings(simulator, q, qd, 3)).sum()

    given = [torch.tensor(x, requires_grad=True) for x in (q, qd)]
    found = torch.autograd.grad(loss(*given), given)
    step, tangent = 1e-6, np.eye(model.nv)
    with torch.no_grad():
        base, rate = torch.tensor(q), torch.tensor(qd)
        by_rate = [
            float(loss(base, rate + step * e) - loss(base, rate - step * e)) / (2 * step) for e in torch.tensor(tangent)
        ]
        moved = [
            [torch.tensor(sim.integrate(model, q[None], sign * step * e[None], 1.0).numpy()[0]) for sign in (1.0, -1.0)]
            for e in tangent
        ]
        by_position = [float(loss(up, rate) - loss(down, rate)) / (2 * step) for up, down in moved]
    np.testing.assert_allclose(found[1].numpy(), by_rate, atol=2e-6 * np.abs(by_rate).max())
    along = [(up - down).numpy() @ found[0].numpy() / (2 * step) for up, down in moved]
    np.testing.assert_allclose(along, by_position, atol=2e-6 * np.abs(by_position).max())


def test_hard_contact(tmp_path):
    """What hangs on a joint at rest weighs on it."""
    builder = sim.ModelBuilder()
    builder.add_link("beam", mass=1.0, com=(0.3, 0.0, 0.0), inertia=(0.01, 0.02, 0.02))
    builder.add_joint("hinge", "revolute", child="beam", axis=(0.0, 1.0, 0.0), limits=sim.Limits(upper=0.0))
    for kind in ("force", "torque"):
        builder.add_sensor(kind, kind, "beam")
    simulator = sim.Simulator(builder.finalize("float64"), 0.002, contact_sensors=["force", "torque"])
    found = readings(simulator, torch.zeros(1).double(), torch.zeros(1).double(), 100, None)[-1, 0].numpy()
    np.testing.assert_allclose(found, [0.0, 0.0, 9.81, 0.0, -0.3 * 9.81, 0.0], atol=1e-2)


def test_what_is_refused(tmp_path):
    path, model, _, _ = scene(tmp_path)
    assert "sole" in model.link_names  # welded, but not merged into the foot
    path.write_text(path.read_text().replace("<freejoint/>", "", 1))
    with pytest.warns(sim.MJCFWarning, match="ignored: sensor 'base force'.*no sensors of type force for what"):
        assert {sensor.name for sensor in sim.load(path).sensors} == {*NAMES[:-2]}
    builder = sim.ModelBuilder()
    for name in ("a", "b"):
        builder.add_sphere(radius=0.1, mass=1.0, name=name, position=(0, 0, 0 if name == "a" else 1))
    builder.add_link("tool", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("flange", "fixed", parent="b", child="tool")
    builder.add_sensor("f", "force", "tool")
    assert builder.finalize().link_names == ("a", "b", "tool")
    builder.add_point_constraint("rod", "a", "b")
    builder.add_sensor("g", "force", "b")
    model = builder.finalize()
    refuses(lambda: sim.Simulator(model, 0.01, contact_sensors=["g"]), "sensor 'g'", "constraint 'rod'")
    refuses(lambda: builder.add_sensor("h", "torque"), "'h'", "link")


def test_pulls_of_tendons_are_refused(tmp_path):
    """MuJoCo leaves them out of what a joint transmits; one within what the joint carries pulls at nothing else."""
    path, _, _, _ = scene(tmp_path)
    tendon = '<tendon><spatial name="cord" stiffness="9"><site site="{}"/><site site="{}"/></spatial></tendon><sensor>'
    text = path.read_text()
    path.write_text(text.replace("<sensor>", tendon.format("ankle", "hip")))
    model = load_quietly(path)
    with raises_naming("sensor 'ankle force'", "tendon 'cord'"):
        sim.Simulator(model, 0.002, contact_sensors=["ankle force"])
    sim.Simulator(model, 0.002, contact_sensors=["hip force", "base torque"])


def test_they_come_back_from_mjcf(tmp_path):
    """Also in a file that we have written: the same readings, and MuJoCo's."""
    path, model, q, qd = scene(tmp_path)
    sim.exporters.write_mjcf(tmp_path / "again.xml", model)
    again = load_quietly(tmp_path / "again.xml")
    measured = {name: kind for name in NAMES for kind in ("force", "torque") if kind in name}
    assert {each.name: each.kind for each in again.sensors} == measured
    found = []
    for each in (model, again):
        simulator = sim.Simulator(each, **sim.mujoco_settings(each), contact_sensors=NAMES)
        found.append(readings(simulator, torch.tensor(q), torch.tensor(qd), STEPS)[:, 0].numpy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-9 * np.abs(found[0]).max())
    theirs = []
    for file in (path, tmp_path / "again.xml"):
        peer = mujoco.MjModel.from_xml_path(str(file))
        data = data_at(peer, model, q, qd)
        mujoco.mj_step(peer, data)
        theirs.append(np.concatenate([data.sensor(name).data for name in NAMES]))
    np.testing.assert_allclose(theirs[0], theirs[1], atol=1e-9 * np.abs(theirs[0]).max())


def test_runge_kutta_needs_its_accelerations(tmp_path):
    """Its states don't tell that of one state."""
    _, model, q, qd = scene(tmp_path)
    simulator = sim.Simulator(model, 0.002, contact=sim.MujocoContact(), contact_sensors=NAMES, integrator="rk4")
    with raises_naming("'hip force'", "sensors=sensors"):
        readings(simulator, torch.tensor(q), torch.tensor(qd), 2)
