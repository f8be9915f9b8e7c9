"""A network that learns inverse kinematics: its loss and errors, what it reaches, its command line."""

import itertools
import re

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import sim.torch
from examples import learning, pose_network
from examples import reach as example
from examples.pose_network import PoseNetwork, Reachable
from scenes.manipulator import MANIPULATOR_URDF
from scenes.throw import ARM_URDF
from tests.errors import quietly
from tests.importers.reference import ROBOTS


def make(path, frame, device="cpu", dtype=torch.float32, proposals=8):
    if not path.is_file():
        pytest.skip(f"{path} is not installed")
    reachable = Reachable(quietly(sim.torch.Robot, path, dtype=dtype, device=device), frame)
    torch.manual_seed(0)
    return reachable, PoseNetwork(reachable, proposals)


@pytest.mark.parametrize(
    ("path", "frame"), [(MANIPULATOR_URDF, "link7"), (ROBOTS["panda"], "panda_hand")], ids=["manipulator", "panda"]
)
def test_answers_of_a_narrow_network_after_little_training(path, frame, device, monkeypatch):
    """To ten times the goal; what all of the training reaches is measured by python -m bench.reach."""
    monkeypatch.setattr(pose_network, "WIDTH", 128)
    reachable, network = make(path, frame, device)
    target = example.draw_targets(reachable, 1024, 0, -1)
    example.train(network, 3, 0)
    q, distance, angle = example.answer(network, *target)
    assert distance.mean() < 10.0 * example.GOAL[0]
    assert angle.mean() < 10.0 * example.GOAL[1]
    # Each pass brings them closer, the first ones most.
    passes = [example.badness(*example.answer(network, *target, k)[1:]).mean() for k in range(example.PASSES + 1)]
    assert passes[-1] < 0.25 * passes[0]
    assert all(after < before for before, after in itertools.pairwise(passes))
    # A limit is met to a rounding of the middle of the range plus half of it.
    assert (q <= reachable.robot.upper_limit + 1e-6).all()
    assert (q >= reachable.robot.lower_limit - 1e-6).all()
    # What forward kinematics says of the answers, and an angle that isn't the example's own.
    there, turned = (x.cpu().numpy() for x in reachable.poses(q))
    position, quaternion = (x.cpu().numpy() for x in target)
    np.testing.assert_allclose(np.linalg.norm(there - position, axis=1), distance.cpu(), atol=2e-6)
    apart = (Rotation.from_quat(turned).inv() * Rotation.from_quat(quaternion)).magnitude()
    np.testing.assert_allclose(apart, angle.cpu(), atol=1e-3)


def test_what_is_missing_is_along_the_axes_of_the_frame(device):
    reachable, _ = make(ARM_URDF, "hand", device, torch.float64)
    q = reachable.draw(16, torch.Generator().manual_seed(0))
    position, quaternion = example.draw_targets(reachable, 16, 1, 0)
    missing = reachable.missing(q, position, quaternion).cpu().numpy()
    there, turned = (x.cpu().numpy() for x in reachable.poses(q))
    turned, wanted = Rotation.from_quat(turned), Rotation.from_quat(quaternion.cpu().numpy())
    np.testing.assert_allclose(missing[:, :3], (turned.inv() * wanted).as_rotvec(), atol=1e-9)
    np.testing.assert_allclose(missing[:, 3:], turned.inv().apply(position.cpu().numpy() - there), atol=1e-12)


def test_gradient_goes_through_forward_kinematics(device):
    """Of the loss in the network's parameters, along a random direction, by central differences."""
    reachable, network = make(ARM_URDF, "hand", device, torch.float64, proposals=3)
    assert len(reachable.moving) == 7, "the fingers don't move the hand"
    target = example.draw_targets(reachable, 16, 0, -1)
    parameters = list(network.parameters())
    direction = [torch.randn_like(x) for x in parameters]
    gradients = torch.autograd.grad(example.loss(network, *target), parameters)
    found = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))
    h, values = 1e-6, []
    for by in (h, -2.0 * h):
        with torch.no_grad():
            for x, d in zip(parameters, direction, strict=True):
                x += by * d
            values.append(example.loss(network, *target))
    torch.testing.assert_close(found, (values[0] - values[1]) / (2.0 * h), rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_the_best_proposal_counts(device):
    reachable, network = make(ARM_URDF, "hand", device)
    position, quaternion = example.draw_targets(reachable, 5, 0, -1)
    proposals = network(position, quaternion)
    assert proposals.shape == (5, 8, reachable.robot.nq)
    torch.testing.assert_close(network(position, -quaternion), proposals)
    q, distance, angle = example.answer(network, position, quaternion, 0)
    for row in range(5):
        errors = [example.lengths(reachable.missing(each, position[row], quaternion[row])) for each in proposals[row]]
        best = min(range(8), key=lambda k: float(example.badness(*errors[k])))
        torch.testing.assert_close(q[row], proposals[row, best])
        torch.testing.assert_close((distance[row], angle[row]), errors[best], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_pass_leaves_what_is_right_and_scales_with_a_small_error(device):
    """Whatever the weights: it is a matrix, of smooth functions, that multiplies the error."""
    reachable, network = make(ARM_URDF, "hand", device, torch.float64)
    q = reachable.draw(16, torch.Generator().manual_seed(0))
    missing = 1e-6 * torch.randn(16, 6, dtype=q.dtype, generator=torch.Generator().manual_seed(1)).to(q)
    torch.testing.assert_close(network.improve(q, torch.zeros_like(missing)), q, rtol=0.0, atol=1e-15)
    step, twice = (network.improve(q, scale * missing) - q for scale in (1.0, 2.0))
    assert step.norm() > 1e-7
    assert (twice - 2.0 * step).norm() < 1e-3 * step.norm()


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["reach", "--device", "cpu", *map(str, arguments)])
    example.main()


def test_files(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(example, "HELD_OUT", 64)
    monkeypatch.setattr(example, "STEPS", 2)
    run(monkeypatch, "--iterations", 1, "--proposals", 2, "--no-render", "--out", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"loss.png", "reach.npz", "network.pt", "reach.usda"}
    printed = capsys.readouterr().out
    assert "7 joints move 'link7'; 2 proposals" in printed
    assert "not reached after 1 iterations" in printed
    with np.load(tmp_path / "reach.npz") as file:
        assert file["figures"].shape == (2, 4)
        methods = file["methods"].tolist()
        assert methods[: example.PASSES + 1] == [example.method_name(k) for k in range(example.PASSES + 1)]
        for k, method in enumerate(methods):
            (line,) = (line for line in printed.splitlines() if line.startswith(method))
            distance, angle = 1e3 * file[f"distance_{k}"], np.degrees(file[f"angle_{k}"])
            told = [float(word) for word in line.removeprefix(method).replace("%", "").split()]
            expected = [f(x) for x in (distance, angle) for f in (np.mean, np.median, lambda x: np.quantile(x, 0.95))]
            expected.append(100.0 * np.mean((distance < 5.0) & (angle < 1.0)))
            np.testing.assert_allclose(told[:-1], expected, atol=0.06)
    network = make(MANIPULATOR_URDF, "link7", proposals=2)[1]
    network.load_state_dict(torch.load(tmp_path / "network.pt", weights_only=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--proposals", 0], "--proposals must be at least 1"),
        (["--frame", "tip"], "--frame tip: .*no frame named 'tip'"),
        (["--frame", "base"], "--frame base: no joint moves it"),
        (["--robot", ARM_URDF], f"--frame is required; the frames of {ARM_URDF} are base, link1.*hand"),
        (["--robot", "panda"], "example-robot-data.*peers"),
    ],
)
def test_what_cannot_work_ends_at_once(monkeypatch, tmp_path, capsys, arguments, message):
    def missing(name):
        raise learning.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(learning.metadata, "files", missing)
    with pytest.raises(SystemExit):
        run(monkeypatch, "--out", tmp_path, *arguments)
    assert re.search(message, capsys.readouterr().err)
    assert not list(tmp_path.iterdir())
