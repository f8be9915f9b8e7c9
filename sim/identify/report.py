"""Reports of a fit as text, plots, or an HTML file, including values that the data doesn't determine."""

import base64
import html
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.figures import BLUE, GREY, new_figure
from sim.identify.estimate import CONFIDENCE, Estimate
from sim.identify.regressor import dof_names
from sim.identify.torque_fit import TorqueFit
from sim.identify.trajectories.fit import TrajectoryFit
from sim.model.checks import require_type
from sim.output import write_file

Fit = TorqueFit | TrajectoryFit
CORRELATED = 0.95  # correlation above which two values are named together
MOST_NAMES = 12  # maximum number in one sentence
STYLE = """body { font: 15px/1.5 sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .15em .8em; text-align: right }
td:first-child, th:first-child, td:last-child { text-align: left } tr:nth-child(even) { background: #f4f6f8 }
th { border-bottom: 1px solid #888 } img { max-width: 100% } li { margin: .2em 0 }"""


def report(fit: Fit) -> str:
    """Return the values, their uncertainty, and the undetermined ones, as text.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, cannot_tell, fit_torques, report
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), armature=0.1)
        >>> model = scene.finalize("float64")
        >>> q = np.sin(np.linspace(0.0, 5.0, 501))[:, None]
        >>> tau = sim.inverse_dynamics(model, q, 0 * q, -q).numpy()
        >>> tau += 0.01 * np.random.default_rng(0).standard_normal(tau.shape)
        >>> log = Log(model, np.arange(501.0), q, 0 * q, -q, tau)
        >>> fit = fit_torques(model, log, ["armature of hinge", "damping of hinge"])
        >>> report(fit)[:24]
        '1 of 2 values determined'
        >>> cannot_tell(fit)[-1]
        'No effect on any joint force: damping of hinge.'
    """
    require_type("report: fit", fit, (TorqueFit, TrajectoryFit), "the result of fit_torques or fit_trajectories")
    rows = [("", "first guess", "found", "+-", "unit", ""), *_rows(fit.estimate)]
    widths = [max(len(row[k]) for row in rows) for k in range(6)]
    table = [
        "  ".join(cell.ljust(width) if k in (0, 4, 5) else cell.rjust(width)
                  for k, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]  # fmt: skip
    lines = [
        _summary(fit),
        "",
        *table,
        "",
        "Residuals of the measurements:",
        *(f"  {line}" for line in _residuals(fit)),
    ]
    return "\n".join([*lines, "", "Not determined by the data:", *(f"  {line}" for line in cannot_tell(fit))])


def cannot_tell(fit: Fit) -> list[str]:
    """Return one sentence for each undetermined value or combination, and for each reason to doubt the result.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, cannot_tell, fit_torques
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), spring=sim.Spring(damping=0.5))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> tau = sim.inverse_dynamics(model, q, qd, qdd).numpy()
        >>> tau += 0.01 * np.random.default_rng(0).standard_normal(tau.shape)
        >>> fit = fit_torques(model, Log(model, time, q, qd, qdd, tau), ["damping of hinge", "armature of hinge"])
        >>> cannot_tell(fit)
        ['Nothing: all values are determined by the data.']
    """
    require_type("cannot_tell: fit", fit, (TorqueFit, TrajectoryFit), "the result of fit_torques or fit_trajectories")
    estimate, lines = fit.estimate, []
    endless = [name for name in estimate.not_told if np.isinf(estimate.deviation(name))]
    prior = [name for name in estimate.not_told if name not in endless]
    if prior:
        lines.append(f"Hardly improved over the prior: {_listed(prior)}.")
    if endless:
        lines.append(f"Not determined individually; the values shown are one choice of many: {_listed(endless)}.")
    lines += [f"These may change together without any effect: {words}." for words in estimate.undetermined]
    if not estimate.converged:
        lines.append(estimate.not_converged)
    correlated = np.argwhere(np.triu(np.abs(estimate.correlation), 1) > CORRELATED)
    lines += [
        f"{estimate.names[i]} and {estimate.names[j]} are hard to tell apart (correlation "
        f"{estimate.correlation[i, j]:+.3f})."
        for i, j in correlated[:20]
    ]
    lines += [f"{name} is at its bound; its deviation isn't reliable." for name in estimate.at_bound]
    if isinstance(fit, TorqueFit):
        lines += _of_the_motion(fit)
    elif (fit.excess > 1.0).any():
        names = [
            f"{channel} of {name}"
            for excess, channel in zip(fit.excess, fit.segments.channels, strict=True)
            for more, name in zip(excess, dof_names(fit.model), strict=True)
            if more > 1.0
        ]
        lines.append(
            f"{estimate.widened} Of {_listed(names)} (chi square {estimate.chi_square:.4g} for {estimate.measured} "
            "numbers): the model lacks something, the noise is larger, or the search ended in a wrong minimum."
        )
    return lines or ["Nothing: all values are determined by the data."]


def plot(fit: Fit) -> Any:
    """Plot values and their uncertainty, residuals, and measured and fitted curves, as a figure of matplotlib.

    Raises:
        ModelError: without matplotlib, which the extra ``plot`` installs.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, fit_torques, plot
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> tau = sim.inverse_dynamics(model, q, qd, qdd).numpy()
        >>> tau += 0.01 * np.random.default_rng(0).standard_normal(tau.shape)
        >>> figure = plot(fit_torques(model, Log(model, time, q, qd, qdd, tau), ["mass of bob"]))
        >>> len(figure.axes) > 1
        True
    """
    require_type("plot: fit", fit, (TorqueFit, TrajectoryFit), "the result of fit_torques or fit_trajectories")
    names = dof_names(_model(fit))
    rows = -(-len(names) // 3)
    figure = new_figure(12.0, 4.0 + 2.2 * rows)
    parts: Any = figure.subfigures(2, 1, height_ratios=(4.0, 2.2 * rows))
    above, below = parts
    left, right = above.subplots(1, 2, width_ratios=(2, 1))
    _draw_values(left, fit.estimate)
    _draw_residuals(right, fit, names)
    for k, (axes, name) in enumerate(zip(below.subplots(rows, 3, squeeze=False).flat, names, strict=False)):
        for time, measured, fitted in _curves(fit, k):
            axes.plot(time, measured, ".", markersize=2, color=GREY)
            axes.plot(time, fitted, color=BLUE, linewidth=0.9)
        axes.set_title(name, fontsize=9)
        axes.grid(True, linewidth=0.3)
    for axes in figure.axes[2 + len(names) :]:
        axes.set_visible(False)
    below.supylabel(
        "joint force [N m or N]" if isinstance(fit, TorqueFit) else "q (position, rotation vector)", fontsize=9
    )
    below.supxlabel("time [s]; grey: measured, blue: fitted", fontsize=9)
    return figure


def save_plot(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write :func:`plot` to a PNG file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, fit_torques, save_plot
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> tau = sim.inverse_dynamics(model, q, qd, qdd).numpy()
        >>> tau += 0.01 * np.random.default_rng(0).standard_normal(tau.shape)
        >>> fit = fit_torques(model, Log(model, time, q, qd, qdd, tau), ["mass of bob"])
        >>> path = Path(tempfile.mkdtemp(), "fit.png")
        >>> save_plot(fit, path)
        >>> path.read_bytes()[1:4]
        b'PNG'
    """
    require_type("save_plot: fit", fit, (TorqueFit, TrajectoryFit), "the result of fit_torques or fit_trajectories")
    figure = plot(fit)
    write_file(path, (".png",), lambda name: figure.savefig(name, dpi=110))


def save_html(fit: Fit, path: str | os.PathLike[str], title: str = "Identification") -> None:
    """Write the report with its plots to a self-contained HTML file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, fit_torques, save_html
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> tau = sim.inverse_dynamics(model, q, qd, qdd).numpy()
        >>> tau += 0.01 * np.random.default_rng(0).standard_normal(tau.shape)
        >>> fit = fit_torques(model, Log(model, time, q, qd, qdd, tau), ["mass of bob"])
        >>> path = Path(tempfile.mkdtemp(), "fit.html")
        >>> save_html(fit, path, title="The bob")
        >>> "The bob" in path.read_text(encoding="utf-8")
        True
    """
    require_type("save_html: fit", fit, (TorqueFit, TrajectoryFit), "the result of fit_torques or fit_trajectories")
    picture = io.BytesIO()
    plot(fit).savefig(picture, format="png", dpi=110)
    encoded = base64.b64encode(picture.getvalue()).decode()
    heads = ("", "first guess", "found", "&plusmn;", "unit", "")
    cells = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>\n" for row in _rows(fit.estimate)
    )
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{html.escape(title)}</h1>
<p>{html.escape(_summary(fit))}</p>
<h2>Not determined by the data</h2>
{_list(cannot_tell(fit))}
<h2>Values</h2>
<table><tr>{"".join(f"<th>{head}</th>" for head in heads)}</tr>
{cells}</table>
<p>The deviations are standard deviations; a 95 % interval is {CONFIDENCE} of them to either side.</p>
<h2>Residuals of the measurements</h2>
{_list(_residuals(fit))}
<p><img alt="Values, residuals, and measured and fitted curves" src="data:image/png;base64,{encoded}"></p>
{_base(fit)}</body></html>
"""
    write_file(path, (".html",), lambda name: Path(name).write_text(page, encoding="utf-8"))


def _summary(fit: Fit) -> str:
    estimate = fit.estimate
    told = len(estimate.names) - len(estimate.not_told)
    if isinstance(fit, TorqueFit):
        sources = ", ".join(dict.fromkeys(log.source for log in fit.logs))
        what = f"joint forces of {sum(map(len, fit.logs))} samples ({sources})"
    else:
        seconds = (fit.segments.rows - 1) * fit.segments.interval
        what = f"{fit.segments.count} motions of up to {seconds:g} s, {estimate.measured} measured numbers"
    return f"{told} of {len(estimate.names)} values determined from {what}, {estimate.evaluations} evaluations."


def _rows(estimate: Estimate) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for k, name in enumerate(estimate.names):
        note = "at its bound" if name in estimate.at_bound else ""
        note = "not determined by the data" if name in estimate.not_told else note
        deviation = "unknown" if np.isinf(estimate.deviations[k]) else f"{estimate.deviations[k]:.2g}"
        rows.append((name, f"{estimate.start[k]:.5g}", f"{estimate.values[k]:.5g}", deviation, estimate.units[k], note))
    return rows


def _residuals(fit: Fit) -> list[str]:
    names = dof_names(_model(fit))
    if isinstance(fit, TorqueFit):
        return [
            f"{name}: {after:.4g} (first guess: {before:.4g}), noise {noise:.4g}, alike over {correlated:.3g} samples"
            for name, after, before, noise, correlated in zip(
                names, fit.residual, fit.residual_before, fit.noise, fit.correlation_samples, strict=True
            )
        ]
    return [
        f"{channel} of {name}: {fit.residual[c, k]:.3g} standard deviations (first guess: "
        f"{fit.residual_before[c, k]:.3g})"
        for c, channel in enumerate(fit.segments.channels)
        for k, name in enumerate(names)
        if not np.isnan(fit.residual[c, k])
    ]


def _of_the_motion(fit: TorqueFit) -> list[str]:
    base = fit.base
    if base.rank == len(base.names):
        return []
    together = len(base.names) - len(base.alone) - len(base.never)
    lines = [
        f"This motion determines {base.rank} combinations of the {len(base.names)} numbers in which joint forces are "
        f"linear, with condition number {base.condition:.3g}: {len(base.alone)} numbers by themselves and {together} "
        "together with others."
    ]
    if base.never:
        lines.append(f"No effect on any joint force: {_listed(base.never)}.")
    return lines


def _base(fit: Fit) -> str:
    if not isinstance(fit, TorqueFit):
        return ""
    return f"<h2>Combinations that the motion determines</h2>\n{_list(fit.base.words())}\n"


def _listed(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{len(names)} values, {', '.join(names[: MOST_NAMES - 2])} ... {names[-1]}"


def _list(lines: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>"


def _model(fit: Fit) -> Any:
    return fit.robot.model if isinstance(fit, TorqueFit) else fit.model


def _curves(fit: Fit, dof: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return time, measured and fitted values of a degree of freedom, for each log or segment."""
    if isinstance(fit, TorqueFit):
        return [
            (log.time, log.tau[:, dof], predicted[:, dof])
            for log, predicted in zip(fit.logs, fit.predicted, strict=True)
            if log.tau is not None
        ]
    return fit.curves(dof)


def _draw_values(axes: Any, estimate: Estimate) -> None:
    """Draw each value's deviation next to that of the prior, relative to the value."""
    size = np.where(estimate.values == 0.0, 1.0, np.abs(estimate.values))
    x = np.arange(len(estimate.names))
    for deviations, color, label in (
        (estimate.prior_deviations, GREY, "known before"),
        (estimate.deviations, BLUE, "with the data"),
    ):
        share = np.where(np.isfinite(deviations), deviations, np.nan) / size
        axes.semilogy(x, share, "o", color=color, label=label, markersize=4)
    axes.set_xticks(x, estimate.names, rotation=90, fontsize=6)
    axes.set_ylabel("standard deviation / value")
    axes.grid(True, linewidth=0.3)
    axes.legend(fontsize=8)


def _draw_residuals(axes: Any, fit: Fit, names: tuple[str, ...]) -> None:
    """Draw the residual of each joint, before and after the fit."""
    x = np.arange(len(names))
    before, after = (np.atleast_2d(each)[0] for each in (fit.residual_before, fit.residual))
    axes.bar(x - 0.2, before, 0.4, color=GREY, label="first guess")
    axes.bar(x + 0.2, after, 0.4, color=BLUE, label="fitted")
    axes.set_yscale("log")
    axes.set_xticks(x, names, rotation=90, fontsize=6)
    axes.set_ylabel("residual [N m or N]" if isinstance(fit, TorqueFit) else "residual / noise")
    axes.grid(True, axis="y", linewidth=0.3)
    axes.legend(fontsize=8)
