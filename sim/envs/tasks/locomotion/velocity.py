"""Velocity commands for legged robots, on flat ground and on terrain."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from sim.envs.state import NewEpisodes, TaskState
from sim.envs.tasks.locomotion.checks import finite, require_bounds, require_fraction, require_numbers
from sim.envs.tasks.locomotion.legged_robot import LeggedRobot
from sim.envs.tasks.locomotion.legged_task import LeggedTask, sum_of_squares
from sim.torch.arrays import TORCH_DTYPES

ERRORS = ("speed_error", "turn_error")  # data of an episode: mean errors so far [m/s, rad/s]


class VelocityTask(LeggedTask):
    """A legged robot that follows velocities ahead, to the left and about the vertical.

    Actions, random parameters and pushes are those of :class:`LeggedTask`. Derive from this class to change the
    attributes, add terms of the reward, or replace observations: docs/locomotion.md does it in 40 lines.

    On terrain the robot also observes heights around it (:func:`sim.torch.height_scan`), and episodes have a level: a
    robot that leaves its tile begins on the next one, and one that comes less than half as far as commanded on the one
    before.

    Args:
        robot: the robot, see :func:`sim.envs.legged_robot`.
        law: contact law, see :class:`LeggedTask`.
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.

    Attributes:
        commands: smallest and largest velocity ahead and to the left [m/s], and about the vertical [rad/s].
        command_seconds: time after which a new command is drawn [s].
        idle: fraction of the commands that are zero.
        tilt: largest angle between base and vertical, beyond which an episode fails [rad].
        least_height: smallest height of the base above the ground, relative to that of the standing robot.

    Example:
        >>> import sim.envs
        >>> env = sim.envs.make("QuadrupedVelocity", num_envs=4, device="cpu", seed=0)
        >>> observation, info = env.reset()
        >>> observation["policy"].shape, observation["critic"].shape
        (torch.Size([4, 48]), torch.Size([4, 64]))
    """

    commands: Sequence[tuple[float, float]] = ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
    command_seconds: float = 5.0
    idle: float = 0.05
    tilt: float = 1.0
    least_height: float = 0.5
    weights: Mapping[str, float] = MappingProxyType({
        "velocity": 1.5, "turn": 0.75, "vertical": -2.0, "tilt_rate": -0.05, "level": -2.5, "smooth": -0.01,
        "acceleration": -2.5e-7, "air": 0.5, "pose": -0.1, "still": -0.5,
    })  # fmt: skip

    def __init__(self, robot: LeggedRobot, law: str = "hard", **settings: Any):
        super().__init__(robot, law, **settings)
        require_bounds(f"{type(self).__name__}.commands", self.commands, 3)
        require_numbers(self, ("tilt",), ("command_seconds",))
        finite(type(self).__name__, "least_height", self.least_height)
        require_fraction(self, "idle")
        self.logged = (*ERRORS, *self.logged)

    def begin(self, new: NewEpisodes) -> TaskState:
        """Return robots that stand, with commands."""
        first = super().begin(new)
        errors = {name: torch.zeros(len(new)).to(first.q) for name in ERRORS}
        data = {**first.data, **errors, "command": self.command(len(new), new.generator)}
        return self.episodes(first.q, first.qd, data, first.act)

    def command(self, n: int, generator: torch.Generator | None) -> torch.Tensor:
        """Draw commands [n, 3]."""
        low, high = torch.tensor(self.commands, dtype=TORCH_DTYPES[self.dtype]).unbind(dim=1)
        part = self.uniform((n, 3), generator, 0.0, 1.0)
        drawn = low.to(part) + (high - low).to(part) * part
        return drawn * (self.uniform((n, 1), generator, 0.0, 1.0) >= self.idle)

    def advance(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the data of :meth:`LeggedTask.advance`, and the mean errors of the episode."""
        errors = zip(ERRORS, self.errors(after.detach()), strict=True)
        means = {name: before.data[name] + (error - before.data[name]) / after.steps for name, error in errors}
        return {**super().advance(before, action, after), **means}

    def events(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return velocities after pushes and new commands, each where its time has come."""
        drawn = self.command(len(state.q), state.generator)
        command = torch.where(self.due(state, self.command_seconds), drawn, state.data["command"])
        return {**super().events(state), "command": command}

    def errors(self, state: TaskState) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the distance of the horizontal velocity from the command [m/s] and that of the rate [rad/s], each
        [n].
        """
        (velocity, rate, _), command = self.motion(state), state.data["command"]
        return (velocity - command)[:, :2].norm(dim=1), (rate - command)[:, 2].abs()

    def measurements(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return the command, and what :meth:`LeggedTask.measurements` has."""
        return {"command": state.data["command"], **super().measurements(state)}

    def terms(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms of the reward [n], by name, without weights."""
        (velocity, rate, down), command = self.motion(after), before.data["command"]
        air, bent = before.data["air"], self.bent(after)
        landed = self.stands(after) & (air > 0.0)
        moves = command.norm(dim=1) > 0.1
        return {
            "velocity": torch.exp(-4.0 * sum_of_squares(velocity[:, :2] - command[:, :2])),
            "turn": torch.exp(-4.0 * (rate[:, 2] - command[:, 2]).square()),
            "vertical": velocity[:, 2].square(),
            "tilt_rate": sum_of_squares(rate[:, :2]),
            "level": sum_of_squares(down[:, :2]),
            "smooth": sum_of_squares(action - before.data["action"]),
            "acceleration": self.acceleration(before, after),
            "air": (landed * (air - 0.3)).sum(dim=1) * moves,
            "pose": sum_of_squares(bent),
            "still": bent.abs().sum(dim=1) * ~moves,
        }

    def terminated(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return masks of robots that have fallen or left the terrain, and of those that have tipped over."""
        _, _, down = self.motion(state)
        height = self.height(state)
        low = height < self.least_height * self.robot.height
        return {"fallen": low | height.isinf(), "tipped": down[:, 2] > -math.cos(self.tilt)}

    def next_level(self, last: TaskState) -> torch.Tensor:
        """Return the level after an episode, see the class [n]."""
        assert self.robot.terrain is not None
        walked = (last.q[:, :2] - last.data["origin"][:, :2]).norm(dim=1)
        commanded = last.data["command"][:, :2].norm(dim=1) * last.steps * self.step_dt
        up = walked > 0.5 * self.robot.terrain.size
        return last.data["level"] + up.long() - (~up & (walked < 0.5 * commanded)).long()
