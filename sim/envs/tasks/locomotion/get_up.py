"""Getting up after a fall, for legged robots."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from sim.dynamics.lowest_points import enclosing_balls
from sim.envs.state import NewEpisodes, TaskState
from sim.envs.tasks.locomotion.checks import require_numbers
from sim.envs.tasks.locomotion.legged_robot import LeggedRobot
from sim.envs.tasks.locomotion.legged_task import LeggedTask, sum_of_squares
from sim.errors import ModelError
from sim.torch.quaternions import quaternion_product, rotated

GAP = 0.01  # below a robot that begins to fall, at least [m]


class GetUpTask(LeggedTask):
    """A legged robot that falls down from any orientation, gets up and stands still.

    Observations and random parameters are those of :class:`LeggedTask`. Actions change the angles of the joints: a
    servo's target is the present angle and ``action_scale`` times the action, so that random actions add up to large
    motions (as in MuJoCo Playground, Zakka et al. 2025). Episodes end by time, and on terrain beyond its border. An
    episode begins with a robot above the ground.

    The reward has a part for turning over ("upright"), one for the height of a robot that is upright ("high"), one for
    the standing pose ("pose"), and one for a robot in this pose that doesn't move ("still").

    Args:
        robot: the robot, see :func:`sim.envs.legged_robot`.
        law: contact law, see :class:`LeggedTask`.
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.

    Attributes:
        tilt: largest angle between base and vertical at the beginning, at most pi [rad].

    Example:
        >>> import sim.envs
        >>> env = sim.envs.make("QuadrupedGetUp", num_envs=4, device="cpu", seed=0)
        >>> observation, info = env.reset()
        >>> observation["policy"].shape
        torch.Size([4, 45])
    """

    max_episode_length = 200
    push, start_bend = 0.0, 1.0
    tilt: float = math.pi
    weights: Mapping[str, float] = MappingProxyType(
        {
            "upright": 1.5, "high": 1.0, "pose": 1.0, "still": 1.0, "smooth": -0.005, "acceleration": -1e-7,
            "speeds": -0.0002,
        }
    )  # fmt: skip

    def __init__(self, robot: LeggedRobot, law: str = "hard", **settings: Any):
        super().__init__(robot, law, **settings)
        self.logged = (*self.logged, "stands")
        require_numbers(self, ("tilt",))
        if self.tilt > math.pi:
            raise ModelError(f"{type(self).__name__}.tilt is {self.tilt:g}; it must be at most pi")
        model = robot.model
        parts = [each for each in model.geometries if each.collides and not model.is_static(each)]
        balls = [enclosing_balls(each) for each in parts]
        self._links = torch.tensor([part.link for part, found in zip(parts, balls, strict=True) for _ in found])
        self._balls = torch.tensor(np.concatenate(balls)).to(self._start)

    def begin(self, new: NewEpisodes) -> TaskState:
        """Return robots as :meth:`starts` has them; none of them stands yet."""
        first = super().begin(new)
        data = {**first.data, "stands": torch.zeros(len(new)).to(first.q)}
        return self.episodes(first.q, first.qd, data, first.act)

    def starts(self, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return coordinates [n, nq] and velocities [n, nv] of robots above the ground, almost at rest: with any
        heading, tilted about any horizontal axis by up to :attr:`tilt`.
        """
        q, qd = super().starts(n, generator)
        half = 0.5 * self.uniform((n,), generator, 0.0, self.tilt)
        axis = self.uniform((n,), generator, -math.pi, math.pi)
        zero = torch.zeros_like(half)
        tilted = torch.stack([half.sin() * axis.cos(), half.sin() * axis.sin(), zero, half.cos()], dim=1)
        q[:, 3:7] = quaternion_product(tilted, q[:, 3:7])
        q[:, 2] = 0.0
        q[:, 2] = (GAP - self._lowest(q)).clamp(min=1.5 * self.robot.height)
        return q, qd

    def _lowest(self, q: torch.Tensor) -> torch.Tensor:
        """Return a lower bound of the height of the robot's lowest point [n], m."""
        links, balls = self._links.to(q.device), self._balls.to(q)
        position, orientation = self._kinematics(q.device).forward_kinematics(q, self.robot.model.link_names)
        centres = position[:, links] + rotated(orientation[:, links], balls[:, :3])
        return (centres[..., 2] - balls[:, 3]).min(dim=1).values

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the targets of the servos."""
        angles = state.q[:, 7:][:, self._servos.to(action.device)]
        return {"control": self._gear.to(action) * (angles + self._change.to(action) * action)}

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
        # At an angle a to the vertical, upright is cos²(a/2). Its eighth power and `turned` are 1/2 at 33 degrees.
        upright = 0.5 * (1.0 - down[:, 2])
        turned = torch.exp(8.0 * (upright - 1.0))
        height = self.height(after) / self.robot.height
        height = torch.where(height.isfinite(), height, 0.0).clamp(0.0, 1.0)  # infinite beyond the border of a terrain
        pose = upright**8 * height**2 * torch.exp(-2.0 * self.bent(after).square().mean(dim=1))
        return {
            "upright": (2.0 * turned + upright) / 3.0,
            "high": turned * height,
            "pose": pose,
            "still": pose * torch.exp(-2.0 * sum_of_squares(velocity) - 0.5 * sum_of_squares(rate)),
            "smooth": sum_of_squares(action - before.data["action"]),
            "acceleration": self.acceleration(before, after),
            "speeds": sum_of_squares(after.qd[:, 6:]),
        }

    def terminated(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return a mask of robots that have left the terrain."""
        return {"left": self.height(state).isinf()}
