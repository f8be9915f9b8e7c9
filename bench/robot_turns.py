"""Turns of the libraries of :mod:`bench.robot`: a process for each, all of them alive, one at work at any moment.

For every figure they take turns in some short rounds, so that ratios are those of times taken within a second or so,
whatever else the machine does for minutes. A library's figure is the median over the rounds.
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
ALWAYS = 64  # a batch up to this is timed however long it takes
LONG = 0.5  # a call that takes longer has one turn [s]
FIGURES = {"forward": "a call", "backward": "a gradient"}


@dataclass
class Times:
    """Times of one library in one case, per state [microseconds]; None with the reason in the note.

    Attributes:
        dtype: what Backswing computes in beside it; Pinocchio has float64 alone.
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
    """A library in a process of its own.

    Attributes:
        barred: figures that it can't have in the present case, from some batch on, with the reasons.
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
        """Have values and gradients of a case checked."""
        if self.process.name == "Pinocchio":
            dtype = "float64"  # it has no other, which stands beside both
        barred, why = self.process.ask("prepare", robot=robot, dtype=dtype, case=case)
        self.barred = {"forward": why} if why else barred
        self.us = {}

    def can(self, which: str, batch: int, longest: float) -> bool:
        """Whether it can have a figure; it can't if that would take too long, going by the batch before."""
        if batch > ALWAYS and self.us.get(which, 0.0) * 1e-6 * batch > longest:
            self.barred.setdefault(which, f"{FIGURES[which]} would take longer than {longest} s")
        return not {"forward", which} & self.barred.keys()

    def begin(self, which: str, batch: int) -> None:
        """Warm up for the turns of a figure."""
        self._which, self._rounds, self._call = which, [], 0.0
        _, why = self.process.ask("begin", which=which, batch=batch)
        if why:
            self.barred[which] = why

    def take_turn(self, seconds: float) -> None:
        """Be timed for so long; long calls have their first turn alone."""
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
        """What it has for a batch that it has just had its turns at."""
        us = [None if {"forward", which} & self.barred.keys() else self.us[which] for which in FIGURES]
        note = next(filter(None, self.barred.values()), "")
        return Times(self.process.name, case, robot, batch, dtype, us[0], us[1], note)


def measure(names: Sequence[str], plan: dict[str, Any], folder: Path) -> list[Times]:
    """Times of all libraries.

    Args:
        names: the libraries.
        plan: what plan.json in the folder says: robots, precisions, batches, seconds for each figure.
        folder: of :mod:`bench.robot_worker`.

    Returns:
        of each robot, precision, case and batch those of all libraries.
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
    """The rounds of one figure, of so many seconds for each player in all."""
    for player in players:
        player.begin(which, batch)
    for _ in range(ROUNDS):
        for player in players:
            player.take_turn(seconds / ROUNDS)
