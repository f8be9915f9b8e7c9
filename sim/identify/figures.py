"""Figures of estimates, by matplotlib."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.figures import BLUE, GREY, new_figure

ROW = 0.22  # height of a value's row [in]


def figure_of_values(
    names: Sequence[str],
    values: np.ndarray,
    start: np.ndarray,
    widths: np.ndarray,
    widths_before: np.ndarray,
    correlation: np.ndarray,
) -> Any:
    """Return a figure of values with intervals, next to their correlations.

    Args:
        names: names of the values [m].
        values: the values [m].
        start: first guesses [m].
        widths: half widths of their intervals [m]; infinite ones aren't drawn.
        widths_before: the same before the data [m].
        correlation: correlation of the values [m, m].
    """
    figure = new_figure(11.0, 1.6 + ROW * len(names) + 0.06 * max(map(len, names)))
    left, right = figure.subplots(1, 2, width_ratios=(3, 2), sharey=True)
    size = np.where(values == 0.0, 1.0, np.abs(values))
    rows = np.arange(len(names))
    for shift, at, width, color, label in (
        (0.15, start, widths_before, GREY, "first guess (hollow: no prior)"),
        (-0.15, values, widths, BLUE, "found (hollow: not determined)"),
    ):
        known = np.isfinite(width)
        drawn = np.where(known, width, np.nan) / size
        left.errorbar(at / size, rows + shift, xerr=drawn, fmt="none", color=color, capsize=2)
        left.scatter(at / size, rows + shift, 14, facecolors=np.where(known, color, "white"), edgecolors=color)
        left.plot([], [], "o", color=color, label=label, markersize=4)
    ends = [values - np.where(np.isfinite(widths), widths, 0.0), values + np.where(np.isfinite(widths), widths, 0.0)]
    shown = np.stack([*ends, start]) / size  # priors may be much wider
    margin = 0.05 * np.ptp(shown) + 1e-3
    left.set_xlim(shown.min() - margin, shown.max() + margin)
    left.set_yticks(rows, names, fontsize=8)
    left.set_ylim(len(names) - 0.5, -0.5)
    left.set_xlabel("value / size of the value found; bars: 95 %")
    left.grid(True, linewidth=0.3)
    left.legend(fontsize=8)
    image = right.imshow(correlation, vmin=-1.0, vmax=1.0, cmap="RdBu_r", aspect="auto")
    right.set_xticks(rows, names, rotation=90, fontsize=8 if len(names) < 20 else 6)
    right.set_title("correlation", fontsize=9)
    figure.colorbar(image, ax=right, aspect=40)
    return figure
