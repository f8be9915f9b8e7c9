"""What all methods share: their first guesses, progress, and the result."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from sim.errors import ModelError
from sim.model.checks import is_whole, number, require_type
from sim.optimise.costs import Cost
from sim.optimise.motion import Motion
from sim.optimise.problem import Problem
from sim.optimise.result import Result

IN_PYTORCH = "compute it from q, qd and controls in PyTorch, without detach() or numpy, or use cmaes"


def first_guesses(problem: Problem, guess: Any, starts: int, spread: float, seed: int, more: int = 0) -> np.ndarray:
    """The first unknowns of every start [starts + more, n].

    Args:
        problem: the problem.
        guess: what the parametrisation takes for a guess, of one start or of all; None for its own.
        starts: how many.
        spread: standard deviation of what is added to a guess that stands for several starts, but the first; in units
            of the unknowns' scale.
        seed: of these random numbers.
        more: starts that may join later.

    Raises:
        ModelError: for numbers that don't fit.
    """
    require_type("problem", problem, Problem, "a sim.optimise.Problem")
    if not is_whole(starts, 1):
        raise ModelError(f"starts is {starts!r}; it must be a whole number of at least 1")
    if not 0.0 <= number("first guesses", "spread", spread) < np.inf:
        raise ModelError(f"spread is {spread!r}; it must be finite and not negative")
    if not is_whole(seed, 0):
        raise ModelError(f"seed is {seed!r}; it must be a whole number, not negative")
    given = problem.parametrisation.guess(problem.space, guess)
    count = starts + more
    if len(given) == 1 and count > 1:
        noise = np.random.default_rng(seed).standard_normal((count, given.shape[1]))
        noise[0] = 0.0
        given = given + spread * problem.parametrisation.scale(problem.space) * noise
    if count > 1 and len(given) != count:
        others = f", and {more} more may join" if more else ""
        raise ModelError(f"guess has {len(given)} starts, but starts is {starts}{others}")
    return np.clip(given, *problem.parametrisation.bounds(problem.space))


def require_counts(**counts: int) -> None:
    """Raises ModelError for a number, such as that of iterations, that isn't whole, or negative."""
    for name, count in counts.items():
        if not is_whole(count, 0):
            raise ModelError(f"{name} is {count!r}; it must be a whole number, not negative")


def require_numbers(**numbers: float) -> None:
    """Raises ModelError for a threshold, such as a goal, that is no number."""
    for name, given in numbers.items():
        if np.isnan(number("search", name, given)):
            raise ModelError(f"search: {name} is {given!r}; it must be a number")


def warn_of_lost_gradients(problem: Problem, method: str) -> None:
    """Warn of costs that no gradient reaches, beside others that have one: they count for nothing.

    They are looked at where nothing moves, without simulation. A cost of zero may just have nothing to say of that.
    """
    motion = problem.still_motion().detached()
    for seen in (motion.q, motion.qd, motion.act, motion.controls, motion.contact_force):
        if seen is not None:
            seen.requires_grad_()
    values = {_name(cost): cost.value(motion) for cost in problem.costs}
    lost = [name for name, value in values.items() if not value.requires_grad and bool(value.any())]
    if lost and len(lost) < len(values):
        said = "'" + "', '".join(lost) + "'"
        warnings.warn(
            f"{method}: no gradient reaches the cost {said}, so that it doesn't count beside the others; {IN_PYTORCH}",
            UserWarning,
            stacklevel=4,
        )


def nothing_finite(problem: Problem, method: str, unknowns: np.ndarray, otherwise: str) -> ModelError:
    """The error of a search that finds no finite cost.

    Args:
        problem: the problem.
        method: its name.
        unknowns: of a first guess [n].
        otherwise: what is said where its motion isn't finite.
    """
    with torch.no_grad():
        motion = _motion(problem, unknowns)
        if not bool(motion.q.isfinite().all() & motion.qd.isfinite().all()):
            return ModelError(f"{method}: {otherwise}")
        wrong = [_name(cost) for cost in problem.costs if not bool(cost.value(motion).isfinite().all())]
    if wrong:
        return ModelError(f"{method}: cost '{wrong[0]}' isn't finite for the first guess, though its motion is")
    for cost in problem.costs:
        x = torch.as_tensor(unknowns[None], dtype=problem.dtype, device=problem.device).requires_grad_()
        motion = problem.motion(x)
        value = cost.value(motion).sum()
        if value.requires_grad and not bool(problem.slopes(value, motion, x).isfinite().all()):
            return no_derivative(cost, method)
    return ModelError(f"{method}: motion and costs of the first guess are finite, but not their derivatives or score")


def no_derivative(cost: Cost, method: str) -> ModelError:
    """The error of a search by gradients from where a cost has none."""
    return ModelError(
        f"{method}: cost '{_name(cost)}' is finite for the first guess, but its derivative isn't; a root or a norm has "
        "none at zero, add a small number under it"
    )


def no_gradient(costs: Sequence[Cost], method: str) -> ModelError:
    """The error of a search by gradients, none of which reaches the costs."""
    names = ", ".join(f"'{_name(cost)}'" for cost in costs)
    return ModelError(f"{method}: no gradient reaches the cost {names}; {IN_PYTORCH}")


@contextmanager
def progress_bar(method: str, iterations: int, done: int, shown: bool) -> Iterator[tqdm]:
    """A progress bar of iterations, complete at its end."""
    with tqdm(total=iterations, initial=done, desc=method, unit="iteration", disable=not shown) as bar:
        bar.set_postfix_str("compiling kernels, unless they are cached")
        yield bar
        bar.total = bar.n


def finished(
    problem: Problem, method: str, unknowns: np.ndarray, scores: np.ndarray, history: list[float], rollouts: int,
    message: str, converged: bool, begun: float, gains: np.ndarray | None = None,
) -> Result:  # fmt: skip
    """The result of the best unknowns [n], simulated once more."""
    with torch.no_grad():
        motion = _motion(problem, unknowns)
        cost, violation = float(problem.cost(motion)[0]), float(problem.violation(motion)[0])
    controls = motion.controls[:, 0].cpu().numpy().astype(np.float64)
    q, qd, act = problem.states_of(controls)
    return Result(
        method, cost, controls, q, qd, unknowns, history, rollouts, message, converged, scores, violation, gains,
        time.perf_counter() - begun, act if problem.model.na else None,
    )  # fmt: skip


def _motion(problem: Problem, unknowns: np.ndarray) -> Motion:
    """The motion of unknowns [n], in one world."""
    return problem.motion(torch.as_tensor(unknowns[None], dtype=problem.dtype, device=problem.device))


def _name(cost: Cost) -> str:
    return getattr(cost, "name", type(cost).__name__)
