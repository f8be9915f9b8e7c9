"""Parking: straight back at first, and in the gap at the end, clear of the parked cars."""

import numpy as np
import pytest
import torch

from examples import parking as example
from scenes import parking as scenes
from tests.errors import raises_naming


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["parking", "--device", "cpu", "--no-render", *map(str, arguments)])
    example.main()


def test_the_first_guess_drives_past_the_gap():
    scene = scenes.build()
    guess = np.tile(example.straight_back(scene)[0], (scene.steps, 1))
    q, _ = example.drive(scene, guess, "cpu")
    assert abs(q[-1, 1]) < 0.01
    assert q[-1, 0] < 0.8 * scene.target[0]


@pytest.mark.slow
def test_parks(monkeypatch, tmp_path, capsys):
    """The stored controls park it among solid cars, in a simulator of its own, where it stands."""
    run(monkeypatch, "--out", tmp_path)
    assert "parked: " in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"loss.png", "parking.npz", "parking.usda"}
    scene = scenes.build()
    with np.load(tmp_path / "parking.npz") as file:
        numbers = dict(file)
    assert np.abs(numbers["controls"][:, 0]).max() <= scenes.STEERING + 1e-6
    assert np.abs(numbers["controls"][:, 1:]).max() <= scenes.TORQUE + 1e-6
    q, qd = example.drive(scene, numbers["controls"], "cpu")
    np.testing.assert_allclose(q, numbers["q"], atol=1e-4)
    assert np.linalg.norm(q[-1, :2] - scene.target) < example.GOAL
    assert abs(2.0 * np.arctan2(q[-1, 5], q[-1, 6])) < example.GOAL / example.TURN
    assert np.linalg.norm(qd[-1, :2]) < example.GOAL / example.REST
    assert not example.overlaps(scene, torch.as_tensor(q)).any()


def test_overlaps_are_those_of_rectangles():
    scene = scenes.build((1.0, 0.45, 1.0), "float64")
    q = torch.zeros(3, scene.model.nq, dtype=torch.float64)
    q[:, 6] = 1.0
    front = scene.parked[0]
    beside = front + np.array([0.0, scenes.HALF_WIDTH + scenes.PARKED[1] - 0.02])  # its right side is 2 cm in
    behind = front - np.array([scenes.HALF_LENGTH + scenes.PARKED[0] - 0.01, 0.0])  # its front is 1 cm in
    q[:, :2] = torch.as_tensor(np.stack([beside, scene.target, behind]))
    assert example.overlaps(scene, q).amax(dim=1).tolist() == pytest.approx([0.02, 0.0, 0.01], abs=1e-12)
    assert example.overlaps(scene, q, 0.005).amax(dim=1).tolist() == pytest.approx([0.025, 0.0, 0.015], abs=1e-12)


@pytest.mark.parametrize("gap", [(0.3, 0.45, 1.0), (1.0, 0.2, 1.0), (1.0, np.nan, 1.0), (1.0, 1.0)])
def test_gaps_that_are_refused(gap):
    with raises_naming("gap is"):
        scenes.build(gap)
