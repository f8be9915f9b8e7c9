"""Origins of an arm's joints from positions of its tip."""

import numpy as np
import pytest
import torch

import sim.torch
from examples import origins as example
from scenes.manipulator import MANIPULATOR_URDF

pin = pytest.importorskip("pinocchio")


def peer(path):
    """Pinocchio's model of a file with a frame at the marker."""
    model = pin.buildModelFromUrdf(str(path))
    tip = model.frames[model.getFrameId("link7")]
    offset = pin.SE3(np.eye(3), np.array(example.MARKER))
    model.addFrame(pin.Frame("marker", tip.parentJoint, tip.placement * offset, pin.FrameType.OP_FRAME))
    return model, model.createData()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The example as it is run by default: folder and what it said."""
    folder = tmp_path_factory.mktemp("origins")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["origins", "--no-render", "--device", "cpu", "--out", str(folder)])
        example.main()
    return folder


def test_reaches_the_goal(run):
    assert {path.name for path in run.iterdir()} == {
        "loss.png", "axes.png", "origins.npz", "learnt.urdf", "origins.usda",
    }  # fmt: skip
    with np.load(run / "origins.npz") as file:
        errors = file["figures"][:, 0]
        assert errors[0] > 10.0
        assert errors[-1] < 1e3 * example.GOAL
        (before, after), (turned, left) = file["distances"], file["angles"]
    # Noise of 0.3 mm in 3000 coordinates shared by 30 numbers: 0.03 mm in a coordinate, a few times that at the joint
    # that shows least.
    assert (before > 5e-3).all()
    assert (after < 2e-4).all()
    assert (turned > np.radians(1.0)).all()
    assert (left < np.radians(0.05)).all()


def test_the_learnt_file_is_the_arm_that_was_built(run):
    """Marker and axes of the learnt file by Pinocchio, beside the arm that the measurements came from."""
    drawn = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64)
    built = example.built_otherwise(drawn, example.chain(drawn, "link7"), 0)
    model, data = peer(run / "learnt.urdf")
    q = np.random.default_rng(5).uniform(-2.0, 2.0, (100, 7))
    expected = example.marker(built, torch.tensor(q), "link7").numpy()
    for pose, position in zip(q, expected, strict=True):
        pin.framesForwardKinematics(model, data, pose)
        # The largest of 100, where the root mean square is held to the goal.
        assert np.linalg.norm(data.oMf[model.getFrameId("marker")].translation - position) < 3.0 * example.GOAL


def test_positions_show_what_pinocchio_says(device):
    """The rank of the derivatives in the placements of joints: Pinocchio's has six columns for each."""
    robot = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64, device=device)
    links = example.chain(robot, "link7")
    assert [robot.link_names[link] for link in links] == [f"link{k}" for k in range(1, 8)]
    numbers = example.make_origins_learnable(robot, links)
    q = np.random.default_rng(5).uniform(-2.0, 2.0, (40, 7))
    model, data = peer(MANIPULATOR_URDF)
    rows = []
    for pose in q:
        pin.framesForwardKinematics(model, data, pose)
        marker = model.getFrameId("marker")
        rows.append(pin.computeFrameKinematicRegressor(model, data, marker, pin.LOCAL_WORLD_ALIGNED)[:3])
    assert np.linalg.matrix_rank(np.concatenate(rows), tol=1e-8) == 30
    assert example.shown(robot, numbers, torch.tensor(q, device=device), "link7") == 30


def test_what_does_not_show_changes_no_axis(device):
    """An origin that slides along its joint's axis and turns about it, the next one taking it back."""
    robot = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64, device=device)
    links = example.chain(robot, "link7")
    other = example.built_otherwise(robot, links, 3)
    same = sim.torch.Robot(MANIPULATOR_URDF, dtype=torch.float64, device=device)
    same.joint_placement.copy_(other.value("joint_placement"))
    one, two = same.joint_placement[links[2]], same.joint_placement[links[3]]  # joint 3 turns about its z
    slide, turn = 0.07, 0.4
    half = torch.tensor([0.0, 0.0, np.sin(turn / 2), np.cos(turn / 2)], dtype=torch.float64, device=device)
    one[:3] += rotate(one[3:], one.new_tensor([0.0, 0.0, slide]))
    one[3:] = multiply(one[3:], half)
    back = half * half.new_tensor([-1.0, -1.0, -1.0, 1.0])
    two[:3] = rotate(back, two[:3] - two.new_tensor([0.0, 0.0, slide]))
    two[3:] = multiply(back, two[3:])
    q = torch.rand(20, 7, dtype=torch.float64).to(device)
    torch.testing.assert_close(example.marker(same, q, "link7"), example.marker(other, q, "link7"))
    distance, angle = example.compare(same, other, q, links)
    assert distance.max() < 1e-12
    assert angle.max() < 1e-7
    same.joint_placement[links[2], 0] += 0.01
    assert example.compare(same, other, q, links)[0].max() > 5e-3


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Product of quaternions xyzw."""
    vector = a[3] * b[:3] + b[3] * a[:3] + torch.linalg.cross(a[:3], b[:3])
    return torch.cat([vector, (a[3] * b[3] - a[:3] @ b[:3]).reshape(1)])


def rotate(quaternion: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    pure = torch.cat([vector, vector.new_zeros(1)])
    back = quaternion * quaternion.new_tensor([-1.0, -1.0, -1.0, 1.0])
    return multiply(multiply(quaternion, pure), back)[:3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--tip", "base"], "--tip base: no joint moves"), (["--poses", "0"], "--poses and --noise must be positive")],
)
def test_misuse(arguments, message, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["origins", "--device", "cpu", "--out", str(tmp_path), *arguments])
    with pytest.raises(SystemExit):
        example.main()
    assert message in capsys.readouterr().err
