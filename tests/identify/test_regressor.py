"""The torque regressor against inverse dynamics and Pinocchio, its gradients, and base parameters."""

import numpy as np
import pytest
import torch

import sim
from sim.identify import (
    base_parameters,
    column_names,
    excite,
    linear_parameters,
    robot_base_parameters,
    torque_regressor,
)
from tests.dynamics.states import random_state, relative_error
from tests.dynamics.trees import build, zoo
from tests.errors import raises_naming, refuses
from warp_kernels import types as codes

JOINT_COLUMNS = ("friction_loss", "damping", "armature")
ROBOTS = [("panda", False), ("ur5", False), ("xarm7", False), ("go2", True), ("talos", True)]


def pinocchio_regressor(peer, q, qd, qdd):
    """That of one state [nv, 10 * joints] in our conventions, and the link of each joint of Pinocchio."""
    pin = pytest.importorskip("pinocchio")
    x, v, to_peer = peer.state(q, qd)
    matrix = pin.computeJointTorqueRegressor(peer.peer, peer.data, x, v, peer.acceleration(q, qd, qdd))
    names = [name if name in peer.model.joint_names else None for name in peer.order]
    root = int(np.flatnonzero(peer.model.joint_type == codes.FREE)[0]) if None in names else -1
    return to_peer.T @ matrix, [root if name is None else peer.model.joint(name) for name in names]


@pytest.mark.parametrize(("name", "floating"), ROBOTS)
def test_equals_that_of_pinocchio(name, floating):
    pytest.importorskip("pinocchio")
    from tests.dynamics.test_robots import load

    peer = load(name, floating, "float64")
    q, qd, qdd, _ = random_state(peer.model, 3, 5)
    ours = torque_regressor(peer.model, q, qd, qdd).numpy().reshape(5, peer.model.nv, -1, 10)
    for row in range(5):
        theirs, links = pinocchio_regressor(peer, q[row], qd[row], qdd[row])
        assert relative_error(ours[row][:, links], theirs.reshape(peer.model.nv, -1, 10)) < 1e-12
        others = sorted(set(range(peer.model.num_links)) - set(links))
        assert not ours[row][:, others].any(), "what is fixed to the world has no effect"


def test_times_the_parameters_it_is_inverse_dynamics():
    """Of every joint type, with links that are fixed to others, in any batch."""
    robot = sim.torch.Robot(build(zoo(), "float64", collapse_fixed=False))
    q, qd, qdd, _ = random_state(robot.model, 1, 6)
    q, qd, qdd = (torch.as_tensor(x).reshape(2, 3, -1) for x in (q, qd, qdd))
    matrix = torque_regressor(robot, q, qd, qdd, joint_columns=JOINT_COLUMNS)
    assert matrix.shape == (2, 3, robot.nv, 10 * len(robot.link_names) + 3 * robot.nv)
    assert len(column_names(robot, JOINT_COLUMNS)) == matrix.shape[-1]
    robot.stiffness.zero_()
    tau = robot.inverse_dynamics(q, qd, qdd)
    assert relative_error((matrix @ linear_parameters(robot, JOINT_COLUMNS)).numpy(), tau.numpy()) < 1e-12
    robot.armature.zero_()
    bare = robot.inverse_dynamics(q, qd, qdd, passive=False)
    assert (
        relative_error((torque_regressor(robot, q, qd, qdd) @ linear_parameters(robot)).numpy(), bare.numpy()) < 1e-12
    )


def test_gravity_compensation_and_gravity():
    builder = sim.ModelBuilder(gravity=(1.0, -2.0, -9.0))
    for number, share in enumerate((0.0, 0.75, 1.0)):
        builder.add_link(
            f"link{number}", mass=1.0 + number, com=(0.1, 0.2, 0.3), inertia=np.eye(3), gravity_compensation=share
        )
        parent = f"link{number - 1}" if number else "world"
        builder.add_joint(f"joint{number}", "revolute", child=f"link{number}", parent=parent, axis=(1, number, 0))
    robot = sim.torch.Robot(builder.finalize("float64"))
    q, qd, qdd = (torch.tensor(x) for x in np.random.default_rng(0).normal(size=(3, 4, 3)))
    tau = robot.inverse_dynamics(q, qd, qdd)
    assert relative_error((torque_regressor(robot, q, qd, qdd) @ linear_parameters(robot)).numpy(), tau.numpy()) < 1e-12


def test_gradients():
    robot = sim.torch.Robot("scenes/robots/arm.urdf", dtype=torch.float64)
    rng = np.random.default_rng(2)
    point = torch.tensor(rng.normal(size=(3, 1, robot.nv)), requires_grad=True)
    weight = torch.tensor(rng.normal(size=(robot.nv, 10 * len(robot.link_names) + 3 * robot.nv)))

    def value(x):
        return (torque_regressor(robot, *x, joint_columns=JOINT_COLUMNS) * weight).sum()

    (gradient,) = torch.autograd.grad(value(point), point)
    direction = torch.tensor(rng.normal(size=point.shape))
    with torch.no_grad():
        step = 1e-6
        difference = (value(point + step * direction) - value(point - step * direction)) / (2.0 * step)
    torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-7, atol=1e-7)


def test_base_parameters_of_a_pendulum():
    """A revolute joint about y under gravity: first moments along x and z, and the moment of inertia about y."""
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=1.0, com=(0.1, 0.0, -0.3), inertia=np.eye(3))
    builder.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
    found = robot_base_parameters(builder.finalize("float64"), joint_columns=["armature", "damping"])
    assert found.rank == 4
    assert set(found.alone) == {"mass*com_x of bob", "mass*com_z of bob", "damping of hinge"}
    assert len(found.never) == 7
    assert {"Iyy of bob", "armature of hinge"} >= {found.names[k] for k in found.chosen} - set(found.alone)
    (line,) = [line for line in found.words() if "armature" in line]
    assert line in ("Iyy of bob + 1 armature of hinge", "armature of hinge + 1 Iyy of bob")
    assert "4 combinations of 12 parameters are determined" in str(found)


@pytest.mark.parametrize("limits", [(-1.0, 1.0), (3.5, 6.0), (-9.0, -8.0)])
def test_base_parameters_wherever_the_limits_are(limits):
    """Drives may count their angles from anywhere."""
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=1.0, com=(0.1, 0.0, -0.3), inertia=np.eye(3))
    builder.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), limits=sim.Limits(limits[0], limits[1]))
    found = robot_base_parameters(builder.finalize("float64"))
    assert set(found.alone) == {"mass*com_x of bob", "mass*com_z of bob", "Iyy of bob"}


@pytest.mark.parametrize(("file", "rank"), [("scenes/robots/manipulator.urdf", 45)])
def test_base_parameters_of_an_arm(file, rank):
    robot = sim.torch.Robot(file, dtype=torch.float64, collapse_fixed=True)
    robot.gravity.copy_(torch.tensor([9.81, 0.0, 0.0]))
    rng = np.random.default_rng(0)
    matrix = torque_regressor(robot, *rng.normal(size=(3, 60, robot.nv))).numpy()
    matrix = matrix.reshape(-1, matrix.shape[-1])
    found = base_parameters(matrix, column_names(robot))
    assert found.rank == rank
    assert relative_error(matrix[:, found.chosen] @ found.combinations, matrix) < 1e-10
    other = torque_regressor(robot, *rng.normal(size=(3, 5, robot.nv))).numpy().reshape(-1, matrix.shape[-1])
    assert relative_error(other[:, found.chosen] @ found.combinations, other) < 1e-9


@pytest.mark.parametrize("file", ["scenes/robots/manipulator.urdf", "scenes/robots/arm.urdf"])
def test_base_parameters_in_single_precision(file):
    """The default of files: rounding is no information."""
    double, single = (sim.torch.Robot(file, dtype=dtype) for dtype in (torch.float64, torch.float32))
    expected = robot_base_parameters(double)
    for found in (robot_base_parameters(single), robot_base_parameters(sim.load(file, collapse_fixed=False))):
        assert found.rank == expected.rank
        assert found.condition == pytest.approx(expected.condition, rel=0.1)
        assert set(found.alone) == set(expected.alone)
    states = torch.randn(3, 60, double.nv, generator=torch.Generator().manual_seed(0))
    matrix = torque_regressor(single, *states).flatten(0, 1)
    assert matrix.dtype == torch.float32
    for given in (matrix, matrix.numpy()):
        found = base_parameters(given, column_names(single))
        assert found.rank == expected.rank
        assert set(found.alone) == set(expected.alone)
        assert np.abs(found.combinations)[found.combinations != 0.0].min() > 1e-4, "rounding is in no combination"


def test_errors():
    robot = sim.torch.Robot("scenes/robots/arm.urdf", dtype=torch.float64)
    zeros = np.zeros(robot.nv)
    with raises_naming("joint_columns", "unknown", "'mass'", "damping"):
        torque_regressor(robot, zeros, zeros, zeros, joint_columns=["mass"])
    refuses(lambda: torque_regressor("arm.urdf", zeros, zeros, zeros), "str")
    refuses(lambda: base_parameters(np.ones((2, 3)), list("abc")), "2 rows", "3 columns", "samples")
    refuses(lambda: base_parameters(np.ones((4, 3)), list("ab")), "3 columns", "2 names")
    refuses(lambda: base_parameters(np.full((4, 3), np.nan), list("abc")), "regressor", "shape", "(4, 3)", "finite")
    refuses(lambda: base_parameters(np.zeros((4, 3)), list("abc")), "parameter", "effect")
    refuses(lambda: base_parameters("matrix", list("abc")), "regressor", "'matrix'")
    refuses(lambda: base_parameters(np.ones((4, 3)), list("abc"), tolerance=2.0), "tolerance", "2.0", 0, 1)
    refuses(lambda: torque_regressor(robot, zeros, "fast", zeros), "qd", "'fast'")
    refuses(lambda: robot_base_parameters(robot, samples=-1), "samples -1", "seed 0")
    refuses(lambda: robot_base_parameters(robot, seed=-1), "samples 200", "seed -1")
    robot.mass = robot.mass.repeat(2, 1)
    refuses(lambda: linear_parameters(robot), "parameter 'mass'", "shape", "vector")


def test_a_robot_without_a_joint_that_moves():
    builder = sim.ModelBuilder()
    builder.add_link("base", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("bolts", "fixed", child="base")
    model = builder.finalize("float64", collapse_fixed=False)
    refuses(lambda: robot_base_parameters(model), "no joint", "joint forces")
    refuses(lambda: excite(model), "no joint", "motion")


def test_defaults_of_torch_change_nothing():
    """A robot on the CPU where tensors lie elsewhere by default."""
    robot = sim.torch.Robot("scenes/robots/arm.urdf", dtype=torch.float64)
    states = np.random.default_rng(0).standard_normal((3, 2, robot.nv))
    expected = torque_regressor(robot, *states, joint_columns="damping")
    numbers, found = linear_parameters(robot, "damping"), robot_base_parameters(robot)
    with torch.device("meta"):
        assert torch.equal(torque_regressor(robot, *states, joint_columns=["damping"]), expected)
        assert torch.equal(linear_parameters(robot, ["damping"]), numbers)
        assert robot_base_parameters(robot).words() == found.words()
