"""What the repository keeps of the golden cases: replay tables, and one number of each array.

Bits depend on the CPU and the compiler, so that no arrays are kept. Replay tables don't: they hold names of kernels and
numbers of threads, and a lane group has eight worlds on every CPU. Of each array of floating-point numbers the sum with
fixed weights is kept, and compared with a tolerance, which follows from how much the sum changes with a small change of
the inputs. Sums that change a lot are left out: faces that lie on each other touch in other points then.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden.case import Case
from tests.golden.record import TABLE, Arrays, record

FILE = Path(__file__).with_name("stored.json")
# Arrays with a sum: no residuals, which are rounding.
SUMMED = ("q", "qd", "act", "contact_force", "solved", "gradient.", "linearise.")
# For each type of numbers the least tolerance, the largest, beyond which sums are left out, and the relative change of
# the inputs from which tolerances follow. Kernels without fused multiply-add stay below 0.07 of each tolerance.
TOLERANCES = {"float64": (1e-9, 1e-5, 1e-12), "float32": (5e-3, 2e-2, 1e-5)}
CHANGES = (1.0, -1.0, 0.3)  # of these relative sizes: each may change which points touch
SAFETY = 10.0


def is_summed(name: str, array: np.ndarray) -> bool:
    """Whether a sum of an array is kept."""
    chosen = any(name == each or (each.endswith(".") and name.startswith(each)) for each in SUMMED)
    return chosen and array.dtype.kind == "f"


def weighted_sum(array: np.ndarray) -> tuple[float, float]:
    """The sum of an array's finite numbers with fixed weights, and the norm of the numbers."""
    values = array.astype(float).ravel()
    values = np.where(np.isfinite(values), values, 0.0)
    weights = 1.0 + np.cos(np.arange(values.size))
    return float(weights @ values), float(np.linalg.norm(values) * np.linalg.norm(weights))


def sums(found: Arrays) -> dict[str, float]:
    """The sums that are kept of a run."""
    return {name: weighted_sum(array)[0] for name, array in sorted(found.items()) if is_summed(name, array)}


def tables(found: Arrays) -> dict[str, list[str]]:
    """The replay tables of a run."""
    return {name: list(map(str, rows)) for name, rows in sorted(found.items()) if name.startswith(TABLE)}


def deviation(expected: Mapping[str, float], found: Arrays) -> dict[str, float]:
    """How far the sums of a run are from others, as a share of what the numbers could add up to."""
    far = {}
    for name, value in expected.items():
        total, scale = weighted_sum(found[name])
        far[name] = abs(total - value) / scale if scale > 0.0 else abs(total - value)
    return far


def tolerances(case: Case, found: Arrays) -> dict[str, float]:
    """The tolerances of the sums of a case, by the name of the array.

    Args:
        case: the case.
        found: its run.
    """
    least, _, change = TOLERANCES[found["q"].dtype.name]
    changed = [record(dataclasses.replace(case, change=size * change)) for size in CHANGES]
    far = [deviation(sums(found), each) for each in changed]
    return {name: max(least, float(f"{SAFETY * max(each[name] for each in far):.0e}")) for name in far[0]}


def as_ranges(numbers: Sequence[int]) -> str:
    """Whole numbers as text, such as "3-5 1" for 3, 4, 5, 1."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return " ".join("-".join(map(str, each)) for each in ranges)


def of_ranges(text: str) -> Iterator[int]:
    """The whole numbers of :func:`as_ranges`."""
    for each in text.split():
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)


def write(cases: Mapping[str, Case]) -> None:
    """Write the file.

    Args:
        cases: all cases by name.
    """
    rows: dict[str, int] = {}
    entries = {}
    for name, case in cases.items():
        found = record(case)
        numbered = {
            table.removeprefix(TABLE): as_ranges([rows.setdefault(row, len(rows)) for row in launches])
            for table, launches in tables(found).items()
        }
        bounds, (least, largest, _) = tolerances(case, found), TOLERANCES[found["q"].dtype.name]
        kept = {array: float(f"{total:.11g}") for array, total in sums(found).items() if bounds[array] <= largest}
        looser = {array: bounds[array] for array in kept if bounds[array] > least}
        entries[name] = {"launches": numbered, "sums": kept, "least_tolerance": least, "tolerances": looser}
    lines = [f'"rows": {json.dumps(list(rows), indent=0)}']
    lines += [f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in entries.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read() -> dict[str, dict[str, Any]]:
    """For each case its replay tables, under "launches", its sums, and their tolerances."""
    stored = json.loads(FILE.read_text())
    rows = stored.pop("rows")
    for entry in stored.values():
        least = entry.pop("least_tolerance")
        entry["tolerances"] = dict.fromkeys(entry["sums"], least) | entry["tolerances"]
        entry["launches"] = {
            f"{TABLE}{name}": [rows[row] for row in of_ranges(text)] for name, text in entry["launches"].items()
        }
    return stored
