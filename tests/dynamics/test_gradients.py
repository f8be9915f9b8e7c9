"""Gradients of every function in every argument and parameter against central differences, in float64."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from tests.dynamics.gradients import STEP, check_gradients
from tests.dynamics.states import random_state
from tests.dynamics.trees import build, forests, rotations, zoo

WORLDS = 2
BODIES = ("joint_placement", "mass", "com", "inertia")
ALL = (*BODIES, "damping", "armature", "stiffness", "rest_position", "friction_loss", "gravity")


@pytest.fixture(scope="module")
def model() -> sim.Model:
    """All joint types, two trees, a link fixed to a moving one; armature on every degree of freedom."""
    return build(zoo(), "float64", collapse_fixed=False)


@pytest.fixture(scope="module")
def state(model: sim.Model) -> dict[str, np.ndarray]:
    """Quaternions here are not normalised: the gradient has to know that the functions do it."""
    rng = np.random.default_rng(5)
    shapes = {"q": (model.nq,), "qd": (model.nv,), "qdd": (model.nv,), "wrench": (model.num_links, 6)}
    return {name: rng.normal(size=(WORLDS, *shape)) for name, shape in shapes.items()}


shared_and_own = pytest.mark.parametrize("per_world", [False, True], ids=["shared", "per world"])
references = pytest.mark.parametrize("reference", ["local_world_aligned", "world", "local"])


@shared_and_own
@pytest.mark.parametrize("function", [sim.inverse_dynamics, sim.forward_dynamics])
def test_dynamics(function, model, state, per_world, device):
    arguments = [state[name] for name in ("q", "qd", "qdd", "wrench")]
    check_gradients(function, model, arguments, ALL, per_world, device)


@pytest.mark.parametrize("function", [sim.inverse_dynamics, sim.forward_dynamics])
def test_dynamics_without_wrench(function, model, state, device):
    check_gradients(function, model, [state[name] for name in ("q", "qd", "qdd")], ("mass",), False, device)


@shared_and_own
def test_mass_matrix(model, state, per_world, device):
    check_gradients(sim.mass_matrix, model, [state["q"]], (*BODIES, "armature"), per_world, device)


@shared_and_own
def test_mass_matrix_inverse(model, state, per_world, device):
    check_gradients(sim.mass_matrix_inverse, model, [state["q"]], (*BODIES, "armature"), per_world, device)


@shared_and_own
@pytest.mark.parametrize("function", [sim.coriolis_forces, sim.bias_forces, sim.centroidal_momentum])
def test_terms_of_velocity(function, model, state, per_world, device):
    parameters = (*BODIES, "gravity") if function is sim.bias_forces else BODIES
    check_gradients(function, model, [state["q"], state["qd"]], parameters, per_world, device)


@shared_and_own
def test_kinetic_energy(model, state, per_world, device):
    arguments = [state["q"], state["qd"]]
    check_gradients(sim.kinetic_energy, model, arguments, (*BODIES, "armature"), per_world, device)


@shared_and_own
def test_potential_energy(model, state, per_world, device):
    parameters = ("joint_placement", "mass", "com", "gravity", "stiffness", "rest_position")
    check_gradients(sim.potential_energy, model, [state["q"]], parameters, per_world, device)


@shared_and_own
@pytest.mark.parametrize("function", [sim.gravity_forces, sim.centre_of_mass, sim.centre_of_mass_jacobian])
def test_terms_of_position(function, model, state, per_world, device):
    parameters = ("joint_placement", "mass", "com", *(["gravity"] if function is sim.gravity_forces else []))
    check_gradients(function, model, [state["q"]], parameters, per_world, device)


@references
def test_link_accelerations(reference, model, state, device):
    def operation(m, q, qd, qdd):
        return sim.link_accelerations(m, q, qd, qdd, ["link5", "link4", "link8"], reference)

    check_gradients(operation, model, [state[k] for k in ("q", "qd", "qdd")], BODIES[:1], False, device)


@references
def test_jacobian_derivative(reference, model, state, device):
    def operation(m, q, qd):
        return sim.jacobian_derivative(m, q, qd, ["link5", "link3"], reference)

    check_gradients(operation, model, [state["q"], state["qd"]], BODIES[:1], False, device)


@references
def test_link_wrenches(reference, state, device):
    """At a frame beside the origin of its link, among others."""

    def operation(m, q, wrench):
        return sim.link_wrenches(m, q, wrench, ["link4", "link8", "link5"], reference)

    model = build(zoo(), "float64")
    check_gradients(operation, model, [state["q"], state["wrench"][:, :3]], BODIES[:1], False, device)


@shared_and_own
def test_forward_kinematics(model, state, per_world, device):
    check_gradients(sim.forward_kinematics, model, [state["q"]], BODIES[:1], per_world, device)


@references
def test_link_velocities(reference, model, state, device):
    def operation(m, q, qd):
        return sim.link_velocities(m, q, qd, ["link5", "link4", "link8"], reference)

    check_gradients(operation, model, [state["q"], state["qd"]], BODIES[:1], False, device)


@references
def test_jacobian(reference, model, state, device):
    def operation(m, q):
        return sim.jacobian(m, q, ["link5", "link3"], reference)

    check_gradients(operation, model, [state["q"]], BODIES[:1], False, device)


@pytest.mark.parametrize("speed", [0.0, 1e-9, 1e-3, 1e-2, 1.0, 4.0])
def test_integrate(speed, model, state, device):
    def operation(m, q, qd):
        return sim.integrate(m, q, qd, 0.7)

    check_gradients(operation, model, [state["q"], speed * state["qd"]], (), False, device)


@pytest.mark.parametrize("turn", [0.0, 1e-9, 1e-3, 1e-2, 1.0, 3.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_difference(turn, sign, model, state, device):
    rng = np.random.default_rng(6)
    q0 = state["q"]
    step = rng.normal(size=(WORLDS, model.nv))
    for _, start in rotations(model):
        step[:, start : start + 3] /= np.linalg.norm(step[:, start : start + 3], axis=1, keepdims=True)
    q1 = sign * sim.integrate(model, q0, turn * step).numpy()
    check_gradients(sim.difference, model, [q0, q1], (), False, device)


@given(forests(), st.booleans(), st.integers(0, 1000))
@settings(max_examples=40)
def test_dynamics_of_random_forests_along_a_direction(links, collapse_fixed, seed):
    """Forward after inverse dynamics at another velocity, so that both and their chain are differentiated."""
    model = build(links, "float64", collapse_fixed)
    q, qd, qdd, wrench = random_state(model, seed, WORLDS)
    rng = np.random.default_rng(seed)
    directions = [rng.normal(size=array.shape) for array in (q, qd, qdd, wrench)]
    weight = rng.normal(size=qd.shape)

    def operation(q, qd, qdd, wrench):
        tau = sim.inverse_dynamics(model, q, qd, qdd)
        return sim.forward_dynamics(model, q, qdd, tau, wrench)

    inputs = [wp.array(array, dtype=wp.float64, requires_grad=True) for array in (q, qd, qdd, wrench)]
    with wp.Tape() as tape:
        result = operation(*inputs)
    result.grad.assign(weight)
    tape.backward()
    terms = [array.grad.numpy() * direction for array, direction in zip(inputs, directions, strict=True)]

    def moved(by: float) -> float:
        shifted = [array + by * d for array, d in zip((q, qd, qdd, wrench), directions, strict=True)]
        return float((operation(*shifted).numpy() * weight).sum())

    expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
    # Terms cancel in the sum; its error is measured by their size.
    size = sum(np.abs(term).sum() for term in terms)
    assert size > 1e-3
    assert abs(sum(term.sum() for term in terms) - expected) < 1e-6 * size
