"""Kept steps: gradients are those of steps run again, bit for bit, within the memory that a rollout may take."""

import gc
from typing import Any

import numpy as np
import pytest
import torch

import sim
import sim.torch
from sim.simulation.engine import kept_steps, shard
from tests.errors import raises_naming
from tests.golden.case import Case
from tests.golden.cases import CASES
from tests.simulation.worlds import DT, WORLDS, hopper, inputs

PLENTY = 2**32
STEPS = 12
# Both laws, each integrator but Runge-Kutta, each solver and each adjoint of it, and all that a step may have.
MODELS = (
    "quadruped_1", "quadruped_16", "bouncing_16", "dominoes", "many_balls", "crowd", "shapes_mesh", "skis_that_roll",
    "pgs_implicit_1", "pgs_unrolled_16", "warm_newton", "warm_pgs", "tendons_1", "tendons_16", "loops_breaking",
    "led_1", "belts_16", "inputs_16", "sensors_16", "smooth_shapes", "flying_1", "leg", "midpoint_1", "midpoint_loops",
    "midpoint_dampers_16", "mujoco_noslip_elliptic_16", "mujoco_frames_16", "mujoco_states_euler",
    "mujoco_implicitfast", "mujoco_tendons_euler",
)  # fmt: skip
MODELS = tuple(name for name in MODELS if name in CASES)


def rollout(case: Case, simulator: sim.Simulator, keep_bytes: int = 0) -> sim.Trajectory:
    """Simulate a golden case."""
    given = case.inputs()
    state = simulator.state(given["q"], given["qd"], given["act"] if case.model.na else None)
    driven: dict[str, Any] = {"tau": given["tau"][:STEPS]}
    if case.model.nu:
        driven["control"] = given["control"][:STEPS]
    if case.lead:
        driven["kinematic_qd"] = given["kinematic_qd"][:STEPS]
    return simulator.rollout(state, keep_bytes=keep_bytes, **driven)


def gradients(case: Case, trajectory: sim.Trajectory) -> dict[str, np.ndarray]:
    """Return all gradients of a random loss."""
    random = np.random.default_rng(4)
    seeds = [random.normal(size=array.shape) for array in (trajectory.q, trajectory.qd)]
    further = {
        f"{name}_grad": random.normal(size=getattr(trajectory, name).shape)
        for name in ("contact_force", "act")
        if getattr(trajectory, name) is not None
    }
    found = trajectory.backward(*seeds, case.parameters(trajectory.simulator), **further)
    parts = ("q", "qd", "tau", "control", "act", "kinematic_qd", "impulses")
    arrays = {name: getattr(found, name) for name in parts if getattr(found, name) is not None}
    return {name: np.array(array.numpy()) for name, array in arrays.items()} | {
        name: np.array(value) for name, value in found.parameters.items()
    }


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Compare gradients bit for bit."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.isfinite(value).any()
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_steps_run_again(name):
    case = CASES[name]()
    simulator = case.simulator()
    again, kept = rollout(case, simulator), rollout(case, simulator, PLENTY)
    np.testing.assert_array_equal(kept.q.numpy(), again.q.numpy())
    np.testing.assert_array_equal(kept.qd.numpy(), again.qd.numpy())
    assert simulator.engine.kept_rollouts.bytes > 0
    expected = gradients(case, again)
    # What another rollout and another backward pass leave in the working arrays changes nothing.
    assert_same(gradients(case, kept), expected)
    assert simulator.engine.kept_rollouts.bytes == 0
    assert_same(gradients(case, kept), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["quadruped_1", "tendons_1"])
def test_a_graph_for_each_step(name, monkeypatch):
    for module in (shard, kept_steps):  # as on a GPU
        monkeypatch.setattr(module, "is_listed", lambda device: False)
    monkeypatch.setattr("sim.arrays.graphs.is_listed", lambda device: False)
    case = CASES[name]()
    simulator = case.simulator()
    expected = gradients(case, rollout(case, simulator))
    for _ in range(2):
        kept = rollout(case, simulator, PLENTY)
        assert_same(gradients(case, kept), expected)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.99])
def test_the_first_steps_that_fit_are_kept(fraction):
    case = CASES["quadruped_1"]()
    simulator = case.simulator()
    whole = rollout(case, simulator, PLENTY)
    room = int(fraction * simulator.engine.kept_rollouts.bytes)
    expected = gradients(case, whole)
    part = rollout(case, simulator, room)
    assert 0 <= simulator.engine.kept_rollouts.bytes <= room
    assert (simulator.engine.kept_rollouts.bytes > 0) == (fraction > 0.0)
    assert_same(gradients(case, part), expected)


def test_trajectories_share_the_memory_and_give_it_back():
    case = CASES["quadruped_1"]()
    simulator = case.simulator()
    first = rollout(case, simulator, PLENTY)
    room = simulator.engine.kept_rollouts.bytes
    second = rollout(case, simulator, room)
    assert simulator.engine.kept_rollouts.bytes == room
    del first
    gc.collect()
    assert simulator.engine.kept_rollouts.bytes == 0
    third = rollout(case, simulator, room)
    assert simulator.engine.kept_rollouts.bytes == room
    assert_same(gradients(case, second), gradients(case, third))


def test_reports_are_those_of_the_last_step():
    case = CASES["loops_1"]()
    simulator = case.simulator()
    expected = None
    for keep_bytes in (0, PLENTY):
        rollout(case, simulator, keep_bytes)
        found = {
            "iterations": simulator.solver_iterations,
            "error": simulator.constraint_error,
            "residual": simulator.residual,
            **simulator.constraint_force,
        }
        expected = expected or found
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_parameters_are_those_of_the_rollout():
    case = CASES["quadruped_1"]()
    simulator = case.simulator()
    expected = gradients(case, rollout(case, simulator))
    kept = rollout(case, simulator, PLENTY)
    simulator.parameters["damping"] = 3.0
    simulator.parameters["friction"] = 0.1
    rollout(case, simulator, PLENTY)
    assert_same(gradients(case, kept), expected)


@pytest.mark.parametrize("keep_bytes", [0, 100_000, PLENTY])
def test_torch(keep_bytes):
    model = hopper("float64")
    simulator = sim.Simulator(model, DT, WORLDS, "cpu")
    q, qd, tau = (torch.tensor(np.array(x)) for x in inputs(model, STEPS, WORLDS))
    mass = torch.tensor(model.parameters["mass"], dtype=torch.float64)

    def found(keep_bytes: int) -> tuple[torch.Tensor, ...]:
        given = [x.clone().requires_grad_() for x in (q, qd, tau, mass)]
        result = sim.torch.rollout(simulator, *given[:3], keep_bytes=keep_bytes, mass=given[3])
        kept = simulator.engine.kept_rollouts.bytes
        assert kept <= keep_bytes
        assert kept > 0 or keep_bytes < PLENTY
        after = sim.torch.step(simulator, result.q[-1], result.qd[-1], given[2][0], keep_bytes=keep_bytes)
        loss = result.q.square().sum() + after.qd.sum()
        first = torch.autograd.grad(loss, given, retain_graph=True)
        again = torch.autograd.grad(loss, given)
        assert all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
        assert simulator.engine.kept_rollouts.bytes == 0
        return first

    for value, expected in zip(found(keep_bytes), found(0), strict=True):
        assert torch.equal(value, expected)


def test_torch_keeps_nothing_without_gradients():
    model = hopper("float64")
    simulator = sim.Simulator(model, DT, WORLDS, "cpu")
    q, qd, tau = (torch.tensor(np.array(x)) for x in inputs(model, STEPS, WORLDS))
    sim.torch.rollout(simulator, q, qd, tau, keep_bytes=PLENTY)
    assert simulator.engine.kept_rollouts.bytes == 0


@pytest.mark.parametrize("value", [-1, 0.5, "all", np.nan])
def test_wrong_numbers(value):
    simulator = sim.Simulator(hopper("float64"), DT, WORLDS, "cpu")
    with raises_naming("keep_bytes"):
        simulator.rollout(simulator.initial_state(), steps=2, keep_bytes=value)


def test_what_is_run_again():
    simulator = sim.Simulator(hopper("float64"), DT, WORLDS, "cpu")
    with raises_naming("keep_bytes", "checkpoint_interval"):
        simulator.rollout(simulator.initial_state(), steps=4, keep_bytes=PLENTY, checkpoint_interval=2)
    simulator = CASES["mujoco_rk4_1"]().simulator()
    with raises_naming("keep_bytes", "rk4"):
        simulator.rollout(simulator.initial_state(), steps=4, keep_bytes=PLENTY)
