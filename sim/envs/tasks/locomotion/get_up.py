"""Getting up after a fall, for legged robots."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from sim.envs.state import NewEpisodes, TaskState
from sim.envs.tasks.locomotion.checks import require_fraction, require_numbers
from sim.envs.tasks.locomotion.legged_robot import ByJoint, LeggedRobot
from sim.envs.tasks.locomotion.legged_task import LeggedTask, sum_of_squares


class GetUpTask(LeggedTask):
    """A legged robot that falls down from any orientation, gets up and stands still.

    Actions, observations and random parameters are those of :class:`LeggedTask`. Episodes end by time, and on terrain
    beyond its border. Some begin with a robot that stands, so that it learns first how to stay so.

    The reward has a part for turning over ("upright"), one for the height of a robot that is upright ("high"), one for
    the standing pose ("pose"), and one for a robot in this pose that doesn't move ("still").

    Args:
        robot: the robot, see :func:`sim.envs.legged_robot`.
        law: contact law, see :class:`LeggedTask`.
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.

    Attributes:
        bend: largest distance of a joint from the standing pose at the beginning [rad].
        stood: fraction of the episodes that begin with a robot that stands.

    Example:
        >>> import sim.envs
        >>> env = sim.envs.make("QuadrupedGetUp", num_envs=4, device="cpu", seed=0)
        >>> observation, info = env.reset()
        >>> observation["policy"].shape
        torch.Size([4, 45])
    """

    max_episode_length = 250
    action_scale: ByJoint = 1.5
    push = 0.0
    bend: float = 0.5
    stood: float = 0.25
    weights: Mapping[str, float] = MappingProxyType(
        {
            "upright": 1.0, "high": 1.0, "pose": 1.0, "still": 1.0, "smooth": -0.01, "acceleration": -1e-7,
            "speeds": -0.0002,
        }
    )  # fmt: skip

    def __init__(self, robot: LeggedRobot, law: str = "hard", **settings: Any):
        super().__init__(robot, law, **settings)
        self.logged = (*self.logged, "stands")
        require_numbers(self, ("bend",))
        require_fraction(self, "stood")

    def begin(self, new: NewEpisodes) -> TaskState:
        """Return robots as :meth:`starts` has them."""
        first = super().begin(new)
        data = {**first.data, "stands": torch.zeros(len(new)).to(first.q)}
        return self.episodes(first.q, first.qd, data, first.act)

    def starts(self, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return robots as :meth:`falling` has them, some of which stand instead."""
        standing, speeds = super().starts(n, generator)
        q, qd = self.falling(n, generator)
        stands = self.uniform((n, 1), generator, 0.0, 1.0) < self.stood
        return torch.where(stands, standing, q), torch.where(stands, speeds, qd)

    def falling(self, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return coordinates [n, nq] and velocities [n, nv] of robots above the ground, with any orientation, almost at
        rest.
        """
        q, qd = super().starts(n, generator)
        q[:, 2] = 1.5 * self.robot.height
        q[:, 3:7] = torch.nn.functional.normalize(self.normal((n, 4), generator, 1.0), dim=1)
        q[:, 7:] = self._start.to(q)[7:] + self.uniform((n, q.shape[1] - 7), generator, -self.bend, self.bend)
        return q, qd

    def standing(self, state: TaskState) -> torch.Tensor:
        """Return a mask of robots that stand: upright within 0.3 rad, and at least 0.8 of the standing height [n].

        Robots beyond the border of a terrain don't stand.
        """
        _, _, down = self.motion(state)
        height = self.height(state)
        return (down[:, 2] < -math.cos(0.3)) & (height > 0.8 * self.robot.height) & height.isfinite()

    def advance(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the data of :meth:`LeggedTask.advance`, and whether the robot stands."""
        return {**super().advance(before, action, after), "stands": self.standing(after.detach()).to(after.q)}

    def terms(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms of the reward [n], by name, without weights."""
        velocity, rate, down = self.motion(after)
        upright = 0.5 * (1.0 - down[:, 2])
        height = self.height(after)
        height = torch.where(height.isfinite(), height, 0.0)  # no reward beyond the border of a terrain
        # At an angle a to the vertical, upright is cos²(a/2); its eighth power is 1/2 at 33 degrees.
        pose = upright**8 * torch.exp(-5.0 * self.bent(after).square().mean(dim=1))
        return {
            "upright": upright,
            "high": upright**4 * (height / self.robot.height).clamp(0.0, 1.0),
            "pose": pose,
            "still": pose * torch.exp(-4.0 * sum_of_squares(velocity) - sum_of_squares(rate)),
            "smooth": sum_of_squares(action - before.data["action"]),
            "acceleration": self.acceleration(before, after),
            "speeds": sum_of_squares(after.qd[:, 6:]),
        }

    def terminated(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return a mask of robots that have left the terrain."""
        return {"left": self.height(state).isinf()}
