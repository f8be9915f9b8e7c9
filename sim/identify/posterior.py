"""Posteriors of a few unknowns by adaptive importance sampling, for batches of problems."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from tqdm import tqdm

from sim.errors import ModelError
from sim.model.checks import as_numbers, is_whole, require_callable, require_flags, require_seed, require_type

TAIL = 5.0  # degrees of freedom of the proposals, Student's t with heavier tails than a posterior
WIDER = 3.0  # width of the first proposals relative to the first covariances
MARGIN = 1.5  # width of a later proposal relative to the spread of its samples
FLOOR = 0.3  # minimum width of a proposal relative to the first covariance
SHARE = 0.1  # minimum fraction of the samples for a peak, divided by the number of peaks

# Returns log-likelihoods [n, samples] of unknowns [n, samples, k].
LogLikelihood = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Posterior:
    """Posteriors of the unknowns of n problems.

    Attributes:
        mean: mean of the unknowns [n, k].
        covariance: covariance of the unknowns [n, k, k].
        effective: effective number of independent samples [n].
        samples: samples of all rounds [n, s, k].
        weights: their weights, whose sum is one [n, s].

    Example:
        >>> import numpy as np
        >>> from sim.identify import sample
        >>> def likelihood(x):
        ...     return -0.5 * (x[:, :, 0] ** 2)
        >>> posterior = sample(likelihood, np.zeros((1, 1, 1)), np.ones((1, 1, 1, 1)), 4000, 2, seed=0, bar=False)
        >>> bool(abs(posterior.quantile(0.975)[0, 0] - 1.96) < 0.1)
        True
    """

    mean: np.ndarray
    covariance: np.ndarray
    effective: np.ndarray
    samples: np.ndarray
    weights: np.ndarray

    def quantile(self, probability: float) -> np.ndarray:
        """Return the quantile of each unknown at a probability [n, k]."""
        require_type("quantile: probability", probability, (int, float, np.number), "a number from 0 to 1")
        if not 0.0 <= probability <= 1.0:
            raise ModelError(f"quantile: probability is {probability!r}; it must lie between 0 and 1")
        order = np.argsort(self.samples, axis=1)
        x, weights = np.take_along_axis(self.samples, order, 1), np.take_along_axis(self.weights[:, :, None], order, 1)
        # Half of a sample's weight counts on either side of it.
        below = np.cumsum(weights, axis=1) - 0.5 * weights
        return np.array(
            [[np.interp(probability, below[i, :, k], x[i, :, k]) for k in range(x.shape[2])] for i in range(len(x))]
        ).reshape(self.mean.shape)


@dataclass(frozen=True)
class Mixture:
    """Mixtures of m t distributions for n problems.

    Attributes:
        share: fraction of the samples [n, m].
        mean: means [n, m, k].
        root: Cholesky factors of the scale matrices [n, m, k, k].
    """

    share: np.ndarray
    mean: np.ndarray
    root: np.ndarray

    def draw(self, rng: np.random.Generator, samples: int) -> np.ndarray:
        """Draw samples [n, samples, k]."""
        n, _, k = self.mean.shape
        which = (rng.random((n, samples, 1)) > np.cumsum(self.share, axis=1)[:, None, :-1]).sum(axis=2)
        u = rng.standard_normal((n, samples, k)) / np.sqrt(rng.chisquare(TAIL, (n, samples, 1)) / TAIL)
        row = np.arange(n)[:, None]
        return self.mean[row, which] + np.einsum("nsij,nsj->nsi", self.root[row, which], u)

    def parts(self, x: np.ndarray) -> np.ndarray:
        """Return log-densities, up to a constant, of distributions times shares [n, samples, m], at x [n, samples,
        k].
        """
        k = x.shape[2]
        u = np.einsum("nmij,nsmj->nsmi", np.linalg.inv(self.root), x[:, :, None] - self.mean[:, None])
        volume = np.log(np.einsum("nmii->nmi", self.root)).sum(axis=2)
        return -0.5 * (TAIL + k) * np.log1p((u**2).sum(axis=3) / TAIL) + (np.log(self.share) - volume)[:, None]


def sample(
    likelihood: LogLikelihood, mean: np.ndarray, covariance: np.ndarray, samples: int, rounds: int, seed: int,
    bar: bool = True,
) -> Posterior:  # fmt: skip
    """Sample posteriors with a flat prior and a likelihood that may have many peaks, for their means and covariances.

    Each round draws from a mixture of t distributions, one for each given peak. A sample's weight is
    the ratio of its likelihood to the density of the mixtures of all rounds so far (Cornuet et al., *Adaptive Multiple
    Importance Sampling*, 2012). The next mixture has the moments of the samples, each divided among the distributions
    that it may have come from (Cappé et al., *Adaptive importance sampling in general mixture classes*, 2008).

    Args:
        likelihood: log-likelihood of the data, up to a constant; minus infinity where it is zero.
        mean: positions of the peaks [n, m, k].
        covariance: covariances of the peaks [n, m, k, k].
        samples: number of samples per problem and round.
        rounds: number of rounds.
        seed: seed of the samples.
        bar: show a progress bar.

    Raises:
        ModelError: for inconsistent shapes, covariances that aren't positive definite, a likelihood of NaN, and one
            that is zero for all samples.

    Example:
        >>> import numpy as np
        >>> from sim.identify import sample
        >>> def likelihood(x):  # a normal distribution about 1 whose standard deviation is 0.5
        ...     return -0.5 * ((x[:, :, 0] - 1.0) / 0.5) ** 2
        >>> posterior = sample(likelihood, np.zeros((1, 1, 1)), np.ones((1, 1, 1, 1)), 1000, 3, seed=0, bar=False)
        >>> posterior.mean.round(1).tolist(), np.sqrt(posterior.covariance).round(1).tolist()
        ([[1.0]], [[[0.5]]])
    """
    mean, covariance = (
        as_numbers(f"sample: {name}", given) for name, given in (("mean", mean), ("covariance", covariance))
    )
    require_callable("sample: likelihood", likelihood)
    require_seed("sample: seed", seed)
    require_flags("sample", bar=bar)
    for name, count in (("samples", samples), ("rounds", rounds)):
        if not is_whole(count, 1):
            raise ModelError(f"sample: {name} is {count!r}; it must be a whole number of at least 1")
    if mean.ndim != 3 or covariance.shape != (*mean.shape, mean.shape[-1]):
        raise ModelError(
            f"sample: mean has shape {mean.shape}, covariance {covariance.shape}; expected (n, m, k) and (n, m, k, k)"
        )
    rng = np.random.default_rng(seed)
    n, peaks, k = mean.shape
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise ModelError("sample: a covariance isn't positive definite") from None
    mixtures = [Mixture(np.full((n, peaks), 1.0 / peaks), mean, WIDER * root)]
    drawn, likelihoods = np.zeros((n, 0, k)), np.zeros((n, 0))
    for _ in tqdm(range(rounds), desc="uncertainty", unit="round", disable=not bar):
        x = mixtures[-1].draw(rng, samples)
        drawn = np.concatenate([drawn, x], axis=1)
        new = likelihood(x)
        if np.shape(new) != (n, samples):
            raise ModelError(f"sample: likelihood returned shape {np.shape(new)}; expected {(n, samples)}")
        likelihoods = np.concatenate([likelihoods, new], axis=1)
        _require_likelihoods(likelihoods)
        parts = np.stack([mixture.parts(drawn) for mixture in mixtures])
        found = _moments(drawn, likelihoods - logsumexp(parts, axis=(0, 3)))
        mixtures.append(_adapted(mixtures[-1], parts[-1], found, FLOOR**2 * covariance))
    return found


def _require_likelihoods(likelihoods: np.ndarray) -> None:
    """Raise ModelError, naming the problem, for log-likelihoods [n, samples] that are NaN or all minus infinity."""
    wrong, nothing = np.isnan(likelihoods).any(axis=1), np.isneginf(likelihoods).all(axis=1)
    if wrong.any():
        raise ModelError(f"the likelihood of problem {int(wrong.argmax())} isn't a number for some samples")
    if nothing.any():
        raise ModelError(
            f"the likelihood of problem {int(nothing.argmax())} is zero for all samples; give another mean or a wider "
            "covariance"
        )


def _adapted(mixture: Mixture, parts: np.ndarray, found: Posterior, least: np.ndarray) -> Mixture:
    """Return the mixture whose distributions have the moments of their samples.

    Args:
        mixture: the previous mixture.
        parts: its log-densities at the samples [n, samples, m].
        found: the samples and their weights.
        least: minimum covariance, added to the covariances [n, m, k, k].
    """
    belongs = found.weights[:, :, None] * np.exp(parts - logsumexp(parts, axis=2, keepdims=True))
    total = belongs.sum(axis=1)
    belongs /= np.maximum(total, 1e-300)[:, None]
    # A distribution without samples stays unchanged.
    own = (total > 1e-6)[:, :, None]
    mean = np.where(own, np.einsum("nsm,nsk->nmk", belongs, found.samples), mixture.mean)
    apart = found.samples[:, :, None] - mean[:, None]
    spread = np.einsum("nsm,nsmi,nsmj->nmij", belongs, apart, apart)
    share = (1.0 - SHARE) * total + SHARE / total.shape[1]
    return Mixture(share, mean, np.linalg.cholesky(MARGIN**2 * spread + least))


def _moments(x: np.ndarray, weights: np.ndarray) -> Posterior:
    """Return the posterior from samples [n, samples, k] with log-weights [n, samples]."""
    w = np.exp(weights - weights.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    mean = np.einsum("ns,nsi->ni", w, x)
    apart = x - mean[:, None]
    return Posterior(mean, np.einsum("ns,nsi,nsj->nij", w, apart, apart), 1.0 / (w**2).sum(axis=1), x, w)
