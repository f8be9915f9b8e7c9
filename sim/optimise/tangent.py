"""Tangents of a model's states, like :func:`sim.integrate` and :func:`sim.difference`, twice differentiable."""

import numpy as np
import torch

from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from sim.torch.quaternions import quaternion_conjugate, quaternion_product

TINY = 1e-24  # square of the sine of half an angle, below which the logarithm of a turn is linear


class Tangent:
    """Motion of coordinates along tangents, with the axes of velocities.

    Args:
        model: the model of the coordinates.
    """

    def __init__(self, model: Model):
        self.nv = model.nv
        self._turning: list[tuple[int, int, bool]] = []  # offsets of a quaternion and its rates; rates along body axes
        plain_q: list[int] = []
        plain_v: list[int] = []
        for code, start, first in zip(model.joint_type, model.joint_q_start, model.joint_qd_start, strict=True):
            joint, i, k = JOINT_TYPES[int(code)], int(start), int(first)
            count = joint.coordinates if joint.quaternion is None else joint.quaternion
            plain_q += range(i, i + count)
            plain_v += range(k, k + count)
            if joint.quaternion is not None:
                self._turning.append((i + count, k + count, joint.local_rate))
        self.flat = not self._turning and plain_q == plain_v
        self._plain_q, self._plain_v = (torch.tensor(plain, device="cpu") for plain in (plain_q, plain_v))
        self.plain = np.asarray(plain_v, dtype=np.int64)
        self._plain_coordinates = np.asarray(plain_q, dtype=np.int64)

    def moved(self, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Return coordinates [..., nq] after moving from q [..., nq] by v [..., nv], to second order in v."""
        if self.flat:
            return q + v
        parts = torch.zeros_like(q).index_copy(-1, self._plain_q.to(q.device), v[..., self._plain_v])
        moved = q + parts
        pieces, end = [], 0
        for start, first, local in self._turning:
            half = 0.5 * v[..., first : first + 3]
            turn = torch.cat([half, torch.ones_like(half[..., :1])], dim=-1)
            quaternion = _normalised(q[..., start : start + 4])
            after = quaternion_product(quaternion, turn) if local else quaternion_product(turn, quaternion)
            pieces += [moved[..., end:start], _normalised(after)]
            end = start + 4
        return torch.cat([*pieces, moved[..., end:]], dim=-1)

    def difference(self, q0: torch.Tensor, q1: torch.Tensor) -> torch.Tensor:
        """Return the tangent [..., nv] that moves q0 [..., nq] to q1 [..., nq], turning by at most pi."""
        if self.flat:
            return q1 - q0
        q0, q1 = torch.broadcast_tensors(q0, q1)
        difference = q1.new_zeros(*q1.shape[:-1], self.nv)
        difference = difference.index_copy(-1, self._plain_v.to(q1.device), (q1 - q0)[..., self._plain_q])
        pieces, end = [], 0
        for start, first, local in self._turning:
            before, after = (_normalised(q[..., start : start + 4]) for q in (q0, q1))
            turn = (
                quaternion_product(quaternion_conjugate(before), after)
                if local
                else quaternion_product(after, quaternion_conjugate(before))
            )
            pieces += [difference[..., end:first], rotation_vector(turn)]
            end = first + 3
        return torch.cat([*pieces, difference[..., end:]], dim=-1)

    def difference_of_arrays(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """Return :meth:`difference` of arrays [worlds, nq] in float64, with little overhead."""
        q0, q1 = q0.astype(np.float64, copy=False), q1.astype(np.float64, copy=False)
        if self.flat:
            return q1 - q0
        found = np.zeros((len(q1), self.nv))
        found[:, self.plain] = (q1 - q0)[:, self._plain_coordinates]
        for start, first, local in self._turning:
            ux, uy, uz, s = q0[:, start : start + 4].T
            vx, vy, vz, t = q1[:, start : start + 4].T
            cross = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
            sign = -1.0 if local else 1.0  # of the product's order
            axis = np.stack(
                [s * v - t * u + sign * c for u, v, c in zip((ux, uy, uz), (vx, vy, vz), cross, strict=True)], axis=1
            )
            cosine = s * t + ux * vx + uy * vy + uz * vz
            axis = np.where(cosine[:, None] < 0.0, -axis, axis)
            sine = np.sqrt((axis * axis).sum(1))
            small = sine < TINY**0.5
            angle = 2.0 * np.arctan2(sine, np.abs(cosine))
            factor = np.where(small, 2.0, angle / np.where(small, 1.0, sine))
            length = np.sqrt((ux**2 + uy**2 + uz**2 + s**2) * (vx**2 + vy**2 + vz**2 + t**2))
            found[:, first : first + 3] = axis * np.where(small, factor / length, factor)[:, None]
        return found


def rotation_vector(turn: torch.Tensor) -> torch.Tensor:
    """Return the rotation vector [..., 3] of a unit quaternion xyzw [..., 4], of an angle of at most pi."""
    turn = torch.where(turn[..., 3:] < 0.0, -turn, turn)
    axis, cosine = turn[..., :3], turn[..., 3:]
    square = (axis * axis).sum(-1, keepdim=True)
    small = square < TINY
    sine = torch.where(small, torch.ones_like(square), square).sqrt()
    return axis * torch.where(small, 2.0 / cosine.clamp(min=0.5), 2.0 * torch.atan2(sine, cosine) / sine)


def turn_between(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Return the rotation vector along world axes [..., 3] that turns one quaternion xyzw [..., 4] into another."""
    return rotation_vector(quaternion_product(_normalised(after), quaternion_conjugate(_normalised(before))))


def _normalised(a: torch.Tensor) -> torch.Tensor:
    return a / (a * a).sum(-1, keepdim=True).sqrt()
