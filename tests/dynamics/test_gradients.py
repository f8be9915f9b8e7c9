"""Gradients of every function in every argument and parameter against central differences, in float64."""

import numpy as np
import pytest

import sim
from tests.dynamics.gradients import check_gradients
from tests.dynamics.trees import build, rotations, zoo

WORLDS = 2
BODIES = ("joint_placement", "mass", "com", "inertia")
ALL = (*BODIES, "damping", "armature", "stiffness", "rest_position", "gravity")


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
        return sim.jacobian(m, q, "link5", reference)

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
