"""Tables 1 to 3 of Qiao et al. (ICML 2021), next to the same quantities measured here."""

from collections.abc import Callable
from typing import Any

STEPS = (50, 100, 500, 1000, 5000)
Columns = tuple[float | str, ...]
# One Laikago, 19 coordinates and 18 velocities, standing on the ground; an Intel Xeon W-2123 at 3.6 GHz.
MEMORY: dict[str, Columns] = {  # table 1, peak memory [MB]
    "Ceres": (100, 200, 1100, 2700, 23600),
    "CppAD": (16, 26, 160, 320, 3100),
    "JAX": (200, 200, 400, 700, 3000),
    "PyTorch": (1200, 2400, 11700, 12400, "fails"),
    "theirs": (0.3, 0.3, 0.7, 1.2, 5.0),
}
FORWARD: dict[str, Columns] = {  # table 2 [ms a step]
    "ADF": (25.7, 25.5, 25.1, 32.1, 58.4),
    "Ceres": (27.2, 27.2, 27.5, 34.0, 58.2),
    "CppAD": (2.4, 2.4, 2.3, 2.3, 4.5),
    "JAX": (53.3, 46.1, 43.1, 42.7, 42.3),
    "PyTorch": (195.6, 192.2, 199.2, 192.8, "fails"),
    "theirs": (0.3, 0.3, 0.2, 0.2, 0.2),
}
BACKWARD: dict[str, Columns] = {  # table 3 [ms a step]
    "Ceres": (29.5, 29.6, 29.5, 37.6, 62.8),
    "CppAD": (2.4, 2.3, 2.3, 2.4, 4.8),
    "JAX": (148.1, 125.7, 127.6, 129.6, 126.6),
    "PyTorch": (275.7, 273.3, 280.8, 272.1, "fails"),
    "theirs": (1.2, 1.1, 1.2, 1.1, 1.2),
}
INTRODUCTION = """\
The paper's tables 1 to 3 have one Laikago (19 coordinates, 18 velocities) standing on the ground, on an Intel Xeon
W-2123 with 3.6 GHz. The quadruped here has as many coordinates and velocities. The machines differ, so only the orders
of magnitude and the growth with the number of steps can be compared. For ten robots, the paper states that its
simulator stores 5 KB a step and that CppAD fails at 5,000 steps.
"""


def section(rows: list[dict[str, Any]], ours: str, number: Callable[[float], str]) -> str:
    """Return the three tables, each with a last row for one robot here.

    Args:
        rows: rows of the record of ``bench.tables``.
        ours: the method whose figures are shown.
        number: formats a number.
    """
    own = {row["steps"]: row for row in rows if (row["robots"], row["method"]) == (1, ours) and not row["estimate"]}
    parts = [INTRODUCTION.strip()]
    for title, paper, key in (
        ("Peak memory [MB]", MEMORY, "peak_mb"),
        ("Forward [ms a step]", FORWARD, "forward_s"),
        ("Backward [ms a step]", BACKWARD, "backward_s"),
    ):
        lines = [f"| {title} | {' | '.join(f'{count} steps' for count in STEPS)} |", "|---" * (len(STEPS) + 1) + "|"]
        for name, values in paper.items():
            cells = (value if isinstance(value, str) else f"{value:g}" for value in values)
            lines.append(f"| {name if name != 'theirs' else 'Qiao et al.'} | {' | '.join(cells)} |")
        scales = {count: 1.0 if key == "peak_mb" else 1e3 / count for count in STEPS}
        cells = (number(scales[count] * own[count][key]) if count in own else "-" for count in STEPS)
        lines.append(f"| **{ours}, here** | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
