"""Friction in an arm's joints, learnt by networks inside forward dynamics."""

import numpy as np
import pytest
import torch

import sim.torch
from examples import joint_friction as example
from scenes.manipulator import MANIPULATOR_URDF


@pytest.fixture
def arm():
    robot = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64, device="cpu")
    robot.armature.fill_(example.ARMATURE)
    return robot


def test_predicts_the_observations_with_the_true_friction(arm):
    """What is left is the noise of the observations and steps of 2 ms instead of 0.5 ms; without friction far more."""
    true = example.TrueFriction(arm.effort_limit / example.WEAKNESS)
    seen = example.observe(arm, true, 3, 1.0, seed=3)
    assert seen.q.shape == (500, 3, 7)
    assert seen.tau.shape == (499, 3, 7)
    piece = seen.windows(50, 20, seed=1)
    assert piece.qd.shape == (51, 20, 7)
    with torch.no_grad():
        errors = [(example.predict(arm, f, piece)[1] - piece.qd[1:]).square().mean().sqrt()
                  for f in (true, example.NoFriction())]  # fmt: skip
    assert errors[0] < 3.0 * example.NOISE_QD
    assert errors[1] > 30.0 * errors[0]


def test_windows_are_pieces_of_the_motions():
    time = torch.arange(9.0)[:, None, None] + 100.0 * torch.arange(4.0)[:, None]
    seen = example.Observations(time, time, time[:-1])
    piece = seen.windows(3, 50, seed=0)
    assert (piece.q[1:] - piece.q[:-1] == 1.0).all()
    assert (piece.tau == piece.q[:-1]).all()
    assert set(piece.q[0].flatten().tolist()) <= {100.0 * k + i for k in range(4) for i in range(6)}
    assert set((piece.q[0].flatten() % 100.0).tolist()) == set(range(6))


def test_each_joint_has_a_network_of_its_own():
    friction = example.LearntFriction(torch.ones(3, dtype=torch.float64), seed=1)
    qd = torch.linspace(-1.0, 1.0, 12, dtype=torch.float64).reshape(2, 2, 3)
    whole = friction(qd)
    for joint in range(3):
        x = torch.asinh(qd[..., joint, None] / example.SLOW)
        for number, (weight, bias) in enumerate(zip(friction.weights, friction.biases, strict=True)):
            x = (torch.tanh(x) if number else x) @ weight[joint] + bias[joint]
        torch.testing.assert_close(whole[..., joint], x[..., 0])


@pytest.mark.slow
def test_reaches_the_goal(monkeypatch, tmp_path, capsys):
    """With a sixth of the work of the default: fewer iterations, fewer windows in each."""
    arguments = ["--iterations", "100", "--windows", "64", "--no-render", "--device", "cpu", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["joint_friction", *arguments])
    example.main()
    assert "reached after 100 iterations" in capsys.readouterr().out
    assert {p.name for p in tmp_path.iterdir()} == {
        "loss.png", "curves.png", "joint_friction.npz", "networks.pt", "joint_friction.usda",
    }  # fmt: skip
    with np.load(tmp_path / "joint_friction.npz") as file:
        errors = file["figures"][:, 0]
        # Networks that were not trained make it worse.
        assert errors[0] > 1.0
        assert errors[-1] < example.GOAL
        off = np.square(file["learnt"] - file["true"]).mean(0) / np.square(file["true"]).mean(0)
    assert np.sqrt(off).max() < 0.15


def test_misuse(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["joint_friction", "--windows", "0", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        example.main()
    assert "--windows must be positive" in capsys.readouterr().err
