"""What other libraries are known to get wrong, one test each, against Pinocchio or a closed form."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import sim
from sim.errors import URDFWarning

pin = pytest.importorskip("pinocchio")

from tests.dynamics.peer import Peer  # noqa: E402
from tests.dynamics.states import relative_error  # noqa: E402
from tests.errors import refuses  # noqa: E402
from tests.torch.robots import state, zoo_robot  # noqa: E402

INERTIAL = """<inertial><origin xyz="0.1 -0.05 0.2" rpy="0.4 -0.7 1.1"/><mass value="1.7"/>
  <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0.001" ixz="-0.002" iyz="0.003"/></inertial>"""
ROBOT = f"""<robot name="traps">
  <link name="base"/>
  <link name="slide">{INERTIAL}</link>
  <link name="turn">{INERTIAL}</link>
  <link name="bare"/>
  <link name="tip">{INERTIAL}</link>
  <link name="tool"/>
  <joint name="prismatic" type="prismatic"><parent link="base"/><child link="slide"/>
    <origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 -0.5"/><axis xyz="1 2 -1"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/>
    <dynamics damping="0.3"/></joint>
  <joint name="continuous" type="continuous"><parent link="slide"/><child link="turn"/>
    <origin xyz="0 0.3 0.1" rpy="-0.4 0.1 0.9"/><axis xyz="0.3 -0.4 1.2"/>
    <dynamics damping="0.2" friction="0.4"/></joint>
  <joint name="weld" type="fixed"><parent link="turn"/><child link="bare"/>
    <origin xyz="0.2 0 0.1" rpy="0.5 0.6 0.7"/></joint>
  <joint name="hinge" type="revolute"><parent link="bare"/><child link="tip"/>
    <origin xyz="0.05 0.1 0.2" rpy="1 0 0.3"/><axis xyz="0 1 1"/>
    <limit lower="-2" upper="1.5" effort="3" velocity="1"/></joint>
  <joint name="mount" type="fixed"><parent link="tip"/><child link="tool"/>
    <origin xyz="0.1 0.1 0.1" rpy="0 0.2 0"/></joint>
</robot>"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "traps.urdf"
    file.write_text(ROBOT)
    return file


def both(path: Path, device: str, dtype: torch.dtype = torch.float64) -> tuple[sim.torch.Robot, Peer]:
    return sim.torch.Robot(path, dtype=dtype, device=device), Peer(
        sim.load(path, dtype="float64"), pin.buildModelFromUrdf(str(path))
    )


def random_inputs(seed: int, *shape: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.0, 1.0, shape) for _ in range(3)]


def test_oblique_axes_rotated_inertias_links_without_inertial(path, device):
    robot, peer = both(path, device)
    state = random_inputs(0, 5, 3)
    tensors = [torch.tensor(x, device=device) for x in state]
    tau = np.array([peer.inverse_dynamics(*each) for each in zip(*state, strict=True)])
    assert relative_error(robot.inverse_dynamics(*tensors).cpu().numpy(), tau) < 1e-12
    poses = np.array([peer.frames(q, ["bare", "tool"]) for q in state[0]])
    found = robot.forward_kinematics_matrix(tensors[0], ["bare", "tool"])
    assert relative_error(found.cpu().numpy(), poses) < 1e-13


def test_a_moving_link_without_inertial_is_refused_by_dynamics_alone(tmp_path, device):
    file = tmp_path / "bare.urdf"
    file.write_text(
        '<robot name="bare"><link name="base"/><link name="arm"/><joint name="j" type="continuous">'
        '<parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint></robot>'
    )
    with pytest.warns(URDFWarning, match="no inertial data"):
        robot = sim.torch.Robot(file, device=device)
    q = torch.tensor([0.5], device=device)
    torch.testing.assert_close(robot.forward_kinematics(q, "arm")[1][2], torch.tensor(math.sin(0.25), device=device))
    refuses(lambda: robot.inverse_dynamics(q, q, q), "masses", "links", "'arm'")
    refuses(lambda: robot.forward_dynamics(q, q, q), "masses", "links", "'arm'")
    robot.mass[1] = 2.0
    refuses(lambda: robot.forward_dynamics(q, q, q), "joint 'j'", "direction", "inertia")
    robot.inertia[1] = 0.1 * torch.eye(3)
    torch.testing.assert_close(robot.mass_matrix(q), torch.tensor([[0.1]], device=device))
    torch.testing.assert_close(robot.forward_dynamics(q, q, q), torch.tensor([5.0], device=device))


def test_limits_and_names(path, device):
    robot, _ = both(path, device)
    assert robot.joint_names == ("prismatic", "continuous", "hinge")
    assert robot.lower_limit.tolist() == [-1.0, -math.inf, -2.0]
    assert robot.upper_limit.tolist() == [1.0, math.inf, 1.5]
    assert robot.effort_limit.tolist() == [5.0, math.inf, 3.0]
    assert robot.velocity_limit.tolist() == [2.0, math.inf, 1.0]


def test_many_turns_of_a_continuous_joint(path, device):
    robot, _ = both(path, device)
    q = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64, device=device)
    turns = q + torch.tensor([0.0, 2000 * math.pi, 0.0], dtype=torch.float64, device=device)
    for one, other in zip(robot.forward_kinematics(q, "tool"), robot.forward_kinematics(turns, "tool"), strict=True):
        torch.testing.assert_close(one.abs(), other.abs(), rtol=0, atol=1e-11)


def test_origins_on_both_sides_of_a_fixed_joint_are_learnt(path, device):
    """Every placement, those of fixed joints too, by central differences of a position and a quaternion."""
    robot, _ = both(path, device)
    robot.learn("joint_placement")
    q = torch.tensor(random_inputs(1, 4, 3)[0], device=device)
    weight = torch.tensor(np.random.default_rng(2).normal(size=(4, 7)), device=device)

    def loss() -> torch.Tensor:
        return (torch.cat(robot.forward_kinematics(q, "tool"), dim=-1) * weight).sum()

    loss().backward()
    found = robot.joint_placement.grad.clone()
    expected = torch.zeros_like(found)
    h = 1e-6
    with torch.no_grad():
        for index in np.ndindex(*found.shape):
            values = []
            for sign in (1, -1):
                robot.joint_placement[index] += sign * h
                values.append(loss())
                robot.joint_placement[index] -= sign * h
            expected[index] = (values[0] - values[1]) / (2 * h)
    assert (expected.abs().amax(dim=1) > 1e-3).all()
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)


def test_gradient_through_quaternions_at_half_a_turn(device):
    """The scalar part goes through zero there; the derivative of the quaternion of a turn by q is known."""
    builder = sim.ModelBuilder()
    builder.add_link("wheel", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("axle", "continuous", child="wheel", axis=(0.0, 0.6, 0.8))
    robot = sim.torch.Robot(builder.finalize("float64"), device=device)
    for angle in (math.pi, math.pi - 1e-9, 0.0, 1e-9, -math.pi, 2.0 * math.pi):
        q = torch.tensor([angle], dtype=torch.float64, device=device)
        rows = torch.func.jacrev(lambda q: robot.forward_kinematics(q, "wheel")[1])(q)[:, 0]
        half = angle / 2.0
        expected = [0.0, 0.3 * math.cos(half), 0.4 * math.cos(half), -0.5 * math.sin(half)]
        np.testing.assert_allclose(rows.cpu().numpy(), expected, atol=1e-14)


def test_damping_leaves_the_callers_tensor_alone(path, device):
    robot, peer = both(path, device)
    q, qd, tau = (torch.tensor(x, device=device) for x in random_inputs(3, 3))
    kept = tau.clone()
    first = robot.forward_dynamics(q, qd, tau)
    assert torch.equal(tau, kept)
    assert torch.equal(robot.forward_dynamics(q, qd, tau), first)
    expected = peer.forward_dynamics(*(x.cpu().numpy() for x in (q, qd, tau)))
    assert relative_error(first.cpu().numpy(), expected) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_base_a_hundred_metres_away(dtype, path, device):
    """All that doesn't depend on where the base is stays the same."""
    here = sim.torch.Robot(path, dtype=dtype, device=device)
    there = sim.torch.Robot(path, dtype=dtype, device=device, position=(100.0, -100.0, 20.0))
    q, qd, qdd = (torch.tensor(x, dtype=dtype, device=device) for x in random_inputs(4, 6, 3))
    tolerance = {"rtol": 0.0, "atol": 1e-6 if dtype == torch.float32 else 1e-14}
    for name, arguments in (
        ("inverse_dynamics", (q, qd, qdd)),
        ("forward_dynamics", (q, qd, qdd)),
        ("mass_matrix", (q,)),
        ("centroidal_momentum", (q, qd)),
    ):
        one, other = (getattr(robot, name)(*arguments) for robot in (here, there))
        torch.testing.assert_close(one, other, **tolerance)
    one, other = (robot.jacobian(q, "tool") for robot in (here, there))
    torch.testing.assert_close(one, other, **tolerance)


def test_floating_base_and_its_quaternion(path, device):
    """A quaternion twice as long is the same rotation; its gradient is tangent and half as long."""
    robot = sim.torch.Robot(path, dtype=torch.float64, device=device, floating_base=True)
    rng = np.random.default_rng(5)
    q = torch.tensor(np.concatenate([rng.normal(size=3), Rotation.random(rng=rng).as_quat(), rng.normal(size=3)]))
    q = q.to(device)
    longer = q.clone()
    longer[3:7] *= 2.0
    weight = torch.tensor(rng.normal(size=(4, 4)), device=device)

    def gradient(q: torch.Tensor) -> torch.Tensor:
        q = q.clone().requires_grad_()
        return torch.autograd.grad((robot.forward_kinematics_matrix(q, "tool") * weight).sum(), q)[0]

    one, two = gradient(q), gradient(longer)
    torch.testing.assert_close(one[3:7], 2.0 * two[3:7])
    assert abs(float(one[3:7] @ q[3:7])) < 1e-13
    assert one[3:7].norm() > 1e-2


def test_what_a_frame_does_not_depend_on_is_not_looked_at(device):
    """Coordinates off the way to the frames may be anything."""
    robot = zoo_robot(device)
    q = state(robot, (3,))[0]
    calls = (
        lambda q: robot.forward_kinematics_matrix(q, ("link3", "link1")),
        lambda q: torch.cat(robot.forward_kinematics(q, "link3"), dim=-1),
        lambda q: robot.jacobian(q, ("link1", "link3")),
    )
    path = set()
    link = robot.model.link("link3")
    ends = [*robot.model.joint_q_start[1:], robot.nq]
    while link >= 0:
        path |= set(range(robot.model.joint_q_start[link], ends[link]))
        link = robot.model.link_parent[link]
    others = [k for k in range(robot.nq) if k not in path]
    assert others
    wild = q.clone()
    wild[:, others] = torch.nan
    for call in calls:
        leaves = [x.requires_grad_() for x in (q.clone(), wild.clone())]
        tame, found = (call(x) for x in leaves)
        assert torch.equal(found, tame)
        slopes = [torch.autograd.grad(y.square().sum(), x)[0] for x, y in zip(leaves, (tame, found), strict=True)]
        assert torch.equal(slopes[0], slopes[1])
        assert not slopes[0][:, others].any()


def test_a_placement_with_a_quaternion_of_zeros_is_not_turned(device):
    """Such a quaternion has no derivative, and is given none; the others of the robot have theirs."""
    robot = zoo_robot(device).learn("joint_placement")
    q = state(robot, (3,))[0]
    gradients = []
    for w in (1.0, 0.0):
        robot.joint_placement.data[5, 3:] = torch.tensor([0.0, 0.0, 0.0, w])
        loss = robot.forward_kinematics_matrix(q, "link5")[..., :3].pow(3).sum()
        gradients.append(torch.autograd.grad(loss, robot.joint_placement)[0])
    expected, found = gradients
    assert expected[5, 3:].norm() > 0.1
    expected[5, 3:] = 0.0
    assert torch.equal(found, expected)
    robot.joint_placement.data[5, 3:] = 0.0
    turned = zoo_robot(device)
    turned.joint_placement[5, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    assert torch.equal(robot.mass_matrix_inverse(q), turned.mass_matrix_inverse(q))


@pytest.mark.parametrize("name", ["mass", "com", "inertia", "joint_placement", "armature"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_parameters_that_are_not_finite_are_named(name, value, device):
    """As a step of an optimiser may leave them, by what divides by the mass matrix."""
    robot = zoo_robot(device)
    getattr(robot, name)[-1] = value
    q, qd, qdd, _ = state(robot, (2,))
    for call in (lambda: robot.mass_matrix_inverse(q), lambda: robot.forward_dynamics(q, qd, qdd)):
        with pytest.raises(sim.ModelError, match=f"parameter '{name}' isn't finite"):
            call()


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit.*deprecated")
def test_a_trace_would_hold_nothing(device):
    """What kernels write is no operation of torch's: a trace would return memory that nobody has written."""
    robot = zoo_robot(device)
    q = state(robot, (2,))[0]
    for _ in range(4):
        robot(q, "link5")
    message = r"torch\.jit\.trace, torch\.export or make_fx"
    with pytest.raises(RuntimeError, match=message):
        torch.jit.trace(robot, (q,))
    with pytest.raises(RuntimeError, match=message):
        torch.export.export(robot, (q, "link5"))
    with pytest.raises(RuntimeError, match=message):
        make_fx(lambda q: robot(q, "link5"))(q)
    with FlopCounterMode(display=False):  # a mode that records nothing
        robot(q, "link5")
