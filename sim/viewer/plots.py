"""Panel of plots: one chart, its curves, and their values at the shown state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.model.model import Model
from sim.viewer.curves import Curves, curves_of
from sim.viewer.motions import Motion

if TYPE_CHECKING:
    from viser import GuiApi

HEIGHT = 300  # size of the panel [pixels]
CHART = 180  # size of the chart [pixels]
MOST_NAMED = 12  # maximum number of curves in the legend
GROWTH_PERIOD = 0.5  # time between updates of the curves of a growing motion [s]
COLORS = ("#1f6fb4", "#d1481b", "#2a8f4c", "#8b54b3", "#b8860b", "#0f8f94", "#c2387e", "#5b6770", "#7a8f1f", "#4b4bd1")
PLAYED = "rgba(60, 80, 110, 0.12)"
COST = "Cost over iterations"


class Plots:
    """A chart under the controls; a list selects what it shows.

    Args:
        gui: interface of the viser server.
        model: the model.
        locked: wraps a callback for an action of the user.
        world: returns the index of the world whose curves are drawn.
    """

    def __init__(
        self,
        gui: GuiApi,
        model: Model,
        locked: Callable[[Callable[[], None]], Callable[[object], None]],
        world: Callable[[], int],
    ):
        self._gui, self._model, self._world = gui, model, world
        self._motion: Motion | None = None
        self._choices: dict[str, Curves] = {}
        self._costs: list[float] = []
        self._times, self._values = np.zeros(0), np.zeros((0, 0))
        self._states, self._computed, self._number = 0, 0.0, 0
        self._chart: Any = None
        # Created only when there is something to plot, since without it the controls have the whole height.
        self._tab: Any = None
        self._choice: Any = None
        self._legend: Any = None
        self._locked = locked

    def start(self, motion: Motion, readings: Mapping[str, np.ndarray], costs: Sequence[float] = ()) -> None:
        """Offer the curves of another motion. The selection is kept if the new motion has it.

        Args:
            motion: the motion.
            readings: further curves, by name [states, num_worlds, k].
            costs: cost of a search after each iteration so far.
        """
        first = bool(costs) and not self._costs
        self._motion, self._costs, self._number = motion, list(costs), 0
        self._choices = {curves.name: curves for curves in curves_of(self._model, motion, readings)}
        names = ((COST,) if costs else ()) + tuple(self._choices)
        if not names:
            return
        if self._tab is None:
            self._open(names)
        if self._choice.options != names:
            chosen = COST if first or self._choice.value not in names else self._choice.value
            self._choice.options = names
            self._choice.value = chosen
        self.redraw()

    def redraw(self) -> None:
        """Redraw the selected curves of the selected world."""
        if self._motion is None or self._tab is None:
            return
        curves = self._choices.get(self._choice.value)
        if curves is not None:
            self._compute(curves, self._motion)
            self._draw(self._data(), _series(curves.labels), {})
            self.mark(self._number)
        elif self._costs:
            costs = np.array(self._costs)
            logarithmic = len(costs) > 1 and bool((costs > 0.0).all())
            x, y = np.arange(float(max(len(costs), 2))), np.resize(costs, max(len(costs), 2))
            series = ({"label": "iteration"}, {"label": "cost", "stroke": COLORS[0], "width": 2})
            self._draw((x, y), series, {"y": {"distr": 3}} if logarithmic else {})
            self._legend.content = f"iteration {len(costs) - 1}: cost {costs[-1]:.5g}"

    def mark(self, number: int) -> None:
        """Shade the part played up to a state, and write the values there."""
        self._number = number
        curves = None if self._choice is None else self._choices.get(self._choice.value)
        if curves is None or self._motion is None or self._chart is None:
            return
        if len(self._motion) != self._states and time.perf_counter() > self._computed + GROWTH_PERIOD:
            self._compute(curves, self._motion)
        self._chart.data = self._data()
        at = np.clip(np.searchsorted(self._times, number * self._motion.dt + 1e-12, side="right") - 1, 0, None)
        self._legend.content = _legend(curves.labels, self._values[at])

    def _open(self, names: tuple[str, ...]) -> None:
        panel: Any = self._gui.add_panel()
        panel.dock_below(self._gui.main_panel)
        panel.set_height(HEIGHT)
        self._tab = panel.add_tab("Plots")
        with self._tab:
            self._choice = self._gui.add_dropdown("Curves", names, hint="curves of the selected world")
            self._legend = self._gui.add_markdown("")
        self._choice.on_update(self._locked(self.redraw))

    def _draw(self, data: tuple[np.ndarray, ...], series: Any, scales: Mapping[str, Any]) -> None:
        if self._chart is not None:
            self._chart.remove()
        with self._tab:
            self._chart = self._gui.add_uplot(
                data, series, height=CHART, legend={"show": False}, order=self._legend.order - 0.5,
                scales={"x": {"time": False}, "played": {"auto": False, "range": (0.0, 1.0)}, **scales},
                axes=({"size": 30, "label": series[0]["label"], "labelSize": 18, "labelGap": 2}, {"size": 56}),
                padding=(8, 12, 0, 0),
            )  # fmt: skip

    def _compute(self, curves: Curves, motion: Motion) -> None:
        self._states, self._computed = len(motion), time.perf_counter()
        numbers = curves.numbers(self._states)
        self._times, self._values = numbers * motion.dt, curves.values(numbers, self._world())

    def _data(self) -> tuple[np.ndarray, ...]:
        assert self._motion is not None
        times, values = self._times, self._values
        if len(times) == 1:  # a chart needs a range
            times, values = np.array([0.0, self._motion.dt]), np.repeat(values, 2, axis=0)
        played = (times <= self._number * self._motion.dt + 1e-12).astype(float)
        return times, played, *values.T


def _series(labels: Sequence[str]) -> tuple[dict[str, Any], ...]:
    curves = [
        {"label": label, "stroke": COLORS[k % len(COLORS)], "width": 1.5, "points": {"show": False}}
        for k, label in enumerate(labels)
    ]
    played = {"label": "played", "scale": "played", "fill": PLAYED, "width": 0, "points": {"show": False}}
    return {"label": "time [s]"}, played, *curves


def _legend(labels: Sequence[str], values: np.ndarray) -> str:
    """Return colour, name and value of each curve as Markdown."""
    entries = [
        f'<span style="color:{COLORS[k % len(COLORS)]}">━</span> {label}: {value:.4g}'
        for k, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    more = [f"and {len(entries) - MOST_NAMED} more"] if len(entries) > MOST_NAMED else []
    return "  \n".join(entries[:MOST_NAMED] + more)
