"""Trains policies with all seeds, and plays those of robots in MuJoCo.

    python -m bench.policies --json bench/results/policies_cpu.json
    python -m bench.policies --tasks Pendulum-1 Ant --seeds 5 --json out/policies.json

What the file already has isn't trained again. Returns are means over 64 episodes without randomness in the policy.
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import warp as wp
from tqdm import tqdm

from bench.timing import machine
from examples.resume import Progress
from examples.rl import apg, shac
from examples.rl.training import Learner, evaluate, train
from examples.rl.transfer import here, in_mujoco
from sim.envs import make
from sim.output import write_text

ROBOTS = ("Ant", "Hopper", "HalfCheetah", "Humanoid")


@dataclass(frozen=True)
class Case:
    """A training.

    Attributes:
        task: name of the environment.
        iterations: most of them.
        minutes: longest time.
    """

    task: str
    iterations: int
    minutes: float = math.inf


CASES = [
    *(Case(f"Pendulum-{links}", 200 if links < 4 else 400, 10.0) for links in range(1, 8)),
    Case("CartpoleSwingup", 260),
    *(Case(robot, 400, 5.0) for robot in ROBOTS[:3]),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("out/bench/policies.json"), help="add the records there")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each task (1)")
    parser.add_argument("--tasks", nargs="*", default=[case.task for case in CASES], help="which (all)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    record: dict[str, Any] = {"machine": machine(), "rows": []}
    if options.json.is_file():
        record = json.loads(options.json.read_text())
    options.json.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["task"], row["seed"]) for row in record["rows"]}
    wanted = [(case, seed) for case in CASES if case.task in options.tasks for seed in range(options.seeds)]
    for case, seed in tqdm([each for each in wanted if (each[0].task, each[1]) not in done], unit="training"):
        record["rows"].append(measure(case, seed))
        record["rows"].sort(key=lambda row: ([case.task for case in CASES].index(row["task"]), row["seed"]))
        write_text(options.json, json.dumps(record, indent=1) + "\n")


def measure(case: Case, seed: int) -> dict[str, Any]:
    """Train, and play."""
    pendulum = case.task.startswith("Pendulum")
    learner = pendulum_learner(case, seed) if pendulum else shac.learner_of(case.task, case.iterations, seed)
    horizon = learner.env.max_episode_length if pendulum else learner.settings.horizon  # type: ignore[attr-defined]
    training = train(learner, case.iterations, 60.0 * case.minutes, horizon, Progress(None, {}))
    policy = learner.best if isinstance(learner, apg.AnalyticPolicyGradient) else learner.policy
    found = evaluate(policy, case.task, {}, "cpu")
    row: dict[str, Any] = {
        "task": case.task,
        "seed": seed,
        "method": "apg" if pendulum else "shac",
        "envs": learner.env.num_envs,
        "steps": int(training.steps[-1]),
        "seconds": round(float(training.seconds[-1]), 1),
        "return": float(found["returns"].mean()),
        "deviation": float(found["returns"].std()),
        "length": float(found["lengths"].mean()),
    }
    if case.task == "CartpoleSwingup":
        row["upright"] = float((found["observation"][:, 3] > 0.9).float().mean())
    if case.task in ROBOTS:
        for place, figures in (("here", here(policy, case.task, seed)), ("mujoco", in_mujoco(policy, case.task, seed))):
            row[place] = {name: float(values.mean()) for name, values in figures.items()}
    return row


def pendulum_learner(case: Case, seed: int) -> Learner:
    """As ``python -m examples.rl.apg`` makes it."""
    torch.manual_seed(seed)
    env = make(case.task, 16, device="cpu", differentiable=True)
    return apg.AnalyticPolicyGradient(env, case.iterations, rate=2e-3, deviation=0.1, seed=seed)


if __name__ == "__main__":
    main()
