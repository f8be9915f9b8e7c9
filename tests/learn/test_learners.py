"""Learners of policies: their targets and objectives against loops, resuming, and figures for TensorBoard."""

import io
import math
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import sim.envs
from sim.envs import TaskState, VectorEnv
from sim.envs.tasks.pendulum import Pendulum
from sim.learn import Apg, ApgSettings, Policy, Sac, SacSettings, Shac, ShacSettings, evaluate
from sim.learn.learner import stored
from sim.learn.neighbours import beside, simulate
from sim.learn.networks import Normaliser
from sim.learn.sac import Replay
from sim.learn.shac import lambda_returns
from sim.learn.training import Curves
from tests.errors import raises_naming


def test_lambda_returns_mix_all_lengths():
    """Of an episode's k-step returns the one of length k has the weight (1 - λ) λ^(k-1), the longest all the rest."""
    rng = np.random.default_rng(0)
    reward, expected = rng.normal(size=(2, 12, 5))
    ended = rng.random((12, 5)) < 0.2
    found = lambda_returns(*map(torch.tensor, (reward, expected, ended)), 0.9, 0.8).numpy()
    for env in range(5):
        for start in range(12):
            last = next((t for t in range(start, 12) if ended[t, env]), 11)
            wanted = 0.0
            for length in range(1, last - start + 2):
                rewards = sum(0.9**k * reward[start + k, env] for k in range(length))
                value = rewards + 0.9**length * expected[start + length - 1, env]
                whole = length == last - start + 1
                wanted += (0.8 ** (length - 1)) * (1.0 if whole else 0.2) * value
            assert found[start, env] == pytest.approx(wanted, abs=1e-12)


@pytest.fixture
def one_thread():
    """PyTorch's threads spin where other work holds the cores, and count as time of the processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_a_pendulum_is_lifted_within_a_minute(one_thread):
    """The best return is 0.5; time is that of the processor, on one thread."""
    begun = time.process_time()
    env = sim.envs.make("Pendulum-1", 8, device="cpu", differentiable=True, threads=1)
    learner = Apg(env, ApgSettings(rate=5e-3), 40)
    for _ in range(40):
        learner.iterate()
    assert time.process_time() - begun < 60.0
    assert evaluate(learner.best, sim.envs.make_task("Pendulum-1"), device="cpu").returns.mean() >= 0.45


class OneFlies(Pendulum):
    """Pendulums at given places, of which a fourth one's velocity goes to infinity."""

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        q = torch.linspace(-0.4, 0.5, 4)[:n, None].repeat(1, self.links)
        qd = 0.3 * q
        qd[3:] = 100.0
        return self.episodes(q, qd)


def test_lost_episodes_leave_no_trace():
    """The gradient has the direction of that of the others alone. The best policy is of an iteration with none lost."""
    directions = []
    for worlds in (4, 3):
        env = VectorEnv(OneFlies(links=3, substeps=1), worlds, device="cpu", differentiable=True, threads=1)
        learner = Apg(env, ApgSettings(deviation=1e-9), 10)
        figures = learner.iterate()
        gradient = torch.cat([each.grad.flatten() for each in learner.policy.parameters() if each.grad is not None])
        directions.append(gradient / gradient.norm())
        assert figures["lost"] == (0.25 if worlds == 4 else 0.0)
        assert math.isfinite(figures["return"])
        assert math.isfinite(learner.best_return) == (worlds == 3)
        assert (learner.policy.normaliser.count > 1.0) == (worlds == 3)
    torch.testing.assert_close(*directions, rtol=1e-4, atol=1e-5)


class Constant(torch.nn.Module):
    """A critic that expects 7 everywhere."""

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return observation[..., 0] * 0.0 + 7.0


def test_time_limits_are_bootstrapped_and_failures_are_not():
    env = sim.envs.make("Hopper", 6, device="cpu", differentiable=True)
    env.task.max_episode_length = 13
    learner = Shac(env, ShacSettings(horizon=30, deviation=3.0, discount=0.9), 1)
    learner.target = Constant()
    learner.observation, _ = learner.env.reset(seed=0)
    with torch.no_grad():
        learner.policy.mean[-1].bias[:] = torch.tensor([2.0, -2.0, 2.0])  # some fall
    objective, seen, _ = learner._play()
    assert seen.final.any()
    assert (seen.ended & ~seen.final).any()
    wanted = 0.0
    for number in range(6):
        weight = 1.0
        for step in range(30):
            wanted += weight * seen.reward[step, number].item()
            weight *= 0.9
            ended = bool(seen.ended[step, number])
            if (ended or step == 29) and not seen.final[step, number]:
                wanted += weight * 7.0
            weight = 1.0 if ended else weight
    assert objective.item() == pytest.approx(wanted, rel=1e-5)
    lengths = [length for _, length in learner.last_episodes]
    assert lengths
    assert max(lengths) == 13.0


def test_sac_bootstraps_time_limits_and_not_failures(monkeypatch):
    """By the observations of hoppers, which show whether they have fallen; extras are treated alike."""
    env = sim.envs.make("Hopper", 6, device="cpu", dtype="float64")
    env.task.max_episode_length = 13
    for first_order in (False, True):
        settings = SacSettings(extras=2, first_order=first_order, steps=30, random_steps=1000, discount=0.9)
        learner = Sac(env, settings)
        learner.iterate()
        rows = {name: value[: learner.replay.size] for name, value in learner.replay.rows.items()}
        fallen = (rows["after"][:, 0] <= 0.7) | (rows["after"][:, 1].abs() >= 0.2)
        late = rows["steps"] == 12
        assert fallen.any()
        assert (late & ~fallen).any()
        again = simulate(beside(env, len(late), False), rows, rows["action"])[2]
        if not first_order:  # the last observation, not the next episode's first
            torch.testing.assert_close(rows["after"], again, rtol=1e-6, atol=1e-6)
        monkeypatch.setattr(learner, "value", lambda observation, *_: 0.0 * observation[:, 0] + 7.0)
        expected = rows["reward"] + 0.9 * 7.0 * ~fallen
        torch.testing.assert_close(learner.targets(rows), expected)


def test_nothing_follows_the_end_of_a_pendulums_time(monkeypatch):
    """It sees the time, and has its reward at the end: neither critic adds a value there."""
    env = sim.envs.make("Pendulum-1", 3, device="cpu", substeps=1)
    learner = Sac(env, SacSettings(steps=110, random_steps=1000))
    learner.iterate()
    rows = {name: value[: learner.replay.size] for name, value in learner.replay.rows.items()}
    monkeypatch.setattr(learner, "value", lambda observation, *_: 0.0 * observation[:, 0] + 7.0)
    late = rows["steps"] == 99
    assert late.sum() == 3
    torch.testing.assert_close(learner.targets(rows), rows["reward"] + 7.0 * ~late)
    env = sim.envs.make("Pendulum-1", 3, device="cpu", substeps=1, differentiable=True)
    learner = Shac(env, ShacSettings(horizon=100, discount=1.0), 1)
    learner.target = Constant()
    objective, seen, _ = learner._play()
    assert torch.equal(seen.final.nonzero()[:, 0], torch.tensor([99, 99, 99]))
    assert objective.item() == pytest.approx(seen.reward.sum().item(), rel=1e-5)


def test_normaliser_has_the_moments_of_all_it_has_seen():
    seen = torch.randn(300, 4) * torch.tensor([1.0, 5.0, 0.2, 1e-6]) + 3.0
    normaliser = Normaliser(4)
    for part in seen.split(70):
        normaliser.update(part)
    torch.testing.assert_close(normaliser.mean, seen.mean(dim=0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(normaliser.variance, seen.var(dim=0, correction=0), rtol=1e-3, atol=1e-4)
    assert (normaliser(seen)[:, 3].abs() < 1e-3).all()  # what doesn't vary isn't scaled up


def learner_of(name: str):
    if name == "shac":
        env = sim.envs.make("CartpoleSwingup", 4, device="cpu", differentiable=True)
        return Shac(env, ShacSettings(horizon=6, hidden=(16,), value_hidden=(16,)), 10, seed=3)
    env = sim.envs.make("Pendulum-1", 4, device="cpu", differentiable=True, noise=0.1, substeps=1)
    if name.startswith("sac"):
        return Sac(env, SacSettings(name.split()[1], steps=5, batch=8, random_steps=8, capacity=30), seed=3)
    return Apg(env, ApgSettings(), 10, seed=3)


@pytest.mark.parametrize("name", ["shac", "apg", "sac none", "sac jacobian", "sac simulated"])
def test_a_restored_training_goes_on_bit_for_bit(name):
    learner = learner_of(name)
    for _ in range(2):
        learner.iterate()
    kept = stored(learner.state())
    for _ in range(2):
        learner.iterate()
    other = learner_of(name)
    other.restore(torch.load(io.BytesIO(kept), weights_only=True))
    for _ in range(2):
        other.iterate()
    for one, two in zip(learner.policy.state_dict().values(), other.policy.state_dict().values(), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(learner.env.state.q, other.env.state.q)


def test_stored_derivatives_are_those_of_the_simulated_step():
    """They agree if the policy's action is the stored one, also in episodes that have ended."""
    env = sim.envs.make("Pendulum-2", 4, device="cpu", noise=0.3, substeps=2, dtype="float64")
    env.task.max_episode_length = 7
    settings = SacSettings("jacobian", steps=20, batch=64, random_steps=1000, discount=0.9)
    learner = Sac(env, settings, seed=1)
    learner.iterate()
    simulated = Sac(env, replace(settings, enhance="simulated"), seed=1)
    near = Sac(env, replace(settings, near=True), seed=1)
    for each in (learner, simulated, near):
        each.policy.load_state_dict(learner.policy.state_dict())  # with what it has seen of observations
        for part in (each.policy, each.critic):
            part.double()
    batch = learner.replay.draw(64, torch.Generator().manual_seed(0))
    assert batch["final"].any()
    assert not batch["final"].all()
    action = batch["action"].clone().requires_grad_()
    for each in (learner, simulated, near):
        each.generator.manual_seed(5)
    (exact,) = torch.autograd.grad(simulated.worth(batch, action).sum(), action)
    (found,) = torch.autograd.grad(learner.worth(batch, action).sum(), action)
    assert exact.abs().max() > 1e-2
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)
    (weighed,) = torch.autograd.grad(near.worth(batch, action + 0.1).sum(), action)
    distance = 0.1 * 2**0.5  # of actions between -1 and 1
    torch.testing.assert_close(weighed, np.exp(-distance) * found, rtol=1e-5, atol=1e-6)


def test_extras_of_first_order_are_near_simulated_ones():
    """A tenth of the spread leaves a hundredth of the difference; actions stay within their bounds."""
    env = sim.envs.make("Pendulum-2", 4, device="cpu", noise=0.3, substeps=2, dtype="float64")
    settings = SacSettings(extras=3, first_order=True, steps=2, random_steps=1000)
    difference = {}
    for spread in (0.1, 0.01):
        learner = Sac(env, replace(settings, spread=spread), seed=1)
        learner.iterate()
        taken = {name: value[:4] for name, value in learner.replay.rows.items()}  # the first step of all
        simulated = Sac(env, replace(settings, spread=spread, first_order=False), seed=1)
        for each in (learner, simulated):
            each.generator.manual_seed(7)
        found, exact = learner.extras(taken), simulated.extras(taken)
        assert torch.equal(found["action"], exact["action"])
        assert (found["action"] <= env.action_high).all()
        assert len(found["after"]) == 12
        moved = exact["after"] - taken["after"].repeat_interleave(3, dim=0)
        assert moved.abs().max() > 0.02 * spread
        difference[spread] = {name: (found[name] - exact[name]).abs().max().item() for name in ("after", "reward")}
    for name, value in difference[0.01].items():
        assert value < 0.015 * difference[0.1][name]


def test_extras_of_first_order_fail_where_simulated_ones_do():
    """Hoppers in the air that lean nearly as far as they may: how far they lean next is up to the action."""
    env = sim.envs.make("Hopper", 4, device="cpu", dtype="float64", threads=1)
    settings = SacSettings(extras=8, first_order=True, spread=0.2)
    learner = Sac(env, settings, seed=1)
    simulated = Sac(env, replace(settings, first_order=False), seed=1)
    env.reset(seed=0)
    q = env.state.q.clone()
    q[:, 1], q[:, 2], q[:, 3], q[:, 4] = 2.0, 0.1995, -0.5, -0.8  # no joint at its limit
    env.set_state(env.get_state() | {"q": q, "qd": torch.zeros_like(env.state.qd)})
    before = env.state
    action = torch.tensor([[0.3, 0.1, -0.2], [-0.1, 0.2, 0.4], [0.0, 0.0, 0.0], [0.2, -0.3, 0.95]], dtype=torch.float64)
    action = torch.cat([action[:, :1] * 0.1, action[:, 1:]], dim=1)
    _, reward, terminated, _, info = env.step(action)
    rows = {"q": before.q, "qd": before.qd, "steps": before.steps, "action": action, "final": terminated}
    rows |= {"observation": env.task.observe(before), "reward": reward, "after": info["final_obs"]}
    for each in (learner, simulated):
        each.generator.manual_seed(7)
    found, exact = learner.extras(rows), simulated.extras(rows)
    assert exact["final"].any()
    assert not exact["final"].all()
    assert torch.equal(found["final"], exact["final"])
    assert (found["action"] == 1.0).any()  # clipped
    moved = (exact["after"] - rows["after"].repeat_interleave(8, dim=0)).abs().amax(dim=0)
    assert ((found["after"] - exact["after"]).abs().amax(dim=0) < 0.02 * moved + 1e-9).all()


def test_what_differs_between_episodes_cannot_be_simulated_again():
    env = sim.envs.make("PandaReach", 2, device="cpu")
    with raises_naming("PandaReach", "position", "quaternion"):
        Sac(env, SacSettings(enhance="simulated"))


def test_the_policys_gradient_by_simulated_actions_is_that_of_the_action_alone():
    """Not that of what the policy does next."""
    env = sim.envs.make("Pendulum-1", 4, device="cpu", noise=0.3, substeps=2)
    learner = Sac(env, SacSettings("simulated", steps=5, batch=8, random_steps=100), seed=1)
    learner.iterate()
    batch = learner.replay.draw(8, learner.generator)
    action = batch["action"].clone().requires_grad_()
    learner.worth(batch, action).sum().backward()
    assert (action.grad != 0.0).any()
    assert all(parameter.grad is None for parameter in learner.policy.parameters())
    assert all(parameter.requires_grad for parameter in learner.policy.parameters())


def test_the_density_of_actions_is_that_of_the_squashed_normal_distribution():
    policy = Policy(3, torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 5.0]), deviation=0.7)
    with torch.no_grad():
        policy.mean[-1].bias[:] = torch.tensor([0.4, -1.5])
    observation = torch.randn(50, 3)
    action, density = policy.sample_with_density(observation, torch.Generator().manual_seed(0))
    mean = policy.mean(policy.normaliser(observation))
    normal = torch.distributions.Normal(mean, policy.log_deviation.exp().expand_as(mean))
    squashed = torch.distributions.TransformedDistribution(normal, torch.distributions.TanhTransform())
    scaled = 2.0 * (action - policy.low) / (policy.high - policy.low) - 1.0
    torch.testing.assert_close(density, squashed.log_prob(scaled).sum(dim=-1), rtol=1e-3, atol=1e-3)


def test_the_replay_keeps_the_last_transitions():
    replay = Replay(10)
    for first in range(0, 24, 4):
        replay.add({"x": torch.arange(first, first + 4.0), "y": torch.ones(4, 2)})
    assert sorted(replay.rows["x"].tolist()) == list(range(14, 24))
    drawn = replay.draw(100, torch.Generator().manual_seed(0))
    assert drawn["y"].shape == (100, 2)
    assert set(drawn["x"].tolist()) == set(range(14, 24))


def test_figures_go_to_tensorboard_where_it_is_installed(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Curves(tmp_path, 0) as curves:
        for iteration in (1, 2, 3):
            curves.add({"return": 2.5, "length": float("nan")}, iteration)
    # TensorBoard takes files in the order of their names, which begin with the second; a job takes longer to come back.
    time.sleep(1.0)
    with Curves(tmp_path, 2) as curves:  # interrupted after the second, the third of which wasn't saved
        curves.add({"return": 3.5}, 3)
    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert found.Tags()["scalars"] == ["return"]
    assert [(event.step, event.value) for event in found.Scalars("return")] == [(1, 2.5), (2, 2.5), (3, 3.5)]
    with Curves(None, 0) as curves:
        curves.add({"return": 2.5}, 1)
