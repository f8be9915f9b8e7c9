"""One library of :mod:`bench.robot`, in a process of its own: python -m bench.robot_worker LIBRARY FOLDER.

The folder holds the plan (plan.json) and states with the values that must come out (one .npz for each robot). What to
do when is told by :mod:`bench.robot_turns`, in requests named like the methods of :class:`Worker`.
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

WARM_UP = (8, 0.5)  # at most so many calls, and none after so much time [s]


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    plan: dict[str, Any] = json.loads((options.folder / "plan.json").read_text())
    if plan["device"] == "cpu":
        # What doesn't fit is an error of this process, and not the end of another.
        most = plan["gigabytes"] * 2**30
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    torch.set_num_threads(1)
    wp.config.log_level = wp.LOG_WARNING
    with pinned(1):
        serve(Worker(options.library, plan, options.folder).answer)


class Worker:
    """A library, and the case and batch that it is at."""

    def __init__(self, name: str, plan: dict[str, Any], folder: Path):
        self.name, self.plan, self.folder = name, plan, folder
        self.made = ("", "")  # robot and precision of what follows
        self.model: Library
        self.known: dict[str, np.ndarray]  # states and what must come out
        self.case = ""
        self.call: tuple[int, Call] | None = None  # with its batch
        self.runs: list[Callable[[], object]] = []
        self.states = 0  # that a call works on
        self.latest = 0.0  # how long the latest call took [s]

    def answer(self, do: str, **arguments: Any) -> tuple[Any, str]:
        """Do what is asked for; without enough memory, say so."""
        try:
            return getattr(self, do)(**arguments), ""
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            return None, f"more than {self.plan['gigabytes']} GiB of memory"

    def prepare(self, robot: str, dtype: str, case: str) -> dict[str, str]:
        """Drop the last case and check the next; why there are no values ("forward") or no gradient ("backward")."""
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
        """Warm up, until the process has what memory it needs, which large results take some calls to settle."""
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
        """Seconds per state, in calls for so long in all, and how long the latest call took."""
        if self.latest < seconds:  # what others leave of the caches is nothing to a longer call
            for run in self.runs:
                run()
        medians, self.latest = time_alternately(self.runs, seconds)
        return (medians[0] - sum(medians[1:])) / self.states, self.latest


def seconds_of(run: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def time_alternately(runs: Sequence[Callable[[], object]], seconds: float) -> tuple[list[float], float]:
    """Call in turn until so much time has gone into the calls: the median of each, and the latest time of the first."""
    times: list[list[float]] = [[] for _ in runs]
    left = seconds
    while left > 0.0:
        for run, taken in zip(runs, times, strict=True):
            taken.append(seconds_of(run))
            left -= taken[-1]
    return [statistics.median(taken) for taken in times], times[0][-1]


if __name__ == "__main__":
    main()
