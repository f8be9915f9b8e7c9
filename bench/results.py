"""Generator of the pages of results, and of the figures in other pages, from the records of the other benchmarks.

    python -m bench.results                   # from bench/results: docs/results with plots, and figures in other pages
    python -m bench.results --measure robots  # measures a page again, and writes record and page to out/results

Measurements take from minutes to days. Trainings that are done aren't repeated when the command is, and bench/results
isn't touched.
"""

import argparse
import json
import math
import re
import shlex
import statistics
import subprocess
import sys
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
    skills_page,
    speed_page,
    walking_page,
)
from bench.beside_mujoco import page as beside_mujoco
from bench.tables import page as tables
from sim.output import write_text

RECORDS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
INTRODUCTION = """\
# Results

These pages repeat the experiments of Qiao, Liang, Koltun and Lin (*Efficient Differentiable Simulation of Articulated
Bodies*, ICML 2021) and compare the paper's numbers with those measured here. Further pages have robots
that follow velocities, get up and carry boxes, and one compares forces and sensors with MuJoCo's.
"""
INTRODUCTION_END = """\
The scenes are not the paper's, except for the pendulums and the ant of sample enhancement, because the paper does not
publish all of its robots and numbers. Of the paper's reinforcement learning, the pendulums, sample enhancement and
pretraining of ants are repeated.

One command writes these pages from the records in [bench/results](../../bench/results). Another one measures a page
again, on your machine: it runs the commands that its sections name, and writes records and page to `out/results`.

    python -m bench.results
    python -m bench.results --measure pendulums
"""
TRIALS = """\
Each random target is a separate optimisation. In throw, settle and golf the unknowns are the torques of all motors at
all steps. At the end of the motion the ball is at the target (throw) or rests there (settle, golf). In friction the
unknown is the friction coefficient with which a racecar stops at the target.

A target counts as reached if the distance falls below 1 cm, in friction below 1 mm, within 50 iterations. Iterations
and seconds are those of the targets reached.

Throws start from torques that hold the arm still for half a second and then let the ball drop. Golf starts from zero
torques. If the initial guess of a throw kept the ball in the hand, the optimisation would get stuck: it would stretch
the arm towards the target, where no gradient tells it to release the ball.
"""
TRIALS_PICTURES = """\
| throw | golf | racecar |
|---|---|---|
| ![An arm throws a ball](../pictures/throw.webp) | ![A club hits a ball](../pictures/golf.webp) \
| ![A car slides and stops](../pictures/friction.webp) |
"""
RACECAR = (
    "A racecar with locked wheels stops from 1 m/s after 0.8 m at a friction of v² / (2 g x) = 0.064, not 0.2 as in\n"
    "the paper."
)
PUBLISHED = """\
The paper's [published code](https://github.com/YilingQiao/diffarticulated) shows how close its own optimisations come:

- Golf ends at a root mean square of 5 cm over the coordinates (`python/exp_punch.py`), a distance of 8.7 cm.
- The racecar stops 1 cm from its mark (`python/exp_car.py`).
- A log of 60 throws (`ours_throw4.txt`) starts at 0.185 and has its minimum, 0.0056, after 49 iterations. If these
  are root mean squares, as in `python/exp_throw.py`, the distances are 32 cm at the start, 4.8 cm after 20 iterations
  and 1.0 cm at the minimum.
"""
CMAES = """\
An episode is one motion simulated in one world. An iteration with gradients simulates one world per controlled
coordinate, so that one backward pass gives the derivatives of all of them: three worlds in throw, two in settle and
golf, one in friction. The goal is 1 cm, in friction 1 mm.

Both methods start from the same point. CMA-ES (pycma, with a diagonal covariance for thousands of unknowns) may use
1,500 episodes, in friction 400, and simulates one generation at once. Each of its numbers is from a different seed.
When CMA-ES started from torques that only hold the arm, it came within 8, 19 and 9 cm in throw.

In estimate, the unknowns are friction, restitution and two masses of one box, estimated from its motion
(`examples/estimate.py`). The goal is a χ² at most 1 above that of the best fit near the truth, which is within one
standard deviation of it. Both methods run ten times, with different seeds:

- The gradient search simulates 32 random guesses and improves the best four in parallel by Gauss-Newton steps. All
  episodes count, and a step with derivatives counts two more, because the motion and its intervals are simulated
  again. Boxes estimated in one batch share the guesses: with 256 boxes, each accounts for 2.
- CMA-ES starts in the middle of the range and restarts from a random point when it converges to a wrong minimum. It
  may use 4,000 episodes.
- An earlier version of the gradient search, which computed derivatives in every step, needed 564, more than 616 and
  552 episodes with the first three seeds. The same seeds now need 56, 56 and 48.

The confidence intervals take 144 more motions of each box, without derivatives (`sim.identify.sample_surrogate`;
sampling the posterior itself took 1,536). A box with its intervals takes no more motions than the search by CMA-ES
alone, which gives no intervals.
"""
ESTIMATION = """\
A box is thrown at floor and wall while a known force pushes it. It is observed 20 times a second, with noise of 1 % of
the distance it travels and of the angle it turns (`examples/estimate.py`). The paper estimates friction only.

Each interval holds 95 % of the posterior. The posterior is sampled on an interpolant of the residuals of a few motions
around each minimum. A motion with derivatives counts as three motions.

If the intervals are right, 95 % of them contain the truth, give or take the standard error stated with each share. The
errors divided by the stated standard deviations then have a root mean square of 1. Both hold for boxes drawn at random.
They need not hold for one box whose posterior has several peaks: here the true friction is always in its interval.
"""
ESTIMATION_PICTURE = "![A box bounces off a wall, past balls where it was seen](../pictures/estimate.webp)\n"


@dataclass(frozen=True)
class Section:
    """Part of a page, made from one record.

    Attributes:
        title: heading of the section; "" for the only section of a page.
        file: name of the record in ``bench/results``.
        command: command that writes the record, without ``--json`` and the file. A record may hold its own command.
        text: makes the section from the record.
    """

    title: str
    file: str
    command: str
    text: Callable[[dict[str, Any]], str]


def trials_section(record: dict[str, Any]) -> str:
    """Return a row per problem: the paper's figure, and the number of targets reached."""
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
    """Return the number of random targets of a problem that were reached, as a clause of a sentence."""

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
    """Compare gradients with CMA-ES."""
    table = cmaes.table([cmaes.Run(**run) for run in record["runs"]])
    picture = "![The best so far over episodes and over seconds](cmaes.png)"
    return f"{CMAES}\n{table}\n\n{picture}{''.join(map(apart, record.get('apart', ())))}"


def apart(measured: dict[str, str]) -> str:
    """Return the command of a problem of the record that was measured separately, and its load."""
    return f"\n\nFor {measured['problem']}: `{measured['command']}`, load average {measured['load']} beforehand."


def cmaes_in_short(record: dict[str, Any]) -> str:
    """Return median episodes of both methods, as a clause of a sentence."""
    return cmaes.in_short([cmaes.Run(**run) for run in record["runs"]])


def held(run: dict[str, Any], k: int) -> str:
    """Return the fraction of 95 % intervals that contain the truth, with the standard error of 95 % for this many
    boxes.
    """
    return f"{run['held'][k]:.1%} ± {math.sqrt(0.95 * 0.05 / run['boxes']):.1%}"


def estimation_section(record: dict[str, Any]) -> str:
    """Return coverage of the intervals and spread of the estimates."""
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


@dataclass(frozen=True)
class Page:
    """Page of one experiment.

    Attributes:
        name: name of the file in ``docs/results``, without ``.md``.
        title: title of the page.
        point: what the experiment shows.
        sections: parts of the page.
    """

    name: str
    title: str
    point: str
    sections: tuple[Section, ...]


POLICIES = "python -m bench.policies --seeds 5 --tasks"
PENDULUMS = " ".join(f"Pendulum-{links}" for links in range(1, 8))
ROBOTS = "CartpoleSwingup PandaReach Ant Hopper HalfCheetah"
PAGES = [
    Page(
        "motions",
        "Optimised motions and friction",
        "Gradients through contact reach all 150 random targets, with medians of at most 9 iterations and 1.9 seconds.",
        (Section("", "optimise_cpu.json", "python -m bench.optimise", trials_section),),
    ),
    Page(
        "cmaes",
        "Gradients compared with CMA-ES",
        "With thousands of unknowns, gradients reach within 30 episodes what CMA-ES does not reach within 1,500.\n"
        "With one to four unknowns, gradients need 4 to 56 episodes; CMA-ES needs 44 to 368, or fails within 4,000.",
        (Section("", "cmaes_cpu.json", "python -m bench.cmaes", cmaes_section),),
    ),
    Page(
        "estimates",
        "Estimates and their uncertainty",
        "For boxes drawn at random, 93.8 to 96.5 % of the 95 % intervals contain the true parameter.",
        (Section("", "estimation_cpu.json", "python -m bench.estimation", estimation_section),),
    ),
    Page(
        "long-gradients",
        "Memory and time of long gradients",
        "The gradient of 5,000 steps of a quadruped takes 1.3 MB and 0.18 s.\n"
        "PyTorch would need more than 4,000 times the memory for the same step; MJX needs 36 to 380 times the memory.",
        (Section("", "tables_cpu.json", "python -m bench.tables --steps 50 100 500 1000 5000", tables.section),),
    ),
    Page(
        "pendulums",
        "Pendulums of one to seven links",
        "Gradients of whole episodes lift pendulums of up to seven links with at least 98 % of the best return.\n"
        "With one simulation step per action, as in the paper, the motions exploit the integration error.",
        (
            Section("Torques alone", "open_loop_cpu.json", "python -m bench.open_loop", open_loop.section),
            Section("Policies", "policies_cpu.json", f"{POLICIES} {PENDULUMS}", policies_page.pendulum_section),
        ),
    ),
    Page(
        "robots",
        "Policies of robots",
        "Short-horizon gradients (SHAC) teach HalfCheetah and Hopper sooner than PPO does; PPO teaches Ant better.\n"
        "Policies trained under MuJoCo's contact law carry over to MuJoCo; those trained on hard contacts often don't.",
        (
            Section("Trainings", "policies_cpu.json", f"{POLICIES} {ROBOTS}", policies_page.robot_section),
            Section(
                "Cart-pole to the same return",
                "cartpole_cpu.json",
                "python -m bench.cartpole --seeds 5",
                policies_page.cartpole_section,
            ),
        ),
    ),
    Page(
        "walking",
        "Robots that follow velocities",
        "A quadruped, Unitree's Go2 and the humanoid G1 follow commanded velocities after minutes of training on one\n"
        "or two cores. Policies trained under MuJoCo's law walk in MuJoCo as they do here; those trained on hard\n"
        "contacts walk there with larger errors. On slopes, bumps and stairs the quadruped learns more slowly.",
        (Section("", "walking_cpu.json", "python -m bench.walking --seeds 5", walking_page.section),),
    ),
    Page(
        "skills",
        "Robots that get up, and an arm that carries boxes",
        "Four of five quadrupeds learn to get up from any fall in four to seven minutes on one core. Arms learn to\n"
        "carry boxes to targets in little more than a minute. Both do so in MuJoCo, too.",
        (Section("", "skills_cpu.json", "python -m bench.skills --seeds 5", skills_page.section),),
    ),
    Page(
        "sample-enhancement",
        "Ants with sample enhancement",
        "Sample enhancement helps per simulation step, but not per second of training.\n"
        "Neighbours predicted by derivatives are no better than neighbours that are simulated.",
        (
            Section(
                "",
                "sample_enhancement_cpu.json",
                "python -m bench.sample_enhancement --seeds 5",
                ants_page.enhancement_section,
            ),
        ),
    ),
    Page(
        "pretraining",
        "Ants pretrained here for MuJoCo",
        "Ants that train here before MuJoCo reach an average return of 2982 there; with MuJoCo alone they reach 343,\n"
        "and 993 in twice the time.",
        (Section("", "pretraining_cpu.json", "python -m bench.pretraining --seeds 5", ants_page.pretraining_section),),
    ),
    Page(
        "forces-and-sensors",
        "Forces and sensors compared with MuJoCo",
        "From the same states, forces and sensors of 15 of 20 robots agree with MuJoCo to 5e-13 of the largest value.\n"
        "In the other five, contact points differ or MuJoCo's own search is less exact.",
        (
            Section(
                "",
                "beside_mujoco.json",
                "python -m bench.beside_mujoco corpus",
                beside_mujoco.section,
            ),
        ),
    ),
]


def pages(records: Path = RECORDS) -> dict[str, str]:
    """Return the text of each page of ``docs/results`` by its name, from a folder of records."""
    lines = [f"- [{page.title}]({page.name}.md): {page.point.replace(chr(10), ' ')}" for page in PAGES]
    toctree = "\n".join(["```{toctree}", ":hidden:", "", *(page.name for page in PAGES), "```"])
    front = "\n".join([INTRODUCTION, *lines, "", INTRODUCTION_END, toctree, ""])
    return {"index": front} | {page.name: page_text(page, records) for page in PAGES}


def page_text(page: Page, records: Path) -> str:
    """Return the text of a page. A section without a record names the command that makes it."""
    parts = [f"# {page.title}\n", f"{page.point}\n"]
    for section in page.sections:
        file = records / section.file
        if section.title:
            parts.append(f"## {section.title}\n")
        if not file.is_file():
            parts.append(f"Not measured yet; run `{section.command} --json bench/results/{section.file}`.\n")
            continue
        record = json.loads(file.read_text(encoding="utf-8"))
        command = f"`{record.get('command', section.command)} --json bench/results/{section.file}`"
        parts.append(f"{section.text(record)}\n\nMeasured by {command} on {machine_line(record['machine'])}.\n")
    return "\n".join(parts)


def machine_line(machine: dict[str, str]) -> str:
    """Return the machine, its load and the versions, in words."""
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
    Figures("docs/speed.md", "heap", "heap_cpu.json", speed_page.heap),
    Figures("docs/speed.md", "layer", "layer_cpu.json", speed_page.layer),
    Figures("docs/speed.md", "worlds", "worlds_cpu.json", speed_page.worlds),
    Figures("docs/speed.md", "cameras", "cameras_cpu.json", speed_page.cameras),
    Figures("docs/cameras.md", "cameras", "cameras_cpu.json", speed_page.cameras),
    Figures("docs/speed.md", "traffic", "traffic.json", speed_page.traffic),
    Figures("docs/speed.md", "on_gpu", "step_cuda.json", speed_page.on_gpu),
    Figures("docs/robot.md", "speed", "robot_cpu.json", robot_page.speed),
    Figures("README.md", "single calls", "robot_cpu.json", robot_page.single_call_range),
    Figures("docs/robot.md", "reach", "reach_cpu.json", robot_page.reach),
    Figures("README.md", "reach", "reach_cpu.json", robot_page.reach_in_short),
    Figures("docs/optimise.md", "methods", "motions_cpu.json", motions.table),
    Figures("docs/optimise.md", "horizon", "motions_cpu.json", motions.horizon),
    Figures("docs/locomotion.md", "walking", "walking_cpu.json", walking_page.in_short),
    Figures("docs/learning.md", "parallel", "parallel_training_cpu.json", parallel_training.figures),
    Figures("docs/learning.md", "times", "learning_cpu.json", policies_page.times),
    Figures("docs/learning.md", "single", "learning_cpu.json", policies_page.single_step),
    Figures("docs/learning.md", "arm", "learning_cpu.json", policies_page.arm_times),
    Figures("docs/learning.md", "solvers", "learning_cpu.json", policies_page.solver_times),
]


def filled(page: str, text: str, records: Path = RECORDS) -> str:
    """Return the text of a page with the figures from the records. Figures without a record stay unchanged.

    Raises:
        ValueError: if the page lacks a marker.
    """
    for figures in [each for each in FIGURES if each.page == page]:
        found_block = re.search(rf"<!-- bench\.results: {figures.name} -->(\s*)(.*?)(\s*)<!-- end -->", text, re.DOTALL)
        if found_block is None:
            raise ValueError(f"{page} has no marker for the figures '{figures.name}'")
        file = records / figures.file
        if file.is_file():
            found = figures.text(json.loads(file.read_text(encoding="utf-8")))
            text = text[: found_block.start(2)] + found + text[found_block.end(2) :]
    return text


# Pictures of the pages, by the names of their records.
PLOTS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "cmaes": lambda path, record: cmaes.plot(path, [cmaes.Run(**run) for run in record["runs"]]),
    "sample_enhancement": ants_page.plot_enhancement,
    "policies": curves.plot_policies,
    "walking": walking_page.plot_errors,
    "skills": skills_page.plot_successes,
}


def write_plots(folder: Path, records: Path) -> None:
    """Write the pictures that the pages of results show."""
    for name, draw in PLOTS.items():
        file = records / f"{name}_cpu.json"
        if file.is_file():
            draw(folder / f"{name}.png", json.loads(file.read_text(encoding="utf-8")))


def measure(name: str, folder: Path) -> None:
    """Measure the records of a page again in a folder, and write the page there."""
    page = next(each for each in PAGES if each.name == name)
    folder.mkdir(parents=True, exist_ok=True)
    for section in page.sections:
        command = shlex.split(section.command)[1:]
        subprocess.run([sys.executable, *command, "--json", str(folder / section.file)], check=True)
    write_text(folder / f"{name}.md", page_text(page, folder))
    write_plots(folder, folder)
    print(f"wrote {folder / name}.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the pages")
    parser.add_argument("--measure", choices=[page.name for page in PAGES], help="measure a page again")
    parser.add_argument("--out", type=Path, default=Path("out/results"), help="folder for that (out/results)")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.out)
        return
    for name, text in pages(options.records).items():
        write_text(options.docs / "results" / f"{name}.md", text)
    write_plots(options.docs / "results", options.records)
    for page_name in dict.fromkeys(each.page for each in FIGURES):
        file = options.docs.parent / page_name
        write_text(file, filled(page_name, file.read_text(encoding="utf-8"), options.records))
    print(f"wrote the pages of {options.docs / 'results'} with their plots, and figures in other pages")


if __name__ == "__main__":
    main()
