"""The command that opens the viewer: what it shows, and that it ends."""

import functools
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.cli.main import main
from sim.cli.view import distance_gradient
from sim.usd import write_usd
from sim.viewer import Viewer
from tests.viewer.worlds import arrows

QUADRUPED = str(Path(__file__).parents[2] / "scenes/robots/quadruped.urdf")
MOTION = ["--floating-base", "--ground", "-0.43", "--worlds", "2", "--noise", "0.1"]


@pytest.fixture
def shown(monkeypatch):
    """What a viewer that waits would show: (q, motion's length, contact arrows, gradient arrows)."""
    found = []

    def look(viewer):
        viewer._player.seek(30)
        motion = viewer._player._motion
        found.append((viewer.q, motion and len(motion), arrows(viewer, "/contacts"), arrows(viewer, "/gradients")))

    monkeypatch.setattr(Viewer, "wait", look)
    return found


def test_a_simulated_motion_and_what_is_written_of_it(shown, tmp_path, capsys):
    file = str(tmp_path / "states.npz")
    assert main(["simulate", QUADRUPED, *MOTION, "--steps", "60", "--out", file]) == 0
    where = ["--port", "0"]
    assert main(["view", QUADRUPED, *MOTION, "--steps", "60", "--target", "fl_calf", "0", "0", "1", *where]) == 0
    assert main(["view", QUADRUPED, "--floating-base", "--ground", "-0.43", "--trajectory", file, *where]) == 0
    states = np.load(file)
    for q, length, contacts, _ in shown:
        assert length == 61
        np.testing.assert_array_equal(q, states["q"][30])
        assert len(contacts) >= 4
    np.testing.assert_allclose(shown[0][2], shown[1][2], atol=1e-6)
    assert len(shown[0][3]) > 20
    assert len(shown[1][3]) == 0
    distance = np.linalg.norm(calf(states["q"][-1]) - [0, 0, 1], axis=1).mean()
    assert f"'fl_calf' ends {distance:.4g} m from the target" in capsys.readouterr().out


def calf(q):
    model = sim.load(QUADRUPED, floating_base=True)
    return sim.forward_kinematics(model, q, ["fl_calf"]).numpy()[:, 0, :3]


def test_the_start(shown):
    assert main(["view", QUADRUPED, "--floating-base", "--port", "0"]) == 0
    q, length, contacts, _ = shown[0]
    assert (q.shape, length, len(contacts)) == ((1, 19), None, 0)


def test_the_motion_that_a_file_stores(shown, tmp_path, capsys):
    """Two bodies of two worlds, as point instancers: poses become coordinates of free bodies."""
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, name="box")
    builder.add_sphere(radius=0.1, mass=1.0, name="ball")
    poses = np.random.default_rng(0).normal(size=(40, 2, 2, 7))
    poses[..., 3:] /= np.linalg.norm(poses[..., 3:], axis=-1, keepdims=True)
    file = tmp_path / "motion.usda"
    write_usd(file, builder.finalize(), poses, fps=40)
    assert main(["view", str(file), "--stored", "--port", "0"]) == 0
    q, length, contacts, _ = shown[0]
    assert (q.shape, length, len(contacts)) == ((2, 14), 40, 0)
    found, expected = q.reshape(2, 2, 7), poses[30]
    order = [int(np.argmin(np.linalg.norm(found[0, :, :3] - pose[:3], axis=1))) for pose in expected[0]]
    np.testing.assert_allclose(found[:, order, :3], expected[..., :3], atol=1e-5)
    np.testing.assert_allclose(np.abs((found[:, order, 3:] * expected[..., 3:]).sum(-1)), 1.0, atol=1e-3)
    assert main(["view", str(file), "--stored", "--seconds", "1"]) == 2
    assert main(["view", QUADRUPED, "--stored"]) == 2
    assert "--stored requires a USD file" in capsys.readouterr().err


def test_states_of_another_model(tmp_path, capsys):
    file = tmp_path / "states.npz"
    np.savez(file, q=np.zeros((3, 2, 19)), dt=0.1)
    assert main(["view", QUADRUPED, "--trajectory", str(file)]) == 1
    assert "q has shape (3, 2, 19), but the model has 12 coordinates" in capsys.readouterr().err
    np.savez(file, q=np.full((3, 12), np.nan), dt=0.1)
    assert main(["view", QUADRUPED, "--trajectory", str(file), "--port", "0"]) == 1
    assert "q isn't finite in state 0, world 0, joint 'fl_hip_joint'" in capsys.readouterr().err
    np.savez(file, q=np.zeros((3, 12)), dt=0.1, joint_names=[*"abcdefghijklm"])
    assert main(["view", QUADRUPED, "--trajectory", str(file)]) == 1
    assert "its joints are a, b, c" in capsys.readouterr().err


def test_gradient_of_the_distance():
    model = sim.load(QUADRUPED, floating_base=True, dtype="float64")
    simulator = sim.Simulator(model, 1e-3)
    trajectory = simulator.rollout(simulator.initial_state(), tau=np.zeros((2, 1, model.nv)))
    distance, gradient = distance_gradient(trajectory, "fl_calf", (0.4, -0.2, 0.3))
    q = trajectory.q.numpy()[-1, 0]
    assert distance == pytest.approx(np.linalg.norm(calf(q[None])[0] - (0.4, -0.2, 0.3)), abs=1e-6)
    moved = np.array([q + 1e-6 * sign * unit for unit in np.eye(19) for sign in (1, -1)])
    poses = sim.forward_kinematics(model, moved, ["fl_calf"]).numpy()[:, 0, :3]
    slopes = np.linalg.norm(poses - (0.4, -0.2, 0.3), axis=1).reshape(-1, 2) @ [1, -1] / 2e-6
    np.testing.assert_allclose(gradient.numpy()[0], slopes, atol=1e-8)


def test_control_c_ends_it():
    command = [sys.executable, "-m", "sim", "view", QUADRUPED, "--port", "0"]
    # Tests that run in the background of a shell ignore Ctrl-C, and so would what they start.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed) as viewer:
        try:
            url = re.match(r"(http://localhost:\d+) \(stop with Ctrl-C\)", viewer.stdout.readline()).group(1)
            with urllib.request.urlopen(url, timeout=20) as page:
                assert page.status == 200
            viewer.send_signal(signal.SIGINT)
            out, errors = viewer.communicate(timeout=20)
        finally:
            viewer.kill()
    assert (viewer.returncode, out) == (0, "")
    assert "Traceback" not in errors
