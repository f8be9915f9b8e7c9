"""Interleaved timing for :mod:`bench.robot`: one process per library, all alive, one running at any moment.

For every figure the libraries take turns in short rounds. The times behind a ratio are thus taken within a second or so
of each other, and a slow spell of the machine affects all libraries alike. A library's figure is the median of its
rounds.
"""

import os
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bench.processes import Process
from bench.robot_libraries.base import CASES

COMMAND = (sys.executable, "-W", "ignore", "-m", "bench.robot_worker")
ROUNDS = 5
ALWAYS = 64  # batches up to this size are always timed
LONG = 0.5  # a longer call gets a single turn [s]
FIGURES = {"forward": "a call", "backward": "a gradient"}


@dataclass
class Times:
    """Times of one library in one case, per state [microseconds]. If None, the note gives the reason.

    Attributes:
        dtype: precision of Backswing in the comparison. Pinocchio always computes in float64.
    """

    library: str
    case: str
    robot: str
    batch: int
    dtype: str
    forward_us: float | None
    backward_us: float | None
    note: str


class Player:
    """A library in a separate process.

    Attributes:
        barred: figures that the library cannot provide in the current case from some batch on, with the reasons.
        us: its latest figures [microseconds per state].
    """

    def __init__(self, process: Process):
        self.process = process
        self.barred: dict[str, str] = {}
        self.us: dict[str, float] = {}
        self._which = ""
        self._rounds: list[float] = []
        self._call = 0.0

    def prepare(self, robot: str, dtype: str, case: str) -> None:
        """Let the process check the values and gradients of a case."""
        if self.process.name == "Pinocchio":
            dtype = "float64"  # its only precision, compared with both of Backswing's
        barred, why = self.process.ask("prepare", robot=robot, dtype=dtype, case=case)
        self.barred = {"forward": why} if why else barred
        self.us = {}

    def can(self, which: str, batch: int, longest: float) -> bool:
        """Return True if a figure is to be measured. It is skipped if it would take too long, judged by the previous
        batch.
        """
        if batch > ALWAYS and self.us.get(which, 0.0) * 1e-6 * batch > longest:
            self.barred.setdefault(which, f"{FIGURES[which]} would take longer than {longest} s")
        return not {"forward", which} & self.barred.keys()

    def begin(self, which: str, batch: int) -> None:
        """Warm up before the turns of a figure."""
        self._which, self._rounds, self._call = which, [], 0.0
        _, why = self.process.ask("begin", which=which, batch=batch)
        if why:
            self.barred[which] = why

    def take_turn(self, seconds: float) -> None:
        """Time the library for this long [s]. A long call gets only its first turn."""
        if self._which in self.barred or self._call > LONG:
            return
        times, why = self.process.ask("turn", seconds=seconds)
        if why:
            self.barred[self._which] = why
            return
        per_state, self._call = times
        self._rounds.append(per_state)
        self.us[self._which] = statistics.median(self._rounds) * 1e6

    def times(self, case: str, robot: str, batch: int, dtype: str) -> Times:
        """Return the figures for the batch whose turns have just ended."""
        us = [None if {"forward", which} & self.barred.keys() else self.us[which] for which in FIGURES]
        note = next(filter(None, self.barred.values()), "")
        return Times(self.process.name, case, robot, batch, dtype, us[0], us[1], note)


def measure(names: Sequence[str], plan: dict[str, Any], folder: Path) -> list[Times]:
    """Measure the times of all libraries.

    Args:
        names: the libraries.
        plan: contents of plan.json in the folder: robots, precisions, batches, seconds per figure.
        folder: folder of :mod:`bench.robot_worker`.

    Returns:
        for each robot, precision, case and batch the times of all libraries.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    robots = [robot["name"] for robot in plan["robots"]]
    cases = list(product(robots, plan["dtypes"], CASES))
    found: list[Times] = []
    with ExitStack() as stack, tqdm(total=len(cases) * len(plan["batches"])) as bar:
        processes = [Process(name, (*COMMAND, name, str(folder)), environment) for name in names]
        players = [Player(stack.enter_context(process)) for process in processes]
        for robot, dtype, case in cases:
            for player in players:
                player.prepare(robot, dtype, case)
            for batch in plan["batches"]:
                bar.set_description(f"{robot} {dtype} {case} {batch}".ljust(28))
                for which in FIGURES:
                    ready = [player for player in players if player.can(which, batch, plan["longest"])]
                    play(ready, which, batch, plan["seconds"])
                found += [player.times(case, robot, batch, dtype) for player in players]
                bar.update()
    return found


def play(players: Sequence[Player], which: str, batch: int, seconds: float) -> None:
    """Play the rounds of one figure. Each player gets ``seconds`` in total."""
    for player in players:
        player.begin(which, batch)
    for _ in range(ROUNDS):
        for player in players:
            player.take_turn(seconds / ROUNDS)
