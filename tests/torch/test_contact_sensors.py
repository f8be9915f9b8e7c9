"""Sensors of contacts beside MuJoCo's, and their gradients under both laws."""

import mujoco
import numpy as np
import pytest
import torch
import warp as wp

import sim
from tests.errors import raises_naming, strictly
from tests.torch.files import write

STEPS = 30
ALL = "found force torque dist pos normal tangent linvel angvel"
NET = "found force torque dist pos normal tangent"

SCENE = """<mujoco model="pile">
  <option timestep="0.002" cone="{cone}" tolerance="0" iterations="200" ls_tolerance="1e-12"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1" friction="1 .01 .001" condim="6"/>
    <site name="here" pos=".35 .3 0" size=".12"/>
    <body name="lower" pos=".3 .2 .0995">
      <freejoint/>
      <geom name="box" type="box" size=".2 .15 .1" mass="2" condim="3"/>
      <site name="corner" type="box" pos=".2 .15 -.1" size=".1 .1 .05" euler="0 0 20"/>
      <body name="arm" pos="0 0 .1">
        <joint name="swing" axis="0 1 0" range="-30 30" damping=".1"/>
        <geom name="rod" type="capsule" fromto="0 0 .02 .5 0 -.19" size=".02" mass=".3"/>
      </body>
    </body>
    <body name="upper" pos=".2 .2 .2985">
      <freejoint/>
      <geom name="ball" type="sphere" size=".1" mass="1" condim="6" friction="1 .1 .1"/>
    </body>
  </worldbody>
  <contact><exclude body1="lower" body2="arm"/></contact>
  <sensor>
    <contact name="ball" geom1="ball" num="2" data="{all}"/>
    <contact name="turned" geom1="box" geom2="ball" data="{all}"/>
    <contact name="rod" geom1="rod" geom2="floor" num="3" data="{all}"/>
    <contact name="strong" body1="lower" body2="world" num="2" reduce="maxforce" data="{all}"/>
    <contact name="near" geom2="box" num="8" reduce="mindist" data="{all}"/>
    <contact name="stands" geom1="floor" geom2="box" reduce="netforce" data="{net}"/>
    <contact name="tree" subtree1="lower" reduce="netforce" data="{net}"/>
    <contact name="inner" subtree1="lower" subtree2="lower" data="found force"/>
    <contact name="some" site="corner" reduce="netforce" data="{net}"/>
    <contact name="place" site="here" geom2="box" num="5" data="found pos"/>
    <contact name="every" data="dist" num="12"/>
    <insidesite name="in" site="corner" objtype="body" objname="upper"/>
    <insidesite name="near tip" site="here" objtype="xbody" objname="lower"/>
  </sensor>
</mujoco>
"""
SPEED = [0.1, 0.2, -0.3, 0.4, 0.5, 0.6, 0.3, 0.2, -0.1, 0.1, 0.3, 0.2, -0.7]


@pytest.fixture(scope="module", params=["elliptic", "pyramidal"])
def pile(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("contacts") / f"{request.param}.xml"
    path.write_text(SCENE.format(cone=request.param, all=ALL, net=NET))
    model = strictly(sim.load, path, dtype="float64")
    return path, model, simulator_of(model)


def simulator_of(model, worlds=1, **options):
    settings = sim.mujoco_settings(model) | options
    names = [sensor.name for sensor in model.sensors if sensor.kind == "contact"]
    return sim.Simulator(model, **settings, num_worlds=worlds, device="cpu", contact_sensors=names)


def test_readings_beside_mujoco(pile):
    """Along both motions, which agree: all readings and choices, in both orders of geometries."""
    path, model, simulator = pile
    reference = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(reference)
    data.qvel[:] = SPEED
    q, qd = sim.from_mujoco(model, data.qpos.copy(), data.qvel.copy())
    expected = []
    for _ in range(STEPS):
        mujoco.mj_step(reference, data)
        expected.append(data.sensordata.copy())
    expected = np.array(expected)
    sensors = sim.torch.Sensors(simulator)
    assert len(sensors.names) == reference.nsensor
    states = torch.tensor(q)[None], torch.tensor(qd)[None]
    found = sim.torch.rollout(simulator, *states, steps=STEPS, sensors=sensors).readings[:, 0].numpy()
    assert found.shape == expected.shape
    for name, part in sensors.slices.items():
        ours, theirs = found[:, part], expected[:, part]
        if name == "every":  # whose first ones come first isn't said
            ours, theirs = np.sort(ours), np.sort(theirs)
        assert np.abs(ours - theirs).max() < 1e-6 * max(1.0, np.abs(theirs).max()), name
    assert len(set(found[:, sensors.slices["tree"]][:, 0])) > 1, "contacts open and close"


@pytest.mark.parametrize("law", ["mujoco", "mujoco, rk4", "hard"])
def test_gradients_of_readings(pile, law):
    """Through the step and all sensors, against differences, while contacts stick, slide and roll."""
    _, model, _ = pile
    hard = {"contact": sim.HardContact(tolerance=1e-12)}
    options = {"mujoco": {}, "mujoco, rk4": {"integrator": "rk4"}, "hard": hard}[law]
    simulator = simulator_of(model, worlds=2, **options)
    sensors = sim.torch.Sensors(simulator)
    rng = np.random.default_rng(5)
    q0 = wp.to_torch(simulator.state(simulator.model.q0).q).clone()
    begin = torch.tensor(SPEED)[None] * torch.tensor([[1.0], [0.5]]) + torch.tensor(
        1e-3 * rng.normal(size=(2, model.nv))
    )
    begin = begin.to(torch.float64).requires_grad_()
    with torch.no_grad():
        before = sim.torch.rollout(simulator, q0, begin, steps=4, sensors=sensors).readings
    weight = torch.tensor(rng.normal(size=before.shape)) / before.abs().amax(dim=(0, 1)).clamp(min=1.0)
    assert int((before[..., sensors.slices["stands"]][..., 0] > 0.0).sum()) >= 4

    def loss(begin):
        return (weight * sim.torch.rollout(simulator, q0, begin, steps=4, sensors=sensors).readings).sum()

    loss(begin).backward()
    direction = torch.tensor(rng.normal(size=begin.shape))
    h = 1e-5  # four contacts of a box share its weight in many ways: what the solver leaves is 1e-10 N
    with torch.no_grad():
        expected = float(loss(begin + h * direction) - loss(begin - h * direction)) / (2 * h)
    assert abs(float((begin.grad * direction).sum()) - expected) < 1e-6 * max(1.0, abs(expected))


@pytest.mark.parametrize("suffix", [".xml", ".usda"])
def test_they_come_back_from_files(pile, tmp_path, suffix):
    _, model, simulator = pile
    path = tmp_path / f"pile{suffix}"
    write(path, model)
    again = strictly(sim.load, path, dtype="float64")
    assert [sensor.name for sensor in again.sensors] == [sensor.name for sensor in model.sensors]
    readings = []
    for read in (simulator, simulator_of(again)):
        q, qd = torch.tensor(read.model.q0[None]), torch.tensor(SPEED, dtype=torch.float64)[None]
        readings.append(sim.torch.rollout(read, q, qd, steps=4, sensors=sim.torch.Sensors(read)).readings)
    torch.testing.assert_close(*readings, rtol=1e-6, atol=1e-6)


def test_hard_contacts_count_where_they_push_or_overlap():
    """A ball on the ground counts, one above it doesn't; order and bounds are as asked."""
    scene = sim.ModelBuilder()
    scene.add_ground()
    for name, height in (("low", 0.1), ("high", 0.101)):
        scene.add_sphere(
            radius=0.1, mass=1.0, position=(5.0 * height - 0.5 if name == "high" else -1.0, 0, height), name=name
        )
    low, high = "low/geometry", "high/geometry"
    scene.add_contact_sensor("both", ["found", "force"], against=[low, high], most=3)
    scene.add_contact_sensor("pushed", ["force", "normal"], geometries=[low], against=["ground"])
    scene.add_contact_sensor("bound", ["force"], against=[low], upper=5.0)
    model = scene.finalize("float64")
    names = ["both", low, "pushed", "bound"]
    simulator = sim.Simulator(model, dt=0.01, device="cpu", contact_sensors=names)
    zero = torch.zeros(1, model.nv, dtype=torch.float64)
    q, qd, force = sim.torch.rollout(simulator, torch.tensor(model.q0[None]), zero, steps=1, contact_forces=True)
    found = sim.torch.Sensors(simulator)(q, qd, contact_force=force)[0, 0]
    weight = 9.81 / (1.0 + 1.0 / 376.0)  # regularised: the ball sinks until the next step
    expected = [1, weight, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, weight, 0, 0, 0, 0, -1, 5, 0, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(force[0, 0, 1], [0, 0, weight], rtol=1e-4, atol=1e-6)
    assert force.shape[2] > len(names)
    trajectory = simulator.rollout(simulator.initial_state(), steps=1)
    np.testing.assert_allclose(trajectory.contact_force.numpy(), force, atol=1e-12)


def test_contacts_have_no_mean():
    """Inputs that are held, and costs of forces, don't go with sensors of contacts, and say so."""
    scene = sim.ModelBuilder()
    scene.add_ground()
    scene.add_link("ball", mass=1.0, inertia=(0.1, 0.1, 0.1))
    scene.add_joint("lift", "prismatic", child="ball", position=(0, 0, 0.1))
    scene.add_geometry("ball", "sphere", size=(0.1, 0, 0))
    scene.add_contact_sensor("stands")
    model = scene.finalize("float64")
    simulator = sim.Simulator(model, dt=0.01, device="cpu", contact_sensors=["stands"])
    q0, zero = torch.tensor(model.q0[None]), torch.zeros(1, model.nv, dtype=torch.float64)
    with raises_naming("hold is 2", "sensor 'stands'"):
        sim.torch.rollout(simulator, q0, zero, steps=4, hold=2, contact_forces=True)
    with raises_naming("'stands'", "contacts", "geometry"):
        sim.optimise.Problem(simulator, 2, [sim.optimise.ContactForce(0, least=1.0)])


def test_a_crowd_and_no_contacts():
    """Pairs that a grid finds are read as well; where there can be no contact, there is none to read."""
    crowd = sim.ModelBuilder()
    crowd.add_ground()
    for number in range(140):
        crowd.add_sphere(radius=0.1, mass=1.0, position=(0.3 * number, 0, 0.1), name=f"ball_{number}")
    crowd.add_contact_sensor("last", ["found", "position"], against=["ball_139/geometry"])
    crowd.add_contact_sensor("all", ["found", "force"], geometries=["ground"], choice="net")
    alone = sim.ModelBuilder()
    alone.add_sphere(radius=0.1, mass=1.0, name="ball")
    alone.add_contact_sensor("all", ["found", "force"], most=2, choice="strongest")
    readings = []
    for builder in (crowd, alone):
        model = builder.finalize("float64")
        names = [sensor.name for sensor in model.sensors]
        simulator = sim.Simulator(model, dt=0.01, device="cpu", contact_sensors=names)
        zero = torch.zeros(1, model.nv, dtype=torch.float64)
        q0 = torch.tensor(model.q0[None])
        sensors = sim.torch.Sensors(simulator)
        readings.append(sim.torch.rollout(simulator, q0, zero, steps=1, sensors=sensors).readings[0, 0])
    np.testing.assert_allclose(
        readings[0], [1, 0.3 * 139, 0, 0, 140, 0, 0, 140 * 9.81 / (1.0 + 1.0 / 376.0)], rtol=1e-4, atol=1e-5
    )
    assert readings[1].shape == (8,)
    assert not readings[1].any()


def test_room_is_for_the_contacts_that_there_may_be():
    """Five places for what is chosen; six for each of a ball's contacts with the ground, and of a box's."""
    scene = sim.ModelBuilder()
    scene.add_ground()
    scene.add_sphere(radius=0.1, mass=1.0, name="ball", position=(0, 0, 0.1))
    scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, name="box", position=(1, 0, 0.1))
    scene.add_contact_sensor("ball", geometries=["ground"], against=["ball/geometry"], choice="net")
    scene.add_contact_sensor("box", geometries=["ground"], against=["box/geometry"], choice="net")
    scene.add_contact_sensor("one", geometries=["ground"], against=["box/geometry"])
    scene.add_contact_sensor("none", geometries=["ground"], against=["ground"], choice="net")
    model = scene.finalize("float64")
    names = ["ball", "box", "one", "none", "ground"]
    simulator = sim.Simulator(model, dt=0.01, device="cpu", contact_sensors=names)
    trajectory = simulator.rollout(simulator.initial_state(), steps=1)
    assert trajectory.contact_force.shape[2] == 5 + 6 * (1 + 4 + 1)
