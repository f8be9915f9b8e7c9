"""Least squares with a quasi-Newton method, many fits in parallel."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SHRINK = 0.3  # factor by which a step is shortened that does not decrease the loss enough
SUFFICIENT = 1e-4  # fraction of the predicted decrease that a step must achieve (Armijo)

# Returns losses [n] and their gradients [n, unknowns] for unknowns [n, unknowns].
Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass
class Search:
    """State of n searches.

    Attributes:
        x: the best unknowns so far [n, unknowns].
        loss: their losses [n].
        gradient: their gradients [n, unknowns].
        inverse: approximate inverse Hessians [n, unknowns, unknowns].
        scale: fraction of its step that each search tries next [n].
        fresh: whether the Hessian is still unknown [n].
    """

    x: np.ndarray
    loss: np.ndarray
    gradient: np.ndarray
    inverse: np.ndarray
    scale: np.ndarray
    fresh: np.ndarray


def downhill(search: Search, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quasi-Newton steps [n, unknowns], and the decrease of the losses that a quadratic model predicts [n].

    An unknown at a bound that would move beyond it is held.

    Args:
        search: state of the searches.
        lower: lower bounds of the unknowns [unknowns].
        upper: upper bounds of the unknowns [unknowns].
    """
    beyond = ((search.x <= lower) & (search.gradient > 0.0)) | ((search.x >= upper) & (search.gradient < 0.0))
    gradient = np.where(beyond, 0.0, search.gradient)
    step = np.where(beyond, 0.0, -np.einsum("nij,nj->ni", search.inverse, gradient))
    return step, -0.5 * np.einsum("ni,ni->n", gradient, step)


def begin(evaluate: Evaluate, x: np.ndarray, longest: float) -> Search:
    """Evaluate the starting points.

    Args:
        evaluate: computes losses and gradients.
        x: starting points [n, unknowns].
        longest: length of the first step.
    """
    loss, gradient = evaluate(x)
    inverse = identity(longest / np.maximum(np.linalg.norm(gradient, axis=1), 1e-12), x.shape[1])
    return Search(x.copy(), loss, gradient, inverse, np.ones(len(x)), np.ones(len(x), dtype=bool))


def iterate(search: Search, evaluate: Evaluate, lower: np.ndarray, upper: np.ndarray, longest: float) -> None:
    """One iteration with a single evaluation: BFGS with backtracking (Nocedal and Wright 2006, chapters 3 and 6).

    A search whose step was too long tries a shorter one in the next iteration.

    Args:
        search: state of the searches; updated in place.
        evaluate: computes losses and gradients.
        lower: lower bounds of the unknowns [unknowns]; steps are clipped to them.
        upper: upper bounds of the unknowns [unknowns].
        longest: longest step in any unknown.
    """
    step, _ = downhill(search, lower, upper)
    step *= search.scale[:, None] * np.minimum(1.0, longest / np.maximum(np.abs(step).max(axis=1), 1e-12))[:, None]
    trial = np.clip(search.x + step, lower, upper)
    step = trial - search.x
    loss, gradient = evaluate(trial)
    slope = np.einsum("ni,ni->n", search.gradient, step)
    better = np.isfinite(gradient).all(axis=1) & (loss < search.loss + SUFFICIENT * np.minimum(slope, 0.0))
    change = gradient - search.gradient
    product = np.einsum("ni,ni->n", step, change)
    curved = better & (product > 1e-10)
    first = curved & search.fresh
    search.inverse[first] = identity(product[first] / (change[first] ** 2).sum(axis=1), step.shape[1])
    search.inverse[curved] = updated(search.inverse[curved], step[curved], change[curved])
    search.fresh &= ~curved
    search.x[better], search.loss[better], search.gradient[better] = trial[better], loss[better], gradient[better]
    search.scale = np.where(better, 1.0, SHRINK * search.scale)


def updated(inverse: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Inverse Hessians [n, k, k] that map changes of the gradient [n, k] to steps [n, k] (BFGS)."""
    product = np.einsum("ni,ni->n", step, change)
    left = np.eye(step.shape[1]) - step[:, :, None] * change[:, None, :] / product[:, None, None]
    return left @ inverse @ left.swapaxes(1, 2) + step[:, :, None] * step[:, None, :] / product[:, None, None]


def identity(factors: np.ndarray, size: int) -> np.ndarray:
    """Multiples of the identity [n, size, size]."""
    return factors[:, None, None] * np.eye(size)
