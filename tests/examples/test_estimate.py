"""A box tells friction, restitution and masses: derivatives, what can be told at all, how sure the estimates are."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from scipy.stats import binom, chi2, norm

import sim
from examples import box_motion
from examples import estimate as example
from examples.fitting import at_work, begin, iterate
from scenes import box


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["estimate", "--device", "cpu", "--no-render", *map(str, arguments)])
    example.main()


def test_two_halves_make_one_body():
    """As the builder joins two links, each a solid half with the closed form of its inertia."""
    masses = (0.6, 1.1)
    x, y, z = 0.5 * box.HALF_EXTENTS[0], *box.HALF_EXTENTS[1:]
    builder = sim.ModelBuilder()
    for name, side, mass in zip(("rear", "front"), (-x, x), masses, strict=True):
        inertia = mass / 3.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
        builder.add_link(name, mass=mass, com=(side, 0.0, 0.0), inertia=inertia)
    builder.add_joint("free", "free", child="rear")
    builder.add_joint("glue", "fixed", parent="rear", child="front")
    expected = builder.finalize("float64").parameters
    for name, value in zip(
        ("mass", "com", "inertia"), box.body(torch.tensor(masses, dtype=torch.float64)), strict=True
    ):
        np.testing.assert_allclose(value.numpy(), expected[name], rtol=1e-12, atol=1e-15)


def test_derivatives_and_what_can_be_told(device):
    """Beside central differences; and without the push nothing tells the sum of the masses."""
    truth = np.array([box.TYPICAL, (0.35, 0.6, 0.9, 0.5)])
    x = np.log(truth) + 0.01
    # Wide enough that what rounding leaves of the impulses, times 0.8 s of bounces, is lost in it.
    width, unit = 1e-5, np.eye(4)
    moved = np.concatenate([x[:, None] + width * unit, x[:, None] - width * unit], axis=1).reshape(16, 4)
    for push in (True, False):
        scene = box.build(push=push)
        seen = box_motion.observe(scene, truth, 0, device)
        jacobian = box_motion.Sensitivity(scene, seen.every, device).jacobian(x, seen)
        around = box_motion.Motion(scene, 16, device).residuals(moved, seen.of(np.repeat(np.arange(2), 8)))
        around = around.reshape(2, 2, 4, -1)
        differences = ((around[:, 0] - around[:, 1]) / (2.0 * width)).swapaxes(1, 2)
        np.testing.assert_allclose(jacobian, differences, atol=1e-6 * np.abs(jacobian).max())
        both_masses = np.abs(jacobian[:, :, 2:].sum(axis=2)).max() / np.abs(jacobian).max()
        # Rounding of single bounces, 1e-14, grows a hundredfold in 0.8 s; with the push it is 0.6.
        assert both_masses > 0.1 if push else both_masses < 1e-11


def test_rotation_between():
    """The rotation vector, to the order in which it differs from twice a sine, whatever the sign of the quaternions."""
    rng = np.random.default_rng(0)
    a = Rotation.random(20, rng=rng)
    vector = 0.03 * rng.standard_normal((20, 3))
    b = a * Rotation.from_rotvec(vector)
    signs = rng.choice([-1.0, 1.0], (20, 1))
    found = box_motion.rotation_between(torch.tensor(a.as_quat()), torch.tensor(signs * b.as_quat())).numpy()
    np.testing.assert_allclose(found, vector, atol=np.linalg.norm(vector, axis=1).max() ** 3 / 20.0)


def test_search_finds_minima():
    """Rosenbrock's valley and bounds that bear, many side by side, with few derivatives."""
    computed = []

    def residuals(x, which):
        a, b = x[which].T
        return np.stack([10.0 * (b - a * a), 1.0 - a], axis=1)

    def jacobian(x, which):
        a = x[which, 0]
        computed.append(len(which))
        return np.stack([np.stack([-20.0 * a, np.full_like(a, 10.0)], 1), np.tile([-1.0, 0.0], (len(a), 1))], 1)

    starts = np.random.default_rng(0).uniform(-2.0, 2.0, (20, 2))
    for upper, expected in ((3.0, (1.0, 1.0)), (0.5, (0.5, 0.25))):
        computed.clear()
        lower, highest = np.full(2, -3.0), np.full(2, upper)
        begun = np.minimum(starts, upper)
        search = begin(residuals(begun, np.arange(20)), jacobian, begun)
        steps = 0
        while at_work(search, lower, highest, 1e-9).any():
            iterate(search, residuals, jacobian, lower, highest, 0.5, 1e-9)
            steps += 1
        np.testing.assert_allclose(search.x, np.tile(expected, (20, 1)), atol=1e-3)
        assert search.exact.all()
        np.testing.assert_array_equal(search.jacobian, jacobian(search.x, np.arange(20)))
        assert steps < 60
        assert sum(computed) < 10 * steps, (steps, computed)


@pytest.mark.slow
def test_uncertainty_is_that_of_many_draws(device):
    """One box observed 200 times: estimates spread as stated, and 95 % of the intervals hold the truth."""
    draws, scene = 200, box.build()
    truth = np.tile(box.TYPICAL, (draws, 1))
    seen = box_motion.observe(scene, truth, 0, device)
    first = seen.of(np.array([0]))
    sensitivity, motion = box_motion.Sensitivity(scene, seen.every, device), box_motion.Motion(scene, draws, device)
    jacobian = sensitivity.jacobian(np.log(truth[:1]), first)[0]
    covariance = np.linalg.inv(jacobian.T @ jacobian)
    begun = np.log(truth) + np.random.default_rng(1).multivariate_normal(np.zeros(4), covariance, draws)

    def residuals(x, which):
        return motion.residuals(x, seen)[which]

    def derivatives(x, which):
        # Those at the truth are near enough.
        return np.tile(jacobian, (len(which), 1, 1))

    search = begin(residuals(begun, np.arange(draws)), derivatives, begun)
    for _ in range(5):
        iterate(search, residuals, derivatives, np.full(4, -5.0), np.full(4, 5.0), 0.3, 1e-4)
    errors = (search.x - np.log(truth)) / np.sqrt(np.diag(covariance))
    # Of a normal distribution, all four bounds hold with a probability of 99 %.
    held = (np.abs(errors) < norm.isf(0.025)).sum(axis=0)
    assert (held >= binom.ppf(0.00125, draws, 0.95)).all(), held
    assert (held <= binom.ppf(0.99875, draws, 0.95)).all(), held
    spread = (errors**2).sum(axis=0)
    assert (spread > chi2.ppf(0.00125, draws)).all(), spread / draws
    assert (spread < chi2.ppf(0.99875, draws)).all(), spread / draws


@pytest.mark.slow
def test_estimates_and_goes_on_after_an_interruption(monkeypatch, tmp_path, capsys):
    """Two boxes at once; two evaluations, a Ctrl-C, and on to the same estimates."""
    monkeypatch.setattr(example, "EVERY", 50)
    arguments = ["--worlds", 2, "--seed", 1]
    run(monkeypatch, *arguments, "--out", tmp_path / "whole")
    iterations = []

    def interrupted(*given):
        if len(iterations) == 2:
            raise KeyboardInterrupt
        iterations.append(1)
        return iterate(*given)

    with monkeypatch.context() as patch:
        patch.setattr(example, "iterate", interrupted)
        with pytest.raises(SystemExit) as ended:
            run(patch, *arguments, "--out", tmp_path / "parts")
    assert ended.value.code == 130
    capsys.readouterr()
    run(monkeypatch, *arguments, "--out", tmp_path / "parts")
    printed = capsys.readouterr().out
    assert "resuming from" in printed
    assert "2 of 2 fits" in printed
    names = {"loss.png", "estimates.png", "estimate.npz", "estimate.usda"}
    assert {path.name for path in (tmp_path / "parts").iterdir()} == names
    with np.load(tmp_path / "whole" / "estimate.npz") as whole, np.load(tmp_path / "parts" / "estimate.npz") as parts:
        for name in ("unknowns", "covariance", "curve", "q"):
            np.testing.assert_array_equal(whole[name], parts[name])
        deviation = np.sqrt(np.einsum("nii->ni", whole["covariance"]))
        assert (deviation < 0.15).all()
        assert (np.abs(np.log(whole["truth"] / whole["unknowns"])) < 4.0 * deviation).all()


def test_no_boxes_is_an_error(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--worlds", 0, "--out", tmp_path)
    assert "--worlds must be at least 1" in capsys.readouterr().err
