"""Record of trainings, to which a run adds the missing ones, and policies that a training keeps."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bench.report import write_json
from bench.timing import machine
from sim.learn import Learner, processes, run, save_policy

EVERY = 20.0  # seconds between two policies that are kept
Row = dict[str, Any]
Case = TypeVar("Case")  # what trainings with different seeds have in common


class Trainings:
    """Rows of a file, which is written after each training.

    Args:
        path: path of the file; its folder is created. Existing rows are kept.
        key_of: function that returns a row's unique key.
        order: sort key of rows; None appends new ones.
    """

    def __init__(self, path: Path, key_of: Callable[[Row], Any], order: Callable[[Row], Any] | None = None):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._key_of, self._order = path, key_of, order
        self._record: dict[str, Any] = {"machine": machine(), "rows": []}
        if path.is_file():
            self._record = json.loads(path.read_text())

    def __contains__(self, key: object) -> bool:
        return any(self._key_of(row) == key for row in self._record["rows"])

    def add(self, row: Row) -> None:
        """Add a row, replacing one with the same key, and write the file."""
        key = self._key_of(row)
        rows: list[Row] = [old for old in self._record["rows"] if self._key_of(old) != key] + [row]
        if self._order is not None:
            rows.sort(key=self._order)
        self._record["rows"] = rows
        write_json(self._path, self._record)


def by_case(rows: Sequence[Row], case_of: Callable[[Row], Case]) -> dict[Case, list[Row]]:
    """Return the trainings of each case, in the order of the first of each."""
    return {case: [row for row in rows if case_of(row) == case] for case in dict.fromkeys(map(case_of, rows))}


def keep_policies(
    learner: Learner,
    folder: Path,
    task: str,
    options: Mapping[str, Any],
    *,
    minutes: float,
    iterations: float = math.inf,
) -> None:
    """Train, and write a policy every 20 seconds: 0.pt, 1.pt, ... and times.json, with their steps and seconds.

    Seconds are processor time, which other work on the machine doesn't shorten. Of several processes the first one
    writes.

    Args:
        learner: the policy in training.
        folder: folder of the files.
        task: name of the task, which the files hold.
        options: its options, likewise.
        minutes: longest processor time of a process [min].
        iterations: greatest number.
    """
    steps, seconds = [0], [0.0]
    while True:
        if processes.number() == 0:
            save_policy(folder / f"{len(steps) - 1}.pt", learner.result, task, options)
            times = {"steps": steps, "seconds": seconds, "envs": learner.env.num_envs}
            write_json(folder / "times.json", times)
        if seconds[-1] >= 60.0 * minutes or learner.iteration >= iterations:
            return
        part = run(learner, iterations - learner.iteration, EVERY, clock=time.process_time)
        steps.append(steps[-1] + int(part.steps[-1]))
        seconds.append(seconds[-1] + float(part.seconds[-1]))
