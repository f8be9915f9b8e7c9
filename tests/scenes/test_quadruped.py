"""The standing quadruped, and its twin for MuJoCo."""

from collections import Counter

import numpy as np
import pytest

import sim
from scenes import quadruped
from scenes.mjcf import to_mjcf
from sim.model.geometries import Mesh
from tests.errors import raises_naming
from warp_kernels import types as codes


def foot_positions(model, q):
    return sim.forward_kinematics(model, q[None], [f"{leg}_foot" for leg in quadruped.LEGS]).numpy()[0, :, :3]


@pytest.mark.parametrize("height", [0.0, 0.1])
def test_all_feet_just_touch_the_ground(height):
    scene = quadruped.build("float64", height=height)
    feet = foot_positions(scene.model, scene.q0)
    np.testing.assert_allclose(feet[:, 2] - quadruped.FOOT_RADIUS, height, atol=1e-9)
    hips = np.array([[0.19, 0.13], [0.19, -0.13], [-0.19, 0.13], [-0.19, -0.13]])
    np.testing.assert_allclose(feet[:, :2], hips, atol=1e-9)


def test_trunk_and_legs_collide_with_the_ground_alone():
    """Each link has a collider; standing, nothing but the feet is near the ground."""
    scene = quadruped.build()
    model = scene.model
    colliders = [g for g in model.geometries if g.collides]
    assert Counter(g.type for g in colliders) == {codes.PLANE: 1, codes.SPHERE: 4, codes.BOX: 1, codes.CAPSULE: 12}
    assert {g.link for g in colliders} == {-1, *range(model.num_links)}
    simulator = sim.Simulator(model, 1e-3, device="cpu")
    found = simulator.contacts(simulator.state(scene.q0))
    names = [{model.geometries[k].name for k in pair} for pair in zip(found.geometry_a, found.geometry_b, strict=True)]
    assert len(names) == 4
    assert all("ground" in pair and any("foot" in name for name in pair) for pair in names)


@pytest.mark.parametrize("seed", range(3))
def test_without_servos_it_falls_and_lies_on_the_ground(seed):
    """However it is turned at first: no geometry ends deeper in the ground than a body at rest lies."""
    model = quadruped.build().model
    rng = np.random.default_rng(seed)
    simulator = sim.Simulator(model, 1 / 240, device="cpu")
    q = np.concatenate([(0.0, 0.0, 0.6), rng.normal(size=4), quadruped.standing_legs()])
    q[3:7] /= np.linalg.norm(q[3:7])
    end = simulator.rollout(simulator.state(q), steps=480).final_state
    distances = simulator.contacts(end).distance
    assert len(distances) > 3
    assert distances.min() > -1e-3
    assert 0.04 < end.q.numpy()[0, 2] < 0.3


def test_start_is_inside_the_limits():
    scene = quadruped.build("float64")
    model = scene.model
    joints = model.dof_q >= 0
    angles = scene.q0[model.dof_q[joints]]
    assert (angles > model.parameters["lower_limit"][joints] + 0.1).all()
    assert (angles < model.parameters["upper_limit"][joints] - 0.1).all()


@pytest.fixture(scope="module")
def twin():
    mujoco = pytest.importorskip("mujoco")
    return mujoco, mujoco.MjModel.from_xml_string(quadruped.mjcf())


def to_mujoco(q):
    return np.concatenate([q[:3], q[[6, 3, 4, 5]], q[7:]])


def test_mujoco_twin_has_the_same_numbers(twin):
    _, reference = twin
    model = quadruped.build("float64").model
    assert (reference.nq, reference.nv) == (model.nq, model.nv)
    assert reference.body_mass.sum() == pytest.approx(13.64)
    np.testing.assert_allclose(reference.body_mass[1:], model.parameters["mass"])
    np.testing.assert_allclose(reference.dof_damping, model.parameters["damping"])
    np.testing.assert_allclose(reference.jnt_range[1:, 0], model.parameters["lower_limit"][6:])
    assert (reference.opt.iterations, reference.opt.timestep) == (50, 1e-3)
    assert (reference.opt.solver, reference.opt.cone) == (0, 1)  # projected Gauss-Seidel, elliptic


def test_mass_matrix_is_the_same_here_in_mujoco_and_in_pinocchio(twin):
    mujoco, reference = twin
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(str(quadruped.QUADRUPED_URDF), pin.JointModelFreeFlyer())
    pin_data, data = model.createData(), mujoco.MjData(reference)
    scene = quadruped.build("float64")
    pin.seed(1)
    for _ in range(5):
        q = pin.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq))
        expected = pin.crba(model, pin_data, q)
        expected = np.triu(expected) + np.triu(expected, 1).T
        # Pinocchio's base velocity is in body axes; MuJoCo's linear part is in world axes alone.
        turn = np.eye(18)
        turn[:3, :3] = pin.XYZQUATToSE3(q[:7]).rotation
        data.qpos[:] = to_mujoco(q)
        mujoco.mj_forward(reference, data)
        matrix = np.zeros((18, 18))
        mujoco.mj_fullM(reference, data, matrix)
        np.testing.assert_allclose(matrix, turn @ expected @ turn.T, atol=1e-10)
        # Here both parts are in world axes.
        turn[3:6, 3:6] = turn[:3, :3]
        own = sim.mass_matrix(scene.model, q[None]).numpy()[0]
        np.testing.assert_allclose(own, turn @ expected @ turn.T, atol=1e-10)


def test_mujoco_twin_stands_on_four_contacts(twin):
    mujoco, reference = twin
    scene = quadruped.build("float64")
    data = mujoco.MjData(reference)
    data.qpos[:] = to_mujoco(scene.q0)
    data.qpos[2] -= 1e-6
    mujoco.mj_forward(reference, data)
    assert data.ncon == 4
    np.testing.assert_allclose(data.contact.dist, -1e-6, atol=1e-9)
    np.testing.assert_allclose(data.contact.friction[:, 0], 0.8)


def test_a_colliding_mesh_is_refused():
    builder = sim.ModelBuilder()
    mesh = Mesh(np.eye(3), np.array([[0, 1, 2]]))
    builder.add_geometry("world", codes.CONVEX, mesh=mesh, size=(1, 1, 1), name="rock")
    with raises_naming("rock"):
        to_mjcf(builder.finalize(), dt=0.001, sweeps=10)
