"""Conversions to and from Pinocchio and MuJoCo against the libraries themselves: same poses, same velocities."""

import warnings

import numpy as np
import pytest
import torch
import warp as wp
from numpy.testing import assert_allclose

import sim
from tests.dynamics.states import random_state
from tests.dynamics.trees import Link, build, build_pinocchio, zoo
from tests.errors import raises_naming, refuses

WORLDS = 4


@pytest.fixture(scope="module")
def model() -> sim.Model:
    return build(zoo(), "float64")


def assert_same_state(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert_allclose(a, b, rtol=0.0, atol=1e-13)


def test_pinocchio(model):
    pin = pytest.importorskip("pinocchio")
    peer = build_pinocchio(zoo(), model.joint_names)
    data = peer.createData()
    q, qd, _, _ = random_state(model, 0, WORLDS)
    order = list(peer.names)[1:]
    x, v = sim.to_pinocchio(model, q, qd, order)
    assert_same_state(sim.from_pinocchio(model, x, v, order), (q, qd))
    poses = sim.forward_kinematics(model, q).numpy()
    velocities = sim.link_velocities(model, q, qd).numpy()
    for world in range(WORLDS):
        pin.forwardKinematics(peer, data, x[world], v[world])
        pin.updateFramePlacements(peer, data)
        for link, name in enumerate(model.link_names):
            frame = peer.getFrameId(name)
            assert_allclose(data.oMf[frame].translation, poses[world, link, :3], atol=1e-12)
            velocity = pin.getFrameVelocity(peer, data, frame, pin.LOCAL_WORLD_ALIGNED)
            assert_allclose(np.concatenate([velocity.angular, velocity.linear]), velocities[world, link], atol=1e-12)


def test_pinocchio_with_unbounded_joints_in_another_order(model):
    pytest.importorskip("pinocchio")
    q, qd, _, _ = random_state(model, 0, WORLDS)
    order = list(reversed(model.joint_names))
    x, v = sim.to_pinocchio(model, q, qd, order, unbounded=["joint5"])
    assert x.shape == (WORLDS, model.nq + 1)
    assert_same_state(sim.from_pinocchio(model, x, v, order, unbounded=["joint5"]), (q, qd))


def mujoco_text(links: list[Link]) -> str:
    """The same forest as MJCF, children nested in their parents."""

    def numbers(values) -> str:
        return " ".join(repr(float(x)) for x in values)

    def body(number: int) -> str:
        link = links[number]
        x, y, z, w = link.orientation
        kind = {"revolute": "hinge", "continuous": "hinge", "prismatic": "slide", "spherical": "ball", "free": "free"}
        axis = "" if link.kind in ("free", "spherical") else f'axis="{numbers(link.axis)}"'
        joint = "" if link.kind == "fixed" else f'<joint name="joint{number}" type="{kind[link.kind]}" {axis}/>'
        inside = "".join(body(child) for child, other in enumerate(links) if other.parent == number)
        return (
            f'<body name="link{number}" pos="{numbers(link.position)}" quat="{numbers((w, x, y, z))}">{joint}'
            f'<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{inside}</body>'
        )

    bodies = "".join(body(number) for number, link in enumerate(links) if link.parent < 0)
    return f'<mujoco><compiler angle="radian"/><worldbody>{bodies}</worldbody></mujoco>'


def test_mujoco(model):
    mujoco = pytest.importorskip("mujoco")
    peer = mujoco.MjModel.from_xml_string(mujoco_text(zoo()))
    data = mujoco.MjData(peer)
    order = [peer.joint(number).name for number in range(peer.njnt)]
    q, qd, _, _ = random_state(model, 0, WORLDS)
    qpos, qvel = sim.to_mujoco(model, q, qd, order)
    assert_same_state(sim.from_mujoco(model, qpos, qvel, order), (q, qd))
    poses = sim.forward_kinematics(model, q).numpy()
    velocities = sim.link_velocities(model, q, qd).numpy()
    for world in range(WORLDS):
        data.qpos, data.qvel = qpos[world], qvel[world]
        mujoco.mj_forward(peer, data)
        for link, name in enumerate(model.link_names):
            body = peer.body(name).id
            assert_allclose(data.xpos[body], poses[world, link, :3], atol=1e-12)
            turn = data.xquat[body][[1, 2, 3, 0]]
            assert_allclose(abs(turn @ poses[world, link, 3:]), 1.0, atol=1e-12)
            velocity = np.zeros(6)
            mujoco.mj_objectVelocity(peer, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
            assert_allclose(velocity, velocities[world, link], atol=1e-12)


@pytest.mark.parametrize("convert", [sim.to_pinocchio, sim.from_pinocchio, sim.to_mujoco, sim.from_mujoco])
def test_torch_gives_the_same_with_gradients(model, convert):
    q, qd, _, _ = random_state(model, 0, WORLDS)
    tensors = [torch.tensor(array, requires_grad=True) for array in (q, qd)]
    found = convert(model, *tensors)
    assert_same_state([tensor.detach().numpy() for tensor in found], convert(model, q, qd))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gradcheck probes dense Jacobians and says so
        assert torch.autograd.gradcheck(lambda a, b: convert(model, a, b), tensors)


@pytest.mark.parametrize("convert", [sim.to_pinocchio, sim.from_pinocchio, sim.to_mujoco, sim.from_mujoco])
def test_arrays_of_warp(model, convert):
    q, qd, _, _ = random_state(model, 0, WORLDS)
    found = convert(model, *(wp.array(array, dtype=wp.float64, device="cpu") for array in (q, qd)))
    assert_same_state(found, convert(model, q, qd))


def test_four_zeros_are_the_identity(model):
    """As in MuJoCo, and without NaN."""
    q, qd = sim.from_mujoco(model, np.zeros((2, model.nq)), np.ones((2, model.nv)))
    back, _ = sim.to_mujoco(model, q, qd)
    assert np.isfinite(q).all()
    assert np.isfinite(qd).all()
    assert set(back.ravel()) == {0.0, 1.0}


def test_an_order_that_misses_a_joint_is_refused(model):
    q, qd, _, _ = random_state(model, 0, 1)
    with raises_naming("missing: ['joint1']"):
        sim.to_mujoco(model, q, qd, [name for name in model.joint_names if name != "joint1"])
    refuses(lambda: sim.to_pinocchio(model, q, qd, unbounded=["joint3"]), "joint3")
    refuses(lambda: sim.to_pinocchio(model, q[:, 1:], qd), "entries")


@pytest.mark.parametrize("convert", [sim.to_mujoco, sim.from_mujoco, sim.to_pinocchio, sim.from_pinocchio])
@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
def test_a_model_without_joints_has_no_coordinates(convert, make):
    builder = sim.ModelBuilder()
    builder.add_ground()
    model = builder.finalize()
    q, qd = convert(model, make((3, 0)), make((3, 0)))
    assert q.shape == qd.shape == (3, 0)
    with raises_naming("q", "velocity", 1, 0, "(0, 0)"):
        convert(model, make((3, 1)), make((3, 0)))
