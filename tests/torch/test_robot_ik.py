"""Inverse kinematics against forward kinematics, and its derivatives against differences of solutions."""

import copy

import numpy as np
import pytest
import torch

import sim
from sim.torch.robot import inverse_kinematics as robot_ik
from sim.torch.robot.inverse_kinematics import rotation_between
from tests.errors import quietly, raises_naming
from tests.importers.reference import ROBOTS


def load(name: str, device: str, dtype: torch.dtype = torch.float64) -> sim.torch.Robot:
    if not ROBOTS[name].is_file():
        pytest.skip(f"{ROBOTS[name]} is not installed")
    return quietly(sim.torch.Robot, ROBOTS[name], dtype=dtype, device=device)


def random_coordinates(robot: sim.torch.Robot, *batch: int) -> torch.Tensor:
    """In the inner nine tenths of the limits."""
    chance = torch.tensor(np.random.default_rng(0).uniform(0.05, 0.95, (*batch, robot.nq)))
    low, high = (x.clamp(-3.0, 3.0) for x in (robot.lower_limit, robot.upper_limit))
    return low + chance.to(low) * (high - low)


@pytest.mark.cpu_shapes
@pytest.mark.parametrize("name", ["panda", "iiwa", "ur5"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reachable_targets_are_reached(name, dtype, device):
    robot = load(name, device, dtype)
    tip = robot.link_names[-1]
    position, quaternion = robot.forward_kinematics(random_coordinates(robot, 32), tip)
    found = robot.inverse_kinematics(tip, position, quaternion, restarts=16)
    # Random starts: nearly all.
    assert found.success.sum() >= 31
    assert (found.q >= robot.lower_limit).all()
    assert (found.q <= robot.upper_limit).all()
    there, turned = robot.forward_kinematics(found.q, tip)
    distance = (there - position).norm(dim=-1)
    torch.testing.assert_close(found.position_error, distance, rtol=0.0, atol=1e-6)
    angle = 2.0 * torch.acos((turned * quaternion).sum(-1).abs().clamp(max=1.0))
    assert (angle[found.success] < 2e-3).all()
    assert (distance[found.success] < 1e-4).all()
    again = robot.inverse_kinematics(tip, position, quaternion, restarts=16)
    assert torch.equal(again.q, found.q)


def test_positions_alone_in_any_batch_shape(device):
    robot = load("panda", device)
    position, _ = robot.forward_kinematics(random_coordinates(robot, 2, 3), "panda_hand")
    found = robot.inverse_kinematics("panda_hand", position)
    assert found.q.shape == (2, 3, robot.nq)
    assert found.success.all()
    assert not found.rotation_error.any()
    alone = robot.inverse_kinematics("panda_hand", position[0, 0], start=found.q[0, 0], restarts=1)
    assert torch.equal(alone.q, found.q[0, 0])
    several = robot.inverse_kinematics("panda_hand", position[0], start=found.q[:, None, 0], restarts=1)
    assert several.q.shape == (2, 3, robot.nq)
    assert torch.equal(several.q[0, 0], found.q[0, 0])


@pytest.mark.parametrize("name", ["ur5", "panda"])
def test_gradients_in_targets(name, device):
    """Solved again from the solution for targets a little apart: for Panda the smallest change among many."""
    robot = load(name, device)
    tip = robot.link_names[-1]
    tight = {"restarts": 1, "iterations": 30, "position_tolerance": 1e-13, "rotation_tolerance": 1e-13}
    start = random_coordinates(robot, 4)
    position, quaternion = robot.forward_kinematics(start, tip)
    directions = [torch.tensor(np.random.default_rng(k).normal(size=(4, n))).to(device) for k, n in ((1, 3), (2, 4))]
    h = 1e-5

    def moved(by: float) -> torch.Tensor:
        goals = (x + by * d for x, d in zip((position, quaternion), directions, strict=True))
        return robot.inverse_kinematics(tip, *goals, start=start, **tight).q

    difference = (moved(h) - moved(-h)) / (2.0 * h)
    leaves = [x.clone().requires_grad_() for x in (position, quaternion)]
    q = robot.inverse_kinematics(tip, *leaves, start=start, **tight).q
    torch.testing.assert_close(q.detach(), start, rtol=0.0, atol=1e-12)
    for k in range(robot.nq):
        gradients = torch.autograd.grad(q[:, k].sum(), leaves, retain_graph=True)
        found = sum((g * d).sum(-1) for g, d in zip(gradients, directions, strict=True))
        torch.testing.assert_close(found, difference[:, k], rtol=1e-5, atol=1e-5)


def test_gradient_in_a_placement(device):
    """Of the solution's first coordinates in the origin of a joint, by differences."""
    robot = load("ur5", device)
    tip = robot.link_names[-1]
    tight = {"restarts": 1, "iterations": 30, "position_tolerance": 1e-13, "rotation_tolerance": 1e-13}
    start = random_coordinates(robot, 2)
    position, quaternion = robot.forward_kinematics(start, tip)
    module = robot.learn_quantity(robot.joint_names[2], "translation")
    q = robot.inverse_kinematics(tip, position, quaternion, start=start, **tight).q
    (found,) = torch.autograd.grad(q.sum(), list(module.parameters()))
    h = 1e-6
    for k in range(3):
        values = []
        for sign in (1, -1):
            other = copy.deepcopy(robot)
            with torch.no_grad():
                next(other.learnt.parameters())[k] += sign * h
                values.append(other.inverse_kinematics(tip, position, quaternion, start=start, **tight).q.sum())
        torch.testing.assert_close(found[k], (values[0] - values[1]) / (2 * h), rtol=1e-5, atol=1e-5)


def test_a_target_beyond_a_limit(device):
    """The arm stops at its limit, and says that it isn't there; the joint at the limit has no gradient."""
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", "revolute", child="arm", limits=sim.Limits(-1.0, 0.5))
    builder.add_frame("tip", "arm", position=(1.0, 0.0, 0.0))
    robot = sim.torch.Robot(builder.finalize("float64"), device=device)
    target = torch.tensor([np.cos(0.9), np.sin(0.9), 0.0], device=device, requires_grad=True)
    found = robot.inverse_kinematics("tip", target)
    assert found.q.tolist() == [0.5]
    assert not found.success
    assert abs(float(found.position_error) - 2.0 * np.sin(0.2)) < 1e-12
    assert not torch.autograd.grad(found.q.sum(), target)[0].any()


@pytest.mark.cpu_shapes
def test_torchs_default_device_may_be_another(device):
    """As after ``torch.set_default_device("cuda")``, whose random numbers can't come from a generator on the CPU."""
    robot = load("panda", device)
    tip = robot.link_names[-1]
    position, quaternion = robot.forward_kinematics(random_coordinates(robot, 4), tip)
    expected = robot.inverse_kinematics(tip, position, quaternion)
    with torch.device("meta"):
        found = robot.inverse_kinematics(tip, position, quaternion)
    assert torch.equal(found.q, expected.q)


def test_a_step_that_rounding_makes_singular_is_damped_more(monkeypatch, device):
    """Where damping has become so small that float32 doesn't see it; an oblique slider gives a matrix of rank one."""
    builder = sim.ModelBuilder()
    builder.add_link("sled", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("slider", "prismatic", child="sled", axis=(1.0, 1.0, 1.0), limits=sim.Limits(-2.0, 2.0))
    robot = sim.torch.Robot(builder.finalize("float32"), device=device)
    monkeypatch.setattr(robot_ik, "DAMPING", 1e-9)
    found = robot.inverse_kinematics("sled", torch.full((1, 3), 0.5, device=device), restarts=1)
    assert found.success.all()
    torch.testing.assert_close(found.q, torch.full((1, 1), 0.75**0.5, device=device), rtol=0.0, atol=1e-4)


def test_rotation_between_quaternions():
    """From half a turn to none, whatever the signs; the derivative is right at none."""
    axis = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    start = torch.tensor([0.1, -0.3, 0.2, 0.9], dtype=torch.float64)
    start = start / start.norm()
    for angle in (0.0, 1e-9, 1e-5, 1e-3, 1.0, 3.0):
        v, w = axis * np.sin(angle / 2), np.cos(angle / 2)
        u, s = start[:3], start[3]
        end = torch.cat([w * u + s * v + torch.linalg.cross(v, u), (w * s - v @ u).reshape(1)])
        for sign in (1.0, -1.0):
            torch.testing.assert_close(rotation_between(start, sign * end), angle * axis, rtol=1e-9, atol=1e-15)
    assert torch.autograd.gradcheck(lambda x: rotation_between(start, x), (start.clone().requires_grad_(),))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("nowhere", torch.zeros(3)), {}, "no frame named 'nowhere'"),
        (("arm", torch.zeros(2)), {}, r"position has shape \(2,\); expected \(..., 3\)"),
        (("arm", None), {}, "position is a NoneType; expected a torch.Tensor"),
        (("arm", torch.zeros(3)), {"restarts": 0}, "restarts is 0"),
        (("arm", torch.zeros(3)), {"restarts": 2.5}, "restarts is 2.5"),
        (("arm", torch.zeros(3)), {"iterations": 2.5}, "iterations is 2.5; it must be a whole number, zero or more"),
        (("arm", torch.zeros(3)), {"position_tolerance": -1e-4}, "position_tolerance is -0.0001; it must not be neg"),
        (("arm", torch.zeros(3)), {"rotation_tolerance": -1.0}, "rotation_tolerance is -1.0; it must not be neg"),
        (("arm", torch.zeros(3)), {"rotation_tolerance": float("nan")}, "rotation_tolerance is nan; expected one num"),
        (("arm", torch.zeros(3).double()), {}, "position is torch.float64 on cpu, but the robot is torch.float32"),
        (("arm", torch.zeros(3), torch.ones(4).double()), {}, "quaternion is torch.float64 on cpu, but the robot is"),
        (("arm", torch.zeros(3)), {"start": torch.zeros(1).double()}, "start is torch.float64 on cpu, but the robot"),
        (("arm", torch.zeros(3), torch.zeros(3)), {}, r"quaternion has shape \(3,\); expected \(..., 4\)"),
        (("arm", torch.zeros(3)), {"start": torch.zeros(2)}, r"start has shape \(2,\); expected \(..., 1\)"),
        (("arm", torch.zeros(3)), {"seed": 2**64}, "seed is 18446744073709551616; it must be a whole number of up to"),
        (("arm", torch.zeros(3), torch.zeros(4)), {}, "quaternion is zero and stands for no rotation"),
        (("arm", torch.zeros(3), torch.eye(5)[:, :4]), {}, r"quaternion\[4\] is zero and stands for no rotation"),
        (("arm", torch.zeros(3), torch.full((4,), torch.nan)), {}, "quaternion isn't finite"),
        (("arm", torch.tensor([[0.0, 0, 1], [0, 0, torch.nan]])), {}, r"position\[1\] isn't finite"),
        (("arm", torch.zeros(3)), {"start": torch.full((2, 1), torch.inf)}, r"start\[0\] isn't finite"),
        (
            ("arm", torch.zeros(2, 3)),
            {"start": torch.zeros(3, 1)},
            r"batch shapes don't fit each other: position \(2, 3\), start \(3, 1\)",
        ),
    ],
)
def test_misuse(arguments, options, message):
    builder = sim.ModelBuilder()
    builder.add_link("arm", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("hinge", "revolute", child="arm", limits=sim.Limits(-1.0, 0.5))
    with pytest.raises(sim.ModelError, match=message):
        sim.torch.Robot(builder.finalize()).inverse_kinematics(*arguments, **options)


@pytest.mark.cpu_shapes
def test_defaults_of_torch_change_nothing(device):
    """The random starts too."""
    robot = load("ur5", device)
    position, _ = robot.forward_kinematics(random_coordinates(robot, 3), robot.link_names[-1])
    expected = robot.inverse_kinematics(robot.link_names[-1], position).q
    with torch.device("meta"):
        found = robot.inverse_kinematics(robot.link_names[-1], position).q
    assert torch.equal(found, expected)


def test_a_tolerance_of_zero_gives_the_best_try(device):
    """From 30 starts, most of which end elsewhere; the same ones with any tolerance that isn't reached."""
    robot = load("ur5", device)
    tip = robot.link_names[-1]
    position, quaternion = robot.forward_kinematics(random_coordinates(robot, 8), tip)
    options = {"start": torch.zeros(robot.nq, dtype=torch.float64, device=device), "iterations": 40, "restarts": 30}
    small = {"position_tolerance": 1e-30, "rotation_tolerance": 1e-30}
    for zeros in (("position_tolerance",), ("rotation_tolerance",), tuple(small)):
        found = robot.inverse_kinematics(tip, position, quaternion, **options, **{**small, **dict.fromkeys(zeros, 0.0)})
        assert (found.position_error < 1e-6).all()
        assert (found.rotation_error < 1e-6).all()
    there = robot.initial_coordinates()
    exact = robot.forward_kinematics(there, tip)[0]
    assert robot.inverse_kinematics(tip, exact, position_tolerance=0.0, rotation_tolerance=0.0).success


def test_transforms_of_torch_func(device):
    """jacrev gives what autograd gives; vmap is refused by name, and a batch does the same."""
    robot = load("ur5", device)
    tip = robot.link_names[-1]
    start = random_coordinates(robot, 2)
    position, _ = robot.forward_kinematics(start, tip)
    solve = lambda target: robot.inverse_kinematics(tip, target, start=start[0]).q  # noqa: E731
    found = torch.func.jacrev(solve)(position[0])
    torch.testing.assert_close(found, torch.autograd.functional.jacobian(solve, position[0]))
    with raises_naming("torch.func.vmap", "targets"):
        torch.func.vmap(solve)(position)


@pytest.mark.cpu_shapes
def test_compile_leaves_the_search_out_of_its_graphs(device, caplog):
    robot = load("ur5", device)
    position, _ = robot.forward_kinematics(random_coordinates(robot, 2), robot.link_names[-1])
    solve = lambda target: robot.inverse_kinematics(robot.link_names[-1], target).q  # noqa: E731
    torch._dynamo.reset()
    assert torch.equal(torch.compile(solve, backend="eager")(position), solve(position))
    torch._dynamo.reset()
    assert "Graph break" not in caplog.text


def test_placements_for_each_row_need_a_single_try(device):
    robot = load("ur5", device)
    tip = robot.link_names[-1]
    start = random_coordinates(robot, 2)
    robot.joint_placement = robot.joint_placement * torch.tensor([1.0, 1.01], device=device)[:, None, None]
    position, _ = robot.forward_kinematics(start, tip)
    assert robot.inverse_kinematics(tip, position, start=start, restarts=1).success.all()
    with raises_naming("'joint_placement'", "inverse kinematics"):
        robot.inverse_kinematics(tip, position)
