"""Importance sampling of what data leave open."""

import numpy as np
import pytest
from scipy.stats import norm

import sim
from sim.identify.posterior import sample


def test_moments_of_a_normal_distribution_and_of_two_peaks():
    """Three problems side by side: begun right, begun far too narrow and aside, and with a second peak beside."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3, 3)) + 2.0 * np.eye(3)
    covariance, centre = root @ root.swapaxes(1, 2), rng.normal(size=(3, 3))
    inverse = np.linalg.inv(covariance)
    other = np.zeros((3, 3))
    other[2] = 3.0 * root[2, :, 0]
    weight = np.array([0.0, 0.0, 0.5])

    def likelihood(x):
        def peak(position):
            apart = x - position[:, None]
            return np.exp(-0.5 * np.einsum("nsi,nij,nsj->ns", apart, inverse, apart))

        return np.log((1.0 - weight)[:, None] * peak(centre) + weight[:, None] * peak(centre + other) + 1e-300)

    start, width = centre.copy(), covariance.copy()
    start[1], width[1] = centre[1] + 2.0 * root[1, :, 0], 0.1 * covariance[1]
    found = sample(likelihood, start[:, None], width[:, None], samples=3000, rounds=4, seed=0, bar=False)
    expected = centre + weight[:, None] * other
    spread = covariance + (weight * (1.0 - weight))[:, None, None] * other[:, :, None] * other[:, None, :]
    # Of n independent samples a mean is off by 1 / sqrt(n) standard deviations, a variance by sqrt(2 / n).
    assert (found.effective > 1000).all()
    scale = np.sqrt(np.einsum("nii->ni", spread))
    assert (np.abs(found.mean - expected) < 4.0 * scale / np.sqrt(found.effective)[:, None]).all()
    errors = (found.covariance - spread) / (scale[:, :, None] * scale[:, None, :])
    assert (np.abs(errors) < 4.0 * np.sqrt(2.0 / found.effective)[:, None, None]).all()


def test_peaks_far_apart_and_quantiles():
    """Three narrow peaks of known weights, of which a fourth start is none: moments and quantiles of their mixture."""
    positions, weights, width = np.array([-3.0, 0.5, 4.0]), np.array([0.25, 0.6, 0.15]), 0.01

    def likelihood(x):
        return np.log((weights * norm.pdf(x, positions, width)).sum(axis=2) + 1e-300)

    start = np.array([*positions, 2.0])[None, :, None] + 0.5 * width
    found = sample(likelihood, start, np.full((1, 4, 1, 1), width**2), samples=1000, rounds=4, seed=0, bar=False)
    assert found.effective[0] > 1000
    mean = weights @ positions
    np.testing.assert_allclose(found.mean[0, 0], mean, atol=0.1)
    np.testing.assert_allclose(found.covariance[0, 0, 0], weights @ (positions - mean) ** 2, rtol=0.05)
    for probability, position in ((0.125, positions[0]), (0.55, positions[1]), (0.925, positions[2])):
        # The median of each peak, to what some hundred samples of it leave open.
        np.testing.assert_allclose(found.quantile(probability), [[position]], atol=0.5 * width)


def test_quantiles_of_a_normal_distribution():
    """Beside the closed form, two unknowns that hang together."""
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    inverse = np.linalg.inv(covariance)
    found = sample(
        lambda x: -0.5 * np.einsum("nsi,ij,nsj->ns", x, inverse, x), np.zeros((1, 1, 2)), covariance[None, None],
        samples=4000, rounds=3, seed=1, bar=False,
    )  # fmt: skip
    for probability in (0.025, 0.5, 0.975):
        expected = norm.ppf(probability) * np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(found.quantile(probability)[0], expected, atol=0.1)


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "isn't a number for some"), (-np.inf, "is zero for all samples")]
)
def test_likelihoods_from_which_nothing_follows(value, message):
    def likelihood(x):
        found = -0.5 * x[:, :, 0] ** 2
        found[1] = value
        return found

    with pytest.raises(sim.ModelError, match=f"the likelihood of problem 1 {message}"):
        sample(likelihood, np.zeros((2, 1, 1)), np.ones((2, 1, 1, 1)), 100, 2, seed=0, bar=False)


@pytest.mark.parametrize(
    ("mean", "covariance", "likelihood", "message"),
    [
        (np.zeros((1, 1)), np.ones((1, 1, 1)), lambda x: -x[:, :, 0], r"mean has shape \(1, 1\), covariance"),
        (np.zeros((1, 1, 2)), np.ones((1, 1, 2)), lambda x: -x[:, :, 0], r"expected \(n, m, k\) and \(n, m, k, k\)"),
        (np.zeros((1, 1, 1)), -np.ones((1, 1, 1, 1)), lambda x: -x[:, :, 0], "a covariance isn't positive definite"),
        (np.zeros((1, 1, 1)), np.ones((1, 1, 1, 1)), lambda x: x, r"returned shape \(1, 9, 1\); expected \(1, 9\)"),
    ],
)
def test_what_does_not_fit_is_named(mean, covariance, likelihood, message):
    with pytest.raises(sim.ModelError, match=message):
        sample(likelihood, mean, covariance, 9, 1, seed=0, bar=False)
