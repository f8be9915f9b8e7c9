"""Robots of gymnasium's MuJoCo tasks, version 5, read from the files that gymnasium installs.

Reward, ends, starts and observations are those of version 5 without the terms of contact forces. Contact is hard unless
MuJoCo's law is chosen; with that and its integrator a step is MuJoCo's. docs/learning.md says what else differs.
"""

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sim.envs.task import DTYPES, Task, TaskState
from sim.errors import MJCFWarning, ModelError
from sim.importers.load import load
from sim.model.conventions import from_mujoco, to_mujoco
from sim.model.model import Model
from sim.simulation.options import ContactMethod, HardContact, MujocoContact
from sim.torch.robot.robot import Robot

LAWS: dict[str, ContactMethod] = {"hard": HardContact(), "mujoco": MujocoContact(friction="pyramid")}


def gymnasium_file(name: str) -> Path:
    """Where gymnasium has installed a robot's MJCF. Raises ModelError where it isn't installed."""
    found = importlib.util.find_spec("gymnasium")
    if found is None or found.origin is None:
        raise ModelError(f"{name} is a file of gymnasium, which isn't installed; pip install 'backswing[rl]'")
    return Path(found.origin).parent / "envs" / "mujoco" / "assets" / name


class GymnasiumRobot(Task):
    """What the robots have in common.

    Args:
        dtype: "float32" or "float64".
        law: "hard", or "mujoco" for MuJoCo's contacts (:class:`sim.HardContact`, :class:`sim.MujocoContact`).
        integrator: with MuJoCo's law, "euler" or "rk4" (:class:`sim.Simulator`); the files of Ant, Hopper and
            Humanoid ask for the latter, which takes four times as long.

    Attributes:
        file: name of the MJCF.
        position_noise: of the first coordinates, uniform within it either way.
        velocity_noise: of the first velocities, likewise or, where ``normal_velocities``, its standard deviation.
        skipped: how many of the first coordinates a policy doesn't see.
        forward_weight, control_weight, healthy_reward: of the reward.
        position, velocity: of the present state as MuJoCo's qpos and qvel.
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
        if law not in LAWS:
            raise ModelError(f"{type(self).__name__}: law is {law!r}; it must be {' or '.join(map(repr, LAWS))}")
        self._contact = LAWS[law]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MJCFWarning)  # docs/learning.md says what differs
            self._model = load(gymnasium_file(self.file), dtype=dtype)

    def model(self) -> Model:
        """As the file has it."""
        return self._model

    def contact(self) -> ContactMethod:
        """Of the law that was chosen."""
        return self._contact

    def sample_state(self, n: int, generator: torch.Generator) -> TaskState:
        """The file's first state with noise, as version 5 has it: on quaternions before they are normalised."""
        dtype, device = DTYPES[self.dtype], generator.device
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
        """MuJoCo's qpos without its first entries, and qvel."""
        qpos, qvel = to_mujoco(self._model, state.q, state.qd)
        return torch.cat([qpos[:, self.skipped :], self.seen_velocity(qvel)], dim=1)

    def seen_velocity(self, qvel: torch.Tensor) -> torch.Tensor:
        """What a policy sees of MuJoCo's velocities."""
        return qvel

    def place(self, state: TaskState) -> torch.Tensor:
        """How far the robot is along x [n]."""
        return state.q[:, 0]

    def healthy(self, state: TaskState) -> torch.Tensor:
        """Which robots haven't fallen [n]."""
        return torch.ones(len(state.q), dtype=torch.bool, device=state.q.device)

    def reward(self, before: TaskState, action: torch.Tensor, after: TaskState) -> torch.Tensor:
        """Velocity along x, a bonus for being healthy, and the cost of control."""
        velocity = (self.place(after) - self.place(before)) / self.step_dt
        healthy = self.healthy_reward * self.healthy(after).to(velocity.dtype)
        return self.forward_weight * velocity + healthy - self.control_weight * action.square().sum(dim=1)

    def terminated(self, state: TaskState) -> torch.Tensor:
        """Those that aren't healthy."""
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
        """Those whose torso is between 0.2 and 1 m high."""
        height = state.q[:, 2]
        return (height >= 0.2) & (height <= 1.0)


class AntPaper(Ant):
    """The ant of Qiao et al. (ICML 2021), as their published code has it.

    It takes the file's armature for mass: each link has 1 kg more, and no armature. The reward is 1 + v_x - 0.5 |a|^2,
    with the velocity of the centre of mass, and a policy sees velocities times 0.05.
    """

    def __init__(self, dtype: str = "float32", law: str = "hard", integrator: str = "euler"):
        super().__init__(dtype, law, integrator)
        given = self._model.parameters
        heavier = {"mass": given["mass"] + 1.0, "armature": np.zeros_like(given["armature"])}
        self._model = replace(self._model, parameters={**given, **heavier})
        self._robot = Robot(self._model, device="cpu")

    def seen_velocity(self, qvel: torch.Tensor) -> torch.Tensor:
        """Scaled down."""
        return 0.05 * qvel

    def place(self, state: TaskState) -> torch.Tensor:
        """Of the centre of mass."""
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
        """Clipped, as in version 5."""
        return qvel.clamp(-10.0, 10.0)

    def healthy(self, state: TaskState) -> torch.Tensor:
        """Those that stand at least 0.7 m high, lean by less than 0.2 rad, and whose state is bounded."""
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
    """Humanoid-v5 with its coordinates and velocities alone observed."""

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

    def place(self, state: TaskState) -> torch.Tensor:
        """Of the centre of mass."""
        return self._robot.to(state.q.device).centre_of_mass(state.q)[:, 0]

    def healthy(self, state: TaskState) -> torch.Tensor:
        """Those whose torso is between 1 and 2 m high."""
        height = state.q[:, 2]
        return (height > 1.0) & (height < 2.0)
