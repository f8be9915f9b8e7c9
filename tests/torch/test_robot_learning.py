"""Single quantities of links and joints that are learnt, kept physical, frozen, and written back to a file."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import sim
from sim.torch import PhysicalInertia, Positive, PositiveDefinite, Rotation, Unconstrained
from tests.errors import raises_naming, refuses
from tests.torch.robots import state, zoo_robot
from tests.torch.test_robot_traps import ROBOT
from warp_kernels.types import FIXED

CASES = [
    ("link3", "mass", None),
    ("link3", "mass", Unconstrained()),
    ("joint3", "mass", Positive(minimum=0.01)),
    ("link4", "com", None),
    ("link3", "inertia", None),
    ("link3", "inertia", Unconstrained()),
    ("link3", "inertial", None),
    ("link5", "translation", None),
    ("link5", "rotation", None),
    ("link4", "rotation", Unconstrained()),
    ("joint3", "damping", None),
    ("joint2", "damping", Positive()),
    ("joint3", "friction", None),
    ("joint2", "friction", Unconstrained()),
    ("joint3", "armature", None),
    ("joint3", "stiffness", None),
    ("joint3", "rest_position", None),
]


@pytest.mark.parametrize(("name", "quantity", "module"), CASES)
def test_starts_at_the_present_value_and_has_its_gradient(name, quantity, module, device):
    """gradcheck through the free numbers of the parametrisation, at the start and away from it."""
    robot = zoo_robot(device)
    q, qd, qdd, _ = state(robot, (2,), seed=1)
    before = robot.inverse_dynamics(q, qd, qdd)
    module = robot.learn_quantity(name, quantity, copy.deepcopy(module))
    torch.testing.assert_close(robot.inverse_dynamics(q, qd, qdd), before, rtol=1e-12, atol=1e-12)
    assert {id(p) for p in robot.parameters()} == {id(p) for p in module.parameters()}
    (free,) = module.parameters()
    assert robot.learnable(name, quantity) is module

    def function(value: torch.Tensor) -> torch.Tensor:
        key = next(key for key, p in robot.named_parameters() if p is free)
        with torch.nn.utils.stateless._reparametrize_module(robot, {key: value}):
            return robot.inverse_dynamics(q, qd, qdd)

    for shift in (0.0, 0.1):
        value = (free.detach() + shift).requires_grad_()
        assert torch.autograd.gradcheck(function, (value,), rtol=1e-6, atol=1e-7)
    (gradient,) = torch.autograd.grad(function(value).square().sum(), value)
    assert gradient.abs().max() > 1e-6


def test_any_module_gives_the_value(device):
    """A network whose output is a mass, and one that gives a wrong shape."""

    class Net(torch.nn.Module):
        def __init__(self, outputs: int):
            super().__init__()
            self.linear = torch.nn.Linear(2, outputs, dtype=torch.float64, device=device)

        def forward(self) -> torch.Tensor:
            return torch.nn.functional.softplus(self.linear(self.linear.weight.new_ones(2)))

    robot = zoo_robot(device)
    net = Net(1)
    robot.learn_quantity("link2", "mass", net)
    q, qd, qdd, _ = state(robot, (2,))
    torch.testing.assert_close(robot.value("mass")[2], net()[0])
    robot.inverse_dynamics(q, qd, qdd).sum().backward()
    assert net.linear.weight.grad.abs().max() > 0.0
    with raises_naming("mass of 'link3'", "(2,)", "()"):
        robot.learn_quantity("link3", "mass", Net(2))


def test_frozen_quantities_stay(device):
    robot = zoo_robot(device)
    module = robot.learn_quantity("link3", "mass")
    robot.learn_quantity("link3", "com")
    optimiser = torch.optim.SGD(robot.parameters(), lr=0.1)
    q, qd, qdd, _ = state(robot, (2,))

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        optimiser.zero_grad()
        robot.inverse_dynamics(q, qd, qdd).sum().backward()
        before = robot.value("mass").detach().clone(), robot.value("com").detach().clone()
        optimiser.step()
        return robot.value("mass") - before[0], robot.value("com") - before[1]

    module.requires_grad_(False)
    mass, com = step()
    assert not mass.any()
    assert com[3].any()
    module.requires_grad_(True)
    mass, com = step()
    assert mass[3] != 0.0
    # Nothing but what is learnt has moved.
    others = [k for k in range(robot.model.num_links) if k != 3]
    assert not mass[others].any()
    assert not com[others].any()


@pytest.mark.parametrize("seed", range(5))
def test_no_step_leads_out_of_what_is_physical(seed, device):
    """Random free numbers, large ones too: positive mass, positive moments, the triangle inequality."""
    rng = torch.Generator().manual_seed(seed)
    robot = zoo_robot(device)
    modules = {
        "inertial": robot.learn_quantity("link1", "inertial"),
        "inertia": robot.learn_quantity("link2", "inertia"),
        "mass": robot.learn_quantity("link2", "mass", Positive(0.2)),
        "rotation": robot.learn_quantity("link2", "rotation"),
    }
    for module in modules.values():
        for p in module.parameters():
            p.data += torch.randn(p.shape, generator=rng, dtype=p.dtype).to(device)
    mass, _, inertia = modules["inertial"]()
    moments = torch.linalg.eigvalsh(inertia)
    assert mass > 0.0
    assert moments[0] > 0.0
    assert moments[0] + moments[1] > moments[2] * (1.0 - 1e-9)
    assert torch.linalg.eigvalsh(modules["inertia"]())[0] > 0.0
    assert modules["mass"]() > 0.2
    torch.testing.assert_close(modules["rotation"]().norm(), torch.ones((), dtype=torch.float64, device=device))


def test_a_mass_and_an_origin_are_found(device):
    """From torques, and from positions of a link behind a fixed joint."""
    robot = zoo_robot(device)
    q, qd, qdd, _ = state(robot, (50,), seed=3)
    torque = robot.inverse_dynamics(q, qd, qdd)
    position, _ = robot.forward_kinematics(q, "link5")
    learner = copy.deepcopy(robot)
    with torch.no_grad():
        learner.mass[3] *= 1.5
        learner.joint_placement[5, :3] += 0.1
    learner.learn_quantity("link3", "mass")
    learner.learn_quantity("link5", "translation")
    optimiser = torch.optim.LBFGS(
        learner.parameters(), max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=0.0, tolerance_change=0.0
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        wrong = (learner.inverse_dynamics(q, qd, qdd) - torque).square().mean()
        wrong = wrong + (learner.forward_kinematics(q, "link5")[0] - position).square().mean()
        wrong.backward()
        return wrong

    optimiser.step(loss)
    torch.testing.assert_close(learner.value("mass"), robot.mass, rtol=1e-6, atol=0.0)
    torch.testing.assert_close(learner.value("joint_placement"), robot.joint_placement, rtol=1e-6, atol=1e-7)


def test_friction_and_damping_of_all_joints_are_those_of_least_squares(device):
    """From noisy torques, which are linear in both: the optimiser's answer is that of linear algebra."""
    robot = zoo_robot(device)
    joints = [name for name, kind in zip(robot.model.joint_names, robot.model.joint_type, strict=True) if kind != FIXED]
    q, qd, qdd, _ = state(robot, (40,), seed=3)
    noise = 0.1 * torch.randn(qd.shape, generator=torch.Generator().manual_seed(0), dtype=qd.dtype).to(device)
    torque = robot.inverse_dynamics(q, qd, qdd) + noise
    learner = copy.deepcopy(robot)
    learner.damping.fill_(1.0)
    learner.friction_loss.fill_(1.0)
    for joint in joints:
        learner.learn_quantity(joint, "damping", Unconstrained())
        learner.learn_quantity(joint, "friction", Unconstrained())
    optimiser = torch.optim.LBFGS(
        learner.parameters(), max_iter=100, line_search_fn="strong_wolfe", tolerance_grad=0.0, tolerance_change=0.0
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        missed = (learner.inverse_dynamics(q, qd, qdd) - torque).square().mean()
        missed.backward()
        return missed

    optimiser.step(loss)
    with torch.no_grad():
        bare = copy.deepcopy(robot)
        bare.damping.zero_()
        bare.friction_loss.zero_()
        rest = (torque - bare.inverse_dynamics(q, qd, qdd)).cpu().numpy()
    # The search ends where the loss, rounded, falls no more: off by some square roots of the precision.
    for dof, speed in enumerate(qd.cpu().numpy().T):
        (damping, friction), *_ = np.linalg.lstsq(np.stack([speed, np.sign(speed)], axis=1), rest[:, dof], rcond=None)
        np.testing.assert_allclose(learner.value("damping")[dof].item(), damping, atol=1e-7)
        np.testing.assert_allclose(learner.value("friction_loss")[dof].item(), friction, atol=1e-7)
    # What is true, as well as the noise allows: its standard deviation is 0.03 to 0.05 here.
    assert (learner.value("friction_loss") - robot.friction_loss).abs().max() < 0.2


def test_what_is_learnt_is_in_the_state(device):
    robot = zoo_robot(device)
    robot.learn_quantity("link3", "inertial")
    robot.learn_quantity("link3", "rotation")
    other = copy.deepcopy(robot)
    for p in robot.parameters():
        p.data += 0.1
    q, qd, qdd, _ = state(robot, (2,))
    assert not torch.equal(other.inverse_dynamics(q, qd, qdd), robot.inverse_dynamics(q, qd, qdd))
    other.load_state_dict(robot.state_dict())
    assert torch.equal(other.inverse_dynamics(q, qd, qdd), robot.inverse_dynamics(q, qd, qdd))


@pytest.fixture
def robot(tmp_path: Path) -> sim.torch.Robot:
    file = tmp_path / "robot.urdf"
    file.write_text(ROBOT)
    return sim.torch.Robot(file, dtype=torch.float64)


def test_a_learnt_robot_is_written_and_read(robot, tmp_path):
    """Values as they were learnt, through the file; what hasn't changed stands as it stood."""
    robot.learn_quantity("turn", "inertial")
    robot.learn_quantity("slide", "com")
    robot.learn_quantity("weld", "translation")
    robot.learn_quantity("hinge", "rotation")
    robot.learn_quantity("continuous", "damping")
    robot.learn_quantity("continuous", "friction")
    rng = torch.Generator().manual_seed(0)
    for p in robot.parameters():
        p.data += 0.1 * torch.randn(p.shape, generator=rng, dtype=p.dtype)
    robot.save_urdf(tmp_path / "learnt.urdf")
    again = sim.torch.Robot(tmp_path / "learnt.urdf", dtype=torch.float64)
    for name in ("mass", "com", "inertia", "damping", "friction_loss"):
        torch.testing.assert_close(again.value(name), robot.value(name).detach(), rtol=1e-14, atol=1e-15)
    q = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
    expected = robot.forward_kinematics_matrix(q).detach()
    torch.testing.assert_close(again.forward_kinematics_matrix(q), expected, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(again.mass_matrix(q), robot.mass_matrix(q).detach(), rtol=1e-13, atol=1e-14)
    text = (tmp_path / "learnt.urdf").read_text()
    assert text.count('rpy="0.4 -0.7 1.1"') == 1  # the inertial of the tip, untouched
    assert '<axis xyz="0.3 -0.4 1.2"' in text


def test_a_placement_that_the_file_states_by_a_quaternion(tmp_path):
    (tmp_path / "robot.urdf").write_text(ROBOT.replace('rpy="0.5 0.6 0.7"', 'quat_xyzw="0.1 0.2 0.3 0.4"'))
    robot = sim.torch.Robot(tmp_path / "robot.urdf", dtype=torch.float64)
    robot.learn_quantity("weld", "translation")
    for p in robot.parameters():
        p.data += 0.1
    robot.save_urdf(tmp_path / "learnt.urdf")
    again = sim.torch.Robot(tmp_path / "learnt.urdf", dtype=torch.float64)
    q = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
    expected = robot.forward_kinematics_matrix(q).detach()
    torch.testing.assert_close(again.forward_kinematics_matrix(q), expected, rtol=1e-13, atol=1e-14)


def test_an_unchanged_robot_is_the_same_file(robot, tmp_path):
    """Rounded to float32 and in float64 again, too."""
    one = sim.load(tmp_path / "robot.urdf", dtype="float64")
    for changed in (robot, robot.float(), robot.double()):
        changed.save_urdf(tmp_path / "same.urdf")
        other = sim.load(tmp_path / "same.urdf", dtype="float64")
        for name, value in one.parameters.items():
            np.testing.assert_array_equal(value, other.parameters[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.armature.add_(1.0), "armature has changed"),
        (lambda r: r.joint_placement[0].add_(1.0), "placement of joint 'base_fixed' has changed"),
        (
            lambda r: setattr(r, "mass", r.mass.repeat(2, 1)),
            r"'mass' has shape \(2, 6\); .* robot.mass = robot.mass\[0\]",
        ),
        (
            lambda r: setattr(r, "gravity", r.gravity.repeat(2, 1)),
            r"'gravity' has shape \(2, 3\); .* one value for all",
        ),
        (lambda r: r.damping[1].sub_(0.5), r"^\S+out.urdf:.* joint 'continuous'.*: damping is -0.3; it must be"),
        (lambda r: r.friction_loss[1].sub_(0.5), r"joint 'continuous'.*: friction_loss is -0.0\d+; it must be"),
        (lambda r: r.mass[2].sub_(2.0), r"link 'turn'.*: mass is -0.3\d*; it must be"),
        (lambda r: r.inertia[2].sub_(1.0), "link 'turn': .*principal moments"),
        (lambda r: r.com[2].fill_(torch.nan), "link 'turn'"),
        (lambda r: r.joint_placement[2].fill_(torch.inf), "joint 'continuous'"),
    ],
)
def test_what_a_file_can_not_hold_is_refused(change, message, robot, tmp_path):
    """And nothing is written, nor left beside the place."""
    change(robot)
    with pytest.raises(sim.ModelError, match=message):
        robot.save_urdf(tmp_path / "out.urdf")
    assert [file.name for file in tmp_path.iterdir()] == ["robot.urdf"]


@pytest.mark.filterwarnings("ignore::sim.errors.URDFWarning")
def test_what_a_floating_base_lacks_in_a_file_is_refused(robot, tmp_path):
    free = sim.torch.Robot(tmp_path / "robot.urdf", floating_base=True, dtype=torch.float64)
    free.friction_loss[:6] = 0.5
    with raises_naming("friction_loss of joint", "changed", "[0.5, 0.5"):
        free.save_urdf(tmp_path / "out.urdf")


def test_merged_links_and_models_are_refused(robot, tmp_path):
    merged = sim.torch.Robot(tmp_path / "robot.urdf", collapse_fixed=True)
    refuses(lambda: merged.save_urdf(tmp_path / "out.urdf"), "collapse_fixed=False")
    refuses(lambda: sim.torch.Robot(robot.model).save_urdf(tmp_path / "out.urdf"), "model")
    refuses(lambda: merged.learn_quantity("tool", "mass"), "'tool'", "link")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "mass"), "no link or joint named 'nowhere'"),
        (("turn", "restitution"), "unknown quantity 'restitution'"),
        (("weld", "damping"), "joint 'weld' is fixed and has no damping"),
        (("weld", "friction"), "joint 'weld' is fixed and has no friction"),
        (("hinge", "friction"), "friction of 'hinge': its value 0.0 is not above 0.0"),
        (("tool", "mass"), r"mass of 'tool': its value 0.0 is not above 0.0"),
        (("tool", "inertial"), "inertial of 'tool': its value .* is not positive definite"),
        (("tool", "inertia", PositiveDefinite()), "inertia of 'tool': its value .* is not positive definite"),
        (("hinge", "armature"), "armature of 'hinge': its value 0.0 is not above 0.0"),
    ],
)
def test_misuse(arguments, message, robot):
    with pytest.raises(sim.ModelError, match=message):
        robot.learn_quantity(*arguments)
    assert not len(robot.learnt)
    assert not list(robot.parameters())


@pytest.mark.parametrize("quantity", ["stiffness", "rest_position"])
def test_springs_are_of_joints_with_one_coordinate(quantity):
    with pytest.raises(sim.ModelError, match=f"joint 'joint2' has no {quantity}; give the spherical joint a sim.Sp"):
        zoo_robot("cpu").learn_quantity("joint2", quantity)


class Gives(torch.nn.Module):
    """A module of a user's own."""

    def __init__(self, value: object):
        super().__init__()
        self.value = value

    def forward(self) -> object:
        return self.value


@pytest.mark.parametrize(
    ("quantity", "value", "message"),
    [
        ("mass", torch.ones(3).double(), r"the module for mass of 'turn' gives \(3,\); expected \(\)"),
        ("mass", [1.0], "the module for mass of 'turn' gives list"),
        ("mass", torch.ones(()), r"what the module for mass of 'turn' gives is torch\.float32 .*, but the robot is"),
        (
            "inertial",
            torch.ones(2, 3).double(),
            "for inertial of 'turn' gives 2 values; expected mass, com and inertia",
        ),
    ],
)
def test_what_modules_give_that_does_not_fit(quantity, value, message, robot):
    with pytest.raises(sim.ModelError, match=message):
        robot.learn_quantity("turn", quantity, Gives(value))
    assert not len(robot.learnt)


def test_a_rotation_of_zeros_is_learnt_from_no_turn(robot):
    robot.joint_placement[robot.model.link("turn"), 3:] = 0.0
    assert robot.learn_quantity("turn", "rotation")().tolist() == [0.0, 0.0, 0.0, 1.0]


def test_new_values_of_what_is_learnt(robot):
    """What isn't replaced of a link whose mass, centre of mass and inertia were learnt together stays as it is."""
    learnt = copy.deepcopy(robot)
    inertial = learnt.learn_quantity("turn", "inertial")
    other = learnt.learn_quantity("slide", "com")
    with torch.no_grad():
        inertial.free.mul_(1.1)
        other.value.add_(0.1)
        before = {name: learnt.value(name).clone() for name in ("com", "inertia")}
    mass = torch.arange(1.0, 1.0 + len(learnt.link_names), dtype=torch.float64)
    learnt.set_values({"mass": mass})
    assert torch.equal(learnt.value("mass"), mass)
    assert all(torch.equal(learnt.value(name), value) for name, value in before.items())
    assert [name for name, _ in learnt.named_parameters()] == [f"learnt.com_{robot.model.link('slide')}.value"]
    learnt.set_values({"centre_of_mass": robot.com})
    assert torch.equal(learnt.com, robot.com)
    assert not list(learnt.parameters())
    refuses(lambda: learnt.set_values({"mass": torch.ones(1)}), "parameter 'mass'", "shape", "(1,)")
    learnt.mass = learnt.mass.repeat(2, 1)
    refuses(lambda: learnt.set_values({"mass": mass}), "robot.mass = robot.mass[0]")


def test_one_quantity_is_learnt_once(robot):
    robot.learn_quantity("turn", "inertial", PhysicalInertia())
    refuses(lambda: robot.learn_quantity("turn", "mass"), "mass", "'turn'", "inertial")
    robot.learn_quantity("turn", "rotation", Rotation())
    robot.learn_quantity("turn", "translation")
    refuses(lambda: robot.learnable("slide", "mass"), "mass", "'slide'")


@pytest.mark.parametrize("quantity", ["mass", "inertial", "translation", "damping"])
def test_a_parameter_for_each_row_is_not_learnt_in_part(quantity, robot):
    for name in ("mass", "joint_placement", "damping"):
        value = getattr(robot, name)
        setattr(robot, name, value.expand(2, *value.shape).clone())
    with pytest.raises(sim.ModelError, match=f"learning {quantity} of 'turn' needs one value for all rows"):
        robot.learn_quantity("turn", quantity)
    assert not len(robot.learnt)


def test_the_earlier_name_warns():
    robot = zoo_robot("cpu")
    with pytest.warns(DeprecationWarning, match="learn_quantity") as warned:
        module = robot.make_learnable("link3", "mass")
    assert module is robot.learnable("link3", "mass")
    assert warned[0].filename == __file__
