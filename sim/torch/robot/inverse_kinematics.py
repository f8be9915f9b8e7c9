"""Inverse kinematics of batches of targets by damped least squares within the limits, with several starts per target.

Sources: Nakamura and Hanafusa 1986 (damped least squares), Nielsen 1999 (the damping parameter of Levenberg-Marquardt).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch._C._functorch import TransformType

from sim.dynamics.arguments import SHORTEST
from sim.errors import ModelError
from sim.model.checks import MOST_ITEMS, is_whole
from sim.torch.modes import in_own_precision
from sim.torch.robot.arguments import check_like, one_number
from sim.torch.robot.joint_ranges import JointRanges

CHECK_EVERY = 10
# Initial damping, and its factor after a step that reduced or increased the error.
DAMPING, BETTER, WORSE = 1e-2, 0.3, 4.0
SMALLEST_DAMPING, LARGEST_DAMPING = 1e-9, 1e6


@dataclass(frozen=True)
class Solution:
    """Solution of inverse kinematics.

    Attributes:
        q: coordinates [..., nq], within the limits.
        position_error: distance from the target [...] [m].
        rotation_error: angle from the target [...] [rad]; zero without a target orientation.
        success: both within the tolerances [...].
    """

    q: torch.Tensor
    position_error: torch.Tensor
    rotation_error: torch.Tensor
    success: torch.Tensor


@dataclass(frozen=True)
class FrameKinematics:
    """Kinematics of one frame of a robot, and the ranges of its joints.

    Attributes:
        pose: from coordinates [rows, nq] to positions [rows, 3] and quaternions xyzw [rows, 4] of the frame.
        jacobian: from coordinates [rows, nq] to the frame's Jacobians along world axes [rows, 6, nv], angular first.
        integrate: coordinates [rows, nq] after a motion [rows, nv].
        initial: default start of the tries [nq].
        ranges: ranges of the joints.
    """

    pose: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
    jacobian: Callable[[torch.Tensor], torch.Tensor]
    integrate: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    initial: torch.Tensor
    ranges: JointRanges


@dataclass(frozen=True)
class Target:
    """Flat targets of a frame: positions [rows, 3], quaternions xyzw [rows, 4] or None for any orientation."""

    frame: FrameKinematics
    position: torch.Tensor
    quaternion: torch.Tensor | None

    def error(self, q: torch.Tensor) -> torch.Tensor:
        """Return the error along world axes: rotation vector (with a target orientation), then displacement [rows, 6 or
        3].
        """
        position, quaternion = self.frame.pose(q)
        missing = self.position - position
        if self.quaternion is None:
            return missing
        return torch.cat([rotation_between(quaternion, self.quaternion), missing], dim=-1)

    def jacobian(self, q: torch.Tensor) -> torch.Tensor:
        """Return the Jacobian of the frame [rows, 6 or 3, nv]."""
        jacobian = self.frame.jacobian(q)
        return jacobian if self.quaternion is not None else jacobian[..., 3:, :]


def rotation_between(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Return the rotation vector [..., 3] along world axes, of at most half a turn, from one quaternion xyzw to
    another.
    """
    v, w = start[..., :3], start[..., 3:]
    u, s = end[..., :3], end[..., 3:]
    vector = w * u - s * v - torch.linalg.cross(u, v)
    scalar = s * w + (u * v).sum(-1, keepdim=True)
    vector, scalar = vector * scalar.sign().where(scalar != 0, 1.0), scalar.abs()
    square = (vector * vector).sum(-1, keepdim=True)
    small = square < 1e-12
    length = square.where(~small, 1.0).sqrt()
    # Near zero the angle is twice the length of the vector, to third order.
    return vector * (2.0 * torch.atan2(length, scalar) / length).where(~small, 2.0 / scalar.clamp(min=0.5))


@in_own_precision
def inverse_kinematics(
    frame: FrameKinematics,
    position: torch.Tensor,
    quaternion: torch.Tensor | None,
    start: torch.Tensor | None,
    restarts: int,
    iterations: int,
    goal: tuple[float, float],
    seed: int,
) -> Solution:
    """Solve inverse kinematics, see :meth:`sim.torch.Robot.inverse_kinematics`.

    Args:
        frame: the frame that is to reach the targets.
        position: targets [..., 3].
        quaternion: targets xyzw [..., 4], or None.
        start: start of the first try of each target [..., nq], or None.
        restarts: number of tries for each target.
        iterations: maximum number of steps of each try.
        goal: tolerances of position [m] and rotation [rad].
        seed: of the random starts.

    Raises:
        ModelError: for wrong arguments, zero restarts, and inside of ``torch.func.vmap``.
    """
    goal = checked_goal(restarts, iterations, goal, seed)
    target, first, batch = flat_target(frame, position, quaternion, start)
    rows, nq = first.shape
    with torch.no_grad():
        tries = Target(
            frame,
            target.position.repeat_interleave(restarts, 0),
            None if target.quaternion is None else target.quaternion.repeat_interleave(restarts, 0),
        )
        begin = frame.ranges.random(first, restarts, seed)
        q = solve(tries, begin.reshape(rows * restarts, nq), iterations, goal)
        distance, angle = errors(tries.error(q), tries)
        # A tolerance of zero is replaced by a small one, to avoid dividing by zero.
        least = torch.finfo(q.dtype).eps
        best = torch.maximum(distance / max(goal[0], least), angle / max(goal[1], least))
        best = best.reshape(rows, restarts).argmin(1)
        q = q.reshape(rows, restarts, nq)[torch.arange(rows, device=q.device), best]
    error = target.error(q)
    if error.requires_grad:
        q = with_gradient_of_solution(q, target, error)
    distance, angle = errors(error.detach(), target)
    return Solution(
        q.reshape(*batch, nq),
        distance.reshape(batch),
        angle.reshape(batch),
        ((distance <= goal[0]) & (angle <= goal[1])).reshape(batch),
    )


def with_gradient_of_solution(q: torch.Tensor, target: Target, error: torch.Tensor) -> torch.Tensor:
    """Make solutions [rows, nq] differentiable in everything that their error [rows, 6 or 3] depends on."""
    with torch.no_grad():
        jacobian = target.frame.ranges.free_motion(q, target.jacobian(q))
        inverse = torch.linalg.pinv(jacobian, rtol=1e-6)
    # Implicit function theorem: a zero Newton step whose derivative is that of the solution.
    step = (inverse @ error[..., None])[..., 0]
    return target.frame.integrate(q, step - step.detach())


def checked_goal(restarts: int, iterations: int, goal: tuple[float, float], seed: int) -> tuple[float, float]:
    """Return the tolerances as Python floats. Raises ModelError for invalid options."""
    if any(level.key() == TransformType.Vmap for level in torch._C._functorch.get_interpreter_stack() or ()):
        raise ModelError("inverse_kinematics doesn't work in torch.func.vmap; pass the targets as a batch")
    if not is_whole(restarts, 1) or restarts > MOST_ITEMS:
        raise ModelError(
            f"restarts is {restarts!r}; it must be a whole number from 1 (the try from the start) to {MOST_ITEMS}"
        )
    if not is_whole(iterations, 0):
        raise ModelError(f"iterations is {iterations!r}; it must be a whole number, zero or more")
    if not is_whole(seed, -(2**63)) or int(seed) >= 2**64:
        raise ModelError(f"seed is {seed!r}; it must be a whole number of up to 64 bits")
    names = ("position_tolerance", "rotation_tolerance")
    position, rotation = (one_number(name, value) for name, value in zip(names, goal, strict=True))
    for name, value in zip(names, (position, rotation), strict=True):
        if value < 0.0:
            raise ModelError(f"{name} is {value}; it must not be negative")
    return position, rotation


def flat_target(
    frame: FrameKinematics, position: torch.Tensor, quaternion: torch.Tensor | None, start: torch.Tensor | None
) -> tuple[Target, torch.Tensor, torch.Size]:
    """Flatten targets [..., 3] and [..., 4] and starts [..., nq] to rows, and return the shape of their batch.

    Raises:
        ModelError: for a wrong shape, dtype or device, non-finite numbers, and a zero quaternion.
    """
    wanted = {"position": (position, 3), "quaternion": (quaternion, 4), "start": (start, len(frame.initial))}
    shapes = {
        name: checked_shape(name, value, size, frame.initial)
        for name, (value, size) in wanted.items()
        if value is not None or name == "position"
    }
    try:
        batch = torch.broadcast_shapes(*(shape[:-1] for shape in shapes.values()))
    except RuntimeError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ModelError(f"batch shapes don't fit each other: {listed}") from None
    if quaternion is not None:
        require_rows("quaternion", quaternion.norm(dim=-1) >= SHORTEST, "is zero and stands for no rotation")

    def rows(value: torch.Tensor) -> torch.Tensor:
        return value.expand(*batch, value.shape[-1]).reshape(batch.numel(), value.shape[-1])

    unit = None if quaternion is None else rows(quaternion / quaternion.norm(dim=-1, keepdim=True))
    return Target(frame, rows(position), unit), rows(frame.initial if start is None else start.detach()), batch


def checked_shape(name: str, value: object, size: int, like: torch.Tensor) -> torch.Size:
    """Return the shape of a finite tensor [..., size] of the dtype and device of another. Raises ModelError for
    anything else.
    """
    if not isinstance(value, torch.Tensor):
        raise ModelError(f"{name} is a {type(value).__name__}; expected a torch.Tensor")
    if value.dim() < 1 or value.shape[-1] != size:
        raise ModelError(f"{name} has shape {tuple(value.shape)}; expected (..., {size})")
    check_like(name, value, like)
    require_rows(name, value.isfinite().all(-1), "isn't finite")
    return value.shape


def require_rows(name: str, good: torch.Tensor, problem: str) -> None:
    """Raise ModelError naming the first row of an argument [...] that isn't good, if any."""
    if not bool(good.all()):
        first = (~good).nonzero()[0].tolist()
        raise ModelError(f"{name}{first or ''} {problem}")


def solve(target: Target, start: torch.Tensor, iterations: int, goal: tuple[float, float]) -> torch.Tensor:
    """Improve coordinates [rows, nq] by damped least squares, without gradients; stops once all rows have converged."""
    frame = target.frame
    q = frame.ranges.within(start)
    damping = torch.full_like(q[:, :1], DAMPING)
    error = target.error(q)
    for iteration in range(iterations):
        if iteration % CHECK_EVERY == 0 and bool(reached(error, target, goal).all()):
            break
        jacobian = frame.ranges.free_motion(q, target.jacobian(q), error)
        step = damped_step(jacobian, error, damping)
        moved = frame.ranges.within(frame.integrate(q, step))
        there = target.error(moved)
        # A non-finite step is rejected, and the next one is damped more.
        better = (there.square().sum(-1) < error.square().sum(-1))[:, None]
        q, error = moved.where(better, q), there.where(better, error)
        damping = (damping * BETTER).where(better, damping * WORSE).clamp(SMALLEST_DAMPING, LARGEST_DAMPING)
    return q


def damped_step(jacobian: torch.Tensor, error: torch.Tensor, damping: torch.Tensor) -> torch.Tensor:
    """Return J' (J J' + damping 1)^-1 error [rows, nv]; not finite if rounding makes the matrix singular."""
    identity = torch.eye(jacobian.shape[-2], dtype=jacobian.dtype, device=jacobian.device)
    square = jacobian @ jacobian.transpose(-1, -2) + damping[..., None] * identity
    return (jacobian.transpose(-1, -2) @ torch.linalg.solve_ex(square, error[..., None])[0])[..., 0]


def reached(error: torch.Tensor, target: Target, goal: tuple[float, float]) -> torch.Tensor:
    """Return True for each row that is within the tolerances of position and rotation."""
    position, rotation = errors(error, target)
    return (position <= goal[0]) & (rotation <= goal[1])


def errors(error: torch.Tensor, target: Target) -> tuple[torch.Tensor, torch.Tensor]:
    """Return distance and angle of each row."""
    distance = error[..., -3:].norm(dim=-1)
    return distance, torch.zeros_like(distance) if target.quaternion is None else error[..., :3].norm(dim=-1)
