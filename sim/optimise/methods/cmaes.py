"""CMA-ES, without gradients, by pycma: each generation is simulated as one batch."""

import time
import warnings
from typing import Any

import numpy as np

from sim.errors import ModelError
from sim.model.checks import is_positive, is_whole, require_callable
from sim.optimise.methods.search import (
    MOST_UNKNOWNS,
    finished,
    first_guesses,
    nothing_finite,
    progress_bar,
    require_counts,
    require_numbers,
)
from sim.optimise.problem import Problem
from sim.optimise.result import Iteration, Result, Watch

DIAGONAL = 1000  # with more unknowns the covariance is diagonal


def cmaes(
    problem: Problem,
    guess: Any = None,
    *,
    iterations: int = 100,
    population: int | None = None,
    spread: float = 0.2,
    seed: int = 0,
    goal: float = -float("inf"),
    progress: bool = False,
    watch: Watch | None = None,
) -> Result:
    """Minimise with CMA-ES of the package ``cma``, which needs no gradient.

    Args:
        problem: the problem; its constraints are ignored, see :func:`sim.optimise.solve`.
        guess: first unknowns, as for :func:`sim.optimise.gradient`, of one start.
        iterations: maximum number of generations.
        population: candidates in each. Default: pycma's choice.
        spread: standard deviation of the first generation, in units of the unknowns' scale.
        seed: seed of all random numbers.
        goal: a cost below this ends the search.
        progress: show a progress bar.
        watch: called with every iteration, such as the method ``watch`` of a :class:`sim.viewer.Viewer`.

    Raises:
        ModelError: if ``cma`` isn't installed, and for arguments out of range.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.optimise import Effort, Knots, Posture, Problem, cmaes
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("cart", mass=1.0, inertia=np.eye(3))
        >>> _ = scene.add_joint("rail", "prismatic", child="cart", axis=(1, 0, 0))
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> costs = [Posture([1.0], weight=100.0, at=-1), Effort(1e-5)]
        >>> found = cmaes(Problem(simulator, 20, costs, controls=Knots(2, "hold"), scale=100.0), iterations=30)
        >>> bool(found.cost < 0.2 * found.history[0])
        True
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pycma warns about unavailable plots
            import cma
    except ImportError:
        raise ModelError("cmaes needs the package cma: pip install 'backswing[cma]'") from None
    require_callable("cmaes: watch", watch, optional=True)
    require_counts(iterations=iterations)
    require_numbers(goal=goal)
    if not is_positive(spread):
        raise ModelError(f"spread is {spread!r}; it must be finite and positive")
    spread = float(spread)
    if not (population is None or (is_whole(population, 2) and population * problem.size <= MOST_UNKNOWNS)):
        raise ModelError(
            f"population is {population!r}; it must be a whole number of at least 2, and of at most {MOST_UNKNOWNS} "
            "unknowns together"
        )
    begun = time.perf_counter()
    (first,) = first_guesses(problem, guess, 1, 0.0, seed)
    scale = problem.parametrisation.scale(problem.space)
    low, high = problem.parametrisation.bounds(problem.space)
    count = population or 4 + int(3 * np.log(problem.size))
    options: dict[str, Any] = {
        # pycma reads 0 as a seed from the clock, and rejects more than 32 bits.
        "seed": seed % (2**32 - 1) + 1, "popsize": count, "verbose": -9, "CMA_diagonal": problem.size > DIAGONAL,
    }  # fmt: skip
    best, cost = first, float(problem.costs_of(first[None])[0])
    history, rollouts = [cost], 1
    message, converged = "iterations used up", False
    with progress_bar("cmaes", iterations, 0, progress) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = cma.CMAEvolutionStrategy(first / scale, spread, options)
        try:
            for _ in range(iterations):
                if cost < goal:
                    message, converged = "goal reached", True
                    break
                if search.stop():
                    message, converged = "no further improvement", True
                    break
                asked = search.ask()
                candidates = np.clip(np.stack(asked) * scale, low, high)
                costs = problem.costs_of(candidates)
                rollouts += count
                # A candidate outside the limits is worse the farther it is outside, so that the search stays near the
                # box.
                outside = ((np.stack(asked) - candidates / scale) ** 2).sum(1)
                # Candidates without a finite cost are ranked last, with a finite value for pycma.
                known = np.append(costs, cost)
                worst = 1e3 * (1.0 + np.abs(known[np.isfinite(known)]).max(initial=0.0))
                finite = np.where(np.isfinite(costs), costs, worst)
                search.tell(asked, (finite + np.abs(finite).mean() * outside).tolist())
                if costs.min() < cost:
                    best, cost = candidates[np.argmin(costs)], float(costs.min())
                history.append(cost)
                if watch is not None:
                    watch(Iteration("cmaes", problem, list(history), candidates))
                bar.set_postfix_str(f"cost {cost:.4g}")
                bar.update()
        except KeyboardInterrupt:
            message = "interrupted"
    if not np.isfinite(cost):
        said = "the simulation diverges for every candidate; give another guess or a smaller spread"
        raise nothing_finite(problem, "cmaes", first, said)
    return finished(problem, "cmaes", best, np.array([cost]), history, rollouts, message, converged, begun)
