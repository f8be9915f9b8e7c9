"""Measurement of forward and backward passes of longer and longer rollouts in one process, up to a limit of time or
memory.

Imports only the standard library and :mod:`bench.resident`, since a peer may be in another environment.
"""

import gc
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from bench import resident

REPEATS = 5
WARM_UP_STEPS = 2


class Method(Protocol):
    """A way to differentiate a rollout.

    All calls are synchronous. Memory is counted from ``begin`` on, time in ``forward`` and ``backward``.

    Attributes:
        note: what is computed and how, for the table.
        chunk: the number of steps must be a multiple of this.
    """

    note: str
    chunk: int

    def begin(self, steps: int) -> None:
        """Allocate the inputs of a rollout and everything that must exist before it."""

    def forward(self, steps: int) -> None:
        """Roll out from the standing state, and keep what the backward pass needs."""

    def backward(self) -> None:
        """Compute the gradient of the sum of the final coordinates in the initial state and the inputs of all steps."""

    def forget(self) -> None:
        """Free what ``begin`` and ``forward`` allocated."""


@dataclass
class Row:
    """One case.

    Attributes:
        method: name of the method.
        robots: number of robots.
        steps: number of steps.
        forward_s: median time of the forward pass, including what it keeps for the backward pass [s].
        backward_s: median time of the backward pass [s].
        peak_mb: peak memory during both, beyond what the process held after compilation and a short rollout [MB].
        repeats: number of runs; 0 if it was not run.
        compile_s: time to the first gradient: compilation, capture, a rollout of a few steps [s].
        estimate: reason why the case was not run and the numbers are estimates (:func:`continued`); else "".
        note: see :class:`Method`.
    """

    method: str
    robots: int
    steps: int
    forward_s: float
    backward_s: float
    peak_mb: float
    repeats: int
    compile_s: float
    estimate: str
    note: str


def measure(
    name: str, method: Method, robots: int, steps: list[int], *, seconds: float, room: float, made_s: float
) -> Iterator[Row]:
    """Measure a method, shorter rollouts first.

    Args:
        name: name of the method.
        method: the method to measure.
        robots: number of robots, for the rows.
        steps: numbers of steps. The smallest is always run.
        seconds: a rollout expected to take longer, judged by the previous one, is not run.
        room: a rollout expected to need more memory is not run either [MB].
        made_s: time to construct the method, counted as compilation [s].
    """
    start = time.perf_counter()
    warm_up = max(WARM_UP_STEPS, method.chunk)
    run(method, warm_up)
    compiled = made_s + time.perf_counter() - start
    baseline = resident.in_use()

    def run_row(count: int, repeats: int) -> Row:
        return Row(
            name, robots, count, *run_often(method, count, baseline, seconds, repeats), compiled, "", method.note
        )

    known = [run_row(warm_up, 1)]
    for number, count in enumerate(sorted(steps)):
        guess = continued(known, count)
        if guess.peak_mb > room:
            guess.estimate = "out of room"
        elif guess.forward_s + guess.backward_s > seconds:
            guess.estimate = "out of time"
        if guess.estimate and number > 0:
            yield guess
        else:
            known = [*(row for row in known[-1:] if row.steps < count), run_row(count, REPEATS)]
            yield known[-1]


def continued(known: list[Row], steps: int) -> Row:
    """Extrapolate linearly to another number of steps, from the last two rows or from the last one and the origin."""
    last = known[-1]
    before = known[-2] if len(known) > 1 else replace(last, steps=0, forward_s=0.0, backward_s=0.0, peak_mb=0.0)
    factor = (steps - last.steps) / (last.steps - before.steps)

    def beyond(value: float, earlier: float) -> float:
        return value + factor * max(value - earlier, 0.0)

    return replace(
        last, steps=steps, repeats=0, forward_s=beyond(last.forward_s, before.forward_s),
        backward_s=beyond(last.backward_s, before.backward_s), peak_mb=beyond(last.peak_mb, before.peak_mb),
    )  # fmt: skip


def run_often(
    method: Method, steps: int, baseline: int, seconds: float, repeats: int
) -> tuple[float, float, float, int]:
    """Return median times, peak memory of the first run [MB], and the number of runs: one if a single run is slow
    already.
    """
    forward: list[float] = []
    backward: list[float] = []
    resident.reset_peak()
    peak = 0
    while not forward or (len(forward) < repeats and sum(forward) + sum(backward) < 0.25 * seconds):
        times = run(method, steps)
        peak = peak or resident.peak()
        forward.append(times[0])
        backward.append(times[1])
    return statistics.median(forward), statistics.median(backward), max(peak - baseline, 0) / 1e6, len(forward)


def run(method: Method, steps: int) -> tuple[float, float]:
    """Return seconds of one forward and one backward pass."""
    method.begin(steps)
    start = time.perf_counter()
    method.forward(steps)
    middle = time.perf_counter()
    method.backward()
    end = time.perf_counter()
    method.forget()
    gc.collect()
    resident.give_back()
    return middle - start, end - middle
