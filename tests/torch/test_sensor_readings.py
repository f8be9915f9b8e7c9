"""Sensors of a model beside MuJoCo's ``sensordata``, and their gradients."""

import dataclasses
import warnings

import mujoco
import numpy as np
import pytest
import torch
import warp as wp

import sim
from tests.errors import raises_naming, refuses
from tests.torch.files import write

STEPS = 25

ROBOT = """<mujoco model="robot">
  <option timestep="0.002" integrator="Euler" cone="elliptic" tolerance="0"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <body name="base" pos="0.1 -0.2 0.15">
      <freejoint name="root"/>
      <geom name="trunk" type="box" size=".15 .1 .05" mass="2"/>
      <site name="chest" pos=".05 .02 .03" euler="20 -30 40"/>
      <camera name="eye" pos=".1 0 .1" euler="10 5 0"/>
      <body name="arm" pos="0 0 .06" euler="0 10 0">
        <joint name="shoulder" type="ball"/>
        <geom name="upper" type="capsule" fromto="0 0 0 0 0 .2" size=".02" mass=".3"/>
        <body name="hand" pos="0 .03 .2">
          <joint name="wrist" axis="1 .2 0" range="-60 60" damping="0.05" armature="0.002"/>
          <joint name="slide" type="slide" axis="0 0 1" pos=".01 0 0"/>
          <geom name="palm" type="sphere" pos="0 .02 .05" size=".04" mass=".2"/>
          <site name="tip" pos="0 0 .1" euler="50 10 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="turn" joint="wrist" gear="2" ctrlrange="-1 1"/>
    <position name="push" joint="slide" kp="30" forcerange="-2 2"/>
    <motor name="turn too" joint="wrist"/>
    <general name="gain" joint="slide" gear="2" gainprm="-3" forcerange="-2 4"/>
  </actuator>
  <tendon>
    <spatial name="cord" stiffness="40" springlength="0.1 0.15"><site site="chest"/><site site="tip"/></spatial>
  </tendon>
  <sensor>
    <jointpos name="angle" joint="wrist"/> <jointvel joint="slide"/>
    <ballquat joint="shoulder"/> <ballangvel joint="shoulder"/>
    <actuatorpos actuator="turn"/> <actuatorvel actuator="push"/>
    <actuatorfrc actuator="turn"/> <actuatorfrc actuator="push"/> <jointactuatorfrc joint="wrist"/>
    <framepos objtype="site" objname="tip"/> <framepos objtype="body" objname="hand"/>
    <framepos objtype="xbody" objname="hand" reftype="site" refname="chest"/> <framepos objtype="geom" objname="palm"/>
    <framequat objtype="site" objname="tip"/>
    <framequat objtype="camera" objname="eye" reftype="xbody" refname="hand"/>
    <framexaxis objtype="site" objname="tip"/> <frameyaxis objtype="site" objname="tip" reftype="site" refname="chest"/>
    <framezaxis objtype="body" objname="base"/>
    <framelinvel objtype="site" objname="tip"/>
    <framelinvel objtype="site" objname="tip" reftype="site" refname="chest"/>
    <frameangvel objtype="geom" objname="palm"/>
    <frameangvel objtype="xbody" objname="hand" reftype="camera" refname="eye"/>
    <framelinacc objtype="site" objname="tip"/> <frameangacc objtype="site" objname="tip"/>
    <accelerometer site="chest"/> <gyro site="chest"/> <velocimeter site="tip"/>
    <accelerometer site="tip" cutoff="3"/>
    <subtreecom body="base"/> <subtreecom body="arm"/> <subtreelinvel body="arm"/> <subtreeangmom body="base"/>
    <e_potential/> <e_kinetic/> <clock/>
    <actuatorpos actuator="gain"/> <actuatorvel actuator="gain"/> <actuatorfrc actuator="gain"/>
    <tendonpos tendon="cord"/>
  </sensor>
</mujoco>
"""


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    path = tmp_path_factory.mktemp("sensors") / "robot.xml"
    path.write_text(ROBOT)
    return path, sim.load(path, dtype="float64")


def motion_of(path, control):
    """A motion that begins in the air and meets the floor: coordinates, velocities and sensors, step by step."""
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_resetData(model, data)
    data.qpos[3:7] = [0.9, 0.3, -0.2, 0.1]
    data.qpos[7:11] = [0.8, 0.1, 0.5, -0.2]
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    data.qpos[7:11] /= np.linalg.norm(data.qpos[7:11])
    data.qpos[11:] = [0.3, 0.01]
    data.qvel[:] = [0.2, -0.1, -1.0, 1.0, 2.0, -1.5, 0.5, -0.6, 0.7, 1.2, 0.1]
    states, readings = [(data.qpos.copy(), data.qvel.copy())], []
    touched = False
    for each in control:
        data.ctrl[:] = each
        mujoco.mj_step(model, data)
        touched |= data.ncon > 0
        readings.append(data.sensordata.copy())
        states.append((data.qpos.copy(), data.qvel.copy()))
    assert touched
    return model, states, np.array(readings)


def theirs(model, readings):
    """MuJoCo's readings with quaternions xyzw."""
    readings = readings.copy()
    for number in range(model.nsensor):
        if model.sensor_datatype[number] == mujoco.mjtDataType.mjDATATYPE_QUATERNION:
            at = model.sensor_adr[number]
            readings[:, at : at + 4] = readings[:, [at + 1, at + 2, at + 3, at]]
    return readings


def test_readings_beside_mujoco(robot):
    """Along MuJoCo's own motion, so that nothing but the sensors is compared."""
    path, model = robot
    control = np.random.default_rng(0).uniform(-1.5, 1.5, (STEPS, 4))
    reference, states, readings = motion_of(path, control)
    q, qd = (
        torch.tensor(np.array(each))[:, None]
        for each in zip(*(sim.from_mujoco(model, *s) for s in states), strict=True)
    )
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), num_worlds=1, device="cpu")
    sensors = sim.torch.Sensors(simulator)
    found = sensors(q, qd, torch.tensor(control)[:, None])[:, 0].numpy()
    expected = theirs(reference, readings)
    assert found.shape == expected.shape
    for number, (name, part) in enumerate(sensors.slices.items()):
        ours, other = found[:, part], expected[:, part]
        if ours.shape[1] == 4:
            other = other * np.sign((ours * other).sum(axis=1, keepdims=True))
        kind = model.sensors[number].kind
        scale = max(1.0, np.abs(other).max())
        assert np.abs(ours - other).max() < 1e-9 * scale, (name, kind, np.abs(ours - other).max())


def test_gradients_of_readings(robot):
    """Through the simulator and all sensors, against differences."""
    _, model = robot
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), num_worlds=2, device="cpu")
    sensors = sim.torch.Sensors(simulator)
    rng = np.random.default_rng(1)
    q0 = wp.to_torch(simulator.initial_state().q)
    begin = torch.tensor(rng.normal(size=(2, model.nv)), requires_grad=True)
    control = torch.tensor(rng.uniform(-0.5, 0.5, (3, 2, 4)), requires_grad=True)
    weight = torch.tensor(rng.normal(size=(3, 2, sensors.slices[sensors.names[-1]].stop)))

    def loss(begin, control):
        q, qd = sim.torch.rollout(simulator, q0, begin, control=control)
        return (weight * sensors(q, qd, control)).sum()

    loss(begin, control).backward()
    for tensor, arguments in ((begin, lambda x: (x, control.detach())), (control, lambda x: (begin.detach(), x))):
        direction = torch.tensor(rng.normal(size=tensor.shape))
        h = 1e-6
        ahead, behind = (float(loss(*arguments(tensor.detach() + s * h * direction))) for s in (1, -1))
        expected = (ahead - behind) / (2 * h)
        assert abs(float((tensor.grad * direction).sum()) - expected) < 1e-6 * max(1.0, abs(expected))


def test_parameters_are_those_that_the_simulator_has(robot):
    """Two worlds with masses, placements and gravity of their own read as models that are made with them."""
    model = robot[1]
    rng = np.random.default_rng(5)
    own = []
    for _ in range(2):
        scale = rng.uniform(0.5, 2.0, model.num_links)
        placement = model.parameters["joint_placement"].copy()
        placement[:, :3] += 0.1 * rng.normal(size=(model.num_links, 3))
        own.append(
            {
                "mass": scale * model.parameters["mass"],
                "inertia": scale[:, None, None] * model.parameters["inertia"],
                "com": model.parameters["com"] + 0.02 * rng.normal(size=(model.num_links, 3)),
                "joint_placement": placement,
                "gravity": rng.normal(size=3),
            }
        )
    q = np.tile(model.q0, (4, 2, 1)) + 0.1 * rng.normal(size=(4, 2, model.nq))
    qd, control = rng.normal(size=(4, 2, model.nv)), rng.uniform(-1.0, 1.0, (3, 2, model.nu))

    def read(simulator, worlds, sensors=None):
        given = (torch.as_tensor(each[:, worlds]) for each in (q, qd, control))
        return (sensors or sim.torch.Sensors(simulator))(*given).detach().numpy()

    parameters = {name: np.stack([each[name] for each in own]) for name in own[0]}
    both = sim.Simulator(model, 0.002, 2, "cpu", parameters=parameters)
    sensors = sim.torch.Sensors(both)
    found = read(both, [0, 1], sensors)
    for world, values in enumerate(own):
        made = dataclasses.replace(model, parameters={**model.parameters, **values})
        expected = read(sim.Simulator(made, 0.002, 1, "cpu"), [world])
        np.testing.assert_allclose(found[:, [world]], expected, rtol=1e-11, atol=1e-11)
    assert np.abs(found[:, 0] - read(sim.Simulator(model, 0.002, 1, "cpu"), [0])[:, 0]).max() > 0.1
    np.testing.assert_array_equal(read(both, [0, 1], sensors), found)
    for name in parameters:
        both.parameters[name] = model.parameters[name]
    for world in range(2):
        expected = read(sim.Simulator(model, 0.002, 1, "cpu"), [world])
        np.testing.assert_allclose(read(both, [0, 1], sensors)[:, [world]], expected, rtol=1e-11, atol=1e-11)


def test_some_sensors_in_an_order(robot):
    _, model = robot
    simulator = sim.Simulator(model, **sim.mujoco_settings(model), num_worlds=1, device="cpu")
    every, some = sim.torch.Sensors(simulator), sim.torch.Sensors(simulator, ["gyro_25", "angle"])
    state = simulator.initial_state()
    q, qd = sim.torch.rollout(simulator, wp.to_torch(state.q), wp.to_torch(state.qd), steps=2)
    with raises_naming("inputs", "control"):
        every(q, qd)
    control = torch.zeros(2, 1, 4, dtype=torch.float64)
    whole, part = every(q, qd, control), some(q, qd)
    assert torch.equal(part[..., some.slices["angle"]], whole[..., every.slices["angle"]])
    assert torch.equal(part[..., :3], whole[..., every.slices["gyro_25"]])


def test_what_is_refused():
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    for arguments, message in (
        (("s", "speed", "ball"), "unknown kind 'speed'"),
        (("s", "joint_position", "ball"), "unknown joint 'ball'"),
        (("s", "gyro", "nothing"), "unknown frame or link 'nothing'"),
        (("s", "subtree_com", "world"), "unknown link 'world'"),
        (("s", "actuator_force", "ball"), "unknown actuator 'ball'"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            builder.add_sensor(*arguments)
    refuses(lambda: builder.add_sensor("s", "gyro", "ball", reference="ball"), "sensor 's'", "reference")
    builder.add_sensor("s", "gyro", "ball")
    refuses(lambda: builder.add_sensor("s", "gyro", "ball"), "sensor 's'")
    simulator = sim.Simulator(builder.finalize(), dt=0.01, num_worlds=1, device="cpu")
    refuses(lambda: sim.torch.Sensors(simulator, ["other"]), "sensor 'other'", "s")


def test_sensors_without_a_counterpart_are_named(tmp_path):
    path = tmp_path / "left_out.xml"
    further = '<tactile name="n" geom="palm" mesh="grid"/> <user name="u" dim="2"/> <jointlimitpos joint="shoulder"/>'
    text = ROBOT.replace("<clock/>", f"<clock/> {further}").replace('type="ball"', 'type="ball" range="0 60"')
    grid = '<asset><mesh name="grid" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>'
    path.write_text(text.replace("<worldbody>", f"{grid} <worldbody>"))
    with pytest.warns(sim.MJCFWarning) as found:
        sim.load(path)
    texts = [str(each.message) for each in found]
    assert any("ignored: sensor 'n' (line 50): there are no sensors of type tactile" in text for text in texts)
    for kind in ("user", "jointlimitpos"):  # the limit is that of a ball
        assert any(f"of type {kind}" in text for text in texts)


def test_without_actuators_they_do_nothing(tmp_path):
    """No inputs are asked for either."""
    path = tmp_path / "arm.xml"
    body = '<body><joint name="a"/><geom size=".1" pos=".1 0 0"/></body>'
    path.write_text(f'<mujoco><worldbody>{body}</worldbody><sensor><jointactuatorfrc joint="a"/></sensor></mujoco>')
    simulator = sim.Simulator(sim.load(path, dtype="float64"), 1e-3, num_worlds=2, device="cpu")
    readings = sim.torch.Sensors(simulator)(torch.ones(3, 2, 1), torch.ones(3, 2, 1))
    np.testing.assert_array_equal(readings.numpy(), np.zeros((2, 2, 1)))


@pytest.mark.parametrize("suffix", [".xml", ".usda"])
def test_sensors_come_back_from_files(robot, tmp_path, suffix):
    """Those of MJCF have other names of frames where a link's frame isn't a site."""
    _, model = robot
    path = tmp_path / f"robot{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sim.MJCFWarning)  # names of massless links, limits without softness
        write(path, model)
        again = sim.load(path, dtype="float64")
    ours, theirs = ([(s.name, s.kind, s.lower, s.upper) for s in m.sensors] for m in (model, again))
    assert ours == theirs
    rng = np.random.default_rng(3)
    state = [torch.tensor(rng.normal(size=(2, 1, n))) for n in (model.nq, model.nv)]
    control = torch.tensor(rng.normal(size=(1, 1, model.nu)))
    readings = []
    for each in (model, again):
        simulator = sim.Simulator(each, dt=0.002, num_worlds=1, device="cpu", contact=sim.MujocoContact())
        readings.append(sim.torch.Sensors(simulator)(*state, control))
    torch.testing.assert_close(readings[0], readings[1], rtol=1e-6, atol=1e-6)
