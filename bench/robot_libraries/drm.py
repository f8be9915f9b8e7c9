"""Facebook's Differentiable Robot Models (differentiable-robot-model)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from differentiable_robot_model.robot_model import DifferentiableRobotModel

from bench.robot_libraries.base import Robot, State, TorchLibrary, Unsupported


class Calls(TorchLibrary):
    """Calls of DRM, see :class:`TorchLibrary`."""

    note = "DRM: fixed bases only; its mass matrix takes one inverse dynamics call per column"

    def __init__(self, robot: Robot, dtype: str, device: str):
        super().__init__(robot, dtype, device)
        if robot.floating:
            raise Unsupported("no floating base")
        if dtype != "float32":
            raise Unsupported("it computes in float32")
        self.drm = DifferentiableRobotModel(str(robot.urdf), device=device)
        names = [joint.name for joint in self.drm._urdf_model.robot.joints if joint.type != "fixed"]
        if names != list(robot.joints):
            raise Unsupported(f"another order of joints: {names}")

    def function(self, case: str) -> Callable[..., Any]:
        """Return the function of a case, see :class:`TorchLibrary`."""
        drm, tip = self.drm, self.robot.tip
        functions: dict[str, Callable[..., Any]] = {
            "fk": lambda q: drm.compute_forward_kinematics(q, tip),
            "jacobian": lambda q: drm.compute_endeffector_jacobian(q, tip),
            "rnea": drm.compute_inverse_dynamics,
            "crba": drm.compute_lagrangian_inertia_matrix,
            "aba": drm.compute_forward_dynamics,
        }
        return functions[case]

    def arguments(self, case: str, state: State) -> Sequence[torch.Tensor]:
        """Return its arguments, see :class:`TorchLibrary`."""
        return [self.tensor(array) for array in state.arguments(case)]

    def value(self, case: str, state: State, result: Any) -> torch.Tensor:
        """Convert its result, see :class:`TorchLibrary`."""
        if case == "jacobian":
            linear, angular = result
            return torch.cat([angular, linear], dim=1)
        if case == "fk":
            pose = torch.eye(4, dtype=self.dtype, device=self.device).repeat(len(result[0]), 1, 1)
            pose[:, :3, 3] = result[0]
            pose[:, :3, :3] = _rotation(result[1])
            return pose
        found: torch.Tensor = result
        return found


def _rotation(quaternion: torch.Tensor) -> torch.Tensor:
    """Return rotation matrices [batch, 3, 3] of quaternions xyzw [batch, 4]."""
    v, w = quaternion[:, :3], quaternion[:, 3, None, None]
    identity = torch.eye(3, dtype=v.dtype, device=v.device)
    cross = torch.linalg.cross(v[:, :, None].expand(-1, 3, 3), identity.expand(len(v), 3, 3), dim=1)
    return identity + 2.0 * (w * cross + cross @ cross)
