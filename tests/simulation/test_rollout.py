"""A rollout and its backward pass: re-run bit for bit, repeatable, equal to the chain of steps, writing no more."""

import numpy as np
import pytest

import sim
from sim.arrays.graphs import Replay, WarpGraph
from sim.simulation.engine.shard import STEPS_AT_ONCE
from tests.errors import raises_naming
from tests.simulation.worlds import DT, WORLDS, cotangents, hopper, inputs, rollout

PARAMETERS = ("mass", "friction", "restitution", "friction_loss", "upper_limit", "gravity")


@pytest.fixture(params=["float32", "float64"])
def simulator(request, device):
    return sim.Simulator(hopper(request.param), DT, WORLDS, device)


def arrays(gradients: sim.Gradients) -> dict[str, np.ndarray]:
    states = {name: getattr(gradients, name).numpy().copy() for name in ("q", "qd", "tau")}
    return states | {name: np.array(value) for name, value in gradients.parameters.items()}


def assert_equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.abs(value).max() > 0.0, name
        np.testing.assert_array_equal(second[name], value, err_msg=name)


def test_a_step_from_each_stored_state_is_the_next_one(simulator):
    """Walking back by hand, before and after a backward pass."""
    trajectory = rollout(simulator, 60)
    q, qd, tau = (array.numpy().copy() for array in (trajectory.q, trajectory.qd, trajectory.tau))
    for _ in range(2):
        for t in reversed(range(60)):
            state = simulator.step(simulator.state(q[t], qd[t]), tau[t])
            np.testing.assert_array_equal(state.q.numpy(), q[t + 1])
            np.testing.assert_array_equal(state.qd.numpy(), qd[t + 1])
        trajectory.backward(*cotangents(trajectory))
    again = rollout(simulator, 60)
    np.testing.assert_array_equal(again.q.numpy(), q)
    np.testing.assert_array_equal(again.qd.numpy(), qd)


def test_the_backward_pass_runs_each_step_again_bit_for_bit(simulator):
    """The velocity that its re-run computes, seen through its working arrays, is the stored next one."""
    trajectory = rollout(simulator, 20)
    (shard,) = simulator.engine.shards
    for t in reversed(range(20)):
        one = sim.Trajectory(simulator, trajectory.q[t : t + 2], trajectory.qd[t : t + 2], trajectory.tau[t : t + 1])
        one.backward(np.ones(one.q.shape))
        np.testing.assert_array_equal(shard.step.qd_next.numpy(), trajectory.qd.numpy()[t + 1])


def test_steps_at_once_are_steps_one_by_one(simulator, monkeypatch):
    """Whatever the number of steps, bit by bit. Those that take long are one by one."""
    steps = 4 * STEPS_AT_ONCE + 3
    kind = Replay if simulator.device.is_cpu else WarpGraph
    launch, launches = kind.launch, []

    def noted(graph, times):
        launches.append(times)
        launch(graph, times)

    def there_and_back():
        trajectory = rollout(simulator, steps)
        found = trajectory.q.numpy().copy(), arrays(trajectory.backward(*cotangents(trajectory), PARAMETERS))
        counts = list(launches)
        launches.clear()
        return *found, counts

    monkeypatch.setattr(kind, "launch", noted)
    monkeypatch.setattr("sim.simulation.engine.shard.LONG_LAUNCH", 100.0)
    q, gradients, counts = there_and_back()
    every = [1, 2, 4, 8, 16, 16, 16, 4]
    assert counts == [*every, *2 * [1], *every]  # those in the middle compute and check the fingerprint
    monkeypatch.setattr("sim.simulation.engine.shard.LONG_LAUNCH", 0.0)
    q_one_by_one, gradients_one_by_one, counts = there_and_back()
    assert counts == (2 * steps + 2) * [1]
    np.testing.assert_array_equal(q_one_by_one, q)
    assert_equal(gradients_one_by_one, gradients)


def test_backward_equals_the_chain_of_single_steps(simulator):
    trajectory = rollout(simulator, 25)
    q_bar, qd_bar = cotangents(trajectory)
    whole = arrays(trajectory.backward(q_bar, qd_bar, PARAMETERS))
    q, qd = q_bar[25], qd_bar[25]
    sums: dict[str, np.ndarray] = dict.fromkeys(PARAMETERS, np.zeros(()))
    for t in reversed(range(25)):
        one = sim.Trajectory(simulator, trajectory.q[t : t + 2], trajectory.qd[t : t + 2], trajectory.tau[t : t + 1])
        part = one.backward(q, qd, PARAMETERS)
        np.testing.assert_array_equal(part.tau.numpy()[0], whole["tau"][t])
        # The sum of what comes from later and from the loss is rounded in the model's precision, here as there.
        scalar = part.q.numpy().dtype
        q, qd = part.q.numpy() + q_bar[t].astype(scalar), part.qd.numpy() + qd_bar[t].astype(scalar)
        sums = {name: sums[name] + part.parameters[name] for name in PARAMETERS}
    np.testing.assert_array_equal(q, whole["q"])
    np.testing.assert_array_equal(qd, whole["qd"])
    exact = simulator.model.dtype == "float64"
    for name in PARAMETERS:  # summed in another order
        bound = (1e-12 if exact else 1e-4) * np.abs(whole[name]).max()
        np.testing.assert_allclose(sums[name], whole[name], rtol=0.0, atol=bound, err_msg=name)


def test_a_second_backward_pass_gives_the_same(simulator):
    trajectory = rollout(simulator, 25)
    seeds = cotangents(trajectory)
    first = arrays(trajectory.backward(*seeds, PARAMETERS))
    trajectory.backward(*cotangents(trajectory, seed=3), ("mass",))
    trajectory.backward(*cotangents(trajectory, seed=4))
    assert_equal(first, arrays(trajectory.backward(*seeds, PARAMETERS)))


def test_two_trajectories_do_not_disturb_each_other(simulator):
    first = rollout(simulator, 25)
    seeds = cotangents(first)
    q, qd = first.q.numpy().copy(), first.qd.numpy().copy()
    kept = arrays(first.backward(*seeds, PARAMETERS))
    second = simulator.rollout(simulator.initial_state(), steps=40)
    second.backward(np.ones(second.q.shape), parameters=PARAMETERS)
    np.testing.assert_array_equal(first.q.numpy(), q)
    np.testing.assert_array_equal(first.qd.numpy(), qd)
    assert_equal(kept, arrays(first.backward(*seeds, PARAMETERS)))


def test_gradients_of_one_call_survive_the_next(simulator):
    trajectory = rollout(simulator, 25)
    gradients = trajectory.backward(*cotangents(trajectory), PARAMETERS)
    kept = arrays(gradients)
    trajectory.backward(*cotangents(trajectory, seed=9), PARAMETERS)
    assert_equal(kept, arrays(gradients))


def test_steps_do_not_share_their_arrays(simulator):
    states = [simulator.initial_state()]
    for _ in range(3):
        states.append(simulator.step(states[-1]))
    values = [state.q.numpy().copy() for state in states]
    simulator.rollout(states[-1], steps=3).backward(np.ones((WORLDS, simulator.model.nq)))
    for state, value in zip(states, values, strict=True):
        np.testing.assert_array_equal(state.q.numpy(), value)
    assert len({state.q.ptr for state in states}) == 4


def test_arguments_are_never_written(simulator):
    q, qd, tau = inputs(simulator.model, 10)
    state = simulator.state(q, qd)
    control = simulator.rollout(state, tau).tau
    trajectory = simulator.rollout(state, control)
    seeds = [simulator.state(a, b) for a, b in zip(*cotangents(trajectory), strict=True)][-1]
    given = [state.q, state.qd, control, trajectory.q, trajectory.qd, seeds.q, seeds.qd]
    before = [array.numpy().copy() for array in given]
    trajectory.backward(seeds.q, seeds.qd, PARAMETERS)
    simulator.step(state, control[0])
    for array, value in zip(given, before, strict=True):
        np.testing.assert_array_equal(array.numpy(), value)
    numpy_arguments = [array.copy() for array in (q, qd, tau)]
    simulator.rollout(simulator.state(q, qd), tau)
    for array, value in zip((q, qd, tau), numpy_arguments, strict=True):
        np.testing.assert_array_equal(array, value)


def test_states_are_not_copied(simulator):
    """What is given as a contiguous Warp array of the right type is used as it is."""
    trajectory = rollout(simulator, 5)
    state = simulator.state(trajectory.q[0], trajectory.qd[0])
    assert (state.q.ptr, state.qd.ptr) == (trajectory.q.ptr, trajectory.qd.ptr)


def test_steps_and_rollout_agree(simulator):
    trajectory = rollout(simulator, 10)
    state = simulator.state(trajectory.q[0], trajectory.qd[0])
    for t in range(10):
        state = simulator.step(state, trajectory.tau[t])
    np.testing.assert_array_equal(state.q.numpy(), trajectory.final_state.q.numpy())
    np.testing.assert_array_equal(state.qd.numpy(), trajectory.final_state.qd.numpy())


def test_a_loss_of_the_last_state(simulator):
    trajectory = rollout(simulator, 25)
    q_bar, qd_bar = (array[-1] for array in cotangents(trajectory))
    whole_q, whole_qd = (np.zeros(array.shape) for array in (trajectory.q, trajectory.qd))
    whole_q[-1], whole_qd[-1] = q_bar, qd_bar
    expected = arrays(trajectory.backward(whole_q, whole_qd, PARAMETERS))
    assert_equal(expected, arrays(trajectory.backward(q_bar, qd_bar, PARAMETERS)))


def test_no_steps(simulator):
    trajectory = simulator.rollout(simulator.initial_state(), steps=0)
    assert trajectory.q.shape[0] == 1
    seed = np.random.default_rng(0).normal(size=(WORLDS, simulator.model.nq))
    gradients = trajectory.backward(seed)
    np.testing.assert_allclose(gradients.q.numpy(), seed, rtol=1e-6)
    assert not gradients.qd.numpy().any()


def test_no_control_is_zero_control(simulator):
    q, qd, tau = inputs(simulator.model, 10)
    state = simulator.state(q, qd)
    first = simulator.rollout(state, steps=10)
    second = simulator.rollout(state, 0.0 * tau)
    np.testing.assert_array_equal(first.q.numpy(), second.q.numpy())
    assert first.backward(np.ones(first.q.shape)).tau is None


def test_controls_for_all_worlds(simulator):
    q, qd, tau = inputs(simulator.model, 10)
    state = simulator.state(q, qd)
    first = simulator.rollout(state, tau[:, 0])
    second = simulator.rollout(state, np.repeat(tau[:, :1], WORLDS, axis=1))
    np.testing.assert_array_equal(first.q.numpy(), second.q.numpy())


def test_inputs_of_all_worlds_and_steps(simulator):
    """Joint forces of one world, or of one step, stand for all of them."""
    state, push = simulator.initial_state(), np.linspace(-1.0, 1.0, simulator.model.nv)
    expected = simulator.rollout(state, np.tile(push, (5, WORLDS, 1))).q.numpy()
    for tau, steps in ((np.tile(push, (5, 1)), None), (push, 5), (list(push), 5)):
        np.testing.assert_array_equal(simulator.rollout(state, tau, steps).q.numpy(), expected)
    with raises_naming("tau", "shape", "steps="):
        simulator.rollout(state, push)
    with pytest.raises(sim.ModelError, match="steps is 2.5; it must be a whole number|tau has shape"):
        simulator.rollout(state, push, steps=2.5)


def test_a_trajectory_of_numpy_arrays_is_that_of_the_rollout():
    simulator = sim.Simulator(hopper("float64"), DT, device="cpu")
    made = simulator.rollout(simulator.initial_state(), steps=3)
    by_hand = sim.Trajectory(simulator, made.q.numpy(), made.qd.numpy())
    assert repr(by_hand) == repr(made)
    np.testing.assert_array_equal(by_hand.final_state.q.numpy(), made.final_state.q.numpy())
    with pytest.raises(sim.ModelError, match="Trajectory: q is a list; it must be an array of Warp or NumPy"):
        sim.Trajectory(simulator, made.q.numpy().tolist(), made.qd.numpy())
