"""Episodes whose world diverges end with finite rewards and observations."""

import numpy as np
import pytest
import torch

import sim
import sim.envs


class Unstable(sim.envs.Task):
    """A wheel with a motor that pushes it the way it turns: its velocity grows by a factor in each step."""

    dt, frame_skip, max_episode_length = 0.01, 4, 200
    factor = 3.0

    def model(self) -> sim.Model:
        builder = sim.ModelBuilder()
        builder.add_link("wheel", mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint("axle", "revolute", child="wheel", axis=(0.0, 0.0, 1.0))
        builder.add_actuator("axle")
        return builder.finalize(self.dtype)

    def sample_state(self, count, generator):
        return self.episodes(
            torch.zeros(count, 1, dtype=getattr(torch, self.dtype)), self.uniform((count, 1), generator, 0.1, 1.0)
        )

    def inputs(self, state, action):
        return {"control": (self.factor - 1.0) / self.dt * state.qd * (action > 0.0)}

    def observe(self, state):
        return torch.cat([state.q, state.qd], dim=1)

    def reward(self, before, action, after):
        return -after.qd.square().sum(dim=1) - after.q.square().sum(dim=1)


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize(("factor", "limit"), [(3.0, None), (1e6, None), (1e18, None), (2.0, (1e6, 50.0))])
def test_rewards_and_observations_stay_finite(factor, limit, mode):
    task = Unstable("float32")
    task.factor = factor
    task.max_episode_length = 1000
    if limit is not None:
        task.state_limit = limit
    largest = task.state_limit[1]
    env = sim.envs.VectorEnv(task, 8, device="cpu", seed=0, autoreset_mode=mode)
    env.reset()
    ended = 0
    action = torch.tensor([[1.0], [0.0]] * 4)
    for _ in range(40):
        observation, reward, terminated, _, info = env.step(action)
        assert observation.isfinite().all()
        assert info["final_obs"].isfinite().all()
        assert (info["final_obs"][:, 1].abs() <= largest).all()
        assert (reward >= -2.0 * largest**2).all()
        assert (reward[info["not_finite"]] == 0.0).all()
        assert info["episode_return"].isfinite().all()
        assert (terminated == info["not_finite"]).all()
        assert not terminated[1::2].any()
        ended += int(terminated.sum())
    assert ended >= 4


def test_gradients_of_the_others_are_untouched():
    """One world of two starts so fast that it diverges: the other's gradient is as if it were alone."""

    class Pushed(Unstable):
        state_limit = (1e8, 20.0)
        speeds = (0.1, 19.0)

        def sample_state(self, count, generator):
            qd = torch.tensor(self.speeds[:count], dtype=torch.float64)[:, None]
            return self.episodes(torch.zeros(count, 1, dtype=torch.float64), qd)

        def inputs(self, state, action):
            return {"control": 30.0 * action}

    def gradient(count: int) -> torch.Tensor:
        env = sim.envs.VectorEnv(Pushed("float64"), count, device="cpu", seed=0, differentiable=True)
        env.reset()
        actions = torch.full((count, 1), 0.5, dtype=torch.float64, requires_grad=True)
        total, bad = torch.zeros((), dtype=torch.float64), torch.zeros(count, dtype=torch.bool)
        for _ in range(3):
            _, reward, _, _, info = env.step(actions)
            total, bad = total + reward.sum(), bad | info["not_finite"]
        assert bad.tolist() == [False, True][:count]
        return torch.autograd.grad(total, actions)[0]

    torch.testing.assert_close(gradient(2)[:1], gradient(1), rtol=1e-12, atol=1e-12)


def test_a_first_state_beyond_the_limit_ends_the_episode_at_once():
    class Far(Unstable):
        state_limit = (10.0, 10.0)

        def sample_state(self, count, generator):
            q = torch.full((count, 1), 20.0)
            return self.episodes(q, torch.zeros(count, 1))

    env = sim.envs.VectorEnv(Far(), 2, device="cpu", seed=0)
    env.reset()
    _, reward, terminated, _, info = env.step(torch.zeros(2, 1))
    assert terminated.all()
    assert info["not_finite"].all()
    assert (reward == 0.0).all()


def test_a_state_between_two_actions_counts():
    """There and back within one action: the world has been beyond, whatever its last state says."""

    class Shaken(Unstable):
        frame_skip, state_limit = 2, (1e6, 5.0)

        def sample_state(self, count, generator):
            return self.episodes(torch.zeros(count, 1), torch.zeros(count, 1))

        def model(self):
            builder = sim.ModelBuilder()
            builder.add_link("wheel", mass=1.0, inertia=(1.0, 1.0, 1.0))
            builder.add_joint("axle", "revolute", child="wheel", axis=(0.0, 0.0, 1.0), spring=sim.Spring(stiffness=5e4))
            builder.add_actuator("axle")
            return builder.finalize(self.dtype)

        def inputs(self, state, action):
            return {"control": 1e5 * action}

    env = sim.envs.VectorEnv(Shaken(), 1, device="cpu", seed=0)
    env.reset()
    simulator = sim.Simulator(env.simulator.model, 0.01, device="cpu")
    speeds = np.abs(simulator.rollout(simulator.initial_state(), steps=2, control=[1e5]).qd.numpy()[:, 0, 0])
    assert speeds[1] > 5.0
    _, _, terminated, _, info = env.step(torch.ones(1, 1))
    assert terminated.all()
    assert info["not_finite"].all()
