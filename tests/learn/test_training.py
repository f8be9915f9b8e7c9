"""Trainings from a task to files: each algorithm learns, resumes, stops, exports; the command line does the same."""

import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import sim
from sim.cli.main import main
from sim.envs import Task, VectorEnv
from sim.learn import (
    ALGORITHMS,
    Policy,
    Ppo,
    evaluate,
    export_policy,
    load_policy,
    load_task,
    make_learner,
    run,
    train,
    training,
)  # fmt: skip
from sim.learn.learner import stored
from sim.learn.networks import Normaliser
from sim.learn.ppo import normal_divergence, normal_log_density
from sim.progress import Progress
from tests.errors import raises_naming
from tests.learn.slider import Slider

FILE = Path(__file__).with_name("slider.py")
SMALL = {
    "ppo": {"envs": 32, "horizon": 20, "epochs": 4},
    "shac": {"envs": 16, "horizon": 10},
    "apg": {"envs": 16, "rate": 1e-2},
    "sac": {"envs": 16, "steps": 20, "updates": 2, "random_steps": 320},
}
ITERATIONS = {"ppo": 25, "shac": 25, "apg": 20, "sac": 12}


def learner_of(algorithm: str, task: Task | None = None, **chosen):
    options = {"device": "cpu", "threads": 1, "seed": 1, "iterations": ITERATIONS[algorithm]}
    return make_learner(task or Slider(), algorithm, **{**options, **SMALL[algorithm], **chosen})


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_learns(algorithm):
    """Untrained policies have a return of -17, the best possible is about -1.5."""
    learner = learner_of(algorithm)
    begun = evaluate(learner.policy, Slider(), device="cpu").returns.mean()
    found = run(learner)
    assert begun < -10.0
    assert evaluate(found.policy, Slider(), device="cpu").returns.mean() > -4.0


def test_an_interrupted_training_of_ppo_goes_on_bit_for_bit(tmp_path, monkeypatch):
    """By the files that a training writes; it is interrupted after the second of four iterations."""
    monkeypatch.setattr(training, "SAVE_EVERY", 0.0)
    options = {"iterations": 4, "device": "cpu", "envs": 8, "horizon": 8, "seed": 3}
    whole = train(Slider(), "ppo", folder=tmp_path / "whole", **options)
    iterate, count = Ppo.iterate, []

    def interrupted(learner: Ppo) -> dict[str, float]:
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt
        return iterate(learner)

    with monkeypatch.context() as patch:
        patch.setattr(Ppo, "iterate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(Slider(), "ppo", folder=tmp_path / "parts", **options)
    assert not (tmp_path / "parts" / "policy.pt").exists()
    parts = train(Slider(), "ppo", folder=tmp_path / "parts", **options)
    for one, two in zip(whole.policy.state_dict().values(), parts.policy.state_dict().values(), strict=True):
        assert torch.equal(one, two)
    for name in whole.figures:
        np.testing.assert_array_equal(whole.figures[name], parts.figures[name])
    assert not (tmp_path / "parts" / "interrupted.npz").exists()
    policy, task, _ = load_policy(tmp_path / "parts" / "policy.pt")
    again = evaluate(policy, load_task(task), device="cpu")
    with np.load(tmp_path / "parts" / "training.npz") as kept:
        np.testing.assert_array_equal(again.returns, kept["evaluated"])
    assert parts.evaluation is not None
    np.testing.assert_array_equal(again.returns, parts.evaluation.returns)


def test_other_random_numbers_stay_as_they_are():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    learner_of("ppo", envs=2, horizon=2).iterate()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("returns", "goal", "patience", "expected"),
    [
        ([-5.0, -3.0], -3.0, np.inf, 2),
        ([-5.0, np.nan, -4.0, -4.5, -4.2, -1.0], np.inf, 2, 5),
        ([np.nan, np.nan, np.nan, -9.0], -9.0, 2, 4),
        ([-1.0, -2.0], np.inf, np.inf, 6),
    ],
)
def test_early_stops(returns, goal, patience, expected, monkeypatch):
    learner = learner_of("ppo", envs=2, horizon=1)
    rest = iter([*returns, *[-3.0] * 10])
    monkeypatch.setattr(learner, "iterate", lambda: {"return": next(rest)})
    assert len(run(learner, 6, goal=goal, patience=patience).steps) == expected


def test_advantages_of_ppo_are_the_critics_errors_of_td_lambda():
    """With λ = 1, without a limit of the horizon: returns minus values. Time limits are bootstrapped."""
    learner = learner_of("ppo", envs=3, horizon=25, trace=1.0, discount=0.9)
    rows = learner._play()
    with torch.no_grad():
        value, after = learner._worth(rows["seen"]), learner._worth(rows["after"])
    learner._add_targets(rows)
    assert rows["ended"][19].all()  # the 20 steps of an episode
    assert not rows["final"].any()
    expected = torch.empty(25, 3)
    for start in range(25):
        last = 19 if start < 20 else 24
        rewards = sum(0.9**k * rows["reward"][start + k] for k in range(last - start + 1))
        expected[start] = rewards + 0.9 ** (last - start + 1) * after[last] - value[start]
    expected = (expected - expected.mean()) / expected.std(correction=0)
    torch.testing.assert_close(rows["advantage"], expected, rtol=1e-4, atol=1e-4)


def test_densities_and_divergences_are_those_of_normal_distributions():
    mean, other, value = torch.randn(3, 7, 2)
    deviation, wider = torch.tensor([[-0.3, 0.2], [0.1, 0.4]])
    first, second = (torch.distributions.Normal(m, d.exp()) for m, d in ((mean, deviation), (other, wider)))
    expected = torch.distributions.kl_divergence(first, second).sum(dim=1)
    torch.testing.assert_close(normal_divergence(mean, deviation, other, wider), expected, rtol=1e-5, atol=1e-6)
    expected = (first.log_prob(value) - second.log_prob(value)).sum(dim=1)
    found = normal_log_density(value, mean, deviation) - normal_log_density(value, other, wider)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("blind", [False, True])
def test_what_is_not_finite_spoils_no_statistics(algorithm, blind):
    """Rewards of -inf, and observations of NaN, beyond a distance that many episodes reach."""
    learner = learner_of(algorithm, Slider(0.9, blind), seed=2)
    lost = 0
    step = learner.step

    def counted(action: torch.Tensor):
        nonlocal lost
        found = step(action)
        lost += int(found.lost.sum())
        assert found.reward.isfinite().all()
        assert found.final[found.lost].all()
        return found

    learner.step = counted
    for _ in range(2):
        learner.iterate()
    assert lost > 0
    for name, part in learner.parts().items():
        values = [value for value in part.state_dict().values() if isinstance(value, torch.Tensor)]
        assert all(value.isfinite().all() for value in values), name
    assert all(np.isfinite(each).all() for each in learner.last_episodes)


def test_a_normaliser_leaves_out_what_is_not_finite():
    rows = torch.randn(50, 3)
    clean, spoilt = Normaliser(3), Normaliser(3)
    clean.update(rows[10:])
    rows[:10, 1] = torch.tensor([torch.nan, torch.inf]).repeat(5)
    spoilt.update(rows)
    spoilt.update(rows[:10])
    assert torch.equal(clean.mean, spoilt.mean)
    assert torch.equal(clean.variance, spoilt.variance)


class Cliff(Slider):
    """Slider whose reward is finite everywhere, and has a slope of NaN in actions below zero."""

    def reward(self, before, action, after):
        return super().reward(before, action, after) + torch.where(action > 0.0, -action.sqrt(), 0.0)[:, 0]


def test_gradients_of_environments_are_logged_and_those_that_are_lost_count_nothing():
    learner = learner_of("shac", Cliff(), horizon=1)
    figures = learner.iterate()
    assert 0.2 < figures["gradient_lost"] < 0.9
    assert np.isfinite(figures["gradient_norm"])
    assert figures["gradient_norm"] > 0.0
    assert 0.0 <= figures["gradient_median"] < figures["gradient_maximum"] < np.inf


def test_norms_of_environments_are_those_of_their_own_objectives():
    """One step of three sliders: reward and slope by hand."""
    env = VectorEnv(Slider(), 3, device="cpu", differentiable=True)
    watched = sim.learn.learner.Watched(3)
    env.reset(seed=0)
    action = torch.zeros(3, 1, requires_grad=True)
    _, reward, *_ = env.step(watched.action(action * 1.0))
    reward.mean().backward()
    norms = 3.0 * action.grad[:, 0].abs()
    figures = watched.figures()
    assert figures["gradient_median"] == pytest.approx(norms.median().item())
    assert figures["gradient_maximum"] == pytest.approx(norms.max().item())


class Terms(Slider):
    """Two terms of reward with names, and an end with one."""

    def reward(self, before, action, after):
        return {"place": -after.q[:, 0].square(), "effort": -0.01 * action[:, 0].square()}

    def terminated(self, state):
        return {"far": state.q[:, 0] > 1.0}


def test_rewards_and_ends_with_names_are_figures():
    learner = learner_of("ppo", Terms(), envs=8, horizon=40)
    found = run(learner, 2).figures
    ends = found["end/far"] + found["end/time"]
    assert (found["end/far"] > 0).any()
    assert (found["end/time"] > 0).any()
    returns = [value for value, _ in learner.last_episodes]
    assert len(returns) == 8  # of the last ones
    assert (ends >= 8).all()
    assert ((found["reward/place"] < 0.0) & (found["reward/effort"] < 0.0)).all()


class Groups(Slider):
    """A policy that sees the place alone, and a critic that sees all."""

    def observe(self, state):
        seen = super().observe(state)
        return {"policy": seen[:, 0], "critic": seen[:, None]}


def test_an_interrupted_training_of_a_changed_task_is_refused(tmp_path):
    learner = learner_of("ppo", envs=4, horizon=4)
    learner.iterate()
    kept = Progress(tmp_path / "interrupted.npz", {})
    state = {"learner": learner.state(), "rows": [{"return": 0.0, "seconds": 1.0, "steps": 16.0}]}
    kept.save(state=np.frombuffer(stored(state), dtype=np.uint8))
    with raises_naming("interrupted.npz", "task", "--restart"):
        run(learner_of("ppo", Groups(), envs=4, horizon=4), kept=kept)


@pytest.mark.parametrize(
    ("algorithm", "setting", "value"),
    [
        ("ppo", "horizon", 0), ("ppo", "horizon", "abc"), ("ppo", "hidden", 64), ("ppo", "hidden", (0,)),
        ("ppo", "policy_rate", math.nan), ("ppo", "deviation", -1.0), ("ppo", "discount", 2.0), ("shac", "trace", "1"),
        ("apg", "rate", None), ("sac", "capacity", 0), ("sac", "capacity", 1999), ("sac", "extras", -1),
        ("sac", "enhance", "more"), ("sac", "near", "no"),
    ],
)  # fmt: skip
def test_settings_out_of_range(algorithm, setting, value):
    with raises_naming(f"{algorithm.capitalize()}Settings", setting):
        ALGORITHMS[algorithm].settings(**{setting: value})


@pytest.mark.parametrize("algorithm", ["ppo", "shac"])
def test_groups_of_observations_go_to_policy_and_critic(algorithm):
    learner = learner_of(algorithm, Groups(), envs=4, horizon=4)
    learner.iterate()
    assert (learner.policy.num_observations, learner.value.normaliser.mean.numel()) == (1, 2)
    played = evaluate(learner.policy, Groups(), episodes=3, device="cpu")
    assert (played.observation.shape, np.isfinite(played.returns).all()) == ((3, 1), True)
    torch.testing.assert_close(learner.value.normaliser.mean[:1], learner.policy.normaliser.mean)


@pytest.mark.parametrize(
    ("option", "value"),
    [("iterations", -1), ("iterations", math.nan), ("minutes", -0.1), ("patience", -2), ("seed", 1.5), ("seed", 2**64)],
)
def test_limits_and_seeds_out_of_range(option, value):
    with raises_naming(option, str(value)):
        train(Slider(), "ppo", device="cpu", envs=2, horizon=2, **{"iterations": 1, option: value})


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_learners_refuse_environments_that_reset_episodes_later(algorithm, mode):
    kind = ALGORITHMS[algorithm]
    env = VectorEnv(Slider(), 2, device="cpu", differentiable=kind.differentiable, autoreset_mode=mode)
    with raises_naming(kind.learner.__name__, "same_step", mode):
        kind.learner(env, kind.settings(), 1)


class Endless(Slider):
    """Episodes without a time limit that fail beyond 1 m, where those begin that move fast enough."""

    max_episode_length = math.inf

    def terminated(self, state):
        return state.q[:, 0].abs() > 1.0


def test_episodes_without_a_time_limit_are_evaluated_for_a_thousand_steps(monkeypatch):
    monkeypatch.setattr("sim.learn.evaluation.LONGEST", 15)
    learner = learner_of("ppo", Endless(), envs=2, horizon=2)
    with torch.no_grad():
        learner.policy.mean[-1].weight.zero_()  # no force: a quarter leaves within the time
    found = evaluate(learner.policy, Endless(), episodes=40, device="cpu")
    assert found.lengths.max() == 15
    assert 1 <= found.lengths.min() < 15
    assert np.isfinite(found.returns).all()
    with raises_naming("Apg", "max_episode_length"):
        learner_of("apg", Endless())


def test_critics_of_sac_see_their_group():
    """A critic that knows the velocity, which the policy doesn't see; what it adds can't be simulated again."""
    learner = learner_of("sac", Groups(), envs=4, steps=6, updates=2, random_steps=8, batch=8)
    learner.iterate()
    assert (learner.policy.num_observations, learner.normaliser.mean.numel()) == (1, 2)
    torch.testing.assert_close(learner.normaliser.mean[:1], learner.policy.normaliser.mean)
    rows = {name: value[: learner.replay.size] for name, value in learner.replay.rows.items()}
    torch.testing.assert_close(rows["seen"], torch.cat([rows["q"], rows["qd"]], dim=1))
    torch.testing.assert_close(rows["after"][:-4], rows["observation"][4:])
    torch.testing.assert_close(rows["seen_after"][:-4], rows["seen"][4:])
    changed = {**rows, "seen": rows["seen"] + torch.tensor([0.0, 1.0])}
    action = torch.zeros(learner.replay.size, 1)
    assert not torch.equal(learner.worth(rows, action), learner.worth(changed, action))
    changed = {**rows, "seen_after": rows["seen_after"] + torch.tensor([0.0, 1.0])}
    state = learner.generator.get_state()
    targets = learner.targets(rows)
    learner.generator.set_state(state)
    assert not torch.equal(targets, learner.targets(changed))
    for more in ({"extras": 1}, {"enhance": "simulated"}):
        with raises_naming("Groups", "extras", "critics"):
            learner_of("sac", Groups(), **more)


def policy_with_statistics() -> Policy:
    policy = Policy(3, torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 5.0]))
    policy.normaliser.update(torch.randn(200, 3) * torch.tensor([1.0, 5.0, 0.2]) + 3.0)
    torch.nn.init.normal_(policy.mean[-1].weight)
    return policy


def test_an_exported_policy_acts_the_same(tmp_path):
    policy, seen = policy_with_statistics(), 4.0 * torch.randn(7, 3)
    export_policy(tmp_path / "policy.ts", policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        again = torch.jit.load(tmp_path / "policy.ts")
    assert torch.equal(again(seen), policy(seen))
    with raises_naming("policy.exe", ".ts", ".onnx"):
        export_policy(tmp_path / "policy.exe", policy)


@pytest.mark.slow
def test_an_onnx_file_acts_the_same(tmp_path):
    onnx = pytest.importorskip("onnx.reference")
    policy, seen = policy_with_statistics(), 4.0 * torch.randn(7, 3)
    export_policy(tmp_path / "policy.onnx", policy)
    found = onnx.ReferenceEvaluator(str(tmp_path / "policy.onnx")).run(None, {"observation": seen.numpy()})[0]
    np.testing.assert_allclose(found, policy(seen).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_onnx_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with raises_naming("onnx", "onnxscript", "learn"):
        export_policy(tmp_path / "policy.ONNX", policy_with_statistics())
    assert list(tmp_path.iterdir()) == []


def test_the_command_trains_a_class_of_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sim.learn.evaluation.FILM_SECONDS", 0.3)
    out = tmp_path / "out"
    options = ["--iterations", "2", "--envs", "4", "--set", "horizon=20", "--option", "harm=50.0", "--device", "cpu"]
    task = f"{FILE}:Slider"
    assert main(["train", task, *options, "--film", "--out", str(out), "--export", str(tmp_path / "policy.ts")]) == 0
    said = capsys.readouterr().out
    assert "over 64 episodes without randomness, after 160 environment steps" in said
    written = {path.name for path in out.iterdir()} - {"tensorboard"}
    assert written == {"policy.pt", "training.npz", "policy.gif"}
    assert (tmp_path / "policy.ts").is_file()
    policy, named, task_options = load_policy(out / "policy.pt")
    assert (named, task_options) == (task, {"harm": 50.0})
    with np.load(out / "training.npz") as kept:
        assert kept["steps"].tolist() == [80, 160]
        again = evaluate(policy, load_task(named, **task_options), device="cpu")
        np.testing.assert_array_equal(again.returns, kept["evaluated"])


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["Antt"], 1, "unknown environment 'Antt'"),
        ([f"{FILE}:Glider"], 1, "slider.py has no class 'Glider'"),
        (["slider.py"], 1, "slider.py: name the class too"),
        (["gone.py:Slider"], 1, "gone.py: no such Python file"),
        ([f"{FILE}:Slider", "--option", "hurt=1"], 1, "got an unexpected keyword argument 'hurt'"),
        ([f"{FILE}:Slider", "--set", "horizont=1"], 1, "ppo has no setting 'horizont'"),
        ([f"{FILE}:Slider", "--set", "horizon"], 2, "--set horizon: give NAME=VALUE"),
        ([f"{FILE}:Slider", "--iterations", "0"], 2, "--iterations is 0; it must be positive"),
        ([f"{FILE}:Slider", "--minutes", "nan"], 2, "--minutes is nan; it must be positive"),
        ([f"{FILE}:Slider", "--export", "policy.pt"], 2, "--export policy.pt: write TorchScript"),
        ([f"{FILE}:Slider", "--export", "none/policy.ts"], 1, "there is no folder 'none'"),
        ([f"{FILE}:Slider", "--algorithm", "ddpg"], 2, "invalid choice: 'ddpg'"),
    ],
)
def test_messages_of_the_command(arguments, status, said, tmp_path, capsys, monkeypatch):
    """They come before the training, which would be lost."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(Ppo, "iterate")
    assert main(["train", *arguments]) == status
    assert said in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.pt"))


def test_a_folder_in_use(tmp_path):
    with Progress(tmp_path / "interrupted.npz", {}), raises_naming("process", "is writing its results there"):
        train(Slider(), folder=tmp_path, device="cpu", iterations=1, envs=2)
