"""Kinematics, functions of frames, mass matrix and dynamics on lane groups beside one world at a time."""

import functools
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
import warp as wp

import sim
from sim.arrays.device_model import DeviceModel
from sim.arrays.launch import collecting_kernels
from sim.dynamics.bodies import Bodies
from sim.dynamics.differentiable_op import DYNAMICS_PARAMETERS, WORTH_LANES, on_device, run
from sim.dynamics.kinematics import POSES_WORTH_LANES, matrix_operation
from tests.dynamics.trees import describe, rotations, zoo
from warp_kernels.types import FIXED, LANES

pytestmark = pytest.mark.cpu_shapes

PARAMETERS = ("joint_placement", "mass", "com", "inertia")
WORLDS = 2 * LANES + 1
# Of the largest entry. Both widths compute the same but for rounding: several lanes have sine and cosine of their own,
# take a product and a sum in one instruction, and add up gradients of what the worlds share in another order.
BOUND = 1e-13
# Accelerations are quotients by articulated inertias, differences of larger numbers: rounding is ten times as large.
DYNAMICS_BOUND = 1e-12


@functools.cache
def every_joint() -> sim.Model:
    """Every joint type, fixed ones too, and a frame that moves with no link."""
    builder = describe(zoo())
    builder.add_frame("place", "world", (0.3, -0.2, 0.5), (0.1, -0.7, 0.1, 0.7))
    model = builder.finalize("float64", collapse_fixed=False)
    assert FIXED in model.joint_type
    return model


def same_at_both_widths(work: Callable[[], list[np.ndarray]], monkeypatch: pytest.MonkeyPatch, bound: float) -> None:
    """Compare what is found on lane groups, as on a CPU, with one world a thread, as on a GPU."""
    launched: set[str] = set()
    launch = wp.launch

    def noted(kernel: wp.Kernel, *arguments: Any, **options: Any) -> Any:
        launched.add(kernel.module.name)
        return launch(kernel, *arguments, **options)

    def of_lanes() -> bool:
        return any(name.endswith(f"x{LANES}") for name in launched)

    monkeypatch.setattr(wp, "launch", noted)
    several = work()
    assert of_lanes()
    launched.clear()
    monkeypatch.setattr("sim.arrays.device_model.LANES", 1)
    single = work()
    assert launched
    assert not of_lanes()
    for found, expected in zip(several, single, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=bound * max(1.0, np.abs(expected).max()))


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
        given = np.zeros((shape[0], bodies.groups * lanes, components))
        given[:, :worlds] = rng.standard_normal((shape[0], worlds, components))
        lanes_last = given.reshape(shape[0], bodies.groups, lanes, components).swapaxes(2, 3)
        array.grad.assign(np.ascontiguousarray(lanes_last).reshape(shape))
    tape.backward()
    return [q.grad.numpy(), *(m.parameters[name].grad.numpy() for name in PARAMETERS)]


@pytest.mark.parametrize("worlds", [1, LANES, WORLDS])
@pytest.mark.parametrize("per_world", [False, True])
def test_adjoint(worlds, per_world):
    model = every_joint()
    own = {}
    if per_world:
        rng = np.random.default_rng(1)
        for name in PARAMETERS:
            value = np.asarray(model.parameters[name])
            own[name] = value + rng.uniform(-0.05, 0.05, (worlds, *value.shape))
    for several, single in zip(gradients(model, worlds, LANES, own), gradients(model, worlds, 1, own), strict=True):
        np.testing.assert_allclose(several, single, rtol=0, atol=BOUND * np.abs(single).max())


Function = Callable[..., wp.array]


def value_and_gradients(function: Function, model: sim.Model, coordinates: np.ndarray) -> list[np.ndarray]:
    """Of a function of q and qd, at random velocities and cotangents: of q, qd and placements."""
    m = DeviceModel(model, "cpu", 1, requires_grad=["joint_placement"])
    rng = np.random.default_rng(3)
    velocities = rng.uniform(-1.0, 1.0, (len(coordinates), model.nv))
    q, qd = (wp.array(x, dtype=wp.float64, device="cpu", requires_grad=True) for x in (coordinates, velocities))
    with wp.Tape() as tape:
        result = function(m, q, qd)
    result.grad.assign(rng.standard_normal(result.shape))
    tape.backward()
    return [array.numpy() for array in (result, q.grad, qd.grad, m.parameters["joint_placement"].grad)]


REFERENCES = ["local_world_aligned", "world", "local"]
FRAMES = ["link8", "link3", "place", "link5", "link3", "link4"]
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
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (WORLDS, every_joint().nq))
    work = functools.partial(value_and_gradients, function, every_joint(), q)
    same_at_both_widths(work, monkeypatch, BOUND)


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("function", ["poses", "velocity local"])
def test_a_quaternion_of_zeros_stands_for_no_turn(function, lanes, monkeypatch):
    """It has no derivative, and is given none."""
    monkeypatch.setattr("sim.arrays.device_model.LANES", lanes)
    model = every_joint()
    starts = np.array([start for start, _ in rotations(model)])
    # In every other world, so that a group has lanes with it and without.
    zeros = np.random.default_rng(0).uniform(-1.0, 1.0, (WORLDS, model.nq))
    zeros[::2] = 0.0
    identities = zeros.copy()
    identities[::2, starts + 3] = 1.0
    found = value_and_gradients(FUNCTIONS[function], model, zeros)
    expected = value_and_gradients(FUNCTIONS[function], model, identities)
    expected[1][::2, (starts[:, None] + np.arange(4)).ravel()] = 0.0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    of_mujoco = np.zeros(4)
    mujoco.mju_normalize4(of_mujoco)
    np.testing.assert_array_equal(of_mujoco, [1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize("function", [sim.mass_matrix, sim.mass_matrix_inverse])
def test_mass_matrix(function, per_world, monkeypatch):
    work = functools.partial(of_matrix, function, every_joint(), per_world)
    same_at_both_widths(work, monkeypatch, BOUND)


def of_matrix(function: Function, model: sim.Model, per_world: bool) -> list[np.ndarray]:
    """The matrix, and the gradients in q and parameters of its product with a matrix that is not symmetric."""
    rng = np.random.default_rng(4)
    names = (*PARAMETERS, "armature")
    own = {}
    if per_world:
        for name in names:
            value = np.asarray(model.parameters[name])
            own[name] = value + rng.uniform(0.0, 0.05, (WORLDS, *value.shape))
    m = DeviceModel(model, "cpu", WORLDS, own, names)
    q = wp.array(rng.uniform(-1.0, 1.0, (WORLDS, model.nq)), dtype=wp.float64, device="cpu", requires_grad=True)
    with wp.Tape() as tape:
        matrix = function(m, q)
    matrix.grad.assign(rng.standard_normal(matrix.shape))
    tape.backward()
    return [array.numpy() for array in (matrix, q.grad, *(m.parameters[name].grad for name in names))]


def dynamics(function: Function, model: sim.Model, per_world: bool) -> list[np.ndarray]:
    """Value of inverse or forward dynamics, and its gradients in all arguments and parameters."""
    rng = np.random.default_rng(4)
    values = {name: np.asarray(model.parameters[name]) for name in DYNAMICS_PARAMETERS}
    if per_world:
        values = {name: x + rng.uniform(0.0, 0.05, (WORLDS, *x.shape)) for name, x in values.items()}
    m = DeviceModel(model, "cpu", WORLDS, values, DYNAMICS_PARAMETERS)
    shapes = [(model.nq,), (model.nv,), (model.nv,), (model.num_links, 6)]
    given = [
        wp.array(rng.uniform(-1.0, 1.0, (WORLDS, *n)), dtype=wp.float64, device="cpu", requires_grad=True)
        for n in shapes
    ]
    with wp.Tape() as tape:
        result = function(m, *given)
    result.grad.assign(rng.standard_normal(result.shape))
    tape.backward()
    found = [
        result.numpy(),
        *(array.grad.numpy() for array in given),
        *(m.parameters[name].grad.numpy() for name in DYNAMICS_PARAMETERS),
    ]
    assert all(np.abs(array).max() > 0.0 for array in found)
    return found


@pytest.mark.parametrize("per_world", [False, True])
@pytest.mark.parametrize("function", [sim.inverse_dynamics, sim.forward_dynamics])
def test_dynamics(function, per_world, monkeypatch):
    work = functools.partial(dynamics, function, every_joint(), per_world)
    same_at_both_widths(work, monkeypatch, DYNAMICS_BOUND)


def test_few_worlds_are_worked_on_one_by_one():
    """They take no more time so, and their kernels less to compile."""
    model = every_joint()
    few, many = (on_device(model, np.zeros((worlds, model.nq))) for worlds in (WORTH_LANES - 1, WORTH_LANES))
    assert (few.lanes, many.lanes) == (1, LANES if many.device.is_cpu else 1)
    assert few.parameters is many.parameters


@pytest.mark.parametrize("worlds", [POSES_WORTH_LANES - 1, POSES_WORTH_LANES])
def test_poses_of_few_worlds_are_found_one_by_one(worlds):
    model = every_joint()
    with collecting_kernels() as kernels:
        sim.forward_kinematics(model, np.tile(model.q0, (worlds, 1)))
        sim.jacobian(model, np.tile(model.q0, (worlds, 1)), [model.link_names[-1]])
    on_lanes = worlds >= POSES_WORTH_LANES and wp.get_device().is_cpu
    assert kernels
    assert {kernel.module.name.endswith(f"x{LANES}") for kernel in kernels} == {on_lanes}
