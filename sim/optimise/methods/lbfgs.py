"""L-BFGS with box limits, by SciPy: quasi-Newton steps from gradients of the whole motion."""

import time
from typing import Any

import numpy as np
from scipy.optimize import minimize

from sim.model.checks import require_callable
from sim.optimise.methods.search import (
    finished,
    first_guesses,
    no_gradient,
    nothing_finite,
    progress_bar,
    require_counts,
    require_numbers,
    warn_of_lost_gradients,
    warn_of_zero_gradients,
)
from sim.optimise.problem import Problem
from sim.optimise.result import Iteration, Result, Watch
from sim.torch.modes import with_gradients

ENDS = {0: "no further improvement", 1: "iterations used up"}  # by SciPy's status


class _EndError(Exception):
    """Signal that the goal is reached."""


@with_gradients()
def lbfgs(
    problem: Problem,
    guess: Any = None,
    *,
    iterations: int = 100,
    starts: int = 1,
    spread: float = 0.1,
    seed: int = 0,
    goal: float = -float("inf"),
    tolerance: float = 1e-9,
    progress: bool = False,
    watch: Watch | None = None,
) -> Result:
    """Minimise with SciPy's L-BFGS-B, one start after the other.

    Args:
        problem: the problem; its constraints are ignored, see :func:`sim.optimise.solve`.
        guess: first unknowns, as for :func:`sim.optimise.gradient`.
        iterations: maximum number of iterations of each start; each takes one or a few rollouts with backward passes.
        starts: number of searches.
        spread: standard deviation of random guesses about the one given, in units of the unknowns' scale.
        seed: seed of these.
        goal: a cost below this ends the search.
        tolerance: relative improvement below which a start ends.
        progress: show a progress bar.
        watch: called with every iteration, such as the method ``watch`` of a :class:`sim.viewer.Viewer`.

    Raises:
        ModelError: for arguments out of range, and if no first guess has a finite cost with a gradient.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Knots, Posture, Problem, lbfgs
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> costs = [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)]
        >>> found = lbfgs(Problem(simulator, 20, costs, controls=Knots(4, "linear"), scale=10.0))
        >>> found.unknowns.shape, bool(abs(found.q[-1, 0] - 1.0) < 0.05)
        ((4,), True)
    """
    require_callable("lbfgs: watch", watch, optional=True)
    require_counts(iterations=iterations)
    require_numbers(goal=goal, tolerance=tolerance)
    begun = time.perf_counter()
    guesses = first_guesses(problem, guess, starts, spread, seed)
    warn_of_lost_gradients(problem, "lbfgs")
    lost = warn_of_zero_gradients(problem, "lbfgs", guesses)
    scale = problem.parametrisation.scale(problem.space)
    low, high = problem.parametrisation.bounds(problem.space)
    bounds = np.stack([low / scale, high / scale], axis=1)
    best, scores = guesses[0], np.full(len(guesses), np.inf)
    history: list[float] = []
    rollouts, ends = 0, ["iterations used up"] * len(guesses)
    message = None
    with progress_bar("lbfgs", len(guesses) * iterations, 0, progress) as bar:

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, rollouts
            unknowns = np.clip(x * scale, low, high)
            try:
                found = problem.evaluate(unknowns[None])
            except RuntimeError as error:
                if "does not require grad" not in str(error):
                    raise
                raise no_gradient(problem.costs, "lbfgs") from None
            rollouts += 1
            cost, slope = float(found.cost[0]), found.gradient[0] * scale
            if not (np.isfinite(cost) and np.isfinite(slope).all()):
                # A line search needs a number: without a finite cost and derivative, use one above all seen so far.
                finite = scores[np.isfinite(scores)]
                return 1e3 * (1.0 + np.abs(finite).max(initial=1.0)), np.zeros_like(slope)
            if cost < scores[start]:
                if cost < np.min(scores):
                    best = unknowns
                scores[start] = cost
            return cost, slope

        def after_iteration(x: np.ndarray) -> None:
            history.append(float(scores.min()))
            bar.set_postfix_str(f"cost {history[-1]:.4g}")
            bar.update()
            if watch is not None:
                watch(Iteration("lbfgs", problem, list(history), np.clip(x * scale, low, high)[None]))
            if history[-1] < goal:
                raise _EndError

        try:
            for start, first in enumerate(guesses):
                evaluate(first / scale)
                history.append(float(scores.min()))
                if not np.isfinite(scores[start]) or iterations == 0:
                    continue
                found = minimize(
                    evaluate, first / scale, jac=True, method="L-BFGS-B", bounds=bounds, callback=after_iteration,
                    options={"maxiter": iterations, "maxfun": 20 * iterations, "ftol": tolerance, "gtol": 0.0},
                )  # fmt: skip
                ends[start] = ENDS.get(found.get("status", 0), "no step improves the cost")
        except _EndError:
            message = "goal reached"
        except KeyboardInterrupt:
            if not history:
                raise
            message = "interrupted"
    if not np.isfinite(scores).any():
        said = "the simulation diverges from every first guess; give another guess"
        raise nothing_finite(problem, "lbfgs", guesses[0], said)
    message = message or ends[int(np.argmin(scores))]
    converged = message in ("goal reached", ENDS[0])
    return finished(problem, "lbfgs", best, scores, history, rollouts, message, converged, begun, lost=lost)
