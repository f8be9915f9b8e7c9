"""The example that ``make demo`` runs: its files, its command line, and that it hits."""

import re

import numpy as np
import pytest
import torch
from PIL import Image
from pxr import Usd, UsdValidation

import sim
from examples import throw as example
from scenes import throw as scenes
from sim.simulation.engine.engine import Engine


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["throw", "--device", "cpu", *map(str, arguments)])
    example.main()


def simulate_until_interrupted(monkeypatch, rollouts):
    """Ctrl-C once, after a given number of rollouts."""
    run_forward = Engine.run_forward
    done = []

    def interrupted(self, *arguments, **named):
        done.append(1)
        if len(done) == rollouts + 1:
            raise KeyboardInterrupt
        return run_forward(self, *arguments, **named)

    monkeypatch.setattr(Engine, "run_forward", interrupted)


def test_files(monkeypatch, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    run(monkeypatch, "--iterations", 2, "--no-render", "--target", 1.4, 0.1, 0.5, "--out", out)
    assert {path.name for path in out.iterdir()} == {"loss.png", "throw.npz", "throw.usda"}
    printed = capsys.readouterr().out
    assert "missed: " in printed
    assert "after 2 iterations" in printed
    assert f"wrote loss.png, throw.npz, throw.usda to {out}" in printed

    with np.load(out / "throw.npz") as file:
        numbers = dict(file)
    scene = scenes.build((1.4, 0.1, 0.5))
    model, ball = scene.model, scene.ball_position
    assert numbers["tau"].shape == (scene.steps, model.nv)
    assert numbers["q"].shape == (scene.steps + 1, model.nq)
    assert numbers["qd"].shape == (scene.steps + 1, model.nv)
    assert numbers["dt"] == scene.dt
    np.testing.assert_array_equal(numbers["target"], [1.4, 0.1, 0.5])
    np.testing.assert_array_equal(numbers["q"][0], scene.q0.astype(np.float32))
    assert np.abs(numbers["tau"][:, model.qd_slice(scene.ball)]).max() == 0.0, "the ball has no motor"
    # The throw that is kept is the best one, and the torques are those that make it.
    assert len(numbers["distances"]) == 3
    assert np.linalg.norm(numbers["q"][-1, ball] - scene.target) == pytest.approx(min(numbers["distances"]), abs=1e-6)
    simulator = sim.Simulator(model, scene.dt, num_worlds=3, device="cpu")
    again = simulator.rollout(simulator.state(scene.q0, scene.qd0), numbers["tau"])
    np.testing.assert_array_equal(again.q.numpy()[:, 0], numbers["q"])

    stage = Usd.Stage.Open(str(out / "throw.usda"))
    context = UsdValidation.ValidationContext(UsdValidation.ValidationRegistry().GetOrLoadAllValidators())
    assert [error.GetErrorAsString() for error in context.Validate(stage)] == []


def test_no_iteration_lets_the_ball_drop(monkeypatch, tmp_path):
    """The arm holds it still; then it leaves the hand at once, falls freely, and lies where it came down."""
    run(monkeypatch, "--settle", "--iterations", 0, "--no-render", "--out", tmp_path)
    scene = scenes.build_settling((1.5, 0.0))
    let_go = round(scenes.DROP_TIME / scene.dt)
    with np.load(tmp_path / "throw.npz") as file:
        np.testing.assert_array_equal(file["tau"], scene.drop)
        np.testing.assert_array_equal(file["tau"][:let_go], np.tile(scene.hold, (let_go, 1)))
        assert len(file["distances"]) == 1
        ball = file["q"][:, scene.ball_position].astype(np.float64)
    np.testing.assert_allclose(ball[:let_go], np.tile(ball[0], (let_go, 1)), atol=1e-3)
    times = scene.dt * np.arange(1, 201)
    fall = -0.5 * 9.81 * times * (times + scene.dt)
    np.testing.assert_allclose(ball[let_go + 1 : let_go + 201, 2], ball[let_go, 2] + fall, atol=1e-3)
    np.testing.assert_allclose(ball[-1], [*ball[0, :2], scenes.BALL_RADIUS], atol=2e-3)


def test_interrupted_keeps_the_best_throw(monkeypatch, tmp_path, capsys):
    simulate_until_interrupted(monkeypatch, rollouts=3)  # the first one is to find costs without a gradient
    run(monkeypatch, "--no-render", "--out", tmp_path)
    assert "after 1 iterations" in capsys.readouterr().out
    with np.load(tmp_path / "throw.npz") as file:
        assert len(file["distances"]) == 2
    assert (tmp_path / "interrupted.npz").is_file(), "to go on from"


def test_interrupted_before_the_first_throw_is_an_interrupt(monkeypatch, tmp_path):
    simulate_until_interrupted(monkeypatch, rollouts=0)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "--no-render", "--out", tmp_path)
    assert ended.value.code == 130


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "nan", 0, 0], "--target .* must be finite"),
        (["--target", 1, 2], "expected 3 arguments"),
        (["--iterations", -1], "--iterations must not be negative"),
        (["--random-targets", -1], "--random-targets must not be negative"),
        (["--seed", -1], "--seed must not be negative"),
        (["--size", 0, 9], "--size: both numbers must be positive"),
        (["--device", "cuda:99"], "--device cuda:99: .*this machine has cpu"),
    ],
)
def test_what_cannot_work_ends_at_once(monkeypatch, tmp_path, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        run(monkeypatch, *arguments)
    assert exit_.value.code == 2
    assert re.search(message, capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


def test_random_targets_write_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    run(monkeypatch, "--random-targets", 2, "--iterations", 1)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3
    assert printed[-1] == "0 of 2 targets hit"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_hits_a_target_and_shows_it(monkeypatch, tmp_path, device):
    result = example.optimise(scenes.build((1.5, 0.0, 0.5)), 50, device, bar=False)
    assert result.hit
    assert min(result.distances) < 0.01
    assert len(result.distances) <= 51
    assert (np.diff(result.distances) < 0.0).any()
    assert result.distances[0] > 1.0, "it starts with the ball in the hand"


@pytest.mark.slow
def test_animation(monkeypatch, tmp_path):
    run(monkeypatch, "--iterations", 1, "--size", 320, 180, "--out", tmp_path)
    with Image.open(tmp_path / "throw.gif") as picture:
        assert picture.size == (320, 180)
        assert picture.n_frames > 1


def test_flight_goes_on_through_the_ground():
    """Up to the ground a throw counts as it is; from there on it is what semi-implicit Euler steps in the air give."""
    scene = scenes.build()
    model, ball = scene.model, scene.ball_position
    velocity = slice(model.qd_slice(scene.ball).start, model.qd_slice(scene.ball).start + 3)
    gravity = model.parameters["gravity"]
    q, qd = np.zeros((scene.steps + 1, model.nq)), np.zeros((scene.steps + 1, model.nv))
    q[0, ball], qd[0, velocity] = [0.1, 0.2, 1.5], [1.0, -0.5, 0.3]
    for step in range(scene.steps):
        qd[step + 1, velocity] = qd[step, velocity] + scene.dt * gravity
        q[step + 1, ball] = q[step, ball] + scene.dt * qd[step + 1, velocity]
    through = q[-1, ball].copy()
    assert through[2] < -1.0
    landed = q.copy()
    landed[:, ball.stop - 1] = np.maximum(q[:, ball.stop - 1], scenes.BALL_RADIUS)
    # One world lands, the other stays above the ground.
    above = q.copy()
    above[:, ball.stop - 1] += 10.0
    states = [torch.tensor(np.stack(parts, axis=1), requires_grad=True) for parts in ((landed, above), (qd, qd))]
    end = example.flight(scene, *states)
    np.testing.assert_allclose(end[0].detach(), through, rtol=1e-12)
    np.testing.assert_array_equal(end[1].detach(), above[-1, ball])
    # The derivatives are those of that end, which is linear in position and velocity at one step.
    q_slopes, qd_slopes = torch.autograd.grad(end.sum(), states)
    (step,) = np.flatnonzero(q_slopes[:, 0].any(dim=1))
    assert landed[step + 1, ball.stop - 1] < scenes.BALL_RADIUS + example.ON_THE_GROUND <= landed[step, ball.stop - 1]
    np.testing.assert_array_equal(q_slopes[step, 0, ball], np.ones(3))
    np.testing.assert_allclose(qd_slopes[step, 0, velocity], (scene.steps - step) * scene.dt * np.ones(3))
    assert not qd_slopes[:, 1].any()
    assert not q_slopes[:-1, 1].any()


def test_settling_aims_at_the_ground(monkeypatch, tmp_path):
    run(monkeypatch, "--settle", "--iterations", 0, "--no-render", "--target", 1.5, 0.2, 7.0, "--out", tmp_path)
    with np.load(tmp_path / "throw.npz") as file:
        np.testing.assert_array_equal(file["target"], [1.5, 0.2, scenes.BALL_RADIUS])
        assert len(file["tau"]) == scenes.SETTLING_STEPS


@pytest.mark.slow
def test_settles(device):
    """At a place beyond the arm's reach, and still."""
    scene = scenes.build_settling((1.55, 0.49))
    result = example.settle(scene, 20, device, bar=False)
    assert result.distances[0] > 2.0
    assert result.hit
    # What is left may be spin about the vertical, which nothing brakes.
    np.testing.assert_allclose(result.qd[-1, scene.model.qd_slice(scene.ball)][:5], 0.0, atol=1e-3)
