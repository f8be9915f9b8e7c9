"""Backswing's own robot."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

import sim
from bench.robot_libraries.base import Robot, State, TorchLibrary


class Calls(TorchLibrary):
    """Calls of Backswing, see :class:`TorchLibrary`."""

    def __init__(self, robot: Robot, dtype: str, device: str):
        super().__init__(robot, dtype, device)
        # Pinocchio also merges links joined by fixed joints.
        options: dict[str, Any] = {"floating_base": robot.floating, "collapse_fixed": True}
        self.ours = sim.torch.Robot(robot.urdf, dtype=self.dtype, device=device, **options)

    def function(self, case: str) -> Callable[..., Any]:
        """Return the function of a case, see :class:`TorchLibrary`."""
        tip = self.robot.tip
        functions: dict[str, Callable[..., Any]] = {
            "fk": lambda q: self.ours.forward_kinematics_matrix(q, tip),
            "jacobian": lambda q: self.ours.jacobian(q, tip),
            "rnea": self.ours.inverse_dynamics,
            "crba": self.ours.mass_matrix,
            "aba": self.ours.forward_dynamics,
        }
        return functions[case]

    def arguments(self, case: str, state: State) -> Sequence[torch.Tensor]:
        """Return its arguments, see :class:`TorchLibrary`."""
        return [self.tensor(array) for array in state.arguments(case)]

    def value(self, case: str, state: State, result: Any) -> torch.Tensor:
        """Convert its result, see :class:`TorchLibrary`."""
        found: torch.Tensor = result
        return found
