"""What the repository keeps of the golden cases: replay tables, and one number of each array.

Bits depend on the CPU and the compiler, so that no arrays are kept. Replay tables don't: they hold names of kernels and
numbers of threads, and a lane group has eight worlds on every CPU. Of each array of floating-point numbers the sum with
fixed weights is kept, and compared with a tolerance. That of a case follows from how much its sums change with a small
change of its inputs.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden.case import Case
from tests.golden.record import TABLE, Arrays, record

FILE = Path(__file__).with_name("stored.json")
# Arrays with a sum: no residuals, which are rounding.
SUMMED = ("q", "qd", "act", "contact_force", "solved", "gradient.", "linearise.", "norms.")
# For each type of numbers the least tolerance, and the relative change of the inputs from which a case's own follows.
TOLERANCES = {"float64": (1e-9, 1e-12), "float32": (1e-3, 1e-5)}
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


def tolerance(case: Case, found: Arrays) -> float:
    """The tolerance of the sums of a case.

    Args:
        case: the case.
        found: its run.
    """
    least, change = TOLERANCES["float32" if found["q"].dtype == np.float32 else "float64"]
    changed = record(dataclasses.replace(case, change=change))
    return max(least, float(f"{SAFETY * max(deviation(sums(found), changed).values()):.0e}"))


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
            table.removeprefix(TABLE): [rows.setdefault(row, len(rows)) for row in launches]
            for table, launches in tables(found).items()
        }
        rounded = {array: float(f"{value:.12g}") for array, value in sums(found).items()}
        entries[name] = {"tolerance": tolerance(case, found), "launches": numbered, "sums": rounded}
    lines = [f'"rows": {json.dumps(list(rows), indent=0)}']
    lines += [f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in entries.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read() -> dict[str, dict[str, Any]]:
    """For each case its tolerance, its sums, and its replay tables under "launches"."""
    stored = json.loads(FILE.read_text())
    rows = stored.pop("rows")
    for entry in stored.values():
        entry["launches"] = {f"{TABLE}{name}": [rows[row] for row in table] for name, table in entry["launches"].items()}
    return stored
