"""Result that every method returns, and the state of a search for ``watch``."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from sim.figures import BLUE, new_figure
from sim.optimise.problem import Problem
from sim.tables import html_table

MOST_IN_LEGEND = 12  # controls


@dataclass(frozen=True)
class Iteration:
    """Iteration of a search, given to ``watch``.

    Attributes:
        method: "gradient", "ilqr", "lbfgs" or "cmaes".
        problem: the problem.
        history: the least cost, or score, of all starts so far, after each iteration.
        unknowns: the present unknowns [starts, n] of every start, of the present start of ``lbfgs``, or of every
            candidate of ``cmaes``.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)])
        >>> seen = []
        >>> found = ilqr(problem, iterations=5, watch=seen.append)
        >>> seen[-1].method, seen[-1].unknowns.shape, len(seen) == len(found.history)
        ('ilqr', (1, 20), True)
    """

    method: str
    problem: Problem
    history: list[float]
    unknowns: np.ndarray

    @property
    def dt(self) -> float:
        """Time between the states in ``q`` [s]."""
        return float(self.problem.simulator.dt) * self.problem.hold

    @cached_property
    def q(self) -> np.ndarray:
        """Coordinates before each stage and after the last [stages + 1, starts, nq]; simulated when first asked for."""
        problem = self.problem
        with torch.no_grad():
            motion = problem.motion(torch.as_tensor(self.unknowns, dtype=problem.dtype, device=problem.device))
        return motion.q.cpu().numpy().astype(np.float64)


Watch = Callable[[Iteration], None]


@dataclass(frozen=True)
class Result:
    """Best motion that was found.

    Attributes:
        method: "gradient", "ilqr", "lbfgs" or "cmaes".
        cost: its cost, without constraints.
        controls: joint forces of the chosen joints or inputs of the actuators [stages, size].
        q: coordinates before each step of the simulator and after the last [steps + 1, nq].
        qd: velocities likewise [steps + 1, nv].
        unknowns: the parametrisation's unknowns [n]; for ``ilqr`` the controls.
        history: the least cost, or score, of all starts so far, after each iteration; entry 0 is that of the first
            guesses.
        rollouts: number of motions of one world that were simulated, forward passes only.
        message: reason for the end.
        converged: True if the search converged or the goal was reached.
        starts: the final cost, or score, of each start [starts].
        violation: largest violation of any constraint.
        gains: for ``ilqr``, feedback gains of the controls on a change of the state in tangent coordinates [stages,
            size, 2 nv + na].
        seconds: time taken.
        act: states of actuators that have one, likewise [steps + 1, na]; None if there are none.
        terms: name and value of each term of the cost.
        names: names of the controls [size].
        dt: time for which each control acts [s].

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)])
        >>> found = ilqr(problem, iterations=5)
        >>> found.method, found.controls.shape, found.q.shape, bool(found.cost < found.history[0])
        ('ilqr', (20, 1), (21, 1), True)
    """

    method: str
    cost: float
    controls: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    unknowns: np.ndarray
    history: list[float]
    rollouts: int
    message: str
    converged: bool
    starts: np.ndarray
    violation: float = 0.0
    gains: np.ndarray | None = field(default=None, repr=False)
    seconds: float = 0.0
    act: np.ndarray | None = None
    terms: list[tuple[str, float]] = field(default_factory=list, repr=False)
    names: tuple[str, ...] = ()
    dt: float = 1.0

    def __str__(self) -> str:
        iterations = max(len(self.history) - 1, 0)
        text = f"{self.method}: cost {self.cost:.6g} after {iterations} iterations, {self.rollouts} rollouts and "
        text += f"{self.seconds:.1f} s; {self.message}"
        return text if self.violation == 0.0 else f"{text}; constraints violated by {self.violation:.2g}"

    def _repr_html_(self) -> str:
        return html_table(str(self), ("term of the cost", ""), [(name, f"{value:.4g}") for name, value in self.terms])

    def plot(self) -> Any:
        """Plot the cost by iteration, the controls over time, and the terms of the cost, as a figure of matplotlib.

        Raises:
            ModelError: without matplotlib, which the extra ``plot`` installs.
        """
        figure = new_figure(12.0, 3.4)
        costs, controls, terms = figure.subplots(1, 3)
        costs.plot(self.history, color=BLUE)
        costs.set_yscale("log" if min(self.history, default=0.0) > 0.0 else "linear")
        costs.locator_params(axis="x", integer=True)
        costs.set_xlabel("iteration")
        costs.set_title("least cost so far", fontsize=9)
        times = self.dt * np.arange(len(self.controls) + 1)
        for k, (name, values) in enumerate(zip(self.names, self.controls.T, strict=True)):
            number = f" {self.names[:k].count(name)}" if self.names.count(name) > 1 else ""
            controls.step(times, np.append(values, values[-1:]), where="post", linewidth=0.9, label=name + number)
        controls.set_xlabel("time [s]")
        controls.set_title("controls", fontsize=9)
        if len(self.names) <= MOST_IN_LEGEND:
            controls.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))  # beside the curves, not on them
        names, values = [name for name, _ in self.terms], [value for _, value in self.terms]
        rows = np.arange(len(names))
        terms.bar_label(terms.barh(rows, values, 0.6, color=BLUE), fmt=" %.3g", fontsize=8)
        terms.locator_params(axis="x", nbins=4)
        terms.margins(x=0.3)
        terms.set_yticks(rows, names, fontsize=8)
        terms.invert_yaxis()
        terms.set_title(f"terms of the cost, {self.cost:.4g} in all", fontsize=9)
        for axes in figure.axes:
            axes.grid(True, linewidth=0.3)
            axes.tick_params(labelsize=8)
        return figure
