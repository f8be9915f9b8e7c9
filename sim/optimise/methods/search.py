"""Shared parts of all methods: first guesses, progress and results."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from sim.errors import ModelError
from sim.model.checks import is_whole, number, require_flags, require_type
from sim.optimise.costs import Cost
from sim.optimise.motion import Motion
from sim.optimise.problem import Problem
from sim.optimise.result import Result

IN_PYTORCH = (
    "write it with differentiable PyTorch operations on q, qd and controls (no detach() or numpy), or use cmaes"
)

NO_PROGRESS = ("no further improvement", "no step improves the cost")

MOST_UNKNOWNS = 100_000_000  # of all starts together


def first_guesses(problem: Problem, guess: Any, starts: int, spread: float, seed: int, more: int = 0) -> np.ndarray:
    """Return the first unknowns of every start [starts + more, n].

    Args:
        problem: the problem.
        guess: the parametrisation's guess, of one start or of all. Default: its own.
        starts: number of starts.
        spread: standard deviation of the noise added to a shared guess for all starts but the first, in units of the
            unknowns' scale.
        seed: seed of the noise.
        more: number of starts that may join later.

    Raises:
        ModelError: for numbers out of range or of inconsistent shapes.
    """
    require_type("problem", problem, Problem, "a sim.optimise.Problem")
    if not is_whole(starts, 1):
        raise ModelError(f"starts is {starts!r}; it must be a whole number of at least 1")
    if (starts + more) * problem.size > MOST_UNKNOWNS:
        raise ModelError(
            f"{starts} starts, and {more} that join, of {problem.size} unknowns each; at most {MOST_UNKNOWNS} unknowns "
            "are supported"
        )
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
    """Raise ModelError for a count, such as that of iterations, that is negative or not a whole number."""
    for name, count in counts.items():
        if not is_whole(count, 0):
            raise ModelError(f"{name} is {count!r}; it must be a whole number, not negative")


def require_numbers(**numbers: float) -> None:
    """Raise ModelError for a threshold, such as a goal, that isn't a number."""
    for name, given in numbers.items():
        if np.isnan(number("search", name, given)):
            raise ModelError(f"search: {name} is {given!r}; it must be a number")


def warn_of_lost_gradients(problem: Problem, method: str) -> None:
    """Warn of costs without a gradient, which are ignored because others have one.

    They are evaluated on a motion at rest, without simulation. A cost of zero may just be without a gradient there.
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
            f"{method}: cost {said} has no gradient and will be ignored; {IN_PYTORCH}",
            UserWarning,
            stacklevel=4,
        )


def warn_of_zero_gradients(
    problem: Problem, method: str, guesses: np.ndarray, start: Sequence[np.ndarray] | None = None
) -> list[str]:
    """Warn of costs that no unknown changes at any first guess, and return their names.

    Args:
        problem: the problem.
        method: its name.
        guesses: unknowns of the first guesses [starts, n].
        start: initial state. Default: the problem's.
    """
    lost, _ = _split_by_slope(problem, guesses, start)
    if lost:
        said = "'" + "', '".join(lost) + "'"
        warnings.warn(
            f"{method}: at the first guess no gradient reaches cost {said}: its derivative is zero in all unknowns, "
            f"{problem.unknowns}. Contacts that it needs are open, or it is at a point of symmetry. Start from a guess "
            "that touches, smooth the gradient with sim.HardContact(gradient_smoothing=..., margin=...), or use cmaes",
            UserWarning,
            stacklevel=4,
        )
    return lost


def _split_by_slope(
    problem: Problem, unknowns: np.ndarray, start: Sequence[np.ndarray] | None = None
) -> tuple[list[str], list[str]]:
    """Return the names of the costs that aren't zero, but have a derivative of zero in every unknown and world, and of
    those that have another derivative.
    """
    x = torch.as_tensor(unknowns, dtype=problem.dtype, device=problem.device).requires_grad_()
    motion = problem.motion(x, start)
    values = [(_name(cost), cost.value(motion)) for cost in problem.costs]
    counting = [(name, value) for name, value in values if value.requires_grad and bool(value.isfinite().all())]
    depends = [_depends(value, x) for _, value in counting]
    reached = [name for (name, _), moves in zip(counting, depends, strict=True) if moves]
    lost = [name for (name, value), moves in zip(counting, depends, strict=True) if not moves and bool(value.any())]
    return lost, reached


def _depends(value: torch.Tensor, x: torch.Tensor) -> bool:
    """Return whether a cost has a derivative in an unknown that isn't zero."""
    (slope,) = torch.autograd.grad(value.sum(), x, retain_graph=True, allow_unused=True)
    return slope is not None and bool(slope.any())


def nothing_finite(problem: Problem, method: str, unknowns: np.ndarray, otherwise: str) -> ModelError:
    """Return the error of a search that finds no finite cost.

    Args:
        problem: the problem.
        method: its name.
        unknowns: unknowns of a first guess [n].
        otherwise: message if its motion isn't finite.
    """
    with torch.no_grad():
        motion = _motion(problem, unknowns)
        if not bool(motion.q.isfinite().all() & motion.qd.isfinite().all()):
            return ModelError(f"{method}: {otherwise}")
        wrong = [_name(cost) for cost in problem.costs if not bool(cost.value(motion).isfinite().all())]
    if wrong:
        return ModelError(f"{method}: cost '{wrong[0]}' isn't finite for the first guess, although its motion is")
    for cost in problem.costs:
        x = torch.as_tensor(unknowns[None], dtype=problem.dtype, device=problem.device).requires_grad_()
        motion = problem.motion(x)
        value = cost.value(motion).sum()
        if value.requires_grad and not bool(problem.slopes(value, motion, x).isfinite().all()):
            return no_derivative(cost, method)
    return ModelError(f"{method}: motion and costs of the first guess are finite, but not their derivatives or score")


def no_derivative(cost: Cost, method: str) -> ModelError:
    """Return the error of a gradient-based search for a cost without a derivative at the first guess."""
    return ModelError(
        f"{method}: cost '{_name(cost)}' is finite for the first guess, but its derivative isn't; a root or norm has "
        "no derivative at zero, so add a small number under the root"
    )


def no_gradient(costs: Sequence[Cost], method: str) -> ModelError:
    """Return the error of a gradient-based search if no cost has a gradient."""
    names = ", ".join(f"'{_name(cost)}'" for cost in costs)
    return ModelError(f"{method}: cost {names} has no gradient; {IN_PYTORCH}")


@contextmanager
def progress_bar(method: str, iterations: int, done: int, shown: bool) -> Iterator[tqdm]:
    """Yield a progress bar of iterations, complete at its end."""
    require_flags(method, progress=shown)
    with tqdm(total=iterations, initial=done, desc=method, unit="iteration", disable=not shown) as bar:
        bar.set_postfix_str("compiling kernels, unless they are cached")
        yield bar
        bar.total = bar.n


def finished(
    problem: Problem, method: str, unknowns: np.ndarray, scores: np.ndarray, history: list[float], rollouts: int,
    message: str, converged: bool, begun: float, gains: np.ndarray | None = None, lost: Sequence[str] = (),
) -> Result:  # fmt: skip
    """Return the result for the best unknowns [n], after one more simulation.

    Its message names a cost of ``lost`` that still no gradient reaches, see :func:`warn_of_zero_gradients`. If the
    search changed nothing, it hasn't converged.
    """
    if lost and message in NO_PROGRESS:
        unreached, reached = _split_by_slope(problem, unknowns[None])
        stuck = [name for name in unreached if name in lost]
        if stuck and not reached and not history[-1] < history[0]:
            message, converged = f"no gradient reaches cost '{stuck[0]}'", False
        elif stuck:
            message = f"{message}; no gradient reaches cost '{stuck[0]}'"
    with torch.no_grad():
        motion = _motion(problem, unknowns)
        each, violation = problem.terms(motion)[:, 0], float(problem.violation(motion)[0])
    controls = motion.controls[:, 0].cpu().numpy().astype(np.float64)
    q, qd, act = problem.states_of(controls)
    return Result(
        method, float(each.sum()), controls, q, qd, unknowns, history, rollouts, message, converged, scores, violation,
        gains, time.perf_counter() - begun, act if problem.model.na else None,
        [(_name(cost), float(value)) for cost, value in zip(problem.costs, each, strict=True)], problem.space.names,
        float(problem.simulator.dt) * problem.hold,
    )  # fmt: skip


def _motion(problem: Problem, unknowns: np.ndarray) -> Motion:
    """Return the motion of unknowns [n], in one world."""
    return problem.motion(torch.as_tensor(unknowns[None], dtype=problem.dtype, device=problem.device))


def _name(cost: Cost) -> str:
    return getattr(cost, "name", type(cost).__name__)
