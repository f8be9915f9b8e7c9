"""The interface of Differentiable Robot Models: the same program with another import."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from sim.torch import drm

pin = pytest.importorskip("pinocchio")

from tests.dynamics.states import relative_error  # noqa: E402
from tests.errors import raises_naming, refuses  # noqa: E402
from tests.importers.reference import ROBOTS  # noqa: E402

# Depth first the joints are those of a, c, b; in the order of the links a, b, c.
JOINT = """<joint name="j{child}" type="continuous"><parent link="{parent}"/><child link="{child}"/>
  <origin xyz="0.1 {y} 0.2" rpy="0.1 0.2 0.3"/><axis xyz="0 0 1"/>
  <dynamics damping="{damping}" friction="0.5"/></joint>"""
INERTIAL = """<link name="{name}"><inertial><origin xyz="0.05 0 0.1"/><mass value="{mass}"/>
  <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    links = "".join(INERTIAL.format(name=name, mass=mass) for name, mass in zip("abc", (1.0, 2.0, 3.0), strict=True))
    chain = [("base", "a"), ("base", "b"), ("a", "c")]
    joints = "".join(
        JOINT.format(parent=parent, child=child, y=0.1 * k, damping=0.1 * (k + 1))
        for k, (parent, child) in enumerate(chain)
    )
    file = tmp_path / "branches.urdf"
    file.write_text(f'<robot name="branches"><link name="base"/>{links}{joints}</robot>')
    return file


def inputs(robot: drm.DifferentiableRobotModel, *batch: int) -> list[torch.Tensor]:
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.uniform(-1, 1, (*batch, robot._n_dofs)), device=robot._device) for _ in range(3)]


def test_joints_stand_in_the_order_of_the_links(path, device):
    robot = drm.DifferentiableRobotModel(path, device=device).double()
    assert robot.robot.joint_names == ("ja", "jc", "jb")
    assert robot.get_link_names() == ["base", "a", "b", "c"]
    q, qd, qdd = inputs(robot, 4)
    q[:, 0] = 0.3
    q[:, 2] = 0.0
    positions = robot.compute_forward_kinematics_all_links(q)
    # b moves with the second coordinate alone.
    q[:, 0] = -2.0
    for before, after in zip(positions["b"], robot.compute_forward_kinematics(q, "b"), strict=True):
        torch.testing.assert_close(before, after)
    linear, angular = robot.compute_endeffector_jacobian(q, "c")
    assert linear[..., 1].abs().max() == angular[..., 1].abs().max() == 0.0
    assert angular[..., 0].norm() > 1.0
    assert angular[..., 2].norm() > 1.0
    tau = robot.compute_inverse_dynamics(q, qd, qdd)
    matrix = robot.compute_lagrangian_inertia_matrix(q)
    effects = robot.compute_non_linear_effects(q, qd)
    torch.testing.assert_close(torch.einsum("wij,wj->wi", matrix, qdd) + effects, tau)
    torch.testing.assert_close(robot.compute_forward_dynamics(q, qd, tau, use_damping=True), qdd)


def test_gravity_and_damping_are_left_out(path, device):
    robot = drm.DifferentiableRobotModel(path, device=device).double()
    q, qd, qdd = inputs(robot)
    damping = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64, device=device) * qd
    zero = torch.zeros_like(q)
    whole = robot.compute_inverse_dynamics(q, qd, qdd)
    gravity = robot.compute_inverse_dynamics(q, zero, zero)
    without = robot.compute_inverse_dynamics(q, qd, qdd, include_gravity=False, use_damping=False)
    torch.testing.assert_close(without + gravity + damping, whole)
    kept = without.clone()
    found = robot.compute_forward_dynamics(q, qd, without, include_gravity=False)
    torch.testing.assert_close(found, qdd)
    assert torch.equal(without, kept)
    torch.testing.assert_close(robot.compute_forward_dynamics_old(q, qd, whole), qdd)


def test_dry_friction_is_left_out(path, device):
    """As in the original: without dampers torques of motion are the same in both directions."""
    robot = drm.DifferentiableRobotModel(path, device=device).double()
    q, qd, _ = inputs(robot)
    there, back = (robot.compute_non_linear_effects(q, sign * qd, use_damping=False) for sign in (1.0, -1.0))
    torch.testing.assert_close(there, back)
    robot.robot.save_urdf(path.with_name("again.urdf"))
    assert path.with_name("again.urdf").read_text().count('friction="0.5"') == 3


PARAMETERS = [
    ("mass", drm.PositiveScalar(min_val=0.1, init_param=torch.tensor(2.0)), 2.0),
    ("mass", drm.UnconstrainedScalar(init_val=torch.tensor([1.5])), 1.5),
    ("com", drm.UnconstrainedTensor(1, 3, init_tensor=torch.tensor([[0.1, 0.2, 0.3]])), [0.1, 0.2, 0.3]),
    ("inertia_mat", drm.SymmPosDef3DInertiaMatrixNet(init_param=torch.diag(torch.tensor([3.0, 1.0, 2.5]))), None),
    ("inertia_mat", drm.CovParameterized3DInertiaMatrixNet(init_param=torch.diag(torch.tensor([3.0, 1.0, 2.5]))), None),
    ("trans", drm.UnconstrainedTensor(1, 3), None),
    ("rot_angles", drm.UnconstrainedTensor(1, 3), None),
    ("joint_damping", drm.PositiveScalar(), None),
]


@pytest.mark.parametrize(("name", "module", "value"), PARAMETERS)
def test_a_parameter_is_learnt(name, module, value, path, device):
    robot = drm.DifferentiableRobotModel(path, device=device)
    robot.make_link_param_learnable("c", name, module)
    q, qd, qdd = (x.float() for x in inputs(robot, 5))
    robot.compute_inverse_dynamics(q, qd, qdd).square().sum().backward()
    (parameter,) = robot.parameters()
    assert parameter.grad.abs().max() > 1e-6
    robot.freeze_learnable_link_param("c", name)
    assert not parameter.requires_grad
    robot.unfreeze_learnable_link_param("c", name)
    assert parameter.requires_grad
    if value is not None:
        torch.testing.assert_close(module().squeeze(), torch.tensor(value, device=device))


@pytest.mark.parametrize("net", [drm.SymmPosDef3DInertiaMatrixNet, drm.CovParameterized3DInertiaMatrixNet])
def test_inertias_start_where_they_should_and_stay_physical(net):
    turn = torch.tensor(Rotation.from_rotvec([0.3, -0.5, 0.7]).as_matrix(), dtype=torch.float32)
    start = turn @ torch.diag(torch.tensor([0.3, 0.1, 0.25])) @ turn.T
    torch.testing.assert_close(net(init_param=start)(), start)
    torch.manual_seed(0)
    for _ in range(20):
        moments = torch.linalg.eigvalsh(net(init_param_std=2.0)())
        # Positive in exact arithmetic; the matrix itself is rounded to float32, relative to its largest entry.
        assert moments[0] > -1e-6 * moments[2]
        if net is drm.CovParameterized3DInertiaMatrixNet:
            assert moments[0] + moments[1] >= moments[2] * (1.0 - 1e-5)


def test_roll_pitch_and_yaw_are_those_of_a_file(path, device):
    robot = drm.DifferentiableRobotModel(path, device=device).double()
    q = inputs(robot)[0]
    before = robot.compute_forward_kinematics(q, "c")
    angles = drm.UnconstrainedTensor(1, 3, init_tensor=torch.tensor([[0.1, 0.2, 0.3]], dtype=torch.float64))
    robot.make_link_param_learnable("c", "rot_angles", angles)
    for one, other in zip(robot.compute_forward_kinematics(q, "c"), before, strict=True):
        torch.testing.assert_close(one, other)


def test_limits_and_errors(path, device, capsys):
    robot = drm.DifferentiableRobotModel(path, device=device)
    assert robot.get_joint_limits()[0] == {name: s * math.inf for name, s in (("lower", -1), ("upper", 1))} | {
        "velocity": math.inf,
        "effort": math.inf,
    }
    with raises_naming("unknown", "parameter 'friction'"):
        robot.make_link_param_learnable("c", "friction", drm.PositiveScalar())
    refuses(lambda: robot.freeze_learnable_link_param("c", "mass"), "mass", "'c'")
    robot.make_link_param_learnable("c", "mass", drm.PositiveScalar())
    robot.print_learnable_params()
    robot.print_link_names()
    printed = capsys.readouterr().out
    assert "mass" in printed
    assert printed.endswith("base\na\nb\nc\n")


@pytest.mark.filterwarnings("ignore::sim.errors.URDFWarning")
@pytest.mark.parametrize("name", ["iiwa", "panda"])
def test_dynamics_are_learnt_as_in_its_example(name, device):
    """Mass, centre of mass and inertia of one link from torques, by Adam: the loss falls to a hundredth."""
    torch.manual_seed(0)
    if not ROBOTS[name].is_file():
        pytest.skip(f"{ROBOTS[name]} is not installed")
    truth = drm.DifferentiableRobotModel(ROBOTS[name], device=device)
    learner = drm.DifferentiableRobotModel(ROBOTS[name], device=device)
    link = truth.get_link_names()[4]
    learner.make_link_param_learnable(link, "mass", drm.PositiveScalar())
    learner.make_link_param_learnable(link, "com", drm.UnconstrainedTensor(1, 3))
    learner.make_link_param_learnable(link, "inertia_mat", drm.UnconstrainedTensor(3, 3))
    q, qd, qdd = (x.float() for x in inputs(truth, 100))
    torque = truth.compute_inverse_dynamics(q, qd, qdd)
    optimiser = torch.optim.Adam(learner.parameters(), lr=0.05)
    losses = []
    for _ in range(200):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(learner.compute_inverse_dynamics(q, qd, qdd), torque)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.01 * losses[0]


def test_its_own_robots_need_its_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with raises_naming("differentiable-robot-model", "installed"):
        drm.DifferentiableKUKAiiwa()


# The original leaves its files open.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::sim.errors.URDFWarning")
@pytest.mark.parametrize("robot", ["DifferentiableKUKAiiwa", "DifferentiableFrankaPanda", "DifferentiableTwoLinkRobot"])
def test_beside_the_original(robot):
    """Everything that it computes, on its own robots; needs it installed with its parser."""
    pytest.importorskip("urdf_parser_py")
    original = pytest.importorskip("differentiable_robot_model.robot_model")
    theirs, ours = getattr(original, robot)(), getattr(drm, robot)()
    assert ours.get_link_names() == theirs.get_link_names()
    link = ours.get_link_names()[-1]
    q, qd, qdd = (x.float() for x in inputs(ours, 6))
    calls = {
        "compute_forward_kinematics": (q, link),
        "compute_endeffector_jacobian": (q, link),
        "compute_inverse_dynamics": (q, qd, qdd),
        "compute_non_linear_effects": (q, qd),
        "compute_lagrangian_inertia_matrix": (q,),
    }
    for name, arguments in calls.items():
        found, expected = (getattr(model, name)(*arguments) for model in (ours, theirs))
        for one, other in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (found, expected)), strict=True):
            if name == "compute_forward_kinematics" and one.shape[-1] == 4:
                one, other = (x * x[..., 3:].sign() for x in (one, other))
            assert relative_error(one.detach().numpy(), other.detach().numpy()) < 1e-5, name
    for one, other in zip(ours.get_joint_limits(), theirs.get_joint_limits(), strict=True):
        assert {k: float(v) for k, v in other.items() if k in one} == pytest.approx(one, rel=1e-6)
