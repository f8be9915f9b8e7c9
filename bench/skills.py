"""Policies of robots that get up and of an arm that carries boxes: successes over the processor time of training.

    python -m bench.skills --seeds 5 --json bench/results/skills_cpu.json

Trainings in the file aren't repeated. A policy trains in one process with one thread; seconds are its processor time.
Every 20 seconds the policy is kept, and later played without randomness, the last one also in MuJoCo: 64 falls for four
seconds (:mod:`examples.rl.walk`), or 64 boxes for four seconds (:mod:`examples.rl.carry`).
"""

import argparse
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import warp as wp
from tqdm import tqdm

from bench.timing import machine
from bench.trainings import Trainings, keep_policies
from examples.rl import carry, walk
from sim.envs import GetUpTask, make_task
from sim.envs.tasks.pick import NEAR, PickAndPlace
from sim.learn import Policy, load_policy, make_learner

BOXES = 1000  # seed of the boxes that are played


class Case(NamedTuple):
    """Extent of the trainings of a task: most seeds, and processor time [min]."""

    seeds: int
    minutes: float


# Of each task and contact law, by PPO.
CASES = {
    ("QuadrupedGetUp", "hard"): Case(5, 10.0),
    ("Go2GetUp", "mujoco"): Case(5, 10.0),
    ("PickAndPlace", "mujoco"): Case(5, 3.0),
}
TASKS = [task for task, _ in CASES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("out/bench/skills.json"), help="add the records there")
    parser.add_argument("--seeds", type=int, default=1, help="most trainings of each task (1)")
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=TASKS, help=f"of {', '.join(TASKS)} (all)")
    parser.add_argument("--policies", type=Path, help="keep each training's policies in this folder")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    trainings = Trainings(options.json, key_of=key_of, order=lambda row: (list(CASES).index(case_of(row)), row["seed"]))
    chosen = [case for case in CASES if case[0] in options.tasks]
    wanted = [(*case, seed) for case in chosen for seed in range(min(CASES[case].seeds, options.seeds))]
    for key in tqdm([each for each in wanted if each not in trainings], unit="training"):
        trainings.add(measure(*key, kept=options.policies))


def case_of(row: dict[str, Any]) -> tuple[str, str]:
    """Return what trainings with different seeds have in common."""
    return (row["task"], row["law"])


def key_of(row: dict[str, Any]) -> tuple[str, str, int]:
    """Return the key of a training."""
    return (*case_of(row), row["seed"])


def measure(name: str, law: str, seed: int, *, kept: Path | None = None) -> dict[str, Any]:
    """Train and play the policies; keep them in a folder, if there is one."""
    load = [os.getloadavg()[0]]
    task = make_task(name, law=law)
    learner = make_learner(task, "ppo", iterations=math.inf, seed=seed, device="cpu", threads=1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) if kept is None else kept / f"{name}-{law}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        keep_policies(learner, folder, name, {"law": law}, minutes=CASES[name, law].minutes)
        times = json.loads((folder / "times.json").read_text())
        policies = [load_policy(folder / f"{k}.pt")[0] for k in range(len(times["steps"]))]
    played = [successes(policy, task, "here") for policy in policies]
    found = {"here": [share for share, _ in played], "mujoco": successes(policies[-1], task, "mujoco")[0]}
    if played[-1][1]:
        found["distance"] = played[-1][1]
    kind = {"task": name, "law": law, "algorithm": "ppo", "seed": seed, "processor": machine()["processor"]}
    return {**kind, "load": [*load, os.getloadavg()[0]], **times, **found}


def successes(policy: Policy, task: object, engine: str) -> tuple[float, float]:
    """Return the fraction of 64 robots that stand or boxes that are held at their targets, and the median distance of
    the boxes [m], or zero.
    """
    if isinstance(task, GetUpTask):
        return walk.rise(policy, task, (walk.here if engine == "here" else walk.in_mujoco)(task))[0], 0.0
    assert isinstance(task, PickAndPlace)
    last = (carry.here if engine == "here" else carry.in_mujoco)(policy, task, BOXES).distance[-1]
    return float((last < NEAR).mean()), float(np.median(last))


if __name__ == "__main__":
    main()
