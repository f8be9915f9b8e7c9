"""Batched least squares by damped Gauss-Newton steps (Levenberg and Marquardt).

Derivatives are expensive compared with residuals. They are computed at the start, and after a failed step; a successful
step updates them instead (Broyden).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FIRST_DAMPING = 1e-2  # of a step, relative to the diagonal of the matrix
LESS, MORE = 0.2, 10.0  # factors of the damping after a successful and after a failed step
LEAST_DAMPING = 1e-4  # regularisation that makes a singular matrix invertible
STUCK = 1e3  # damping above which a search ends

# Residuals [k, m] of the searches with indices [k], at the unknowns of all [n, unknowns].
Residuals = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Derivatives of the residuals [k, m, unknowns] of the searches with indices [k], at the unknowns of all [n, unknowns].
Jacobian = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Search:
    """State of n searches.

    Attributes:
        x: the best unknowns so far [n, unknowns].
        residuals: their residuals [n, m].
        jacobian: derivatives of the residuals there [n, m, unknowns].
        exact: True if these are computed, not updated [n].
        damping: damping of each search's next step [n].
    """

    x: np.ndarray
    residuals: np.ndarray
    jacobian: np.ndarray
    exact: np.ndarray
    damping: np.ndarray

    @property
    def loss(self) -> np.ndarray:
        """Return half the sums of squares [n]."""
        return 0.5 * (self.residuals**2).sum(axis=1)

    @property
    def curvature(self) -> np.ndarray:
        """Return Gauss and Newton's approximation of the losses' second derivatives [n, unknowns, unknowns]."""
        return np.einsum("nri,nrj->nij", self.jacobian, self.jacobian)


def begin(residuals: np.ndarray, jacobian: Jacobian, x: np.ndarray) -> Search:
    """Begin searches from starting points [n, unknowns] with their residuals [n, m]."""
    everyone = np.arange(len(x))
    return Search(
        x.copy(), residuals, jacobian(x, everyone), np.ones(len(x), dtype=bool), np.full(len(x), FIRST_DAMPING)
    )


def downhill(search: Search, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute damped Gauss-Newton steps [n, unknowns], and the decrease of the losses that a linear model predicts [n].

    An unknown at a bound that would move beyond it is fixed.

    Args:
        search: state of the searches.
        lower: lower bounds of the unknowns [unknowns].
        upper: upper bounds of the unknowns [unknowns].
    """
    gradient = np.einsum("nri,nr->ni", search.jacobian, search.residuals)
    beyond = ((search.x <= lower) & (gradient > 0.0)) | ((search.x >= upper) & (gradient < 0.0))
    gradient = np.where(beyond, 0.0, gradient)
    held, unit = beyond[:, :, None] | beyond[:, None, :], np.eye(gradient.shape[1])
    matrix = search.curvature
    diagonal = np.maximum(unit * matrix, 1e-300 * unit)
    matrix = np.where(held, diagonal, matrix + search.damping[:, None, None] * diagonal)
    step = -np.linalg.solve(matrix, gradient[..., None])[..., 0]
    return step, -0.5 * np.einsum("ni,ni->n", gradient, step)


def at_work(search: Search, lower: np.ndarray, upper: np.ndarray, settled: float) -> np.ndarray:
    """Return a mask of the active searches [n]: those that predict a decrease of their loss by more than
    ``settled``.
    """
    return _has_more(search, downhill(search, lower, upper)[1], settled)


def _has_more(search: Search, decrease: np.ndarray, settled: float) -> np.ndarray:
    return (~search.exact | (decrease > settled)) & (search.damping < STUCK)


def iterate(
    search: Search,
    residuals: Residuals,
    jacobian: Jacobian,
    lower: np.ndarray,
    upper: np.ndarray,
    longest: float,
    settled: float,
) -> None:
    """Take one step of all active searches (Nocedal and Wright 2006, chapters 10 and 11); a failed step is undone.

    Args:
        search: state of the searches; updated in place.
        residuals: computes residuals.
        jacobian: computes derivatives.
        lower: lower bounds of the unknowns [unknowns]; steps are clipped to them.
        upper: upper bounds of the unknowns [unknowns].
        longest: longest step in any unknown.
        settled: decrease of a loss below which a search ends, decided only with computed derivatives.
    """
    step, decrease = downhill(search, lower, upper)
    working = _has_more(search, decrease, settled)
    step *= np.minimum(1.0, longest / np.maximum(np.abs(step).max(axis=1), 1e-12))[:, None]
    trial = np.clip(search.x + step, lower, upper)
    found, tried = search.residuals.copy(), np.flatnonzero(working)
    found[tried] = residuals(trial, tried)
    better = working & np.isfinite(found).all(axis=1) & ((found**2).sum(axis=1) < (search.residuals**2).sum(axis=1))
    failed = working & ~better
    search.damping[better] = np.maximum(LESS * search.damping[better], LEAST_DAMPING)
    search.damping[failed & search.exact] *= MORE
    _correct(search, better, trial[better], found[better])
    doubtful = ~search.exact & (failed | (downhill(search, lower, upper)[1] <= settled))
    if doubtful.any():
        search.jacobian[doubtful] = jacobian(search.x, np.flatnonzero(doubtful))
        search.exact |= doubtful


def _correct(search: Search, which: np.ndarray, x: np.ndarray, residuals: np.ndarray) -> None:
    """Move the chosen searches [n] to unknowns with these residuals, and update their derivatives (Broyden 1965)."""
    step = x - search.x[which]
    unforeseen = residuals - search.residuals[which] - np.einsum("nri,ni->nr", search.jacobian[which], step)
    search.jacobian[which] += unforeseen[:, :, None] * step[:, None, :] / (step**2).sum(axis=1)[:, None, None]
    search.x[which], search.residuals[which], search.exact[which] = x, residuals, False
