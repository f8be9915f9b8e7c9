"""What follows from kinematics and dynamics against Pinocchio: random forests, robots, far from the origin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim

pin = pytest.importorskip("pinocchio")

from tests.dynamics.states import random_state, relative_error  # noqa: E402
from tests.dynamics.terms import check_terms  # noqa: E402
from tests.dynamics.test_random_trees import peer_of  # noqa: E402
from tests.dynamics.test_robots import load  # noqa: E402
from tests.dynamics.trees import build, forests, zoo  # noqa: E402
from tests.errors import raises_naming  # noqa: E402


@given(forests(), st.booleans(), st.integers(0, 1000))
@settings(max_examples=60)
def test_random_forests(links, collapse_fixed, seed):
    check_terms(peer_of(links, "float64", collapse_fixed), seed, 1e-11)


@pytest.mark.parametrize("name", ["panda", "go2", "talos", "cartpole"])
def test_robots(name, device):
    check_terms(load(name, name not in ("panda", "cartpole"), "float64"), 1, 1e-11, device)


@pytest.mark.parametrize("name", ["panda", "go2"])
def test_float32_also_far_from_the_origin(name, device):
    check_terms(load(name, name == "go2", "float32", 100.0), 1, 1e-4, device)


@pytest.mark.parametrize("reference", ["local_world_aligned", "world"])
def test_acceleration_is_the_derivative_of_the_velocity(reference, device):
    """Through the Jacobian and its derivative, and by central differences along the motion."""
    model = build(zoo(), "float64")
    m = sim.DeviceModel(model, device)
    q, qd, qdd, _ = random_state(model, 3, 4)
    names = model.link_names
    found = sim.link_accelerations(m, q, qd, qdd, reference=reference).numpy()
    jacobian = sim.jacobian(m, q, names, reference).numpy()
    rate = sim.jacobian_derivative(m, q, qd, names, reference).numpy()
    through = np.einsum("wfij,wj->wfi", jacobian, qdd) + np.einsum("wfij,wj->wfi", rate, qd)
    assert relative_error(found, through) < 1e-12

    def velocity(time: float) -> np.ndarray:
        there = sim.integrate(m, q, qd + 0.5 * time * qdd, time).numpy()
        return sim.link_velocities(m, there, qd + time * qdd, reference=reference).numpy()

    h = 1e-5
    assert relative_error((velocity(h) - velocity(-h)) / (2.0 * h), found) < 1e-8


@pytest.mark.parametrize("reference", ["local_world_aligned", "world", "local"])
def test_jacobian_derivative_by_differences(reference, device):
    model = build(zoo(), "float64")
    m = sim.DeviceModel(model, device)
    q, qd, _, _ = random_state(model, 3, 4)
    h = 1e-5
    ahead, behind = (
        sim.jacobian(m, sim.integrate(m, q, qd, sign * h).numpy(), model.link_names, reference).numpy()
        for sign in (1, -1)
    )
    found = sim.jacobian_derivative(m, q, qd, model.link_names, reference).numpy()
    assert relative_error((ahead - behind) / (2.0 * h), found) < 1e-8


def test_energy_is_conserved_by_free_motion(device):
    """Its rate, from the power of all forces at the accelerations of forward dynamics, is what friction takes."""
    model = build(zoo(), "float64")
    m = sim.DeviceModel(model, device)
    q, qd, _, _ = random_state(model, 4, 5)
    qdd = sim.forward_dynamics(m, q, qd, np.zeros_like(qd)).numpy()

    def energy(time: float) -> np.ndarray:
        there = sim.integrate(m, q, qd + 0.5 * time * qdd, time).numpy()
        velocity = qd + time * qdd
        return sim.kinetic_energy(m, there, velocity).numpy() + sim.potential_energy(m, there).numpy()

    h = 1e-5
    lost = (energy(h) - energy(-h)) / (2.0 * h)
    drag = model.parameters["damping"] * np.abs(qd) + model.parameters["friction_loss"]
    assert relative_error(lost, -(drag * np.abs(qd)).sum(axis=1)) < 1e-7


def test_a_model_without_mass_has_no_centre(device):
    builder = sim.ModelBuilder()
    builder.add_link("empty", mass=0.0)
    builder.add_joint("joint", "revolute", child="empty", armature=1.0)
    model = builder.finalize("float64")
    with raises_naming("centre of mass"):
        sim.centre_of_mass(sim.DeviceModel(model, device), np.zeros((1, 1)))
