"""Kinematics, functions of frames, mass matrix and dynamics on blocks of worlds beside one world at a time."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
import warp as wp

import sim
from sim.device_model import DeviceModel
from sim.kinematics import matrix_operation
from sim.operation import DYNAMICS_PARAMETERS, Bodies, run
from tests.dynamics.trees import build, zoo
from warp_kernels.types import LANES

PARAMETERS = ("joint_placement", "mass", "com", "inertia")


def gradients(model: sim.Model, worlds: int, lanes: int, parameters: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Of q and the parameters, from random cotangents of all that forward kinematics gives."""
    m = DeviceModel(model, "cpu", worlds, parameters, PARAMETERS)
    rng = np.random.default_rng(2)
    q = wp.array(rng.uniform(-1.0, 1.0, (worlds, model.nq)), dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        bodies = Bodies(m, q, lanes=lanes)
    for array in (bodies.pose, bodies.origin, bodies.subspace, bodies.link_inertia):
        shape = array.grad.numpy().shape
        components = shape[2]
        # Lanes without a world have no cotangents.
        given = np.zeros((shape[0], bodies.blocks * lanes, components))
        given[:, :worlds] = rng.standard_normal((shape[0], worlds, components))
        lanes_last = given.reshape(shape[0], bodies.blocks, lanes, components).swapaxes(2, 3)
        array.grad.assign(np.ascontiguousarray(lanes_last).reshape(shape))
    tape.backward()
    return [q.grad.numpy(), *(m.parameters[name].grad.numpy() for name in PARAMETERS)]


@pytest.mark.parametrize("worlds", [1, LANES, 2 * LANES + 1])
@pytest.mark.parametrize("per_world", [False, True])
def test_adjoint(worlds, per_world):
    model = build(zoo(), "float64")
    own = {}
    if per_world:
        rng = np.random.default_rng(1)
        for name in PARAMETERS:
            value = np.asarray(model.parameters[name])
            own[name] = value + rng.uniform(-0.05, 0.05, (worlds, *value.shape))
    for several, single in zip(gradients(model, worlds, LANES, own), gradients(model, worlds, 1, own), strict=True):
        np.testing.assert_allclose(several, single, rtol=0, atol=1e-13 * np.abs(single).max())


def value_and_gradients(function: Callable[..., wp.array], model: sim.Model, worlds: int) -> list[np.ndarray]:
    """Of a function of q and qd, at random states and cotangents."""
    m = DeviceModel(model, "cpu", 1, requires_grad=["joint_placement"])
    rng = np.random.default_rng(3)
    q, qd = (
        wp.array(rng.uniform(-1.0, 1.0, (worlds, n)), dtype=wp.float64, device="cpu", requires_grad=True)
        for n in (model.nq, model.nv)
    )
    with wp.Tape() as tape:
        result = function(m, q, qd)
    result.grad.assign(rng.standard_normal(result.shape))
    tape.backward()
    return [array.numpy() for array in (result, q.grad, qd.grad, m.parameters["joint_placement"].grad)]


REFERENCES = ["local_world_aligned", "world", "local"]
FRAMES = ["link8", "link3", "link5", "link3"]
FUNCTIONS = {
    "poses": lambda m, q, qd: sim.forward_kinematics(m, q, FRAMES),
    "matrices": lambda m, q, qd: run(m, matrix_operation(m.model, tuple(FRAMES)), [q]),
    **{f"jacobian {name}": lambda m, q, qd, name=name: sim.jacobian(m, q, FRAMES, name) for name in REFERENCES},
    **{
        f"velocity {name}": lambda m, q, qd, name=name: sim.link_velocities(m, q, qd, FRAMES, name)
        for name in REFERENCES
    },
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_functions_of_frames(function, monkeypatch):
    """As a GPU works on them, one world a thread."""
    model = build(zoo(), "float64")
    several = value_and_gradients(function, model, 2 * LANES + 1)
    monkeypatch.setattr("sim.kinematics.lanes_of", lambda model: 1)
    for one, other in zip(several, value_and_gradients(function, model, 2 * LANES + 1), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize("function", [sim.mass_matrix, sim.mass_matrix_inverse])
def test_mass_matrix(function, per_world, monkeypatch):
    model, worlds = build(zoo(), "float64"), 2 * LANES + 1
    several = of_matrix(function, model, worlds, per_world)
    # The package has a function of the module's name.
    monkeypatch.setattr(sys.modules["sim.mass_matrix"], "lanes_of", lambda model: 1)
    monkeypatch.setattr("sim.dynamics.lanes_of", lambda model: 1)
    for one, other in zip(several, of_matrix(function, model, worlds, per_world), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * max(1.0, np.abs(other).max()))


def of_matrix(function: Callable[..., wp.array], model: sim.Model, worlds: int, per_world: bool) -> list[np.ndarray]:
    """The matrix, and the gradients in q and parameters of its product with a matrix that is not symmetric."""
    rng = np.random.default_rng(4)
    names = (*PARAMETERS, "armature")
    own = {}
    if per_world:
        for name in names:
            value = np.asarray(model.parameters[name])
            own[name] = value + rng.uniform(0.0, 0.05, (worlds, *value.shape))
    m = DeviceModel(model, "cpu", worlds, own, names)
    q = wp.array(rng.uniform(-1.0, 1.0, (worlds, model.nq)), dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        matrix = function(m, q)
    matrix.grad.assign(rng.standard_normal(matrix.shape))
    tape.backward()
    return [array.numpy() for array in (matrix, q.grad, *(m.parameters[name].grad for name in names))]


def dynamics(function: Callable[..., wp.array], model: sim.Model, worlds: int, per_world: bool) -> list[np.ndarray]:
    """Value of inverse or forward dynamics, and its gradients in all arguments and parameters."""
    rng = np.random.default_rng(4)
    values = {name: np.asarray(model.parameters[name]) for name in DYNAMICS_PARAMETERS}
    if per_world:
        values = {name: x + rng.uniform(0.0, 0.05, (worlds, *x.shape)) for name, x in values.items()}
    m = DeviceModel(model, "cpu", worlds, values, DYNAMICS_PARAMETERS)
    shapes = [(model.nq,), (model.nv,), (model.nv,), (model.num_links, 6)]
    given = [
        wp.array(rng.uniform(-1.0, 1.0, (worlds, *n)), dtype=wp.float64, device="cpu", requires_grad=True)
        for n in shapes
    ]
    with wp.Tape() as tape:
        result = function(m, *given)
    result.grad.assign(rng.standard_normal(result.shape))
    tape.backward()
    return [
        result.numpy(),
        *(array.grad.numpy() for array in given),
        *(m.parameters[name].grad.numpy() for name in DYNAMICS_PARAMETERS),
    ]


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize("function", [sim.inverse_dynamics, sim.forward_dynamics])
def test_dynamics(function, per_world, monkeypatch):
    model = build(zoo(), "float64")
    several = dynamics(function, model, 2 * LANES + 1, per_world)
    monkeypatch.setattr("sim.dynamics.lanes_of", lambda model: 1)
    for one, other in zip(several, dynamics(function, model, 2 * LANES + 1, per_world), strict=True):
        assert np.abs(other).max() > 0.0
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * max(1.0, np.abs(other).max()))
