"""The jump: from a guess that falls to a landing on the step."""

import numpy as np
import pytest

import sim
from examples import jump as example
from scenes import jump as scenes
from tests.errors import raises_naming

HEIGHT = 0.09


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["jump", "--device", "cpu", "--no-render", *map(str, arguments)])
    example.main()


def replayed(scene, controls):
    """The motion under controls [steps, 12], and half a second of standing: q [steps + standing + 1, nq]."""
    simulator = sim.Simulator(scene.model, scene.dt, device="cpu")
    inputs = np.concatenate([controls, np.tile(scene.standing, (scenes.STANDING, 1))])
    return simulator.rollout(simulator.state(scene.q0), control=inputs[:, None]).q.numpy()[:, 0]


def test_the_guess_falls():
    scene = scenes.build(HEIGHT)
    times = np.linspace(0.0, scene.steps, scenes.KNOTS)
    guess = [np.interp(np.arange(scene.steps), times, angles) for angles in scene.guess.T]
    q = replayed(scene, np.stack(guess, axis=1))
    assert not example.stands(scene, q[-1])
    assert q[:, 2].max() > scene.target[2] + 0.1  # but it jumps


@pytest.mark.slow
def test_jumps_onto_the_step(monkeypatch, tmp_path, capsys):
    """The stored controls bring it there in a simulator of its own, where it stays."""
    run(monkeypatch, "--height", HEIGHT, "--out", tmp_path)
    printed = capsys.readouterr().out
    assert "reached: " in printed
    assert "it stands there" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"loss.png", "jump.npz", "jump.usda"}
    scene = scenes.build(HEIGHT)
    with np.load(tmp_path / "jump.npz") as file:
        numbers = dict(file)
    assert (numbers["controls"] >= scenes.LOWEST - 1e-6).all()
    assert (numbers["controls"] <= scenes.HIGHEST + 1e-6).all()
    q = replayed(scene, numbers["controls"])
    np.testing.assert_allclose(q[: scene.steps + 1], numbers["q"][: scene.steps + 1], atol=2e-3)
    assert np.linalg.norm(q[scene.steps, :3] - scene.target) < example.GOAL
    assert np.linalg.norm(q[-1, :3] - scene.target) < 0.05
    assert example.stands(scene, q[-1])


def test_a_step_without_height_is_an_error(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--height", 0, "--out", tmp_path)
    assert "--height must be positive" in capsys.readouterr().err
    with raises_naming("height", "nan"):
        scenes.build(float("nan"))
