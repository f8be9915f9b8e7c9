"""PandaReach: bring the hand of a Panda to a pose, by velocities that operational-space control turns into torques."""

import warnings
from importlib import metadata
from pathlib import Path

import torch

from sim.envs.task import DTYPES, Task, TaskState
from sim.errors import ModelError, URDFWarning
from sim.importers.load import load
from sim.model.model import Model
from sim.torch.robot.robot import Robot

HAND = "panda_hand_tcp"
HOME = (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785, 0.02, 0.02)  # seven joints of the arm, two fingers [rad, m]
ARM = 7
VELOCITY, RATE = 0.5, 1.5  # of an action of 1 [m/s, rad/s]
GAIN = 20.0  # of the error in velocity [1/s]
STIFFNESS, DAMPING = 10.0, 6.0  # of what the task leaves free, towards HOME [1/s^2, 1/s]
REGULARISATION = 1e-4  # of the inverse inertia that the hand feels, where the arm is stretched out [1/kg]


def panda_file() -> Path:
    """The Panda of the package example-robot-data. Raises ModelError where it isn't installed."""
    try:
        files = metadata.files("example-robot-data") or []
    except metadata.PackageNotFoundError:
        raise ModelError("the Panda's file comes with example-robot-data; pip install example-robot-data") from None
    return next(Path(str(file.locate())) for file in files if file.match("panda_description/urdf/panda.urdf"))


class PandaReach(Task):
    """An arm on its base, without collision; the hand begins at a random pose and is to reach another one.

    An action is the twist that the hand should have, three linear velocities and three rates along world axes. Torques
    follow from it at each action by operational-space control (Khatib 1987), with Jacobian, mass matrix and bias forces
    of :class:`sim.torch.Robot`, gradients included. Observed are angles and velocities of the arm and the error of the
    pose; the reward is minus the distance and minus the sine of half the angle that is left.

    Args:
        file: URDF of the arm; None for that of example-robot-data.
        dtype: "float32" or "float64".
    """

    dt, frame_skip = 1 / 240, 4
    max_episode_length = 200

    def __init__(self, file: Path | None = None, dtype: str = "float32"):
        super().__init__(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", URDFWarning)  # of what belongs to a safety controller
            self._model = load(panda_file() if file is None else file, dtype=dtype, collision=False)
        self._robot = Robot(self._model, device="cpu")

    def model(self) -> Model:
        """As the file has it; its fingers are coupled."""
        return self._model

    def num_actions(self, model: Model) -> int:
        """A twist has six numbers."""
        return 6

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """At rest near HOME, with the pose of the hand at another place near HOME as its target."""
        robot = self._robot.to(generator.device)
        begun, wanted = (self._near_home(n, generator, spread) for spread in (0.2, 0.5))
        position, quaternion = robot.forward_kinematics(wanted, HAND)
        return self.episodes(begun, torch.zeros_like(begun), {"position": position, "quaternion": quaternion})

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Torques that give the hand its twist and pull the rest towards HOME."""
        robot, q, qd = self._robot, state.q, state.qd
        jacobian = robot.jacobian(q, HAND)
        inverse = robot.mass_matrix_inverse(q)
        twist = torch.cat([RATE * action[:, 3:], VELOCITY * action[:, :3]], dim=1)  # angular first
        error = twist - (jacobian @ qd[:, :, None])[:, :, 0]
        felt = jacobian @ inverse @ jacobian.mT + REGULARISATION * torch.eye(6, dtype=q.dtype, device=q.device)
        rest = STIFFNESS * (q.new_tensor(HOME) - q) - DAMPING * qd
        # The wrench makes up for what the pull towards HOME would do to the hand.
        missing = GAIN * error - (jacobian @ rest[:, :, None])[:, :, 0]
        wrench = torch.linalg.solve(felt, missing)
        pull = (robot.mass_matrix(q) @ rest[:, :, None])[:, :, 0]
        return {"tau": pull + (jacobian.mT @ wrench[:, :, None])[:, :, 0] + robot.bias_forces(q, qd)}

    def observe(self, state: TaskState) -> torch.Tensor:
        """Angles and velocities of the arm [7 + 7], what is left to the target [3], and half the rotation left [3]."""
        offset, rotation = self._miss(state)
        return torch.cat([state.q[:, :ARM], state.qd[:, :ARM], offset, rotation], dim=1)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        """See the class."""
        offset, rotation = self._miss(after)
        return -offset.norm(dim=1) - rotation.norm(dim=1)

    def _miss(self, state: TaskState) -> tuple[torch.Tensor, torch.Tensor]:
        """What is left to the target, and axis times sine of half the angle, along world axes."""
        position, quaternion = self._robot.forward_kinematics(state.q, HAND)
        target = state.data["quaternion"]
        vector, w = quaternion[:, :3], quaternion[:, 3:]
        aim, aim_w = target[:, :3], target[:, 3:]
        # The vector part of target * conjugate(quaternion), on the side where its scalar part isn't negative.
        rotation = w * aim - aim_w * vector - torch.linalg.cross(aim, vector)
        scalar = aim_w * w + (aim * vector).sum(dim=1, keepdim=True)
        return state.data["position"] - position, torch.where(scalar < 0.0, -rotation, rotation)

    def _near_home(self, n: int, generator: torch.Generator, spread: float) -> torch.Tensor:
        home = torch.tensor(HOME, dtype=DTYPES[self.dtype], device=generator.device)
        turned = self.uniform((n, ARM), generator, -spread, spread)
        return home + torch.cat([turned, turned.new_zeros(n, len(HOME) - ARM)], dim=1)
