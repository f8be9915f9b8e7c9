"""Accuracy of the network of examples.reach on two arms, compared with inverse kinematics without it.

    python -m bench.reach --json bench/results/reach_cpu.json

Errors are for unseen targets. Times are per target, with all targets in one batch. The Panda's file comes with
example-robot-data (``pip install backswing[peers]``).
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
import warp as wp

import sim.torch
from bench.report import write_json
from bench.timing import machine
from examples.learning import Learning, robot_file
from examples.pose_network import PoseNetwork, Reachable
from examples.reach import FRAMES, HEADER, HELD_OUT, Errors, compare, train
from scenes.manipulator import MANIPULATOR_URDF

PROPOSALS, ITERATIONS = 8, 60  # as in the example


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("out/bench/reach.json"),
        help="write the records to this file (out/bench/reach.json)",
    )
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help=f"training iterations ({ITERATIONS})")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    before = machine()
    records: list[dict[str, object]] = []
    for path in (MANIPULATOR_URDF, robot_file("panda")):
        reachable = Reachable(sim.torch.Robot(path, dtype=torch.float32, collapse_fixed=True), FRAMES[path.stem])
        torch.manual_seed(0)
        network = PoseNetwork(reachable, PROPOSALS)
        learning = train(network, options.iterations, 0)
        methods = compare(network, HELD_OUT, 0)
        print(f"{path.stem}\n{HEADER}\n" + "\n".join(method.row for method in methods))
        records += [record(path.stem, learning, method) | {"machine": before} for method in methods]
    write_json(options.json, records)


def record(robot: str, learning: Learning, method: Errors) -> dict[str, object]:
    """Return one row of the table, with figures of the training."""
    errors = {"distance_mm": 1e3 * method.distance, "angle_degrees": method.angle * 180.0 / math.pi}
    figures = {
        f"{name}_{kind}": round(float(value), 4)
        for name, x in errors.items()
        for kind, value in (("mean", x.mean()), ("median", np.median(x)), ("p95", np.quantile(x, 0.95)))
    }
    return {
        "robot": robot,
        "method": method.method,
        **figures,
        "within_goal": round(method.close, 4),
        "us_per_target": round(1e6 * method.seconds, 1),
        "targets": len(method.distance),
        "iterations": len(learning.figures) - 1,
        "training_seconds": round(learning.seconds, 1),
    }


if __name__ == "__main__":
    main()
