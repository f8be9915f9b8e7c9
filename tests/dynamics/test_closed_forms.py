"""Dynamics with known formulas, and identities between the functions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import sim
from tests.dynamics.states import random_state, relative_error
from tests.dynamics.trees import build, forests, zoo

GRAVITY = 9.81


def pendulum(**passive: float) -> sim.Model:
    """A bob of 2 kg with moment 0.03 kg m^2 hangs 0.7 m below a hinge along y."""
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=2.0, com=(0.0, 0.0, -0.7), inertia=[0.05, 0.03, 0.05])
    builder.add_joint("hinge", "revolute", child="bob", axis=(0.0, 1.0, 0.0), **passive)
    return builder.finalize("float64")


def test_pendulum(device):
    angle, speed = np.array([[0.3], [-1.2]]), np.array([[0.5], [2.0]])
    m = sim.DeviceModel(pendulum(), device)
    inertia = 0.03 + 2.0 * 0.7**2
    assert_allclose(sim.mass_matrix(m, angle).numpy(), np.full((2, 1, 1), inertia), rtol=1e-14)
    # Axis y: a positive angle swings the bob towards -x.
    expected = -2.0 * GRAVITY * 0.7 * np.sin(angle) / inertia
    assert_allclose(sim.forward_dynamics(m, angle, speed, np.zeros((2, 1))).numpy(), expected, rtol=1e-13)


def test_pendulum_with_rotor_damper_spring_and_friction(device):
    """Dry friction acts against the motion, and not at rest."""
    model = pendulum(armature=0.4, spring=sim.Spring(damping=0.6, stiffness=5.0, rest=0.2), friction_loss=0.7)
    angle, speed, torque = np.array([[0.3]] * 3), np.array([[0.5], [-0.5], [0.0]]), np.array([[1.5]] * 3)
    inertia = 0.03 + 2.0 * 0.7**2 + 0.4
    m = sim.DeviceModel(model, device)
    assert_allclose(sim.mass_matrix(m, angle).numpy(), np.full((3, 1, 1), inertia), rtol=1e-14)
    friction = [[0.7], [-0.7], [0.0]]
    force = torque - 2.0 * GRAVITY * 0.7 * np.sin(angle) - 0.6 * speed - 5.0 * (angle - 0.2) - friction
    assert_allclose(sim.forward_dynamics(m, angle, speed, torque).numpy(), force / inertia, rtol=1e-13)
    assert_allclose(sim.inverse_dynamics(m, angle, speed, force / inertia).numpy(), torque, rtol=1e-13)


def test_cart_with_pole(device):
    """The textbook equations of a cart and a pole with its mass in one point, upright at zero."""
    cart, mass, length = 1.5, 0.4, 0.8
    builder = sim.ModelBuilder()
    builder.add_link("cart", mass=cart)
    builder.add_joint("rail", "prismatic", child="cart", axis=(1.0, 0.0, 0.0))
    builder.add_link("pole", mass=mass, com=(0.0, 0.0, length))
    builder.add_joint("hinge", "revolute", parent="cart", child="pole", axis=(0.0, 1.0, 0.0))
    q, qd, tau = np.array([[0.7, 0.4]]), np.array([[-0.3, 1.7]]), np.array([[2.0, -0.5]])
    s, c, w = np.sin(0.4), np.cos(0.4), 1.7
    matrix = np.array([[cart + mass, mass * length * c], [mass * length * c, mass * length**2]])
    bias = np.array([-mass * length * w**2 * s, -mass * GRAVITY * length * s])
    m = sim.DeviceModel(builder.finalize("float64"), device)
    assert_allclose(sim.mass_matrix(m, q).numpy()[0], matrix, rtol=1e-13)
    expected = np.linalg.solve(matrix, tau[0] - bias)
    assert_allclose(sim.forward_dynamics(m, q, qd, tau).numpy()[0], expected, rtol=1e-12)


def test_a_free_body_falls_and_spins_as_euler_says(device):
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.2, 0.3), mass=2.0)
    model = builder.finalize("float64")
    q, qd, _, wrench = random_state(model, 4, 3)
    found = sim.forward_dynamics(sim.DeviceModel(model, device), q, qd, np.zeros((3, 6)), wrench).numpy()
    turn = sim.forward_kinematics(model, q).numpy()[:, 0, 3:]
    for world in range(3):
        rotation = Rotation.from_quat(turn[world]).as_matrix()
        inertia = rotation @ model.parameters["inertia"][0] @ rotation.T
        w, moment, force = qd[world, 3:], wrench[world, 0, :3], wrench[world, 0, 3:]
        assert_allclose(found[world, :3], force / 2.0 - [0.0, 0.0, GRAVITY], rtol=1e-12)
        spin = np.linalg.solve(inertia, moment - np.cross(w, inertia @ w))
        assert_allclose(found[world, 3:], spin, rtol=1e-12)


@given(forests(), st.integers(0, 1000))
@settings(max_examples=50)
def test_forward_dynamics_inverts_inverse_dynamics(links, seed):
    model = build(links, "float64")
    q, qd, qdd, wrench = random_state(model, seed, 2)
    tau = sim.inverse_dynamics(model, q, qd, qdd, wrench)
    assert relative_error(sim.forward_dynamics(model, q, qd, tau, wrench).numpy(), qdd) < 1e-10


@given(forests(), st.integers(0, 1000))
@settings(max_examples=50)
def test_mass_matrix_is_the_derivative_of_inverse_dynamics(links, seed):
    model = build(links, "float64")
    q, qd, qdd, _ = random_state(model, seed, 2)
    still = sim.inverse_dynamics(model, q, qd, np.zeros_like(qdd)).numpy()
    matrix = sim.mass_matrix(model, q).numpy()
    found = np.einsum("wij,wj->wi", matrix, qdd)
    assert relative_error(found, sim.inverse_dynamics(model, q, qd, qdd).numpy() - still) < 1e-10
    assert (matrix == matrix.transpose(0, 2, 1)).all()
    assert np.linalg.eigvalsh(matrix).min() > 0.0


@pytest.mark.parametrize("reference", ["local_world_aligned", "world", "local"])
def test_jacobian_times_velocity_is_the_velocity(reference, device):
    model = build(zoo(), "float64", collapse_fixed=False)
    q, qd, _, _ = random_state(model, 0, 3)
    m = sim.DeviceModel(model, device)
    for number, name in enumerate(model.link_names):
        found = np.einsum("wij,wj->wi", sim.jacobian(m, q, name, reference).numpy(), qd)
        expected = sim.link_velocities(m, q, qd, reference=reference).numpy()[:, number]
        assert_allclose(found, expected, rtol=0.0, atol=1e-12)


def test_velocity_is_the_rate_of_the_pose(device):
    model = build(zoo(), "float64")
    q, qd, _, _ = random_state(model, 0, 3)
    m = sim.DeviceModel(model, device)
    step = 1e-5
    after, before = (sim.forward_kinematics(m, sim.integrate(m, q, qd, dt)).numpy()[..., :3] for dt in (step, -step))
    velocity = sim.link_velocities(m, q, qd).numpy()[..., 3:]
    assert_allclose((after - before) / (2.0 * step), velocity, atol=1e-8)


def test_armature_on_a_free_body(device):
    builder = sim.ModelBuilder()
    builder.add_sphere(radius=0.1, mass=2.0)
    model = builder.finalize("float64")
    m = sim.DeviceModel(model, device, parameters={"armature": 0.5 * np.ones(6)})
    q, qd, qdd, _ = random_state(model, 1, 1)
    rotor = sim.inverse_dynamics(m, q, qd, qdd).numpy() - sim.inverse_dynamics(model, q, qd, qdd).numpy()
    assert_allclose(rotor, 0.5 * qdd, rtol=1e-12)
    matrix = sim.mass_matrix(m, q).numpy()[0]
    assert_allclose(matrix, np.diag([2.5] * 3 + [0.5 + 0.4 * 2.0 * 0.01] * 3), atol=1e-14)
