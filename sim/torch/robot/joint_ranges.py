"""Ranges of a robot's joints: coordinates clamped to the limits, active limits, and random samples.

The limits of spherical joints are those of :mod:`warp_kernels.constraints.limits`: with the unit quaternion (v, w),
w not negative, and the joint's axis a, the swing is 2 atan2(|v - (v . a) a|, |(w, v . a)|), the twist
2 atan2(v . a, w) and the whole rotation 2 atan2(|v|, w).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from sim.torch.quaternions import quaternion_conjugate, quaternion_product
from warp_kernels.types import SPHERICAL

# An angle this many units of rounding below its limit counts as at the limit.
ROUNDING = 64.0
LIMITS = ("swing_limit", "twist_limit", "rotation_limit")


@dataclass(frozen=True)
class JointRanges:
    """Limits of joints. "Axes" are revolute and prismatic joints, "balls" spherical ones with a limit.

    Attributes:
        lower, upper: limits of each degree of freedom [nv].
        axis_dof, axis_q: degrees of freedom of axes, and their indices in q [axes].
        turn_q: indices in q of each quaternion, including those of free joints [quaternions, 4].
        ball_q, ball_dof: indices of balls in q [balls, 4] and in qd [balls, 3].
        ball_axis: unit axes [balls, 3].
        ball_limit: largest swing, twist and whole rotation [balls, 3], infinite where there is none.
    """

    lower: torch.Tensor
    upper: torch.Tensor
    axis_dof: torch.Tensor
    axis_q: torch.Tensor
    turn_q: torch.Tensor
    ball_q: torch.Tensor
    ball_dof: torch.Tensor
    ball_axis: torch.Tensor
    ball_limit: torch.Tensor

    def within(self, q: torch.Tensor) -> torch.Tensor:
        """Return coordinates [rows, nq] with those of axes and balls clamped to their limits."""
        result = q.clone()
        result[:, self.axis_q] = q[:, self.axis_q].clamp(self.lower[self.axis_dof], self.upper[self.axis_dof])
        if len(self.ball_q):
            result[:, self.ball_q] = limited_rotation(q[:, self.ball_q], self.ball_axis, self.ball_limit)
        return result

    def free_motion(self, q: torch.Tensor, jacobian: torch.Tensor, error: torch.Tensor | None = None) -> torch.Tensor:
        """Remove the motions that lead past a limit from a Jacobian [rows, n, nv].

        Args:
            q: coordinates within the limits [rows, nq].
            jacobian: Jacobian of the task.
            error: error of the task [rows, n]; a limit counts only if the error pushes against it. None: every limit
                counts.
        """
        push = None if error is None else (jacobian * error[..., None]).sum(-2)
        result = jacobian.clone()
        result[..., self.axis_dof] *= ~self._axes_at_limit(q, push)[:, None]
        if len(self.ball_q):
            free = self._free_turns(q, push)
            turns = jacobian[..., self.ball_dof].movedim(-2, 1)  # [rows, balls, n, 3]
            result[..., self.ball_dof] = (turns @ free).movedim(1, -2)
        return result

    def random(self, first: torch.Tensor, restarts: int, seed: int) -> torch.Tensor:
        """Return coordinates [rows, restarts, nq]: the given ones [rows, nq] first, then random ones.

        Axes are within their limits, see :func:`range_to_try`. Quaternions are uniform over all rotations, and free
        joints stay where they are.
        """
        low, high = range_to_try(self.lower[self.axis_dof], self.upper[self.axis_dof])
        rows = len(first)
        # Drawn on the CPU, so that a seed means the same on every device.
        drawn: dict[str, Any] = {"generator": torch.Generator("cpu").manual_seed(seed), "dtype": first.dtype}
        chance = torch.rand(rows, restarts, len(self.axis_q), device="cpu", **drawn).to(first.device)
        normal = torch.randn(rows, restarts, *self.turn_q.shape, device="cpu", **drawn).to(first.device)
        result = first[:, None].repeat(1, restarts, 1)
        result[:, 1:, self.axis_q] = (low + chance * (high - low))[:, 1:]
        result[:, 1:, self.turn_q] = torch.nn.functional.normalize(normal[:, 1:], dim=-1)
        return result

    def _axes_at_limit(self, q: torch.Tensor, push: torch.Tensor | None) -> torch.Tensor:
        """Return True for each axis at a limit that it is pushed against [rows, axes]."""
        there = q[:, self.axis_q]
        lowest, highest = there <= self.lower[self.axis_dof], there >= self.upper[self.axis_dof]
        if push is None:
            return lowest | highest
        along = push[:, self.axis_dof]
        return (lowest & (along < 0)) | (highest & (along > 0))

    def _free_turns(self, q: torch.Tensor, push: torch.Tensor | None) -> torch.Tensor:
        """Return projections of angular velocities onto those that no limit blocks [rows, balls, 3, 3]."""
        rotation = q[:, self.ball_q]
        rates = angle_rates(rotation, self.ball_axis)
        rounding = ROUNDING * torch.finfo(q.dtype).eps
        held = rotation_angles(rotation, self.ball_axis) >= self.ball_limit - rounding
        if push is not None:
            held &= (rates @ push[:, self.ball_dof][..., None])[..., 0] > 0
        rates = rates * held[..., None]
        identity = torch.eye(3, dtype=q.dtype, device=q.device)
        return identity - torch.linalg.pinv(rates, rtol=1e-6) @ rates


def joint_ranges(model: Model, lower: torch.Tensor, upper: torch.Tensor) -> JointRanges:
    """Return the ranges of a model's joints, with the given limits of degrees of freedom [nv]."""
    dof_q = np.asarray(model.dof_q)
    axes = np.flatnonzero(dof_q >= 0)
    quaternions = {link: JOINT_TYPES[code].quaternion for link, code in enumerate(model.joint_type)}
    turns = [model.joint_q_start[link] + offset for link, offset in quaternions.items() if offset is not None]
    limits = np.stack([model.parameters[name] for name in LIMITS], axis=-1).reshape(-1, len(LIMITS))
    balls = np.flatnonzero(np.isfinite(limits).any(axis=1) & (model.joint_type == SPHERICAL))

    def numbers(value: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(value, dtype=lower.dtype, device=lower.device)

    def indices(first: np.ndarray, count: int) -> torch.Tensor:
        values = np.asarray(first, dtype=np.int64).reshape(-1, 1) + np.arange(count)
        return torch.as_tensor(values, device=lower.device)

    return JointRanges(
        lower,
        upper,
        indices(axes, 1)[:, 0],
        indices(dof_q[axes], 1)[:, 0],
        indices(np.array(turns), 4),
        indices(model.joint_q_start[balls], 4),
        indices(model.joint_qd_start[balls], 3),
        numbers(model.joint_axis[balls]),
        numbers(limits[balls]),
    )


def range_to_try(lower: torch.Tensor, upper: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return bounds of the coordinates to sample between limits: at most one turn (or 2 π metres) apart.

    Where the limits are farther apart, it is the turn about zero, clamped to the limits.
    """
    low = torch.maximum(lower, (upper - 2.0 * torch.pi).clamp(max=-torch.pi))
    return low, torch.minimum(upper, low + 2.0 * torch.pi)


def rotation_angles(rotation: torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
    """Return swing, unsigned twist, and whole angle of quaternions xyzw [..., 4] about axes [..., 3]: [..., 3]."""
    v, w = positive(rotation)
    along = (v * axis).sum(-1, keepdim=True)
    swing = torch.atan2((v - along * axis).norm(dim=-1, keepdim=True), torch.hypot(w, along))
    return 2.0 * torch.cat([swing, torch.atan2(along.abs(), w), torch.atan2(v.norm(dim=-1, keepdim=True), w)], dim=-1)


def angle_rates(rotation: torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
    """Return the unit angular velocities of the child, along its axes, that increase each angle fastest [..., 3, 3].

    They are zero where no such direction exists.
    """
    v, w = positive(rotation)
    axis = axis.expand_as(v)
    along = (v * axis).sum(-1, keepdim=True)
    across = v - along * axis
    # In the child's frame: the swing axis, turned back by the twist.
    swing = w * across + torch.linalg.cross(across, axis) * along
    twist = along.sign() * (w * (w * axis + torch.linalg.cross(axis, v)) + along * v)
    return torch.nn.functional.normalize(torch.stack([swing, twist, v], dim=-2), dim=-1)


def limited_rotation(rotation: torch.Tensor, axis: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Clamp swing, twist and whole angle of quaternions [..., 4] to limits [..., 3].

    Swing and twist are reduced separately, then the whole rotation about its axis, which reduces both.
    """
    v, w = positive(torch.nn.functional.normalize(rotation, dim=-1))
    along = (v * axis).sum(-1, keepdim=True)
    half = torch.atan2(along, w)
    swing = quaternion_product(torch.cat([v, w], dim=-1), quaternion_conjugate(turned_about(axis, half)))
    most = limit[..., 1:2] / 2.0
    twist = turned_about(axis, half.minimum(most).maximum(-most))
    result = shortened(quaternion_product(shortened(swing, limit[..., :1]), twist), limit[..., 2:])
    beyond = (rotation_angles(rotation, axis) > limit).any(-1, keepdim=True)
    return result.where(beyond, rotation)


def shortened(rotation: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Clamp the angles of unit quaternions [..., 4] to limits [..., 1], about the same axes."""
    v, w = positive(rotation)
    length = v.norm(dim=-1, keepdim=True)
    half = torch.atan2(length, w).minimum(limit / 2.0)
    return torch.cat([torch.nn.functional.normalize(v, dim=-1) * half.sin(), half.cos()], dim=-1)


def turned_about(axis: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Return unit quaternions of rotations about axes [..., 3] by twice the angles [..., 1]."""
    return torch.cat([axis * half.sin(), half.cos()], dim=-1)


def positive(rotation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return vector [..., 3] and scalar [..., 1] of the same rotation with a non-negative scalar."""
    rotation = torch.where(rotation[..., 3:] < 0, -rotation, rotation)
    return rotation[..., :3], rotation[..., 3:]
