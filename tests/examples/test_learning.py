"""What the examples that learn share: going on after an interruption, motions within limits, robots that fit."""

import argparse

import numpy as np
import pytest
import torch

import sim.torch
from examples import learning
from scenes.manipulator import MANIPULATOR_URDF
from scenes.quadruped import QUADRUPED_URDF
from sim.progress import Progress


class Quadratic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor([3.0, -2.0], dtype=torch.float64))

    def loss(self, iteration: int) -> torch.Tensor:
        return ((self.x - 0.1 * (iteration % 2)) ** 4 * torch.tensor([1.0, 30.0])).sum()


def fit(kind: str, iterations: int, kept: Progress | None = None, stop: int | None = None) -> np.ndarray:
    module, calls = Quadratic(), 0

    def measure() -> dict[str, float]:
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        return {"x": module.x[0].item(), "y": module.x[1].item()}

    if kind == "adam":
        optimiser = torch.optim.Adam(module.parameters(), lr=0.3)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)
        return learning.learn(module, optimiser, module.loss, measure, iterations, kept, scheduler=scheduler).figures
    optimiser = torch.optim.LBFGS(module.parameters(), max_iter=2, line_search_fn="strong_wolfe")
    return learning.learn(module, optimiser, module.loss, measure, iterations, kept).figures


@pytest.mark.parametrize("kind", ["adam", "lbfgs"])
def test_goes_on_as_if_not_interrupted(kind, tmp_path):
    """Parameters, state of the optimiser and of the scheduler are those of an uninterrupted run, bit for bit."""
    whole = fit(kind, 8)
    assert len(np.unique(whole[:, 0])) == 9
    kept = Progress(tmp_path / "interrupted.npz", {})
    with pytest.raises(KeyboardInterrupt):
        fit(kind, 8, kept, stop=5)
    with kept:
        np.testing.assert_array_equal(fit(kind, 8, kept), whole)
    assert not list(tmp_path.iterdir())


def test_ends_when_the_loss_hardly_falls():
    module = Quadratic()
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-3)
    result = learning.learn(module, optimiser, module.loss, lambda: {"loss": 0.0}, 1000, enough=5.0)
    assert 2 < len(result.figures) < 20


def test_a_motion_keeps_the_limits_and_is_its_derivative():
    robot = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)
    q, qd, qdd = learning.moving(robot, 20.0, seed=3)
    assert q.shape == (2000, 7)
    assert (q < robot.upper_limit).all()
    assert (q > robot.lower_limit).all()
    fastest = qd.abs().amax(0) / robot.velocity_limit
    assert fastest.max() <= 1.0 + 1e-12
    assert fastest.min() > 0.3
    # Central differences at 100 Hz of sines of up to 1 Hz: off by (2 pi 0.01)^2 / 6 of the value.
    for values, rates in ((q, qd), (qd, qdd)):
        difference = (values[2:] - values[:-2]) / 0.02
        torch.testing.assert_close(difference, rates[1:-1], rtol=0.0, atol=1e-3 * float(rates.abs().max()))


@pytest.mark.parametrize(
    ("file", "message"),
    [("missing.urdf", "missing.urdf"), (str(QUADRUPED_URDF), "each joint must have one degree of freedom")],
)
def test_a_robot_that_does_not_fit_is_named(file, message, capsys, monkeypatch):
    if file == str(QUADRUPED_URDF):
        load = sim.torch.Robot
        monkeypatch.setattr(sim.torch, "Robot", lambda *a, **k: load(*a, floating_base=True, **k))
    options = argparse.Namespace(robot=file, device="cpu")
    with pytest.raises(SystemExit):
        learning.load_robot(argparse.ArgumentParser(), options)
    assert message in capsys.readouterr().err
