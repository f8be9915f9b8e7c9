"""Makes the page of results, and the figures in other pages, from the records that the other benchmarks wrote.

python -m bench.results          # from bench/results/*.json: docs/results.md with its plots, and figures in other pages
"""

import argparse
import json
import math
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import (
    ants_page,
    cmaes,
    curves,
    motions,
    open_loop,
    parallel_training,
    policies_page,
    robot_page,
    speed_page,
)
from bench.beside_mujoco import page as beside_mujoco
from bench.tables import page as tables
from sim.output import write_text

RECORDS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
INTRODUCTION = """\
# Results

This page repeats the experiments of Qiao, Liang, Koltun and Lin (*Efficient Differentiable Simulation of Articulated
Bodies*, ICML 2021), and puts the paper's figures beside those measured here. Of its reinforcement learning these are
the pendulums, sample enhancement, and ants that train in a simulator before MuJoCo. Apart from the pendulums and the
ant of sample enhancement the scenes are not the paper's, because not all of its robots and numbers are published.
One command makes this page from the records in [bench/results](../bench/results). Each section names the command that
measured it.

    python -m bench.results
"""

TRIALS = """\
Each random target is a separate optimisation. In throw, settle and golf the unknowns are the torques of all motors at
all steps: at the end of the motion the ball is at the target (throw) or lies there at rest (settle, golf). In friction
the unknown is the friction with which a racecar stops at the target. A target counts as reached when the distance falls
below 1 cm, in friction below 1 mm, within 50 iterations. Iterations and seconds are those of the targets reached.

Throws start from torques that hold the arm still for half a second and then let the ball drop; golf starts from zero
torques. If the ball stayed in the hand, the optimisation would get stuck: it would stretch the arm out towards the
target, where no gradient tells it to let go.
"""
TRIALS_PICTURES = """\
| throw | golf | racecar |
|---|---|---|
| ![An arm throws a ball](pictures/throw.webp) | ![A club hits a ball](pictures/golf.webp) \
| ![A car slides and stops](pictures/friction.webp) |
"""
RACECAR = "A racecar with locked wheels stops from 1 m/s after 0.8 m at a friction of v² / (2 g x) = 0.064, not 0.2."
PUBLISHED = """\
The paper's [published code](https://github.com/YilingQiao/diffarticulated) shows how close its own optimisations come.
Golf ends at a root mean square of 5 cm over the coordinates (`python/exp_punch.py`), which is a distance of 8.7 cm. The
racecar stops 1 cm from its mark (`python/exp_car.py`). A log of 60 throws (`ours_throw4.txt`) starts at 0.185 and has
its minimum, 0.0056, after 49 iterations. If these are root mean squares, as in `python/exp_throw.py`, the distances are
32 cm at the start, 4.8 cm after 20 iterations and 1.0 cm at the minimum.
"""
CMAES = """\
An episode is one motion simulated in one world. An iteration with gradients simulates one world per controlled
coordinate, so that one backward pass gives the derivatives of all of them: three worlds in throw, two in settle and
golf, one in friction. Both methods start from the same point. CMA-ES (pycma, with a diagonal covariance for thousands
of unknowns) may use 1,500 episodes, in friction 400, and simulates a generation at once. Each of its figures is from a
different seed. The goal is 1 cm, in friction 1 mm. When it started from torques that only hold the arm, CMA-ES came
within 8, 19 and 9 cm in throw.

In estimate, friction, restitution and two masses are estimated from the motion of one box (`examples/estimate.py`). The
goal is a χ² at most 1 above that of the best fit near the truth, which is within one standard deviation of it. Both
methods run ten times, with different seeds. The gradient search simulates 32 random guesses and improves the best
four side by side by Gauss-Newton steps. All these episodes are counted, and two more wherever derivatives are computed,
for which the motion and its intervals are simulated again. Boxes that are estimated together share the guesses: with
256 boxes, each accounts for 2. CMA-ES starts in the middle of the range and restarts from a random point when it
converges to a wrong minimum; it may use 4,000 episodes. An earlier version, which computed derivatives in every step,
needed 564, more than 616 and 552 episodes with the first three seeds, which now need 56, 56 and 48.

The intervals take 144 motions of each box more, without derivatives (`sim.identify.sample_surrogate`; sampling the
posterior itself took 1,536). A box with its intervals takes no more motions than CMA-ES's search alone, which gives
none.
"""
ESTIMATION = """\
A box is thrown at floor and wall while a known force pushes it. It is observed 20 times a second, with noise of 1 % of
the distance it travels and of the angle it turns (`examples/estimate.py`). The paper estimates friction only. Each
interval holds 95 % of the posterior: residuals of a few motions around the minima found are interpolated, and the
interpolant is sampled. Motions with derivatives count three. If the intervals are right, 95 % of them contain
the truth, give or take the standard error beside each share, and errors divided by the stated standard deviations have
a root mean square of 1. That is so of boxes drawn at random; for one box, whose posterior has several peaks, it needn't
be: here friction is always in its interval.
"""
ESTIMATION_PICTURE = "![A box bounces off a wall, past balls where it was seen](pictures/estimate.webp)\n"


@dataclass(frozen=True)
class Section:
    """A part of the page, made from one record.

    Attributes:
        title: heading of the section.
        file: name of the record in ``bench/results``.
        command: command that writes the record, without ``--json`` and the file. A record may hold its own command.
        text: makes the section from the record.
    """

    title: str
    file: str
    command: str
    text: Callable[[dict[str, Any]], str]


def trials_section(record: dict[str, Any]) -> str:
    """A line per problem: the paper's figure, and how many targets were reached."""
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
    """How many random targets of a problem were reached, as a clause of a sentence."""

    def text(record: dict[str, Any]) -> str:
        own = [trial for trial in record["trials"] if trial["problem"] == problem]
        reached = [trial for trial in own if trial["hit"]]
        if not reached:
            return f"none of {len(own)} random targets reached"
        counts = [trial["iterations"] for trial in reached]
        seconds = statistics.median(trial["seconds"] for trial in reached)
        share = "all" if len(reached) == len(own) else len(reached)
        return (
            f"{len(own)} random targets: {share} reached to within 1 cm in {min(counts)} to {max(counts)} iterations; "
            f"medians {statistics.median(counts):g} iterations and {seconds:.2g} s"
        )

    return text


def cmaes_section(record: dict[str, Any]) -> str:
    """Gradients compared with CMA-ES."""
    table = cmaes.table([cmaes.Run(**run) for run in record["runs"]])
    picture = "![The best so far over episodes and over seconds](cmaes.png)"
    return f"{CMAES}\n{table}\n\n{picture}{''.join(map(apart, record.get('apart', ())))}"


def apart(measured: dict[str, str]) -> str:
    """By which command a problem of the record was measured apart from the others, and under which load."""
    return f"\n\nFor {measured['problem']}: `{measured['command']}`, load average {measured['load']} beforehand."


def cmaes_in_short(record: dict[str, Any]) -> str:
    """Median episodes of both methods, as a clause of a sentence."""
    return cmaes.in_short([cmaes.Run(**run) for run in record["runs"]])


def held(run: dict[str, Any], k: int) -> str:
    """The share of 95 % intervals that contain the truth, with the standard error that 95 % has for this many boxes."""
    return f"{run['held'][k]:.1%} ± {math.sqrt(0.95 * 0.05 / run['boxes']):.1%}"


def estimation_section(record: dict[str, Any]) -> str:
    """Coverage of the intervals and spread of the estimates."""
    lines = [
        "| case | boxes | unknown | stated standard deviation (median) "
        "| root mean square error / stated standard deviation "
        "| 95 % intervals that contain the truth | iterations | motions a box: search + intervals "
        "| seconds, all boxes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in record["records"]:
        head = (run["case"], str(run["boxes"]))
        motions = f"{run['searching']:.0f} + {run['sampling']}"
        tail = (str(run["iterations"]), motions, f"{run['seconds']:.0f}")
        for k, name in enumerate(run["unknowns"]):
            first, last = (head, tail) if k == 0 else (("", ""), ("", "", ""))
            numbers = (f"{run['deviation'][k]:.1%}", f"{run['spread'][k]:.2f}", held(run, k))
            lines.append(f"| {' | '.join((*first, name, *numbers, *last))} |")
    good = ", ".join(f"{run['good']} of {run['boxes']}" for run in record["records"])
    table = "\n".join(lines)
    fits = f"Fits with residuals no larger than the noise explains: {good}."
    return f"{ESTIMATION}\n{ESTIMATION_PICTURE}\n{table}\n\n{fits}"


SECTIONS = [
    Section("Optimised motions and friction", "optimise_cpu.json", "python -m bench.optimise", trials_section),
    Section("Gradients compared with CMA-ES", "cmaes_cpu.json", "python -m bench.cmaes", cmaes_section),
    Section("Estimates and their uncertainty", "estimation_cpu.json", "python -m bench.estimation", estimation_section),
    Section(
        "Memory and time of long gradients",
        "tables_cpu.json",
        "python -m bench.tables --steps 50 100 500 1000 5000",
        tables.section,
    ),
    Section("Pendulums by torques alone", "open_loop_cpu.json", "python -m bench.open_loop", open_loop.section),
    Section("Policies", "policies_cpu.json", "python -m bench.policies", policies_page.section),
    Section(
        "Cart-pole to the same return", "cartpole_cpu.json", "python -m bench.cartpole", policies_page.cartpole_section
    ),
    Section(
        "Ants with sample enhancement",
        "sample_enhancement_cpu.json",
        "python -m bench.sample_enhancement",
        ants_page.enhancement_section,
    ),
    Section(
        "Ants from here to MuJoCo", "pretraining_cpu.json", "python -m bench.pretraining", ants_page.pretraining_section
    ),
    Section(
        "Forces and sensors beside MuJoCo",
        "beside_mujoco.json",
        "python -m bench.beside_mujoco corpus",
        beside_mujoco.section,
    ),
]


def page(records: Path = RECORDS) -> str:
    """The whole page, from a folder of records. A section without a record names the command that makes it."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        file = records / section.file
        parts.append(f"## {section.title}\n")
        if not file.is_file():
            parts.append(f"Not measured yet; run `{section.command} --json bench/results/{section.file}`.\n")
            continue
        record = json.loads(file.read_text(encoding="utf-8"))
        command = f"`{record.get('command', section.command)} --json bench/results/{section.file}`"
        parts.append(f"{section.text(record)}\n\nMeasured by {command} on {machine_line(record['machine'])}.\n")
    return "\n".join(parts)


def machine_line(machine: dict[str, str]) -> str:
    """The machine, its load and the versions, in words."""
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("python", "warp-lang", "numpy", "torch") if name in machine
    )
    cores = "1 core" if machine["cores"] == "1" else f"{machine['cores']} cores"
    return f"{cores} of {machine['processor']}, load average {machine['load']} beforehand; {versions}"


@dataclass(frozen=True)
class Figures:
    """The text between ``<!-- bench.results: name -->`` and ``<!-- end -->`` of a page, made from one record.

    Attributes:
        page: path of the page from the root of the repository.
        name: name in the marker.
        file: name of the record in ``bench/results``.
        text: makes the text from the record.
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
    Figures("README.md", "steps", "step_cpu.json", speed_page.steps),
    Figures("README.md", "worlds", "worlds_cpu.json", speed_page.worlds_in_short),
    Figures("README.md", "dynamics", "step_cpu.json", speed_page.dynamics),
    Figures("docs/speed.md", "steps", "step_cpu.json", speed_page.steps),
    Figures("docs/speed.md", "layer", "layer_cpu.json", speed_page.layer),
    Figures("docs/speed.md", "worlds", "worlds_cpu.json", speed_page.worlds),
    Figures("docs/speed.md", "traffic", "traffic.json", speed_page.traffic),
    Figures("docs/speed.md", "on_gpu", "step_cuda.json", speed_page.on_gpu),
    Figures("docs/robot.md", "speed", "robot_cpu.json", robot_page.speed),
    Figures("README.md", "single calls", "robot_cpu.json", robot_page.single_call_range),
    Figures("docs/robot.md", "reach", "reach_cpu.json", robot_page.reach),
    Figures("README.md", "reach", "reach_cpu.json", robot_page.reach_in_short),
    Figures("docs/optimise.md", "methods", "motions_cpu.json", motions.table),
    Figures("docs/optimise.md", "horizon", "motions_cpu.json", motions.horizon),
    Figures("docs/learning.md", "parallel", "parallel_training_cpu.json", parallel_training.figures),
    Figures("docs/learning.md", "times", "learning_cpu.json", policies_page.times),
    Figures("docs/learning.md", "single", "learning_cpu.json", policies_page.single_step),
    Figures("docs/learning.md", "arm", "learning_cpu.json", policies_page.arm_times),
    Figures("docs/learning.md", "solvers", "learning_cpu.json", policies_page.solver_times),
]


def filled(page: str, text: str, records: Path = RECORDS) -> str:
    """The text of a page with the figures from the records. Figures without a record stay unchanged.

    Raises:
        ValueError: if the page lacks a marker.
    """
    for figures in [each for each in FIGURES if each.page == page]:
        place = re.search(rf"<!-- bench\.results: {figures.name} -->(\s*)(.*?)(\s*)<!-- end -->", text, re.DOTALL)
        if place is None:
            raise ValueError(f"{page} has no marker for the figures '{figures.name}'")
        file = records / figures.file
        if file.is_file():
            found = figures.text(json.loads(file.read_text(encoding="utf-8")))
            text = text[: place.start(2)] + found + text[place.end(2) :]
    return text


# The pictures of the page, by the names of their records.
PLOTS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "cmaes": lambda path, record: cmaes.plot(path, [cmaes.Run(**run) for run in record["runs"]]),
    "sample_enhancement": ants_page.plot_enhancement,
    "policies": curves.plot_policies,
}


def write_plots(docs: Path, records: Path) -> None:
    """Write the pictures that the page shows."""
    for name, draw in PLOTS.items():
        file = records / f"{name}_cpu.json"
        if file.is_file():
            draw(docs / f"{name}.png", json.loads(file.read_text(encoding="utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the page and its plots")
    options = parser.parse_args()
    write_text(options.docs / "results.md", page(options.records))
    write_plots(options.docs, options.records)
    for page_name in dict.fromkeys(each.page for each in FIGURES):
        file = options.docs.parent / page_name
        write_text(file, filled(page_name, file.read_text(encoding="utf-8"), options.records))
    print(f"wrote results.md and its plots to {options.docs}, and figures to docs/robot.md and README.md")


if __name__ == "__main__":
    main()
