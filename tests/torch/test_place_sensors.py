"""Sensors of distances between geometries, of zones and of cameras, beside MuJoCo's; and their gradients."""

import mujoco
import numpy as np
import pytest
import torch

import sim
from tests.errors import refuses, strictly
from tests.torch.files import write

SCENE = """<mujoco model="scene">
  <worldbody>
    <geom name="floor" type="plane" size="0 0 .1"/>
    <geom name="wall" type="box" pos="1 0 .5" size=".1 1 .5" euler="0 0 10"/>
    <camera name="fixed" pos="0 -2 1" euler="70 0 10" fovy="50" resolution="640 480"/>
    <body name="drone" pos="0 0 1">
      <freejoint/>
      <geom name="hull" type="ellipsoid" size=".2 .15 .1" mass="1"/>
      <geom name="wing" type="capsule" fromto="0 -.4 0 0 .4 .1" size=".03" mass=".1"/>
      <site name="nose" pos=".2 0 0"/>
      <camera name="eye" pos=".1 0 -.1" euler="30 20 10" sensorsize=".01 .02" focal=".01 .011" resolution="320 200"/>
      <camera name="deep" pos=".1 0 -.2" euler="20 -30 10" fovy="60" resolution="5 4"/>
      <camera name="aside" pos=".1 0 -.2" euler="20 -30 10" sensorsize=".01 .02" focal=".01 .011" resolution="4 3"
        principal=".004 .009"/>
      <site name="down" pos="0 .1 -.2" euler="160 10 0"/>
      <body name="arm" pos="0 0 -.1">
        <joint name="turn" axis="0 1 0"/>
        <geom name="rod" type="cylinder" fromto="0 0 0 .3 0 -.1" size=".02" mass=".1"/>
        <geom name="seen" type="sphere" size=".03" pos=".3 0 -.1" contype="0" conaffinity="0" mass="0.01"/>
        <site name="tip" pos=".3 0 -.1"/>
      </body>
    </body>
    <body name="box" pos=".4 .3 .2"><freejoint/><geom name="crate" type="box" size=".1 .12 .14" mass="1"/>
      <site name="room" type="{zone}" size=".45 .3 .5" euler="10 20 30"/></body>
  </worldbody>
  <sensor>
    <distance name="height" geom1="floor" geom2="hull" cutoff="10"/>
    <distance name="far" geom1="crate" geom2="hull" cutoff=".4"/>
    <distance name="deep" geom1="crate" geom2="rod"/>
    <distance name="bodies" body1="drone" body2="box" cutoff="5"/>
    <distance name="marker" geom1="seen" geom2="wall" cutoff="5"/>
    <normal name="way" geom1="rod" geom2="crate" cutoff="3"/>
    <fromto name="points" body1="box" body2="arm" cutoff="3"/>
    <fromto name="some" geom1="crate" geom2="wing" cutoff=".3"/>
    <rangefinder name="ray" site="down" data="dist dir origin point normal depth"/>
    <rangefinder name="rays" camera="deep" data="dist dir origin point normal depth"/>
    <rangefinder name="image" camera="aside" data="depth" cutoff="2"/>
    <insidesite name="tip in" site="room" objtype="site" objname="tip"/>
    <insidesite name="drone in" site="room" objtype="xbody" objname="drone"/>
    <camprojection name="pixel" site="tip" camera="eye"/>
    <camprojection name="view" site="nose" camera="fixed"/>
  </sensor>
</mujoco>
"""
STATES = 60


def scene(folder, zone):
    path = folder / f"{zone}.xml"
    path.write_text(SCENE.format(zone=zone))
    model = strictly(sim.load, path, dtype="float64")
    return path, model, sim.torch.Sensors(sim.Simulator(model, **sim.mujoco_settings(model), device="cpu"))


def states_of(path, model):
    """Random states, and MuJoCo's readings there."""
    reference = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(reference)
    rng = np.random.default_rng(4)
    q, readings = [], []
    for _ in range(STATES):
        data.qpos[:3] = rng.uniform([-0.3, -0.3, 0.0], [0.8, 0.6, 1.0])
        data.qpos[8:11] = rng.uniform([-0.2, -0.3, 0.0], [0.6, 0.6, 0.8])
        for at in (3, 11):
            turn = rng.normal(size=4)
            data.qpos[at : at + 4] = turn / np.linalg.norm(turn)
        data.qpos[7] = rng.uniform(-2, 2)
        mujoco.mj_forward(reference, data)
        q.append(sim.from_mujoco(model, data.qpos.copy(), data.qvel.copy())[0])
        readings.append(data.sensordata.copy())
    return torch.tensor(np.array(q)), np.array(readings)


def readings_of(sensors, q):
    states = torch.cat([q, q[-1:]])[:, None]
    return sensors(states, torch.zeros(len(states), 1, sensors.simulator.model.nv, dtype=q.dtype))[:, 0]


@pytest.mark.parametrize("zone", ["sphere", "capsule", "ellipsoid", "cylinder", "box"])
def test_readings_beside_mujoco(tmp_path, zone):
    path, model, sensors = scene(tmp_path, zone)
    q, expected = states_of(path, model)
    found = readings_of(sensors, q).numpy()
    assert found.shape == expected.shape
    # Where the axis of a capsule is in a box, MuJoCo 4 states an overlap that isn't the least.
    plain = expected[:, sensors.slices["bodies"]][:, 0] > -0.03
    assert plain.mean() > 0.8
    for name, part in sensors.slices.items():
        compared = plain if name in ("bodies", "some") else slice(None)
        ours, theirs = found[compared, part], expected[compared, part]
        error = np.abs(ours - theirs).max(axis=1) / max(1.0, np.abs(theirs).max())
        assert error.max() < 1e-5, (name, error.argmax(), ours[error.argmax()], theirs[error.argmax()])
    for name in ("tip in", "drone in"):
        assert 0.0 < found[:, sensors.slices[name]].mean() < 1.0
    assert (found[:, sensors.slices["deep"]] < 0.0).any()


def test_gradients_of_readings(tmp_path):
    """In coordinates, against differences, of all but what is inside, which has none."""
    path, model, sensors = scene(tmp_path, "box")
    q, _ = states_of(path, model)
    robot = sim.torch.Robot(model)
    rng = np.random.default_rng(6)
    direction = torch.tensor(rng.normal(size=(len(q), model.nv)))
    move = torch.zeros(len(q), model.nv, dtype=torch.float64, requires_grad=True)
    weight = torch.tensor(rng.normal(size=readings_of(sensors, q).shape))

    def losses(velocity):
        return (weight * readings_of(sensors, robot.integrate(q, velocity))).sum(dim=-1)

    losses(move).sum().backward()
    found = (move.grad * direction).sum(dim=-1)
    h = 1e-6
    with torch.no_grad():
        expected = (losses(h * direction) - losses(-h * direction)) / (2 * h)
    error = (found - expected).abs() / expected.abs().clamp(min=1.0)
    # The nearest points of a flat side jump from edge to edge, and so does which geometries are nearest.
    assert float((error < 1e-5).double().mean()) > 0.95, error


def test_what_is_refused():
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    ball, ground = ["ball/geometry"], ["ground"]
    for given, message in (
        ({"readings": []}, "readings is empty"),
        ({"readings": ["speed"]}, "unknown reading 'speed'; known are found, force"),
        ({"readings": ["force", "force"]}, "readings .*force.*force"),
        ({"choice": "last"}, "choice is 'last'"),
        ({"most": 0}, "most is 0"),
        ({"most": 2, "choice": "net"}, "most is 2"),
        ({"readings": ["linear_velocity"], "choice": "net"}, "'net' .*linear_velocity"),
        ({"geometries": ["nothing"]}, "unknown geometry 'nothing'"),
        ({"frame": "nothing"}, "unknown frame or link 'nothing'"),
        ({"zone": "cone"}, "zone is 'cone'"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            builder.add_contact_sensor("s", **given)
    for given, message in (
        ({"geometries": [], "against": ball}, "geometries is empty"),
        ({"geometries": ball, "against": ["nothing"]}, "unknown geometry 'nothing'"),
        ({"geometries": ball, "against": ground, "max_distance": -1.0}, "max_distance is -1.0"),
        ({"geometries": ball, "against": ball}, "geometries 'ball/geometry' and 'ball/geometry'"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            builder.add_distance_sensor("s", **given)
    for given, message in (
        ({"readings": ["colour"]}, "unknown reading 'colour'; known are distance, direction"),
        ({"image": (8, 8, 4, 3)}, "image and pixels"),
        ({"image": (8, 8, 4, 3), "pixels": (8, 0)}, "pixels are"),
        ({"frame": "nothing"}, "unknown frame or link 'nothing'"),
    ):
        with pytest.raises(sim.ModelError, match=message):
            builder.add_range_sensor("s", **given)
    refuses(lambda: builder.add_sensor("s", "camera_projection", "ball"), "image")
    refuses(lambda: builder.add_sensor("s", "camera_projection", "ball", image=(-1, -1, 0, 0)), "focal lengths", "-1.0")
    refuses(lambda: builder.add_sensor("s", "inside", "ball"), "sphere")
    refuses(lambda: builder.add_sensor("s", "contact"), "readings")
    assert not builder.sensors


@pytest.mark.parametrize("suffix", [".xml", ".usda"])
def test_they_come_back_from_files(tmp_path, suffix):
    path, model, sensors = scene(tmp_path, "cylinder")
    q, _ = states_of(path, model)
    written = tmp_path / f"again{suffix}"
    write(written, model)
    again = strictly(sim.load, written, dtype="float64")
    others = sim.torch.Sensors(sim.Simulator(again, dt=0.002, device="cpu"))
    assert others.names == sensors.names
    # Shapes that are only seen are meshes in USD: the ball of "marker", which "points" looks at too.
    bound = 1e-5 if suffix == ".xml" else 3e-3
    close = torch.isclose(readings_of(others, q), readings_of(sensors, q), rtol=1e-6, atol=bound)
    for name, part in sensors.slices.items():
        rays = name in ("ray", "rays", "image")  # some of which graze what they meet, or pass by that ball
        assert float(close[:, part].double().mean()) > (0.99 if rays else 0.999999), name
