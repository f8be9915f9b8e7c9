"""Posteriors of a few unknowns from few motions: their residuals are interpolated, and the interpolant is sampled."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular
from tqdm import tqdm

from sim.errors import ModelError
from sim.identify.posterior import Mixture, Posterior, sample
from sim.model.checks import as_numbers, is_whole, number, require_callable, require_flags, require_seed
from sim.version import renamed_argument

WIDER = 2.0  # width of the first points' distribution relative to the covariances of the peaks
LEAST_SHARE = np.exp(-5.0)  # of a peak in the first points, relative to the largest
HEAT = 0.5  # power of the posterior from which later points are drawn
JITTER = 0.3  # separation of coinciding points, in standard deviations
FAR = 60.0  # maximum sum of squares of a used point, relative to the smallest
FEWEST = 5  # minimum number of used points, for each coefficient of the trend
LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)  # correlation lengths, in standard deviations of the posterior
ROUGHNESS = (1e-4, 1e-2, 1e-1, 1.0)  # variance of point-to-point noise, relative to the smooth part
NOTHING = 1e3  # negative logarithm of a negligible likelihood
DRAWS = 512  # samples of a surrogate's posterior per round, in the rounds in between
LAST_DRAWS = 1024  # and in the last
DRAW_ROUNDS = 3

# Returns residuals [n, s, r], in units of their noise, of unknowns [n, s, k].
Residuals = Callable[[np.ndarray], np.ndarray]


class Surrogate:
    """Interpolant of residuals between points, with its own uncertainty (universal kriging).

    Residuals are a linear trend and a Gaussian process, Matérn's of order 3/2, whose covariance over the residuals is
    estimated. Length of correlation and roughness are those of the greatest restricted likelihood (Santner, Williams
    and Notz, *The Design and Analysis of Computer Experiments*, 2018, section 3.3).

    Args:
        x: points [m, k], more than k + 1.
        residuals: their residuals [m, r].
        excluded: points [f, k] whose residuals are so large that the posterior is negligible there.
        mean: approximate mean of the posterior [k].
        covariance: approximate covariance of the posterior [k, k].
    """

    def __init__(
        self, x: np.ndarray, residuals: np.ndarray, excluded: np.ndarray, mean: np.ndarray, covariance: np.ndarray
    ):
        self.mean, self.inverse = mean, np.linalg.inv(np.linalg.cholesky(covariance)).T
        self.points, self.excluded = self._whitened(x), self._whitened(excluded)
        trend = _trend(self.points)
        freedom = len(x) - trend.shape[1]
        distance = _distance(self.points, self.points)
        best = -np.inf
        for length in LENGTHS:
            smooth = _correlation(distance / length)
            for roughness in ROUGHNESS:
                root = np.linalg.cholesky(smooth + roughness * np.eye(len(x)))
                both = solve_triangular(root, np.concatenate([trend, residuals], axis=1), lower=True)
                # Orthogonal to the trend; its coefficients follow from the triangle.
                basis, triangle = np.linalg.qr(both[:, : trend.shape[1]])
                share = basis.T @ both[:, trend.shape[1] :]
                left = both[:, trend.shape[1] :] - basis @ share
                volume = np.log(np.abs(np.diag(triangle))).sum() + np.log(np.diag(root)).sum()
                likelihood = -volume - 0.5 * freedom * np.log((left**2).sum() + 1e-300)
                if likelihood > best:
                    best, kept = likelihood, (length, roughness, root, basis, triangle, share, left)
        self.length, self.roughness, self.root, self.basis, self.triangle, share, left = kept
        # In the principal directions of the residuals' covariance, which are independent.
        self.variance, directions = np.linalg.eigh(left.T @ left / freedom)
        self.variance = np.maximum(self.variance, 0.0)
        self.trend = solve_triangular(self.triangle, share @ directions)
        self.weights = solve_triangular(self.root.T, left @ directions)

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return the logarithm of the expected exp(-|residuals|² / 2) [s] at x [s, k], over the interpolant's
        uncertainty.

        It is negligible where the nearest point is an excluded one.
        """
        at = self._whitened(x)
        distance, trend = _distance(at, self.points), _trend(at)
        beyond = distance.min(axis=1) > _distance(at, self.excluded).min(axis=1, initial=np.inf)
        correlation = _correlation(distance / self.length)
        expected = trend @ self.trend + correlation @ self.weights
        known = solve_triangular(self.root, correlation.T, lower=True)
        tilted = solve_triangular(self.triangle.T, trend.T - (known.T @ self.basis @ self.triangle).T, lower=True)
        unknown = np.maximum(1.0 + self.roughness - (known**2).sum(axis=0) + (tilted**2).sum(axis=0), 0.0)
        spread = 1.0 + unknown[:, None] * self.variance
        return -0.5 * (expected**2 / spread + np.log(spread)).sum(axis=1) - NOTHING * beyond

    def _whitened(self, x: np.ndarray) -> np.ndarray:
        return (x - self.mean) @ self.inverse


@renamed_argument("reach", "peak_distance", "sample_surrogate")
def sample_surrogate(
    residuals: Residuals, mean: np.ndarray, covariance: np.ndarray, at_mean: np.ndarray, motions: int = 16,
    rounds: int = 4, peak_distance: float = 0.0, seed: int = 0, bar: bool = True,
) -> Posterior:  # fmt: skip
    """Sample posteriors of n problems with a flat prior and residuals of unit noise, from ``motions * rounds``
    residuals each.

    The residuals are computed at a few points about the peaks and interpolated (:class:`Surrogate`); the interpolant's
    posterior is sampled (:func:`sample`), which computes no residuals. The next round computes residuals at points
    drawn from that posterior, widened. The interpolant's uncertainty widens the posterior, so that intervals have their
    nominal coverage where residuals have kinks or jumps.

    Pass a prior as additional residuals. ``effective`` of the result counts samples of the last interpolant.

    Args:
        residuals: function that computes residuals.
        mean: positions of the peaks [n, m, k]; several may be the same.
        covariance: covariances of the peaks [n, m, k, k].
        at_mean: residuals at the peaks [n, m, r].
        motions: number of points per problem and round.
        rounds: number of rounds.
        peak_distance: maximum distance of unknown peaks from the best peak, in any unknown. Half of the first points
            search for them.
        seed: seed of points and samples.
        bar: show a progress bar.

    Raises:
        ModelError: if the residuals of fewer than k + 2 points are finite.

    Example:
        >>> import numpy as np
        >>> from sim.identify import sample_surrogate
        >>> def residuals(x):  # one unknown, measured as 1 with a noise of 0.5
        ...     return (x - 1.0) / 0.5
        >>> peak, variance = np.ones((1, 1, 1)), np.full((1, 1, 1, 1), 0.25)
        >>> posterior = sample_surrogate(residuals, peak, variance, residuals(peak), motions=4, rounds=2, bar=False)
        >>> bool(abs(posterior.quantile(0.975)[0, 0] - 1.98) < 0.1)
        True
    """
    given = {"mean": mean, "covariance": covariance, "at_mean": at_mean}
    mean, covariance, at_mean = (as_numbers(f"sample_surrogate: {name}", value) for name, value in given.items())
    if mean.ndim != 3 or covariance.shape != (*mean.shape, mean.shape[-1]) or at_mean.shape[:-1] != mean.shape[:2]:
        raise ModelError(
            f"sample_surrogate: mean has shape {mean.shape}, covariance {covariance.shape}, at_mean {at_mean.shape}; "
            "expected (n, m, k), (n, m, k, k) and (n, m, r)"
        )
    require_callable("sample_surrogate: residuals", residuals)
    require_seed("sample_surrogate: seed", seed)
    require_flags("sample_surrogate", bar=bar)
    for name, count in (("motions", motions), ("rounds", rounds)):
        if not is_whole(count, 1):
            raise ModelError(f"sample_surrogate: {name} is {count!r}; it must be a whole number of at least 1")
    if not 0.0 <= number("sample_surrogate", "peak_distance", peak_distance) < 1e100:
        raise ModelError(f"sample_surrogate: peak_distance is {peak_distance!r}; it must lie between 0 and 1e100")
    peak_distance = float(peak_distance)
    rng = np.random.default_rng(seed)
    loss = 0.5 * (at_mean**2).sum(axis=2)
    height = 0.5 * np.linalg.slogdet(covariance)[1] - loss
    share = np.maximum(np.exp(height - height.max(axis=1, keepdims=True)), LEAST_SHARE)
    share = np.concatenate([share / share.sum(axis=1, keepdims=True), np.ones((len(mean), 1))], axis=1) / 2.0
    points, found = mean, at_mean
    best = np.arange(len(mean)), loss.argmin(axis=1)
    centre, spread = mean[best], covariance[best] + peak_distance**2 * np.eye(mean.shape[2])
    mean, covariance = (np.concatenate([a, b[:, None]], axis=1) for a, b in ((mean, centre), (covariance, spread)))
    x = Mixture(share, mean, WIDER * np.linalg.cholesky(covariance)).draw(rng, motions)
    for k in tqdm(range(rounds), desc="uncertainty", unit="round", disable=not bar):
        points, found = np.concatenate([points, x], axis=1), np.concatenate([found, residuals(x)], axis=1)
        surrogates = [_surrogate(*each) for each in zip(points, found, centre, spread, strict=True)]
        posterior = _sampled(surrogates, mean, covariance, LAST_DRAWS if k + 1 == rounds else DRAWS, seed + k)
        centre, spread = posterior.mean, posterior.covariance + 1e-6 * covariance[best]
        x = _spread_out(posterior, spread, motions, rng)
    return posterior


def _surrogate(x: np.ndarray, residuals: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> Surrogate:
    """Return the surrogate of the points [m, k] near enough to the best one."""
    squares = (residuals**2).sum(axis=1)
    squares[~np.isfinite(squares)] = np.inf
    order = np.argsort(squares)
    count = max(FEWEST * (x.shape[1] + 1), int((squares < squares.min() + FAR).sum()))
    count = min(count, int(np.isfinite(squares).sum()))
    if count < x.shape[1] + 2:
        raise ModelError(
            f"residuals are finite at {count} points only, and {x.shape[1]} unknowns need {x.shape[1] + 2}; raise "
            "motions, or give peaks and covariances where they are finite"
        )
    far = x[order[count:]]
    return Surrogate(x[order[:count]], residuals[order[:count]], far, mean, covariance)


def _sampled(surrogates: list[Surrogate], mean: np.ndarray, covariance: np.ndarray, draws: int, seed: int) -> Posterior:
    def likelihood(x: np.ndarray) -> np.ndarray:
        found = [surrogate.log_likelihood(part) for surrogate, part in zip(surrogates, x, strict=True)]
        return np.array(found).reshape(x.shape[:2])

    return sample(likelihood, mean, covariance, draws, DRAW_ROUNDS, seed, bar=False)


def _spread_out(posterior: Posterior, covariance: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return points [n, count, k] of the tempered posterior, by systematic resampling; duplicates are separated."""
    below = np.cumsum(posterior.weights**HEAT, axis=1)
    below /= below[:, -1:]
    wanted = (np.arange(count) + rng.random((len(below), 1))) / count
    which = np.minimum((below[:, None] < wanted[:, :, None]).sum(axis=2), below.shape[1] - 1)
    again = np.diff(which, axis=1, prepend=-1) == 0
    move = np.einsum(
        "nij,nsj->nsi", np.linalg.cholesky(covariance), rng.standard_normal((*which.shape, covariance.shape[1]))
    )
    return posterior.samples[np.arange(len(which))[:, None], which] + JITTER * again[:, :, None] * move


def _trend(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((len(x), 1)), x], axis=1)


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * a @ b.T
    return np.sqrt(np.maximum(squares, 0.0))


def _correlation(distance: np.ndarray) -> np.ndarray:
    """Return Matérn's correlation of order 3/2."""
    scaled = np.sqrt(3.0) * distance
    return (1.0 + scaled) * np.exp(-scaled)
