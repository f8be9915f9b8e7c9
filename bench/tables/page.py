"""Record of ``bench.tables`` as a section of the results page (``bench.results``)."""

import math
from typing import Any

from bench.tables import paper

OURS = "Backswing"
AUTODIFF = ("Backswing, fully taped", "PyTorch", "PyTorch, compiled", "MJX", "MJX, jax.checkpoint")
QUANTITIES = (("peak_mb", "Peak memory [MB]"), ("forward_s", "Forward [s]"), ("backward_s", "Backward [s]"))

METHODS = """\
One quadruped, or ten in one world, stands on the ground with springs in its joints: 1 ms a step, four contacts per
robot, 50 sweeps. The loss is the sum of the final coordinates. Its gradient is taken with respect to the initial state
and the joint forces of all steps. Everything runs on one core.

Each method runs in a separate process. Its memory is the peak resident memory during both passes, minus what the
process held after compilation and a short rollout. Times are medians. A rollout that would need more than {room} GB or
{seconds} s is not run; numbers in brackets are extrapolated linearly from the two longest rollouts that were run.

- **Fully taped** is this simulator with separate working arrays for every step, on one tape, so that nothing is
  recomputed. Its gradient is identical bit for bit.
- **PyTorch** is the same step written in PyTorch (`bench/torch_step.py`), without joint limits. Its states and
  gradients agree with Backswing's to 1e-10 in float64 (`tests/bench/test_torch_step.py`).
- **MJX** simulates the same robot with MuJoCo's soft contacts, so its motion and gradient differ from Backswing's.
- **MuJoCo, finite differences** uses the same solver and number of sweeps. It computes the whole Jacobian of each step,
  then applies it.
"""
CLAIMS = """\
The paper says that its simulator is an order of magnitude faster than automatic differentiation, needs two orders of
magnitude less memory, and that other simulators run out of memory after 5,000 steps. Relative to Backswing:
"""
INTERVALS = """\
Checkpoints of every k-th state need less memory ([checkpoints](../gradients.md#checkpoints)). There are no joint forces
here, so only states are stored. The paper's [code](https://github.com/YilingQiao/diffarticulated) stores coordinates,
velocities and torques of every step and recomputes each step in the backward pass (`python/api_diff.py`), which is
k = 1.

Of n steps, ceil(n/k) states are stored, plus the k states of the segment that the backward pass is in. All but the last
step of each segment are simulated once more.

The paper's formulas (its equations 17 and 18, figure 8) are (k + 1) / 2 t_forward + t_backward for a step of the
backward pass, and n / k m_checkpoint + m_simulation for the memory, because its backward pass restarts from the
checkpoint for every step of a segment. Storing the states of one segment costs little memory and makes the backward
pass faster from k = 3 on.
"""


def section(record: dict[str, Any]) -> str:
    """Return the measurement, all methods, and the checkpoint intervals."""
    methods = METHODS.format(room=f"{record['room_mb'] / 1000:.2g}", seconds=f"{record['seconds']:g}")
    parts = [methods.strip(), gradients_section(record), paper.section(record["rows"], OURS, number)]
    intervals = intervals_section(record)
    return "\n\n".join([*parts, INTERVALS.strip(), intervals] if intervals else parts)


def gradients_section(record: dict[str, Any]) -> str:
    """Return memory and times of all methods, and the paper's claims next to the measured ratios."""
    rows = record["rows"]
    parts = [claims(rows)]
    parts += [quantity_table(rows, key, title) for key, title in QUANTITIES]
    notes = {row["method"]: (row["note"], row["compile_s"]) for row in rows if row["robots"] == rows[0]["robots"]}
    parts.append(
        "\n".join(
            f"- {name}: {note}; first gradient after {compiled:.0f} s." for name, (note, compiled) in notes.items()
        )
    )
    parts += [f"Not run: {name} ({why})." for name, why in record["missing"].items()]
    return "\n\n".join(parts)


def quantity_table(rows: list[dict[str, Any]], key: str, title: str) -> str:
    """Return a row per method and number of robots, a column per number of steps."""
    counts = sorted({row["steps"] for row in rows})
    lines = [f"| {title} | robots | {' | '.join(f'{n} steps' for n in counts)} |", "|---|---|" + "---|" * len(counts)]
    cases = dict.fromkeys((row["robots"], row["method"]) for row in rows)
    for robots, method in cases:
        found = {row["steps"]: row for row in rows if (row["robots"], row["method"]) == (robots, method)}
        cells = [cell(found[n], key) if n in found else "-" for n in counts]
        lines.append(f"| {method} | {robots} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(row: dict[str, Any], key: str) -> str:
    """Format a number. If the rollout was not run it is in brackets, with the reason in the column that caused it."""
    value = number(row[key])
    if not row["estimate"]:
        return value
    reason = "out of memory" if row["estimate"] == "out of room" and key == "peak_mb" else ""
    return f"{reason} ({value})".strip()


def number(value: float) -> str:
    """Format with three digits. Memory is never smaller than a resident page."""
    if value == 0.0:
        return "0"
    return f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"


def claims(rows: list[dict[str, Any]]) -> str:
    """Return time and memory of automatic differentiation relative to ours, for one robot and the longest rollout."""
    robots = min(row["robots"] for row in rows)
    steps = max(row["steps"] for row in rows)
    at = {row["method"]: row for row in rows if (row["robots"], row["steps"]) == (robots, steps)}
    others = [name for name in AUTODIFF if name in at]
    if OURS not in at or not others:
        return ""

    def total(name: str) -> float:
        return float(at[name]["forward_s"] + at[name]["backward_s"])

    lines = [
        f"| {steps} steps of one robot | forward and backward time | peak memory | runs out of memory |",
        "|---|---|---|---|",
    ]
    for name in others:
        memory = ratio(at[name]["peak_mb"], at[OURS]["peak_mb"])
        full = "yes" if at[name]["estimate"] == "out of room" else "no"
        lines.append(f"| {name} | {ratio(total(name), total(OURS))} | {memory} | {full} |")
    return "\n".join([CLAIMS, *lines])


def ratio(value: float, of: float) -> str:
    """Format a quotient with two digits."""
    if of == 0.0:
        return "(Backswing: below one page)"
    return f"{value / of:.0f}" if value >= 9.5 * of else f"{value / of:.2g}"


def intervals_section(record: dict[str, Any]) -> str:
    """Return memory and times over the checkpoint interval, next to the formulas."""
    rows = record["intervals"]
    if not rows:
        return ""
    first = rows[0]
    lines = [
        f"| every k-th state stored, {first['steps']} steps, {first['worlds']} worlds | peak memory [MB] "
        "| ceil(n/k) + k states [MB] | forward [s] | backward [s] | backward at k = 1 + (k − 1)/k forward [s] |",
        "|---|---|---|---|---|---|",
    ]
    base = next((row for row in rows if row["interval"] == 1), None)
    for row in rows:
        k = row["interval"]
        expected = math.nan if base is None else base["backward_s"] + (k - 1) / k * base["forward_s"]
        numbers = (row["peak_mb"], row["formula_mb"], row["forward_s"], row["backward_s"], expected)
        lines.append(f"| {k} | {' | '.join(number(value) for value in numbers)} |")
    return "\n".join(lines)
