"""The parameters that a simulator has at present, as tensors and in a robot."""

import torch

from sim.dynamics.differentiable_op import dynamics_parameters
from sim.simulation.simulator import Simulator
from sim.torch.robot.robot import Robot


def present_parameter(simulator: Simulator, name: str, like: torch.Tensor) -> torch.Tensor:
    """A parameter of the simulator, with the precision and on the device of another tensor, without gradient."""
    return torch.as_tensor(simulator.parameter(name), dtype=like.dtype, device=like.device)


def present_robot(simulator: Simulator, robot: Robot, q: torch.Tensor) -> Robot:
    """Give the robot the simulator's parameters; rows of a flat batch then are steps times worlds.

    Args:
        simulator: the parameters are its own, of its worlds where they differ.
        robot: of the same model; nothing of it is learnt.
        q: coordinates [steps + 1, num_worlds, nq] of a rollout, the last of which is left out.
    """
    robot.to(q.device)
    for name in dynamics_parameters(simulator.model):
        shared, value = simulator.model.parameters[name], torch.as_tensor(simulator.parameter(name))
        if value.dim() > shared.ndim:
            value = value.expand(q.shape[1], *value.shape[1:]).repeat(len(q) - 1, *[1] * shared.ndim)
        setattr(robot, name, value.to(device=q.device, dtype=getattr(robot, name).dtype))
    return robot
