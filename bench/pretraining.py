"""Ants trained by PPO here, in MuJoCo, and here first and then in MuJoCo; each is played in both.

    python -m bench.pretraining --json bench/results/pretraining_cpu.json
    python -m bench.pretraining --minutes 10 --seeds 5

As a control, the training in MuJoCo continues for the same time again: then both have trained equally long.
Environments here have MuJoCo's law of contact; those in MuJoCo are gymnasium's Ant-v5 without the cost of contact
forces and without these forces in its observations. Minutes are processor time with one thread. Trainings in the
file aren't repeated, unless another training continues from them.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import warp as wp
from gymnasium.wrappers import DtypeObservation
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from bench.ants_page import METHODS
from bench.baselines import ALGORITHMS, FOREVER, PPO_SETTINGS, Clock, Deterministic
from bench.timing import machine
from bench.trainings import Trainings
from examples.rl.transfer import here, in_mujoco
from sim.envs import make
from sim.envs.adapters.stable_baselines3 import StableBaselines3VecEnv

TASK = "Ant"
LAW: dict[str, Any] = {"law": "mujoco"}
ENVS = ALGORITHMS["ppo"][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("out/pretraining.json"), help="add the records there")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each kind (1)")
    parser.add_argument("--minutes", type=float, default=3.0, help="time in each simulator (3)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    trainings = Trainings(options.json, key_of=lambda row: (row["method"], row["seed"], row["minutes"]))
    for seed in range(options.seeds):
        for methods in ((METHODS[0], METHODS[3]), METHODS[1:3]):
            if not all((method, seed, options.minutes) in trainings for method in methods):
                for row in measure(methods, seed, options.minutes):
                    trainings.add(row)


def measure(methods: Sequence[str], seed: int, minutes: float) -> Iterator[dict[str, Any]]:
    """Train for a while, and continue in MuJoCo; the policy is played after both."""
    first = in_ours if methods[0] == "here" else in_theirs
    training = Training(first(seed), seed)
    for method in methods:
        if training.seconds:
            training.move(in_theirs(seed + 1000))
        training.learn(60.0 * minutes, f"{method}, seed {seed}")
        yield {"method": method, "seed": seed, "minutes": minutes, **training.played(seed)}


def in_ours(seed: int) -> VecEnv:
    """Make the environments of Backswing."""
    return StableBaselines3VecEnv(make(TASK, ENVS, device="cpu", seed=seed, threads=1, **LAW))


def in_theirs(seed: int) -> VecEnv:
    """Make the environments of gymnasium."""
    environments = DummyVecEnv([_one_of_theirs] * ENVS)
    environments.seed(seed)
    return environments


def _one_of_theirs() -> gymnasium.Env:
    options: dict[str, Any] = {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0.0}
    return Monitor(DtypeObservation(gymnasium.make(f"{TASK}-v5", **options), np.float32))


class Training:
    """PPO that can move from one simulator to another.

    Args:
        environments: its first environments.
        seed: seed of networks and random numbers.

    Attributes:
        seconds: processor time of the training.
        steps: number of environment steps, by the environments' class.
    """

    def __init__(self, environments: VecEnv, seed: int):
        self.environments = VecNormalize(environments, gamma=PPO_SETTINGS["gamma"])
        self.model = PPO("MlpPolicy", self.environments, seed=seed, device="cpu", **PPO_SETTINGS)
        self.seconds = 0.0
        self.steps: dict[str, int] = {}

    def move(self, environments: VecEnv) -> None:
        """Continue in other environments, with the learnt scales of observations and rewards."""
        moved = VecNormalize(environments, gamma=PPO_SETTINGS["gamma"])
        moved.obs_rms, moved.ret_rms = self.environments.obs_rms, self.environments.ret_rms
        self.environments = moved
        self.model.set_env(moved)

    def learn(self, seconds: float, name: str) -> None:
        """Train for some processor time."""
        begun, start = self.model.num_timesteps, time.process_time()
        self.environments.training = True
        self.model.learn(FOREVER, callback=Clock(seconds, name), reset_num_timesteps=False)
        self.environments.training = False
        self.seconds += time.process_time() - start
        engine = "here" if isinstance(self.environments.venv, StableBaselines3VecEnv) else "mujoco"
        self.steps[engine] = self.steps.get(engine, 0) + self.model.num_timesteps - begun

    def played(self, seed: int) -> dict[str, Any]:
        """Play the policy: steps so far, and mean and deviation of returns, lengths and speeds, here and in MuJoCo."""
        policy = Deterministic(self.model, self.environments)
        engines: dict[str, Callable[[], dict[str, Any]]] = {
            "here": lambda: here(policy, TASK, LAW, seed),
            "mujoco": lambda: in_mujoco(policy, TASK, seed),
        }
        found = {
            engine: {name: [float(values.mean()), float(values.std())] for name, values in play().items()}
            for engine, play in engines.items()
        }
        kept = {"processor": machine()["processor"], "seconds": round(self.seconds, 1), "steps": dict(self.steps)}
        return {**kept, **found}


if __name__ == "__main__":
    main()
