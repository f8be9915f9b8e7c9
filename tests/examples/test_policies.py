"""Trainings of policies: their targets and objectives against loops, resuming, and what they write."""

import io
import sys

import numpy as np
import pytest
import torch

import sim.envs
from examples.learning import stored
from examples.rl import apg, shac, transfer
from examples.rl.networks import Normaliser, Policy
from examples.rl.training import evaluate, load_policy


def test_lambda_returns_mix_all_lengths():
    """Of an episode's k-step returns the one of length k has the weight (1 - λ) λ^(k-1), the longest all the rest."""
    rng = np.random.default_rng(0)
    settings = shac.Settings(discount=0.9, trace=0.8)
    reward, expected = rng.normal(size=(2, 12, 5))
    ended = rng.random((12, 5)) < 0.2
    found = shac.lambda_returns(*map(torch.tensor, (reward, expected, ended)), settings).numpy()
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


class Constant(torch.nn.Module):
    """A critic that expects 7 everywhere."""

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return observation[..., 0] * 0.0 + 7.0


def test_time_limits_are_bootstrapped_and_failures_are_not():
    env = sim.envs.make("Hopper", 6, device="cpu", differentiable=True)
    env.task.max_episode_length = 13
    learner = shac.Shac(env, shac.Settings(horizon=30, deviation=3.0, discount=0.9), 1)
    learner.target = Constant()
    learner.env.reset(seed=0)
    with torch.no_grad():
        learner.policy.mean[-1].bias[:] = torch.tensor([2.0, -2.0, 2.0])  # some fall
    objective, seen = learner._play()
    assert seen.terminated.any()
    assert (seen.ended & ~seen.terminated).any()
    wanted = 0.0
    for number in range(6):
        weight = 1.0
        for step in range(30):
            wanted += weight * seen.reward[step, number].item()
            weight *= 0.9
            ended = bool(seen.ended[step, number])
            if (ended or step == 29) and not seen.terminated[step, number]:
                wanted += weight * 7.0
            weight = 1.0 if ended else weight
    assert objective.item() == pytest.approx(wanted, rel=1e-5)
    lengths = [length for _, length in learner.last_episodes]
    assert lengths
    assert max(lengths) == 13.0


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
        return shac.Shac(env, shac.Settings(horizon=6, hidden=(16,), value_hidden=(16,)), 10, seed=3)
    env = sim.envs.make("Pendulum-1", 4, device="cpu", differentiable=True, noise=0.1, substeps=1)
    return apg.AnalyticPolicyGradient(env, 10, 2e-3, 0.1, seed=3)


@pytest.mark.parametrize("name", ["shac", "apg"])
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


@pytest.mark.parametrize(
    ("module", "arguments", "files"),
    [
        (shac, ["CartpoleSwingup", "--envs", "4", "--horizon", "8"], ["shac.npz"]),
        (apg, ["Pendulum-2", "--envs", "2", "--substeps", "1"], ["apg.npz"]),
    ],
)
def test_files_and_what_is_said(module, arguments, files, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("examples.rl.training.FILM_SECONDS", 0.3)
    options = ["--iterations", "2", "--out", str(tmp_path), "--device", "cpu", "--size", "64", "48"]
    monkeypatch.setattr(sys, "argv", ["train", *arguments, *options])
    module.main()
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"curve.png", "policy.pt", "policy.gif", *files}
    assert "over 64 episodes without randomness" in capsys.readouterr().out
    policy, task, task_options = load_policy(tmp_path / "policy.pt")
    assert task == arguments[0]
    with np.load(tmp_path / files[0]) as kept:
        again = evaluate(policy, task, task_options, "cpu")["returns"].numpy()
        np.testing.assert_array_equal(again, kept["evaluated"])
        assert len(kept["steps"]) == len(kept["seconds"]) == 2


def test_episodes_of_different_lengths_are_refused(tmp_path, monkeypatch):
    options = ["Hopper", "--envs", "4", "--iterations", "1", "--out", str(tmp_path), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["train", *options])
    with pytest.raises(
        SystemExit, match=r"an episode ended after \d+ steps; apg needs episodes of one length: use shac"
    ):
        apg.main()


def test_a_policy_is_played_in_mujoco(tmp_path, monkeypatch, capsys):
    """One that falls at once, here and there."""
    pytest.importorskip("gymnasium")
    monkeypatch.setattr(transfer, "EPISODES", 2)
    env = sim.envs.make("Hopper", 1, device="cpu")
    policy = Policy(env.num_observations, env.action_low, env.action_high)
    with torch.no_grad():
        policy.mean[-1].bias[:] = torch.tensor([1.0, -1.0, 1.0])
    kept = {"task": "Hopper", "options": {}, "state": policy.state_dict()}
    (tmp_path / "policy.pt").write_bytes(stored(kept))
    monkeypatch.setattr(sys, "argv", ["transfer", str(tmp_path / "policy.pt")])
    transfer.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["here", "MuJoCo"]
    lengths = [float(line.split("length ")[1].split()[0]) for line in lines]
    assert all(5 < length < 200 for length in lengths)
    (tmp_path / "policy.pt").write_bytes(stored({**kept, "task": "Pendulum-1"}))
    with pytest.raises(SystemExit, match="'Pendulum-1' is no task of gymnasium"):
        transfer.main()
