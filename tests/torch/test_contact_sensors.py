"""Sensors of contacts beside MuJoCo's, and their gradients under both laws."""

import warnings

import mujoco
import numpy as np
import pytest
import torch
import warp as wp

import sim

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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sim.load(path, dtype="float64")
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
    found = sim.torch.rollout_with_sensors(
        sensors, torch.tensor(q)[None], torch.tensor(qd)[None], steps=STEPS
    )[-1][:, 0].numpy()
    assert found.shape == expected.shape
    for name, part in sensors.slices.items():
        ours, theirs = found[:, part], expected[:, part]
        if name == "every":  # whose first ones come first isn't said
            ours, theirs = np.sort(ours), np.sort(theirs)
        assert np.abs(ours - theirs).max() < 1e-6 * max(1.0, np.abs(theirs).max()), name
    assert len(set(found[:, sensors.slices["tree"]][:, 0])) > 1, "contacts open and close"


@pytest.mark.parametrize("law", ["mujoco", "hard"])
def test_gradients_of_readings(pile, law):
    """Through the step and all sensors, against differences, while contacts stick, slide and roll."""
    _, model, _ = pile
    options = {} if law == "mujoco" else {"contact": sim.ContactOptions(law="hard", solver="newton", tolerance=1e-12)}
    simulator = simulator_of(model, worlds=2, **options)
    sensors = sim.torch.Sensors(simulator)
    rng = np.random.default_rng(5)
    q0 = wp.to_torch(simulator.initial_state().q).clone()
    begin = torch.tensor(SPEED)[None] * torch.tensor([[1.0], [0.5]]) + torch.tensor(1e-3 * rng.normal(size=(2, model.nv)))
    begin = begin.to(torch.float64).requires_grad_()
    with torch.no_grad():
        before = sim.torch.rollout_with_sensors(sensors, q0, begin, steps=4)[-1]
    weight = torch.tensor(rng.normal(size=before.shape)) / before.abs().amax(dim=(0, 1)).clamp(min=1.0)
    assert int((before[..., sensors.slices["stands"]][..., 0] > 0.0).sum()) >= 4

    def loss(begin):
        return (weight * sim.torch.rollout_with_sensors(sensors, q0, begin, steps=4)[-1]).sum()

    loss(begin).backward()
    way = torch.tensor(rng.normal(size=begin.shape))
    h = 1e-5  # four contacts of a box share its weight in many ways: what the solver leaves is 1e-10 N
    with torch.no_grad():
        expected = float(loss(begin + h * way) - loss(begin - h * way)) / (2 * h)
    assert abs(float((begin.grad * way).sum()) - expected) < 1e-6 * max(1.0, abs(expected))
