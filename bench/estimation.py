"""Accuracy of estimated friction, restitution and masses: 256 boxes in a batch, and one box observed 200 times.

python -m bench.estimation --json bench/results/estimation_cpu.json

Both run the example ``estimate``, from the guesses to the intervals. The seconds include everything but the
observations.
"""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import warp as wp

from bench.report import write_json
from bench.timing import machine
from examples import box_motion, estimate
from scenes import box


@dataclass(frozen=True)
class Record:
    """Result of one run. Lists have an entry for each of ``unknowns``.

    Attributes:
        case: the case.
        boxes: number of boxes in the batch.
        observed: number of observed values per box.
        unknowns: names of the unknowns.
        starts: number of searches per box.
        iterations: number of iterations of all searches.
        searching: number of motions per box, on average, up to the best fits; those with derivatives count three.
        sampling: number of motions per box for the intervals.
        seconds: time taken.
        good: number of fits consistent with the noise.
        held: fraction of the 95 % intervals that contain the truth.
        deviation: stated standard deviation relative to the estimate, median over the boxes.
        spread: root mean square of error / stated standard deviation; 1 if the deviations are right.
        largest: largest error / stated standard deviation.
    """

    case: str
    boxes: int
    observed: int
    unknowns: list[str]
    starts: int
    iterations: int
    searching: float
    sampling: int
    seconds: float
    good: int
    held: list[float]
    deviation: list[float]
    spread: list[float]
    largest: list[float]


def measure(case: str, truth: np.ndarray, seed: int, device: str) -> Record:
    """Observe boxes with unknowns ``truth`` [n, 4], and estimate these."""
    scene = box.build()
    seen = box_motion.observe(scene, truth, seed, device)
    found = estimate.estimate(scene, seen, seed, estimate.ITERATIONS, device)
    print(f"{case}:\n{estimate.report(truth, found)}", flush=True)
    errors = np.log(found.unknowns / truth) / found.deviation
    return Record(
        case, len(truth), found.degrees + truth.shape[1], list(box.UNKNOWNS), estimate.STARTS, len(found.curve) - 1,
        *found.motions, found.seconds, int(found.good.sum()), found.holds(truth).mean(axis=0).tolist(),
        np.median(found.deviation, axis=0).tolist(), np.sqrt((errors**2).mean(axis=0)).tolist(),
        np.abs(errors).max(axis=0).tolist(),
    )  # fmt: skip


def main() -> None:
    options = parse()
    wp.config.log_level = wp.LOG_WARNING
    info = machine()
    records = [
        measure("boxes drawn at random", box.random_boxes(options.seed, options.boxes), options.seed, options.device),
        measure("one box, again and again", np.tile(box.TYPICAL, (options.draws, 1)), options.seed, options.device),
    ]
    if options.json is not None:
        record = {"machine": info, "records": [asdict(record) for record in records]}
        write_json(options.json, record)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the records to this file")
    parser.add_argument("--boxes", type=int, default=256, help="number of random boxes (256)")
    parser.add_argument("--draws", type=int, default=200, help="number of observations of the same box (200)")
    parser.add_argument("--seed", type=int, default=0, help="seed of boxes, noise and guesses (0)")
    parser.add_argument("--device", default="cpu", help="Warp device (cpu)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
