"""Tables of :mod:`bench.robot`, the worst case of Backswing, and the reasons for empty columns."""

from typing import Any

from bench.report import IDLE_LOAD
from bench.robot_libraries import library
from bench.robot_libraries.base import CASES

# bench.robot_turns.Times of one library, as a dictionary.
Times = dict[str, Any]
MEASURED = {"forward_us": "values", "backward_us": "with gradient"}


def by_key(times: list[Times]) -> dict[tuple, Times]:
    """Return the times by library, robot, case, batch and precision."""
    return {(t["library"], t["robot"], t["case"], t["batch"], t["dtype"]): t for t in times}


def print_tables(times: list[Times], names: list[str], where: dict[str, str]) -> None:
    """Print one table for each robot and precision, then the notes."""
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print("µs per state, on one core: values / values and gradient")
    found = by_key(times)
    batches = sorted({t["batch"] for t in times})
    for robot in dict.fromkeys(t["robot"] for t in times):
        for dtype in sorted({t["dtype"] for t in times}):
            rows = [[f"{robot} {dtype}", "batch", *names]]
            for case in CASES:
                for batch in batches:
                    cells = [_cell(found.get((name, robot, case, batch, dtype))) for name in names]
                    rows.append([case if batch == batches[0] else "", str(batch), *cells])
            widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
            print()
            for row in rows:
                print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    print()
    if float(where["load"]) > IDLE_LOAD:
        print(f"The machine was busy beforehand (load average {where['load']}): do not use these times as results.")
    for line in [*goals(times, names), *(library(name).note for name in names if library(name).note), *reasons(times)]:
        print(f"  - {line}")


def goals(times: list[Times], names: list[str]) -> list[str]:
    """Return the worst cases of Backswing relative to the other libraries."""
    found = by_key(times)
    ours = [t for t in times if t["library"] == "Backswing" and None not in [t[key] for key in MEASURED]]
    lines = []
    single = [t for t in ours if t["batch"] == 1]
    if single:
        slowest = [max((t[key], t["case"], t["robot"], t["dtype"]) for t in single) for key in MEASURED]
        slow = [
            f"{MEASURED[key]} {us:.0f} µs ({', '.join(where)})"
            for key, (us, *where) in zip(MEASURED, slowest, strict=True)
        ]
        lines.append("Backswing, batch 1, slowest: " + "; ".join(slow))
    for name in names[1:]:
        ratios = []
        for t in ours:
            theirs = found.get((name, t["robot"], t["case"], t["batch"], t["dtype"]))
            for key, what in MEASURED.items():
                if theirs is not None and theirs[key] is not None and (name != "Pinocchio" or t["batch"] >= 64):
                    where = ", ".join([what, t["case"], t["robot"], t["dtype"], f"batch {t['batch']}"])
                    ratios.append((theirs[key] / t[key], where))
        if ratios:
            ratios.sort()
            slower = sum(ratio < 1.0 for ratio, _ in ratios)
            lines.append(
                f"speed relative to {name}: minimum {ratios[0][0]:.2f} ({ratios[0][1]}), "
                f"median {ratios[len(ratios) // 2][0]:.2f}; slower in {slower} of {len(ratios)} figures"
            )
    return lines


def reasons(times: list[Times]) -> list[str]:
    """Return the reasons for empty columns, each once."""
    where: dict[tuple[str, str], dict[str, None]] = {}
    for t in [t for t in times if t["note"]]:
        same = [u for u in times if all(u[k] == t[k] for k in ("library", "robot", "dtype", "note"))]
        cases = "" if {u["case"] for u in same} == set(CASES) else f"{t['case']} of "
        where.setdefault((t["library"], t["note"]), {})[f"{cases}{t['robot']} {t['dtype']}"] = None
    return [f"{name}: {note}: {', '.join(rows)}" for (name, note), rows in where.items()]


def _cell(times: Times | None) -> str:
    both = [None, None] if times is None else [times["forward_us"], times["backward_us"]]
    return " / ".join("-" if us is None else f"{us:.2f}" if us < 100 else f"{us:.0f}" for us in both)
