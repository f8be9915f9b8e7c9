"""Sensors of touch and of the forces of limits beside MuJoCo's, step by step; gradients, files and errors."""

import copy

import mujoco
import numpy as np
import pytest
import torch

import sim
from sim.exporters import write_mjcf
from sim.usd import write_usd
from tests.errors import raises_naming, refuses
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS

XML = """
<mujoco>
  <option timestep="0.002" cone="{cone}" tolerance="0" iterations="200" noslip_iterations="{sweeps}"
          integrator="{integrator}"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="box" pos="0 0 0.0995"><freejoint/>
      <geom name="trunk" type="box" size="0.2 0.15 0.1" mass="2" condim="4" friction="0.8 0.02 0.001"/>
      <site name="corner" type="sphere" pos="0.2 0.15 -0.1" size="0.06"/>
      <site name="edge" type="capsule" pos="-0.2 0 -0.1" euler="90 0 0" size="0.02 0.2"/>
      <site name="sole" type="box" pos="0 0 -0.1" size="0.25 0.2 0.02"/>
      <site name="below" type="cylinder" pos="0.2 -0.15 -0.3" size="0.05 0.01"/>
      <site name="above" type="ellipsoid" pos="0 0 0.15" size="0.3 0.3 0.02"/>
    </body>
    <body name="ball" pos="0.05 0.02 0.2985"><freejoint/><geom name="ball" type="sphere" size="0.1" mass="0.5"/>
      <site name="all" type="ellipsoid" size="0.11 0.12 0.13"/></body>
    <body name="arm" pos="1 0 1"><joint name="shoulder" axis="0 1 0" limited="true" range="-20 5" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03" contype="0" conaffinity="0"/>
      <body name="hand" pos="0.4 0 0"><joint name="wrist" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" contype="0" conaffinity="0"/></body></body>
  </worldbody>
  <tendon><fixed name="strap" limited="true" range="-0.1 0.05"><joint joint="shoulder" coef="0.5"/>
    <joint joint="wrist" coef="1"/></fixed></tendon>
  <sensor>
    <touch name="corner" site="corner"/> <touch name="edge" site="edge"/> <touch name="sole" site="sole"/>
    <touch name="below" site="below"/> <touch name="above" site="above"/> <touch name="all" site="all" cutoff="4"/>
    <jointlimitfrc name="stop" joint="shoulder"/> <tendonlimitfrc name="strap" tendon="strap"/>
    <jointpos name="angle" joint="shoulder"/>
  </sensor>
</mujoco>
"""
NAMES = ("corner", "edge", "sole", "below", "above", "all", "stop", "strap")
STEPS = 40


def scene(folder, cone="elliptic", sweeps=0, integrator="Euler"):
    path = folder / "scene.xml"
    path.write_text(XML.format(cone=cone, sweeps=sweeps, integrator=integrator))
    model = load_quietly(path)
    qd = 0.2 * np.cos(1.7 * np.arange(model.nv))
    qd[-2:] = (0.5, 0.8)
    q = model.q0.copy()
    q[-2:] = (0.08, 0.06)
    return path, model, q, qd


@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize("sweeps", [0, 3])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_readings_beside_mujoco(tmp_path, cone, sweeps, integrator):
    """Each reads something at some time; the states differ by less than the bound."""
    path, model, q, qd = scene(tmp_path, cone, sweeps, integrator)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = data_at(peer, model, q, qd)
    theirs = []
    for _ in range(STEPS):
        mujoco.mj_step(peer, data)
        theirs.append(data.sensordata.copy())
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), contact_sensors=NAMES)
    sensors = sim.torch.Sensors(simulator)
    assert sensors.names == (*NAMES, "angle")
    q, qd, force = sim.torch.rollout(
        simulator, torch.tensor(q[None]), torch.tensor(qd[None]), steps=STEPS, contact_forces=True
    )
    found = sensors(q, qd, contact_force=force)[:, 0].numpy()
    np.testing.assert_allclose(found, theirs, atol=1e-6 * np.abs(theirs).max())
    assert (np.abs(found).max(axis=0) > 0.01).all()


def test_hard_contact(tmp_path):
    """The zone below a body measures its weight, a limit what it bears."""
    _, model, _, _ = scene(tmp_path)
    simulator = sim.Simulator(model, 0.002, contact_sensors=["sole", "above", "stop", 1])
    q = torch.tensor(model.q0[None])
    q, qd, force = sim.torch.rollout(simulator, q, torch.zeros(1, model.nv).double(), steps=600, contact_forces=True)
    found = sim.torch.Sensors(simulator, ["sole", "stop"])(q, qd, contact_force=force)[-1, 0].numpy()
    assert float(found[0]) == pytest.approx(2.5 * 9.81, rel=0.02)
    np.testing.assert_allclose(found, force[-1, 0, [0, 2], 0].numpy())
    assert float(force[-1, 0, 3, 2]) == pytest.approx(2 * 9.81, rel=0.02)  # the floor's push less the ball's


@pytest.mark.parametrize(("law", "integrator"), [("hard", "euler"), ("mujoco", "euler"), ("mujoco", "rk4")])
def test_gradients(tmp_path, law, integrator):
    """Of the forces of limits and contacts, and of those on a geometry, in three steps."""
    _, model, q, qd = scene(tmp_path, "pyramidal")
    contact = METHODS[law](friction="pyramid")
    measured = (*NAMES, "trunk")
    simulator = sim.Simulator(model, 0.002, contact=contact, contact_sensors=measured, integrator=integrator)
    random = np.random.default_rng(0)
    weights, other_weights = (torch.tensor(random.normal(size=(3, 1, size))) for size in (len(NAMES), 3))
    sensors = sim.torch.Sensors(simulator, NAMES)

    def loss(velocity):
        *states, force = sim.torch.rollout(
            simulator, torch.tensor(q[None]), velocity[None], steps=3, contact_forces=True
        )
        readings = sensors(*states, contact_force=force)
        return (weights * readings).sum() + (other_weights * force[:, :, len(NAMES)]).sum()

    velocity = torch.tensor(qd, requires_grad=True)
    (found,) = torch.autograd.grad(loss(velocity), velocity)
    step = 1e-6
    with torch.no_grad():
        base = torch.tensor(qd)
        expected = [
            float(loss(base + step * e) - loss(base - step * e)) / (2 * step)
            for e in torch.eye(model.nv, dtype=torch.float64)
        ]
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6 * np.abs(expected).max())


def test_they_come_back_from_files(tmp_path):
    _, model, q, qd = scene(tmp_path)
    write_mjcf(tmp_path / "again.xml", model)
    poses = sim.forward_kinematics(model, model.q0[None])
    write_usd(tmp_path / "again.usdc", model, poses, fps=30)
    from_usd = sim.load(tmp_path / "again.usdc", dtype="float64")
    expected = None
    for read in (model, load_quietly(tmp_path / "again.xml"), from_usd):
        named = {sensor.name: sensor for sensor in read.sensors}
        for name in NAMES[:6]:
            sensor = named[name]
            assert sensor.geometries == (("ball",) if name == "all" else ("trunk",))
        simulator = sim.Simulator(read, **sim.mujoco_settings(read), contact_sensors=NAMES)
        found = simulator.rollout(simulator.state(q, qd), steps=2).contact_force.numpy()
        expected = found if expected is None else expected
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
        assert named["edge"].zone == "capsule"
        np.testing.assert_allclose(named["edge"].zone_size, (0.02, 0.2))


def test_what_is_refused(tmp_path):
    _, model, q, qd = scene(tmp_path)
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    assert sim.torch.Sensors(simulator).names == ("angle",)
    refuses(lambda: sim.torch.Sensors(simulator, ["sole"]), "'sole'", "contacts", "contact_sensors=['sole']")
    sensors = sim.torch.Sensors(simulator)
    refuses(lambda: sensors.slices["sole"], "'sole'", "contacts", "contact_sensors")
    refuses(lambda: sensors.slices["angel"], "sensor 'angel'", "the model has")
    with raises_naming("'angle'", "names", "sole"):
        sim.torch.Sensors(sim.Simulator(model, 0.01, contact_sensors=["sole"]), ["sole"]).slices["angle"]
    assert copy.deepcopy(sensors).slices == sensors.slices
    measured = sim.Simulator(model, **sim.mujoco_settings(model), contact_sensors=["sole"])
    trajectory = measured.rollout(measured.state(q, qd), steps=2)
    states = torch.tensor(trajectory.q.numpy()), torch.tensor(trajectory.qd.numpy())
    refuses(lambda: sim.torch.Sensors(measured)(*states), "'sole'", "contacts", "contact_force")
    refuses(lambda: sim.Simulator(model, 0.002, contact_sensors=["angle"]), "geometry", "'angle'")
    refuses(lambda: sim.Simulator(model, 0.002, contact_sensors=["sole", "sole"]), "geometry or sensor", "twice")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"zone": "sphere"}, r"zone_size: shape \(0,\), expected \(1,\)"),
        ({"zone": "cone", "zone_size": (1.0,)}, "zone is 'cone'; 'touch' .*sphere, capsule"),
        ({"zone": "sphere", "zone_size": (0.0,)}, "it must be positive"),
        ({"zone": "sphere", "zone_size": (1.0,), "geometries": ["none"]}, "unknown geometry 'none'"),
        ({"zone": "sphere", "zone_size": (1.0,), "geometries": "none"}, "unknown geometry 'none'"),
        ({"zone": "sphere", "zone_size": (1.0,), "target": "world"}, "kind .touch. .*frame or link"),
        ({"kind": "gyro", "zone": "sphere"}, "of kind 'gyro' has no zone"),
    ],
)
def test_zones(given, said):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    with pytest.raises(sim.ModelError, match=said):
        builder.add_sensor("s", **{"kind": "touch", "target": "ball", **given})


NARROW = """
<mujoco>
  <option timestep="0.002" cone="elliptic" tolerance="0" iterations="200"/>
  <worldbody>
    <body name="slider"><joint name="slide" type="slide" axis="0 0 1" limited="true" range="-0.01 0.01" margin="0.05"/>
      <geom size="0.1" mass="1" contype="0" conaffinity="0"/>
      <site name="here"/><site name="there" pos="0.3 0 0"/></body>
    <body name="wheel" pos="1 0 0"><joint name="turn" axis="0 1 0"/>
      <geom size="0.1" mass="1" pos="0.1 0 0" contype="0" conaffinity="0"/></body>
  </worldbody>
  <tendon>
    <fixed name="strap" limited="true" range="-0.02 0.01" margin="0.1"><joint joint="turn" coef="1"/></fixed>
    <spatial name="stay" limited="true" range="0.1 0.2"><site site="here"/><site site="there"/></spatial>
  </tendon>
  <sensor>
    <jointlimitfrc name="slide force" joint="slide"/> <tendonlimitfrc name="strap force" tendon="strap"/>
    <jointlimitpos joint="slide"/> <jointlimitvel joint="slide"/> <tendonlimitpos tendon="strap"/>
    <tendonlimitvel tendon="strap"/> <tendonlimitfrc name="stay force" tendon="stay"/> <tendonlimitpos tendon="stay"/>
  </sensor>
</mujoco>
"""


@pytest.mark.parametrize("start", [(0.002, 0.3, 0.001, -0.5), (0.0, 6.0, 0.0, 9.0)])
def test_both_limits_at_once_and_a_tendon_that_nothing_moves(tmp_path, start):
    """Of both limits MuJoCo's sensors read the lower, also where that doesn't push, as in the second start."""
    path = tmp_path / "narrow.xml"
    path.write_text(NARROW)
    model = load_quietly(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos, data.qvel = start[::2], start[1::2]
    theirs = []
    for _ in range(10):
        mujoco.mj_step(peer, data)
        theirs.append(data.sensordata.copy())
    forces = ["slide force", "strap force", "stay force"]
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), contact_sensors=forces)
    q, qd = (torch.tensor([start[first::2]]) for first in (0, 1))
    found = sim.torch.rollout(
        simulator, q.double().requires_grad_(), qd.double(), steps=10, sensors=sim.torch.Sensors(simulator)
    ).readings[:, 0]
    np.testing.assert_allclose(found.detach().numpy(), theirs, atol=1e-6 * np.abs(theirs).max())
    np.testing.assert_array_equal(found[:, -2:].detach(), 0.0)
    assert found[:, :2].detach().any(dim=0).all()


def test_gradients_where_both_limits_bear(tmp_path):
    path = tmp_path / "narrow.xml"
    path.write_text(NARROW)
    model = load_quietly(path)
    forces = ["slide force", "strap force"]
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), contact_sensors=forces)
    sensors = sim.torch.Sensors(simulator, forces)

    def read(q):
        qd = torch.full((1, 2), 0.3).double()
        return sim.torch.rollout(simulator, q, qd, steps=2, sensors=sensors).readings

    torch.autograd.gradcheck(read, torch.tensor([[0.002, 0.001]]).double().requires_grad_(), rtol=1e-4)
