"""Importance sampling of what data leave open."""

import numpy as np

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
        def peak(place):
            apart = x - place[:, None]
            return np.exp(-0.5 * np.einsum("nsi,nij,nsj->ns", apart, inverse, apart))

        return np.log((1.0 - weight)[:, None] * peak(centre) + weight[:, None] * peak(centre + other) + 1e-300)

    start, width = centre.copy(), covariance.copy()
    start[1], width[1] = centre[1] + 2.0 * root[1, :, 0], 0.1 * covariance[1]
    found = sample(likelihood, start, width, samples=3000, rounds=4, seed=0, bar=False)
    expected = centre + weight[:, None] * other
    spread = covariance + (weight * (1.0 - weight))[:, None, None] * other[:, :, None] * other[:, None, :]
    # Of n independent samples a mean is off by 1 / sqrt(n) standard deviations, a variance by sqrt(2 / n).
    assert (found.effective > 1000).all()
    scale = np.sqrt(np.einsum("nii->ni", spread))
    assert (np.abs(found.mean - expected) < 4.0 * scale / np.sqrt(found.effective)[:, None]).all()
    errors = (found.covariance - spread) / (scale[:, :, None] * scale[:, None, :])
    assert (np.abs(errors) < 4.0 * np.sqrt(2.0 / found.effective)[:, None, None]).all()
