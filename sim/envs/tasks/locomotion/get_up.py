"""Getting up after a fall, for legged robots."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from sim.envs.state import NewEpisodes, TaskState
from sim.envs.tasks.locomotion.checks import require_numbers
from sim.envs.tasks.locomotion.legged_robot import ByJoint, LeggedRobot
from sim.envs.tasks.locomotion.legged_task import LeggedTask, sum_of_squares
from sim.errors import ModelError
from sim.torch.quaternions import quaternion_product

FARTHER, NEARER = 0.5, 0.25  # change of the largest tilt after an episode [rad]


class GetUpTask(LeggedTask):
    """A legged robot that falls down from any orientation, gets up and stands still.

    Actions, observations and random parameters are those of :class:`LeggedTask`. Episodes end by time, and on terrain
    beyond its border. An episode begins with a robot above the ground that is tilted by a random angle. The largest
    angle grows for an environment whose robot stands at the end of an episode, and falls for one whose robot doesn't.

    The reward has a part for turning over ("upright"), one for the height of a robot that is upright ("high"), one for
    the standing pose ("pose"), and one for a robot in this pose that doesn't move ("still").

    Args:
        robot: the robot, see :func:`sim.envs.legged_robot`.
        law: contact law, see :class:`LeggedTask`.
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.

    Attributes:
        bend: largest distance of a joint from the standing pose at the beginning [rad].
        first_tilt: largest angle between base and vertical in the first episodes, at most pi [rad].

    Example:
        >>> import sim.envs
        >>> env = sim.envs.make("QuadrupedGetUp", num_envs=4, device="cpu", seed=0)
        >>> observation, info = env.reset()
        >>> observation["policy"].shape
        torch.Size([4, 45])
    """

    max_episode_length = 200
    action_scale: ByJoint = 1.5
    push = 0.0
    bend: float = 0.5
    first_tilt: float = 0.8
    weights: Mapping[str, float] = MappingProxyType(
        {
            "upright": 1.0, "high": 1.0, "pose": 1.0, "still": 1.0, "smooth": -0.01, "acceleration": -1e-7,
            "speeds": -0.0002,
        }
    )  # fmt: skip

    def __init__(self, robot: LeggedRobot, law: str = "hard", **settings: Any):
        super().__init__(robot, law, **settings)
        self.logged = (*self.logged, "stands", "tilt")
        require_numbers(self, ("bend", "first_tilt"))
        if self.first_tilt > math.pi:
            raise ModelError(f"{type(self).__name__}.first_tilt is {self.first_tilt:g}; it must be at most pi")

    def begin(self, new: NewEpisodes) -> TaskState:
        """Return robots as :meth:`starts` has them, tilted as far as their environments have come."""
        first = super().begin(new)
        tilt = torch.full((len(new),), self.first_tilt).to(first.q)
        if new.last is not None:
            change = torch.where(new.last.data["stands"] > 0.0, FARTHER, -NEARER)
            tilt = (new.last.data["tilt"] + change).clamp(self.first_tilt, math.pi)
        q = first.q.clone()
        q[:, 3:7] = self._tilted(tilt, new.generator)
        data = {**first.data, "stands": torch.zeros(len(new)).to(q), "tilt": tilt}
        if self.robot.terrain is not None:
            data["heights"] = self._scan(q)
        return self.episodes(q, first.qd, data, first.act)

    def starts(self, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return coordinates [n, nq] and velocities [n, nv] of robots above the ground, with any orientation, almost at
        rest.
        """
        q, qd = super().starts(n, generator)
        q[:, 2] = 1.5 * self.robot.height
        q[:, 3:7] = torch.nn.functional.normalize(self.normal((n, 4), generator, 1.0), dim=1)
        q[:, 7:] = self._start.to(q)[7:] + self.uniform((n, q.shape[1] - 7), generator, -self.bend, self.bend)
        return q, qd

    def _tilted(self, largest: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return orientations [n, 4] with any heading, tilted about any horizontal axis by up to these angles [n]."""
        n = len(largest)
        half = 0.5 * largest * self.uniform((n,), generator, 0.0, 1.0)
        axis, heading = self.uniform((2, n), generator, -math.pi, math.pi)
        zero = torch.zeros_like(half)
        tilt = torch.stack([half.sin() * axis.cos(), half.sin() * axis.sin(), zero, half.cos()], dim=1)
        turn = torch.stack([zero, zero, (0.5 * heading).sin(), (0.5 * heading).cos()], dim=1)
        return quaternion_product(tilt, quaternion_product(turn, self._start.to(largest)[3:7].expand(n, 4)))

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
