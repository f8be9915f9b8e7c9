"""Learning curves: sampled points of the returns in training, and several methods in one picture."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from examples.outputs import plot

TASKS = ("Hopper", "HalfCheetah")
METHODS = ("shac", "ppo", "sac")


def thinned(steps: ArrayLike, seconds: ArrayLike, returns: ArrayLike, points: int) -> dict[str, list[float]]:
    """Return up to ``points`` points of a curve, evenly spaced, starting at the end of the first episode.

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


def plot_policies(path: Path, record: dict[str, Any]) -> None:
    """Plot returns in training over the seconds, of robots on hard contacts by each method; a line for each
    training.
    """
    drawn = [row for row in record["rows"] if "curve" in row and row["law"] == "hard"]
    with plot(path, columns=len(TASKS)) as axes:
        for each, task in zip(axes, TASKS, strict=True):
            for number, method in enumerate(METHODS):
                rows = [row for row in drawn if (row["task"], row["method"]) == (task, method)]
                for row, label in zip(rows, [method.upper(), *[None] * len(rows)], strict=False):
                    each.plot(row["curve"]["seconds"], row["curve"]["return"], color=f"C{number}", label=label)
            each.set_title(task)
            each.set_xlabel("seconds")
        axes[0].set_ylabel("return, mean of the last episodes")
        axes[1].legend(loc="center right")
