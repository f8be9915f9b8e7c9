"""Rangefinders, magnetometers and sensors of tendons and limits beside MuJoCo's ``sensordata``, and their gradients."""

import mujoco
import numpy as np
import pytest
import torch
import warp as wp

import sim
from tests.errors import refuses

ROBOT = """<mujoco>
  <option timestep="0.002" integrator="Euler" cone="elliptic" magnetic="0.2 -0.4 0.1"/>
  <worldbody>
    <geom name="wall" type="box" size=".1 3 3" pos="2 0 0"/>
    <geom name="ball" type="sphere" size=".3" pos="0 0 -1.2"/>
    <site name="hook" pos="0 .3 1"/>
    <body name="upper" pos="0 0 .6">
      <joint name="shoulder" axis="0 1 0" range="-20 25" margin=".05"/>
      <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".03" mass=".5"/>
      <site name="up" pos=".03 0 -.3" euler="0 80 10"/>
      <body name="lower" pos="0 0 -.4">
        <joint name="elbow" axis=".1 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.3" size=".02" mass=".2"/>
        <site name="down" pos="0 0 -.32" euler="180 0 0"/>
        <site name="away" pos="0 0 -.1" euler="0 -90 0"/>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="sum" range="-.3 .3" margin=".02">
      <joint joint="shoulder" coef="1"/><joint joint="elbow" coef=".7"/>
    </fixed>
    <spatial name="string" range="0 .9"><site site="hook"/><site site="up"/></spatial>
  </tendon>
  <actuator>
    <motor name="pull" tendon="string" gear="3"/> <motor name="turn" tendon="sum"/>
    <motor name="more" tendon="sum" gear="2"/>
  </actuator>
  <sensor>
    <rangefinder name="front" site="up"/> <rangefinder name="near" site="up" cutoff="0.5"/>
    <rangefinder name="below" site="down"/> <rangefinder name="sky" site="away" cutoff="0.7"/>
    <magnetometer name="compass" site="down"/>
    <tendonpos name="length" tendon="string"/> <tendonvel name="rate" tendon="string"/>
    <tendonpos tendon="sum"/> <tendonvel tendon="sum"/>
    <tendonactuatorfrc tendon="sum"/> <tendonactuatorfrc tendon="string"/>
    <jointlimitpos name="stop" joint="shoulder"/> <jointlimitvel joint="shoulder"/>
    <tendonlimitpos name="end" tendon="sum"/> <tendonlimitvel tendon="sum"/>
  </sensor>
</mujoco>"""


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    path = tmp_path_factory.mktemp("sensors") / "robot.xml"
    path.write_text(ROBOT)
    return path, sim.load(path, dtype="float64")


# A robot's functions take these 300 states eight at a time, which only a CPU does.
@pytest.mark.cpu_shapes
def test_readings_beside_mujoco(robot):
    path, model = robot
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = (0.1, -0.2), (5.0, -3.0)
    control = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 3))
    states, readings = [(data.qpos.copy(), data.qvel.copy())], []
    for each in control:
        data.ctrl[:] = each
        mujoco.mj_step(peer, data)
        readings.append(data.sensordata.copy())
        states.append((data.qpos.copy(), data.qvel.copy()))
    q, qd = (torch.tensor(np.array(each))[:, None] for each in zip(*states, strict=True))
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), num_worlds=1, device="cpu")
    sensors = sim.torch.Sensors(simulator)
    found, expected = sensors(q, qd, torch.tensor(control)[:, None])[:, 0].numpy(), np.array(readings)
    assert found.shape == expected.shape
    for name, part in sensors.slices.items():
        assert np.abs(found[:, part] - expected[:, part]).max() < 1e-9, name
    at = {name: expected[:, part] for name, part in sensors.slices.items()}
    # The motion meets its limits and leaves them; the ball is seen now and then, and the sky is empty.
    for name in ("stop", "end"):
        assert 0 < np.count_nonzero(at[name]) < len(expected)
    assert (at["sky"] == -0.7).all()  # MuJoCo holds the -1 of a ray that meets nothing within the cutoff too
    assert np.ptp(at["front"]) > 0.1
    assert at["near"].max() <= 0.5


def test_gradients_of_readings(robot):
    _, model = robot
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), num_worlds=2, device="cpu")
    sensors = sim.torch.Sensors(simulator)
    rng = np.random.default_rng(1)
    q0 = wp.to_torch(simulator.initial_state().q) + 0.1
    begin = torch.tensor(rng.normal(size=(2, model.nv)), requires_grad=True)
    control = torch.tensor(rng.uniform(-0.5, 0.5, (4, 2, model.nu)))
    weight = torch.tensor(rng.normal(size=(4, 2, sensors.slices[sensors.names[-1]].stop)))

    def loss(begin):
        q, qd = sim.torch.rollout(simulator, q0, begin, control=control)
        return (weight * sensors(q, qd, control)).sum()

    loss(begin).backward()
    direction = torch.tensor(rng.normal(size=begin.shape))
    ahead, behind = (float(loss(begin.detach() + side * 1e-6 * direction)) for side in (1, -1))
    expected = (ahead - behind) / 2e-6
    assert abs(float((begin.grad * direction).sum()) - expected) < 1e-6 * max(1.0, abs(expected))


@pytest.mark.parametrize("suffix", [".xml", ".usda"])
def test_they_come_back_from_files(robot, tmp_path, suffix):
    _, model = robot
    path = tmp_path / f"robot{suffix}"
    if suffix == ".xml":
        sim.exporters.write_mjcf(path, model)
        again = sim.load(path, dtype="float64")
        assert [(s.kind, s.lower, s.upper, s.magnetic_field) for s in again.sensors] == [
            (s.kind, s.lower, s.upper, s.magnetic_field) for s in model.sensors
        ]
    else:
        builder = sim.ModelBuilder()
        builder.add_sphere(radius=0.1, mass=1.0, name="ball")
        builder.add_sensor("compass", "magnetometer", "ball", magnetic_field=(1.0, 2.0, 3.0))
        builder.add_sensor("ahead", "rangefinder", "ball", upper=4.0)
        own = builder.finalize()
        sim.usd.write_usd(path, own, sim.forward_kinematics(own, own.q0[None]).numpy(), fps=30.0)
        assert sim.load(path).sensors == own.sensors


def test_what_is_refused():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    refuses(lambda: builder.add_sensor("s", "tendon_position", "ball"), "unknown", "tendon 'ball'")
    refuses(lambda: builder.add_sensor("s", "gyro", "ball", magnetic_field=(1.0, 0.0, 0.0)), "magnetic_field")
