"""Posteriors of a few unknowns by adaptive importance sampling, for many problems in parallel."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

TAIL = 5.0  # degrees of freedom of the proposals, Student's t, whose tails are heavier than a posterior's
WIDER = 3.0  # width of the first proposal relative to the first covariance
MARGIN = 1.5  # width of a later proposal relative to the spread of all samples so far
FLOOR = 0.3  # least width of a proposal relative to the first covariance

# Returns log-likelihoods [n, samples] of unknowns [n, samples, k].
LogLikelihood = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Posterior:
    """Posteriors of the unknowns of n problems.

    Attributes:
        mean: mean of the unknowns [n, k].
        covariance: covariance of the unknowns [n, k, k].
        effective: effective number of independent samples [n].
        samples: of all rounds [n, s, k].
        weights: theirs, whose sum is one [n, s].
    """

    mean: np.ndarray
    covariance: np.ndarray
    effective: np.ndarray
    samples: np.ndarray
    weights: np.ndarray


def sample(
    likelihood: LogLikelihood, mean: np.ndarray, covariance: np.ndarray, samples: int, rounds: int, seed: int,
    bar: bool = True,
) -> Posterior:  # fmt: skip
    """Mean and covariance of posteriors with a flat prior and a likelihood that may have many peaks.

    Each round draws from a t distribution fitted to the samples of all earlier rounds, weighted by the ratio of their
    likelihood to their proposal density (Cappé et al., *Population Monte Carlo*, 2004).

    Args:
        likelihood: log-likelihood of the data, up to a constant.
        mean: mean of the first proposal [n, k].
        covariance: covariance of the first proposal [n, k, k].
        samples: number of samples per problem and round.
        rounds: number of rounds.
        seed: seed of the samples.
        bar: whether to show a progress bar.
    """
    rng = np.random.default_rng(seed)
    first, proposal = FLOOR**2 * covariance, WIDER**2 * covariance
    drawn, weights = np.zeros((len(mean), 0, mean.shape[1])), np.zeros((len(mean), 0))
    for _ in tqdm(range(rounds), desc="uncertainty", unit="round", disable=not bar):
        x, density = _draw(rng, mean, proposal, samples)
        drawn = np.concatenate([drawn, x], axis=1)
        weights = np.concatenate([weights, likelihood(x) - density], axis=1)
        found = _moments(drawn, weights)
        mean, proposal = found.mean, MARGIN**2 * found.covariance + first
    return found


def _draw(
    rng: np.random.Generator, mean: np.ndarray, covariance: np.ndarray, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Samples of t distributions [n, samples, k], and their log-densities up to a constant [n, samples]."""
    n, k = mean.shape
    root = np.linalg.cholesky(covariance)
    u = rng.standard_normal((n, samples, k)) / np.sqrt(rng.chisquare(TAIL, (n, samples, 1)) / TAIL)
    volume = np.log(np.einsum("nii->ni", root)).sum(axis=1)
    density = -0.5 * (TAIL + k) * np.log1p((u**2).sum(axis=2) / TAIL) - volume[:, None]
    return mean[:, None] + np.einsum("nij,nsj->nsi", root, u), density


def _moments(x: np.ndarray, weights: np.ndarray) -> Posterior:
    """Posterior from samples [n, samples, k] with log-weights [n, samples]."""
    w = np.exp(weights - weights.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    mean = np.einsum("ns,nsi->ni", w, x)
    apart = x - mean[:, None]
    return Posterior(mean, np.einsum("ns,nsi,nsj->nij", w, apart, apart), 1.0 / (w**2).sum(axis=1), x, w)
