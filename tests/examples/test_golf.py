"""The golf shot: the ball is hit, rolls out and lies at the target."""

import numpy as np
import pytest
from pxr import Usd, UsdValidation

import sim
from examples import golf as example
from scenes import golf as scenes


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["golf", "--device", "cpu", "--no-render", *map(str, arguments)])
    example.main()


def test_the_ball_waits_on_the_tee(device):
    """Before the club comes, nothing moves the ball; the tee lets the club pass."""
    scene = scenes.build(dtype="float64", steps=150)
    simulator = sim.Simulator(scene.model, scene.dt, num_worlds=1, device=device)
    q = simulator.rollout(simulator.state(scene.q0, scene.qd0), steps=scene.steps).q.numpy()[:, 0]
    np.testing.assert_allclose(q[:, scene.ball_position], q[0, scene.ball_position][None].repeat(len(q), 0), atol=1e-5)
    tee = next(k for k, geometry in enumerate(scene.model.geometries) if geometry.name == "tee")
    pairs = sim.simulation.stepping.collision.candidate_pairs(scene.model)
    touching = {tuple(sorted(pair)) for pair in zip(*map(np.ndarray.tolist, pairs), strict=True)}
    assert sum(tee in pair for pair in touching) == 1


@pytest.mark.parametrize("target", [(4.0, -0.5)])
def test_hits_and_lies_still(monkeypatch, tmp_path, capsys, target):
    run(monkeypatch, "--target", *target, "--out", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"loss.png", "golf.npz", "golf.usda"}
    assert "hit: " in capsys.readouterr().out
    scene = scenes.build(target)
    with np.load(tmp_path / "golf.npz") as file:
        ball = scene.ball_position
        assert np.linalg.norm(file["q"][-1, ball] - [*target, scenes.BALL_RADIUS]) < example.GOAL
        assert len(file["distances"]) <= 21
        velocity = file["qd"][:, scene.model.qd_slice(scene.ball)]
        assert np.linalg.norm(velocity, axis=1).max() > 2.0
        assert np.linalg.norm(velocity[-1, :3]) < 1e-3
        assert np.abs(file["tau"][:, scene.model.qd_slice(scene.ball)]).max() == 0.0
    stage = Usd.Stage.Open(str(tmp_path / "golf.usda"))
    context = UsdValidation.ValidationContext(UsdValidation.ValidationRegistry().GetOrLoadAllValidators())
    assert [error.GetErrorAsString() for error in context.Validate(stage)] == []


def test_torques_start_at_zero(monkeypatch, tmp_path):
    run(monkeypatch, "--iterations", 0, "--out", tmp_path)
    with np.load(tmp_path / "golf.npz") as file:
        assert not file["tau"].any()
        assert file["distances"].shape == (1,)


@pytest.mark.slow
def test_random_targets(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    run(monkeypatch, "--random-targets", 10, "--seed", 1)
    assert capsys.readouterr().out.splitlines()[-1] == "10 of 10 targets hit"
