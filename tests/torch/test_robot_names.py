"""Names that a robot's methods and quantities have beside those of old."""

import numpy as np
import pytest
import torch

import sim
from tests.errors import raises_naming
from tests.torch.robots import FRAMES, state, zoo_robot


def test_velocities_and_accelerations_by_the_names_of_the_free_functions(device):
    robot = zoo_robot(device)
    q, qd, qdd, _ = state(robot, (2,))
    assert torch.equal(robot.link_velocities(q, qd), robot.frame_velocity(q, qd))
    found = robot.link_velocities(q, qd, frames=FRAMES, reference="local")
    assert torch.equal(found, robot.frame_velocity(q, qd, FRAMES, "local"))
    assert torch.equal(robot.link_accelerations(q, qd, qdd), robot.frame_acceleration(q, qd, qdd))
    found = robot.link_accelerations(q, qd, qdd, frames=FRAMES, reference="world")
    assert torch.equal(found, robot.frame_acceleration(q, qd, qdd, FRAMES, "world"))


def test_quantities_by_the_names_of_parameters_and_methods(device):
    robot = zoo_robot(device)
    robot.friction_loss.fill_(0.1)
    centre = robot.learn_quantity("link5", "centre_of_mass")
    assert robot.learnable("link5", "com") is robot.learnable("link5", "centre_of_mass") is centre
    friction = robot.learn_quantity("joint5", "friction_loss")
    assert robot.learnable("joint5", "friction") is friction
    assert set(robot.learnt) == {"com_5", "friction_5"}
    assert torch.equal(robot.value("centre_of_mass"), robot.value("com"))


def test_a_parameter_by_the_name_of_the_method(device):
    robot = zoo_robot(device)
    assert robot.learn("centre_of_mass") is robot
    assert [name for name, _ in robot.named_parameters()] == ["com"]
    assert robot.freeze("centre_of_mass") is robot
    assert not list(robot.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, q: r.forward_kinematics(q, 3), "frame is 3; it must be a name, or a list of names"),
        (lambda r, q: r.jacobian(q, "link7", None), "unknown reference 'None'; known are"),
        (lambda r, q: r.learn(["mass", "com"]), r"\['mass', 'com'\]"),
        (lambda r, q: r.learn_quantity("link7", "mass", 1.0), "mass of 'link7': module is 1.0; make one"),
        (lambda r, q: r.gravity_forces(q[:, :3]), r"q has shape \(2, 3\); expected"),
        (
            lambda r, q: r.inverse_dynamics(q, q, q, {"link7": np.zeros(6)}),
            "wrench on 'link7' is a ndarray; it must be",
        ),
        (lambda r, q: r.inverse_dynamics(q, q, q, np.zeros((7, 6))), "wrench is a ndarray; it must be a dictionary"),
        (
            lambda r, q: r.inverse_dynamics(q, q, q, {"link7": torch.zeros(())}),
            r"wrench on 'link7' has shape \(\); expected \(..., 6\)",
        ),
        (
            lambda r, q: r.inverse_dynamics(q, q, q, {"link7": torch.zeros(6), "link6": torch.zeros(6).double()}),
            "wrench on 'link6' is torch.float64 on cpu, but the robot is torch.float32",
        ),
        (
            lambda r, q: r.forward_dynamics(q, q, q, {"link7": torch.zeros(3, 6), "link6": torch.zeros(2, 6)}),
            r"batch shapes don't fit each other: wrench on 'link7' \(3, 6\), wrench on 'link6' \(2, 6\)",
        ),
        (
            lambda r, q: r.inverse_dynamics(q, q, q, torch.zeros(7, 6), "local"),
            "reference is 'local'",
        ),
        (lambda r, q: r.jacobian(q, "link7", ["local"]), r"unknown reference '\['local'\]'; known are"),
        (
            lambda r, q: r.inverse_dynamics(q, q, q, {"link7": torch.zeros(6)}, {"local": 1}),
            "unknown reference '{'local': 1}'; known are",
        ),
        (
            lambda r, q: r.inverse_kinematics("link7", torch.zeros(3), seed="a"),
            "seed is 'a'; it must be a whole number",
        ),
    ],
)
def test_arguments_of_another_type_are_named(call, message):
    robot = sim.torch.Robot("scenes/robots/manipulator.urdf")
    with pytest.raises(sim.ModelError, match=message):
        call(robot, torch.zeros(2, 7))


def test_a_parameter_of_another_length_is_named():
    robot = sim.torch.Robot("scenes/robots/manipulator.urdf")
    robot.mass = torch.ones(3)
    with raises_naming("parameter 'mass'", "shape", "(3,)"):
        robot.forward_dynamics(*torch.zeros(3, 7))
