"""Peak memory, forward and backward time of gradients through long rollouts of standing quadrupeds.

python -m bench.tables --json bench/results/tables_cpu.json --steps 50 100 500 1000 5000
python -m bench.tables --methods Backswing PyTorch

Backswing is compared with a fully taped version of itself without checkpoints, with the same step in PyTorch, with
MuJoCo's MJX in JAX, and with MuJoCo's finite differences. Then Backswing runs with longer checkpoint intervals. Each
method runs in a separate process on one core. Memory is the peak resident memory during forward and backward, minus
what was resident before.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from bench import resident
from bench.report import write_json
from bench.standing import DAMPING, STIFFNESS, mjcf, start_pose
from bench.tables.backswing import SWEEPS
from bench.tables.child import INTERVAL, INTERVAL_WORLDS, METHODS
from bench.tables.measure import Row
from bench.tables.mjx import PROBLEM
from bench.timing import machine, pinned
from scenes import quadruped

STEPS = (50, 100)
CHUNK = 50
INTERVAL_STEPS = 1000


def main() -> None:
    options = parse()
    where = machine()
    missing: dict[str, str] = {}
    print(HEADER)
    with pinned(1):
        cases = tqdm([(name, robots) for robots in options.robots for name in options.methods], unit="method")
        rows = [row for name, robots in cases for row in run(name, robots, options.steps, options, missing)]
        numbers = tqdm(options.intervals, unit="interval")
        intervals = [
            row for k in numbers for row in run(f"{INTERVAL} {k}", 1, [options.interval_steps], options, missing)
        ]
    for name, note in {row.method: row.note for row in rows}.items():
        print(f"{name}: {note}")
    print_intervals(intervals)
    for name, why in missing.items():
        print(f"{name}: not run. {why}")
    if options.json is not None:
        record = {
            "machine": where,
            "room_mb": options.room,
            "seconds": options.seconds,
            "rows": [asdict(row) for row in rows],
            "intervals": [interval_record(row) for row in intervals],
            "missing": missing,
        }
        write_json(options.json, record)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--steps", type=int, nargs="+", default=list(STEPS), help="lengths of the rollouts (50 100)")
    parser.add_argument("--robots", type=int, nargs="+", default=[1, 10], help="numbers of robots (1 10)")
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), choices=list(METHODS), help="methods to measure (all)"
    )
    parser.add_argument(
        "--intervals", type=int, nargs="*", default=[1, 2, 5, 10, 20, 50], help="checkpoint intervals (1 2 5 10 20 50)"
    )
    parser.add_argument(
        "--interval-steps",
        type=int,
        default=INTERVAL_STEPS,
        help="steps of the rollouts with checkpoint intervals (1000)",
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="skip rollouts that take longer (20)")
    parser.add_argument("--room", type=float, help="skip rollouts that need more memory [MB] (half of what is free)")
    parser.add_argument("--jax-python", default=sys.executable, help="Python with jax and mujoco-mjx (this one)")
    options = parser.parse_args()
    options.room = options.room or round(0.5 * resident.available() / 1e6)
    return options


def run(name: str, robots: int, steps: list[int], options: argparse.Namespace, missing: dict[str, str]) -> list[Row]:
    """Measure a method in a separate process. If it fails, keep the last line of its messages."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, Path(folder, "messages").open("w+") as messages:
        python = options.jax_python if name.startswith("MJX") else sys.executable
        # A fresh compiler cache: only Backswing's own kernels may be found compiled.
        environment = os.environ | {
            PROBLEM: str(write_problem(Path(folder), steps)), "TORCHINDUCTOR_CACHE_DIR": folder, "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [python, "-m", "bench.tables.child", name, str(robots), "--steps", *map(str, steps)]
        command += ["--seconds", str(options.seconds), "--room", str(options.room)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, text=True, env=environment) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("{"):
                    rows.append(Row(**json.loads(line)))
                    tqdm.write(line_of(rows[-1]))
        if child.returncode != 0:
            messages.seek(0)
            missing[f"{name}, robots: {robots}"] = (messages.read().strip().splitlines() or ["no output"])[-1]
    return rows


def write_problem(folder: Path, steps: Iterable[int]) -> Path:
    """Write the description of one robot for MJX, whose Python may not have Backswing."""
    path = folder / "problem.json"
    problem = {
        "mjcf": mjcf(1, SWEEPS), "pose": start_pose(1).tolist(), "stiffness": STIFFNESS, "damping": DAMPING,
        "chunk": math.gcd(CHUNK, *steps),
    }  # fmt: skip
    path.write_text(json.dumps(problem))
    return path


def interval_record(row: Row) -> dict[str, object]:
    """Return a row of the ablation, with the memory that the formula predicts."""
    interval = int(row.method.split()[1])
    return {
        **asdict(row),
        "interval": interval,
        "worlds": INTERVAL_WORLDS,
        "formula_mb": formula_mb(row.steps, interval),
    }


def formula_mb(steps: int, interval: int) -> float:
    """Return the memory of ceil(n / k) + k float32 states per world (docs/gradients.md) [MB]."""
    model = quadruped.build("float32").model
    return (math.ceil(steps / interval) + interval) * (model.nq + model.nv) * 4 * INTERVAL_WORLDS / 1e6


HEADER = (
    f"{'method':28}{'robots':>7}{'steps':>7}{'peak MB':>12}{'forward s':>12}{'backward s':>12}{'runs':>6}"
    f"{'compile s':>11}   numbers in brackets are extrapolated"
)


def line_of(row: Row) -> str:
    """Format a row of the table. Numbers that were not measured are in brackets."""
    numbers = [text(x, row.estimate) for x in (row.peak_mb, row.forward_s, row.backward_s)]
    return (
        f"{row.method:28}{row.robots:7}{row.steps:7}"
        + "".join(f"{number:>12}" for number in numbers)
        + f"{row.repeats:6}{row.compile_s:11.1f}   {row.estimate}"
    )


def print_intervals(rows: list[Row]) -> None:
    """Print memory and time of the ablation, and the predicted memory."""
    print(f"{'interval':>8}{'steps':>7}{'peak MB':>10}{'formula MB':>12}{'forward s':>11}{'backward s':>12}")
    for row in rows:
        interval = int(row.method.split()[1])
        numbers = [text(x, row.estimate) for x in (row.forward_s, row.backward_s)]
        print(
            f"{interval:8}{row.steps:7}{text(row.peak_mb, row.estimate):>10}{formula_mb(row.steps, interval):12.2f}"
            f"{numbers[0]:>11}{numbers[1]:>12}"
        )


def text(number: float, estimate: str) -> str:
    """Format a number with three digits, in brackets if it is an estimate."""
    shown = f"{number:.0f}" if number >= 100.0 else f"{number:.3g}"
    return f"({shown})" if estimate else shown


if __name__ == "__main__":
    main()
