"""Names that a robot's methods and quantities have beside those of old."""

import torch

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
    friction = robot.make_learnable("joint5", "friction_loss")
    assert robot.learnable("joint5", "friction") is friction
    assert set(robot.learnt) == {"com_5", "friction_5"}
    assert torch.equal(robot.value("centre_of_mass"), robot.value("com"))


def test_a_parameter_by_the_name_of_the_method(device):
    robot = zoo_robot(device)
    assert robot.learn("centre_of_mass") is robot
    assert [name for name, _ in robot.named_parameters()] == ["com"]
    assert robot.freeze("centre_of_mass") is robot
    assert not list(robot.parameters())
