"""Text about the speed of a step in the pages, made from records."""

from collections.abc import Sequence
from typing import Any

from bench.traffic import most_per_second

STANDING = {"newton": "Newton's method", "pgs": "50 sweeps"}
PASSES = {"forward": "forward", "back": "backward"}
WORLDS = (1024, 4096, 16384, 65536)
WORLDS_HEAD = [
    "| scene | worlds | contacts | forward [µs] | with gradient [µs] | MuJoCo [µs] | MuJoCo, one iteration [µs] "
    "| MuJoCo / forward | gradient / MuJoCo |",
    "|---|---|---|---|---|---|---|---|---|",
]


def steps(records: Sequence[dict[str, Any]]) -> str:
    """Return times of a step of the standing quadruped compared with MuJoCo's, with the same kind of solver."""
    lines = [
        "| solver | worlds | forward | backward, with the step recomputed | MuJoCo forward | speedup |",
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
    lines = [
        f"The whole Jacobian of a step in state and joint forces takes {ours:.2f} ms in a batch of {record['worlds']}",
        f"and {theirs:.2f} ms by MuJoCo's one-sided differences. {_machine(record)}",
    ]
    return "\n".join(lines)


def worlds(record: dict[str, Any]) -> str:
    """Return times over numbers of worlds, in five scenes."""
    rows = record["rows"]
    lines = [*WORLDS_HEAD, *map(_worlds_row, rows), ""]
    lines += ["| 50 sweeps, at 64 worlds | Backswing, hard law | MuJoCo |", "|---|---|---|"]
    lines += [
        f"| {row['case']} | {row['pgs_us']:.1f} | {row['mujoco_pgs_us']:.1f} |" for row in rows if "pgs_us" in row
    ]
    return "\n".join([*lines, "", *_peers(record), _machine(record)])


def worlds_in_short(record: dict[str, Any]) -> str:
    """Return the same at a thousand worlds."""
    rows = [_worlds_row(row) for row in record["rows"] if row["worlds"] == WORLDS[0]]
    return "\n".join([*WORLDS_HEAD, *rows, "", _machine(record)])


def _worlds_row(row: dict[str, Any]) -> str:
    default, ours, gradient = (row[name] for name in ("mujoco_us", "forward_us", "gradient_us"))
    times = " | ".join(f"{value:.1f}" for value in (ours, gradient, default, row["mujoco_fast_us"]))
    cells = f"{row['contacts']:.1f} | {times} | {default / ours:.1f} | {gradient / default:.1f}"
    return f"| {row['case']} | {row['worlds']} | {cells} |"


def _peers(record: dict[str, Any]) -> list[str]:
    """Return the times of other engines for the ant, if they were measured."""
    lines = []
    for row in record.get("mjx", []):
        lines.append(
            f"{row['mjx']} takes {row['mjx_us']:.0f} µs for a step of the ant with {row['worlds']} worlds, with one "
            f"Newton iteration, and\n{row['mjx_gradient_us']:.0f} µs for a step and its gradient{_elsewhere(row)}."
        )
    for row in record.get("mujoco_warp", []):
        version, count = row["version"], row["worlds"]
        lines.append(
            f"mujoco_warp {version} takes {row['forward_us']:.0f} µs on the CPU with {count} worlds{_elsewhere(row)}."
        )
    return [*lines, ""] if lines else []


def _elsewhere(row: dict[str, Any]) -> str:
    """Return the machine and date of a row that was measured apart from the others."""
    return f", on {row['processor']} ({row['date']})" if "processor" in row else ""


def _machine(record: dict[str, Any]) -> str:
    """Return where and when a record was measured."""
    processor, load, date = (record["machine"][name] for name in ("processor", "load", "date"))
    return f"Measured on {date} on one core\nof {processor}, in processor time; load average {load} beforehand."


def cameras(records: Sequence[dict[str, Any]]) -> str:
    """Return pictures per second of cameras for learning, compared with MuJoCo's renderer."""
    lines = [
        "| scene | geometries | pictures/s of one core | MuJoCo | speedup | MuJoCo without shadows | speedup |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        ours, with_shadows, without = (
            record[name] for name in ("frames_per_second", "mujoco", "mujoco_without_shadows")
        )
        peer = "- | - | - | -"
        if with_shadows is not None:
            peer = f"{with_shadows:,.0f} | {ours / with_shadows:.0f} | {without:,.0f} | {ours / without:.1f}"
        lines.append(f"| {record['scene']} | {record['geometries']} | {ours:,.0f} | {peer} |")
    first = records[0]
    drawn = f"{first['worlds']} worlds at a time."
    if first["renderer"] is not None:
        drawn += f" MuJoCo draws by {first['renderer']}."
    return "\n".join([*lines, "", drawn, _machine(first)])


def dynamics(records: Sequence[dict[str, Any]]) -> str:
    """Return times of forward dynamics, compared with Pinocchio's."""
    found = {record["dtype"]: record for record in records if record["case"] == "quadruped forward dynamics"}
    double, single = found["float64"], found["float32"]
    return (
        f"{double['forward_us']:.1f} µs a state in float64 (Pinocchio's C++: {double['peer_forward_us']:.1f}), and "
        f"{double['backward_us']:.1f} µs with its vector-Jacobian product\n(Pinocchio's derivatives: "
        f"{double['peer_backward_us']:.1f}); in float32 {single['forward_us']:.1f} and {single['backward_us']:.1f} µs"
    )


def traffic(record: dict[str, Any]) -> str:
    """Return launches and bytes of a step, and the upper bound of its throughput on an H200."""
    lines = [
        f"| solver | pass | launches | bytes per world | {' | '.join(f'at {worlds:,}' for worlds in WORLDS)} |",
        f"|---|---|---|---|{'---|' * len(WORLDS)}",
    ]
    for row in record["rows"]:
        bounds = " | ".join(f"{most_per_second(row, worlds) / 1e6:.0f}" for worlds in WORLDS)
        lines.append(
            f"| {STANDING[row['solver']]} | {PASSES[row['phase']]} | {row['launches']} "
            f"| {row['bytes']:,.0f} | {bounds} |"
        )
    return "\n".join(lines)


def on_gpu(records: Sequence[dict[str, Any]]) -> str:
    """Return throughput of the standing quadruped on a GPU (steps/s), compared with MuJoCo on a core of the same
    machine.
    """
    lines = [
        "| worlds | Newton's method, forward | backward | 50 sweeps, forward | backward |",
        "|---|---|---|---|---|",
    ]
    found = {(record["case"].rpartition(" ")[2], record["worlds"]): record for record in records}
    for worlds in sorted({worlds for solver, worlds in found if solver == "newton"}):
        pairs = [found[solver, worlds] for solver in STANDING]
        times = [record[phase] for record in pairs for phase in ("forward_us", "backward_us")]
        lines.append(f"| {worlds:,} | {' | '.join(f'{1.0 / time:.3g}' for time in times)} |")
    machine, theirs = records[0]["machine"], records[0]["peer_forward_us"]
    lines += [
        "",
        f"Measured on {machine['date']} on an {machine['gpu']}. MuJoCo takes {1.0 / theirs:.2g} million steps in a",
    ]
    return "\n".join([*lines, f"second on a core of that machine, {machine['processor']}."])


def heap(record: dict[str, Any]) -> str:
    """Return times of a step of falling boxes and of standing robots, and how many systems Newton's method solves."""
    heaps, robots = record["heaps"], record["quadrupeds"]
    mean = {name: sum(each[name] for each in heaps) / len(heaps) for name in heaps[0]}
    falling = [f"{mean[name]:.2f} ms" for name in ("newton", "newton_warm", "mujoco_law", "pgs", "mujoco")]
    standing = [f"{robots[name]:.0f} µs" for name in ("newton", "pgs", "mujoco")]
    back = [f"{robots[name]:.0f} µs" for name in ("newton_back", "pgs_back")]
    systems, most = mean["systems_of_newton"], max(each["most_systems_of_newton"] for each in heaps)
    lines = [
        "| world | Newton's method | with a warm start | under MuJoCo's law | 50 sweeps | MuJoCo |",
        "|---|---|---|---|---|---|",
        "| a step of fifty boxes that fall on each other (2 s at 240 Hz, "
        f"mean of {len(heaps)} heaps) | {' | '.join(falling)} |",
        f"| a step of ten standing quadrupeds, 16 worlds | {standing[0]} | | | {standing[1]} | {standing[2]} |",
        f"| its backward pass, with the step recomputed | {back[0]} | | | {back[1]} | |",
        "",
        f"In the heaps Newton's method solves {systems:.1f} linear systems a step, {most:.0f} at most.",
        "MuJoCo computes in float64.",
        _machine(record),
    ]
    return "\n".join(lines)


def layer(record: dict[str, Any]) -> str:
    """Return times of a step of layers of balls compared with MuJoCo's, and the memory of the simulator."""
    lines = [
        "| balls on the ground | contacts | step [ms] | MuJoCo [ms] | ratio | memory [MB] |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        ours, theirs = row["ours_ms"], row["mujoco_ms"]
        cells = f"{row['contacts']:,} | {ours:.2g} | {theirs:.2g} | {ours / theirs:.1f} | {row['megabytes']:.0f}"
        lines.append(f"| {row['balls']:,} {row['case']}, {row['phase']} | {cells} |")
    return "\n".join(lines)
