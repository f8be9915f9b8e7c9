"""One library of :mod:`bench.robot`, in a separate process: python -m bench.robot_worker LIBRARY FOLDER.

The folder holds the plan (plan.json) and, per robot, an .npz file with states and the expected values.
:mod:`bench.robot_turns` sends requests named after the methods of :class:`Worker`.
"""

import argparse
import gc
import json
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import warp as wp

from bench.processes import serve
from bench.robot_checks import difference
from bench.robot_libraries import library
from bench.robot_libraries.base import Call, Library, Robot, State, Unsupported
from bench.timing import pinned

WARM_UP = (8, 0.5)  # maximum number of calls, and the time after which no further one starts [s]


def main() -> None:
    """Serve requests; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    plan: dict[str, Any] = json.loads((options.folder / "plan.json").read_text())
    if plan["device"] == "cpu":
        # Running out of memory then raises an error here, instead of the kernel killing another process.
        most = plan["gigabytes"] * 2**30
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    torch.set_num_threads(1)
    wp.config.log_level = wp.LOG_WARNING
    with pinned(1):
        serve(Worker(options.library, plan, options.folder).answer)


class Worker:
    """A library, with its current case and batch."""

    def __init__(self, name: str, plan: dict[str, Any], folder: Path):
        self.name, self.plan, self.folder = name, plan, folder
        self.made = ("", "")  # robot and precision of the model below
        self.model: Library
        self.known: dict[str, np.ndarray]  # states and expected values
        self.case = ""
        self.call: tuple[int, Call] | None = None  # batch and call
        self.runs: list[Callable[[], object]] = []
        self.states = 0  # number of states in a call
        self.latest = 0.0  # duration of the latest call [s]

    def answer(self, do: str, **arguments: Any) -> tuple[Any, str]:
        """Serve a request. Returns its result and an empty text, or None and a message if memory ran out."""
        try:
            return getattr(self, do)(**arguments), ""
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            return None, f"more than {self.plan['gigabytes']} GiB of memory"

    def prepare(self, robot: str, dtype: str, case: str) -> dict[str, str]:
        """Drop the previous case and check the next. Returns why values ("forward") or a gradient ("backward") fail."""
        self.call, self.runs, self.case = None, [], case
        gc.collect()
        torch.cuda.empty_cache()
        try:
            if self.made != (robot, dtype):
                self._make(robot, dtype)
        except Unsupported as error:
            return {"forward": str(error)}
        wrong = difference(self.model, case, self.known, dtype)
        return {which: text for which, text in zip(("forward", "backward"), wrong, strict=True) if text is not None}

    def _make(self, name: str, dtype: str) -> None:
        entry = next(robot for robot in self.plan["robots"] if robot["name"] == name)
        robot = Robot(**{**entry, "urdf": Path(entry["urdf"]), "joints": tuple(entry["joints"])})
        self.model = library(self.name)(robot, dtype, self.plan["device"])
        self.known = dict(np.load(self.folder / f"{name}.npz"))
        self.made = (name, dtype)

    def begin(self, which: str, batch: int) -> None:
        """Warm up until the memory of the process has settled, which takes some calls for large results."""
        if self.call is None or self.call[0] != batch:
            self.call, self.runs = None, []
            call = self.model.call(self.case, State.load(self.known, batch))
            assert call is not None
            self.call = batch, call
        call = self.call[1]
        run, overhead = getattr(call, which), getattr(call, f"{which}_overhead")
        self.runs = [run] if overhead is None else [run, overhead]
        self.states = getattr(call, f"{which}_states")
        start = time.perf_counter()
        for _ in range(WARM_UP[0]):
            self.latest = seconds_of(run)
            if time.perf_counter() - start > WARM_UP[1]:
                break

    def turn(self, seconds: float) -> tuple[float, float]:
        """Run calls for ``seconds`` in total. Returns the seconds per state and the duration of the latest call."""
        if self.latest < seconds:  # refill the caches after the other libraries; irrelevant for a longer call
            for run in self.runs:
                run()
        medians, self.latest = time_alternately(self.runs, seconds)
        return (medians[0] - sum(medians[1:])) / self.states, self.latest


def seconds_of(run: Callable[[], object]) -> float:
    """Measure the duration of a call [s]."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def time_alternately(runs: Sequence[Callable[[], object]], seconds: float) -> tuple[list[float], float]:
    """Call in turn until ``seconds`` are used up. Returns each median, and the latest duration of the first call."""
    times: list[list[float]] = [[] for _ in runs]
    left = seconds
    while left > 0.0:
        for run, taken in zip(runs, times, strict=True):
            taken.append(seconds_of(run))
            left -= taken[-1]
    return [statistics.median(taken) for taken in times], times[0][-1]


if __name__ == "__main__":
    main()
