"""Pick and place: the first guess lifts the box by friction and sets it down; the search carries it to a place."""

import numpy as np
import pytest
import torch

import sim
from examples import pick as example
from scenes import pick as scenes
from tests.errors import raises_naming

NEAR = (0.33, 0.12)


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["pick", "--device", "cpu", "--no-render", *map(str, arguments)])
    example.main()


def simulate(scene: scenes.PickScene, controls: np.ndarray, **options) -> tuple[np.ndarray, np.ndarray]:
    """q [steps + 1, nq] and qd [steps + 1, nv] with what the servos are told [steps, 6]."""
    simulator = sim.Simulator(scene.model, scene.dt, device="cpu", **options)
    motion = simulator.rollout(simulator.state(scene.q0), control=controls[:, None])
    return motion.q.numpy()[:, 0], motion.qd.numpy()[:, 0]


def guessed(scene: scenes.PickScene) -> np.ndarray:
    """The first guess in every step [steps, 6]."""
    times = np.linspace(0.0, len(scene.guess) - 1.0, scene.steps)
    return np.stack([np.interp(times, range(len(scene.guess)), each) for each in scene.guess.T], axis=1)


def test_the_first_guess_lifts_the_box_and_sets_it_down():
    scene = scenes.build()
    box = scene.model.q_slice(scene.box).start
    q, _ = simulate(scene, guessed(scene))
    assert q[scene.steps // 2, box + 2] > 0.9 * scenes.LIFT
    np.testing.assert_allclose(q[-1, box : box + 3], [*scenes.START, scenes.HALF], atol=5e-3)


def test_friction_alone_holds_it():
    """Without friction the fingers close and rise, and the box stays on the ground."""
    scene = scenes.build()
    box = scene.model.q_slice(scene.box).start
    q, _ = simulate(scene, guessed(scene), parameters={"friction": np.zeros(scene.model.num_geometries)})
    assert q[:, box + 2].max() < scenes.HALF + 5e-3


def test_postures_reach_their_place():
    """By forward kinematics, with the hand pointing straight down."""
    scene = scenes.build(dtype="float64")
    for position in ((0.35, 0.0, 0.025), (0.1, 0.3, 0.1)):
        q = scene.q0.copy()
        for joint, value in zip(scenes.JOINTS, scenes.posture(*position, scenes.OPEN), strict=True):
            q[scene.model.q_slice(joint)] = value
        poses = sim.forward_kinematics(scene.model, q[None]).numpy()[0]
        left, right = (poses[scene.model.link(name)] for name in ("left", "right"))
        np.testing.assert_allclose(0.5 * (left[:3] + right[:3]), position, atol=1e-9)
        assert np.linalg.norm(left[:3] - right[:3]) == pytest.approx(2.0 * scenes.OPEN)


def test_places_the_box(monkeypatch, tmp_path, capsys):
    """The stored controls do so again in a simulator of its own: it lies flat and still, and the fingers are off it."""
    run(monkeypatch, "--target", *NEAR, "--out", tmp_path)
    assert "reached: " in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"loss.png", "pick.npz", "pick.usda"}
    scene = scenes.build(NEAR)
    with np.load(tmp_path / "pick.npz") as file:
        numbers = dict(file)
    q, qd = simulate(scene, numbers["controls"])
    np.testing.assert_allclose(q, numbers["q"], atol=1e-4)
    box, rates = scene.model.q_slice(scene.box).start, scene.model.qd_slice(scene.box).start
    assert np.linalg.norm(q[-1, box : box + 3] - [*NEAR, scenes.HALF]) < example.GOAL
    assert np.linalg.norm(qd[-1, rates : rates + 3]) < example.GOAL / example.REST
    assert 2.0 * np.linalg.norm(q[-1, box + 3 : box + 5]) < example.GOAL / example.TILT
    assert q[scene.steps // 2, box + 2] > 0.5 * scenes.LIFT
    fingers = sum(q[-1, scene.model.q_slice(joint)][0] for joint in ("left", "right"))
    assert fingers > 2.0 * scenes.HALF + example.RELEASED


def test_distances_count_place_tilt_speed_and_height():
    scene = scenes.build(NEAR, "float64")
    box, rates = scene.model.q_slice(scene.box).start, scene.model.qd_slice(scene.box).start
    q = torch.as_tensor(np.tile(scene.q0, (3, 1, 1)))
    qd = torch.zeros(3, 1, scene.model.nv, dtype=torch.float64)
    q[-1, 0, box : box + 3] = torch.as_tensor(scene.target) + torch.tensor([0.01, -0.02, 0.03])
    q[-1, 0, box + 3 : box + 7] = torch.tensor([np.sin(0.1), 0.0, 0.0, np.cos(0.1)], dtype=torch.float64)
    qd[-1, 0, rates : rates + 3] = torch.tensor([0.1, 0.2, 0.3])
    lacking = example.LIFTED * (scenes.LIFT - scenes.HALF)
    expected = [0.01, -0.02, 0.03, 2.0 * example.TILT * np.sin(0.1), 0.0, 0.01, 0.02, 0.03, lacking]
    np.testing.assert_allclose(example.distances(scene, q, qd)[0], expected, atol=1e-8)


def test_random_targets(monkeypatch, capsys):
    """Two iterations are too few, for CMA-ES with as many rollouts, too."""
    pytest.importorskip("cma")
    run(monkeypatch, "--random-targets", 1, "--cmaes", 1, "--iterations", 2)
    first, other, last = capsys.readouterr().out.splitlines()
    assert "missed: " in first
    assert other.startswith("     CMA-ES: ")
    assert last == "0 of 1 targets reached"


@pytest.mark.parametrize("target", [(0.3,), (0.3, np.nan), (0.8, 0.0)])
def test_targets_that_are_refused(target):
    with raises_naming("target is"):
        scenes.build(target)
