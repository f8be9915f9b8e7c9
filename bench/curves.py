"""Learning curves: some points of what trainings returned on their way, and those of several methods in one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from examples.outputs import plot

TASKS = ("Hopper", "HalfCheetah")
METHODS = {"shac": "SHAC", "ppo": "PPO", "sac": "SAC"}


def thinned(steps: ArrayLike, seconds: ArrayLike, returns: ArrayLike, points: int) -> dict[str, list[float]]:
    """At most so many points of a curve, at even distances from the first end of an episode on.

    Returns:
        ``steps``, ``seconds`` and ``return`` of each; before an episode has ended a return isn't finite.
    """
    known = np.flatnonzero(np.isfinite(returns))
    chosen = known[np.linspace(0, len(known) - 1, min(points, len(known))).round().astype(int)]
    return {
        "steps": np.asarray(steps)[chosen].astype(int).tolist(),
        "seconds": np.asarray(seconds)[chosen].round(1).tolist(),
        "return": np.asarray(returns)[chosen].round(1).tolist(),
    }


def plot_policies(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Returns in training over the seconds, of robots on hard contacts by each method; a line for each training."""
    with plot(path, columns=len(TASKS)) as axes:
        for each, task in zip(axes, TASKS, strict=True):
            for number, (method, name) in enumerate(METHODS.items()):
                label: str | None = name
                for row in rows:
                    if (row["task"], row["method"], row.get("law", "hard")) == (
                        task,
                        method,
                        "hard",
                    ) and "curve" in row:
                        each.plot(row["curve"]["seconds"], row["curve"]["return"], color=f"C{number}", label=label)
                        label = None
            each.set_title(task)
            each.set_xlabel("seconds")
        axes[0].set_ylabel("return, mean of the last episodes")
        axes[0].legend(loc="upper left")
