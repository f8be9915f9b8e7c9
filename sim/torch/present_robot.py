"""The parameters that a simulator has at present, as tensors and in a robot."""

from collections.abc import Iterable

import torch

from sim.dynamics.differentiable_op import dynamics_parameters
from sim.model.parameters import number_of_dims
from sim.simulation.simulator import Simulator
from sim.torch.robot.robot import Robot


def present_parameter(simulator: Simulator, name: str, like: torch.Tensor) -> torch.Tensor:
    """A parameter of the simulator, with the precision and on the device of another tensor, without gradient."""
    return torch.as_tensor(simulator.parameter(name), dtype=like.dtype, device=like.device)


def parameters_of_rows(simulator: Simulator, names: Iterable[str], q: torch.Tensor) -> dict[str, torch.Tensor]:
    """Parameters for a batch of states [steps, num_worlds, nq] made flat; one value each where worlds share it."""
    found = {}
    for name in names:
        value = present_parameter(simulator, name, q)
        per_world = value.dim() > number_of_dims(name)
        found[name] = value.expand(len(q), *value.shape).flatten(0, 1) if per_world else value
    return found


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
