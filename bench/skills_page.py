"""Records of ``bench.skills`` as text and plot for the pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.policies_page import folded
from bench.skills import case_of
from bench.trainings import by_case
from bench.walking_page import LOADS, span
from examples.outputs import plot

PLAYED = 64  # robots or boxes
MOST = 0.9  # fraction of successes
SKILLS = """\
Robots that get up fall from any tilt up to upside down, with bent joints. Four seconds later they should stand: within
0.3 rad of upright, at 0.8 of their height or more. In pick and place an arm with two fingers should hold a box within
2 cm of a random target, four seconds after it begins. In training, friction, masses and gains vary between episodes.

The successes are those of the policy without randomness, of 64 robots or boxes. In MuJoCo the same policy plays from
the same states, with the model written as MJCF. The processor time is that of one process with one thread.

Columns have the smallest and the largest number of the seeds. The seconds to nine tenths are those of the trainings
that get there. The command below trains the seeds that are missing.
"""


def reached(row: dict[str, Any]) -> float | None:
    """Return the processor time after which most robots or boxes succeed [s]; None if it never is."""
    return next((s for s, share in zip(row["seconds"], row["here"], strict=True) if share >= MOST), None)


def times_of(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Return the times of the trainings that get there [s]."""
    return [seconds for row in rows if (seconds := reached(row)) is not None]


def counted(shares: Sequence[float]) -> str:
    """Return the smallest and the largest number of successes."""
    return span([PLAYED * share for share in shares])


def plot_successes(path: Path, record: dict[str, Any]) -> None:
    """Plot successes over the seconds of training, a line for each training."""
    with plot(path) as (axes,):
        for number, ((task, law), rows) in enumerate(by_case(record["rows"], case_of).items()):
            for row, label in zip(rows, [f"{task}, law '{law}'", *[None] * len(rows)], strict=False):
                axes.plot(row["seconds"], [100.0 * share for share in row["here"]], color=f"C{number}", label=label)
        axes.set_xlabel("processor time of training [s]")
        axes.set_ylabel("successes [%]")
        axes.set_ylim(-3.0, 103.0)
        axes.legend()


def section(record: dict[str, Any]) -> str:
    """Return the section of the page: a row for each task and law, and the rows of all trainings."""
    rows = record["rows"]
    picture = "![Successes over the seconds of training](skills.png)"
    folds = folded("All trainings", f"{LOADS}\n{training_table(rows)}")
    return "\n\n".join(part.strip() for part in (SKILLS, case_table(rows), picture, folds))


def case_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each task and law."""
    lines = [
        "| task | law | seeds | steps, in millions | processor time [s] | nine tenths succeed | after [s] "
        f"| successes, of {PLAYED} | in MuJoCo |",
        f"|{'---|' * 9}",
    ]
    for case, found in by_case(rows, case_of).items():
        times = times_of(found)
        cells = [str(len(found)), span([row["steps"][-1] / 1e6 for row in found], 1)]
        cells += [span([row["seconds"][-1] for row in found]), f"{len(times)} of {len(found)}"]
        cells += [span(times) if times else "-", counted([row["here"][-1] for row in found])]
        lines.append(f"| {' | '.join((*case, *cells, counted([row['mujoco'] for row in found])))} |")
    return "\n".join(lines)


def training_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each training."""
    lines = [
        "| task | law | seed | load | steps | processor time [s] | nine tenths succeed after [s] "
        f"| successes, of {PLAYED} | in MuJoCo | median distance [mm] |",
        f"|{'---|' * 10}",
    ]
    for row in rows:
        load = " to ".join(f"{value:.0f}" for value in row["load"])
        cells = [str(row["seed"]), load, f"{row['steps'][-1]:,}", f"{row['seconds'][-1]:.0f}"]
        cells += [span(times_of([row])) if times_of([row]) else "-", counted([row["here"][-1]])]
        cells += [counted([row["mujoco"]]), f"{1e3 * row['distance']:.1f}" if "distance" in row else "-"]
        lines.append(f"| {' | '.join((*case_of(row), *cells))} |")
    return "\n".join(lines)


def in_short(record: dict[str, Any], task: str) -> str:
    """Return a sentence about the trainings of a task."""
    (rows,) = [rows for (name, _), rows in by_case(record["rows"], case_of).items() if name == task]
    ends, times = [row["here"][-1] for row in rows], times_of(rows)
    after = f", nine tenths after {span(times)} s" if times else ""
    return (
        f'After {span([row["seconds"][-1] for row in rows])} s on one core, under the law "{rows[0]["law"]}", '
        f"{counted(ends)} of {PLAYED} succeed with {len(rows)} seeds{after}; "
        f"in MuJoCo {counted([row['mujoco'] for row in rows])}."
    )
