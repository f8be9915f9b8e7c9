"""Launches of a step and their memory traffic, and the resulting upper bound of throughput on a GPU.

    python -m bench.traffic --json bench/results/traffic.json

Counted, not timed: every launch of a step of the standing quadruped and of its backward pass, and for each launch the
    arrays that belong to worlds, as if each were read or written once in full. Unused contact capacity and data that
    stays in a GPU's caches count as well. Arrays of the model and shared parameters aren't counted: they are small, and
    all worlds read the same.
"""

import argparse
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import warp as wp

import sim
import sim.arrays.device_model
import sim.dynamics.dynamics
import sim.dynamics.kinematics
import sim.simulation.stepping.workspace
from bench.report import write_json
from bench.standing import standing
from bench.step import CONTACTS
from bench.timing import machine

WORLDS = 61  # in one shard; no other size of an array
# Memory bandwidth of an H200, by its data sheet, and the minimum time of a launch in a graph.
BYTES_PER_SECOND = 4.8e12
LAUNCH_SECONDS = 2.0e-6


@dataclass(frozen=True)
class Traffic:
    """Launches and bytes of a step.

    Attributes:
        solver: contact solver.
        way: "forward" or "back"; the backward pass recomputes the step first.
        launches: number of kernels.
        bytes: bytes read and written, per world.
        heaviest: the kernels with the most bytes, per world.
    """

    solver: str
    phase: str
    launches: int
    bytes: float
    heaviest: dict[str, float]


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Make a simulator on the CPU launch a GPU's kernels, which take worlds one by one, in this context."""
    with (
        mock.patch.object(sim.arrays.device_model, "LANES", 1),
        mock.patch.object(sim.simulation.stepping.workspace, "threads_of_world", lambda device, most: most),
        mock.patch.object(sim.dynamics.dynamics, "threads_of_world", lambda device, most: most),
        mock.patch.object(sim.dynamics.kinematics, "threads_of_world", lambda device, most: most),
        mock.patch.object(sim.simulation.stepping.workspace, "loops_over_contacts", return_value=False),
    ):
        yield


@as_on_a_gpu()
def measure(solver: str) -> list[Traffic]:
    """Measure launches and bytes of the standing quadruped in float32."""
    case = standing(WORLDS, device="cpu", dtype="float32", cores=1, contact=CONTACTS[solver])
    case.simulator.rollout(case.state, steps=1).backward(case.state.q)  # compiles, and allocates
    (shard,) = case.simulator.engine.shards

    def forward() -> None:
        shard.step.load()
        shard.step.forward()
        shard.step.store()

    return [summary(solver, "forward", forward), summary(solver, "back", shard.step.backward_step)]


def summary(solver: str, phase: str, work: Callable[[], None]) -> Traffic:
    """Return the memory traffic of some launches. They are recorded and not executed."""
    moved: list[tuple[str, int]] = []
    launch = wp.launch

    def noted(kernel: wp.Kernel, dim: Any, inputs: Any = (), *others: Any, **options: Any) -> Any:
        arguments = [*inputs, *options.get("adj_inputs", ())]
        name = kernel.key.rpartition("__")[-1] + (", adjoint" if options.get("adjoint") else "")
        moved.append((name, sum(map(bytes_of_worlds, arguments))))
        return launch(kernel, dim, inputs, *others, **options)

    with mock.patch.object(wp, "launch", noted), wp.ScopedCapture(device="cpu"):
        work()
    by_kernel: Counter[str] = Counter()
    for name, size in moved:
        by_kernel[name] += size
    heaviest = {name: size / WORLDS for name, size in by_kernel.most_common(5)}
    return Traffic(solver, phase, len(moved), by_kernel.total() / WORLDS, heaviest)


def bytes_of_worlds(argument: Any) -> int:
    """Return the bytes of the arrays of worlds in an argument of a kernel."""
    return sum(
        array.size * wp.types.type_size_in_bytes(array.dtype) for array in arrays(argument) if WORLDS in array.shape
    )


def arrays(argument: Any) -> Iterator[wp.array]:
    """Return an array, or those of a struct, as a list."""
    if isinstance(argument, wp.array):
        yield argument
    elif hasattr(argument, "_cls"):
        for name in argument._cls.vars:
            yield from arrays(getattr(argument, name))


def most_per_second(traffic: dict[str, Any], worlds: int) -> float:
    """Return the upper bound of throughput (steps/s) by launches and memory of an H200, with this many worlds."""
    seconds = traffic["launches"] * LAUNCH_SECONDS + worlds * traffic["bytes"] / BYTES_PER_SECOND
    return float(worlds / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the records to this file")
    options = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    rows = [asdict(each) for solver in ("newton", "pgs") for each in measure(solver)]
    for row in rows:
        print(json.dumps(row), f"{most_per_second(row, 65536):.3g} /s")
    if options.json is not None:
        write_json(options.json, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
