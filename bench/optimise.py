"""Optimisation examples on many random targets: number of targets reached, and number of iterations.

python -m bench.optimise --json bench/results/optimise_cpu.json
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import warp as wp
from tqdm import tqdm

from bench.report import write_json
from bench.timing import machine
from examples import friction, golf, throw
from examples.torques import Result
from scenes import golf as golf_scene
from scenes import racecar
from scenes import throw as throw_scene

ITERATIONS = 50  # maximum number of iterations; friction has 20
STOPS = np.linspace(0.3, 1.2, 10)  # stopping distances of the racecar [m]


@dataclass(frozen=True)
class Trial:
    """One target.

    Attributes:
        problem: "throw", "throw --settle", "golf" or "friction".
        seed: seed of the random target; None if it is not random.
        target: target of the ball or the car [m].
        hit: True if the distance fell below the goal.
        iterations: number of iterations.
        off: distance from the target in the best iteration [m].
        seconds: time taken.
    """

    problem: str
    seed: int | None
    target: list[float]
    hit: bool
    iterations: int
    off: float
    seconds: float


def torque_trials(
    problem: str, seed: int, targets: np.ndarray, solve: Callable[[np.ndarray], Result]
) -> Iterator[Trial]:
    """Solve for the targets of [n, 2 or 3], one after the other."""
    for target in targets:
        result = solve(target)
        yield Trial(
            problem, seed, target.tolist(), result.hit, len(result.distances) - 1, min(result.distances),
            result.seconds,
        )  # fmt: skip


def friction_trials(device: str) -> Iterator[Trial]:
    """Estimate the friction for each of :data:`STOPS`."""
    scene = racecar.build()
    for stop in STOPS:
        result = friction.estimate(scene, float(stop), 20, device)
        off = result.distances[-1]
        yield Trial(
            "friction", None, [float(stop)], off < friction.GOAL, len(result.distances) - 1, off, result.seconds
        )


def all_trials(device: str, count: int) -> Iterator[Trial]:
    """Run all problems, each with ``count`` targets per seed."""
    for seed in range(8):
        yield from torque_trials(
            "throw", seed, throw_scene.random_targets(seed, count),
            lambda at: throw.optimise(throw_scene.build((at[0], at[1], at[2])), ITERATIONS, device, bar=False),
        )  # fmt: skip
    for seed in range(4):
        yield from torque_trials(
            "throw --settle", seed, throw_scene.random_positions(seed, count),
            lambda at: throw.settle(throw_scene.build_settling((at[0], at[1])), ITERATIONS, device, bar=False),
        )  # fmt: skip
    for seed in range(2):
        yield from torque_trials(
            "golf", seed, golf_scene.random_targets(seed, count),
            lambda at: golf.optimise(golf_scene.build((at[0], at[1])), ITERATIONS, device, bar=False),
        )  # fmt: skip
    yield from friction_trials(device)


def warm_up(device: str) -> None:
    """Compile and load the kernels, so that no trial's time includes it."""
    throw.optimise(throw_scene.build(), 1, device, bar=False)
    golf.optimise(golf_scene.build(), 1, device, bar=False)
    friction.estimate(racecar.build(), 0.8, 1, device)


def main() -> None:
    options = parse()
    wp.config.log_level = wp.LOG_WARNING
    info, begun = machine(), time.perf_counter()
    warm_up(options.device)
    trials = []
    for trial in tqdm(all_trials(options.device, options.targets), unit="target"):
        trials.append(trial)
        if not trial.hit:
            tqdm.write(f"{trial.problem}, seed {trial.seed}: {np.round(trial.target, 3)} missed by {trial.off:.3f} m")
    print(f"{sum(trial.hit for trial in trials)} of {len(trials)} reached, {time.perf_counter() - begun:.0f} s")
    if options.json is not None:
        command = f"python -m bench.optimise --targets {options.targets}"
        record = {"machine": info, "command": command, "trials": [asdict(trial) for trial in trials]}
        write_json(options.json, record)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the trials to this file")
    parser.add_argument("--targets", type=int, default=10, help="number of targets per problem and seed (10)")
    parser.add_argument("--device", default="cpu", help="Warp device (cpu)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
