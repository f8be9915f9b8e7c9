"""Generated text of the documentation on the PyTorch robot, from the records of ``bench.robot`` and ``bench.reach``."""

import statistics
from collections.abc import Sequence
from typing import Any

from bench.robot_libraries.base import CASES
from bench.robot_tables import MEASURED

# An entry of the record of bench.robot, which compares Backswing with one peer, or of the record of bench.reach.
Record = dict[str, Any]

DEGREES = {"xarm7": 7, "go2": 18, "g1": 35}
METHODS = {
    "fk": "forward_kinematics_matrix",
    "jacobian": "jacobian",
    "rnea": "inverse_dynamics",
    "crba": "mass_matrix",
    "aba": "forward_dynamics",
}
SINGLE = """\
Time of a single call for a seven-joint arm (xArm 7, batch 1, float32), in µs:

"""
BESIDE = """\
Times in µs per state, as value / value and gradient. All are in float64, the only precision that Pinocchio has. Its
rnea and aba times are from rneaInParallel and abaInParallel. The others are from single calls, minus the Python call
overhead. Its gradients are analytical derivatives, which are whole matrices; Backswing's are one vector-Jacobian
product. A library without float64 has no column.

"""
STANDING = """\
Speed of Backswing relative to each library, over all robots, batches, precisions, values and gradients (for Pinocchio
from batch 64 on):

"""


# ---- speed -------------------------------------------------------------------------------------------------------


def speed(records: Sequence[Record]) -> str:
    """Return single calls, batches compared with the peers, and the worst case of Backswing."""
    machine = records[0]["machine"]
    where = f"Measured on one core of {machine['processor']}, load average {machine['load']} beforehand."
    table = "\n\n".join(text for text in (beside(records), notes(records)) if text)
    return "\n\n".join([SINGLE + single_calls(records), BESIDE + table, STANDING + standing(records), where])


def single_calls(records: Sequence[Record]) -> str:
    """Return a row per method."""
    lines = ["| | value | value and gradient |", "|---|---|---|"]
    for case, method in METHODS.items():
        found = [r for r in records if (r["robot"], r["case"], r["batch"], r["dtype"]) == ("xarm7", case, 1, "float32")]
        if found:
            lines.append(f"| `{method}` | {found[0]['forward_us']:.0f} | {found[0]['backward_us']:.0f} |")
    return "\n".join(lines)


def beside(records: Sequence[Record]) -> str:
    """Return a row per robot, case and batch in float64, a column per library that has any times there."""
    wanted = [r for r in records if r["dtype"] == "float64" and r["batch"] in (64, 4096)]
    peers = list(dict.fromkeys(r["peer"] for r in wanted if r["peer_forward_us"] is not None))
    lines = [f"| robot | | batch | Backswing | {' | '.join(peers)} |", "|---" * (4 + len(peers)) + "|"]
    by_key = {(r["robot"], r["case"], r["batch"], r["peer"]): r for r in wanted}
    for robot, case, batch in dict.fromkeys(key[:3] for key in by_key):
        own = next(r for key, r in by_key.items() if key[:3] == (robot, case, batch))
        cells = [_pair(by_key.get((robot, case, batch, peer)), "peer_") for peer in peers]
        name = f"{robot}, {DEGREES.get(robot, '?')} dof"
        lines.append(f"| {name} | {case} | {batch} | {' | '.join([_pair(own, ''), *cells])} |")
    return "\n".join(lines)


def notes(records: Sequence[Record]) -> str:
    """Return the differences of the other libraries in all cases. For Pinocchio the text above the table has them."""
    lines = []
    for peer in dict.fromkeys(r["peer"] for r in records if r["peer"] != "Pinocchio"):
        complete = [r["note"] for r in records if r["peer"] == peer and r["peer_backward_us"] is not None]
        if any(complete):
            lines.append(f"- {min(complete, key=len)}.")  # longer notes also describe single cases
    return "\n".join(lines)


def standing(records: Sequence[Record]) -> str:
    """Return for each peer the median and the smallest ratio, and the number of figures in which Backswing misses the
    goal.
    """
    lines = []
    for peer in dict.fromkeys(r["peer"] for r in records):
        goal = 1.0 if peer == "Pinocchio" else 10.0
        ratios = sorted(
            (r[f"peer_{key}"] / r[key], f"{what} of {r['case']}, {r['robot']}, {r['dtype']}, batch {r['batch']}")
            for r in records
            for key, what in MEASURED.items()
            if r["peer"] == peer and r[key] and r[f"peer_{key}"] and (peer != "Pinocchio" or r["batch"] >= 64)
        )
        if ratios:
            behind = sum(ratio < goal for ratio, _ in ratios)
            lines.append(
                f"- {peer}: median {statistics.median(ratio for ratio, _ in ratios):.3g}, minimum {ratios[0][0]:.2g} "
                f"({ratios[0][1]}); below {goal:g} in {behind} of {len(ratios)} figures."
            )
    return "\n".join(lines)


def single_call_range(records: Sequence[Record]) -> str:
    """Return the range in the README: from the fastest to the slowest method of the seven-joint arm."""
    own = [r for r in records if (r["robot"], r["batch"], r["dtype"]) == ("xarm7", 1, "float32") and r["case"] in CASES]
    ranges = [f"{min(r[key] for r in own):.0f} to {max(r[key] for r in own):.0f}" for key in MEASURED]
    return f"{ranges[0]} µs, and {ranges[1]} µs with its gradient"


def _pair(record: Record | None, whose: str) -> str:
    """Format value / value and gradient, of Backswing or of the peer (prefix ``peer_``)."""
    both = [None, None] if record is None else [record[f"{whose}{key}"] for key in MEASURED]
    if both == [None, None]:
        return ""
    return " / ".join("–" if us is None else f"{us:.2f}" if us < 100 else f"{us:.0f}" for us in both)


# ---- the network of examples.reach -------------------------------------------------------------------------------


def reach(records: Sequence[Record]) -> str:
    """Return a row per way to find coordinates for the Panda's hand."""
    lines = [
        "| | distance: mean, median, 95 % | angle: mean, median, 95 % | within 5 mm and 1° |",
        "|---|---|---|---|",
    ]
    for r in _panda(records):
        distance, angle = (
            ", ".join(f"{r[f'{name}_{kind}']:.{digits}f}" for kind in ("mean", "median", "p95"))
            for name, digits in (("distance_mm", 1), ("angle_degrees", 2))
        )
        lines.append(f"| {r['method']} | {distance} mm | {angle}° | {100.0 * r['within_goal']:.0f} % |")
    return "\n".join(lines)


def reach_in_short(records: Sequence[Record]) -> str:
    """Return the accuracy of the network's answers in the README."""
    answers = [r for r in _panda(records) if r["method"].startswith("network")]
    return (
        f"Panda, {answers[-1]['targets']} unseen poses: {answers[-1]['distance_mm_mean']:.1f} mm and "
        f"{answers[-1]['angle_degrees_mean']:.1f}° mean error, by the network alone"
    )


def _panda(records: Sequence[Record]) -> list[Record]:
    return [r for r in records if r["robot"] == "panda"]
