"""Plays a trained policy in MuJoCo, in gymnasium's version 5 of its task, and here.

    python -m examples.rl.shac Ant --law mujoco --minutes 10 --out out/ant
    python -m examples.rl.transfer out/ant/policy.pt

Prints return, length and speed of episodes of the deterministic policy, with the mean and standard deviation over 20
starts each. A policy trained on hard contacts acts differently on MuJoCo's soft ones; one trained on these (--law
mujoco) acts much as it did here. The cost of contact forces is excluded in both.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from examples.options import command, program
from sim.envs import make
from sim.errors import ModelError
from sim.learn import load_policy
from sim.learn.evaluation import Actor

EPISODES = 20
TASKS = ("Ant", "Hopper", "HalfCheetah", "Humanoid")
Figures = dict[str, np.ndarray]


@torch.no_grad()
def here(policy: Actor, task: str, task_options: Mapping[str, Any], seed: int) -> Figures:
    """Return returns, lengths and mean speeds along x of episodes in this simulator."""
    env = make(task, EPISODES, device="cpu", seed=seed, **task_options)
    observation, _ = env.reset()
    first = env.state.q[:, 0].clone()
    returns, lengths, positions = (torch.zeros(EPISODES) for _ in range(3))
    running = torch.ones(EPISODES, dtype=torch.bool)
    while bool(running.any()):
        before = env.state.q[:, 0].clone()
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        returns += reward * running
        lengths += running
        ended = terminated | truncated
        # An ended episode has the position of the previous step: the next episode has already begun.
        positions = torch.where(running, torch.where(ended, before, env.state.q[:, 0]), positions)
        running &= ~ended
    speed = (positions - first) / (lengths * env.step_dt)
    return {"return": returns.numpy(), "length": lengths.numpy(), "speed": speed.numpy()}


@torch.no_grad()
def in_mujoco(policy: Actor, task: str, seed: int) -> Figures:
    """Return the same in gymnasium's own task."""
    import gymnasium

    options: dict[str, Any] = {} if task in ("Hopper", "HalfCheetah") else {"contact_cost_weight": 0.0}
    env = gymnasium.make(f"{task}-v5", **options)
    found: dict[str, list[float]] = {"return": [], "length": [], "speed": []}
    for number in tqdm(range(EPISODES), desc="episodes in MuJoCo", unit="episode"):
        observation, _ = env.reset(seed=seed + number)
        state = env.unwrapped.data  # type: ignore[attr-defined]
        first, total, length, ended = float(state.qpos[0]), 0.0, 0, False
        while not ended:
            seen = torch.as_tensor(observation[: policy.num_observations], dtype=torch.float32)
            observation, reward, terminated, truncated, _ = env.step(policy(seen[None])[0].numpy())
            total, length, ended = total + float(reward), length + 1, terminated or truncated
        found["return"].append(total)
        found["length"].append(length)
        found["speed"].append((float(state.qpos[0]) - first) / (length * env.unwrapped.dt))  # type: ignore[attr-defined]
    return {name: np.array(values) for name, values in found.items()}


@command
def main() -> None:
    """Play a policy and print the results."""
    parser = argparse.ArgumentParser(
        prog=program(), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("policy", type=Path, help="policy.pt of a training")
    parser.add_argument("--seed", type=int, default=0, help="of the first start (0)")
    options = parser.parse_args()
    policy, task, task_options = load_policy(options.policy)
    if task not in TASKS:
        raise ModelError(f"{options.policy}: '{task}' is not a task of gymnasium; train one of {', '.join(TASKS)}")
    for engine, figures in (
        ("here", here(policy, task, task_options, options.seed)),
        ("MuJoCo", in_mujoco(policy, task, options.seed)),
    ):
        texts = [f"{name} {values.mean():.4g} ± {values.std():.2g}" for name, values in figures.items()]
        print(f"{engine:7} {', '.join(texts)} m/s")


if __name__ == "__main__":
    main()
