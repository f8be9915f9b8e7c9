"""pytorch_kinematics: forward kinematics and Jacobians of serial chains."""

from collections.abc import Callable, Sequence
from typing import Any

import pytorch_kinematics
import torch

from bench.robot_libraries.base import Robot, State, TorchLibrary, Unsupported


class Calls(TorchLibrary):
    """Calls of pytorch_kinematics, see :class:`TorchLibrary`."""

    note = "pytorch_kinematics: fixed bases only, no dynamics"

    def __init__(self, robot: Robot, dtype: str, device: str):
        super().__init__(robot, dtype, device)
        if robot.floating:
            raise Unsupported("no floating base")
        chain = pytorch_kinematics.build_serial_chain_from_urdf(robot.urdf.read_bytes(), robot.tip)
        self.chain = chain.to(dtype=self.dtype, device=device)
        if tuple(self.chain.get_joint_parameter_names()) != robot.joints:
            raise Unsupported("it only has the joints between base and tip")

    def function(self, case: str) -> Callable[..., Any] | None:
        """Return the function of a case, see :class:`TorchLibrary`."""
        functions: dict[str, Callable[..., Any]] = {
            "fk": lambda q: self.chain.forward_kinematics(q).get_matrix(),
            "jacobian": self.chain.jacobian,
        }
        return functions.get(case)

    def arguments(self, case: str, state: State) -> Sequence[torch.Tensor]:
        """Return its arguments, see :class:`TorchLibrary`."""
        return [self.tensor(state.q)]

    def value(self, case: str, state: State, result: Any) -> torch.Tensor:
        """Convert its result, see :class:`TorchLibrary`."""
        found: torch.Tensor = torch.cat([result[:, 3:], result[:, :3]], dim=1) if case == "jacobian" else result
        return found
