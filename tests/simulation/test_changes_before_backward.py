"""What is changed between a rollout and its way back doesn't change the gradient in silence."""

import itertools

import numpy as np
import pytest
import warp as wp

import sim
from sim.arrays.launch import launch
from tests.errors import raises_naming, refuses
from tests.simulation.worlds import hopper
from warp_kernels.rollout.records import SLOT, TABLE_SIZE
from warp_kernels.rollout.trajectory import hashed_rows, trajectory_kernels

DT, WORLDS, STEPS = 1.0 / 240.0, 2, 8


@pytest.fixture(params=["float32", "float64"])
def simulator(request, device) -> sim.Simulator:
    return sim.Simulator(hopper(request.param), DT, WORLDS, device, sim.PgsContact(warm_start=True))


def forces(simulator: sim.Simulator) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(STEPS, WORLDS, simulator.model.nv))


def gradients(trajectory: sim.Trajectory) -> list[np.ndarray]:
    weights = np.ones((WORLDS, trajectory.simulator.model.nq))
    found = trajectory.backward(weights, parameters=["mass"])
    return [found.qd.numpy(), found.tau.numpy(), found.parameters["mass"]]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(first, second, strict=True))


def test_forces_of_the_caller(simulator):
    tau = wp.array(forces(simulator), dtype=simulator.model.scalar, device=simulator.device)
    trajectory = simulator.rollout(simulator.initial_state(), tau)
    expected = gradients(trajectory)
    tau.zero_()
    assert same(gradients(trajectory), expected)


def test_parameters_set_in_between(simulator):
    trajectory = simulator.rollout(simulator.initial_state(), forces(simulator))
    expected = gradients(trajectory)
    heavier = simulator.parameters["mass"] * 3.0
    simulator.parameters["mass"] = heavier
    assert same(gradients(trajectory), expected)
    np.testing.assert_array_equal(simulator.parameters["mass"], heavier)
    other = simulator.rollout(simulator.initial_state(), forces(simulator))
    assert not same(gradients(other), expected)


def test_parameters_with_further_constraints_set_in_between(simulator):
    """The capacity for constraints, and with it the size of stored impulses, is another one afterwards."""
    trajectory = simulator.rollout(simulator.initial_state(), forces(simulator))
    expected = gradients(trajectory)
    simulator.parameters["rolling_friction"] = np.full_like(simulator.parameters["rolling_friction"], 0.01)
    other = simulator.rollout(simulator.initial_state(), forces(simulator))
    assert other.impulses.value.shape[2] > trajectory.impulses.value.shape[2]
    assert same(gradients(trajectory), expected)
    array = trajectory.impulses.value
    changed = array.numpy().copy()
    changed[-1, -1, -1, -1] += 1.0
    array.assign(changed)
    refuses(lambda: gradients(trajectory), "backward", "states", "inputs")


@pytest.mark.parametrize("name", ["q", "qd", "tau", "impulses"])
def test_a_changed_trajectory_is_noticed(simulator, name):
    trajectory = simulator.rollout(simulator.initial_state(), forces(simulator))
    expected = gradients(trajectory)
    array = trajectory.impulses.value if name == "impulses" else getattr(trajectory, name)
    before = array.numpy().copy()
    changed = before.copy()
    changed.reshape(-1)[-1] = np.nextafter(changed.reshape(-1)[-1], np.inf)
    array.assign(changed)
    refuses(lambda: gradients(trajectory), "backward", "states", "inputs")
    array.assign(before[::-1].copy())
    refuses(lambda: gradients(trajectory), "backward", "states", "inputs")
    array.assign(before)
    assert same(gradients(trajectory), expected)


def test_changed_keys_of_impulses_are_noticed(simulator):
    trajectory = simulator.rollout(simulator.initial_state(), forces(simulator))
    keys = trajectory.impulses.key.numpy().copy()
    keys[0, 0, 0, 0] += 1
    trajectory.impulses.key.assign(keys)
    refuses(lambda: gradients(trajectory), "backward", "states", "inputs")


def test_changed_stages_are_noticed(device):
    model = hopper("float64")
    at_rest = {"restitution": np.zeros_like(model.parameters["restitution"])}
    simulator = sim.Simulator(model, DT, WORLDS, device, sim.MujocoContact(), at_rest, integrator="rk4")
    trajectory = simulator.rollout(simulator.initial_state(), forces(simulator))
    gradients(trajectory)
    stages = trajectory.stages.numpy().copy()
    stages[-1, -1, -1] += 1e-9
    trajectory.stages.assign(stages)
    refuses(lambda: gradients(trajectory), "backward", "states", "inputs")


def test_arrays_given_by_hand_are_checked(simulator):
    """They are read by their addresses."""
    rollout = simulator.rollout(simulator.initial_state(), forces(simulator))
    by_hand = sim.Trajectory(simulator, rollout.q, rollout.qd, rollout.tau, impulses=rollout.impulses)
    by_hand.q_low = rollout.q_low
    assert same(gradients(by_hand), gradients(rollout))
    scalar, other = simulator.model.scalar, wp.float16
    wide: wp.array = wp.array(np.repeat(rollout.qd.numpy(), 2, axis=2), dtype=scalar, device=simulator.device)
    changes = {
        "not contiguous": {"qd": wide[:, :, ::2]},
        "has shape": {"qd": rollout.qd[:4]},
        "float16": {"tau": wp.zeros(rollout.tau.shape, dtype=other, device=simulator.device)},
        "ndarray": {"qd": rollout.qd.numpy()},
        "no impulses": {"impulses": None},
    }
    for expected, change in changes.items():
        changed = sim.Trajectory(simulator, rollout.q, rollout.qd, rollout.tau, impulses=rollout.impulses)
        for name, value in change.items():
            setattr(changed, name, value)
            refuses(lambda changed=changed: gradients(changed), "backward", name, expected)


def test_a_changed_trajectory_on_a_tape(simulator):
    state = simulator.initial_state()
    state.qd.requires_grad = True
    with wp.Tape() as tape:
        trajectory = simulator.rollout(state, steps=3)
    trajectory.qd.zero_()
    with raises_naming("backward", "states", "inputs"):
        tape.backward(grads={trajectory.q: wp.ones_like(trajectory.q)})


def fingerprint(values: np.ndarray, device: str) -> int:
    """Return the fingerprint of a world whose only record is ``values`` [states, n]."""
    scalar = wp.dtype_from_numpy(values.dtype)
    array: wp.array = wp.array(values, dtype=scalar, device=device)
    found: wp.array = wp.empty(1, dtype=wp.uint64, device=device)
    table = np.zeros(TABLE_SIZE, dtype=np.uint64)
    table[[SLOT.q, SLOT.fingerprint]] = array.ptr, found.ptr
    arguments = {
        "hashed_records": wp.array(hashed_rows([("q", values.shape[1], 0)]), dtype=int, device=device),
        "table": wp.array(table, device=device),
        "cursor": wp.array([0, 1, len(values) - 1], dtype=int, device=device),
    }
    kernel = trajectory_kernels(scalar).find_fingerprint
    launch(kernel, 1, arguments, total_worlds=1, first_world=0, worlds_of_thread=1, device=device)
    return int(found.numpy()[0])


@pytest.mark.parametrize("columns", range(1, 10))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_number_and_its_place_count(columns, dtype, device):
    """Each one moved by a unit in the last place, and each two exchanged, have a fingerprint of their own."""
    values = np.random.default_rng(columns).normal(size=(3, columns)).astype(dtype)
    found = [fingerprint(values, device)]
    for entry in range(values.size):
        changed = values.copy().reshape(-1)
        changed[entry] = np.nextafter(changed[entry], np.inf)
        found.append(fingerprint(changed.reshape(values.shape), device))
    for one, other in itertools.combinations(range(values.size), 2):
        changed = values.copy().reshape(-1)
        changed[[one, other]] = changed[[other, one]]
        found.append(fingerprint(changed.reshape(values.shape), device))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_changes_of_the_highest_bits_are_noticed(dtype, device):
    """All signs, or those of any two numbers, and numbers times four: only the highest bits change."""
    values = np.random.default_rng(0).normal(size=(2, 9)).astype(dtype)
    found = [fingerprint(values, device), fingerprint(-values, device)]
    for pair, factor in itertools.product(itertools.combinations(range(values.size), 2), (-1.0, 4.0)):
        changed = values.copy().reshape(-1)
        changed[list(pair)] *= factor
        found.append(fingerprint(changed.reshape(values.shape), device))
    assert len(set(found)) == len(found)
