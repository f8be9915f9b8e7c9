"""Programs that train policies: what they write and say, and a policy in MuJoCo."""

import importlib.util
import sys

import numpy as np
import pytest
import torch

import sim.envs
import sim.terrain
from examples.rl import apg, carry, sac, shac, transfer, walk
from sim.envs import LeggedTask
from sim.envs.tasks.locomotion.robots import QuadrupedGetUp
from sim.learn import Policy, evaluate, load_policy, load_task, save_policy
from sim.learn.learner import stored


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (shac, ["CartpoleSwingup", "--envs", "4", "--horizon", "8"]),
        (apg, ["Pendulum-2", "--envs", "2", "--substeps", "1"]),
        (sac, ["Pendulum-2", "--envs", "2", "--enhance", "jacobian", "--near", "--extras", "2"]),
    ],
)
def test_files_and_what_is_said(module, arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sim.learn.evaluation.FILM_SECONDS", 0.3)
    options = ["--iterations", "2", "--out", str(tmp_path), "--device", "cpu", "--size", "64", "48"]
    monkeypatch.setattr(sys, "argv", ["train", *arguments, *options])
    module.main()
    written = {path.name for path in tmp_path.iterdir()}
    curves = {"tensorboard"} if importlib.util.find_spec("tensorboard") else set()
    assert written == {"curve.png", "policy.pt", "policy.gif", "training.npz", *curves}
    assert "over 64 episodes without randomness" in capsys.readouterr().out
    policy, task, task_options = load_policy(tmp_path / "policy.pt")
    assert task == arguments[0]
    with np.load(tmp_path / "training.npz") as kept:
        again = evaluate(policy, load_task(task, **task_options), device="cpu")
        np.testing.assert_array_equal(again.returns, kept["evaluated"])
        assert len(kept["steps"]) == len(kept["seconds"]) == 2


def test_episodes_of_different_lengths_are_refused(tmp_path, monkeypatch):
    options = ["Hopper", "--envs", "4", "--iterations", "1", "--out", str(tmp_path), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["train", *options])
    with pytest.raises(
        SystemExit, match=r"an episode ended after \d+ steps; apg needs episodes of one length: use shac"
    ):
        apg.main()


def test_boxes_are_carried_here_and_in_mujoco(tmp_path, monkeypatch, capsys):
    """Or not, by a policy that moves nothing; another task's policy is refused."""
    pytest.importorskip("mujoco")
    monkeypatch.setattr(carry, "BOXES", 2)
    monkeypatch.setattr(carry.PickAndPlace, "max_episode_length", 3)
    for task in ("PickAndPlace", "CartpoleSwingup"):
        env = sim.envs.make(task, 1, device="cpu")
        policy = Policy(env.num_observations, env.action_low, env.action_high)
        kept = {"task": task, "options": {}, "state": policy.state_dict()}
        (tmp_path / f"{task}.pt").write_bytes(stored(kept))
    monkeypatch.setattr(sys, "argv", ["carry", str(tmp_path / "PickAndPlace.pt"), "--size", "64", "48"])
    carry.main()
    said = capsys.readouterr().out
    assert said.count("0 of 2 boxes at their targets") == 2
    assert "nan" not in said
    assert (tmp_path / "carry.gif").is_file()
    monkeypatch.setattr(sys, "argv", ["carry", str(tmp_path / "CartpoleSwingup.pt")])
    with pytest.raises(SystemExit, match=r"CartpoleSwingup.*PickAndPlace"):
        carry.main()


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
    with pytest.raises(SystemExit, match="'Pendulum-1' .*task of gymnasium"):
        transfer.main()
    for content in (b"", b"no policy", stored({"task": "Hopper"}), stored({**kept, "state": {}}), stored([1.0])):
        (tmp_path / "policy.pt").write_bytes(content)
        with pytest.raises(SystemExit, match=r"policy.pt: .*policy.pt"):
            transfer.main()
    (tmp_path / "policy.pt").unlink()
    with pytest.raises(SystemExit, match="No such file"):
        transfer.main()


@pytest.mark.parametrize(
    ("module", "options"),
    [
        (shac, ["iterations 0", "minutes 0", "minutes nan", "envs 0", "horizon 0", "deviation 0", "adjoint-clip nan"]),
        (apg, ["iterations 0", "minutes -1", "envs 0", "rate 0", "deviation 0", "substeps 0", "adjoint-clip 0"]),
        (sac, ["iterations 0", "minutes nan", "envs 0", "substeps 0", "spread 0"]),
    ],
)
def test_numbers_that_cannot_work_end_at_once(module, options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cases = [(option, "the number must be positive") for option in options]
    if module is sac:
        cases += [(option, "must lie between 0 and 1") for option in ("discount 1.5", "discount nan")]
    else:
        cases += [("deviation inf", "the numbers must be finite")]
    for option, message in cases:
        monkeypatch.setattr(sys, "argv", ["train", *f"--{option}".split()])
        with pytest.raises(SystemExit) as exit_:
            module.main()
        assert exit_.value.code == 2
        name, value = option.split()
        said = capsys.readouterr().err
        assert f"--{name} {float(value):g}:" in said.replace(".0:", ":")
        assert message in said
    assert not any(tmp_path.iterdir())


def standing_policy(observations: int = 48) -> Policy:
    """A policy of the quadruped whose actions are zero."""
    policy = Policy(observations, -torch.ones(12), torch.ones(12))
    with torch.no_grad():
        for value in policy.mean.parameters():
            value.zero_()
    return policy


def test_robots_that_stand_miss_the_commanded_velocity_here_and_in_mujoco():
    task = sim.envs.make_task("QuadrupedVelocity")
    commands = torch.tensor([[[0.3, 0.4, 0.0], [0.0, 0.0, 0.5]]])
    for engine in (walk.here(task), walk.in_mujoco(task)):
        found = walk.follow(standing_policy(), task, commands, engine, 1.5)
        assert found.falls == 0
        assert found.speed_error == pytest.approx(0.25, abs=0.01)
        assert found.mean_speed_error == pytest.approx(0.25, abs=0.01)
        assert found.turn_error == pytest.approx(0.25, abs=0.01)
        assert found.q.shape == (75, 2, 19)
        assert 0.28 < found.q[-1, 0, 2] < task.robot.height


def test_steps_of_mujoco_s_law_are_mujoco_s():
    """Half a second with random actions, in double precision."""
    task = sim.envs.make_task("QuadrupedVelocity", law="mujoco", dtype="float64")
    generator = torch.Generator().manual_seed(0)
    q, qd = np.tile(task.robot.q, (2, 1)), np.zeros((2, 18))
    states = [(q, qd), (q, qd)]
    engines = (walk.here(task), walk.in_mujoco(task))
    for _ in range(25):
        action = torch.rand(2, 12, generator=generator, dtype=torch.float64) - 0.5
        targets = task.inputs(sim.envs.TaskState(torch.tensor(q), torch.tensor(qd), torch.zeros(2)), action)["control"]
        states = [engine(*state, targets.numpy()) for engine, state in zip(engines, states, strict=True)]
    np.testing.assert_allclose(states[0][0], states[1][0], atol=1e-5)
    assert abs(states[0][0] - q).max() > 0.1


def test_robots_stand_if_they_fall_on_their_feet():
    class Dropped(QuadrupedGetUp):
        max_episode_length, start_bend = 50, 0.1

        def starts(self, n, generator):
            q, qd = LeggedTask.starts(self, n, generator)
            q[:, 2] += 0.1
            q[1:, 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])
            return q, qd

    def upright_targets(observation: torch.Tensor) -> torch.Tensor:
        return -observation[:, 9:21] / task.action_scale

    task = Dropped()
    for engine in (walk.here(task), walk.in_mujoco(task)):
        share, motion = walk.rise(upright_targets, task, engine, robots=3)
        assert share == pytest.approx(1.0 / 3.0)
        assert motion.shape == (51, 3, 19)


def test_walks_are_played_with_one_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(walk, "COMMANDS", 3)
    monkeypatch.setattr(walk, "SECONDS", 1.2)
    monkeypatch.setattr(sim.envs.GetUpTask, "max_episode_length", 10)
    monkeypatch.setattr(walk, "TOUR", ((0.0, 0.0, 0.0),))
    monkeypatch.setattr(walk, "TOUR_SECONDS", 1.06)
    save_policy(tmp_path / "policy.pt", standing_policy(), "QuadrupedVelocity", {})
    monkeypatch.setattr(sys, "argv", ["walk", str(tmp_path / "policy.pt"), "--size", "64", "48"])
    walk.main()
    said = capsys.readouterr().out
    assert said.count("0 of 3 fell") == 2
    assert (tmp_path / "walk.gif").is_file()
    save_policy(tmp_path / "policy.pt", standing_policy(45), "QuadrupedGetUp", {})
    walk.main()
    said = capsys.readouterr().out
    assert said.count("% stand") == 2
    assert f"wrote {tmp_path / 'walk.gif'}" in said
    save_policy(tmp_path / "policy.pt", standing_policy(), "Ant", {})
    with pytest.raises(SystemExit, match="'Ant' follows no velocities"):
        walk.main()


def test_robots_stand_on_all_tiles_of_a_terrain_here_and_in_mujoco():
    """They begin in the middle of each tile, above its ground, and observe the heights around them."""
    kinds = [sim.terrain.Rough(amplitude=0.01), sim.terrain.Stairs(rise=0.1, platform=1.0)]
    task = sim.envs.make_task("QuadrupedVelocity", terrain=sim.terrain.generate(kinds, levels=2, size=4.0))
    observed = []

    def stand(observation: torch.Tensor) -> torch.Tensor:
        observed.append(observation)
        return torch.zeros(5, 12)

    origins = task.robot.terrain.origins.reshape(4, 3)
    for engine in (walk.here(task), walk.in_mujoco(task)):
        found = walk.follow(stand, task, torch.zeros(1, 5, 3), engine, 1.1)
        assert found.falls == 0
        assert found.speed_error < 0.05
        np.testing.assert_allclose(found.q[0, :, :3], origins[[0, 1, 2, 3, 0]] + task.robot.q[:3], atol=1e-6)
        np.testing.assert_allclose(found.q[-1, :, :3], found.q[0, :, :3], atol=0.1)  # they sag
    heights = observed[0][:, 48:]
    assert heights.shape == (5, 36)
    np.testing.assert_allclose(heights[[1, 3], -1], 0.0, atol=1e-5)  # below the base, on stairs
    assert (heights[[0, 2], -1].abs() < 0.02).all()
    assert heights[1].min() < -0.09  # stairs around a platform


def test_walks_into_folders_that_cannot_be_made(monkeypatch, tmp_path):
    """Nothing is simulated before."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(walk, "follow", None)
    monkeypatch.setattr(carry, "here", None)
    for module, name in ((walk, "QuadrupedVelocity"), (carry, "PickAndPlace")):
        env = sim.envs.make(name, 1, device="cpu")
        policy = Policy(env.num_observations, env.action_low, env.action_high)
        save_policy(tmp_path / "policy.pt", policy, name, {})
        monkeypatch.setattr(sys, "argv", ["play", str(tmp_path / "policy.pt"), "--out", str(tmp_path / "file" / "out")])
        with pytest.raises(SystemExit, match="--out .*folder"):
            module.main()
