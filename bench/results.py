"""The page of results and figures in other pages, from the records that the other benchmarks have written.

python -m bench.results          # writes docs/results.md and its plots, and fills in figures, from bench/results/*.json
"""

import argparse
import json
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import cmaes, robot_page
from bench.tables import page as tables

RECORDS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
INTRODUCTION = """\
# Results

The experiments of Qiao, Liang, Koltun and Lin (*Efficient Differentiable Simulation of Articulated Bodies*, ICML 2021)
outside reinforcement learning, with what the paper says of its own beside what was measured here. The scenes are not
the paper's, of which robots and numbers aren't all published. One command makes this page from the records in
[bench/results](../bench/results), and each section names the one that measures:

    python -m bench.results
"""

TRIALS = """\
Random targets, each with a search of its own: torques of all motors at all steps so that a ball is at the target in the
end (throw) or lies there at rest (settle, golf), and the friction with which a racecar stops there. Reached is what
came within 1 cm, in friction 1 mm, in at most 50 iterations; the figures of iterations and seconds are of these.

Throws begin with torques that hold the arm still for half a second and then let the ball drop, golf with none. From a
ball that stays in the hand a search goes astray: it stretches the arm out towards the target, where nothing tells it to
let go.
"""
TRIALS_PICTURES = """\
| throw | golf | racecar |
|---|---|---|
| ![An arm throws a ball](pictures/throw.gif) | ![A club hits a ball](pictures/golf.gif) \
| ![A car slides and stops](pictures/friction.gif) |
"""
RACECAR = "A racecar with locked wheels stops from 1 m/s after 0.8 m at a friction of v² / (2 g x) = 0.064, not 0.2."
PUBLISHED = """\
How near the paper's searches come can be read in its [published code](https://github.com/YilingQiao/diffarticulated):
golf ends at a root mean square of 5 cm over the coordinates (`python/exp_punch.py`), which is 8.7 cm, and the racecar
1 cm from its mark (`python/exp_car.py`). A log of 60 throws in it (`ours_throw4.txt`) begins at 0.185 and is least
after 49 iterations, with 0.0056; were these root mean squares, as in `python/exp_throw.py`, the throw would be 32 cm
and 1.0 cm off, and 4.8 cm after 20 iterations.
"""
CMAES = """\
An episode is one motion simulated in one world. An iteration by gradients simulates a world for each coordinate that
it steers, so that one backward pass gives all their derivatives: three in throw, two in settle and golf, one in
friction. Both methods begin alike. CMA-ES (pycma, a diagonal covariance where there are thousands of unknowns) may
use 1,500 episodes, in friction 400, and simulates a generation at once; each of its figures is of another seed. The
goal is 1 cm, in friction 1 mm. From torques that only hold the arm, CMA-ES came within 8, 19 and 9 cm in throw.

In estimate, one box tells friction, restitution and two masses (`examples/estimate.py`). The goal is a χ² no larger
than that of the best fit next to the truth plus 1: within one standard deviation of it. Both methods search three
times, with other seeds. That by gradients simulates 512 random guesses, then improves the best four side by side; all
these episodes are counted, and with four unknowns CMA-ES needs fewer than there are guesses. Boxes that are estimated
together share the guesses, so of 256 boxes each would take 2 and four for each iteration. CMA-ES begins in the middle
of the range and anew from a random place where it ends elsewhere; it may use 4,000 episodes.
"""
ESTIMATION = """\
A box is thrown at floor and wall while a known force pushes it, and is observed 20 times a second with 1 % noise of its
way and of its turn (`examples/estimate.py`). Of this the paper has the friction alone. Intervals
hold 95 % of what the observations leave likely, sampled around the best fit; were they right, 95 % of them would hold
the truth, and errors in stated standard deviations would have a root mean square of 1.
"""
ESTIMATION_PICTURE = "![A box bounces off a wall, past balls where it was seen](pictures/estimate.gif)\n"


@dataclass(frozen=True)
class Section:
    """A part of the page, made from one record.

    Attributes:
        title: its heading.
        file: the record's, in ``bench/results``.
        command: that writes the record, but for ``--json`` and the file; a record of a part of it holds its own.
        text: makes the section from the record.
    """

    title: str
    file: str
    command: str
    text: Callable[[dict[str, Any]], str]


def trials_section(record: dict[str, Any]) -> str:
    """A line per problem: what the paper says, how many targets were reached."""
    lines = [
        "| problem | paper | targets | reached | iterations: least, median, most | seconds: median |",
        "|---|---|---|---|---|---|",
    ]
    for problem in dict.fromkeys(trial["problem"] for trial in record["trials"]):
        own = [trial for trial in record["trials"] if trial["problem"] == problem]
        reached = [trial for trial in own if trial["hit"]]
        counts = [trial["iterations"] for trial in reached]
        spread = f"{min(counts)}, {statistics.median(counts):g}, {max(counts)}" if counts else "-"
        seconds = f"{statistics.median(trial['seconds'] for trial in reached):.1f}" if counts else "-"
        lines.append(
            f"| {problem} | {cmaes.PAPER.get(problem, '')} | {len(own)} | {len(reached)} | {spread} | {seconds} |"
        )
    missed = [
        f"{trial['problem']} at ({', '.join(f'{x:.2f}' for x in trial['target'])}) m: {100.0 * trial['off']:.1f} cm off"
        for trial in record["trials"]
        if not trial["hit"]
    ]
    missing = f"Missed: {'; '.join(missed)}.\n\n" if missed else ""
    table = "\n".join(lines)
    return f"{TRIALS}\n{TRIALS_PICTURES}\n{table}\n\n{missing}{RACECAR}\n\n{PUBLISHED.strip()}"


def trials_in_short(problem: str) -> Callable[[dict[str, Any]], str]:
    """How many random targets of a problem were reached, in half a sentence."""

    def text(record: dict[str, Any]) -> str:
        own = [trial for trial in record["trials"] if trial["problem"] == problem]
        reached = [trial for trial in own if trial["hit"]]
        if not reached:
            return f"none of {len(own)} random targets reached"
        counts = [trial["iterations"] for trial in reached]
        seconds = statistics.median(trial["seconds"] for trial in reached)
        share = "all" if len(reached) == len(own) else f"{len(reached)} of them"
        return (
            f"{len(own)} random targets: {share} reached to 1 cm, after {min(counts)} to {max(counts)} iterations, "
            f"in the median {statistics.median(counts):g}, in {seconds:.2g} s"
        )

    return text


def cmaes_section(record: dict[str, Any]) -> str:
    """Gradients beside CMA-ES."""
    table = cmaes.table([cmaes.Run(**run) for run in record["runs"]])
    return f"{CMAES}\n{table}\n\n![The best so far over episodes and over seconds](cmaes.png)"


def cmaes_in_short(record: dict[str, Any]) -> str:
    """Episodes that both took, in the median, as a clause of a sentence."""
    return cmaes.in_short([cmaes.Run(**run) for run in record["runs"]])


def estimation_section(record: dict[str, Any]) -> str:
    """Intervals and spread of the estimates."""
    lines = [
        "| case | boxes | unknown | stated standard deviation (median) | root mean square error, in stated ones "
        "| 95 % intervals that hold the truth | iterations | seconds, all boxes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in record["records"]:
        head = (run["case"], str(run["boxes"]))
        tail = (str(run["iterations"]), f"{run['seconds']:.0f}")
        for k, name in enumerate(run["unknowns"]):
            first, last = (head, tail) if k == 0 else (("", ""), ("", ""))
            numbers = (f"{run['deviation'][k]:.1%}", f"{run['spread'][k]:.2f}", f"{run['held'][k]:.1%}")
            lines.append(f"| {' | '.join((*first, name, *numbers, *last))} |")
    good = ", ".join(f"{run['good']} of {run['boxes']}" for run in record["records"])
    table = "\n".join(lines)
    fits = f"Fits whose deviations are no larger than the noise makes them: {good}."
    return f"{ESTIMATION}\n{ESTIMATION_PICTURE}\n{table}\n\n{fits}"


SECTIONS = [
    Section("Optimised motions and friction", "optimise_cpu.json", "python -m bench.optimise", trials_section),
    Section("Gradients beside CMA-ES", "cmaes_cpu.json", "python -m bench.cmaes", cmaes_section),
    Section("Estimates and their uncertainty", "estimation_cpu.json", "python -m bench.estimation", estimation_section),
    Section(
        "Memory and time of long gradients",
        "tables_cpu.json",
        "python -m bench.tables --steps 50 100 500 1000 5000",
        tables.section,
    ),
]


def page(records: Path = RECORDS) -> str:
    """The whole page, from a folder of records. What has no record says how to make it."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        file = records / section.file
        parts.append(f"## {section.title}\n")
        if not file.is_file():
            parts.append(f"Not measured yet; `{section.command} --json bench/results/{section.file}` does.\n")
            continue
        record = json.loads(file.read_text(encoding="utf-8"))
        command = f"`{record.get('command', section.command)} --json bench/results/{section.file}`"
        parts.append(f"{section.text(record)}\n\n{command} on {machine_line(record['machine'])}.\n")
    return "\n".join(parts)


def machine_line(machine: dict[str, str]) -> str:
    """What was measured on, in words."""
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("python", "warp-lang", "numpy", "torch") if name in machine
    )
    return f"{machine['cores']} cores of {machine['processor']}, load {machine['load']} before; {versions}"


@dataclass(frozen=True)
class Figures:
    """What stands between ``<!-- bench.results: name -->`` and ``<!-- end -->`` of a page, made from one record.

    Attributes:
        page: from the root of the repository.
        name: of the place.
        file: the record's, in ``bench/results``.
        text: makes it from the record.
    """

    page: str
    name: str
    file: str
    text: Callable[[Any], str]


FIGURES = [
    Figures("README.md", "throw", "optimise_cpu.json", trials_in_short("throw")),
    Figures("README.md", "settle", "optimise_cpu.json", trials_in_short("throw --settle")),
    Figures("README.md", "golf", "optimise_cpu.json", trials_in_short("golf")),
    Figures("README.md", "episodes", "cmaes_cpu.json", cmaes_in_short),
    Figures("docs/robot.md", "speed", "robot_cpu.json", robot_page.speed),
    Figures("README.md", "single calls", "robot_cpu.json", robot_page.single_call_range),
    Figures("docs/robot.md", "reach", "reach_cpu.json", robot_page.reach),
    Figures("README.md", "reach", "reach_cpu.json", robot_page.reach_in_short),
]


def filled(page: str, text: str, records: Path = RECORDS) -> str:
    """The text of a page with the figures of the records; without a record they stay as they are.

    Raises:
        ValueError: if the page lacks a place.
    """
    for figures in [each for each in FIGURES if each.page == page]:
        place = re.search(rf"<!-- bench\.results: {figures.name} -->(\s*)(.*?)(\s*)<!-- end -->", text, re.DOTALL)
        if place is None:
            raise ValueError(f"{page} has no place for figures '{figures.name}'")
        file = records / figures.file
        if file.is_file():
            found = figures.text(json.loads(file.read_text(encoding="utf-8")))
            text = text[: place.start(2)] + found + text[place.end(2) :]
    return text


def write_plots(docs: Path, records: Path) -> None:
    """The pictures that the page shows."""
    file = records / "cmaes_cpu.json"
    if file.is_file():
        record = json.loads(file.read_text(encoding="utf-8"))
        cmaes.plot(docs / "cmaes.png", [cmaes.Run(**run) for run in record["runs"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the page and its plots")
    options = parser.parse_args()
    (options.docs / "results.md").write_text(page(options.records), encoding="utf-8")
    write_plots(options.docs, options.records)
    for page_name in dict.fromkeys(each.page for each in FIGURES):
        file = options.docs.parent / page_name
        file.write_text(filled(page_name, file.read_text(encoding="utf-8"), options.records), encoding="utf-8")
    print(f"wrote results.md and its plots to {options.docs}, figures of the robot to docs/robot.md and README.md")


if __name__ == "__main__":
    main()
