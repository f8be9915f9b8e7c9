"""What the pages say about the speed of a step, made from records."""

from collections.abc import Sequence
from typing import Any

from bench.traffic import most_per_second

STANDING = {"newton": "Newton's method", "pgs": "50 sweeps"}
WORLDS = (1024, 4096, 16384, 65536)


def steps(records: Sequence[dict[str, Any]]) -> str:
    """Times of a step of the standing quadruped beside MuJoCo's, with the same kind of solver."""
    lines = [
        "| solver | worlds | forward | backward, with the step run again | MuJoCo forward | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for solver, title in STANDING.items():
        for record in records:
            if record["case"] == f"quadruped standing, {solver}":
                ours, theirs = record["forward_us"], record["peer_forward_us"]
                cells = f"{ours:.1f} | {record['backward_us']:.1f} | {theirs:.1f} | {theirs / ours:.1f}"
                lines.append(f"| {title} | {record['worlds']} | {cells} |")
    return "\n".join([*lines, "", _jacobians(records)])


def _jacobians(records: Sequence[dict[str, Any]]) -> str:
    (record,) = (each for each in records if each["case"] == "quadruped standing, newton, linearise")
    ours, theirs = record["backward_us"] / 1e3, record["peer_backward_us"] / 1e3
    processor, load = (record["machine"][name] for name in ("processor", "load"))
    lines = [
        f"The whole Jacobian of a step in state and joint forces takes {ours:.2f} ms in a batch of {record['worlds']}",
        f"and {theirs:.2f} ms by MuJoCo's one-sided differences. Measured on one core of",
        f"{processor}, load average {load} beforehand.",
    ]
    return "\n".join(lines)


def dynamics(records: Sequence[dict[str, Any]]) -> str:
    """Times of forward dynamics, beside Pinocchio's."""
    found = {record["dtype"]: record for record in records if record["case"] == "quadruped forward dynamics"}
    double, single = found["float64"], found["float32"]
    return (
        f"{double['forward_us']:.1f} µs a state in float64 (Pinocchio's C++: {double['peer_forward_us']:.1f}), and "
        f"{double['backward_us']:.1f} µs with its vector-Jacobian product\n(Pinocchio's derivatives: "
        f"{double['peer_backward_us']:.1f}); in float32 {single['forward_us']:.1f} and {single['backward_us']:.1f} µs"
    )


def traffic(record: dict[str, Any]) -> str:
    """Launches and bytes of a step, and the speed that they allow on an H200."""
    lines = [
        f"| solver | way | launches | bytes per world | {' | '.join(f'at {worlds:,}' for worlds in WORLDS)} |",
        f"|---|---|---|---|{'---|' * len(WORLDS)}",
    ]
    for row in record["rows"]:
        bounds = " | ".join(f"{most_per_second(row, worlds) / 1e6:.0f}" for worlds in WORLDS)
        lines.append(
            f"| {STANDING[row['solver']]} | {row['way']} | {row['launches']} | {row['bytes']:,.0f} | {bounds} |"
        )
    return "\n".join(lines)


def layer(record: dict[str, Any]) -> str:
    """Times of a step of layers of balls beside MuJoCo's, and the memory of the simulator."""
    lines = [
        "| balls on the ground | contacts | step [ms] | MuJoCo [ms] | ratio | memory [MB] |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        ours, theirs = row["ours_ms"], row["mujoco_ms"]
        cells = f"{row['contacts']:,} | {ours:.2g} | {theirs:.2g} | {ours / theirs:.1f} | {row['megabytes']:.0f}"
        lines.append(f"| {row['balls']:,} {row['case']} | {cells} |")
    return "\n".join(lines)
