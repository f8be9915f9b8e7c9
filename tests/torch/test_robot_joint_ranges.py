"""Limits of spherical joints in inverse kinematics, beside closed forms and differences."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import sim
from sim.torch.robot.joint_ranges import angle_rates, joint_ranges, limited_rotation, rotation_angles

# A robot's calls on a CPU go to lane groups in place, which a GPU's launch shapes don't have.
pytestmark = pytest.mark.cpu_shapes
INFINITE = float("inf")
AXIS = torch.tensor([1.0, 2.0, -2.0], dtype=torch.float64) / 3.0


def rotations(count: int) -> torch.Tensor:
    return torch.as_tensor(Rotation.random(count, random_state=0).as_quat())


def shoulder(device: str, dtype: torch.dtype = torch.float64, limits: sim.Limits | None = None) -> sim.torch.Robot:
    """An upper arm on a ball joint about z, and a forearm on a hinge."""
    builder = sim.ModelBuilder()
    for name in ("upper", "fore"):
        builder.add_link(name, mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("ball", "spherical", child="upper", axis=(0.0, 0.0, 1.0), limits=limits or sim.Limits())
    builder.add_joint(
        "elbow", "revolute", parent="upper", child="fore", axis=(0.0, 1.0, 0.0), position=(0.0, 0.0, 1.0),
        limits=sim.Limits(-2.0, 2.0),
    )  # fmt: skip
    builder.add_frame("tip", "fore", position=(0.0, 0.3, 1.0))
    builder.add_frame("elbow", "upper", position=(0.0, 0.0, 1.0))
    return sim.torch.Robot(builder.finalize("float64"), dtype=dtype, device=device)


def test_angles_and_their_rates():
    rotation = rotations(200)
    turned = Rotation.from_quat(rotation.numpy())
    swing = np.arccos(turned.apply(AXIS.numpy()) @ AXIS.numpy())
    sign = torch.where(rotation[:, 3:] < 0, -1.0, 1.0)
    twist = 2.0 * torch.atan2((sign * rotation[:, :3] @ AXIS[:, None]).abs(), (sign * rotation[:, 3:]))[:, 0]
    expected = np.stack([swing, twist, turned.magnitude()], axis=-1)
    np.testing.assert_allclose(rotation_angles(rotation, AXIS), expected, atol=1e-9)
    rates = angle_rates(rotation, AXIS)
    directions = np.random.default_rng(0).normal(size=(3, 200, 3))
    # Along a rate the angle grows, across it the angle stays.
    for k in range(3):
        unit = rates[:, k].numpy()
        across = np.cross(unit, directions[k])
        for direction, grows in ((unit, True), (across, False)):
            ahead, behind = (
                rotation_angles(torch.as_tensor((turned * Rotation.from_rotvec(h * direction)).as_quat()), AXIS)[:, k]
                for h in (1e-6, -1e-6)
            )
            difference = (ahead - behind) / 2e-6
            assert (difference > 0.4).all() if grows else (difference.abs() < 1e-5).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "limit",
    [
        (0.6, INFINITE, INFINITE),
        (INFINITE, 0.4, INFINITE),
        (INFINITE, INFINITE, 0.8),
        (0.6, 0.4, INFINITE),
        (0.6, 0.4, 0.65),
    ],
)
def test_rotations_are_brought_within_their_limits(limit, dtype):
    rotation, axis, most = rotations(500).to(dtype), AXIS.to(dtype), torch.tensor(limit, dtype=dtype)
    before = rotation_angles(rotation, axis)
    found = limited_rotation(rotation, axis, most)
    after = rotation_angles(found, axis)
    # Near a swing of half a turn hardly anything determines the twist.
    rounding = 20 * torch.finfo(dtype).eps / torch.cos(0.5 * before[:, :1])
    assert (after <= most + rounding).all()
    torch.testing.assert_close(found.norm(dim=-1), torch.ones(500, dtype=dtype))
    inside = (before <= most).all(-1)
    assert torch.equal(found[inside], rotation[inside])
    if limit[2] == INFINITE:
        # The twist stays where the swing is shortened, and the other way round.
        assert ((after - before.minimum(most)).abs()[:, :2] <= rounding).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "limits",
    [
        sim.Limits(swing=0.6),
        sim.Limits(twist=0.4),
        sim.Limits(rotation=0.65),
        sim.Limits(swing=0.6, twist=0.4, rotation=0.65),
    ],
)
def test_targets_within_the_limits_are_reached_within_them(limits, dtype, device):
    robot = shoulder(device, dtype, limits)
    ranges = joint_ranges(robot.model, robot.lower_limit, robot.upper_limit)
    elbow = torch.linspace(-1.8, 1.8, 32, dtype=dtype)[:, None]
    q = ranges.within(torch.cat([rotations(32).to(dtype), elbow], dim=-1).to(device))
    for target in (robot.forward_kinematics(q, "tip"), robot.forward_kinematics(q, "tip")[:1]):
        found = robot.inverse_kinematics("tip", *target, restarts=16)
        assert found.success.sum() >= 31
        angles = rotation_angles(found.q[:, ranges.ball_q], ranges.ball_axis)
        assert (angles <= ranges.ball_limit + 100 * torch.finfo(dtype).eps).all()


def test_a_target_outside_the_cone(device):
    """The arm stops at the nearest place on the cone, and follows a target there that goes round it."""
    robot = shoulder(device, limits=sim.Limits(swing=0.5))
    tilt, heading = 1.2, torch.tensor(0.7, dtype=torch.float64, device=device, requires_grad=True)

    def target(tilt: float, heading: torch.Tensor) -> torch.Tensor:
        across = np.sin(tilt) * torch.stack([heading.cos(), heading.sin()])
        return torch.cat([across, torch.full_like(across[:1], np.cos(tilt))])

    found = robot.inverse_kinematics("elbow", target(tilt, heading))
    assert not found.success
    assert float(found.position_error) == pytest.approx(2.0 * np.sin(0.35), abs=1e-9)
    reached = robot.forward_kinematics(found.q, "elbow")[0]
    torch.testing.assert_close(reached, target(0.5, heading), rtol=0.0, atol=1e-6)
    assert robot.inverse_kinematics("elbow", target(0.5, heading)).success


def test_the_gradient_at_a_limit_stays_at_it(device):
    """Targets on the cone: the arm follows them round it, and not out of it."""
    robot = shoulder(device, limits=sim.Limits(swing=0.5))
    heading, tilt = (torch.tensor(x, dtype=torch.float64, device=device, requires_grad=True) for x in (0.7, 0.5))
    target = torch.stack([tilt.sin() * heading.cos(), tilt.sin() * heading.sin(), tilt.cos()])
    options = {"iterations": 200, "position_tolerance": 1e-12}
    found = robot.inverse_kinematics("elbow", target, **options)
    assert found.success
    reached = robot.forward_kinematics(found.q, "elbow")[0]
    for k in range(3):
        round_it, outwards = torch.autograd.grad(reached[k], (heading, tilt), retain_graph=True)
        (expected,) = torch.autograd.grad(target[k], heading, retain_graph=True)
        torch.testing.assert_close(round_it, expected, rtol=1e-6, atol=1e-6)
        assert abs(float(outwards)) < 1e-6


def test_starts_of_balls_and_free_joints_are_random(device):
    builder = sim.ModelBuilder()
    builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("base", "free", child="body")
    builder.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("ball", "spherical", parent="body", child="arm")
    robot = sim.torch.Robot(builder.finalize("float64"), device=device)
    ranges = joint_ranges(robot.model, robot.lower_limit, robot.upper_limit)
    first = robot.initial_coordinates().repeat(2, 1)
    first[:, :3] = torch.tensor([1.0, 2.0, 3.0])
    starts = ranges.random(first, 500, seed=0)
    assert torch.equal(starts[:, 0], first)
    assert torch.equal(starts[..., :3], first[:, None, :3].expand(-1, 500, -1))
    for turn in (starts[:, 1:, 3:7], starts[:, 1:, 7:]):
        torch.testing.assert_close(turn.norm(dim=-1), torch.ones_like(turn[..., 0]))
        second_moment = turn.reshape(-1, 4).T @ turn.reshape(-1, 4) / turn[..., 0].numel()
        torch.testing.assert_close(second_moment.cpu(), 0.25 * torch.eye(4).double(), rtol=0.0, atol=0.03)
    assert torch.equal(ranges.random(first, 500, seed=0), starts)
    assert not torch.equal(ranges.random(first, 500, seed=1), starts)


@pytest.mark.parametrize(
    ("limits", "tried"),
    [
        ((-1.0, 2.0), (-1.0, 2.0)),
        ((0.0, 6.0), (0.0, 6.0)),
        ((3.5, 6.0), (3.5, 6.0)),
        ((-20.0, -14.0), (-20.0, -14.0)),
        ((-7.0, 7.0), (-np.pi, np.pi)),
        ((-np.inf, np.inf), (-np.pi, np.pi)),
        ((-np.inf, 1.0), (1.0 - 2.0 * np.pi, 1.0)),
        ((5.0, np.inf), (5.0, 5.0 + 2.0 * np.pi)),
    ],
)
def test_starts_of_axes_are_all_over_their_range(limits, tried, device):
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", "revolute", child="arm", limits=sim.Limits(limits[0], limits[1]))
    robot = sim.torch.Robot(builder.finalize("float64"), device=device)
    ranges = joint_ranges(robot.model, robot.lower_limit, robot.upper_limit)
    starts = ranges.random(robot.initial_coordinates()[None], 2000, seed=0)[0, 1:, 0].cpu()
    span = tried[1] - tried[0]
    assert tried[0] <= starts.min() < tried[0] + 0.01 * span
    assert tried[1] - 0.01 * span < starts.max() <= tried[1]


def test_targets_of_joints_far_from_zero_are_reached(device):
    """Two joints that turn between 190 and 355 degrees, as some drives count; every target is one of theirs."""
    builder = sim.ModelBuilder()
    for number, parent in enumerate(("world", "link0")):
        builder.add_link(f"link{number}", mass=1.0, inertia=(1.0, 1.0, 1.0))
        builder.add_joint(
            f"joint{number}", "revolute", parent=parent, child=f"link{number}", position=(number, 0.0, 0.0),
            axis=(0.0, 0.0, 1.0), limits=sim.Limits(3.3, 6.2),
        )  # fmt: skip
    builder.add_frame("tip", link="link1", position=(1.0, 0.0, 0.0))
    robot = sim.torch.Robot(builder.finalize("float64"), device=device)
    q = torch.as_tensor(np.random.default_rng(0).uniform(3.3, 6.2, (200, 2)), device=device)
    found = robot.inverse_kinematics("tip", *robot.forward_kinematics(q, "tip"))
    assert found.success.double().mean() > 0.95
