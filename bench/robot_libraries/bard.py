"""BARD (Batched Articulated Rigid-body Dynamics)."""

from collections.abc import Callable, Sequence
from typing import Any

import bard
import numpy as np
import torch
from scipy.spatial.transform import Rotation

from bench.robot_libraries.base import Robot, State, TorchLibrary, Unsupported


class Calls(TorchLibrary):
    """Calls of BARD, see :class:`TorchLibrary`. Velocities, accelerations and forces of a floating base are along its
    body axes.
    """

    note = (
        "BARD: without torch.compile, in preallocated workspaces; rnea, crba and aba include their kinematics; "
        "no gradient of rnea and aba with respect to the coordinates"
    )

    def __init__(self, robot: Robot, dtype: str, device: str):
        super().__init__(robot, dtype, device)
        self.bard = bard.build_model_from_urdf(
            robot.urdf, floating_base=robot.floating, dtype=self.dtype, device=device
        )
        if self.bard.get_joint_names() != list(robot.joints):
            raise Unsupported(f"another order of joints: {self.bard.get_joint_names()}")
        self.tip = self.bard.get_frame_id(robot.tip)

    def function(self, case: str) -> Callable[..., Any]:
        """Return the function of a case, see :class:`TorchLibrary`."""
        model, tip, workspace = self.bard, self.tip, self._workspaces()

        def rnea(q: torch.Tensor, qd: torch.Tensor, qdd: torch.Tensor) -> torch.Tensor:
            return bard.rnea(model, bard.update_kinematics(model, workspace(q), q, qd), qdd)

        def aba(q: torch.Tensor, qd: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
            return bard.aba(model, bard.update_kinematics(model, workspace(q), q, qd), tau)

        functions: dict[str, Callable[..., Any]] = {
            "fk": lambda q: bard.forward_kinematics(model, workspace(q), tip, q=q),
            "jacobian": lambda q: bard.jacobian(model, workspace(q), tip, q=q),
            "rnea": rnea,
            "crba": lambda q: bard.crba(model, bard.update_kinematics(model, workspace(q), q)),
            "aba": aba,
        }
        return functions[case]

    def _workspaces(self) -> Callable[[torch.Tensor], Any]:
        """Make workspaces for a batch of coordinates: one for values and one for gradients, which keep an autograd
        graph.
        """
        made: dict[bool, Any] = {}

        def workspace(q: torch.Tensor) -> Any:
            if q.requires_grad not in made:
                made[q.requires_grad] = bard.create_data(self.bard, max_batch_size=len(q))
            data = made[q.requires_grad]
            data.J_local = data.J_local.detach()  # otherwise a gradient would continue into the previous call
            return data

        return workspace

    def arguments(self, case: str, state: State) -> Sequence[torch.Tensor]:
        """Return its arguments, see :class:`TorchLibrary`."""
        turn = self._turn(state)
        q = state.q
        if self.robot.floating:
            q = np.hstack([q[:, :3], q[:, 6:7], q[:, 3:6], q[:, 7:]])  # quaternion wxyz
        arrays = [q]
        if case in ("rnea", "aba"):
            arrays.append(_times(turn, state.qd))
        if case == "rnea":
            arrays.append(_times(turn, state.qdd) + self._drift(state))
        if case == "aba":
            arrays.append(_times(turn, state.tau))
        return [self.tensor(array) for array in arrays]

    def value(self, case: str, state: State, result: Any) -> torch.Tensor:
        """Convert its result, see :class:`TorchLibrary`."""
        turn = self.tensor(self._turn(state))
        if case == "jacobian":
            position = self.function("fk")(*self.arguments("fk", state))[:, :3, 3, None]
            linear, angular = result[:, :3], result[:, 3:]
            linear = linear - torch.linalg.cross(position.expand_as(angular), angular, dim=1)  # at the tip
            return torch.cat([angular, linear], dim=1) @ turn
        if case == "crba":
            return turn.mT @ result @ turn
        if case == "rnea":
            return (turn.mT @ result[:, :, None])[:, :, 0]
        if case == "aba":
            return (turn.mT @ (result - self.tensor(self._drift(state)))[:, :, None])[:, :, 0]
        found: torch.Tensor = result
        return found

    def _turn(self, state: State) -> np.ndarray:
        """Return orthogonal matrices [batch, nv, nv] that turn velocities along world axes into BARD's."""
        turn = np.tile(np.eye(self.robot.nv), (len(state.q), 1, 1))
        if self.robot.floating:
            turn[:, :3, :3] = turn[:, 3:6, 3:6] = Rotation.from_quat(state.q[:, 3:7]).inv().as_matrix()
        return turn

    def _drift(self, state: State) -> np.ndarray:
        """Return BARD's accelerations [batch, nv] when those along world axes are zero."""
        drift = np.zeros_like(state.qd)
        if self.robot.floating:
            velocity = _times(self._turn(state), state.qd)
            drift[:, :3] = -np.cross(velocity[:, 3:6], velocity[:, :3])
        return drift


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Multiply each matrix [batch, n, n] by its vector [batch, n]."""
    product: np.ndarray = (matrices @ vectors[:, :, None])[:, :, 0]
    return product
