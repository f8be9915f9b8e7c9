"""Posteriors from few residuals, beside closed forms and dense quadrature."""

import numpy as np
import pytest
from scipy.stats import norm

from sim.identify.surrogate import sample_surrogate
from tests.errors import raises_naming

PROBABILITIES = (0.025, 0.5, 0.975)


def curvature(residuals, x):
    """Covariances [n, m, k, k] by Gauss and Newton, from central differences."""
    width, unit = 1e-6, np.eye(x.shape[2])
    jacobian = np.stack([(residuals(x + width * e) - residuals(x - width * e)) / (2.0 * width) for e in unit], axis=3)
    return np.linalg.inv(np.einsum("nmri,nmrj->nmij", jacobian, jacobian))


def quantiles_on_grid(residuals, sides, axis):
    """Quantiles of one unknown, from the posterior on a grid."""
    grid = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1)
    weights = np.exp(-0.5 * (residuals(grid.reshape(1, -1, len(sides))) ** 2).sum(axis=2)).reshape(grid.shape[:-1])
    line = weights.sum(axis=tuple(k for k in range(len(sides)) if k != axis))
    below = np.cumsum(line) - 0.5 * line
    return np.interp(PROBABILITIES, below / line.sum(), sides[axis])


def test_linear_residuals_have_a_normal_posterior():
    """Two problems of three unknowns: moments and quantiles of the closed form, from 24 residuals each."""
    rng = np.random.default_rng(0)
    matrix, truth = rng.standard_normal((2, 12, 3)), rng.standard_normal((2, 3))
    offset = rng.standard_normal((2, 12))

    def residuals(x):
        return np.einsum("nri,nsi->nsr", matrix, x - truth[:, None]) + offset[:, None]

    covariance = np.linalg.inv(np.einsum("nri,nrj->nij", matrix, matrix))
    best = truth - np.einsum("nij,nrj,nr->ni", covariance, matrix, offset)
    scale = np.sqrt(np.einsum("nii->ni", covariance))
    # The search ended half a standard deviation aside.
    peak = (best + 0.5 * scale)[:, None]
    found = sample_surrogate(residuals, peak, covariance[:, None], residuals(peak), 8, 3, seed=1, bar=False)
    assert (found.effective > 1000).all()
    # A mean of 1,000 is off by 0.03 standard deviations, a 2.5 % quantile by 0.08; four times that at most.
    assert (np.abs(found.mean - best) < 0.13 * scale).all()
    errors = (found.covariance - covariance) / (scale[:, :, None] * scale[:, None, :])
    assert (np.abs(errors) < 0.2).all()
    for probability in PROBABILITIES:
        expected = best + norm.ppf(probability) * scale
        assert (np.abs(found.quantile(probability) - expected) < 0.32 * scale).all()


def test_bent_posterior():
    """A valley along a parabola: quantiles of both unknowns beside dense quadrature."""

    def residuals(x):
        a, b = x[..., 0], x[..., 1]
        return np.stack([a, (b - 0.5 * a * a) / 0.3, 0.2 * np.sin(a + b)], axis=-1)

    peak = np.zeros((1, 1, 2))
    found = sample_surrogate(residuals, peak, curvature(residuals, peak), residuals(peak), 16, 4, seed=0, bar=False)
    sides = np.linspace(-5.0, 5.0, 801), np.linspace(-2.0, 12.0, 1201)
    for axis in range(2):
        expected = quantiles_on_grid(residuals, sides, axis)
        got = np.array([found.quantile(probability)[0, axis] for probability in PROBABILITIES])
        # Of the interval's width; the normal distribution at the peak is off by 0.4 of it.
        np.testing.assert_allclose(got, expected, atol=0.1 * (expected[2] - expected[0]))
    normal = norm.ppf(0.975) * np.sqrt(curvature(residuals, peak)[0, 0, 1, 1])
    assert normal < 0.6 * expected[2]


def test_two_peaks_and_a_jump():
    """Residuals that jump where the posterior is high, and a second peak: intervals hold their share."""

    def residuals(x):
        a, b = x[..., 0], x[..., 1]
        return np.stack([(np.abs(a) - 3.0) / 0.5, b - 0.3 * a + 0.8 * (b > 0.5)], axis=-1)

    peaks = np.array([[[-3.0, -0.9], [3.0, 0.1], [3.0, 0.1]]])
    found = sample_surrogate(residuals, peaks, curvature(residuals, peaks), residuals(peaks), 16, 4, seed=0, bar=False)
    sides = np.linspace(-6.0, 6.0, 801), np.linspace(-5.0, 5.0, 801)
    grid = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.exp(-0.5 * (residuals(grid) ** 2).sum(axis=1))
    inside = (found.quantile(0.025) <= grid) & (grid <= found.quantile(0.975))
    held = weights @ inside / weights.sum()
    assert (held > 0.93).all(), held


def test_counts_motions_and_passes_over_what_is_not_finite():
    """As many residuals as asked for, the same for the same seed; NaN beyond a limit says nothing."""
    asked = []

    def residuals(x):
        asked.append(x.shape)
        return np.where(x > 2.0, np.nan, x)

    peak, variance = np.zeros((2, 1, 1)), np.ones((2, 1, 1, 1))
    found = sample_surrogate(residuals, peak, variance, peak, motions=10, rounds=3, bar=False)
    assert asked == [(2, 10, 1)] * 3
    assert np.isfinite(found.mean).all()
    again = sample_surrogate(residuals, peak, variance, peak, motions=10, rounds=3, bar=False)
    np.testing.assert_array_equal(again.mean, found.mean)
    assert found.mean == pytest.approx(np.zeros((2, 1)), abs=0.3)
    with raises_naming("finite", "2 points", "1 unknowns", 3):
        sample_surrogate(residuals, peak, variance, peak, motions=1, rounds=3, bar=False)
