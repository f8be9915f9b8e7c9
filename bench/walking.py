"""Policies of legged robots: errors over the processor time of training, and in MuJoCo.

    python -m bench.walking --seeds 5 --json bench/results/walking_cpu.json

Trainings in the file aren't repeated. The processes that train a policy have one thread each; seconds are the processor
time of each of them. Every 20 seconds the policy is kept, and later played without randomness
(:mod:`examples.rl.walk`): 64 random commands of five seconds.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import warp as wp
from tqdm import tqdm

from bench.timing import machine
from bench.trainings import Trainings, keep_policies
from examples.rl.walk import SECONDS, Engine, Walk, follow, here, in_mujoco, random_commands
from sim.envs import Task, VelocityTask, make_task
from sim.learn import Policy, load_policy, make_learner, processes


class Case(NamedTuple):
    """Extent of a measurement: trainings of a task, and their processes.

    Attributes:
        seeds: most trainings, with different seeds.
        processes: number of processes.
        envs: environments in each process.
        minutes: greatest processor time of each process.
        iterations: greatest number, over which SHAC's learning rates fall.
    """

    seeds: int
    processes: int = 2
    envs: int = 256
    minutes: float = 2.0
    iterations: float = math.inf


# Tasks with options; the others have the names of their classes.
ON_TERRAIN = {"QuadrupedRough": ("QuadrupedVelocity", {"terrain": "rough"})}
# Of each task, contact law and algorithm.
CASES = {
    ("QuadrupedVelocity", "hard", "ppo"): Case(5),
    ("QuadrupedVelocity", "mujoco", "ppo"): Case(2),
    ("QuadrupedVelocity", "hard", "shac"): Case(1),
    ("QuadrupedRough", "hard", "ppo"): Case(5, processes=1, envs=512, minutes=10.0),
    ("Go2Velocity", "hard", "ppo"): Case(1, processes=1, envs=512, minutes=4.0),
    ("Go2Velocity", "mujoco", "ppo"): Case(5, processes=1, envs=512, minutes=4.0),
    ("G1Velocity", "mujoco", "shac"): Case(5, processes=1, envs=128, minutes=5.0, iterations=210),
    ("G1Velocity", "mujoco", "ppo"): Case(5, processes=1, envs=512, minutes=8.0),
}
TASKS, LAWS, ALGORITHMS = (list(dict.fromkeys(parts)) for parts in zip(*CASES, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("out/bench/walking.json"), help="add the records there")
    parser.add_argument("--seeds", type=int, default=1, help="most trainings of each kind (1)")
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=TASKS, help=f"of {', '.join(TASKS)} (all)")
    parser.add_argument("--laws", nargs="*", choices=LAWS, default=LAWS, help=f"of contact, of {', '.join(LAWS)} (all)")
    names = f"of {', '.join(ALGORITHMS)} (all)"
    parser.add_argument("--algorithms", nargs="*", choices=ALGORITHMS, default=ALGORITHMS, help=names)
    parser.add_argument("--policies", type=Path, help="keep each training's last policy in this folder")
    parser.add_argument("--train", nargs=5, help=argparse.SUPPRESS)  # a process of a training: its key, and its folder
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    if options.train is not None:
        task, law, algorithm, seed, folder = options.train
        train(task, law, algorithm, int(seed), Path(folder))
        return
    trainings = Trainings(options.json, key_of=key_of, order=lambda row: (list(CASES).index(case_of(row)), row["seed"]))
    asked = (options.tasks, options.laws, options.algorithms)
    chosen = [key for key in CASES if all(part in parts for part, parts in zip(key, asked, strict=True))]
    wanted = [(*key, seed) for key in chosen for seed in range(min(CASES[key].seeds, options.seeds))]
    for key in tqdm([each for each in wanted if each not in trainings], unit="training"):
        trainings.add(measure(*key, kept=options.policies))


def case_of(row: dict[str, Any]) -> tuple[str, str, str]:
    """Return what trainings with different seeds have in common."""
    return (row["task"], row["law"], row["algorithm"])


def key_of(row: dict[str, Any]) -> tuple[str, str, str, int]:
    """Return the key of a training."""
    return (*case_of(row), row["seed"])


def options_of(name: str, law: str) -> tuple[str, dict[str, Any]]:
    """Return the class and the arguments of a task."""
    kind, given = ON_TERRAIN.get(name, (name, {}))
    return kind, {"law": law, **given}


def train(name: str, law: str, algorithm: str, seed: int, folder: Path) -> None:
    """Train in one of several processes; the first one writes a policy every 20 seconds, and the times."""
    processes.join("cpu")
    case, (kind, given) = CASES[name, law, algorithm], options_of(name, law)
    task = make_task(kind, **given)
    learner = make_learner(
        task, algorithm, iterations=case.iterations, seed=seed, device="cpu", threads=1, envs=case.envs
    )
    keep_policies(learner, folder, kind, given, minutes=case.minutes, iterations=case.iterations)


def measure(name: str, law: str, algorithm: str, seed: int, *, kept: Path | None = None) -> dict[str, Any]:
    """Train in the processes of the case, and play the policies; keep the last one in a folder, if there is one."""
    count, load = CASES[name, law, algorithm].processes, [os.getloadavg()[0]]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(count), "-m", "bench.walking"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        chosen = ["--train", name, law, algorithm, str(seed), made]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
        subprocess.run([sys.executable, *launch, *chosen], check=True, env=environment)
        times = json.loads((folder / "times.json").read_text())
        files = [folder / f"{k}.pt" for k in range(len(times["steps"]))]
        policies = [load_policy(file)[0] for file in files]
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(files[-1], kept / f"{name}-{law}-{algorithm}-{seed}.pt")
    kind, given = options_of(name, law)
    task = make_task(kind, **given)
    key = {"task": name, "law": law, "algorithm": algorithm, "seed": seed, "processor": machine()["processor"]}
    load.append(os.getloadavg()[0])
    return {**key, "load": load, "processes": count, **times, **results(policies, task)}


def results(policies: Sequence[Policy], task: Task) -> dict[str, Any]:
    """Play the policies of a training, and the last one in MuJoCo too."""
    assert isinstance(task, VelocityTask)
    walks = [played(policy, task, here(task)) for policy in policies]
    ours, other = walks[-1], played(policies[-1], task, in_mujoco(task))
    return {
        "speed_error": [round(walk.speed_error, 4) for walk in walks],
        "turn_error": [round(walk.turn_error, 4) for walk in walks],
        "here": figures(ours),
        "mujoco": figures(other),
        "difference": float(np.linalg.norm(ours.velocity - other.velocity, axis=-1).mean()),
    }


def played(policy: Policy, task: VelocityTask, engine: Engine) -> Walk:
    """Play a policy on random commands."""
    return follow(policy, task, random_commands(task), engine, SECONDS)


def figures(walk: Walk) -> dict[str, float]:
    """Return the figures of a record."""
    names = ("speed_error", "mean_speed_error", "turn_error", "falls")
    return {name: getattr(walk, name) for name in names}


if __name__ == "__main__":
    main()
