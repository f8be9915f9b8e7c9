"""Environment steps per second of a training by one process and by two, with one thread each.

    python -m bench.parallel_training --json bench/results/parallel_training_cpu.json

One process, two that average their gradients, and two that train independently alternate. Each trains ants by
short-horizon actor-critic. The last kind is the upper bound for two processes on the machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import warp as wp
from tqdm import tqdm

from bench.report import write_json
from bench.timing import machine

ENVS = (128, 256)
ONE, SHARED, APART = "one", "shared", "apart"


def main() -> None:
    """Measure and print the results; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the record to this file")
    parser.add_argument("--envs", type=int, nargs="+", default=ENVS, help="environments of a process")
    parser.add_argument("--turns", type=int, default=5, help="trainings of each kind (5)")
    parser.add_argument("--iterations", type=int, default=30, help="of a training, timed (30)")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    record: dict[str, Any] = {"machine": machine(), "rows": []}
    for envs in options.envs:
        found: dict[str, list[float]] = {ONE: [], SHARED: [], APART: []}
        for _, kind in tqdm(list(product(range(options.turns), found)), desc=f"{envs} ants a process"):
            found[kind].append(steps_per_second(kind, envs, options.iterations))
        row = {"envs": envs, "turns": options.turns, **{kind: statistics.median(found[kind]) for kind in found}}
        record["rows"].append(row)
        print(row, flush=True)
    if options.json is not None:
        write_json(options.json, record)


def steps_per_second(kind: str, envs: int, iterations: int) -> float:
    """Return the total environment steps per second of the processes."""
    train = ["-m", "bench.parallel_training_worker", str(envs), str(iterations)]
    alone = [sys.executable, *train]
    together = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *train]
    commands = {ONE: [alone], SHARED: [together], APART: [alone, alone]}[kind]
    return sum(map(float, outputs(commands)))


def outputs(commands: Sequence[Sequence[str]]) -> list[str]:
    """Run commands in parallel, each process with one thread, and return their outputs."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for command in commands]
    printed = [process.communicate()[0] for process in running]
    for process in running:
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return printed


def figures(record: dict[str, Any]) -> str:
    """Return the table of the page on learning: medians of the turns."""
    lines = [
        "| ants in each process | one process | two, one policy | ratio | two, a policy each | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        one, shared, apart = (row[kind] for kind in (ONE, SHARED, APART))
        lines.append(
            f"| {row['envs']} | {one:,.0f} | {shared:,.0f} | {shared / one:.2f} | {apart:,.0f} | {apart / one:.2f} |"
        )
    machine = record["machine"]
    lines += ["", f"Measured on {machine['cores']} cores of {machine['processor']}."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
