"""Policies by the model-free algorithms of Stable-Baselines3, trained in the same environments for a given time.

PPO and SAC have the settings that Stable-Baselines3's own collection recommends for gymnasium's robots, with larger
batches of environments: PPO learns from 64 of them, SAC makes one update for each step of its 8.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize
from tqdm import tqdm

from sim.envs import make
from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv

FOREVER = 1_000_000_000  # steps; the time ends a training
PPO_SETTINGS: dict[str, Any] = {"n_steps": 64, "batch_size": 512, "n_epochs": 10, "gae_lambda": 0.95, "gamma": 0.99}
SAC_SETTINGS = {"learning_starts": 5000, "train_freq": 1, "gradient_steps": -1, "batch_size": 256, "gamma": 0.99}
ALGORITHMS: dict[str, tuple[type[BaseAlgorithm], int, dict[str, Any]]] = {
    "ppo": (PPO, 64, PPO_SETTINGS),
    "sac": (SAC, 8, SAC_SETTINGS),
}


class Deterministic:
    """Deterministic policy of a training, for observations as tensors.

    Args:
        model: the trained model.
        environments: its environments, which scale the observations.
    """

    def __init__(self, model: BaseAlgorithm, environments: VecNormalize):
        self._model, self._environments = model, environments
        self.num_observations = int(environments.observation_space.shape[0])  # type: ignore[index]

    def __call__(self, observation: torch.Tensor) -> torch.Tensor:
        """Return the actions [..., actions] for observations [..., observations]."""
        scaled = self._environments.normalize_obs(observation.numpy())
        action, _ = self._model.predict(scaled, deterministic=True)
        return torch.as_tensor(action)


class Clock(BaseCallback):
    """Callback that ends a training after some processor time or at a goal, with a progress bar.

    Args:
        seconds: processor time of the training.
        name: name of the progress bar.
        goal: mean return of the last 100 episodes that ends it.

    Attributes:
        points: steps, seconds and the mean return of the last 100 episodes, for each second after the first episode's
            end.
    """

    def __init__(self, seconds: float, name: str, goal: float = math.inf):
        super().__init__()
        self._goal = goal
        self.points: list[tuple[int, float, float]] = []
        self._start, self._seconds = time.process_time(), seconds
        self._bar = tqdm(total=round(seconds), desc=name, unit="s")

    def _on_step(self) -> bool:
        spent = time.process_time() - self._start
        episodes = self.model.ep_info_buffer
        if episodes and (not self.points or spent > self.points[-1][1] + 1.0):
            self.points.append((self.num_timesteps, spent, float(np.mean([each["r"] for each in episodes]))))
        self._bar.update(min(int(spent), self._bar.total) - self._bar.n)
        return spent < self._seconds and not (self.points and self.points[-1][2] >= self._goal)

    def _on_training_end(self) -> None:
        self._bar.close()


@dataclass(frozen=True)
class Trained:
    """Result of a training.

    Attributes:
        policy: the deterministic policy.
        envs: number of environments.
        steps: number of environment steps.
        seconds: processor time.
        points: points of its learning curve, see :class:`Clock`.
    """

    policy: Deterministic
    envs: int
    steps: int
    seconds: float
    points: list[tuple[int, float, float]]


def train_baseline(
    method: str, task: str, task_options: Mapping[str, Any], seconds: float, seed: int, goal: float = math.inf
) -> Trained:
    """Train by "ppo" or "sac" for some processor time, with one thread like the trainings it is compared with.

    goal: mean return of the last 100 episodes that ends the training earlier.
    """
    kind, envs, settings = ALGORITHMS[method]
    environments = VecNormalize(
        StableBaselines3VecEnv(make(task, envs, device="cpu", seed=seed, threads=1, **task_options)),
        gamma=settings["gamma"],
    )
    torch.set_num_threads(1)
    model = kind("MlpPolicy", environments, seed=seed, device="cpu", **settings)
    clock = Clock(seconds, f"{method} {task}", goal)
    start = time.process_time()
    model.learn(FOREVER, callback=clock)
    spent = time.process_time() - start
    environments.training = False
    return Trained(Deterministic(model, environments), envs, int(model.num_timesteps), spent, clock.points)
