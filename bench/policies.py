"""Policies trained with all seeds, compared with PPO and SAC; those of robots are played in MuJoCo.

    python -m bench.policies --json bench/results/policies_cpu.json
    python -m bench.policies --tasks Pendulum-1 Ant --seeds 5 --json out/policies.json

Trainings in the file aren't repeated. Returns are means over 64 episodes of the deterministic policy. Seconds are
processor time with one thread.
"""

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import warp as wp
from tqdm import tqdm

from bench.baselines import ALGORITHMS, train_baseline
from bench.curves import thinned
from bench.timing import machine
from bench.trainings import Trainings
from examples.rl.transfer import here, in_mujoco
from sim.envs import make_task
from sim.learn import Learner, evaluate, make_learner, run
from sim.learn.evaluation import Actor

ROBOTS = ("Ant", "Hopper", "HalfCheetah", "Humanoid")
POINTS = 40  # of a learning curve that are kept
SUBSTEPS = 8  # of a pendulum, by default


@dataclass(frozen=True)
class Case:
    """A training.

    Attributes:
        task: name of the environment.
        method: "apg" or "shac" of :mod:`sim.learn`; "unlimited", SHAC without a limit of the adjoint; "none",
            "jacobian", "near" (the same, weighted by equation 16) or "simulated", what enhances the policy's gradient
            in :mod:`sim.learn.sac`; "ppo" or "sac" of :mod:`bench.baselines`.
        minutes: maximum time.
        iterations: maximum number, for methods that have one.
        law: contact law of robots, "hard" or "mujoco".
        substeps: steps of the simulation for each action, for pendulums; the paper has 1.
        most_seeds: maximum number of trainings.
    """

    task: str
    method: str
    minutes: float
    iterations: int = 0
    law: str = "hard"
    substeps: int = SUBSTEPS
    most_seeds: int = 5

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Key that identifies the case."""
        return (self.task, self.method, self.law, self.substeps)

    @property
    def is_pendulum(self) -> bool:
        """True if it lifts a pendulum."""
        return self.task.startswith("Pendulum")

    @property
    def task_options(self) -> dict[str, Any]:
        """Options of the task."""
        if self.is_pendulum:
            return {"substeps": self.substeps}
        return {"law": self.law} if self.task in ROBOTS else {}


APG_ITERATIONS = {1: 200, 2: 200, 3: 400, 4: 400, 5: 400, 6: 400, 7: 1000}
ENHANCEMENTS: dict[str, dict[str, Any]] = {
    "none": {},
    "jacobian": {"enhance": "jacobian"},
    "near": {"enhance": "jacobian", "near": True},
    "simulated": {"enhance": "simulated"},
}
ENHANCED_MINUTES = {1: 3.0, 2: 6.0, 3: 6.0, 4: 10.0}
CASES = [
    *(
        Case(f"Pendulum-{links}", "apg", 10.0, APG_ITERATIONS[links], substeps=substeps)
        for substeps in (SUBSTEPS, 1)
        for links in range(1, 8)
    ),
    *(
        Case(f"Pendulum-{links}", method, minutes, most_seeds=1 if links == 4 else 5)
        for links, minutes in ENHANCED_MINUTES.items()
        for method in ENHANCEMENTS
    ),
    Case("CartpoleSwingup", "shac", 3.0, 500),
    *(Case("CartpoleSwingup", method, 5.0) for method in ALGORITHMS),
    Case("PandaReach", "shac", 5.0, 300),
    *(Case(robot, method, 5.0, 400) for robot in ROBOTS[:3] for method in ("shac", *ALGORITHMS)),
    Case("Ant", "unlimited", 5.0, 400, most_seeds=2),
    *(Case(robot, method, 5.0, 400, "mujoco") for robot in ROBOTS[:3] for method in ("shac", "ppo")),
]
TASKS = list(dict.fromkeys(case.task for case in CASES))
METHODS = list(dict.fromkeys(case.method for case in CASES))
LAWS = ("hard", "mujoco")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("out/bench/policies.json"), help="add the records there")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each task (1)")
    parser.add_argument("--tasks", nargs="*", default=TASKS, help="which (all)")
    parser.add_argument("--methods", nargs="*", default=METHODS, help=f"of {', '.join(METHODS)} (all)")
    parser.add_argument("--laws", nargs="*", default=LAWS, help=f"of contact, of {', '.join(LAWS)} (all)")
    steps = (SUBSTEPS, 1)
    parser.add_argument("--substeps", type=int, nargs="*", default=steps, help="of pendulums, of 8 and 1 (both)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    order = [case.key for case in CASES]
    trainings = Trainings(
        options.json,
        key_of=lambda row: (*key_of(row), row["seed"]),
        order=lambda row: (order.index(key_of(row)), row["seed"]),
    )
    asked: dict[str, Sequence[Any]] = {
        "task": options.tasks, "method": options.methods, "law": options.laws, "substeps": options.substeps
    }  # fmt: skip
    chosen = [case for case in CASES if all(getattr(case, name) in values for name, values in asked.items())]
    wanted = [(case, seed) for case in chosen for seed in range(min(options.seeds, case.most_seeds))]
    left = [(case, seed) for case, seed in wanted if (*case.key, seed) not in trainings]
    for case, seed in tqdm(left, unit="training"):
        trainings.add(measure(case, seed))


def key_of(row: dict[str, Any]) -> tuple[str, str, str, int]:
    """Return the key of a record's case."""
    return (row["task"], row["method"], row.get("law", "hard"), row.get("substeps", SUBSTEPS))


def measure(case: Case, seed: int) -> dict[str, Any]:
    """Train, and play the policy."""
    policy, figures = (train_baseline_of if case.method in ALGORITHMS else train_ours)(case, seed)
    found = evaluate(policy, make_task(case.task, **case.task_options), device="cpu")
    row: dict[str, Any] = {
        "task": case.task,
        "seed": seed,
        "method": case.method,
        "law": case.law,
        "processor": machine()["processor"],
        **figures,
        "return": float(found.returns.mean()),
        "deviation": float(found.returns.std(ddof=1)),
        "length": float(found.lengths.mean()),
    }
    if case.task == "CartpoleSwingup":
        row["upright"] = float((found.observation[:, 3] > 0.9).mean())
    if case.is_pendulum:
        fine = evaluate(policy, make_task(case.task, substeps=4 * case.substeps), device="cpu")
        row["substeps"] = case.substeps
        row["return_with_quarter_steps"] = float(fine.returns.mean())
    if case.task in ROBOTS:
        engines = {
            "here": here(policy, case.task, case.task_options, seed),
            "mujoco": in_mujoco(policy, case.task, seed),
        }
        for engine, figures in engines.items():
            row[engine] = {name: float(values.mean()) for name, values in figures.items()}
    return row


def train_ours(case: Case, seed: int) -> tuple[Actor, dict[str, Any]]:
    """Train with gradients through the simulator."""
    torch.set_num_threads(1)
    learner = learner_of(case, seed)
    # Processor time with one thread: other work on the machine doesn't shorten a training.
    training = run(learner, seconds=60.0 * case.minutes, clock=time.process_time)
    returns = training.figures["return"]
    figures = {
        "envs": learner.env.num_envs,
        "steps": int(training.steps[-1]),
        "seconds": round(float(training.seconds[-1]), 1),
        # Mean over ended episodes, if there are any.
        "greatest": None if np.isnan(returns).all() else float(np.nanmax(returns)),
        "curve": thinned(training.steps, training.seconds, returns, POINTS),
    }
    return learner.result, figures


def train_baseline_of(case: Case, seed: int) -> tuple[Actor, dict[str, Any]]:
    """Train without gradients through the simulator."""
    found = train_baseline(case.method, case.task, case.task_options, 60.0 * case.minutes, seed)
    steps, seconds, returns = np.array(found.points).reshape(-1, 3).T
    curve = thinned(steps, seconds, returns, POINTS)
    figures = {"envs": found.envs, "steps": found.steps, "seconds": round(found.seconds, 1), "curve": curve}
    return found.policy, figures


def learner_of(case: Case, seed: int) -> Learner:
    """Make the learner of a case."""
    algorithm = {"unlimited": "shac", **dict.fromkeys(ENHANCEMENTS, "sac")}.get(case.method, case.method)
    chosen: dict[str, Any] = {"adjoint_clip": math.inf} if case.method == "unlimited" else {}
    task = make_task(case.task, **case.task_options)
    options: dict[str, Any] = {"iterations": case.iterations or math.inf, "seed": seed, "device": "cpu", "threads": 1}
    return make_learner(task, algorithm, **options, **chosen, **ENHANCEMENTS.get(case.method, {}))


if __name__ == "__main__":
    main()
