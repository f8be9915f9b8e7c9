"""Figure and table of a motion, joint by joint."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.figures import BLUE, GREY, new_figure
from sim.model.model import Model
from sim.tables import html_table

COLUMNS, ROW = 3, 1.9  # plots side by side, height of each [in]
COLORS = (BLUE, "#c2571a", "#3f8f4f", "#8a5a9e", "#b3922b", "#4aa3b5", GREY)


def figure_of_joints(model: Model, time: np.ndarray, values: np.ndarray, *, velocities: bool) -> Any:
    """Return a figure of matplotlib with a plot for each joint that moves, of its components over time.

    Args:
        model: the model.
        time: times [s], [n].
        values: coordinates [n, nq], or velocities [n, nv].
        velocities: whether they are velocities.

    Raises:
        ModelError: without matplotlib, which the extra ``plot`` installs.
    """
    moving = _parts(model, velocities)
    rows = max(-(-len(moving) // COLUMNS), 1)
    figure = new_figure(12.0, 0.5 + ROW * rows)
    plots = figure.subplots(rows, COLUMNS, squeeze=False, sharex=True).flat
    for axes, (name, part) in zip(plots, moving, strict=False):
        labels = _labels(part.stop - part.start, velocities)
        for curve, label, color in zip(values[:, part].T, labels, COLORS, strict=False):
            axes.plot(time, curve, color=color, linewidth=0.9, label=label)
        if part.stop - part.start > 1:
            axes.legend(fontsize=7, ncols=2)
        axes.set_title(name, fontsize=9)
        axes.grid(True, linewidth=0.3)
        axes.tick_params(labelsize=8, labelbottom=True)
    for axes in figure.axes[len(moving) :]:
        axes.set_visible(False)
    figure.supxlabel("time [s]", fontsize=9)
    figure.supylabel("velocity [m/s, rad/s]" if velocities else "position [m, rad], quaternions xyzw", fontsize=9)
    return figure


def table_of_joints(caption: str, model: Model, first: np.ndarray, last: np.ndarray) -> str:
    """Return a table in HTML of the coordinates of each joint at the beginning and at the end.

    Args:
        caption: text above the table.
        model: the model.
        first: first coordinates [nq].
        last: last coordinates [nq].
    """
    rows = [(name, _numbers(first[part]), _numbers(last[part])) for name, part in _parts(model, velocities=False)]
    return html_table(caption, ("joint", "first q", "last q"), rows)


def _labels(count: int, velocities: bool) -> Sequence[str]:
    """Return the names of a joint's coordinates or velocities: joints with several are free or spherical."""
    free = "vx vy vz wx wy wz" if velocities else "x y z qx qy qz qw"
    return free.split()[-count:]


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def _parts(model: Model, velocities: bool) -> list[tuple[str, slice]]:
    """Return the name of each joint that moves, and its slice of q or qd."""
    part = model.qd_slice if velocities else model.q_slice
    named = [(name, part(name)) for name in model.joint_names]
    return [(name, found) for name, found in named if found.stop > found.start]
