"""What data leave open of a few unknowns, by adaptive importance sampling, for many problems side by side."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

TAIL = 5.0  # degrees of freedom of the proposals, Student's t: their tails are heavier than a posterior's
WIDER = 3.0  # how much wider the first proposal is than the first covariance
MARGIN = 1.5  # how much wider a later one is than what the samples before it say
FLOOR = 0.3  # part of the first covariance's width that a proposal keeps at the least

# Logarithms of the likelihoods [n, samples] of unknowns [n, samples, k].
LogLikelihood = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Posterior:
    """What is known of the unknowns of n problems.

    Attributes:
        mean: [n, k].
        covariance: [n, k, k].
        effective: number of independent samples that these are worth [n].
    """

    mean: np.ndarray
    covariance: np.ndarray
    effective: np.ndarray


def sample(
    likelihood: LogLikelihood, mean: np.ndarray, covariance: np.ndarray, samples: int, rounds: int, seed: int,
    bar: bool = True,
) -> Posterior:  # fmt: skip
    """Mean and covariance of posteriors over a flat prior, where a likelihood may have many peaks side by side.

    Each round draws from a t distribution fitted to the samples of all rounds before, weighted by how much more likely
    they are than they were to be drawn (Cappé et al., *Population Monte Carlo*, 2004).

    Args:
        likelihood: of the data, up to a factor.
        mean: where to begin [n, k].
        covariance: the widths to begin with [n, k, k].
        samples: drawn for each problem in a round.
        rounds: how many.
        seed: of the draws.
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
    """Samples [n, samples, k] of t distributions, and the logarithms of their densities, up to a constant."""
    n, k = mean.shape
    root = np.linalg.cholesky(covariance)
    u = rng.standard_normal((n, samples, k)) / np.sqrt(rng.chisquare(TAIL, (n, samples, 1)) / TAIL)
    volume = np.log(np.einsum("nii->ni", root)).sum(axis=1)
    density = -0.5 * (TAIL + k) * np.log1p((u**2).sum(axis=2) / TAIL) - volume[:, None]
    return mean[:, None] + np.einsum("nij,nsj->nsi", root, u), density


def _moments(x: np.ndarray, weights: np.ndarray) -> Posterior:
    """Of samples [n, samples, k] with the logarithms of their weights."""
    w = np.exp(weights - weights.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    mean = np.einsum("ns,nsi->ni", w, x)
    apart = x - mean[:, None]
    return Posterior(mean, np.einsum("ns,nsi,nsj->nij", w, apart, apart), 1.0 / (w**2).sum(axis=1))
