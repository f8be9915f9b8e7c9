"""What the simulator refuses, and how it says so; values that aren't finite."""

import numpy as np
import pytest
import warp as wp

import sim
from tests.errors import raises_naming, refuses
from tests.simulation.worlds import DT, WORLDS, hopper, inputs

NV, NQ = 13, 15


@pytest.fixture(scope="module")
def simulator():
    return sim.Simulator(hopper(), DT, WORLDS, "cpu")


@pytest.mark.parametrize("dt", [0.0, -1.0, np.nan, np.inf])
def test_dt(dt):
    with raises_naming("dt is"):
        sim.Simulator(hopper(), dt)


def test_num_worlds():
    with raises_naming("num_worlds", 0):
        sim.Simulator(hopper(), DT, 0)


def test_nothing_that_moves():
    builder = sim.ModelBuilder()
    builder.add_ground()
    with raises_naming("Simulator", "model"):
        sim.Simulator(builder.finalize(), DT)


def test_a_link_without_mass():
    builder = sim.ModelBuilder()
    builder.add_link("ghost")
    builder.add_joint("joint", "revolute", child="ghost")
    with raises_naming("ghost"):
        sim.Simulator(builder.finalize(), DT)


class TestShapes:
    @pytest.mark.parametrize("shape", [(NQ + 1,), (WORLDS + 1, NQ), (WORLDS, NQ, 1), (NQ, WORLDS), ()])
    def test_q(self, simulator, shape):
        with raises_naming("q", "shape", "(3, 15)"):
            simulator.state(np.zeros(shape))

    @pytest.mark.parametrize("shape", [(NQ,), (WORLDS + 1, NV)])
    def test_qd(self, simulator, shape):
        with raises_naming("qd", "shape", "(3, 13)"):
            simulator.state(simulator.model.q0, np.zeros(shape))

    def test_state_of_another_simulator(self, simulator):
        other = sim.Simulator(hopper(), DT, WORLDS + 1, "cpu").initial_state()
        refuses(lambda: simulator.step(other), "state.q", "shape", "(4, 15)")
        with raises_naming("state.qd", "shape", "(4, 13)"):
            simulator.rollout(sim.State(simulator.initial_state().q, other.qd), steps=1)

    @pytest.mark.parametrize("shape", [(NV + 1,), (WORLDS, NV + 1), (2, WORLDS, NV)])
    def test_tau_of_a_step(self, simulator, shape):
        with raises_naming("tau", "shape"):
            simulator.step(simulator.initial_state(), np.zeros(shape))

    @pytest.mark.parametrize("shape", [(NV,), (5, WORLDS + 1, NV), (5, WORLDS, NQ), (5, NQ)])
    def test_tau_of_a_rollout(self, simulator, shape):
        with raises_naming("tau", "shape"):
            simulator.rollout(simulator.initial_state(), np.zeros(shape))

    def test_control_of_a_model_without_actuators(self, simulator):
        state = simulator.initial_state()
        refuses(lambda: simulator.step(state, control=np.zeros(3)), "control", "no actuators", "add_actuator")
        refuses(lambda: simulator.rollout(state, control=np.zeros((5, 3))), "control", "no actuators", "add_actuator")

    def test_steps(self, simulator):
        state = simulator.initial_state()
        refuses(lambda: simulator.rollout(state, np.zeros((5, NV)), steps=4), "steps", 4, "tau", 5)
        refuses(lambda: simulator.rollout(state), "rollout", "tau", "control")
        refuses(lambda: simulator.rollout(state, steps=-1), "steps", -1, "whole", 0)

    def test_cotangents(self, simulator):
        trajectory = simulator.rollout(simulator.initial_state(), steps=2)
        refuses(lambda: trajectory.backward(np.zeros((2, WORLDS, NQ))), "q_grad", "shape")
        refuses(lambda: trajectory.backward(qd_grad=np.zeros((WORLDS, NQ))), "qd_grad", "shape")
        with raises_naming("unknown", "parameter 'frction'"):
            trajectory.backward(np.zeros((WORLDS, NQ)), parameters=["frction"])


class TestTypes:
    """A Warp array of another type or device is refused: a silent copy would lose its gradient."""

    def test_dtype(self, simulator):
        wrong = wp.zeros((WORLDS, NQ), dtype=wp.float32, device="cpu")
        refuses(lambda: simulator.state(wrong), "q", "dtype", "float32", "float64")
        right = simulator.initial_state()
        refuses(lambda: simulator.step(sim.State(wrong, right.qd)), "state.q", "dtype")
        with raises_naming("tau", "dtype"):
            simulator.rollout(right, wp.zeros((2, WORLDS, NV), dtype=wp.float32, device="cpu"))
        refuses(lambda: simulator.rollout(right, steps=2).backward(wrong), "q_grad", "dtype")

    @pytest.mark.skipif(not wp.is_cuda_available(), reason="needs a second device")
    def test_device(self, simulator):
        wrong = wp.zeros((WORLDS, NQ), dtype=wp.float64, device="cuda:0")
        with raises_naming("q", "cuda:0"):
            simulator.state(wrong)

    def test_rows_that_are_not_contiguous(self, simulator):
        """Without a gradient they are copied."""
        q, _, _ = inputs(simulator.model, 1)
        wide = wp.array(np.concatenate([q, q], axis=1), dtype=wp.float64, device="cpu")
        state = simulator.state(wide[:, :NQ])
        np.testing.assert_array_equal(state.q.numpy(), q)


class TestFinite:
    @pytest.fixture(params=["cpu"])
    def careful(self, request):
        return sim.Simulator(hopper(), DT, WORLDS, request.param, check_finite=True)

    def test_state(self, careful):
        tau = np.zeros((10, WORLDS, NV))
        tau[6, 2, 3] = np.nan
        tau[4, 1, 6] = np.inf
        with pytest.raises(FloatingPointError, match="the state after step 4 is not finite in world 1"):
            careful.rollout(careful.initial_state(), tau)

    def test_initial_state(self, careful):
        q = np.tile(careful.model.q0, (WORLDS, 1))
        q[2, 7] = np.nan
        with pytest.raises(FloatingPointError, match="the initial state is not finite in world 2"):
            careful.rollout(careful.state(wp.array(q, dtype=wp.float64, device="cpu")), steps=2)

    def test_gradient(self, careful):
        trajectory = careful.rollout(careful.initial_state(), steps=10)
        seed = np.zeros(trajectory.q.shape)
        seed[4, 0, 0] = np.nan
        seed[8, 1, 5] = np.inf
        # The state after step 7 is the one with number 8.
        with pytest.raises(FloatingPointError, match="the gradient of step 7 in world 1 is not finite"):
            trajectory.backward(seed)

    def test_gradient_of_the_first_state(self, careful):
        trajectory = careful.rollout(careful.initial_state(), steps=3)
        seed = np.zeros(trajectory.q.shape)
        seed[0, 1, 0] = np.nan
        with pytest.raises(FloatingPointError, match="world 1"):
            trajectory.backward(seed)

    def test_all_is_well(self, careful):
        trajectory = careful.rollout(careful.initial_state(), steps=10)
        trajectory.backward(np.ones(trajectory.q.shape))

    def test_off_by_default(self, simulator):
        tau = np.full((2, NV), np.nan)
        with pytest.warns(sim.NotFiniteWarning, match="the state after step 0 is not finite in world 0"):
            trajectory = simulator.rollout(simulator.initial_state(), tau)
        assert np.isnan(trajectory.q.numpy()[1]).any()
        trajectory.backward(np.ones(trajectory.q.shape))

    def test_other_worlds_are_unharmed(self, simulator):
        tau = np.zeros((5, WORLDS, NV))
        clean = simulator.rollout(simulator.initial_state(), tau)
        tau[2, 1] = np.nan
        with pytest.warns(sim.NotFiniteWarning, match="the state after step 2 is not finite in world 1"):
            trajectory = simulator.rollout(simulator.initial_state(), tau)
        np.testing.assert_array_equal(trajectory.q.numpy()[:, [0, 2]], clean.q.numpy()[:, [0, 2]])
