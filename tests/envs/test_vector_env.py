"""Episodes: when they begin and end, what is returned then, seeds, and states that are saved."""

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import sim
import sim.envs
from sim.envs import Task, TaskState, VectorEnv
from sim.learn import load_task
from tests.errors import raises_naming, refuses


class Falling(Task):
    """A ball that falls; an episode fails below a height of zero, which worlds that start lower reach sooner."""

    dt, frame_skip, max_episode_length = 0.01, 2, 30

    def model(self) -> sim.Model:
        builder = sim.ModelBuilder()
        builder.add_sphere(radius=0.1, mass=1.0)
        return builder.finalize(self.dtype)

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        height = self.uniform((n, 1), generator, 0.1, 2.0)
        q = torch.cat(
            [height * 0.0, height * 0.0, height, height * 0.0, height * 0.0, height * 0.0, height * 0.0 + 1.0], 1
        )
        return self.episodes(q, q.new_zeros(n, 6), {"first": height[:, 0].clone()})

    def num_actions(self, model: sim.Model) -> int:
        return 1

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        zeros = action.new_zeros(len(action), 5)
        return {"tau": torch.cat([zeros[:, :2], action, zeros[:, 2:]], dim=1)}

    def observe(self, state: TaskState) -> torch.Tensor:
        return torch.stack([state.q[:, 2], state.qd[:, 2], state.data["first"]], dim=1)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        return after.q[:, 2]

    def terminated(self, state: TaskState) -> torch.Tensor:
        return state.q[:, 2] < 0.0

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"mass": self.uniform((n, 1), generator, 0.5, 2.0)}


def falling(**options) -> VectorEnv:
    return VectorEnv(Falling(), 6, device="cpu", seed=1, **options)


STILL = torch.zeros(6, 1)


@pytest.mark.parametrize("mode", sim.envs.vector_env.AUTORESET_MODES)
def test_failures_and_time_limits(mode):
    """Followed over three episodes and more, by rules kept here."""
    env = falling(autoreset_mode=mode)
    observation, _ = env.reset()
    waiting, ages, totals = np.zeros(6, bool), np.zeros(6), np.zeros(6)
    failures = limits = 0
    for _ in range(90):
        if mode == "disabled" and waiting.any():
            with raises_naming("environment", "ended"):
                env.step(STILL)
            observation, _ = env.reset(options={"reset_mask": torch.tensor(waiting)})
            ages[waiting] = totals[waiting] = 0
            waiting[:] = False
        before = observation
        observation, reward, terminated, truncated, info = env.step(STILL)
        if mode == "next_step":
            assert (reward.numpy()[waiting] == 0.0).all()
            assert not (terminated | truncated).numpy()[waiting].any()
            assert (observation.numpy()[waiting, 0] == observation.numpy()[waiting, 2]).all()
            ages[waiting] = totals[waiting] = 0
        acting = ~waiting if mode == "next_step" else np.ones(6, bool)
        ages[acting] += 1
        totals[acting] += reward.numpy()[acting]
        final = info["final_obs"].numpy()
        np.testing.assert_array_equal(final[acting, 2], before.numpy()[acting, 2])
        np.testing.assert_array_equal(terminated.numpy()[acting], final[acting, 0] < 0.0)
        np.testing.assert_array_equal(truncated.numpy()[acting], ages[acting] == 30)
        ended = (terminated | truncated).numpy()
        np.testing.assert_array_equal(info["final_mask"].numpy(), ended)
        np.testing.assert_allclose(info["episode_return"], totals, rtol=1e-5)
        np.testing.assert_array_equal(info["episode_length"], ages)
        if mode == "same_step":
            assert (observation.numpy()[ended, 0] == observation.numpy()[ended, 2]).all()
            ages[ended] = totals[ended] = 0
        else:
            np.testing.assert_array_equal(observation.numpy()[acting], final[acting])
            waiting = ended.copy()
        failures, limits = failures + terminated.sum().item(), limits + truncated.sum().item()
    assert failures > 3
    assert limits == 0 or mode  # free fall from 2 m ends before the limit


def test_what_is_observed_may_be_changed():
    """By a normaliser, for instance: neither the state nor the last observation of the step is touched."""

    class Seen(Falling):
        def observe(self, state: TaskState) -> torch.Tensor:
            return state.q

    env = VectorEnv(Seen(), 6, device="cpu", seed=1)
    observation, _ = env.reset()
    for _ in range(3):
        kept = env.state.q.clone()
        observation.mul_(7.0).add_(1.0)
        assert torch.equal(env.state.q, kept)
        observation, _, _, _, info = env.step(STILL)
        last = info["final_obs"].clone()
        observation.zero_()
        assert torch.equal(info["final_obs"], last)


def test_seeds_are_whole_numbers():
    env = falling()
    first, _ = env.reset(seed=3)
    assert torch.equal(env.reset(seed=np.int64(3))[0], first)
    for seed in (3.0, "3", 2**70):
        with raises_naming("seed is", "whole"):
            env.reset(seed=seed)
    with raises_naming("seed", "nan"):
        VectorEnv(Falling(), 2, device="cpu", seed=float("nan"))


def column(values: torch.Tensor) -> torch.Tensor:
    return values[:, None]


@pytest.mark.parametrize(
    ("method", "returned", "message"),
    [
        ("reward", lambda task, before, action, after: column(after.q[:, 2]), r"shape \(4, 1\); expected \(4,\)"),
        ("reward", lambda task, before, action, after: 1.0, "is a float; expected a torch.Tensor"),
        ("terminated", lambda task, state: column(state.q[:, 2] < 0.0), r"shape \(4, 1\); expected \(4,\)"),
        ("terminated", lambda task, state: state.q[:, 2], "torch.float32; expected torch.bool"),
        ("inputs", lambda task, state, action: {"ctrl": action}, "'ctrl'; expected 'tau', 'control', 'kinematic_qd'"),
        ("inputs", lambda task, state, action: None, "a NoneType; expected 'tau', 'control', 'kinematic_qd'"),
        ("observe", lambda task, state: state.q[:, 2], r"shape \(1,\); expected \(1, 1\)"),
        (
            "randomise",
            lambda task, n, generator: {"mass": torch.ones(1)},
            r"returned for 'mass' has shape \(1,\); expected \(4,\)",
        ),
        ("randomise", lambda task, n, generator: {"masss": torch.ones(n, 1)}, "unknown parameter 'masss'"),
        ("randomise", lambda task, n, generator: None, "returned is a NoneType; it must be a dictionary"),
        (
            "randomise",
            lambda task, n, generator: {"mass": 1.0},
            "returned for 'mass' is a float; expected a torch.Tensor",
        ),
        (
            "sample_state",
            lambda task, n, generator: (torch.zeros(n, 7),),
            "returned is a tuple; it must be a TaskState",
        ),
        ("observe", lambda task, state: {"height": state.q[:, 2:3]}, "the groups \\['height'\\]; one .* 'policy'"),
        ("observe", lambda task, state: {"policy": state.q, "time": 1.0}, "for 'time' is a float; expected a torch.Te"),
        ("observe", lambda task, state: [state.q], "is a list; expected a torch.Tensor"),
        ("num_actions", lambda task, model: 1.0, " is 1.0; it must be a whole number of at least 1"),
    ],
)
def test_what_a_task_returns_is_checked(method, returned, message):
    task = type("Wrong", (Falling,), {method: returned})()
    with pytest.raises(sim.ModelError, match=rf"Wrong\.{method}.*{message}|Wrong: {method}{message}"):  # noqa: PT012
        env = VectorEnv(task, 4, device="cpu", seed=1)
        env.reset()
        env.step(torch.zeros(4, 1))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (lambda q, qd: TaskState(q, qd, torch.zeros(1, dtype=torch.int64)), r"steps \(1,\); expected \(4,\)"),
        (
            lambda q, qd: TaskState(q, qd, q.new_zeros(len(q)).long(), {"goal": torch.zeros(1, 3)}),
            "data 'goal' .1, 3.;",
        ),
    ],
)
def test_first_states_are_of_all_environments(state, message):
    """Steps and data of one row would have been those of all, until some of them began again."""

    class Wrong(Falling):
        def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
            first = super().sample_state(n, generator)
            return state(first.q, first.qd)

        def observe(self, state: TaskState) -> torch.Tensor:
            return state.q

    env = VectorEnv(Wrong(), 4, device="cpu", seed=1)
    with pytest.raises(sim.ModelError, match=f"sample_state returned {message}"):
        env.reset()


@pytest.mark.parametrize(("part", "value"), [("steps", None), ("data", {"goal": None})])
def test_parts_of_first_states_are_tensors(part, value):
    class Wrong(Falling):
        def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
            return replace(super().sample_state(n, generator), **{part: value})

    with raises_naming("Wrong.sample_state", "goal" if value else part, "NoneType", "torch.Tensor"):
        VectorEnv(Wrong(), 4, device="cpu")


def test_settings_of_a_task_are_checked():
    for bounds, message in (
        ({"time_is_final": "no"}, "time_is_final is 'no'"),
        ({"frame_skip": 0}, "frame_skip is 0; it must be a whole number of at least 1"),
        ({"max_episode_length": 0}, "max_episode_length is 0; it must be at least 1"),
        ({"max_episode_length": None}, "max_episode_length is None; it must be one number"),
        ({"action_low": "left"}, "action_low is 'left'; it must be a number, or one for each entry"),
        ({"action_low": 1.0, "action_high": -1.0}, r"action_low is \[1.0\], but action_high \[-1.0\]"),
        ({"action_high": (1.0, 1.0)}, r"action_high has shape \(2,\); expected one number, or 1"),
        ({"action_high": math.nan}, r"action_low is \[-1.0\], but action_high \[nan\]"),
    ):
        with pytest.raises(sim.ModelError, match=rf"Wrong: {message}"):
            VectorEnv(type("Wrong", (Falling,), bounds)(), 4, device="cpu")


def test_threads_per_world_are_an_option_of_every_task(tmp_path):
    env = sim.envs.make("CartpoleSwingup", 2, device="cpu", dtype="float64", threads_per_world=8)
    assert env.simulator.threads_per_world == 8
    assert sim.envs.make_task("CartpoleSwingup").threads_per_world == 1
    (tmp_path / "own_task.py").write_text("from sim.envs.tasks.cartpole import CartpoleSwingup\n")
    own = load_task(f"{tmp_path / 'own_task.py'}:CartpoleSwingup", dtype="float64", threads_per_world=16)
    assert (own.dtype, own.threads_per_world) == ("float64", 16)
    with raises_naming("threads_per_world is 7", "8, 16 or 32"):
        sim.envs.make("CartpoleSwingup", device="cpu", threads_per_world=7)


def test_time_limits_without_failure():
    env = sim.envs.make("CartpoleSwingup", 3, device="cpu", seed=0)
    env.reset()
    for number in range(1, 2 * 240 + 1):
        _, _, terminated, truncated, _ = env.step(torch.zeros(3, 1))
        assert not terminated.any()
        assert truncated.all() == truncated.any() == (number % 240 == 0)


def test_a_partial_reset_leaves_the_others_bit_for_bit():
    env, other = falling(autoreset_mode="disabled"), falling(autoreset_mode="disabled")
    mask = torch.tensor([False, True, False, False, True, False])
    for each in (env, other):
        each.reset(seed=5)
        each.step(STILL)
    env.reset(options={"reset_mask": mask})
    assert (env.state.steps[mask] == 0).all()
    assert torch.equal(env.state.q[~mask], other.state.q[~mask])
    after, expected = env.step(STILL)[0], other.step(STILL)[0]
    assert torch.equal(after[~mask], expected[~mask])
    assert not torch.equal(after[mask], expected[mask])


def test_the_same_seed_gives_the_same_episodes():
    def play(env: VectorEnv) -> torch.Tensor:
        env.reset(seed=9)
        generator = torch.Generator().manual_seed(2)
        return torch.stack([env.step(torch.rand(6, 1, generator=generator))[0] for _ in range(60)])

    one = falling()
    first = play(one)
    assert torch.equal(first, play(one))
    assert torch.equal(first, play(falling(threads=1)))
    one.reset(seed=10)
    assert not torch.equal(one.state.q, falling().reset(seed=9)[0])


def test_saved_states_go_on_bit_for_bit():
    env = falling()
    env.reset(seed=3)
    for _ in range(20):
        env.step(STILL)
    saved = env.get_state()
    first = [env.step(STILL) for _ in range(40)]
    other = falling()
    other.set_state(saved)
    second = [other.step(STILL) for _ in range(40)]
    assert any(step[2].any() for step in first)
    for one, two in zip(first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one[:4], two[:4], strict=True))
        assert all(torch.equal(one[4][name], two[4][name]) for name in one[4])


def test_a_generator_that_was_loaded_onto_a_gpu_with_the_rest_goes_on():
    """As by ``torch.load(path, map_location="cuda")``; a generator takes its state from the host alone."""
    env = falling()
    env.reset(seed=3)
    saved = env.get_state()
    moved = SimpleNamespace(cpu=lambda: saved["generator"])
    other = falling()
    other.set_state({**saved, "generator": moved})
    assert torch.equal(other.generator.get_state(), saved["generator"])


def test_masses_are_drawn_for_each_episode():
    """Under a constant force the velocities after a step tell the masses."""
    env = falling()
    env.reset()
    env.step(torch.ones(6, 1))
    mass = env.simulator.parameters["mass"][:, 0]
    assert mass.shape == (6,)
    assert len(set(mass)) == 6
    expected = 0.02 * (1.0 / mass - 9.81)
    np.testing.assert_allclose(env.state.qd[:, 2].numpy(), expected, rtol=1e-5)
    kept = mass.copy()
    env.reset(options={"reset_mask": torch.tensor([True] + 5 * [False])})
    mass = env.simulator.parameters["mass"][:, 0]
    assert mass[0] != kept[0]
    np.testing.assert_array_equal(mass[1:], kept[1:])


def test_an_environment_that_goes_bad_ends_and_spoils_nothing():
    env, other = (sim.envs.make("CartpoleSwingup", 3, device="cpu", differentiable=True) for _ in range(2))
    actions = []
    for each, first in ((env, math.nan), (other, 0.5)):
        each.reset(seed=0)
        action = torch.tensor([[first], [0.5], [-0.5]], requires_grad=True)
        observation, reward, terminated, truncated, info = each.step(action)
        assert terminated.tolist() == [math.isnan(first), False, False] == info["not_finite"].tolist()
        assert not truncated.any()
        assert observation.isfinite().all()
        assert info["final_obs"].isfinite().all()
        each.step(torch.zeros(3, 1))[1].sum().backward()
        assert reward.isfinite().all()
        actions.append(action)
    assert torch.equal(actions[0].grad[1:], actions[1].grad[1:])
    assert actions[0].grad[0] == 0.0


def test_actions_are_clamped():
    env, other = falling(), falling()
    env.reset(seed=0), other.reset(seed=0)
    assert torch.equal(env.step(7.0 * torch.ones(6, 1))[0], other.step(torch.ones(6, 1))[0])


def test_spaces_are_those_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    env = sim.envs.make("Humanoid", 2, device="cpu")
    observation, _ = env.reset()
    assert env.single_observation_space.shape == (env.num_observations,)
    assert env.single_observation_space.contains(observation[1].numpy())
    low, high = np.full(env.num_actions, -0.4, np.float32), np.full(env.num_actions, 0.4, np.float32)
    assert env.single_action_space == gymnasium.spaces.Box(low, high, dtype=np.float32)
    assert env.single_action_space is env.single_action_space


def test_without_gymnasium_spaces_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium.spaces", None)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    env = falling()
    for name in ("single_observation_space", "single_action_space"):
        with pytest.raises(sim.ModelError, match=rf"{name} .*gymnasium.*pip install 'backswing\[rl\]'"):
            getattr(env, name)


def test_pictures():
    env = falling()
    env.reset()
    picture = env.render(worlds=(0, 3), width=64, height=48)
    assert picture.shape == (48, 64, 3)
    assert picture.std() > 1.0


def test_refused():
    refuses(lambda: sim.envs.make("Antt"), "environment 'Antt'")
    refuses(lambda: sim.envs.make("CartpoleSwingup", 0), "num_envs", 0)
    refuses(lambda: falling(autoreset_mode="later"), "autoreset_mode", "'later'")
    refuses(lambda: falling(adjoint_clip=0), "adjoint_clip", 0)
    refuses(lambda: Falling("float16"), "dtype", "'float16'")
    env = falling()
    refuses(lambda: env.step(STILL), "reset()")
    refuses(lambda: env.reset(options={"reset_mask": torch.tensor([True] + 5 * [False])}), "environments")
    with raises_naming("reset", "option 'mask'", "reset_mask"):
        env.reset(options={"mask": torch.ones(6, dtype=torch.bool)})
    env.reset()
    refuses(lambda: env.step(torch.zeros(1)), "action", "shape", "(1,)", "(6, 1)")
    refuses(lambda: env.step(np.zeros((6, 1))), "action", "ndarray")
    refuses(lambda: env.reset(options={"reset_mask": [True, False]}), "reset_mask", "shape", "(2,)")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: sim.envs.make(None), "name is a NoneType; it must be the name of an environment"),
        (lambda e: e.reset(options=3), "reset: options is a int; it must be a dictionary"),
        (lambda e: e.render(worlds=0), "render: worlds is a int; it must be a list of numbers"),
        (lambda e: e.reset(options={"reset_mask": "01"}), "reset_mask is '01'; expected 2 booleans"),
        (lambda e: falling(differentiable="no"), "VectorEnv: differentiable is 'no'; it must be True or False"),
        (lambda e: setattr(e, "episode_length_buf", torch.tensor([0.5, 1.0])), "episode_length_buf counts steps; it"),
        (lambda e: setattr(e, "episode_length_buf", torch.tensor([-5, 1])), "episode_length_buf counts steps; it"),
        (lambda e: falling(adjoint_clip="3 N"), "VectorEnv: adjoint_clip is '3 N'; it must be one number"),
        (lambda e: Falling([32]), r"a task's dtype is \[32\]; it must be"),
        (lambda e: sim.envs.make("Pendulum-99999999999999999"), "Pendulum: links is 9+; at most 1000"),
        (lambda e: sim.envs.make("Pendulum-1", noise="much"), "Pendulum: noise is 'much'; it must be one number"),
        (lambda e: sim.envs.make("Pendulum-1", noise=-0.1), "Pendulum: noise is -0.1; it must be finite"),
        (lambda e: e.render(worlds=()), "render: worlds is empty; name at least one"),
        (lambda e: e.render(worlds=(2,)), "render: .*world 2 .*0 to 1"),
    ],
)
def test_arguments_of_another_type_are_named(call, message):
    env = VectorEnv(Falling(), 2, device="cpu")
    env.reset(seed=0)
    with pytest.raises(sim.ModelError, match=message):
        call(env)


def test_numbers_of_a_task_are_of_its_dtype():
    """A reward of another type, such as whether a place was reached, would be one in all that is made of it."""

    class Reached(Falling):
        def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
            return after.q[:, 2] < 10.0

        def observe(self, state: TaskState) -> torch.Tensor:
            return state.q.double()

    env = VectorEnv(Reached(), 2, device="cpu", seed=1)
    seen, _ = env.reset()
    observation, reward, _, _, info = env.step(torch.zeros(2, 1))
    for numbers in (seen, observation, reward, info["final_obs"], info["episode_return"]):
        assert numbers.dtype == torch.float32
    assert reward.tolist() == [1.0, 1.0]


def test_other_parameters_than_before_are_refused():
    """Worlds that didn't begin anew would have kept the ones that are no longer drawn."""

    class Wrong(Falling):
        def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
            return {"mass" if n == 3 else "damping": torch.ones(n, 1)}

    env = VectorEnv(Wrong(), 3, device="cpu", seed=1)
    env.reset()
    with raises_naming("randomise", "['damping']", "['mass']"):
        env.reset(options={"reset_mask": [True, False, False]})


def test_a_reset_of_none_asks_the_task_for_nothing():
    class Careful(Falling):
        def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
            assert n > 0
            return super().sample_state(n, generator)

    env = VectorEnv(Careful(), 2, device="cpu", seed=1)
    first, _ = env.reset()
    assert torch.equal(env.reset(options={"reset_mask": [False, False]})[0], first)
