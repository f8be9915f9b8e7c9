"""The push: a box that nothing touches is found through smoothed gradients, and not without."""

import numpy as np
import pytest

import sim
from examples import push as example
from scenes import push as scenes
from tests.errors import naming


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["push", "--device", "cpu", "--no-render", *map(str, arguments)])
    example.main()


def test_pushes_the_box_to_its_place(monkeypatch, tmp_path, capsys):
    """The stored controls push it there in a simulator without smoothing, and it lies still."""
    run(monkeypatch, "--target", *scenes.TARGET, "--out", tmp_path)
    assert "reached: " in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"loss.png", "push.npz", "push.usda"}
    scene = scenes.build(dtype="float64")
    with np.load(tmp_path / "push.npz") as file:
        numbers = dict(file)
    assert np.abs(numbers["controls"]).max() <= scenes.FORCE
    rails = [scene.model.qd_slice(name).start for name in scene.rails]
    tau = np.zeros((scene.steps, scene.model.nv))
    tau[:, rails] = numbers["controls"]
    simulator = sim.Simulator(scene.model, scene.dt, device="cpu")
    again = simulator.rollout(simulator.state(scene.q0), tau)
    q, qd = again.q.numpy()[:, 0], again.qd.numpy()[:, 0]
    np.testing.assert_allclose(q, numbers["q"], atol=1e-4)
    box, rates = scene.model.q_slice(scene.box).start, scene.model.qd_slice(scene.box).start
    assert np.linalg.norm(q[-1, box : box + 2] - scene.target[:2]) < example.GOAL
    turn = 2.0 * np.arctan2(q[-1, box + 5], q[-1, box + 6])
    assert abs(turn - scene.target[2]) < example.GOAL / example.TURN
    assert np.linalg.norm(qd[-1, rates : rates + 2]) < 0.01


def test_without_smoothing_it_stays_where_it_is(monkeypatch, tmp_path):
    with pytest.warns(UserWarning, match=naming("gradient", "'miss'", "'forward'", "'sideways'")):
        run(monkeypatch, "--target", *scenes.TARGET, "--exact", "--iterations", 12, "--out", tmp_path)
    with np.load(tmp_path / "push.npz") as file:
        assert file["distances"][0] == file["distances"][-1] == pytest.approx(np.hypot(np.hypot(0.35, 0.08), 0.08))
        assert not file["controls"].any()


def test_random_targets(monkeypatch, capsys):
    run(monkeypatch, "--random-targets", 1)
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 targets reached"
