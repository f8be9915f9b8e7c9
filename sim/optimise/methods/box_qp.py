"""Quadratic programs with box limits, by projected Newton steps (Tassa, Mansard and Todorov 2014, section III)."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

ARMIJO, SHRINK = 0.1, 0.6
ITERATIONS = 100


@dataclass(frozen=True)
class BoxSolution:
    """Minimum of ``1/2 x' H x + g x`` within a box.

    Attributes:
        x: the minimiser [n].
        free: mask of entries without an active limit [n].
        factor: Cholesky factor of H among the free entries, in SciPy's form; None if none is free.
    """

    x: np.ndarray
    free: np.ndarray
    factor: tuple[np.ndarray, bool] | None

    def solve_free(self, right: np.ndarray) -> np.ndarray:
        """Return H^-1 right [n, k] among the free entries, zero for the others."""
        found = np.zeros_like(right)
        if self.factor is not None:
            found[self.free] = cho_solve(self.factor, right[self.free], check_finite=False)
        return found


def solve_box_qp(
    H: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray, start: np.ndarray | None = None
) -> BoxSolution:
    """Minimise ``1/2 x' H x + g x`` with ``low <= x <= high``.

    Args:
        H: symmetric and positive definite [n, n].
        g: [n].
        low, high: limits [n].
        start: initial guess [n]. Default: zeros.

    Raises:
        np.linalg.LinAlgError: if H isn't positive definite.
    """
    everything = np.ones(len(g), dtype=bool)
    whole = cho_factor(H, check_finite=False)
    x = -cho_solve(whole, g, check_finite=False)
    if (x >= low).all() and (x <= high).all():
        return BoxSolution(x, everything, whole)
    x = np.clip(np.zeros_like(g) if start is None else start, low, high)
    value = 0.5 * x @ H @ x + g @ x
    free, factor, known = everything, None, None
    for _ in range(ITERATIONS):
        slope = g + H @ x
        free = ~(((x <= low) & (slope > 0.0)) | ((x >= high) & (slope < 0.0)))
        if not free.any():
            return BoxSolution(x, free, None)
        if known is None or (free != known).any():
            factor, known = cho_factor(H[np.ix_(free, free)], check_finite=False), free
        size = float(np.abs(slope[free]).max())
        if size <= 1e-10 * (1.0 + float(np.abs(g).max())):
            break
        step = np.zeros_like(x)
        step[free] = -cho_solve(factor, slope[free], check_finite=False)
        length, fall = 1.0, float(slope @ step)
        while True:
            trial = np.clip(x + length * step, low, high)
            trial_value = 0.5 * trial @ H @ trial + g @ trial
            if trial_value - value <= ARMIJO * min(float(slope @ (trial - x)), 0.0) or length < 1e-12:
                break
            length *= SHRINK
        if length < 1e-12 or -fall <= 1e-14 * max(abs(value), 1e-300):
            break
        x, value = trial, trial_value
    return BoxSolution(x, free, factor)
