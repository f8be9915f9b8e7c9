"""Single precision 1 km from the world's origin, where positions are multiples of 0.06 mm."""

import pickle

import numpy as np
import pytest
import torch

import sim
import sim.envs
import sim.torch
from sim.simulation.state import State

FAR, SPEED, DT, STEPS = 1000.0, 1.0, 1e-3, 300


def rolling_ball(x: float, dtype: str = "float32", integrator: str = "euler") -> sim.Simulator:
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_sphere(radius=0.1, mass=1.0, position=(x, -x, 0.1))
    return sim.Simulator(builder.finalize(dtype), DT, device="cpu", contact=sim.HardContact(), integrator=integrator)


def begun(simulator: sim.Simulator) -> State:
    return simulator.state(simulator.model.q0, [SPEED, 0, 0, 0, SPEED / 0.1, 0])


def rolled(q: np.ndarray) -> float:
    return float(q[0, 0]) - FAR


@pytest.mark.parametrize("integrator", ["euler", "midpoint"])
def test_a_ball_rolls_as_far_as_its_speed_tells(integrator):
    """By a rollout, by single steps, and by a rollout that continues another; rounding each step would lose 2 %."""
    simulator = rolling_ball(FAR, integrator=integrator)
    state = begun(simulator)
    trajectory = simulator.rollout(state, steps=STEPS)
    for _ in range(STEPS):
        state = simulator.step(state)
    np.testing.assert_array_equal(state.q.numpy(), trajectory.final_state.q.numpy())
    half = simulator.rollout(begun(simulator), steps=STEPS // 2).final_state
    again = simulator.rollout(pickle.loads(pickle.dumps(half)), steps=STEPS - STEPS // 2).final_state
    np.testing.assert_array_equal(again.q.numpy(), state.q.numpy())
    expected = SPEED * DT * STEPS
    # Half a unit in the last place of 1 km; with its low word the position is known to its rounding near the origin.
    assert rolled(state.q.numpy()) == pytest.approx(expected, abs=3.1e-5)
    whole = state.q.numpy().astype(float)[:, :1] + state.q_low.numpy()[:, :1]
    assert rolled(whole) == pytest.approx(expected, abs=1e-5)


def test_torch_continues_from_them():
    """Steps and rollouts of PyTorch that get the low words of the last call, and environments, as one rollout."""
    simulator = rolling_ball(FAR)
    whole = simulator.rollout(begun(simulator), steps=100).final_state
    q, qd = (torch.tensor(x) for x in begun(simulator).numpy())
    state = sim.torch.step(simulator, q, qd, hold=20)
    assert len(state) == 2
    for _ in range(10):
        state = sim.torch.step(simulator, *state, q_low=state.q_low)
    rest = sim.torch.rollout(simulator, *state, steps=70, q_low=state.q_low)
    env = sim.envs.VectorEnv(Rolling(), 1, device="cpu", seed=0)
    env.reset()
    for _ in range(20):
        env.step(torch.zeros(1, 1))
    for end, low in ((rest.q[-1], rest.q_low), (env.state.q, env.state.carried["q_low"])):
        np.testing.assert_array_equal(end.numpy(), whole.q.numpy())
        np.testing.assert_array_equal(low.numpy(), whole.q_low.numpy())
    env.task.moves = True
    env.step(torch.zeros(1, 1))
    assert not env.state.carried["q_low"].any()


class Rolling(sim.envs.Task):
    """The ball, which an event may move back."""

    dt, frame_skip, moves = DT, 5, False

    def model(self) -> sim.Model:
        return rolling_ball(FAR).model

    def contact(self) -> sim.HardContact:
        return sim.HardContact()

    def num_actions(self, model: sim.Model) -> int:
        return 1

    def inputs(self, state: sim.envs.TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        return {}

    def sample_state(self, n: int, generator: torch.Generator) -> sim.envs.TaskState:
        simulator = rolling_ball(FAR)
        return self.episodes(*(torch.tensor(x) for x in begun(simulator).numpy()))

    def events(self, state: sim.envs.TaskState) -> dict[str, torch.Tensor]:
        return {"q": state.q - 1.0} if self.moves else {}

    def observe(self, state: sim.envs.TaskState) -> torch.Tensor:
        return state.q

    def reward(self, before, action, after) -> torch.Tensor:
        return after.q[:, 0]


def test_near_the_origin_states_have_no_low_words():
    simulator = rolling_ball(0.0)
    assert simulator.step(begun(simulator)).q_low is None
    assert not simulator.rollout(begun(simulator), steps=20).q_low.numpy().any()
    double = rolling_ball(FAR, "float64")
    assert double.rollout(begun(double), steps=20).q_low is None


def test_wrong_low_words_are_refused():
    simulator = rolling_ball(FAR)
    state = simulator.rollout(begun(simulator), steps=2).final_state
    with pytest.raises(sim.ModelError, match="q_low"):
        simulator.step(State(state.q, state.qd, q_low=state.qd))


def test_gradients_recompute_the_same_states():
    gradients = []
    for interval in (1, 7):
        simulator = rolling_ball(FAR)
        trajectory = simulator.rollout(begun(simulator), steps=60, checkpoint_interval=interval)
        gradients.append(trajectory.backward(np.ones((1, 7)), np.ones((1, 6)), parameters=["mass", "friction"]))
    near = rolling_ball(0.0)
    there = near.rollout(begun(near), steps=60).backward(np.ones((1, 7)), np.ones((1, 6)))
    first, second = gradients
    for name in ("q", "qd"):
        np.testing.assert_array_equal(getattr(first, name).numpy(), getattr(second, name).numpy())
        np.testing.assert_allclose(getattr(first, name).numpy(), getattr(there, name).numpy(), rtol=1e-4, atol=1e-5)
    for name in ("mass", "friction"):
        np.testing.assert_array_equal(first.parameters[name], second.parameters[name])


def test_slides_have_low_words_too():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for number, axis in enumerate(((1, 0, 0), (0, 1, 0))):
        builder.add_link(f"slide {number}", mass=1.0, inertia=(0.1, 0.1, 0.1))
        parent = f"slide {number - 1}" if number else "world"
        builder.add_joint(f"along {number}", "prismatic", child=f"slide {number}", parent=parent, axis=axis)
    simulator = sim.Simulator(builder.finalize("float32"), DT, device="cpu", contact=sim.HardContact(max_contacts=0))
    state = simulator.rollout(simulator.state([FAR, -FAR], [0.01, 0.02]), steps=100).final_state
    whole = state.q.numpy().astype(float) + state.q_low.numpy()
    np.testing.assert_allclose(whole, [[FAR + 1e-3, 2e-3 - FAR]], rtol=0.0, atol=1e-8)


def slope(x: float) -> sim.Simulator:
    """A ball on a mesh of 11 degrees, whose gap depends on the coordinate along it."""
    builder = sim.ModelBuilder()
    corners = np.array([[-8, -4, 1.6], [8, -4, -1.6], [8, 4, -1.6], [-8, 4, 1.6]])
    surface = sim.Surface(friction=1.0)
    builder.add_static_mesh(corners, np.array([[0, 1, 2], [0, 2, 3]]), position=(x, 0, 0), surface=surface)
    builder.add_sphere(radius=0.1, mass=1.0, position=(x - 4.0, 0.0, 0.9), surface=surface)
    return sim.Simulator(builder.finalize("float32"), DT, device="cpu", contact=sim.HardContact())


def tethered(x: float) -> sim.Simulator:
    """A box that swings and spins on a point of the world."""
    builder = sim.ModelBuilder()
    builder.add_box(name="box", half_extents=(0.1, 0.2, 0.3), mass=1.0, position=(x, 0.0, 0.0))
    at = (0.25, 0.125, 0.5)
    builder.add_point_constraint("tether", "world", "box", position_a=(x + at[0], *at[1:]), position_b=at)
    return sim.Simulator(builder.finalize("float32"), DT, device="cpu", contact=sim.HardContact(max_contacts=0))


@pytest.mark.parametrize("build", [slope, tethered])
def test_gaps_are_those_near_the_origin(build):
    """Rounding of coordinates, divided by the time step, would be a noise of 2 to 3 mm/s."""
    velocities = []
    for x in (0.0, FAR):
        simulator = build(x)
        trajectory = simulator.rollout(simulator.initial_state(), steps=STEPS)
        velocities.append(trajectory.qd.numpy()[:, 0])
    assert np.abs(velocities[0][-1]).max() > 0.3
    np.testing.assert_allclose(velocities[1], velocities[0], rtol=0.0, atol=5e-5)
