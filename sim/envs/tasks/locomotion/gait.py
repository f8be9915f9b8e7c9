"""Velocity commands for legged robots that walk with a given gait, such as bipeds."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from sim.envs.state import TaskState
from sim.envs.tasks.locomotion.checks import require_numbers
from sim.envs.tasks.locomotion.legged_robot import ByJoint, LeggedRobot
from sim.envs.tasks.locomotion.legged_task import sum_of_squares
from sim.envs.tasks.locomotion.velocity import VelocityTask
from sim.errors import ModelError
from sim.model.checks import as_numbers
from sim.model.model import Model
from sim.rays.targets import RayTargets
from sim.torch.quaternions import rotated

NARROW = 200.0  # of the reward for the heights of the feet [1/m^2]: 1/e for one foot 7 cm off
ABOVE = 10.0  # height above a foot from which the ground below it is looked for [m]
MOVES = 0.1  # size of a command from which a robot steps [m/s, rad/s]


class GaitTask(VelocityTask):
    """A legged robot that follows velocities with a given gait: a clock says which feet stand and how high others are.

    The policy observes the clock, and its actions are added to a motion that folds each leg while its foot swings. If
    the command is zero, all feet should stand. The other rewards, commands and ends are those of :class:`VelocityTask`.

    Args:
        robot: the robot, see :func:`sim.envs.legged_robot`.
        law: contact law, see :class:`LeggedTask`.
        **settings: attributes that differ from those of the class, see :class:`LeggedTask`.

    Attributes:
        period: time from a step of a foot to its next one [s].
        stance: fraction of the period in which a foot stands.
        offsets: fraction of the period by which each foot is ahead of the first. Default: evenly spaced.
        swing: greatest height of a foot above the ground, relative to that of the lowest one [m].
        fold: change of the targets of a leg's joints in the middle of its swing, by joint, chosen by regular
            expressions as in :func:`sim.envs.legged_robot` [rad].
        stiff: weight of each joint in the reward's term "pose", likewise.

    Raises:
        ModelError: as :class:`LeggedTask`; for settings out of range, and a fold of a joint that doesn't move exactly
            one of the feet.

    Example:
        >>> import sim.envs
        >>> class Trot(sim.envs.GaitTask):
        ...     period, offsets = 0.5, (0.0, 0.5, 0.5, 0.0)
        ...     fold = {".*thigh.*": 0.2, ".*calf.*": -0.4, ".*": 0.0}
        >>> stand = {".*thigh.*": 0.8, ".*calf.*": -1.6}
        >>> task = Trot(sim.envs.legged_robot("scenes/robots/quadruped.urdf", stand, kp=60.0, kd=2.0))
        >>> sim.envs.VectorEnv(task, 4, device="cpu", seed=0).num_observations
        50
    """

    period: float = 0.8
    stance: float = 0.55
    offsets: Sequence[float] | None = None
    swing: float = 0.08
    fold: ByJoint = 0.0
    stiff: ByJoint = 1.0
    weights: Mapping[str, float] = MappingProxyType({
        "velocity": 1.5, "turn": 0.75, "vertical": -1.0, "tilt_rate": -0.05, "level": -2.5, "smooth": -0.01,
        "acceleration": -1e-7, "air": 0.0, "pose": -1.0, "still": 0.0, "gait": 0.3, "lift": 1.0, "alive": 0.5,
    })  # fmt: skip

    def __init__(self, robot: LeggedRobot, law: str = "hard", **settings: Any):
        super().__init__(robot, law, **settings)
        name, feet, model = type(self).__name__, len(robot.feet), robot.model
        require_numbers(self, (), ("period", "stance", "swing"))
        if self.period < 2.0 * self.step_dt:
            least = 2.0 * self.step_dt
            raise ModelError(
                f"{name}.period is {self.period!r}; it must be at least {least:g} s, the time of two actions"
            )
        if self.stance >= 1.0:
            raise ModelError(f"{name}.stance is {self.stance!r}; it must be less than 1, or no foot leaves the ground")
        given = [k / feet for k in range(feet)] if self.offsets is None else self.offsets
        offsets = as_numbers(f"{name}.offsets", given)
        if offsets.shape != (feet,) or not np.isfinite(offsets).all():
            raise ModelError(f"{name}.offsets is {self.offsets!r}; it must be {feet} finite numbers, one for each foot")
        self._offsets = torch.as_tensor(offsets).to(self._start)
        self._stiff = self.of_joints("stiff", self.stiff)
        soles = [[model.geometries[model.geometry(each)].link for each in foot] for foot in robot.feet]
        self._soles = [model.link_names[links[0]] for links in soles]
        self._middles = torch.tensor(np.array([_middle(model, foot) for foot in robot.feet])).to(self._start)
        self._fold = self._of_legs(self.of_joints("fold", self.fold), soles)

    def _of_legs(self, fold: torch.Tensor, soles: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the folds [feet, nu] of the legs, which end at the links of the soles, one or several for each."""
        model, joints = self.robot.model, self.robot.joints
        legs = [set().union(*(_chain(model, link) for link in links)) for links in soles]
        carries = torch.tensor([[link in leg for link in model.dof_link[6:]] for leg in legs])
        for joint, change, count in zip(joints, fold.tolist(), carries.sum(dim=0).tolist(), strict=True):
            if change != 0.0 and count != 1:
                raise ModelError(
                    f"{type(self).__name__}.fold of the joint '{joint}', which moves {count} feet, is {change:g}; it "
                    "must be 0 for a joint that isn't part of one leg"
                )
        return (carries * fold)[:, self._servos]

    def phase(self, state: TaskState) -> torch.Tensor:
        """Return the fraction of the period that has passed, for each foot [n, feet]; feet first stand, then swing."""
        clock = state.steps[:, None].to(state.q) * (self.step_dt / self.period)
        return (clock + self._offsets.to(state.q)) % 1.0

    def swings(self, state: TaskState, command: torch.Tensor) -> torch.Tensor:
        """Return how far each foot should be in the air under a command [n, 3], from 0 for one that stands to 1
        [n, feet].
        """
        part = ((self.phase(state) - self.stance) / (1.0 - self.stance)).clamp(min=0.0)
        return torch.sin(math.pi * part) * _moves(command)

    def lifted(self, state: TaskState) -> torch.Tensor:
        """Return the heights of the feet above the ground, relative to that of the lowest one [n, feet], m.

        They are heights of the mean centre of their geometries; feet beyond the border of a terrain have that of the
        lowest.
        """
        position, orientation = self._kinematics(state.q.device).forward_kinematics(state.q, self._soles)
        middle = position + rotated(orientation, self._middles.to(state.q))
        height = middle[..., 2] if self.robot.terrain is None else self._clearance(state.q, middle)
        return height - height.min(dim=1, keepdim=True).values

    def _clearance(self, q: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        """Return the heights of points [n, feet, 3] above the terrain [n, feet], m; zero beyond its border."""
        up = torch.zeros_like(points)
        up[..., 2] = 1.0
        others = RayTargets(exclude=self.robot.links)
        distance = self._kinematics(q.device).cast_rays(q, points + ABOVE * up, -up, others)[0]
        return torch.where(distance.isfinite(), distance - ABOVE, 0.0)

    def inputs(self, state: TaskState, action: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the targets of the servos: those of :class:`LeggedTask`, with folded legs."""
        folded = self.swings(state, state.data["command"]) @ self._fold.to(action)
        return {"control": super().inputs(state, action)["control"] + self._gear.to(action) * folded}

    def measurements(self, state: TaskState) -> dict[str, torch.Tensor]:
        """Return the clock, as sine and cosine, and what :meth:`VelocityTask.measurements` has."""
        angle = 2.0 * math.pi * self.phase(state)[:, :1]
        return {"clock": torch.cat([angle.sin(), angle.cos()], dim=1), **super().measurements(state)}

    def terms(self, before: TaskState, action: torch.Tensor, after: TaskState) -> dict[str, torch.Tensor]:
        """Return the terms of the reward [n], by name, without weights."""
        command = before.data["command"]
        swings = self.swings(after, command)
        target = self.swing * (swings - swings.min(dim=1, keepdim=True).values)
        agree = self.stands(after) == ((self.phase(after) < self.stance) | ~_moves(command))
        return {
            **super().terms(before, action, after),
            "pose": (self._stiff.to(after.q) * self.bent(after).square()).sum(dim=1),
            "gait": 2.0 * agree.to(after.q).mean(dim=1) - 1.0,
            "lift": torch.exp(-NARROW * sum_of_squares(self.lifted(after) - target)),
            "alive": torch.ones_like(after.q[:, 0]),
        }


def _moves(command: torch.Tensor) -> torch.Tensor:
    """Return a mask of commands that aren't to stand [n, 1]."""
    return command.norm(dim=1, keepdim=True) > MOVES


def _middle(model: Model, foot: Sequence[str]) -> np.ndarray:
    """Return the mean centre [3] of a foot's geometries on the link of the first, in the frame of that link."""
    geometries = [model.geometries[model.geometry(name)] for name in foot]
    centres = []
    for each in geometries:
        if each.link == geometries[0].link:
            inside = np.zeros(3) if each.mesh is None else (np.asarray(each.mesh.vertices) * each.size).mean(axis=0)
            centres.append(each.placement[:3] + Rotation.from_quat(each.placement[3:]).apply(inside))
    return np.mean(centres, axis=0)


def _chain(model: Model, link: int) -> set[int]:
    """Return a link and the links that carry it, but for the base."""
    found = set()
    while link > 0:
        found.add(link)
        link = int(model.link_parent[link])
    return found
