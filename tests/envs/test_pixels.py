"""Tasks that observe pictures of cameras, through the environment and the forms of other libraries."""

import dataclasses

import numpy as np
import pytest
import torch

import sim
import sim.envs
from sim.envs.tasks.cartpole import CartpoleSwingup
from sim.model.frames import MountedCamera
from tests.errors import refuses

ALONG_Y = np.array([0.0, -4.0, 0.3, np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])
SHAPE = (1, 16, 24, 3)


class Watched(CartpoleSwingup):
    """The swing-up with pictures of the cart, whose colours and lights differ between episodes."""

    max_episode_length = 5

    def model(self):
        model = dataclasses.replace(super().model(), cameras=(MountedCamera("side", -1, ALONG_Y, 45.0),))
        self.cameras = sim.torch.Cameras(model, width=SHAPE[2], height=SHAPE[1])
        return model

    def sample_state(self, n, generator):
        looks = self.cameras.randomise(n, generator)
        return dataclasses.replace(super().sample_state(n, generator), data=looks._asdict())

    def observe(self, state):
        looks = sim.torch.Looks(**state.data)
        return {"policy": super().observe(state), "pixels": self.cameras.draw(state.q, looks).rgb}


def test_pictures_are_those_of_each_episodes_looks():
    """They stay uint8, and the last one of an episode has its looks, not those of the next."""
    env = sim.envs.VectorEnv(Watched(), num_envs=3, device="cpu", seed=0)
    assert env.observation_groups == {"policy": (5,), "pixels": SHAPE}
    seen, _ = env.reset()
    for _ in range(5):
        before = env.state
        expected = env.task.cameras.draw(before.q, sim.torch.Looks(**before.data)).rgb
        assert seen["pixels"].dtype == torch.uint8
        assert seen["policy"].dtype == torch.float32
        assert torch.equal(seen["pixels"], expected)
        seen, _, _, truncated, info = env.step(torch.ones(3, 1))
    assert truncated.all()
    assert len({picture.numpy().tobytes() for picture in expected}) == 3
    sky = info["final_obs"]["pixels"][:, 0, 0, 0]
    assert torch.equal(sky, expected[:, 0, 0, 0])
    assert (seen["pixels"][:, 0, 0, 0] != sky).any(dim=1).all()
    assert torch.equal(env.observe()["pixels"], seen["pixels"])


def test_a_group_of_pixels_passes_through_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    adapter = pytest.importorskip("sim.envs.adapters.gymnasium")
    envs = adapter.GymnasiumVectorEnv(sim.envs.VectorEnv(Watched(), num_envs=4, device="cpu", seed=0))
    assert envs.single_observation_space["pixels"] == gymnasium.spaces.Box(0, 255, SHAPE, np.uint8)
    assert envs.single_observation_space["policy"].dtype == np.float32
    observation, _ = envs.reset(seed=1)
    for _ in range(6):
        assert observation["pixels"].dtype == np.uint8
        assert observation["pixels"].shape == (4, *SHAPE)
        assert observation in envs.observation_space
        observation, _, _, truncated, info = envs.step(envs.action_space.sample())
        if truncated.any():
            assert info["final_obs"][0]["pixels"].dtype == np.uint8
    again, _ = envs.reset(seed=1)
    first, _ = envs.reset(seed=1)
    np.testing.assert_array_equal(again["pixels"], first["pixels"])


def test_stable_baselines3_gets_bytes():
    pytest.importorskip("stable_baselines3")
    adapter = pytest.importorskip("sim.envs.adapters.stable_baselines3")
    envs = adapter.StableBaselines3VecEnv(sim.envs.VectorEnv(Watched(), num_envs=2, device="cpu", seed=0))
    observation = envs.reset()
    assert envs.observation_space["pixels"].dtype == observation["pixels"].dtype == np.uint8
    for _ in range(5):
        observation, _, ended, infos = envs.step(np.zeros((2, 1), dtype=np.float32))
    assert ended.all()
    assert infos[0]["terminal_observation"]["pixels"].dtype == observation["pixels"].dtype == np.uint8


def test_images_stay_images():
    class Fickle(Watched):
        def observe(self, state):
            seen = super().observe(state)
            return seen if len(state.q) == 1 else {**seen, "pixels": seen["pixels"].float()}

    env = sim.envs.VectorEnv(Fickle(), num_envs=2, device="cpu", seed=0)
    refuses(env.reset, "'pixels' is of torch.float32; expected torch.uint8")
