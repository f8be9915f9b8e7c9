"""The record of ``bench.tables`` as a section of the results page (``bench.results``)."""

import math
from typing import Any

from bench.tables import paper

OURS = "Backswing"
AUTODIFF = ("Backswing, fully taped", "PyTorch", "PyTorch, compiled", "MJX", "MJX, jax.checkpoint")
QUANTITIES = (("peak_mb", "Peak memory [MB]"), ("forward_s", "Forward [s]"), ("backward_s", "Backward [s]"))

METHODS = """\
One quadruped, or ten in one world, standing on the ground with springs in their joints: 1 ms a step, four contacts per
robot, 50 sweeps. The loss is the sum of the final coordinates. Its gradient is taken with respect to the initial state
and the joint forces of all steps. Everything runs on one core.

Each method runs in a separate process. Its memory is the peak resident memory during both passes, minus what the
process held after compilation and a short rollout. Times are medians. A rollout that would need more than {room} GB or
{seconds} s is not run; numbers in brackets are extrapolated linearly from the two longest rollouts that were run.

- **Fully taped** is this simulator with separate working arrays for every step, on one tape, so that nothing is
  computed twice. Its gradient is identical bit for bit.
- **PyTorch** is the same step written in PyTorch (`bench/torch_step.py`), without joint limits. Its states and
  gradients agree with Backswing's to 1e-10 in float64 (`tests/bench/test_torch_step.py`).
- **MJX** simulates the same robot with MuJoCo's soft contacts, so its motion and gradient differ from Backswing's.
- **MuJoCo, finite differences** uses the same solver and number of sweeps. It computes the whole Jacobian of each step,
  then applies it.
"""
INTERVALS = """\
The next table stores fewer states ([gradients.md](gradients.md#checkpoints)). There are no joint forces, so only states
are kept. The paper's [code](https://github.com/YilingQiao/diffarticulated) keeps coordinates, velocities and torques of
every step and runs each step again in the backward pass (`python/api_diff.py`), which is k = 1. Of n steps,
ceil(n/k) states are stored, plus the k states of the segment that the backward pass is in. All but the last step of
each segment are simulated once more.

The paper's formulas (its equations 17 and 18, figure 8) are (k + 1) / 2 t_forward + t_backward for a step of the way
back, and n / k m_checkpoint + m_simulation for the memory: for every step of a segment it starts again from the stored
state. Keeping the states of one segment costs little memory and makes the way back faster from k = 3 on.
"""


def section(record: dict[str, Any]) -> str:
    """The measurement, all methods, and the checkpoint intervals."""
    methods = METHODS.format(room=f"{record['room_mb'] / 1000:.2g}", seconds=f"{record['seconds']:g}")
    parts = [methods, gradients_section(record), paper.section(record["rows"], OURS, number)]
    intervals = intervals_section(record)
    return "\n\n".join([*parts, INTERVALS.strip(), intervals] if intervals else parts)


def gradients_section(record: dict[str, Any]) -> str:
    """Memory and times of all methods, and the paper's claims beside the measured ratios."""
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
    """A line per method and number of robots, a column per number of steps."""
    counts = sorted({row["steps"] for row in rows})
    lines = [f"| {title} | robots | {' | '.join(f'{n} steps' for n in counts)} |", "|---|---|" + "---|" * len(counts)]
    cases = dict.fromkeys((row["robots"], row["method"]) for row in rows)
    for robots, method in cases:
        found = {row["steps"]: row for row in rows if (row["robots"], row["method"]) == (robots, method)}
        cells = [cell(found[n], key) if n in found else "-" for n in counts]
        lines.append(f"| {method} | {robots} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(row: dict[str, Any], key: str) -> str:
    """A number. If the rollout was not run it is in brackets, with the reason in the column that caused it."""
    value = number(row[key])
    if not row["estimate"]:
        return value
    reason = "out of memory" if row["estimate"] == "out of room" and key == "peak_mb" else ""
    return f"{reason} ({value})".strip()


def number(value: float) -> str:
    """Three digits. Memory is never smaller than a resident page."""
    if value == 0.0:
        return "0"
    return f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"


def claims(rows: list[dict[str, Any]]) -> str:
    """The paper's claims beside the same ratios here, for one robot and the longest rollout."""
    robots = min(row["robots"] for row in rows)
    steps = max(row["steps"] for row in rows)
    at = {row["method"]: row for row in rows if (row["robots"], row["steps"]) == (robots, steps)}
    others = [name for name in AUTODIFF if name in at]
    if OURS not in at or not others:
        return ""

    def total(name: str) -> float:
        return float(at[name]["forward_s"] + at[name]["backward_s"])

    faster = ", ".join(f"{name} {ratio(total(name), total(OURS))}" for name in others)
    memory = ", ".join(f"{name} {ratio(at[name]['peak_mb'], at[OURS]['peak_mb'])}" for name in others)
    room = ", ".join(name for name in others if at[name]["estimate"] == "out of room") or "none"
    return "\n".join([
        f"| Qiao et al. about their simulator | Backswing, {steps} steps of one robot |",
        "|---|---|",
        "| an order of magnitude faster than autodiff tools "
        f"| forward and backward time, relative to Backswing: {faster} |",
        f"| two orders of magnitude less memory | peak memory, relative to Backswing: {memory} |",
        f"| simulators on autodiff tools run out of memory after 5,000 steps | out of memory: {room} |",
    ])  # fmt: skip


def ratio(value: float, of: float) -> str:
    """A quotient to two digits."""
    if of == 0.0:
        return "(Backswing: below one page)"
    return f"{value / of:.0f}" if value >= 9.5 * of else f"{value / of:.2g}"


def intervals_section(record: dict[str, Any]) -> str:
    """Memory and times over the checkpoint interval, beside the formulas."""
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
