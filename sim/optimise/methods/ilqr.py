"""Iterative LQR with box limits: Gauss-Newton steps of the whole motion, by a backward sweep over the stages.

Tassa, Mansard and Todorov 2014 (box-DDP), without the second derivatives of the dynamics. The line search runs all its
step lengths as worlds of one batch.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.errors import ModelError
from sim.model.checks import require_callable, require_type
from sim.optimise.methods.box_qp import solve_box_qp
from sim.optimise.methods.dynamics import Dynamics, Law, Start, States
from sim.optimise.methods.quadratic import Quadratic, Quadratics
from sim.optimise.methods.search import (
    finished,
    first_guesses,
    nothing_finite,
    progress_bar,
    require_counts,
    require_numbers,
    warn_of_lost_gradients,
    warn_of_zero_gradients,
)
from sim.optimise.parametrisations import PerStage
from sim.optimise.problem import Problem
from sim.optimise.result import Iteration, Result, Watch
from sim.torch.modes import with_gradients

STEPS = 0.5 ** np.arange(10.0)  # step lengths of the line search
LEAST_FALL = 1e-4  # accepted decrease of the cost, relative to the quadratic model's prediction
# Of the regularisation, relative to the mean curvature of the control (Tassa, Erez and Todorov 2012, section II.F).
FACTOR, SMALLEST, LARGEST = 4.0, 1e-4, 1e10
LONG, SHORT = 0.5, 0.02  # step lengths from which it decreases, and below which it increases


@with_gradients()
def ilqr(
    problem: Problem,
    guess: Any = None,
    *,
    iterations: int = 100,
    starts: int = 1,
    spread: float = 0.1,
    seed: int = 0,
    goal: float = -float("inf"),
    tolerance: float = 1e-7,
    progress: bool = False,
    watch: Watch | None = None,
) -> Result:
    """Solve by iterative LQR within the limits of the controls.

    Each iteration linearises all steps of the motion in one batch, solves the resulting linear-quadratic problem, and
    simulates its solution with several step lengths. Costs must be sums over stages, twice differentiable or sums of
    squares. Ctrl-C ends the search and keeps the best so far.

    Args:
        problem: the problem, with controls :class:`PerStage`; its constraints are ignored, see
            :func:`sim.optimise.solve`.
        guess: first controls [stages, size] or [starts, stages, size]. Default: zeros.
        iterations: maximum number of iterations.
        starts: number of searches in the batch.
        spread: standard deviation of random guesses about the one given, in units of the controls' scale.
        seed: seed of these.
        goal: a cost below this ends the search.
        tolerance: relative improvement below which the search ends.
        progress: show a progress bar.
        watch: called with every iteration, such as the method ``watch`` of a :class:`sim.viewer.Viewer`.

    Returns:
        the result, with the gains of the last sweep.

    Raises:
        ModelError: for another parametrisation, costs that couple stages or have no second derivative, and guesses that
            all diverge.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Posture, Problem, ilqr
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> problem = Problem(simulator, 20, [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)], limits=(-60.0, 60.0))
        >>> found = ilqr(problem, iterations=5)
        >>> found.gains.shape, bool(np.abs(found.controls).max() <= 60.0)
        ((20, 1, 2), True)
    """
    require_callable("ilqr: watch", watch, optional=True)
    require_counts(iterations=iterations)
    require_numbers(goal=goal, tolerance=tolerance)
    tolerance = float(tolerance)
    require_stages(problem, "ilqr")
    begun = time.perf_counter()
    guesses = first_guesses(problem, guess, starts, spread, seed)
    warn_of_lost_gradients(problem, "ilqr")
    lost = warn_of_zero_gradients(problem, "ilqr", guesses)
    controls = guesses.reshape(len(guesses), problem.stages, -1).swapaxes(0, 1)
    search = IterativeLQR(problem)
    start = (problem.q0, problem.qd0, problem.act0)
    search.begin(controls, start)
    if not np.isfinite(search.cost).any():
        said = "the simulation diverges from every first guess; give another guess"
        raise nothing_finite(problem, "ilqr", guesses[0], said)
    history, message, converged = [float(search.cost.min())], "iterations used up", False
    with progress_bar("ilqr", iterations, 0, progress) as bar:
        try:
            while True:
                bar.set_postfix_str(f"cost {history[-1]:.4g}")
                if watch is not None:
                    tried = search.states.controls.swapaxes(0, 1).reshape(starts, -1)
                    watch(Iteration("ilqr", problem, list(history), tried))
                if history[-1] < goal:
                    message, converged = "goal reached", True
                    break
                if search.done(tolerance).all():
                    converged = bool(search.regularisation[np.argmin(search.cost)] < LARGEST)
                    message = "no further improvement" if converged else "no step improves the cost"
                    break
                if len(history) > iterations:
                    break
                search.iterate(start)
                history.append(float(search.cost.min()))
                bar.update()
        except KeyboardInterrupt:
            message = "interrupted"
    best = int(np.argmin(search.cost))
    unknowns = search.states.controls[:, best].reshape(-1)
    gains = search.law.gains[:, best].copy() if search.law is not None else None
    return finished(
        problem, "ilqr", unknowns, search.cost.copy(), history, search.dynamics.rollouts, message, converged, begun,
        gains, lost,
    )  # fmt: skip


def require_stages(problem: Problem, method: str) -> None:
    """Raise ModelError unless each stage has separate controls, and follows from the state before it."""
    require_type(f"{method}: problem", problem, Problem, "a sim.optimise.Problem")
    if not isinstance(problem.parametrisation, PerStage):
        raise ModelError(
            f"{method}: controls are {type(problem.parametrisation).__name__}; use PerStage(), with hold if each "
            "control is to act for several steps"
        )
    if problem.model.breaks:
        raise ModelError(
            f"{method}: constraints break ({', '.join(problem.model.breaking_names)}), which its expansions ignore; "
            "remove their break_force, or use gradient, lbfgs or cmaes"
        )


@dataclass
class Sweep:
    """Result of a backward sweep, valid for the worlds in which it succeeded.

    Attributes:
        feedforward: change of the controls [stages, worlds, size].
        gains: feedback gains [stages, worlds, size, 2 nv + na].
        slope: predicted change of the cost, linear in the step length [worlds].
        bend: predicted change, times half the square of the step length [worlds].
        worked: True if all systems were positive definite [worlds].
        largest: largest change of a control, in units of its scale [worlds].
    """

    feedforward: np.ndarray
    gains: np.ndarray
    slope: np.ndarray
    bend: np.ndarray
    worked: np.ndarray
    largest: np.ndarray


class IterativeLQR:
    """State of the searches, and their iterations.

    Args:
        problem: the problem.

    Attributes:
        dynamics: the problem's dynamics; counts rollouts.
        states: the best motions so far.
        cost: their costs [worlds].
        law: feedback law of the last sweep; None before the first.
        regularisation: regularisation of each search [worlds].
        gained: relative improvement in the last accepted step [worlds].
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self.dynamics = Dynamics(problem)
        self.quadratics = Quadratics(problem.costs, self.dynamics.forces if problem.forces.measured else None)
        self.law: Law | None = None
        self._kept: tuple[Quadratic, np.ndarray, np.ndarray] | None = None

    def begin(self, controls: np.ndarray, start: Start) -> None:
        """Simulate first controls [stages, worlds, size] from a state [nq], [nv], [na]."""
        self.adopt(self.dynamics.run(controls, start))

    def adopt(self, states: States) -> None:
        """Continue from these motions."""
        worlds = states.controls.shape[1]
        self.states = states
        self.cost = self.dynamics.costs(states)
        self.regularisation, self._rate = np.zeros(worlds), np.ones(worlds)
        self.gained, self._still = np.full(worlds, np.inf), np.zeros(worlds, dtype=bool)
        self._kept = None

    def done(self, tolerance: float) -> np.ndarray:
        """Mask of the searches that have converged [worlds]."""
        return self._still | (self.gained < tolerance) | (self.regularisation >= LARGEST) | ~np.isfinite(self.cost)

    def iterate(self, start: Start, steps: np.ndarray = STEPS) -> None:
        """Run one iteration of all searches, from a state [nq], [nv], [na], with these step lengths."""
        if self._kept is None:
            alive = self._finite_states()
            self._kept = self.quadratics(self.dynamics.motion(alive)), *self.dynamics.linearise(alive)
        sweep = self.sweep(*self._kept)
        self.law = Law(self.states, sweep.feedforward, sweep.gains)
        tried = self.dynamics.follow(self.law, steps, start)
        costs = self.dynamics.costs(tried).reshape(-1, len(steps))
        promised = -(sweep.slope[:, None] * steps + 0.5 * sweep.bend[:, None] * steps**2)
        with np.errstate(invalid="ignore"):
            fall = self.cost[:, None] - costs
        good = sweep.worked[:, None] & (fall > LEAST_FALL * np.maximum(promised, 0.0)) & (fall > 0.0)
        chosen = np.argmin(np.where(good, costs, np.inf), axis=1)
        accepted = good.any(axis=1)
        self._accept(tried, costs, accepted, chosen)
        # A model that holds only for short steps needs more regularisation.
        length = np.where(accepted, np.asarray(steps)[chosen], 0.0)
        self._regularise((length >= LONG) | sweep.worked & (sweep.largest < 1e-12), length < SHORT)
        self._still |= sweep.worked & (sweep.largest < 1e-9) & (self.regularisation < 1e-3)

    def law_about(self, states: States) -> Law:
        """Return the feedback law about any motions, with as much regularisation as needed."""
        quadratic, linear = self.quadratics(self.dynamics.motion(states)), self.dynamics.linearise(states)
        before, self.states = self.states, states
        sweep = self.sweep(quadratic, *linear)
        while not sweep.worked.all() and (self.regularisation < LARGEST).all():
            self._regularise(sweep.worked, ~sweep.worked)
            sweep = self.sweep(quadratic, *linear)
        self.states = before
        return Law(states, sweep.feedforward, sweep.gains)

    def _finite_states(self) -> States:
        """Replace non-finite states of motions by the first state: their searches are over."""
        bad = ~np.isfinite(self.cost)
        if not bad.any():
            return self.states
        q, qd, act = (x.copy() for x in self.states.arrays[:3])
        q[:, bad], qd[:, bad], act[:, bad] = self.problem.q0, 0.0, 0.0
        return replace(self.states, q=q, qd=qd, act=act)

    def _accept(self, tried: States, costs: np.ndarray, accepted: np.ndarray, chosen: np.ndarray) -> None:
        if not accepted.any():
            return
        each = np.flatnonzero(accepted)
        taken = each * costs.shape[1] + chosen[each]
        states = States(*(x.copy() for x in self.states.arrays))
        for whole, part in zip(states.arrays, tried.arrays, strict=True):
            whole[:, each] = part[:, taken]
        before, after = self.cost[each], costs[each, chosen[each]]
        self.states, self.cost = states, self.cost.copy()
        self.cost[each] = after
        with np.errstate(over="ignore"):
            self.gained[each] = (before - after) / np.maximum(np.abs(before), 1e-300)
        self._kept = None

    def _regularise(self, well: np.ndarray, badly: np.ndarray) -> None:
        """Decrease the regularisation of searches that improved [worlds], and increase it for the others, at a growing
        rate.
        """
        badly = badly & ~well
        less, more = np.minimum(self._rate / FACTOR, 1.0 / FACTOR), np.maximum(self._rate * FACTOR, FACTOR)
        self._rate = np.where(well, less, np.where(badly, more, 1.0))
        changed = self._rate * np.where(badly, np.maximum(self.regularisation, SMALLEST), self.regularisation)
        self.regularisation = np.where(well & (changed < SMALLEST), 0.0, changed)

    def sweep(self, quadratic: Quadratic, A: np.ndarray, B: np.ndarray) -> Sweep:
        """Compute feedforward and gains, from the last stage to the first.

        Args:
            quadratic: the costs about the present motions.
            A: derivative of the next state in the state [stages, worlds, 2 nv + na, 2 nv + na].
            B: derivative of the next state in the controls [stages, worlds, 2 nv + na, size].
        """
        space = self.problem.space
        stages, worlds, n, size = B.shape
        curvature, slope = quadratic.curvature, quadratic.slope
        known = np.isfinite(self.cost) & np.isfinite(slope).all((0, 2)) & np.isfinite(curvature).all((0, 2, 3))
        sweep = Sweep(
            np.zeros((stages, worlds, size)), np.zeros((stages, worlds, size, n)), np.zeros(worlds), np.zeros(worlds),
            known, np.zeros(worlds),
        )  # fmt: skip
        Vx, Vxx = slope[-1, :, :n].copy(), curvature[-1, :, :n, :n].copy()
        F = np.concatenate([A, B], axis=3)
        low, high = (limit - self.states.controls for limit in (space.low, space.high))
        weight = 1.0 / space.scale**2
        for stage in reversed(range(stages)):
            Q = curvature[stage] + F[stage].swapaxes(1, 2) @ (Vxx @ F[stage])
            q = slope[stage] + np.einsum("wni,wn->wi", F[stage], Vx)
            Qux, Quu = Q[:, n:, :n], Q[:, n:, n:]
            for world in np.flatnonzero(sweep.worked):
                mean = float(np.mean(np.diag(Quu[world]) / weight))
                damped = Quu[world] + np.diag(self.regularisation[world] * max(mean, 1e-12) * weight)
                try:
                    start = sweep.feedforward[stage + 1, world] if stage + 1 < stages else None
                    found = solve_box_qp(damped, q[world, n:], low[stage, world], high[stage, world], start)
                except np.linalg.LinAlgError:
                    sweep.worked[world] = False
                    continue
                sweep.feedforward[stage, world] = found.x
                sweep.gains[stage, world] = -found.solve_free(Qux[world])
            k, K = sweep.feedforward[stage], sweep.gains[stage]
            bent = np.einsum("wij,wj->wi", Quu, k)
            sweep.slope += np.einsum("wi,wi->w", k, q[:, n:])
            sweep.bend += np.einsum("wi,wi->w", k, bent)
            Vx = q[:, :n] + np.einsum("win,wi->wn", K, bent + q[:, n:]) + np.einsum("win,wi->wn", Qux, k)
            KQ = K.swapaxes(1, 2) @ Qux
            Vxx = Q[:, :n, :n] + K.swapaxes(1, 2) @ Quu @ K + KQ + KQ.swapaxes(1, 2)
            Vxx = 0.5 * (Vxx + Vxx.swapaxes(1, 2))
        sweep.largest = np.abs(sweep.feedforward / space.scale).max(axis=(0, 2))
        return sweep
