"""Environments in other libraries' forms: what they ask for, and what their own algorithms do with it."""

import warnings

import numpy as np
import pytest
import torch

import sim
import sim.envs
from tests.envs.test_memory import Pressed
from tests.errors import raises_naming, refuses


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_gymnasium_runs_as_its_own(mode):
    """Beside gymnasium's SyncVectorEnv in the same mode: shapes, types, infos, and when episodes begin again."""
    gymnasium = pytest.importorskip("gymnasium")
    adapter = pytest.importorskip("sim.envs.adapters.gymnasium")
    ours = adapter.GymnasiumVectorEnv(
        sim.envs.make("Hopper", 4, device="cpu", seed=0, dtype="float64", autoreset_mode=mode)
    )
    modes = {"same_step": "SAME_STEP", "next_step": "NEXT_STEP", "disabled": "DISABLED"}
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("Hopper-v5") for _ in range(4)],
        autoreset_mode=getattr(gymnasium.vector.AutoresetMode, modes[mode]),
    )
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space.shape == theirs.observation_space.shape
    assert ours.action_space.shape == theirs.action_space.shape
    ended = 0
    for env in (ours, theirs):
        rng = np.random.default_rng(0)
        observation, _ = env.reset(seed=3)
        waiting = np.zeros(4, bool)
        for _ in range(100):
            if mode == "disabled" and waiting.any():
                observation, _ = env.reset(options={"reset_mask": waiting})
                assert observation.shape == (4, 11)
            observation, reward, terminated, truncated, info = env.step(rng.uniform(-1, 1, (4, 3)).astype(np.float32))
            assert observation.shape == (4, 11)
            assert observation.dtype == np.float64
            assert reward.shape == terminated.shape == truncated.shape == (4,)
            assert terminated.dtype == truncated.dtype == bool
            if mode == "next_step":
                assert (reward[waiting] == 0.0).all()
                assert not terminated[waiting].any()
            done = terminated | truncated
            if mode == "same_step" and done.any():
                np.testing.assert_array_equal(info["_final_obs"], done)
                assert all(info["final_obs"][row].shape == (11,) for row in np.flatnonzero(done))
                assert (np.abs(observation[done, 1:]) < 0.01).all()
            waiting = done
            ended += done.sum()
    assert ended > 4
    ours.close()


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_gymnasium_finds_nothing_wrong(mode):
    """Its checker, which is for single environments, with the only one of a vector."""
    gymnasium = pytest.importorskip("gymnasium")
    adapter = pytest.importorskip("sim.envs.adapters.gymnasium")
    checker = pytest.importorskip("gymnasium.utils.env_checker")

    class First(gymnasium.Env):
        def __init__(self):
            self.envs = adapter.GymnasiumVectorEnv(
                sim.envs.make("CartpoleSwingup", 1, device="cpu", dtype="float64", autoreset_mode=mode)
            )
            self.observation_space = self.envs.single_observation_space
            self.action_space = self.envs.single_action_space

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)  # the checker looks at the random numbers of this
            observation, info = self.envs.reset(seed=seed, options=options)
            return observation[0], {name: value[0] for name, value in info.items()}

        def step(self, action):
            observation, reward, terminated, truncated, info = self.envs.step(action[None])
            return (
                observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]),
                {name: value[0] for name, value in info.items()},
            )  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", message=".*A Box observation space (minimum|maximum) value is"
        )  # as gymnasium's own
        checker.check_env(First(), skip_render_check=True)


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_wrappers_of_gymnasium(mode):
    """They record the returns and lengths of episodes, and make lists of infos."""
    pytest.importorskip("gymnasium")
    from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

    from sim.envs.adapters.gymnasium import GymnasiumVectorEnv

    inner = sim.envs.make("Pendulum-1", 3, device="cpu", seed=0, autoreset_mode=mode)
    env = DictInfoToList(RecordEpisodeStatistics(GymnasiumVectorEnv(inner)))
    env.reset(seed=np.int64(1))
    inner.episode_length_buf = torch.tensor([90, 95, 0])
    total, found = np.zeros(3), []
    for _ in range(12):
        _, reward, _, truncated, infos = env.step(np.ones((3, 1), np.float32))
        total += reward
        for number in np.flatnonzero(truncated):
            found.append((number, infos[number]["episode"]["l"]))
            assert infos[number]["episode"]["r"] == pytest.approx(total[number], rel=1e-5)
    assert found == [(1, 5), (0, 10)]


def test_stable_baselines3_learns():
    """PPO runs, and its own checks of a VecEnv's episodes hold."""
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecMonitor

    from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv

    env = VecMonitor(StableBaselines3VecEnv(sim.envs.make("CartpoleSwingup", 8, device="cpu", seed=0)))
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=256, seed=0, device="cpu")
    model.learn(2048)
    returns, lengths = evaluate_policy(model, env, n_eval_episodes=8, return_episode_rewards=True)
    assert lengths == [240] * 8
    assert all(np.isfinite(returns))


def test_stable_baselines3_is_told_how_episodes_end():
    pytest.importorskip("stable_baselines3")
    from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv

    env = StableBaselines3VecEnv(sim.envs.make("Hopper", 4, device="cpu", seed=0))
    env.seed(5)
    first = env.reset()
    env.seed(5)
    np.testing.assert_array_equal(first, env.reset())
    rng, ended = np.random.default_rng(0), 0
    for _ in range(100):
        observation, _, done, infos = env.step(rng.uniform(-1, 1, (4, 3)).astype(np.float32))
        for number in np.flatnonzero(done):
            last = infos[number]["terminal_observation"]
            assert last[0] < 0.7 or abs(last[1]) > 0.2 or np.abs(last).max() > 90.0  # fallen
            assert abs(observation[number, 0] - 1.25) < 0.01  # and begun again
            assert not infos[number]["TimeLimit.truncated"]
        assert not any(infos[number] for number in np.flatnonzero(~done))
        ended += done.sum()
    assert ended > 2
    refuses(lambda: env.env_method("render", indices=[0]), "indices")
    with raises_naming('autoreset_mode="same_step"'):
        StableBaselines3VecEnv(sim.envs.make("Hopper", 1, device="cpu", autoreset_mode="disabled"))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(("name", "followed"), [("Pendulum-1", False), ("CartpoleSwingup", True)])
def test_what_follows_the_end_of_time(name, followed):
    """Nothing, where a task says that its time is final: learners add no value there."""
    pytest.importorskip("stable_baselines3")
    from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv

    both = StableBaselines3VecEnv(sim.envs.make(name, 2, device="cpu", seed=0)), rsl_rl_env(2, name)
    both[0].reset()
    for each in both:
        each.env.episode_length_buf = torch.tensor([each.env.max_episode_length - 1, 0])
    _, _, done, infos = both[0].step(np.zeros((2, 1), np.float32))
    assert done.tolist() == [True, False]
    assert infos[0]["TimeLimit.truncated"] is followed
    _, _, done, extras = both[1].step(torch.zeros(2, 1))
    assert done.tolist() == [True, False]
    assert extras["time_outs"].tolist() == [followed, False]


def rsl_rl_env(num_envs, name="Hopper", **options):
    pytest.importorskip("rsl_rl")
    from sim.envs.adapters.rsl_rl import RslRlVecEnv

    return RslRlVecEnv(sim.envs.make(name, num_envs, device="cpu", seed=0, **options))


def test_rsl_rl_learns(tmp_path, monkeypatch):
    """Its PPO runs and saves a policy, from episodes of random ages."""
    env = rsl_rl_env(8)
    monkeypatch.chdir(tmp_path)
    from rsl_rl.runners import OnPolicyRunner

    network = {"class_name": "MLPModel", "hidden_dims": [32], "activation": "elu"}
    noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
    settings = {
        "num_steps_per_env": 50,
        "save_interval": 1,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**network, "distribution_cfg": noise},
        "critic": network,
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2},
    }
    runner = OnPolicyRunner(env, settings, log_dir=str(tmp_path))
    runner.learn(2, init_at_random_ep_len=True)
    assert (tmp_path / "model_1.pt").is_file()
    policy = runner.get_inference_policy()
    assert policy(env.get_observations()).shape == (8, 3)


def test_rsl_rl_is_told_how_episodes_end():
    env = rsl_rl_env(4)
    env.episode_length_buf = torch.tensor([998, 0, 999, 0])
    assert env.get_observations()["policy"].shape == (4, 11)
    _, _, done, extras = env.step(torch.zeros(4, 3))
    assert done.tolist() == extras["time_outs"].tolist() == [False, False, True, False]
    assert env.episode_length_buf.tolist() == [999, 1, 0, 1]
    generator, fallen = torch.Generator().manual_seed(0), 0
    for _ in range(100):
        observation, reward, done, extras = env.step(2.0 * torch.rand(4, 3, generator=generator) - 1.0)
        begun = (observation["policy"][:, 0] - 1.25).abs() < 0.01
        fallen += int((done & ~extras["time_outs"]).sum())
        assert begun[done].all()
        assert reward.dtype == torch.float32
    assert fallen > 2
    with raises_naming("expected (4,)"):
        env.episode_length_buf = torch.zeros(3)
    with raises_naming('autoreset_mode="same_step"'):
        rsl_rl_env(1, autoreset_mode="disabled")


def test_stable_baselines3_hands_options_on():
    """Once, as it does its seeds."""
    pytest.importorskip("stable_baselines3")
    from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv

    env = StableBaselines3VecEnv(sim.envs.make("CartpoleSwingup", 3, device="cpu", seed=0))
    first = env.reset()
    env.set_options({"reset_mask": np.array([True, False, False])})
    second = env.reset()
    assert (first[0] != second[0]).any()
    np.testing.assert_array_equal(first[1:], second[1:])
    assert (env.reset()[1:] != second[1:]).any()
    env.set_options({"mask": 1})
    with raises_naming("option 'mask'"):
        env.reset()


def test_worlds_that_go_bad_are_told():
    pytest.importorskip("gymnasium")
    pytest.importorskip("stable_baselines3")
    from sim.envs.adapters.gymnasium import GymnasiumVectorEnv
    from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv

    envs = [sim.envs.make("CartpoleSwingup", 3, device="cpu", seed=0) for _ in range(2)]
    theirs, others = GymnasiumVectorEnv(envs[0]), StableBaselines3VecEnv(envs[1])
    theirs.reset(), others.reset()
    action = np.zeros((3, 1), np.float32)
    assert "not_finite" not in theirs.step(action)[-1]
    others.step(action)
    action[1] = np.nan
    info = theirs.step(action)[-1]
    assert info["not_finite"].tolist() == info["_not_finite"].tolist() == [False, True, False]
    infos = others.step(action)[-1]
    assert infos[1]["not_finite"]
    assert not infos[0]


def test_seeds_of_gymnasium_may_be_several():
    pytest.importorskip("gymnasium")
    from sim.envs.adapters.gymnasium import GymnasiumVectorEnv

    env = GymnasiumVectorEnv(sim.envs.make("CartpoleSwingup", 2, device="cpu", seed=0))
    first, _ = env.reset(seed=4)
    for seeds in ([4, 5], (4, 5)):
        np.testing.assert_array_equal(env.reset(seed=seeds)[0], first)
    with raises_naming("seed", "[]", "whole"):
        env.reset(seed=[])


def remembering(**options) -> sim.envs.VectorEnv:
    """Environments with groups of observations, and names of rewards and failures; some fail in their fifth step."""
    return sim.envs.VectorEnv(Pressed(), 4, device="cpu", seed=0, **options)


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_gymnasium_gets_groups_and_names(mode):
    pytest.importorskip("gymnasium")
    from gymnasium.wrappers.vector import DictInfoToList

    from sim.envs.adapters.gymnasium import GymnasiumVectorEnv

    env = GymnasiumVectorEnv(remembering(autoreset_mode=mode))
    listed = DictInfoToList(env)
    observation, _ = listed.reset(seed=1)
    ended = np.zeros(4, bool)
    for _ in range(9):
        assert env.observation_space.contains(observation)
        assert observation["queue"].shape == (4, 2, 2)
        observation, _, terminated, truncated, infos = listed.step(np.full((4, 2), 0.4))
        for number in np.flatnonzero(terminated | truncated):
            assert set(infos[number]["reward_terms"]) == {"track", "press", "smooth"}
            assert infos[number]["failures"] == {"far": terminated[number], "turned": False}
            if mode == "same_step":
                assert env.single_observation_space.contains(infos[number]["final_obs"])
        assert not any("reward_terms" in infos[number] for number in np.flatnonzero(~(terminated | truncated)))
        ended |= terminated | truncated
    assert ended.all()


def test_stable_baselines3_gets_groups_and_names():
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO

    from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv

    env = StableBaselines3VecEnv(remembering())
    observation = env.reset()
    assert env.observation_space.contains({name: value[0] for name, value in observation.items()})
    ended = 0
    for _ in range(9):
        _, _, done, infos = env.step(np.full((4, 2), 0.4, np.float32))
        for number in np.flatnonzero(done):
            assert env.observation_space.contains(infos[number]["terminal_observation"])
            assert infos[number]["failures"]["far"] is not infos[number]["TimeLimit.truncated"]
            total = sum(infos[number]["reward_terms"].values())
            assert total == pytest.approx(infos[number]["episode"]["r"], rel=1e-5)
        ended += done.sum()
    assert ended >= 4
    model = PPO("MultiInputPolicy", env, n_steps=16, batch_size=32, n_epochs=2, seed=0, device="cpu")
    model.learn(128)
    assert model.predict(env.reset(), deterministic=True)[0].shape == (4, 2)


def test_rsl_rl_gets_groups_and_logs_names(tmp_path, capsys):
    """Its critic sees another group than its actor, and its log has the means of the terms."""
    pytest.importorskip("rsl_rl")
    from rsl_rl.runners import OnPolicyRunner

    from sim.envs.adapters.rsl_rl import RslRlVecEnv

    env = RslRlVecEnv(remembering())
    network = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
    noise = {"class_name": "GaussianDistribution", "init_std": 0.3, "std_type": "scalar"}
    settings = {
        "num_steps_per_env": 12,
        "save_interval": 1,
        "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
        "actor": {**network, "distribution_cfg": noise},
        "critic": network,
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 1, "num_mini_batches": 1},
    }
    runner = OnPolicyRunner(env, settings, log_dir=str(tmp_path))
    runner.learn(1)
    said = capsys.readouterr().out
    assert "reward/track" in said
    assert "end/far" in said
    assert {name: value.shape for name, value in env.get_observations().items()} == {
        "policy": (4, 13), "critic": (4, 14), "queue": (4, 2, 2),
    }  # fmt: skip
    with torch.no_grad():
        assert runner.alg.critic(env.get_observations()).shape == (4, 1)


def test_skrl_learns(tmp_path):
    """Its PPO trains a policy, whose critic sees the group "critic", and logs the means of the terms."""
    pytest.importorskip("skrl")
    from sim.envs.adapters.skrl import SkrlEnv

    env = SkrlEnv(remembering())
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
    from skrl.trainers.torch import SequentialTrainer, SequentialTrainerCfg

    spaces = {"observation_space": env.observation_space, "state_space": env.state_space, "device": env.device}

    class Actor(GaussianMixin, Model):
        def __init__(self):
            Model.__init__(self, action_space=env.action_space, **spaces)
            GaussianMixin.__init__(self)
            self.net = torch.nn.Linear(self.num_observations, self.num_actions)
            self.deviation = torch.nn.Parameter(torch.zeros(self.num_actions))

        def compute(self, inputs, role):
            return self.net(inputs["observations"]), {"log_std": self.deviation}

    class Critic(DeterministicMixin, Model):
        def __init__(self):
            Model.__init__(self, action_space=env.action_space, **spaces)
            DeterministicMixin.__init__(self)
            self.net = torch.nn.Linear(self.num_states, 1)

        def compute(self, inputs, role):
            return self.net(inputs["states"]), {}

    settings = PPO_CFG(rollouts=16, learning_epochs=1)
    settings.experiment.directory = str(tmp_path)
    memory = RandomMemory(memory_size=16, num_envs=4, device=env.device)
    agent = PPO(
        models={"policy": Actor(), "value": Critic()},
        memory=memory,
        cfg=settings,
        action_space=env.action_space,
        **spaces,
    )
    logged, track = [], agent.track_data
    agent.track_data = lambda name, value: (logged.append(name), track(name, value))
    before = agent.policy.net.weight.clone()
    run = SequentialTrainerCfg(timesteps=48, headless=True, disable_progressbar=True, close_environment_at_exit=False)
    trainer = SequentialTrainer(env=env, agents=agent, cfg=run)
    trainer.train()
    assert not torch.equal(agent.policy.net.weight, before)
    assert any("reward/track" in name for name in logged)


def test_skrl_is_told_how_episodes_end():
    """A time limit is none where the time is final; then it is a failure. Another mode of resets is an error."""
    pytest.importorskip("skrl")
    from sim.envs.adapters.skrl import SkrlEnv

    for name, followed in (("CartpoleSwingup", True), ("Pendulum-1", False)):
        env = SkrlEnv(sim.envs.make(name, 2, device="cpu", seed=0))
        first, _ = env.reset()
        env._env.episode_length_buf = torch.tensor([env.max_episode_length - 1, 0])
        seen, _, terminated, truncated, _ = env.step(torch.zeros(2, 1))
        assert terminated[:, 0].tolist() == [not followed, False]
        assert truncated[:, 0].tolist() == [followed, False]
        assert torch.equal(env.reset()[0], seen)
        assert not torch.equal(seen, first)
        assert env.state() is env.state_space is None
    with raises_naming("skrl", "same_step", "disabled"):
        SkrlEnv(sim.envs.make("Pendulum-1", 1, device="cpu", autoreset_mode="disabled"))
