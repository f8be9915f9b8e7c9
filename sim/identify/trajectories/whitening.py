"""Residuals of motions whose inputs are noisy, made independent of each other by a Kalman filter.

An input's error moves the state of all later rows, so that residuals of a simulation from the measured inputs are
correlated, and larger than the noise of the measurements. The filter predicts each residual from the previous ones. Its
errors, the innovations, are independent and of unit variance (Kailath 1968). The filter is linear and acts on
derivatives too.
"""

import torch


class Whitening:
    """Whitening filter along the rows of motions.

    Args:
        transition: derivatives of states in those one row before [rows - 1, worlds, nx, nx].
        disturbance: changes of states by one standard deviation of each input before [rows - 1, worlds, nx, n].
        slopes: derivatives of residuals in the state of their row, in standard deviations [rows, worlds, m, nx].
    """

    def __init__(self, transition: torch.Tensor, disturbance: torch.Tensor, slopes: torch.Tensor):
        self.transition, self.slopes = transition, slopes
        spread, unit = transition.new_zeros(transition.shape[1:]), torch.eye(slopes.shape[2], dtype=slopes.dtype)
        gains, roots = [], []
        for k, slope in enumerate(slopes):
            if k:
                of_inputs = disturbance[k - 1] @ disturbance[k - 1].mT
                spread = transition[k - 1] @ spread @ transition[k - 1].mT + of_inputs
            found = slope @ spread
            root = torch.linalg.cholesky(found @ slope.mT + unit)
            gain = torch.cholesky_solve(found, root).mT
            spread = spread - gain @ found
            gains.append(gain)
            roots.append(root)
        self.gains, self.roots, self.spread = torch.stack(gains), torch.stack(roots), spread

    def __call__(self, residuals: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return independent residuals [rows, worlds, m, c] from correlated ones, and the predicted change of the last
        state [worlds, nx, c]. Derivatives of residuals are columns of their own.
        """
        error = residuals.new_zeros(*self.spread.shape[:2], residuals.shape[-1])
        white = []
        for k, (residual, slope) in enumerate(zip(residuals, self.slopes, strict=True)):
            if k:
                error = self.transition[k - 1] @ error
            surprise = residual - slope @ error
            error = error + self.gains[k] @ surprise
            white.append(torch.linalg.solve_triangular(self.roots[k], surprise, upper=False))
        return torch.stack(white), error

    def at_end(
        self, world: int, slope: torch.Tensor, residuals: torch.Tensor, error: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return independent residuals [m, c] from those of a motion's last state.

        Args:
            world: the motion.
            slope: derivatives of the residuals in that state, in standard deviations [m, nx].
            residuals: the residuals, or their derivatives in variables [m, c].
            error: the predicted change of that state [nx, c]. Default: zero.
        """
        root = torch.linalg.cholesky(slope @ self.spread[world] @ slope.mT + torch.eye(len(slope), dtype=slope.dtype))
        surprise = residuals if error is None else residuals - slope @ error
        return torch.linalg.solve_triangular(root, surprise, upper=False)
