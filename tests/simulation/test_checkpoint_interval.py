"""Rollouts that store every k-th state only: the same motion and the same gradients, bit for bit, from fewer states."""

import numpy as np
import pytest
import warp as wp

import sim
import sim.torch
from tests.errors import raises_naming
from tests.simulation.test_rollout import PARAMETERS, arrays, assert_equal
from tests.simulation.worlds import DT, WORLDS, cotangents, hopper, inputs
from tests.torch.worlds import loss, tensors

STEPS = 25
INTERVALS = (2, 5, 7, 25, 40)  # the last stretch is whole, or shorter, or the only one


@pytest.fixture(params=[("float64", False), ("float32", True)], ids=["cold", "warm start"])
def simulator(request, device):
    dtype, warm_start = request.param
    contact = sim.PgsContact(sweeps=4, warm_start=warm_start)
    return sim.Simulator(hopper(dtype), DT, WORLDS, device, contact)


def rollout(simulator: sim.Simulator, interval: int = 1) -> sim.Trajectory:
    q, qd, tau = inputs(simulator.model, STEPS, WORLDS)
    return simulator.rollout(simulator.state(q, qd), tau, checkpoint_interval=interval)


def test_states_and_gradients_are_the_same_bit_for_bit(simulator):
    every = rollout(simulator)
    residual = simulator.residual
    seeds = [*cotangents(every)]
    if every.impulses is not None:
        seeds.append(np.random.default_rng(5).normal(size=every.impulses.value.shape))
    for interval in INTERVALS:
        trajectory = rollout(simulator, interval)
        stored = trajectory.stored_steps
        assert np.array_equal(trajectory.time, stored * simulator.dt)
        assert list(stored) == sorted({*range(0, STEPS, interval), STEPS})
        assert len(trajectory.q.numpy()) == -(-STEPS // interval) + 1
        np.testing.assert_array_equal(trajectory.q.numpy(), every.q.numpy()[stored])
        np.testing.assert_array_equal(trajectory.qd.numpy(), every.qd.numpy()[stored])
        if every.impulses is not None:
            np.testing.assert_array_equal(trajectory.impulses.value.numpy(), every.impulses.value.numpy()[stored])
        spread = [np.zeros_like(seed) for seed in seeds]
        for whole, seed in zip(spread, seeds, strict=True):
            whole[stored] = seed[stored]
        expected = every.backward(*spread[:2], PARAMETERS, *spread[2:])
        at_stored = [seed[stored] for seed in seeds]
        for _ in range(2):  # a second pass finds nothing that the first one has left
            found = trajectory.backward(*at_stored[:2], PARAMETERS, *at_stored[2:])
            assert_equal(arrays(expected), arrays(found))
            if every.impulses is not None:
                np.testing.assert_array_equal(found.impulses.numpy(), expected.impulses.numpy())
        # Steps that run again report nothing.
        np.testing.assert_array_equal(simulator.residual, residual)


def test_a_seed_at_the_last_state(simulator):
    q_bar = np.random.default_rng(6).normal(size=(WORLDS, simulator.model.nq))
    every, few = (rollout(simulator, interval).backward(q_bar) for interval in (1, 6))
    assert_equal(arrays(every), arrays(few))


def test_norms_are_those_of_all_states(simulator):
    q_bar = np.ones((WORLDS, simulator.model.nq))
    every, few = (rollout(simulator, interval).gradient_norms(q_bar) for interval in (1, 6))
    np.testing.assert_array_equal(few.q, every.q)
    np.testing.assert_array_equal(few.qd, every.qd)


def test_through_pytorch(simulator):
    """The last state of few is that of all; so are the gradients of a loss of it, with other rollouts in between."""
    found = []
    for interval in (1, 6):
        t = tensors(simulator, STEPS)
        q, qd = sim.torch.rollout(
            simulator, t.q, t.qd, t.tau, checkpoint_interval=interval, friction=t.friction, mass=t.mass
        )
        rollout(simulator, 4)
        loss(q[-1], qd[-1]).backward()
        assert len(q) == -(-STEPS // interval) + 1
        found.append({name: value.grad.cpu().numpy() for name, value in vars(t).items()})
    assert_equal(*found)


def test_on_a_tape(simulator):
    found = []
    for interval in (1, 6):
        q, qd, tau = inputs(simulator.model, STEPS, WORLDS)
        state = simulator.state(q, qd)
        state.q.requires_grad = True
        with wp.Tape() as tape:
            trajectory = simulator.rollout(state, tau, checkpoint_interval=interval)
        seed = wp.zeros_like(trajectory.q)
        seed[len(trajectory.stored_steps) - 1].fill_(1.0)
        tape.backward(grads={trajectory.q: seed})
        found.append({"q": state.q.grad.numpy()})
    assert_equal(*found)


def test_stored_states_and_what_is_refused(simulator):
    trajectory = rollout(simulator, 6)
    every = rollout(simulator)
    for step in (0, 6, 24, 25):
        np.testing.assert_array_equal(trajectory.state(step).q.numpy(), every.state(step).q.numpy())
    for step in (1, 23, 26, -1):
        with pytest.raises(sim.ModelError, match=rf"state before step {step} is not stored.*stored_steps"):
            trajectory.state(step)
    for interval in (0, -3, 1.5, "all"):
        with raises_naming("checkpoint_interval is", 1):
            rollout(simulator, interval)
    with raises_naming("q_grad", "shape"):
        trajectory.backward(np.zeros((STEPS + 1, WORLDS, simulator.model.nq)))
    assert list(simulator.rollout(every.state(0), steps=0, checkpoint_interval=3).stored_steps) == [0]


def test_a_state_that_is_not_finite_is_found_wherever_it_is(simulator):
    checked = sim.Simulator(simulator.model, DT, WORLDS, simulator.device, simulator.contact, check_finite=True)
    q, qd, tau = inputs(simulator.model, STEPS, WORLDS)
    tau[8, 1] = np.inf
    for interval in (6, 1):
        with pytest.raises(FloatingPointError, match="the state after step 8 is not finite in world 1"):
            checked.rollout(checked.state(q, qd), tau, checkpoint_interval=interval)
