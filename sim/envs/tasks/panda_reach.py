"""PandaReach: move a Panda's hand to a target pose, with velocity actions and operational-space control."""

import warnings
from pathlib import Path

import torch

from sim.envs.state import TaskState
from sim.envs.task import Task
from sim.envs.tasks.common import example_robot
from sim.errors import URDFWarning
from sim.importers.load import load
from sim.model.model import Model
from sim.torch.arrays import TORCH_DTYPES
from sim.torch.robot.robot import Robot

PANDA = "panda_description/urdf/panda.urdf"
HAND = "panda_hand_tcp"
HOME = (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785, 0.02, 0.02)  # seven joints of the arm, two fingers [rad, m]
ARM = 7
VELOCITY, RATE = 0.5, 1.5  # of an action of 1 [m/s, rad/s]
GAIN = 20.0  # of the error in velocity [1/s]
STIFFNESS, DAMPING = 10.0, 6.0  # of the null-space motion, towards HOME [1/s^2, 1/s]
REGULARISATION = 1e-4  # lower bound on the operational-space inverse inertia near singularities [1/kg]


class PandaReach(Task):
    """An arm on its base, without collision; the hand starts at a random pose and must reach another one.

    An action is the hand's desired twist: three linear velocities and three rates along world axes. Operational-space
    control (Khatib 1987) computes torques from it at each action, with Jacobian, mass matrix and bias forces of
    :class:`sim.torch.Robot`, gradients included. Observations are angles and velocities of the arm and the error of the
    pose; the reward is minus the distance and minus the sine of half the angle error.

    Args:
        file: URDF of the arm. Default: that of example-robot-data.
        dtype: "float32" or "float64".
    """

    dt, frame_skip = 1 / 240, 4
    max_episode_length = 200

    def __init__(self, file: Path | None = None, dtype: str = "float32"):
        super().__init__(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", URDFWarning)  # limits of a safety controller
            self._model = load(example_robot(PANDA) if file is None else file, dtype=dtype, collision=False)
        self._robot = Robot(self._model, device="cpu")

    def model(self) -> Model:
        """Return the file's model with coupled fingers."""
        return self._model

    def num_actions(self, model: Model) -> int:
        """Return six, the size of a twist."""
        return 6

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """Sample states at rest near HOME, with the hand's pose at another configuration near HOME as target."""
        robot = self._robot.to(generator.device)
        begun, wanted = (self._near_home(n, generator, spread) for spread in (0.2, 0.5))
        position, quaternion = robot.forward_kinematics(wanted, HAND)
        return self.episodes(begun, torch.zeros_like(begun), {"position": position, "quaternion": quaternion})

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return torques that give the hand its twist and pull the null space towards HOME."""
        robot, q, qd = self._robot, state.q, state.qd
        jacobian = robot.jacobian(q, HAND)
        inverse = robot.mass_matrix_inverse(q)
        twist = torch.cat([RATE * action[:, 3:], VELOCITY * action[:, :3]], dim=1)  # angular first
        error = twist - (jacobian @ qd[:, :, None])[:, :, 0]
        felt = jacobian @ inverse @ jacobian.mT + REGULARISATION * torch.eye(6, dtype=q.dtype, device=q.device)
        rest = STIFFNESS * (q.new_tensor(HOME) - q) - DAMPING * qd
        # The wrench compensates the effect of the pull towards HOME on the hand.
        missing = GAIN * error - (jacobian @ rest[:, :, None])[:, :, 0]
        wrench = torch.linalg.solve(felt, missing)
        pull = (robot.mass_matrix(q) @ rest[:, :, None])[:, :, 0]
        return {"tau": pull + (jacobian.mT @ wrench[:, :, None])[:, :, 0] + robot.bias_forces(q, qd)}

    def observe(self, state: TaskState) -> torch.Tensor:
        """Return angles and velocities of the arm [7 + 7], position error [3], and axis times sine of half the angle
        error [3].
        """
        offset, rotation = self._miss(state)
        return torch.cat([state.q[:, :ARM], state.qd[:, :ARM], offset, rotation], dim=1)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        """Return the reward, see the class."""
        offset, rotation = self._miss(after)
        return -offset.norm(dim=1) - rotation.norm(dim=1)

    def _miss(self, state: TaskState) -> tuple[torch.Tensor, torch.Tensor]:
        """Return position error, and axis times sine of half the angle error, along world axes."""
        position, quaternion = self._robot.forward_kinematics(state.q, HAND)
        target = state.data["quaternion"]
        vector, w = quaternion[:, :3], quaternion[:, 3:]
        aim, aim_w = target[:, :3], target[:, 3:]
        # The vector part of target * conjugate(quaternion), with the sign that makes its scalar part non-negative.
        rotation = w * aim - aim_w * vector - torch.linalg.cross(aim, vector)
        scalar = aim_w * w + (aim * vector).sum(dim=1, keepdim=True)
        return state.data["position"] - position, torch.where(scalar < 0.0, -rotation, rotation)

    def _near_home(self, n: int, generator: torch.Generator, spread: float) -> torch.Tensor:
        home = torch.tensor(HOME, dtype=TORCH_DTYPES[self.dtype], device=generator.device)
        turned = self.uniform((n, ARM), generator, -spread, spread)
        return home + torch.cat([turned, turned.new_zeros(n, len(HOME) - ARM)], dim=1)
