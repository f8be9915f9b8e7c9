"""Gradients of rewards, observations and episodes against central differences, in every task."""

import pytest
import torch

import sim.envs
from sim.envs import VectorEnv

NAMES = ("Pendulum-2", "CartpoleSwingup", "Ant", "AntPaper", "Hopper", "HalfCheetah", "Humanoid", "PandaReach")
STEPS = 3


def begun(name: str, **options) -> VectorEnv:
    env = sim.envs.make(name, 2, device="cpu", seed=3, dtype="float64", differentiable=True, threads=1, **options)
    env.reset()
    return env


def actions(env: VectorEnv, steps: int = STEPS) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    share = 0.1 + 0.8 * torch.rand(steps, env.num_envs, env.num_actions, generator=generator, dtype=torch.float64)
    return (env.action_low + share * (env.action_high - env.action_low)).requires_grad_()


def outcome(env: VectorEnv, state: dict, given: torch.Tensor) -> torch.Tensor:
    """All rewards and observations of some steps from a state, with weights of their own."""
    env.set_state(state)
    total = torch.zeros((), dtype=torch.float64)
    for number, action in enumerate(given):
        observation, reward, _, _, _ = env.step(action)
        weights = torch.linspace(0.3, 1.0, observation.numel(), dtype=torch.float64).reshape(observation.shape)
        total = total + (1.0 + 0.2 * number) * reward.sum() + (weights * observation).sum()
    return total


def derivative(function, at: torch.Tensor, along: torch.Tensor, width: float) -> float:
    """Fourth-order central difference."""
    with torch.no_grad():
        values = [function(at + k * width * along).item() for k in (-2, -1, 1, 2)]
    return (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * width)


@pytest.mark.parametrize("name", NAMES)
def test_of_actions(name):
    """Robots that stand begin in the air, fall and touch the ground within the steps of the longest."""
    env = begun(name)
    with torch.no_grad():
        for action in actions(env, 12):
            env.step(action)
    state = env.get_state()
    given = actions(env)
    outcome(env, state, given).backward()
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        along = torch.randn(given.shape, generator=generator, dtype=torch.float64)
        expected = derivative(lambda x: outcome(env, state, x), given.detach(), along, 1e-6)
        found = (given.grad * along).sum().item()
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6 * given.grad.norm().item())


@pytest.mark.parametrize("name", NAMES)
def test_none_crosses_a_reset(name):
    """The rewards of the second episode don't depend on actions of the first, and those of the first do."""
    env = begun(name)
    state = env.get_state()
    state["steps"][0] = env.max_episode_length - 2
    env.set_state(state)
    given = actions(env, 5)
    rewards = []
    for number, action in enumerate(given):
        _, reward, _, truncated, _ = env.step(action)
        assert truncated.tolist() == [number == 1, False]
        rewards.append(reward)
    sum(rewards[2:]).sum().backward()
    assert (given.grad[:2, 0] == 0.0).all()
    assert (given.grad[:2, 1] != 0.0).all()
    assert (given.grad[2:-1] != 0.0).all()


def test_the_last_observation_of_an_episode_has_one():
    env = begun("CartpoleSwingup")
    state = env.get_state()
    state["steps"][:] = env.max_episode_length - 1
    env.set_state(state)
    given = actions(env, 1)
    observation, _, _, truncated, info = env.step(given[0])
    assert truncated.all()
    assert info["final_mask"].all()
    assert not observation.requires_grad
    info["final_obs"].sum().backward()
    assert (given.grad != 0.0).all()


def test_detached():
    env = begun("CartpoleSwingup")
    given = actions(env, 2)
    env.step(given[0])
    env.detach()
    _, reward, _, _, _ = env.step(given[1])
    reward.sum().backward()
    assert (given.grad[0] == 0.0).all()
    assert (given.grad[1] != 0.0).all()


def test_updates_in_a_row():
    """After detach() the observation is taken anew; the old one has a history."""
    env = begun("CartpoleSwingup")
    policy = torch.nn.Linear(env.num_observations, env.num_actions, dtype=env.dtype)
    observation, _ = env.reset()
    for _ in range(3):
        env.detach()
        observation = env.task.observe(env.state)
        total = 0.0
        for _ in range(2):
            observation, reward, *_ = env.step(policy(observation))
            total = total + reward.sum()
        total.backward()
    env.detach()
    _, reward, *_ = env.step(policy(observation))
    with pytest.raises(RuntimeError, match="a second time"):
        reward.sum().backward()


def test_none_without_differentiable():
    env = sim.envs.make("CartpoleSwingup", 2, device="cpu", seed=0)
    env.reset()
    observation, reward, *_ = env.step(torch.zeros(2, 1, requires_grad=True))
    assert not observation.requires_grad
    assert not reward.requires_grad


def test_clipped_between_steps():
    """The last reward's gradient in its own action is whole; what goes to the one before is bounded."""
    whole, clipped = (begun("Ant", adjoint_clip=limit) for limit in (float("inf"), 1e-3))
    gradients = []
    for env in (whole, clipped):
        env.reset(seed=4)
        given = actions(env, 4)
        for action in given:
            _, reward, *_ = env.step(action)
        (1e3 * reward.sum()).backward()
        gradients.append(given.grad)
    torch.testing.assert_close(gradients[0][-1], gradients[1][-1])
    assert gradients[1][:-1].abs().max() < 0.1 * gradients[0][:-1].abs().max()
    assert (gradients[1][:-1] != 0.0).any()
