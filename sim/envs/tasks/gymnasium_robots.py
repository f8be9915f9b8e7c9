"""Robots of gymnasium's MuJoCo tasks, version 5, read from the files that gymnasium installs.

Rewards, terminations, initial states and observations are those of version 5 without the terms of contact forces.
Contact is hard unless MuJoCo's law is chosen; with that and its integrator a step is MuJoCo's. docs/learning.md lists
the other differences.
"""

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sim.envs.state import TaskState
from sim.envs.task import Task
from sim.envs.tasks.common import contact_of
from sim.errors import MJCFWarning, ModelError
from sim.importers.load import load
from sim.model.conventions import from_mujoco, to_mujoco
from sim.model.model import Model
from sim.simulation.options import ContactMethod
from sim.torch.arrays import TORCH_DTYPES
from sim.torch.robot.robot import Robot


def gymnasium_file(name: str) -> Path:
    """Return the path of a robot's MJCF in gymnasium's installation. Raises ModelError if gymnasium isn't installed."""
    found = importlib.util.find_spec("gymnasium")
    if found is None or found.origin is None:
        raise ModelError(f"{name} is a file of the package gymnasium: pip install 'backswing[rl]'")
    return Path(found.origin).parent / "envs" / "mujoco" / "assets" / name


class GymnasiumRobot(Task):
    """Common part of the robots.

    Args:
        dtype: "float32" or "float64".
        law: "hard", or "mujoco" for MuJoCo's contacts (:class:`sim.HardContact`, :class:`sim.MujocoContact`).
        integrator: with MuJoCo's law, "euler" or "rk4" (:class:`sim.Simulator`); the files of Ant, Hopper and
            Humanoid select the latter, which takes four times as long.

    Attributes:
        file: name of the MJCF.
        position_noise: half-width of the uniform noise on initial coordinates.
        velocity_noise: the same for initial velocities; with ``normal_velocities`` the standard deviation.
        skipped: number of leading coordinates that aren't observed.
        forward_weight, control_weight, healthy_reward: weights of the reward.
        position, velocity: the present state as MuJoCo's qpos and qvel.
    """

    file: str
    position_noise: float
    velocity_noise: float
    normal_velocities: bool
    skipped: int = 1
    forward_weight: float = 1.0
    control_weight: float
    healthy_reward: float

    def __init__(self, dtype: str = "float32", law: str = "hard", integrator: str = "euler"):
        super().__init__(dtype)
        self.integrator = integrator
        self._contact = contact_of(law, type(self).__name__)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MJCFWarning)  # docs/learning.md lists the differences
            self._model = load(gymnasium_file(self.file), dtype=dtype)

    def model(self) -> Model:
        """Return the file's model."""
        return self._model

    def contact(self) -> ContactMethod:
        """Return the options of the chosen law."""
        return self._contact

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """Sample the file's initial state with noise, like version 5: added to quaternions before normalisation."""
        dtype, device = TORCH_DTYPES[self.dtype], generator.device
        q0 = torch.as_tensor(self._model.q0, dtype=dtype, device=device)
        qpos, _ = to_mujoco(self._model, q0, q0.new_zeros(self._model.nv))
        qpos = qpos + self.uniform((n, self._model.nq), generator, -self.position_noise, self.position_noise)
        shape, size = (n, self._model.nv), self.velocity_noise
        qvel = (
            self.normal(shape, generator, size)
            if self.normal_velocities
            else self.uniform(shape, generator, -size, size)
        )
        return self.episodes(*from_mujoco(self._model, qpos, qvel))

    def observe(self, state: TaskState) -> torch.Tensor:
        """Return MuJoCo's qpos without its first entries, and qvel."""
        qpos, qvel = to_mujoco(self._model, state.q, state.qd)
        return torch.cat([qpos[:, self.skipped :], self.seen_velocity(qvel)], dim=1)

    def seen_velocity(self, qvel: torch.Tensor) -> torch.Tensor:
        """Return the observed part of MuJoCo's velocities."""
        return qvel

    def forward_position(self, state: TaskState) -> torch.Tensor:
        """Return the robot's position along x [n]."""
        return state.q[:, 0]

    def healthy(self, state: TaskState) -> torch.Tensor:
        """Return a mask of the robots that haven't fallen [n]."""
        return torch.ones(len(state.q), dtype=torch.bool, device=state.q.device)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        """Return velocity along x, plus a bonus for being healthy, minus the cost of control."""
        velocity = (self.forward_position(after) - self.forward_position(before)) / self.step_dt
        healthy = self.healthy_reward * self.healthy(after).to(velocity.dtype)
        return self.forward_weight * velocity + healthy - self.control_weight * action.square().sum(dim=1)

    def terminated(self, state: TaskState) -> torch.Tensor:
        """Return a mask of those that aren't healthy."""
        return ~self.healthy(state)


class Ant(GymnasiumRobot):
    """Ant-v5 without contact forces in observation and reward."""

    file = "ant.xml"
    dt, frame_skip = 0.01, 5
    position_noise = velocity_noise = 0.1
    normal_velocities = True
    skipped = 2
    control_weight = 0.5
    healthy_reward = 1.0

    def healthy(self, state: TaskState) -> torch.Tensor:
        """Return a mask of those whose torso is between 0.2 and 1 m high."""
        height = state.q[:, 2]
        return (height >= 0.2) & (height <= 1.0)


class AntPaper(Ant):
    """Ant of Qiao et al. (ICML 2021), as in their published code.

    It treats the file's armature as mass: each link has 1 kg more, and no armature. The reward is 1 + v_x - 0.5 |a|^2,
    with the velocity of the centre of mass; observed velocities are scaled by 0.05.
    """

    def __init__(self, dtype: str = "float32", law: str = "hard", integrator: str = "euler"):
        super().__init__(dtype, law, integrator)
        given = self._model.parameters
        heavier = {"mass": given["mass"] + 1.0, "armature": np.zeros_like(given["armature"])}
        self._model = replace(self._model, parameters={**given, **heavier})
        self._robot = Robot(self._model, device="cpu")

    def seen_velocity(self, qvel: torch.Tensor) -> torch.Tensor:
        """Return velocities scaled down."""
        return 0.05 * qvel

    def forward_position(self, state: TaskState) -> torch.Tensor:
        """Return the position of the centre of mass."""
        return self._robot.to(state.q.device).centre_of_mass(state.q)[:, 0]


class Hopper(GymnasiumRobot):
    """Hopper-v5."""

    file = "hopper.xml"
    dt, frame_skip = 0.002, 4
    position_noise = velocity_noise = 5e-3
    normal_velocities = False
    control_weight = 1e-3
    healthy_reward = 1.0

    def seen_velocity(self, qvel: torch.Tensor) -> torch.Tensor:
        """Return velocities clipped, as in version 5."""
        return qvel.clamp(-10.0, 10.0)

    def healthy(self, state: TaskState) -> torch.Tensor:
        """Return a mask of those that stand at least 0.7 m high, lean by less than 0.2 rad, and whose state is
        bounded.
        """
        bounded = (state.q[:, 2:].abs() < 100.0).all(dim=1) & (state.qd.abs() < 100.0).all(dim=1)
        return bounded & (state.q[:, 1] > 0.7) & (state.q[:, 2].abs() < 0.2)


class HalfCheetah(GymnasiumRobot):
    """HalfCheetah-v5, which never falls."""

    file = "half_cheetah.xml"
    dt, frame_skip = 0.01, 5
    position_noise = velocity_noise = 0.1
    normal_velocities = True
    control_weight = 0.1
    healthy_reward = 0.0


class Humanoid(GymnasiumRobot):
    """Humanoid-v5, observing only its coordinates and velocities."""

    file = "humanoid.xml"
    dt, frame_skip = 0.003, 5
    position_noise = velocity_noise = 1e-2
    normal_velocities = False
    skipped = 2
    forward_weight = 1.25
    control_weight = 0.1
    healthy_reward = 5.0
    action_low: float | Sequence[float] = -0.4
    action_high: float | Sequence[float] = 0.4

    def __init__(self, dtype: str = "float32", law: str = "hard", integrator: str = "euler"):
        super().__init__(dtype, law, integrator)
        self._robot = Robot(self._model, device="cpu")

    def forward_position(self, state: TaskState) -> torch.Tensor:
        """Return the position of the centre of mass."""
        return self._robot.to(state.q.device).centre_of_mass(state.q)[:, 0]

    def healthy(self, state: TaskState) -> torch.Tensor:
        """Return a mask of those whose torso is between 1 and 2 m high."""
        height = state.q[:, 2]
        return (height > 1.0) & (height < 2.0)
