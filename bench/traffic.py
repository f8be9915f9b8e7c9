"""Launches of a step and the bytes that they move, and how fast a GPU could be at most.

    python -m bench.traffic --json bench/results/traffic.json

Counted, not timed: every launch of a step of the standing quadruped and of its way back, and for each launch the arrays
that belong to worlds, as if each were read or written once in full. Room for contacts that aren't there counts as well,
and so does what stays in the caches of a GPU. What arrays of the model and shared parameters take isn't counted: they
are small, and all worlds read the same.
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
import sim.simulation.stepping.workspace
from bench.report import write_json
from bench.standing import standing
from bench.step import CONTACTS
from bench.timing import machine

WORLDS = 61  # in one shard; no other size of an array
# What an H200's memory delivers, by its data sheet, and what a launch in a graph takes at the least.
BYTES_PER_SECOND = 4.8e12
LAUNCH_SECONDS = 2.0e-6


@dataclass(frozen=True)
class Traffic:
    """Launches and bytes of a step.

    Attributes:
        solver: of contact.
        way: "forward" or "back"; on the way back a step is run again first.
        launches: number of kernels.
        bytes: that they read and write, per world.
        heaviest: the kernels that move most, with bytes per world.
    """

    solver: str
    way: str
    launches: int
    bytes: float
    heaviest: dict[str, float]


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Context in which a simulator on the CPU launches the kernels of a GPU, which takes worlds one by one."""
    with (
        mock.patch.object(sim.arrays.device_model, "LANES", 1),
        mock.patch.object(sim.simulation.stepping.workspace, "threads_of_world", lambda device, most: most),
        mock.patch.object(sim.simulation.stepping.workspace, "loops_over_contacts", return_value=False),
    ):
        yield


@as_on_a_gpu()
def measure(solver: str) -> list[Traffic]:
    """Launches and bytes of the standing quadruped in float32."""
    case = standing(WORLDS, device="cpu", dtype="float32", cores=1, contact=CONTACTS[solver])
    case.simulator.rollout(case.state, steps=1).backward(case.state.q)  # compiles, and allocates
    (shard,) = case.simulator.engine.shards

    def forward() -> None:
        shard.step.load()
        shard.step.forward()
        shard.step.store()

    return [summary(solver, "forward", forward), summary(solver, "back", shard.step.backward_step)]


def summary(solver: str, way: str, work: Callable[[], None]) -> Traffic:
    """What some launches move. They are recorded and not carried out."""
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
    return Traffic(solver, way, len(moved), by_kernel.total() / WORLDS, heaviest)


def bytes_of_worlds(argument: Any) -> int:
    """Bytes of the arrays of worlds in an argument of a kernel."""
    return sum(
        array.size * wp.types.type_size_in_bytes(array.dtype) for array in arrays(argument) if WORLDS in array.shape
    )


def arrays(argument: Any) -> Iterator[wp.array]:
    """An array, or those of a struct."""
    if isinstance(argument, wp.array):
        yield argument
    elif hasattr(argument, "_cls"):
        for name in argument._cls.vars:
            yield from arrays(getattr(argument, name))


def most_per_second(traffic: dict[str, Any], worlds: int) -> float:
    """Steps of worlds in a second that launches and memory of an H200 allow, with this many worlds."""
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
