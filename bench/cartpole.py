"""Steps and time until a cart-pole swings up: with gradients through the simulator, PPO and SAC.

    python -m bench.cartpole --json bench/results/cartpole_cpu.json
    python -m bench.cartpole --methods sac --seeds 5 --minutes 60

A training counts as done once the mean return of its last episodes, with their random actions, reaches the goal.
Seconds are processor time with one thread. Trainings in the file aren't repeated.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import warp as wp

from bench.baselines import ALGORITHMS, train_baseline
from bench.timing import machine
from bench.trainings import Trainings
from sim.envs import make_task
from sim.learn import make_learner, run

TASK = "CartpoleSwingup"
GOAL = -550.0
METHODS = ("shac", *ALGORITHMS)
ITERATIONS = 500  # of SHAC, over which the learning rates fall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("out/bench/cartpole.json"), help="add the records there")
    parser.add_argument("--seeds", type=int, default=1, help="trainings by each method (1)")
    parser.add_argument("--methods", nargs="*", default=METHODS, help=f"of {', '.join(METHODS)} (all)")
    parser.add_argument("--minutes", type=float, default=30.0, help="longest time of one training (30)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    torch.set_num_threads(1)
    trainings = Trainings(
        options.json,
        key_of=lambda row: (row["method"], row["seed"]),
        order=lambda row: (METHODS.index(row["method"]), row["seed"]),
    )
    for method in options.methods:
        for seed in range(options.seeds):
            if (method, seed) not in trainings:
                trainings.add(measure(method, seed, 60.0 * options.minutes))


def measure(method: str, seed: int, seconds: float) -> dict[str, Any]:
    """Train. Returns steps, seconds and return at the goal, or the last ones."""
    if method == "shac":
        points = gradient_points(seed, seconds)
    else:
        found = train_baseline(method, TASK, {}, seconds, seed, goal=GOAL)
        # There is no return before the first episode ends.
        points = np.array(found.points or [(found.steps, found.seconds, -np.inf)])
    reached = np.flatnonzero(points[:, 2] >= GOAL)
    steps, spent, total = points[reached[0] if len(reached) else -1]
    return {
        "method": method,
        "seed": seed,
        "processor": machine()["processor"],
        "reached": bool(len(reached)),
        "steps": int(steps),
        "seconds": round(float(spent), 1),
        "return": round(float(total), 1) if np.isfinite(total) else None,
    }


def gradient_points(seed: int, seconds: float) -> np.ndarray:
    """Return steps, seconds and returns of a training with gradients through the simulator [iterations, 3]."""
    learner = make_learner(make_task(TASK), "shac", iterations=ITERATIONS, seed=seed, device="cpu", threads=1)
    training = run(learner, seconds=seconds, clock=time.process_time)
    returns = np.nan_to_num(training.figures["return"], nan=-np.inf)
    return np.stack([training.steps, training.seconds, returns], axis=1)


if __name__ == "__main__":
    main()
