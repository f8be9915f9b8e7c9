"""ADAM (adam-robotics) with its PyTorch backend."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from adam.pytorch import KinDynComputations
from scipy.spatial.transform import Rotation

from bench.robot_libraries.base import Robot, State, TorchLibrary


class Calls(TorchLibrary):
    """Calls of ADAM, see :class:`TorchLibrary`. Every robot has a floating base; that of a fixed robot doesn't move."""

    note = (
        "ADAM: PyTorch backend; rnea without accelerations (bias_force), since it has no other; aba of a fixed base "
        "by a solve with the mass matrix, since its own needs a floating base"
    )
    expects: ClassVar[dict[str, str]] = {"rnea": "bias"}

    def __init__(self, robot: Robot, dtype: str, device: str):
        super().__init__(robot, dtype, device)
        gravity = torch.tensor([0.0, 0.0, -9.81, 0.0, 0.0, 0.0], dtype=torch.float64)
        self.adam = KinDynComputations(
            str(robot.urdf), list(robot.joints), device=torch.device(device), dtype=self.dtype, gravity=gravity
        )

    def function(self, case: str) -> Callable[..., Any]:
        """Return the function of a case, see :class:`TorchLibrary`."""
        adam, tip = self.adam, self.robot.tip
        functions: dict[str, Callable[..., Any]] = {
            "fk": lambda base, s: adam.forward_kinematics(tip, base, s),
            "jacobian": lambda base, s: adam.jacobian(tip, base, s),
            "rnea": adam.bias_force,
            "crba": adam.mass_matrix,
            "aba": adam.aba if self.robot.floating else self._fixed_aba,
        }
        return functions[case]

    def _fixed_aba(
        self, base: torch.Tensor, s: torch.Tensor, base_qd: torch.Tensor, qd: torch.Tensor, tau: torch.Tensor
    ) -> torch.Tensor:
        bias = self.adam.bias_force(base, s, base_qd, qd).reshape(len(s), -1)[:, 6:]
        return torch.linalg.solve(self.adam.mass_matrix(base, s)[:, 6:, 6:], tau - bias)

    def arguments(self, case: str, state: State) -> Sequence[torch.Tensor]:
        """Return its arguments, see :class:`TorchLibrary`."""
        count = len(state.q)
        base = np.tile(np.eye(4), (count, 1, 1))
        base_qd, s, qd = np.zeros((count, 6)), state.q, state.qd
        if self.robot.floating:
            base[:, :3, :3] = Rotation.from_quat(s[:, 3:7]).as_matrix()
            base[:, :3, 3] = s[:, :3]
            base_qd, s, qd = qd[:, :6], s[:, 7:], qd[:, 6:]
        arrays = [base, s]
        if case in ("rnea", "aba"):
            arrays += [base_qd, qd]
        if case == "aba":
            arrays.append(state.tau[:, 6:] if self.robot.floating else state.tau)
        return [self.tensor(array) for array in arrays]

    def value(self, case: str, state: State, result: Any) -> torch.Tensor:
        """Convert its result, see :class:`TorchLibrary`."""
        first = 0 if self.robot.floating else 6
        if case == "fk":
            return result
        if case == "jacobian":
            return torch.cat([result[:, 3:, first:], result[:, :3, first:]], dim=1)
        if case == "crba":
            return result[:, first:, first:]
        if case == "rnea":
            return result.reshape(-1, self.robot.nv + first)[:, first:]
        return result.reshape(-1, self.robot.nv)
