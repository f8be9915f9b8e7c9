"""The parameters that a simulator has at present, as tensors and in a robot."""

from collections.abc import Iterable, Mapping
from typing import Any

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


class PresentRobot:
    """A robot with the parameters that a simulator has at present; nothing of it is learnt.

    Args:
        simulator: the simulator.

    Attributes:
        robot: with the parameters of the last call.
    """

    def __init__(self, simulator: Simulator):
        self._simulator, self.robot = simulator, Robot(simulator.model, device=simulator.device)
        self._held: tuple[Mapping[str, Any], torch.device, torch.Size] | None = None

    def __call__(self, q: torch.Tensor) -> Robot:
        """The robot for coordinates [steps + 1, num_worlds, nq] of a rollout, the last of which is left out.

        Where worlds differ, rows of a flat batch are steps times worlds.
        """
        held = self._simulator.present_values(), q.device, q.shape
        # Parameters that are set anew would have what the robot has captured recorded again.
        if self._held is None or self._held[0] is not held[0] or self._held[1:] != held[1:]:
            self._take(q)
            self._held = held
        return self.robot

    def _take(self, q: torch.Tensor) -> None:
        simulator, robot = self._simulator, self.robot.to(q.device)
        for name in dynamics_parameters(simulator.model):
            shared, value = simulator.model.parameters[name], present_parameter(simulator, name, getattr(robot, name))
            if value.dim() > shared.ndim:
                value = value.expand(q.shape[1], *value.shape[1:]).repeat(len(q) - 1, *[1] * shared.ndim)
            setattr(robot, name, value)
