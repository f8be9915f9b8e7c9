"""Record of ``bench.beside_mujoco`` as a section of the results page (``bench.results``)."""

import re
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

LOOSER = 100.0  # tolerance of MuJoCo's second free motion, relative to the file's

TEXT = """\
Random inputs drive each robot in MuJoCo for {steps:,} steps, from the first keyframe of its file or its default, with
the settings of the file. From each of these states both engines take one step in float64, each with its own contacts,
so that differences don't add up. Each file gets a standard set of sensors for its joints, bodies, actuators and
tendons, in addition to its own.

The table gives the largest difference over all steps as a share of the largest value:

- energy: total energy after the step, as a share of the largest kinetic energy;
- constraints: generalised forces of constraints;
- actuators, passive: generalised forces of actuators, springs and dampers;
- contacts: contact forces on each geom;
- sensors: all sensors, with the kind that differs most.

MuJoCo's solver runs to convergence here. The last column is the largest change of any of these in MuJoCo itself when
its solver stops at the tolerance of the file."""
RK4 = """\
¹ The integrator of the file is RK4. Generalised forces are those of an Euler step from the same states, since MuJoCo's
don't depend on the integrator; everything else comes from RK4 steps."""
BALANCE = """\
² `JointForces` doesn't separate the forces of a medium. Here constraint forces are the change of velocity in the step
minus MuJoCo's other forces, so that they include the differences of all of them."""
FREE = """\
Then each engine computes the whole motion by itself, with the settings of the file. The number in brackets is the
difference between MuJoCo's motion and its own with {looser:g} times the tolerance. "Position" is the largest distance
of any body from its position in MuJoCo. Motions diverge if they are chaotic or if contacts differ."""
LEFT = "Not compared, because the importer refuses or lacks it: {left}."


def section(record: dict[str, Any]) -> str:
    """Return the description, the three tables, and the quantities that aren't compared."""
    rows = record["rows"]
    parts = [TEXT.format(steps=record["steps"]), along_table(rows)]
    if any(row["integrator"] == "RK4" for row in rows):
        parts.append(RK4)
    if any("passive" not in row["along"] for row in rows):
        parts.append(BALANCE)
    parts += [kinds_table(rows), FREE.format(looser=LOOSER), free_table(rows)]
    if left := left_out(rows):
        parts.append(LEFT.format(left=left))
    return "\n\n".join(parts)


def along_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a row per model: differences along MuJoCo's motion."""
    lines = [
        "| model | dofs | steps with contact | energy | constraints | actuators, passive | contacts "
        "| sensors: most | MuJoCo itself |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        along, sensors = row["along"], row["sensors"]
        worst = max(sensors, key=lambda kind: sensors[kind]["converged"])
        spread = max(each["spread"] for each in (*along.values(), *sensors.values()))
        marks = ("¹" if row["integrator"] == "RK4" else "") + ("" if "passive" in along else "²")
        cells = (
            row["name"] + marks,
            str(row["dofs"]),
            str(row["touching"]),
            most(along, "energy"),
            most(along, "constraint"),
            most(along, "actuator", "passive"),
            most(along, "contact"),
            f"{number(sensors[worst]['converged'])} {worst.replace('_', ' ')}",
            number(spread),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def kinds_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a row per kind of sensor: over all models."""
    lines = ["| kind of sensor | models | median | most | in |", "|---|---|---|---|---|"]
    found: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        for kind, each in row["sensors"].items():
            found.setdefault(kind, []).append((each["converged"], row["name"]))
    for kind, each in sorted(found.items()):
        middle = statistics.median(value for value, _ in each)
        value, name = max(each)
        lines.append(f"| {kind} | {len(each)} | {number(middle)} | {number(value)} | {name if value else ''} |")
    return "\n".join(lines)


def free_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a row per model: free motions."""
    lines = ["| model | position [m] | energy | constraints | contacts | sensors: most |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [beside(row["free"], name) for name in ("position", "energy", "constraint", "contact")]
        here, spread = (max(map(size, column(row["free_sensors"], name))) for name in ("here", "spread"))
        lines.append(f"| {' | '.join((row['name'], *cells, f'{number(here)} ({number(spread)})'))} |")
    return "\n".join(lines)


def left_out(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the quantities that aren't compared, each with its models."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for reason in row["left_out"]:
            if not reason.startswith("JointForces"):
                found.setdefault(short(reason), []).append(row["name"])
    return "; ".join(f"{reason} ({', '.join(dict.fromkeys(names))})" for reason, names in found.items())


def short(reason: str) -> str:
    """Return a message without the sensor's name."""
    if match := re.search(r"measure .*tendon '(.*?)'", reason):
        return f"forces and torques in joints of what the tendon {match[1]} pulls at"
    if match := re.search(r"measure .*constraint '(.*?)'", reason):
        return f"forces and torques in joints of what the constraint {match[1]} acts on"
    return reason


def most(along: Mapping[str, Mapping[str, Any]], *names: str) -> str:
    """Return the largest of some differences; a dash if there are none."""
    found = [along[name]["converged"] for name in names if name in along]
    return number(max(found)) if found else "-"


def beside(free: Mapping[str, Mapping[str, Any]], name: str) -> str:
    return f"{number(free[name]['here'])} ({number(free[name]['spread'])})" if name in free else "-"


def column(found: Mapping[str, Mapping[str, Any]], name: str) -> list[float | None]:
    return [each[name] for each in found.values()]


def size(value: float | None) -> float:
    return float("inf") if value is None else value


def number(value: float | None) -> str:
    """Format with one digit; a dash for None and non-finite numbers."""
    if value is None or value == float("inf"):
        return "-"
    return "0" if value == 0.0 else f"{value:.0e}".replace("e+00", "").replace("e-0", "e-")
