"""Tasks that remember: data that change in each step, sensors, events, noise, levels, groups and names."""

import copy
from dataclasses import replace

import pytest
import torch

import sim
from sim.envs import NewEpisodes, Task, TaskState, VectorEnv
from tests.errors import raises_naming, refuses

WORLDS, DELAY = 4, 2


class Pressed(Task):
    """A box on the ground that is pushed along x and z, two steps late, and should press evenly and go fast.

    It remembers actions, a filtered force, and the time since a command began, which is drawn anew every third step.
    """

    dt, frame_skip, max_episode_length = 0.005, 3, 8
    sensors = ("box/geometry", "felt")
    logged = ("level",)
    quiet = False  # without random numbers

    def __init__(self, dtype: str = "float64"):
        super().__init__(dtype)
        builder = sim.ModelBuilder()
        slippery = sim.Surface(friction=0.3)
        builder.add_ground(surface=slippery)
        builder.add_box(half_extents=(0.2, 0.2, 0.1), mass=1.0, position=(0.0, 0.0, 0.1), name="box", surface=slippery)
        builder.add_sensor("felt", "accelerometer", "box")
        self._model = builder.finalize(dtype)

    def model(self) -> sim.Model:
        return self._model

    def num_actions(self, model: sim.Model) -> int:
        return 2

    def begin(self, new: NewEpisodes) -> TaskState:
        n = len(new)
        q = torch.as_tensor(self._model.q0).repeat(n, 1)
        level = new.rows.to(q.dtype) if new.last is None else new.last.data["level"] + 10.0
        command = self.uniform((n, 1), new.generator, 0.5, 1.0)
        data = {"queue": q.new_zeros(n, DELAY, 2), "force": q.new_zeros(n, 3), "command": command, "level": level}
        return self.episodes(q, q.new_zeros(n, 6), {**data, "touched": torch.zeros(n, dtype=torch.bool)})

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        late, zeros = 4.0 * state.data["queue"][:, 0], action.new_zeros(len(action), 4)
        return {"tau": torch.cat([late[:, :1] + 6.0, zeros[:, :1], late[:, 1:], zeros[:, 1:]], dim=1)}

    def advance(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        force = after.readings["box/geometry"]
        return {
            "queue": torch.cat([before.data["queue"][:, 1:], action[:, None]], dim=1),
            "force": 0.5 * before.data["force"] + 0.5 * force,
            "touched": force[:, 2] > 1.0,
        }

    def events(self, state: TaskState) -> dict[str, torch.Tensor]:
        due = (state.steps % 3 == 0)[:, None]
        if self.quiet:
            return {"qd": torch.where(due, 0.5 * state.qd, state.qd)}
        push = torch.nn.functional.pad(self.normal((len(due), 1), state.generator, 0.1), (0, 5))
        command = self.uniform((len(due), 1), state.generator, 0.5, 1.0)
        return {
            "qd": torch.where(due, state.qd + push, state.qd),
            "command": torch.where(due, command, state.data["command"]),
        }

    def observe(self, state: TaskState) -> dict[str, torch.Tensor]:
        exact = torch.cat([state.qd, state.data["command"], state.readings["felt"], state.data["force"]], dim=1)
        noise = 0.0 if self.quiet else self.normal(exact.shape, state.generator, 0.1)
        drawn = state.parameters["mass"]
        return {"policy": exact + noise, "critic": torch.cat([exact, drawn], 1), "queue": state.data["queue"]}

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        change = action - before.data["queue"][:, -1]
        return {
            "track": -(after.qd[:, 0] - before.data["command"][:, 0]).square(),
            "press": -0.01 * (after.readings["box/geometry"][:, 2] - 9.0).square(),
            "smooth": -0.1 * change.square().sum(dim=1) - 0.01 * after.data["force"].square().sum(dim=1),
        }

    def terminated(self, state: TaskState) -> dict[str, torch.Tensor]:
        return {"far": state.q[:, 0] > 0.03, "turned": state.q[:, 6] < 0.5}

    def randomise(self, n: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"mass": self.uniform((n, 1), generator, 0.8, 1.2)}


class Quiet(Pressed):
    """The same without random numbers in steps."""

    quiet, max_episode_length = True, 20


STILL = torch.zeros(1, 7, dtype=torch.float64), torch.zeros(1, 6, dtype=torch.float64)


def pressed(task: Task | None = None, **options) -> VectorEnv:
    env = VectorEnv(task or Pressed(), WORLDS, device="cpu", seed=1, **options)
    env.reset()
    return env


def actions(steps: int, seed: int = 0) -> torch.Tensor:
    given = torch.rand(steps, WORLDS, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return 0.8 * given - 0.4


def played(env: VectorEnv, given: torch.Tensor) -> list[torch.Tensor]:
    """Everything that steps return, as tensors."""
    found = []
    for action in given:
        seen, *rest, info = env.step(action)
        found += [*seen.values(), *rest, *info["final_obs"].values(), *info["reward_terms"].values()]
        found += [*info["failures"].values(), *info.get("log", {}).values()]
    return found


def equal(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
    return len(one) == len(two) and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_gradients_through_memory_and_sensors_are_those_of_differences():
    env = pressed(Quiet(), differentiable=True)
    start, direction = env.get_state(), actions(6, seed=1)

    def outcome(given: torch.Tensor) -> torch.Tensor:
        env.set_state(start)
        total = torch.zeros(WORLDS, dtype=torch.float64)
        for action in given:
            seen, reward, *_ = env.step(action)
            total = total + reward + 0.01 * seen["critic"].square().sum(dim=1) + seen["queue"].sum(dim=(1, 2))
        return total.sum()

    given = actions(6).requires_grad_()
    outcome(given).backward()
    with torch.no_grad():
        width = 1e-5
        slope = (outcome(given + width * direction) - outcome(given - width * direction)) / (2.0 * width)
    assert (given.grad[:4].abs().amin(dim=(1, 2)) > 0.0).all()
    torch.testing.assert_close((given.grad * direction).sum(), slope, rtol=1e-6, atol=1e-7)


def test_what_is_remembered():
    env = pressed(Quiet())
    given = actions(4)
    force = torch.zeros(WORLDS, 3, dtype=torch.float64)
    assert not env.state.readings["felt"].any()
    for k, action in enumerate(given):
        seen, *_ = env.step(3.0 * action if k == 2 else action)
        force = 0.5 * force + 0.5 * env.state.readings["box/geometry"]
        torch.testing.assert_close(env.state.data["force"], force)
    queue = torch.stack([(3.0 * given[2]).clamp(-1.0, 1.0), given[3]], dim=1)  # actions as applied: clamped
    assert torch.equal(env.state.data["queue"], queue)
    assert torch.equal(seen["queue"], queue)
    assert env.state.data["touched"].all()
    # A step's mean force is what changed the momentum, and the sensors read the last of three steps.
    late, mass = 4.0 * given[1], env.state.parameters["mass"][:, 0]
    torch.testing.assert_close(env.state.readings["box/geometry"][:, 2], 9.81 * mass - late[:, 1], rtol=1e-3, atol=0.0)
    assert (env.state.readings["felt"][:, 2] - 9.81).abs().max() < 0.01


def test_the_same_seed_gives_the_same_noise_and_events():
    given = actions(20)
    one, two = pressed(), pressed()
    assert equal(played(one, given), played(two, given))
    one.reset(seed=5)
    first = played(one, given)
    one.reset(seed=5)
    assert equal(played(one, given), first)
    one.reset(seed=6)
    assert not equal(played(one, given), first)


def test_saved_states_go_on_bit_for_bit_with_memory():
    given = actions(21)
    env, other = pressed(), pressed()
    played(env, given[:5])
    kept, read = env.get_state(), env.state.clone().readings
    rest = played(env, given[5:])
    assert any(level >= 20.0 for level in env.state.data["level"])  # episodes ended, twice in some environments
    played(other, given[:9])
    other.set_state(kept)
    assert all(torch.equal(other.state.readings[name], value) and value.any() for name, value in read.items())
    assert equal(played(other, given[5:]), rest)
    env.set_state(kept)
    assert equal(played(copy.deepcopy(env), given[5:]), rest)


def test_a_reset_forgets_in_the_environments_that_begin_alone():
    env = pressed()
    played(env, actions(3))
    kept, mask = env.state.clone(), torch.tensor([False, True, False, True])
    env.reset(options={"reset_mask": mask})
    for values, old in ((env.state.data, kept.data), (env.state.readings, kept.readings)):
        assert all(torch.equal(values[name][~mask], old[name][~mask]) for name in old)
    assert not env.state.data["queue"][mask].any()
    assert not env.state.readings["box/geometry"][mask].any()
    assert kept.readings["box/geometry"][mask].all(dim=0).any()
    assert env.state.data["level"].tolist() == [0.0, 11.0, 2.0, 13.0]
    assert (env.state.parameters["mass"] != kept.parameters["mass"])[:, 0].tolist() == mask.tolist()
    env.reset()
    assert env.state.data["level"].tolist() == [10.0, 21.0, 12.0, 23.0]
    env.reset(seed=1)  # the same seed gives the same episodes, whatever was before
    assert env.state.data["level"].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_what_is_known_of_the_last_episode(mode):
    seen = []

    class Curriculum(Quiet):
        max_episode_length = 3

        def begin(self, new: NewEpisodes) -> TaskState:
            if new.last is not None:
                assert torch.allclose(sum(new.terms.values()), new.returns)
                seen.append((new.rows.tolist(), new.last.steps.tolist(), new.last.q[:, 0], new.returns))
            return super().begin(new)

    env = pressed(Curriculum(), autoreset_mode=mode)
    env.episode_length_buf = torch.tensor([0, 1, 0, 1])
    totals, at_end = torch.zeros(WORLDS, dtype=torch.float64), {}
    for action in actions(4):
        before = env.state.q[:, 0]
        _, reward, _, truncated, info = env.step(action)
        totals += reward
        for row in truncated.nonzero()[:, 0].tolist():
            at_end.setdefault(row, (info["episode_return"][row], before[row]))
    assert [rows for rows, *_ in seen[:2]] == [[1, 3], [0, 2]]
    for rows, steps, x, returns in seen[:2]:
        assert steps == [3] * len(rows)
        for k, row in enumerate(rows):
            assert returns[k] == at_end[row][0]
            assert x[k] > at_end[row][1]


def test_rewards_see_the_state_before_events_and_observations_the_one_after():
    class Kicked(Quiet):
        def events(self, state: TaskState) -> dict[str, torch.Tensor]:
            return {"qd": state.qd + 1.0, "force": state.data["force"] + 1.0}

        def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
            return after.qd.abs().amax(dim=1) + after.data["force"][:, 1].abs()

    env = pressed(Kicked())
    seen, reward, *_ = env.step(actions(1)[0])
    assert (reward < 0.5).all()
    assert (seen["policy"][:, :6] > 0.5).all()
    assert (env.state.data["force"][:, 1] > 0.5).all()


def test_terms_and_failures_are_logged_by_name():
    env = pressed()
    sums = {name: torch.zeros(WORLDS, dtype=torch.float64) for name in ("track", "press", "smooth")}
    logged = dict.fromkeys(("end/far", "end/turned", "end/time", "end/not_finite"), 0)
    for action in actions(24):
        levels = env.state.data["level"]
        _, reward, terminated, truncated, info = env.step(action)
        torch.testing.assert_close(reward, sum(info["reward_terms"].values()) - sum(sums.values()))
        sums = {name: value.clone() for name, value in info["reward_terms"].items()}
        ended = terminated | truncated
        assert torch.equal(terminated, info["failures"]["far"] | info["failures"]["turned"])
        assert ("log" in info) == bool(ended.any())
        for name, value in info.get("log", {}).items():
            if name == "data/level":
                assert value == levels[ended].mean()
            elif name.startswith("end/"):
                logged[name] += int(value)
            else:
                assert value == sums[name.removeprefix("reward/")][ended].mean()
        torch.testing.assert_close(info["episode_return"], sum(sums.values()))
        sums = {name: value.masked_fill(ended, 0.0) for name, value in sums.items()}
    assert logged["end/far"] > 0
    assert logged["end/time"] > 0
    assert logged["end/turned"] == logged["end/not_finite"] == 0


def test_groups_and_noise_are_those_of_the_step():
    """If no episode begins, a step's observation is also the next one: noise is drawn once."""
    env = pressed()
    assert env.observation_groups == {"policy": (13,), "critic": (14,), "queue": (DELAY, 2)}
    assert env.num_observations == 13
    for action in actions(12):
        seen, _, _, _, info = env.step(action)
        going = ~info["final_mask"]
        for name, value in seen.items():
            assert torch.equal(value[going], info["final_obs"][name][going])
    again = env.observe()
    assert torch.equal(again["critic"], seen["critic"])
    assert not torch.equal(again["policy"], seen["policy"])


def test_a_bad_environment_keeps_its_memory_and_adds_no_gradient():
    env = pressed(Quiet(), differentiable=True)
    env.step(actions(1)[0])
    kept = env.state.clone()
    action = actions(2)[1]
    action[2, 0] = torch.nan
    action.requires_grad_()
    _, reward, _, _, info = env.step(action)
    assert info["not_finite"].tolist() == [False, False, True, False]
    last = info["final_obs"]
    assert torch.equal(last["queue"][2], kept.data["queue"][2])
    assert torch.equal(last["critic"][2, 7:10], kept.readings["felt"][2])
    (reward.sum() + sum(value.sum() for value in last.values())).backward()
    assert not action.grad[2].any()
    assert action.grad[[0, 1, 3]].all()


@pytest.mark.parametrize("speed", [1e5, float("nan")])
def test_an_environment_that_diverges_spoils_no_gradient_of_memory_and_readings(speed):
    gradients = []
    for bad in (True, False):
        env = pressed(Quiet(), differentiable=True)
        played(env, actions(1))
        if bad:
            state = env.get_state()
            state["qd"][2] = speed
            env.set_state(state)
        else:
            env.detach()
        action, others, total = actions(2)[1].requires_grad_(), [0, 1, 3], 0.0
        for k in range(2):
            seen, reward, _, _, info = env.step(action)
            assert info["not_finite"].tolist() == [False, False, bad and not k, False]
            total = total + reward.sum() + sum(value[others].sum() for value in seen.values())
        assert all(value.isfinite().all() for value in env.state.data.values())
        gradients.append(torch.autograd.grad(total, action)[0][others])
    assert torch.equal(*gradients)


def test_a_clipped_adjoint_includes_memory_and_readings():
    gradients = {}
    for limit in (float("inf"), 1e-3):
        env = pressed(Quiet(), differentiable=True, adjoint_clip=limit)
        action = actions(1)[0].requires_grad_()
        env.step(action)
        seen, *_ = env.step(actions(2)[1])
        sum(value.sum() for value in seen.values()).backward()
        gradients[limit] = action.grad.norm(dim=1)
    assert (gradients[float("inf")] > 1.0).all()
    assert (gradients[1e-3] < 0.1).all()


@pytest.mark.parametrize(
    ("part", "change", "word"),
    [
        ("data", lambda data: {}, "queue"),
        ("data", lambda data: data | {"force": torch.zeros(WORLDS, 2, dtype=torch.float64)}, "force"),
        ("data", lambda data: data | {"level": torch.zeros(WORLDS)}, "level"),
        ("parameters", lambda parameters: {}, "mass"),
    ],
)
def test_saved_states_of_another_task_are_refused(part, change, word):
    env = pressed()
    state = env.get_state()
    with raises_naming("set_state", word):
        env.set_state(state | {part: change(state[part])})
    assert all(torch.equal(env.state.data[name], value) for name, value in state["data"].items())


def test_a_clipped_adjoint_includes_one_number_for_each_environment():
    class Counted(Quiet):
        def begin(self, new):
            state = super().begin(new)
            return replace(state, data={**state.data, "height": state.q[:, 2]})

        def advance(self, before, action, after):
            return {**super().advance(before, action, after), "height": after.q[:, 2]}

    env = pressed(Counted(), differentiable=True, adjoint_clip=1.0)
    action = actions(1)[0].requires_grad_()
    env.step(action)
    env.step(actions(2)[1])
    env.state.data["height"].sum().backward()
    assert action.grad.isfinite().all()


@pytest.mark.parametrize(
    ("method", "returned", "named"),
    [
        ("advance", lambda *_: {"last": torch.zeros(WORLDS, 2)}, ["advance", "'last'", "queue", "sample_state"]),
        ("advance", lambda *_: {"qd": torch.zeros(WORLDS, 6)}, ["advance", "'qd'", "queue"]),
        ("advance", lambda *_: {"force": torch.zeros(WORLDS, 2)}, ["advance", "'force'", "(4, 2)", "(4, 3)"]),
        ("advance", lambda *_: {"force": torch.zeros(WORLDS, 3)}, ["advance", "'force'", "torch.float32"]),
        ("advance", lambda *_: None, ["advance", "NoneType", "dictionary"]),
        ("events", lambda *_: {"mass": torch.zeros(WORLDS, 1)}, ["events", "'mass'", "qd"]),
        ("events", lambda *_: {"qd": torch.zeros(1, 6).double()}, ["events", "'qd'", "(1, 6)", "(4, 6)"]),
        ("reward", lambda *_: {}, ["reward", "no terms"]),
        ("reward", lambda *_: {"a": torch.zeros(1)}, ["reward", "'a'", "(1,)", "(4,)"]),
        ("terminated", lambda *_: {"a": torch.zeros(WORLDS)}, ["terminated", "'a'", "torch.bool"]),
        ("terminated", lambda *_: {}, ["terminated", "no masks"]),
        ("begin", lambda *_: None, ["begin", "NoneType", "TaskState"]),
        ("begin", lambda task, new: Task.begin(task, new), ["Wrong", "sample_state", "begin"]),
        ("begin", lambda task, new: task.episodes(*STILL, {"qd": STILL[1]}), ["Wrong.begin", "'qd'", "data"]),
        ("logged", ("levels",), ["Wrong.logged", "'levels'", "level", "queue"]),
        ("sensors", ("box/geometry", "tilt"), ["Wrong.sensors", "'tilt'", "felt", "ground"]),
    ],
)
def test_what_a_task_with_memory_returns_is_checked(method, returned, named):
    task = type("Wrong", (Pressed,), {method: returned})
    refuses(lambda: pressed(task()).step(actions(1)[0]), *named)


def test_names_must_stay():
    env = pressed(Quiet())
    env.step(actions(1)[0])
    env.task.reward = lambda *_: {"track": torch.zeros(WORLDS)}
    refuses(lambda: env.step(actions(1)[0]), "reward", "['track']", "['press', 'smooth', 'track']")
    del env.task.reward
    env.task.observe = lambda state: {"policy": state.qd, "queue": state.data["queue"]}
    refuses(lambda: env.step(actions(1)[0]), "observe", "critic", "['policy', 'queue']")


def test_states_of_other_sensors_are_refused():
    env = pressed()
    state = env.get_state()
    refuses(lambda: env.set_state({**state, "readings": {}}), "readings", "[]", "['box/geometry', 'felt']")
    wrong = {**state["readings"], "felt": torch.zeros(WORLDS, 2).double()}
    refuses(lambda: env.set_state({**state, "readings": wrong}), "'felt'", "(4, 2)", "(4, 3)")
    with raises_naming("'track'", "(3,)"):
        env.set_state({**state, "terms": {"track": torch.zeros(3).double()}})


def test_a_state_outside_an_environment_has_no_generator():
    task = Pressed()
    state = task.begin(NewEpisodes(torch.arange(2), torch.Generator()))
    refuses(lambda: task.normal((2,), state.generator, 1.0), "Pressed", "generator")
