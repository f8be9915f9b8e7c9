"""Motions of the box whose parameters are estimated, noisy observations of them, and residuals between both."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import warp as wp
from scipy.spatial.transform import Rotation

import sim
import sim.torch
from scenes import box
from sim.identify.trajectories.sensitivity import Inputs, Simulators
from sim.learn import processes

NOISE = 0.01  # relative to the distance travelled and the angle turned in the whole motion
EVERY = 25  # steps from one observation to the next
TOGETHER = 4096  # number of motions per batch


@dataclass(frozen=True)
class Observation:
    """Observed motion of n boxes.

    Attributes:
        position: positions of the boxes' centres [frames, n, 3], m.
        orientation: quaternions xyzw [frames, n, 4].
        position_noise: standard deviation of each coordinate [n], m.
        orientation_noise: standard deviation of the rotation about each axis [n], rad.
        every: steps from one frame to the next.
    """

    position: np.ndarray
    orientation: np.ndarray
    position_noise: np.ndarray
    orientation_noise: np.ndarray
    every: int

    def of(self, worlds: np.ndarray) -> "Observation":
        """Return the observations of some boxes, by index."""
        return Observation(
            self.position[:, worlds], self.orientation[:, worlds], self.position_noise[worlds],
            self.orientation_noise[worlds], self.every,
        )  # fmt: skip


class Motion:
    """The motion of n boxes and its residuals, as functions of the logarithms of the unknowns.

    Args:
        scene: the scene.
        num_worlds: number of boxes.
        device: Warp device.
    """

    def __init__(self, scene: box.BoxScene, num_worlds: int, device: str | None):
        self.scene = scene
        # Parameters are per world from the start, so that setting them doesn't change an array's shape.
        some = box.parameters(scene, torch.tensor([box.TYPICAL] * num_worlds, dtype=torch.float64))
        self.simulator = sim.Simulator(
            scene.model,
            scene.dt,
            num_worlds,
            device,
            parameters={name: value.numpy() for name, value in some.items()},
            threads=processes.threads(),
        )
        start = self.simulator.state(scene.q0, scene.qd0)
        self.q0, self.qd0 = wp.to_torch(start.q), wp.to_torch(start.qd)
        push = torch.as_tensor(scene.push).to(self.q0)
        self.push = push.expand(scene.steps, num_worlds, -1).contiguous()

    def states(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Simulate coordinates [steps + 1, n, nq] and velocities [steps + 1, n, nv] for the logarithms [n, 4]."""
        given: dict[str, Any] = box.parameters(self.scene, x.exp())
        q, qd = sim.torch.rollout(self.simulator, self.q0, self.qd0, self.push, **given)
        return q, qd

    def residuals(self, x: np.ndarray, seen: Observation) -> np.ndarray:
        """Compute all residuals [n, observed numbers], without gradients."""
        with torch.no_grad():
            return deviations(self.states(torch.tensor(x))[0], seen).cpu().numpy()

    def chi_squares(self, x: np.ndarray, seen: Observation) -> np.ndarray:
        """Compute the sums of their squares [n]."""
        return (self.residuals(x, seen) ** 2).sum(axis=1)


class Motions:
    """Motions of any number of boxes, without gradients, and their residuals.

    Args:
        scene: the scene.
        device: Warp device.
    """

    def __init__(self, scene: box.BoxScene, device: str | None):
        self.scene, self.device = scene, device
        self.of_size: dict[int, Motion] = {}

    def residuals(self, x: np.ndarray, seen: Observation) -> np.ndarray:
        """Compute all residuals [n, observed numbers] for the logarithms [n, 4]."""
        found = [np.zeros((0, 6 * len(seen.position)))]
        for first in range(0, len(x), TOGETHER):
            which = np.arange(first, min(first + TOGETHER, len(x)))
            fill = filled(which)
            if len(fill) not in self.of_size:
                self.of_size[len(fill)] = Motion(self.scene, len(fill), self.device)
            found.append(self.of_size[len(fill)].residuals(x[fill], seen.of(fill))[: len(which)])
        return np.concatenate(found)


class Sensitivity:
    """Derivatives of the residuals of any number of boxes in the logarithms of the unknowns.

    The motions are simulated, and then all intervals between two observations again in one batch, with a backward pass
    from each component of the states at their ends; see :mod:`sim.identify.trajectories.sensitivity`.

    Args:
        scene: the scene.
        every: steps from one observation to the next.
        device: Warp device.
    """

    def __init__(self, scene: box.BoxScene, every: int, device: str | None):
        self.scene, self.every = scene, every
        self.worlds = Simulators(
            scene.model, scene.dt, every, lambda x: box.parameters(scene, x.exp()), device=device,
            threads=processes.threads(),
        )  # fmt: skip

    def jacobian(self, x: np.ndarray, seen: Observation) -> np.ndarray:
        """Compute derivatives of all residuals [n, observed numbers, 4]."""
        if not len(x):
            return np.zeros((0, seen.position.shape[0] * 6, x.shape[1]))
        fill = filled(np.arange(len(x)))
        return self._jacobian(torch.as_tensor(x[fill]), seen.of(fill))[: len(x)]

    def _jacobian(self, x: torch.Tensor, seen: Observation) -> np.ndarray:
        scene, rows = self.scene, self.scene.steps // self.every
        start, push = (torch.as_tensor(value).expand(len(x), -1) for value in (np.r_[scene.q0, scene.qd0], scene.push))
        inputs = Inputs(push.expand(rows, -1, -1), None)
        motion = self.worlds.run(x, start.split([scene.model.nq, scene.model.nv], dim=1), inputs, rows + 1)
        slopes = self.worlds.derivatives(x, motion, inputs, start.new_zeros(*start.shape, 0))[1:, :, : scene.model.nq]
        q = motion.q[1:].requires_grad_()
        # An observation depends only on the state at its time: one backward pass for each of its components.
        numbers = residuals(q, seen).unflatten(1, (rows, -1))
        gradients = [
            torch.autograd.grad(numbers[:, :, k].sum(), q, retain_graph=True)[0] for k in range(numbers.shape[2])
        ]
        return torch.einsum("rtni,tnip->ntrp", torch.stack(gradients), slopes).flatten(1, 2).numpy()


def filled(which: np.ndarray) -> np.ndarray:
    """Repeat the last one of indices up to a power of two: one simulator for each power, not for each number."""
    return np.append(which, np.repeat(which[-1:], (1 << (len(which) - 1).bit_length()) - len(which)))


def deviations(q: torch.Tensor, seen: Observation) -> torch.Tensor:
    """Compute all residuals of motions [steps + 1, ..., n, nq], in units of the noise [..., n, observed numbers]."""
    return residuals(q[seen.every :: seen.every], seen)


def residuals(q: torch.Tensor, seen: Observation) -> torch.Tensor:
    """Compute residuals of coordinates at the times of observation [frames, ..., n, nq]."""
    position, orientation, position_noise, orientation_noise = (
        torch.as_tensor(value).to(q)
        for value in (seen.position, seen.orientation, seen.position_noise, seen.orientation_noise)
    )
    between = (len(q), *[1] * (q.dim() - 3), *position.shape[1:2])
    moved = (q[..., :3] - position.reshape(*between, 3)) / position_noise[:, None]
    turned = rotation_between(orientation.reshape(*between, 4), q[..., 3:]) / orientation_noise[:, None]
    return torch.cat([moved, turned], dim=-1).movedim(0, -2).flatten(-2)


def rotation_between(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return twice the vector part of the quaternion from a to b [..., 3]: the rotation vector if small [rad]."""
    u, w = a[..., :3], a[..., 3:]
    v, z = b[..., :3], b[..., 3:]
    turn = w * v - z * u - torch.linalg.cross(u, v)
    same = w * z + (u * v).sum(dim=-1, keepdim=True)
    return 2.0 * turn * torch.where(same < 0.0, -1.0, 1.0)


def observe(scene: box.BoxScene, truth: np.ndarray, seed: int, device: str | None, every: int = EVERY) -> Observation:
    """Simulate noisy observations of boxes.

    Args:
        scene: the scene.
        truth: true unknowns of each box [n, 4].
        seed: seed of the noise.
        device: Warp device.
        every: steps from one observation to the next.
    """
    rng = np.random.default_rng([seed, 1])
    with torch.no_grad():
        q = Motion(scene, len(truth), device).states(torch.tensor(np.log(truth)))[0].cpu().numpy()
    position, orientation = q[..., :3], q[..., 3:]
    length = np.linalg.norm(np.diff(position, axis=0), axis=2).sum(axis=0)
    steps = [Rotation.from_quat(part.reshape(-1, 4)) for part in (orientation[:-1], orientation[1:])]
    turn = (steps[0].inv() * steps[1]).magnitude().reshape(len(q) - 1, -1).sum(axis=0)
    position, orientation = position[every::every], orientation[every::every]
    errors = NOISE * turn[:, None] * rng.standard_normal(position.shape)
    seen = Rotation.from_quat(orientation.reshape(-1, 4)) * Rotation.from_rotvec(errors.reshape(-1, 3))
    return Observation(
        position + NOISE * length[:, None] * rng.standard_normal(position.shape),
        seen.as_quat().reshape(orientation.shape), NOISE * length, NOISE * turn, every,
    )  # fmt: skip
