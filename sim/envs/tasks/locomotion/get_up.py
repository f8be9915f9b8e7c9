"""Getting up after a fall, for legged robots."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import torch

from sim.envs.state import TaskState
from sim.envs.tasks.locomotion.legged_task import LeggedTask, sum_of_squares


class GetUpTask(LeggedTask):
    """A legged robot that falls down from any orientation, gets up and stands still.

    Actions, observations and random parameters are those of :class:`LeggedTask`. Episodes end by time, and on terrain
    beyond its border.

    Args:
        robot: the robot, see :func:`sim.envs.legged_robot`.
        law: contact law, see :class:`LeggedTask`.

    Attributes:
        bend: largest distance of a joint from the standing pose at the beginning [rad].

    Example:
        >>> import sim.envs
        >>> env = sim.envs.make("QuadrupedGetUp", num_envs=4, device="cpu", seed=0)
        >>> observation, info = env.reset()
        >>> observation["policy"].shape
        torch.Size([4, 45])
    """

    max_episode_length = 250
    action_scale = 1.5
    push = 0.0
    bend: float = 0.5
    weights: Mapping[str, float] = MappingProxyType(
        {"upright": 1.0, "high": 1.0, "pose": 1.0, "smooth": -0.01, "acceleration": -1e-7, "speeds": -0.0002}
    )

    def starts(self, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return robots above the ground, with any orientation, almost at rest."""
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

    def terms(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms of the reward [n], by name, without weights."""
        _, _, down = self.motion(after)
        upright = 0.5 * (1.0 - down[:, 2])
        height = self.height(after)
        height = torch.where(height.isfinite(), height, 0.0)  # no reward beyond the border of a terrain
        return {
            "upright": upright,
            "high": upright.square() * (height / self.robot.height).clamp(0.0, 1.0),
            "pose": upright.square() * torch.exp(-10.0 * self.bent(after).square().mean(dim=1)),
            "smooth": sum_of_squares(action - before.data["action"]),
            "acceleration": self.acceleration(before, after),
            "speeds": sum_of_squares(after.qd[:, 6:]),
        }

    def terminated(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return a mask of robots that have left the terrain."""
        return {"left": self.height(state).isinf()}
