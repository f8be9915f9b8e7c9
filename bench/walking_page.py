"""Records of ``bench.walking`` as text and plot for the pages."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.policies_page import folded
from bench.trainings import by_case
from examples.outputs import plot

GOAL = 0.1  # error of the velocity [m/s]
ROBOTS = 64  # that are played
WALKING = """\
Robots follow random velocities of up to 1 m/s ahead and back, 0.5 m/s to the sides and 1 rad/s about the vertical.
G1 follows up to 1 m/s ahead, 0.5 m/s back, 0.3 m/s to the sides and 0.5 rad/s.
In training, friction varies by a factor of 0.5 to 1.2 and masses and gains by 10 % between episodes, and robots are
pushed.

The errors are those of the policy without randomness: 64 robots follow a command each for five seconds from standing,
without the first second. The error of the velocity is its mean distance from the command at each action, 50 times a
second, with the swaying of the gait; that of its mean takes the mean velocity of each robot. The processor time is that
of all processes that train a policy, with one thread each.

For MuJoCo the model is written as MJCF. It has the same time step, the integrator "implicitfast" and soft contacts. The
law "mujoco" takes MuJoCo's steps in training, too. The reward for the time that feet are in the air has no gradient,
which SHAC would need. G1 walks [with a clock and legs that fold](../locomotion.md#gaits), on the joints of its legs. By
SHAC its learning rates fall to a tenth.

Rough ground has fifteen tiles: slopes of 3 to 17 degrees, bumps of 1 to 5 cm and stairs of 2 to 10 cm, each from easy
to hard. There robots observe heights around them, train [from level to level](../locomotion.md#terrain), and are played
from the middle of each tile. MuJoCo's heightfields are rows of prisms, whose inner sides feet touch as well: a robot on
the level platform of a slope has eight contacts there instead of four, half of them tilted by 30 degrees.

Columns have the smallest and the largest number of the seeds. The seconds to 0.1 m/s are those of the trainings that
get there. The command below trains the seeds that are missing.
"""
LOADS = """\
The load is the average number of running programs before and after a training, on two cores. Trainings without this
number are older than the others.
"""


def robot_of(row: dict[str, Any]) -> str:
    """Return the name of a training's robot."""
    name = str(row["task"]).removesuffix("Velocity")
    return f"{name.removesuffix('Rough')}, rough ground" if name.endswith("Rough") else name


def case_of(row: dict[str, Any]) -> tuple[str, str, str]:
    """Return robot, law and algorithm of a training, in words."""
    return (robot_of(row), row["law"], row["algorithm"].upper())


def processor_time(row: dict[str, Any]) -> list[float]:
    """Return the processor time of all processes up to each policy [s]."""
    return [row["processes"] * seconds for seconds in row["seconds"]]


def reached(row: dict[str, Any]) -> float:
    """Return the processor time after which the error of the velocity is below the goal [s]; infinity if it never
    is.
    """
    return next((s for s, e in zip(processor_time(row), row["speed_error"], strict=True) if e < GOAL), math.inf)


def span(values: Sequence[float], digits: int = 0) -> str:
    """Return the smallest and the largest number, or one if they don't differ."""
    low, high = (f"{value:,.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def plot_errors(path: Path, record: dict[str, Any]) -> None:
    """Plot errors of the velocity over the seconds of training, a line for each training."""
    with plot(path) as (axes,):
        for number, ((robot, law, method), rows) in enumerate(by_case(record["rows"], case_of).items()):
            for row, label in zip(rows, [f"{robot}, {method}, law '{law}'", *[None] * len(rows)], strict=False):
                axes.semilogy(processor_time(row), row["speed_error"], color=f"C{number}", label=label)
        axes.axhline(GOAL, color="0.5", linewidth=1.0, linestyle="--")
        axes.set_xlabel("processor time of training [s]")
        axes.set_ylabel("error of the velocity [m/s]")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")


def section(record: dict[str, Any]) -> str:
    """Return the section of the page: a row for each case, and the rows of all trainings."""
    rows = record["rows"]
    picture = "![Error over the seconds of training](walking.png)"
    folds = folded("All trainings", f"{LOADS}\n{training_table(rows)}")
    return "\n\n".join(part.strip() for part in (WALKING, case_table(rows), picture, folds))


def case_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each robot, law and algorithm."""
    lines = [
        "| robot | law | algorithm | seeds | processor time [s] | below 0.1 m/s | after [s] "
        f"| error of the velocity [m/s] | fell, of {ROBOTS} | in MuJoCo: error of the velocity [m/s] | fell |",
        f"|{'---|' * 11}",
    ]
    for case, found in by_case(rows, case_of).items():
        times = [reached(row) for row in found if math.isfinite(reached(row))]
        cells = [str(len(found)), span([processor_time(row)[-1] for row in found])]
        cells += [f"{len(times)} of {len(found)}", span(times) if times else "-"]
        for engine in ("here", "mujoco"):
            cells.append(span([row[engine]["speed_error"] for row in found], 3))
            cells.append(span([row[engine]["falls"] for row in found]))
        lines.append(f"| {' | '.join((*case, *cells))} |")
    return "\n".join(lines)


def training_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row for each training."""
    lines = [
        "| robot | law | algorithm | seed | load | processes | steps | processor time [s] | below 0.1 m/s after [s] "
        "| error of the velocity [m/s] | of its mean [m/s] | of the rate [rad/s] | fell "
        "| in MuJoCo: error of the velocity [m/s] | of its mean [m/s] | of the rate [rad/s] | fell |",
        f"|{'---|' * 17}",
    ]
    for row in rows:
        load = " to ".join(f"{value:.0f}" for value in row["load"]) if "load" in row else "-"
        after = "-" if math.isinf(reached(row)) else f"{reached(row):.0f}"
        cells = [str(row["seed"]), load, str(row["processes"]), f"{row['steps'][-1]:,}"]
        cells += [f"{processor_time(row)[-1]:.0f}", after]
        cells += [
            f"{row[engine][name]:.3f}" if name != "falls" else str(row[engine][name])
            for engine in ("here", "mujoco")
            for name in ("speed_error", "mean_speed_error", "turn_error", "falls")
        ]
        lines.append(f"| {' | '.join((*case_of(row), *cells))} |")
    return "\n".join(lines)


def in_short(record: dict[str, Any]) -> str:
    """Return a line for each robot, law and algorithm: the time to the goal, and the error at the end."""
    lines = []
    for robot in dict.fromkeys(map(robot_of, record["rows"])):
        cases = by_case([row for row in record["rows"] if robot_of(row) == robot], case_of)
        for (_, law, method), rows in cases.items():
            times = [reached(row) for row in rows if math.isfinite(reached(row))]
            goal = f"{len(times)} of {len(rows)} below {GOAL} m/s" + (f" after {span(times)} s" if times else "")
            errors = span([row["here"]["speed_error"] for row in rows], 3)
            whole = span([processor_time(row)[-1] for row in rows])
            lines.append(f'- {robot} by {method}, law "{law}": {goal}; {errors} m/s after {whole} s')
    return "\n".join(lines)
