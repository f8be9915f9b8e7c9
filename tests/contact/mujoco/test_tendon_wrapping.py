"""Tendons around spheres and cylinders: lengths and moment arms beside MuJoCo along a motion, and gradients."""

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import sim
from sim.dynamics.kinematics import tendon_lengths
from sim.exporters import write_mjcf
from sim.model.tendons.wrapping import tangent_points
from sim.torch.actuation.tendon_paths import TendonPaths
from sim.torch.robot.robot import Robot
from tests.importers.mjcf_zoo import load_quietly
from tests.mujoco_states import data_at
from tests.simulation.differences import METHODS, case, check
from warp_kernels.solver.tendons.wrapping import CLOCKWISE, COUNTER_CLOCKWISE, INSIDE, STRAIGHT

XML = """
<mujoco>
  <option timestep="0.002" cone="elliptic" tolerance="0" iterations="200" gravity="0 0 0"/>
  <worldbody>
    <geom name="post" type="cylinder" size="0.05 0.3" pos="0.02 0 1.02" euler="80 10 0" contype="0" conaffinity="0"/>
    <geom name="ring" type="sphere" size="0.3" pos="0.1 0.03 1" contype="0" conaffinity="0"/>
    <site name="anchor" pos="-0.4 0.02 1.05"/><site name="above" pos="0 0 1.4"/><site name="below" pos="0.03 0 0.7"/>
    <site name="core" pos="0.1 0.05 1.02"/>
    <body name="upper" pos="0 0 1"><joint name="a" type="ball" damping="0.1" armature="0.02"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" contype="0" conaffinity="0"/>
      <site name="elbow" pos="0.3 0 0.08"/>
      <geom name="knee" type="cylinder" size="0.06 0.1" pos="0.4 0 0" euler="90 0 0" contype="0" conaffinity="0"/>
      <geom name="ball" type="sphere" size="0.05" pos="0.2 0.02 0.05" contype="0" conaffinity="0"/>
      <site name="shoulder" pos="0.05 0.01 0.12"/><site name="over" pos="0.4 0 0.3"/>
      <site name="within" pos="0.4 0.01 0.01"/>
      <body name="lower" pos="0.4 0 0"><joint name="b" type="hinge" axis="0 1 0.1"/>
        <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" contype="0" conaffinity="0"/>
        <site name="wrist" pos="0.3 0 0.05"/></body></body>
    <body name="loose" pos="0.5 0.3 1.2"><freejoint/><geom type="box" size="0.1 0.06 0.05" contype="0" conaffinity="0"/>
      <site name="hook" pos="-0.1 0.06 0.05"/></body>
  </worldbody>
  <tendon>
    <spatial name="post" stiffness="9" damping="0.3" springlength="0.3">
      <site site="anchor"/><geom geom="post" sidesite="above"/><site site="elbow"/></spatial>
    <spatial name="free" stiffness="9" springlength="0.4">
      <site site="anchor"/><geom geom="post"/><site site="hook"/><geom geom="ball"/><site site="wrist"/></spatial>
    <spatial name="knee" stiffness="20" springlength="0.2" limited="true" range="0 0.6" frictionloss="0.1">
      <site site="shoulder"/><geom geom="ball" sidesite="over"/><site site="elbow"/>
      <geom geom="knee" sidesite="over"/><site site="wrist"/></spatial>
    <spatial name="ring" stiffness="4" springlength="0.1">
      <site site="anchor"/><geom geom="ring" sidesite="core"/><site site="wrist"/><pulley divisor="2"/>
      <site site="anchor"/><geom geom="post" sidesite="below"/><site site="hook"/></spatial>
    <spatial name="sheath" stiffness="4" springlength="0.1">
      <site site="shoulder"/><geom geom="knee" sidesite="within"/><site site="wrist"/></spatial>
  </tendon>
  <actuator><motor name="pull" tendon="knee"/></actuator>
</mujoco>
"""
INWARD = ("ring", "sheath")  # held from within
CONTACT = sim.MujocoContact()


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("wrapping") / "scene.xml"
    path.write_text(XML)
    return path


def states(model: sim.Model, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Along a motion that winds tendons up and lets them go."""
    time = np.linspace(0.0, 1.0, count)[:, None]
    rates = 2.5 * np.sin(1.0 + np.arange(model.nv))
    rates[4:7] *= 0.2
    q = sim.integrate(model, np.tile(model.q0, (count, 1)), np.sin(6.0 * time) * rates, 1.0).numpy()
    return q, np.cos(1.7 * np.arange(model.nv) + 5.0 * time)


def test_along_a_motion(path):
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    count = 200
    q, qd = states(model, count)
    simulator = sim.Simulator(model, 0.002, count, "cpu", CONTACT)
    simulator.step(simulator.state(q, qd))
    tendons = [shard.step.tendons for shard in simulator.engine.shards]
    lengths, slopes, rates, windings = (
        np.concatenate([getattr(each, name).numpy() for each in tendons], axis=-1)
        for name in ("tendon_length", "tendon_slope", "tendon_rate", "wrap_winding")
    )
    data = mujoco.MjData(peer)
    outward = [name not in INWARD for name in model.tendons.names]
    for world in range(count):
        data.qpos, data.qvel = sim.to_mujoco(model, q[world], qd[world])
        mujoco.mj_forward(peer, data)
        np.testing.assert_allclose(lengths[:, world], data.ten_length, rtol=0, atol=1e-9, err_msg=str(world))
        np.testing.assert_allclose(lengths[:, world], tendon_lengths(model, q[world]), rtol=0, atol=1e-12)
        np.testing.assert_allclose(rates[outward, world], data.ten_velocity[outward], rtol=0, atol=1e-9)
        # MuJoCo stops its search for the place inside at 1e-6 rad.
        np.testing.assert_allclose(rates[:, world], data.ten_velocity, rtol=0, atol=1e-5)
    np.testing.assert_allclose(rates, np.einsum("tkw,wk->tw", slopes, qd), atol=1e-13)
    for wrap in range(len(model.tendons.wrap_link)):
        assert len(set(windings[wrap].tolist()) - {STRAIGHT}) > 0, wrap
    assert set(windings.reshape(-1).tolist()) == {STRAIGHT, CLOCKWISE, COUNTER_CLOCKWISE, INSIDE}


@pytest.mark.parametrize("world", [20, 47, 150])
def test_one_step(path, world):
    """With springs, a motor, and the knee's limit and friction. MuJoCo's place inside is right to 1e-6 rad alone."""
    peer, model = mujoco.MjModel.from_xml_path(str(path)), load_quietly(path)
    q, qd = (values[world] for values in states(model, 200))
    simulator = sim.Simulator(model, **sim.mujoco_settings(model))
    data = data_at(peer, model, q, qd, ctrl=3.0)
    before = data.qvel.copy()
    mujoco.mj_step(peer, data)
    end = simulator.step(simulator.state(q, qd), control=np.array([[3.0]]))
    _, qvel = sim.to_mujoco(model, end.q.numpy()[0], end.qd.numpy()[0])
    np.testing.assert_allclose(qvel, data.qvel, rtol=0, atol=1e-6 * np.abs(data.qvel - before).max())


@pytest.mark.parametrize("world", [20, 47, 150])
def test_gradients(path, world):
    """Of two steps, around and inside: in the state, in where things are, and how large."""
    model = load_quietly(path)
    q, qd = states(model, 200)
    c = case(model, 2, q[world], qd[world], contact=CONTACT, dt=0.002)
    names = ("tendon_point", "tendon_wrap_centre", "tendon_wrap_axis", "tendon_wrap_radius", "tendon_stiffness", "mass")
    check(replace(c, control=np.full((2, 1), 3.0)), names)


@pytest.mark.parametrize("kind", ["sphere", "cylinder"])
def test_sides(kind):
    """Places of the ends and of the side at random, each beside MuJoCo."""
    rng = np.random.default_rng(2)
    spec = mujoco.MjSpec.from_string(
        f"""<mujoco><worldbody><geom name="g" type="{kind}" size="0.1 0.3" contype="0"/><site name="s" pos="9 0 0"/>
        <body mocap="true"><site name="a"/></body><body><joint type="slide"/><geom size="1" contype="0"/></body>
        <body mocap="true"><site name="b"/></body><body mocap="true"><site name="c"/></body></worldbody>
        <tendon><spatial><site site="a"/><geom geom="g" sidesite="c"/><site site="b"/></spatial></tendon></mujoco>"""
    )
    peer = spec.compile()
    data = mujoco.MjData(peer)
    wrapped = 0
    for _ in range(1000):
        a, b, side = rng.uniform(-0.4, 0.4, (3, 3)) * rng.choice([0.3, 1.0], (3, 1))
        data.mocap_pos = (a, b, side)
        mujoco.mj_forward(peer, data)
        ends = np.stack([a, b])
        found = tangent_points(ends, np.zeros(3), np.eye(3)[2] if kind == "cylinder" else None, 0.1, side)
        assert (found is not None) == (data.ten_wrapnum[0] == 4)
        length = np.linalg.norm(b - a)
        if found is not None:
            wrapped += 1
            length = np.linalg.norm(found[0] - ends, axis=1).sum() + found[1]
        np.testing.assert_allclose(length, data.ten_length[0], rtol=0, atol=1e-9)
    assert wrapped > 200


def test_written_again(path, tmp_path):
    """Read, written and read: the same tendons, and the same lengths in MuJoCo."""
    model = load_quietly(path)
    write_mjcf(tmp_path / "again.xml", model)
    again = load_quietly(tmp_path / "again.xml")
    np.testing.assert_array_equal(again.tendons.segment_ends, model.tendons.segment_ends)
    np.testing.assert_array_equal(again.tendons.wrap_is_cylinder, model.tendons.wrap_is_cylinder)
    np.testing.assert_allclose(again.tendons.wrap_side, model.tendons.wrap_side, atol=1e-12)
    for name, value in model.parameters.items():
        if name.startswith("tendon"):
            np.testing.assert_allclose(again.parameters[name], value, rtol=1e-12, atol=1e-12, err_msg=name)
    q, _ = states(model, 5)
    for file in (path, tmp_path / "again.xml"):
        peer = mujoco.MjModel.from_xml_path(str(file))
        data = mujoco.MjData(peer)
        data.qpos, _ = sim.to_mujoco(model, q[2], np.zeros(model.nv))
        mujoco.mj_forward(peer, data)
        np.testing.assert_allclose(data.ten_length, tendon_lengths(model, q[2]), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ([sim.TendonWrap(link="b", radius=0.1), ("b", (1, 0, 0)), ("world", (0, 0, 1))], "between two points"),
        ([("b", (1, 0, 0)), sim.TendonWrap(link="b", radius=0.0), ("world", (0, 0, 1))], "radius is 0.0; it must be"),
        ([("b", (1, 0, 0)), sim.TendonWrap(link="c", radius=0.1), ("world", (0, 0, 1))], "unknown link 'c'"),
        (
            [("b", (1, 0, 0)), sim.TendonWrap(link="b", radius=0.1, axis=(0, 0, 0)), ("world", (0, 0, 1))],
            "axis is zero; give the direction of a cylinder, or None for a sphere",
        ),
        (
            [("b", (1, 0, 0)), sim.TendonWrap(link="b", radius=0.1, side=("d", (0, 0, 0))), ("world", (0, 0, 1))],
            "unknown link 'd'",
        ),
    ],
)
def test_messages(path, message):
    builder = sim.ModelBuilder()
    builder.add_link("b", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("x", "prismatic", parent="world", child="b", axis=(1, 0, 0))

    def build() -> None:
        builder.add_spatial_tendon("t", path)
        builder.finalize()

    with pytest.raises(sim.ModelError, match=f"tendon 't'.*{message}"):
        build()


def test_float32(path):
    """The same lengths as in float64, to rounding."""
    model = load_quietly(path)
    single = replace(model, dtype="float32")
    q, qd = states(model, 200)
    found = []
    for each in (model, single):
        simulator = sim.Simulator(each, 0.002, 200, "cpu", CONTACT)
        simulator.step(simulator.state(q, qd))
        tendons = [shard.step.tendons for shard in simulator.engine.shards]
        found.append(np.concatenate([one.tendon_length.numpy() for one in tendons], axis=-1))
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=2e-5)


def test_paths_of_tensors(path):
    """Lengths and slopes are those of the simulator, whichever way a tendon takes, and differentiate as they should."""
    model = load_quietly(path)
    q, qd = states(model, 200)
    simulator = sim.Simulator(model, 0.002, 200, "cpu", CONTACT)
    simulator.step(simulator.state(q, qd))
    steps = [shard.step.tendons for shard in simulator.engine.shards]
    windings = np.unique(np.concatenate([step.wrap_winding.numpy() for step in steps], axis=-1))
    assert set(windings) == {STRAIGHT, CLOCKWISE, COUNTER_CLOCKWISE, INSIDE}
    paths = TendonPaths(simulator, Robot(model))
    length, slope = paths(torch.tensor(q)[:, None])
    there = np.concatenate([step.tendon_length.numpy() for step in steps], axis=-1).T
    np.testing.assert_allclose(length[:, 0].numpy(), there, atol=1e-10)
    there = np.concatenate([step.tendon_slope.numpy() for step in steps], axis=-1).transpose(2, 0, 1)
    np.testing.assert_allclose(slope[:, 0].numpy(), there, atol=1e-9)
    few = torch.tensor(q[::40])[:, None].requires_grad_()
    weights = torch.tensor(np.random.default_rng(0).normal(size=(len(few), 1, len(model.tendons.names), model.nv)))

    def loss(q):
        length, slope = paths(q)
        return (weights[..., 0] * length).sum() + (weights * slope).sum()

    (found,) = torch.autograd.grad(loss(few), few)
    step, tangent = 1e-6, np.random.default_rng(1).normal(size=(4, len(few), model.nv))
    for each in tangent:
        up, down = (
            torch.tensor(sim.integrate(model, few.detach()[:, 0].numpy(), sign * step * each, 1.0).numpy())[:, None]
            for sign in (1.0, -1.0)
        )
        difference = float(loss(up) - loss(down)) / (2.0 * step)
        along = float((found * (up - down)).sum()) / (2.0 * step)
        assert along == pytest.approx(difference, rel=1e-6, abs=1e-6)


def test_what_a_tendon_lies_around_may_be_all_that_moves():
    """A pin that is pushed against a cord between two points of the world."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_link("pin", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("x", "prismatic", parent="world", child="pin", axis=(1, 0, 0), q0=(0.3,))
    pin = sim.TendonWrap(link="pin", radius=0.1, axis=(0, 1, 0), side=("world", (9, 0, 0)))
    builder.add_spatial_tendon(
        "cord", [("world", (0, 0, 1)), pin, ("world", (0, 0, -1))], spring=sim.Spring(stiffness=5.0, rest=2)
    )
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 1e-3)
    end = simulator.step(simulator.initial_state())
    # Both straight parts pull at the same angle to the motion.
    distance = np.hypot(0.3, 1.0)
    lean = np.arctan2(0.3, 1.0) + np.arcsin(0.1 / distance)
    length = 2.0 * np.sqrt(distance**2 - 0.01) + 2.0 * 0.1 * lean
    np.testing.assert_allclose(tendon_lengths(model, model.q0), [length], rtol=1e-12)
    np.testing.assert_allclose(end.qd.numpy()[0], -1e-3 * 5.0 * (length - 2.0) * 2.0 * np.sin(lean), rtol=1e-9)


@pytest.mark.parametrize("law", ["mujoco", "hard"])
def test_a_taut_cord_leaves_alone_what_it_passes(law):
    """A pin that no joint moves against the cord: its slope is zero, not rounding."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_link("pin", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("turn", "revolute", parent="world", child="pin", axis=(0.3, 0.5, 1.0))
    pin = sim.TendonWrap(link="pin", radius=0.05, position=(0.1, 0.2, 0.3), axis=(0, 1, 0))
    builder.add_spatial_tendon("cord", [("world", (0.1, 0.7, 1)), pin, ("world", (0.8, 0.3, -1))], limits=(0, 1))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 1e-3, num_worlds=32, device="cpu", contact=METHODS[law]())
    q = np.linspace(-2.0, -1.0, 32)[:, None]
    assert np.ptp([tendon_lengths(model, each) for each in q]) < 1e-12
    end = simulator.step(simulator.state(q, 0.1 * q))
    np.testing.assert_allclose(end.qd.numpy(), 0.1 * q, rtol=0, atol=1e-14)
