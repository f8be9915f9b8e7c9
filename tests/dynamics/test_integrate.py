"""Integration and difference on the configuration manifold against SciPy's rotations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from tests.dynamics.trees import build, rotations, zoo


@pytest.fixture(scope="module")
def model() -> sim.Model:
    return build(zoo(), "float64")


def free_body(dtype: str = "float64") -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=1.0)
    return builder.finalize(dtype)


def spherical() -> sim.Model:
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=1.0, inertia=[1.0, 1.0, 1.0])
    builder.add_joint("socket", "spherical", child="bob")
    return builder.finalize("float64")


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1e-12, 1e-4, 0.0099, 0.0101, 1.0, 3.0]))
def test_free_and_spherical_joints_turn_as_scipy_does(seed, angle):
    rng = np.random.default_rng(seed)
    rotation = Rotation.random(rng=rng)
    axis = rng.normal(size=3)
    turn = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis))
    dt = 0.25
    position, velocity = rng.normal(size=(2, 3))

    q = np.concatenate([position, 3.0 * rotation.as_quat()])[None]
    qd = np.concatenate([velocity, turn.as_rotvec() / dt])[None]
    found = sim.integrate(free_body(), q, qd, dt).numpy()[0]
    assert_allclose(found[:3], position + dt * velocity, atol=1e-14)
    assert_allclose(Rotation.from_quat(found[3:]).as_matrix(), (turn * rotation).as_matrix(), atol=1e-14)
    assert_allclose(np.linalg.norm(found[3:]), 1.0, atol=1e-15)

    found = sim.integrate(spherical(), q[:, 3:], qd[:, 3:], dt).numpy()[0]
    assert_allclose(Rotation.from_quat(found).as_matrix(), (rotation * turn).as_matrix(), atol=1e-14)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-4, 0.0199, 0.0201, 1.0, 3.0, np.pi - 1e-9])
def test_difference_is_the_inverse(model, angle, sign, device):
    rng = np.random.default_rng(0)
    q0 = sim.integrate(model, np.tile(model.q0, (5, 1)), rng.normal(size=(5, model.nv))).numpy()
    qd = rng.normal(size=(5, model.nv))
    for _, start in rotations(model):
        qd[:, start : start + 3] *= angle / np.linalg.norm(qd[:, start : start + 3], axis=1, keepdims=True)
    m = sim.DeviceModel(model, device)
    q1 = sim.integrate(m, q0, qd).numpy()
    # Either sign of a quaternion is the same rotation.
    for start, _ in rotations(model):
        q1[:, start : start + 4] *= sign
    found = sim.difference(m, q0, q1).numpy()
    assert_allclose(found, qd, rtol=0.0, atol=1e-14)


def test_half_a_turn_comes_back_as_one(device):
    q0 = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    q1 = np.array([[0.0, 0.0, 0.0, 0.0, 0.6, 0.8, 0.0]])
    found = sim.difference(sim.DeviceModel(free_body(), device), q0, q1).numpy()
    assert_allclose(np.abs(found[0, 3:]), np.pi * np.array([0.0, 0.6, 0.8]), atol=1e-15)


def test_float32_keeps_tiny_turns(device):
    m = sim.DeviceModel(free_body("float32"), device)
    q0 = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    qd = np.array([[0.0, 0.0, 0.0, 1e-6, -2e-7, 3e-9]])
    assert_allclose(sim.difference(m, q0, sim.integrate(m, q0, qd)).numpy(), qd, rtol=1e-5)
