"""Norms of the derivatives in every state: against rollouts from that state on, and where they explode."""

import numpy as np
import pytest

import sim
from tests.simulation.worlds import DT, WORLDS, cotangents, hopper, inputs, rollout

STEPS = 12


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_are_those_of_the_derivative_in_each_state(device, dtype, every):
    """The derivative in state t is that in the first state of a rollout that starts there."""
    model = hopper(dtype)
    simulator = sim.Simulator(model, DT, WORLDS, device)
    trajectory = rollout(simulator, STEPS)
    q_grad, qd_grad = cotangents(trajectory)
    if not every:
        q_grad, qd_grad = q_grad[-1], qd_grad[-1]
    norms = trajectory.gradient_norms(q_grad, qd_grad)
    assert norms.q.shape == norms.qd.shape == (STEPS + 1, WORLDS)
    q, qd = trajectory.q.numpy(), trajectory.qd.numpy()
    tau = inputs(model, STEPS)[2]
    for state in range(STEPS + 1):
        rest = simulator.rollout(simulator.state(q[state], qd[state]), tau[state:])
        seeds = (q_grad[state:], qd_grad[state:]) if every else (q_grad, qd_grad)
        gradients = rest.backward(*seeds)
        for found, expected in ((norms.q, gradients.q), (norms.qd, gradients.qd)):
            size = np.linalg.norm(expected.numpy(), axis=1)
            np.testing.assert_allclose(found[state], size, rtol=1e-5 if dtype == "float32" else 1e-12)


def test_backward_is_the_same_afterwards(device):
    trajectory = rollout(sim.Simulator(hopper(), DT, WORLDS, device), STEPS)
    seeds = cotangents(trajectory)
    before = trajectory.backward(*seeds)
    trajectory.gradient_norms(*seeds)
    after = trajectory.backward(*seeds)
    for name in ("q", "qd", "tau"):
        np.testing.assert_array_equal(getattr(before, name).numpy(), getattr(after, name).numpy())


@pytest.mark.cpu_shapes
def test_shards_write_their_own_worlds():
    worlds = 70
    simulator = sim.Simulator(hopper(), DT, worlds, "cpu")
    assert len(simulator.engine.shards) > 1
    trajectory = rollout(simulator, 2)
    seeds = cotangents(trajectory)
    norms = trajectory.gradient_norms(*seeds)
    gradients = trajectory.backward(*seeds)
    np.testing.assert_allclose(norms.q[0], np.linalg.norm(gradients.q.numpy(), axis=1), rtol=1e-12)
    np.testing.assert_allclose(norms.q[-1], np.linalg.norm(seeds[0][-1], axis=1), rtol=1e-12)
    assert np.isfinite(norms.q).all()


def test_large_gradients_of_single_precision_do_not_overflow():
    simulator = sim.Simulator(hopper("float32"), DT, 1, "cpu")
    trajectory = rollout(simulator, 1)
    q_grad = np.full((1, simulator.model.nq), 1e25)
    np.testing.assert_allclose(trajectory.gradient_norms(q_grad).q[-1], 1e25 * np.sqrt(simulator.model.nq), rtol=1e-6)


def test_where_they_stop_being_finite():
    """Reported, also with check_finite, under which a backward pass raises."""
    simulator = sim.Simulator(hopper(), DT, WORLDS, "cpu", check_finite=True)
    trajectory = rollout(simulator, STEPS)
    q_grad, qd_grad = cotangents(trajectory)
    q_grad[7, 1, 3] = np.nan
    norms = trajectory.gradient_norms(q_grad, qd_grad)
    assert norms.first_beyond() == (7, 1)
    assert norms.first_beyond(world=0) is None
    assert norms.first_beyond(0.5 * norms.qd[STEPS, 2], world=2) == (STEPS, 2)
    assert "not finite from state 7 of world 1 back" in str(norms)
    with pytest.raises(FloatingPointError, match="world 1"):
        trajectory.backward(q_grad, qd_grad)


def test_text_shows_the_world_in_which_they_grow_most():
    growth = np.array([[1.0, 100.0], [1.0, 10.0], [1.0, 1.0]])
    text = str(sim.GradientNorms(growth, np.zeros((3, 2)), (0, 5)))
    lines = text.splitlines()
    assert "world 5" in lines[0]
    assert "2.0 decades" in lines[2]
    rows = [line.split() for line in lines[3:]]
    assert [row[0] for row in rows] == ["2", "1", "0"]
    assert [len(row[3]) if len(row) > 3 else 0 for row in rows] == [0, 20, 40]


def test_text_of_many_states_shows_the_peak():
    size = np.ones((1001, 1))
    size[333] = 1e4
    size[700] = np.nan
    table = sim.GradientNorms(size, np.zeros_like(size), (0,)).table(0)
    rows = {int(line.split()[0]): line.split()[1:] for line in table.splitlines()[3:]}
    assert len(rows) == 20
    assert len(rows[333][2]) == 40
    assert rows[700][2:] == ["not", "finite"]
    assert sorted(rows, reverse=True) == list(rows)
