"""Steps and rollouts on a wp.Tape of the user's own, with a loss kernel of the user's own."""

import numpy as np
import pytest
import warp as wp

import sim
from tests.simulation.worlds import DT, WORLDS, cotangents, hopper, inputs

# Annotations of kernels are read as values, so that this module has no postponed evaluation of them.


@wp.kernel
def squares(x: wp.array2d(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, wp.float64(j + 1) * x[i, j] * x[i, j])


@wp.kernel
def twice(x: wp.array2d(dtype=wp.float64), y: wp.array2d(dtype=wp.float64)):
    i, j = wp.tid()
    y[i, j] = wp.float64(2.0) * x[i, j]


def gradient_array(value: np.ndarray, device: str) -> wp.array:
    return wp.array(value, dtype=wp.float64, device=device, requires_grad=True)


def add_squares(x: wp.array, loss: wp.array) -> None:
    wp.launch(squares, x.shape, [x], [loss], device=x.device)


def seeds(q: np.ndarray) -> np.ndarray:
    """Derivative of the loss in the array that it is taken of."""
    return 2.0 * (1.0 + np.arange(q.shape[-1])) * q


@pytest.fixture(params=["fresh", "used"])
def simulator(request, device):
    """One whose first step ever is taken on the tape, and one that has run before, backwards too."""
    simulator = sim.Simulator(hopper(), DT, WORLDS, device)
    if request.param == "used":
        trajectory = simulator.rollout(simulator.initial_state(), steps=2)
        trajectory.backward(np.ones(trajectory.q.shape))
    return simulator


def expected(simulator: sim.Simulator, steps: int) -> sim.Gradients:
    """Gradients of the loss in the last state, without a tape."""
    q, qd, tau = inputs(simulator.model, steps)
    other = sim.Simulator(simulator.model, DT, WORLDS, simulator.device)
    trajectory = other.rollout(other.state(q, qd), tau)
    return trajectory.backward(seeds(trajectory.q.numpy()[-1]), seeds(trajectory.qd.numpy()[-1]))


def test_rollout_on_a_tape(simulator, device):
    q, qd, tau = (gradient_array(array, device) for array in inputs(simulator.model, 12))
    loss = wp.zeros(1, dtype=wp.float64, device=device, requires_grad=True)
    with wp.Tape() as tape:
        state = simulator.rollout(sim.State(q, qd), tau).final_state
        add_squares(state.q, loss)
        add_squares(state.qd, loss)
    tape.backward(loss)
    gradients = expected(simulator, 12)
    np.testing.assert_allclose(q.grad.numpy(), gradients.q.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(qd.grad.numpy(), gradients.qd.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tau.grad.numpy(), gradients.tau.numpy(), rtol=1e-12, atol=1e-12)


def test_steps_on_a_tape(simulator, device):
    """A loop of steps, each with its own control, and the loss of the last state."""
    numbers = inputs(simulator.model, 12)
    q, qd = (gradient_array(array, device) for array in numbers[:2])
    controls = [gradient_array(tau, device) for tau in numbers[2]]
    loss = wp.zeros(1, dtype=wp.float64, device=device, requires_grad=True)
    with wp.Tape() as tape:
        state = sim.State(q, qd)
        for tau in controls:
            state = simulator.step(state, tau)
        add_squares(state.q, loss)
        add_squares(state.qd, loss)
    tape.backward(loss)
    gradients = expected(simulator, 12)
    np.testing.assert_allclose(q.grad.numpy(), gradients.q.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(qd.grad.numpy(), gradients.qd.numpy(), rtol=1e-12, atol=1e-12)
    for t, tau in enumerate(controls):
        np.testing.assert_allclose(tau.grad.numpy(), gradients.tau.numpy()[t], rtol=1e-12, atol=1e-12)


def test_kernels_before_and_between(simulator, device):
    """The control comes out of another kernel, and the state of every step enters the loss."""
    numbers = inputs(simulator.model, 1)
    half = gradient_array(0.5 * numbers[2][0], device)
    tau = wp.zeros_like(half)
    loss = wp.zeros(1, dtype=wp.float64, device=device, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(twice, half.shape, [half], [tau], device=device)
        state = simulator.state(*numbers[:2])
        for _ in range(5):
            state = simulator.step(state, tau)
            add_squares(state.q, loss)
    tape.backward(loss)
    other = sim.Simulator(simulator.model, DT, WORLDS, device)
    trajectory = other.rollout(other.state(*numbers[:2]), np.repeat(numbers[2], 5, axis=0))
    every = seeds(trajectory.q.numpy())
    every[0] = 0.0
    gradient = trajectory.backward(every).tau.numpy().sum(axis=0)
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(half.grad.numpy(), 2.0 * gradient, rtol=1e-10, atol=1e-10)


def test_backward_again_after_zero(simulator, device):
    q, qd, tau = (gradient_array(array, device) for array in inputs(simulator.model, 6))
    loss = wp.zeros(1, dtype=wp.float64, device=device, requires_grad=True)
    with wp.Tape() as tape:
        add_squares(simulator.rollout(sim.State(q, qd), tau).final_state.q, loss)
    tape.backward(loss)
    first = tau.grad.numpy().copy()
    assert np.abs(first).max() > 0.0
    tape.zero()
    assert not tau.grad.numpy().any()
    tape.backward(loss)
    np.testing.assert_array_equal(tau.grad.numpy(), first)


def test_two_branches_add_up(simulator, device):
    """One state that two rollouts start from gets the sum of both gradients."""
    numbers = inputs(simulator.model, 6)
    q = gradient_array(numbers[0], device)
    qd = wp.array(numbers[1], dtype=wp.float64, device=device)
    loss = wp.zeros(1, dtype=wp.float64, device=device, requires_grad=True)
    with wp.Tape() as tape:
        for steps in (3, 6):
            add_squares(simulator.rollout(sim.State(q, qd), numbers[2][:steps]).final_state.q, loss)
    tape.backward(loss)
    total = 0.0
    other = sim.Simulator(simulator.model, DT, WORLDS, device)
    for steps in (3, 6):
        trajectory = other.rollout(other.state(*numbers[:2]), numbers[2][:steps])
        total = total + trajectory.backward(seeds(trajectory.q.numpy()[-1])).q.numpy()
    np.testing.assert_allclose(q.grad.numpy(), total, rtol=1e-12, atol=1e-12)
    assert qd.grad is None


def test_nothing_is_recorded_where_nothing_wants_a_gradient(simulator):
    with wp.Tape() as tape:
        trajectory = simulator.rollout(simulator.initial_state(), steps=3)
    assert not tape.launches
    assert not trajectory.q.requires_grad


def test_a_tape_is_as_long_as_its_steps(simulator, device):
    """One entry for each call, not for each kernel."""
    q, qd, tau = (gradient_array(array, device) for array in inputs(simulator.model, 4))
    with wp.Tape() as tape:
        state = sim.State(q, qd)
        for _ in range(3):
            state = simulator.step(state, tau[0])
        simulator.rollout(state, tau)
    assert len(tape.launches) == 4


def test_backward_of_a_trajectory_inside_of_a_tape(simulator, device):
    """A gradient that is asked for while something else is being recorded."""
    q, qd, tau = (gradient_array(array, device) for array in inputs(simulator.model, 4))
    loss = wp.zeros(1, dtype=wp.float64, device=device, requires_grad=True)
    with wp.Tape() as tape:
        trajectory = simulator.rollout(sim.State(q, qd), tau)
        inside = trajectory.backward(*cotangents(trajectory)).tau.numpy()
        add_squares(trajectory.final_state.q, loss)
    tape.backward(loss)
    assert np.abs(tau.grad.numpy()).max() > 0.0
    np.testing.assert_array_equal(trajectory.backward(*cotangents(trajectory)).tau.numpy(), inside)
