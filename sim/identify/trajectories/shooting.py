"""Residuals between simulated and measured motions, and their derivatives."""

import numpy as np
import torch

from sim.errors import ModelError
from sim.identify.estimate import Residuals, prior_deviations, prior_slopes
from sim.identify.trajectories.segments import Segments
from sim.identify.trajectories.sensitivity import Motion, Simulators, Start
from sim.identify.unknown.unknowns import UnknownSet
from sim.torch.robot.robot import Robot

# Standard deviation of a gap between one segment's end and the next one's start, relative to that of a measurement:
# small enough that remaining gaps are negligible.
GAP = 1e-3
# Initial value, so that a search doesn't have to follow the narrow curved valley of motions without gaps from the
# start.
FIRST_GAP = 0.1
TOGETHER = 1024  # motions per batch


class Shooting(Residuals):
    """Residuals of motions. Free numbers are those of the unknowns, then changes of each segment's initial state.

    Args:
        unknowns: the unknowns.
        worlds: the simulators.
        segments: the measurements.

    Attributes:
        size: number of free numbers of the unknowns.
        extra: number of free numbers of initial states.
        robot: the model's kinematics.
        gap: standard deviation of a gap, by default ``GAP``; a search may start with a larger one.
    """

    def __init__(self, unknowns: UnknownSet, worlds: Simulators, segments: Segments):
        self.unknowns, self.worlds, self.segments = unknowns, worlds, segments
        self.size, self.weight = len(unknowns.start), segments.weight
        self.extra = int(segments.free.sum())
        self.robot = Robot(worlds.model, dtype=torch.float64, device="cpu")
        self.gap = GAP
        # Entries of an initial state that are unknown in some segment; mask of the free numbers if all of them are so.
        self._moving = torch.nonzero(segments.free.any(dim=0))[:, 0]
        self._used = np.append(np.ones(self.size, dtype=bool), segments.free[:, self._moving].numpy().ravel())
        self._known: tuple[bytes, Motion] | None = None

    def motion(self, x: np.ndarray) -> Motion:
        """Return the motions for free numbers [size + extra]."""
        key = x.tobytes()
        if self._known is None or self._known[0] != key:
            theta = torch.from_numpy(x[: self.size]).repeat(self.segments.count, 1)
            start = self._start(self._changes(x))
            motion = self.worlds.run(theta, start, self.segments.inputs, self.segments.rows)
            self._known = key, Motion(*(each.double() for each in motion.states))
        return self._known[1]

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return residuals, see :class:`Residuals`."""
        motion, changes = self.motion(x), self._changes(x)
        gaps = [self._gap(motion, changes, *each).numpy() for each in self.segments.following]
        of_start = (changes * self._prior)[self._prior > 0.0].numpy()
        prior = prior_deviations(self.unknowns, x[: self.size])
        return np.concatenate([self._misfits(motion).numpy().ravel(), prior, *gaps, of_start])

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return derivatives, see :class:`Residuals`."""
        motion, count = self.motion(x), self.segments.count
        changes, theta = self._changes(x), torch.from_numpy(x[: self.size]).repeat(count, 1)
        start = self._start_slopes(changes)
        slopes = self.worlds.derivatives(theta, motion, self.segments.inputs, start)
        own = self._misfit_slopes(motion, slopes).numpy()
        all_numbers = len(self._used)
        whole = np.zeros((*own.shape[:3], all_numbers))
        whole[..., : self.size] = own[..., : self.size]
        for world in range(count):
            whole[:, world, :, self._columns(world)] = own[:, world, :, self.size :]
        prior = prior_slopes(self.unknowns, x[: self.size])
        parts = [whole.reshape(-1, all_numbers), np.pad(prior, ((0, 0), (0, all_numbers - self.size)))]
        for before, after, row in self.segments.following:
            of_end, of_start = self._gap_slopes(motion, changes, before, after, row)
            gap = np.zeros((len(of_end), all_numbers))
            along = (of_end @ slopes[row, before]).numpy()
            gap[:, : self.size], gap[:, self._columns(before)] = along[:, : self.size], along[:, self.size :]
            gap[:, self._columns(after)] = (of_start @ start[after]).numpy()
            parts.append(gap)
        known_before = self._prior[:, self._moving].numpy().ravel()
        parts.append(np.diag(np.append(np.zeros(self.size), known_before))[self.size :][known_before > 0.0])
        return np.concatenate(parts)[:, self._used]

    def marginal(self, information: np.ndarray) -> np.ndarray:
        """Return the information about the unknowns [size, size], marginalised over unknown initial states."""
        a, b, c = (
            information[rows, columns]
            for rows, columns in (
                (slice(self.size), slice(self.size)),
                (slice(self.size), slice(self.size, None)),
                (slice(self.size, None), slice(self.size, None)),
            )
        )
        return a - b @ np.linalg.lstsq(c, b.T, rcond=None)[0] if self.extra else a

    def misfit(self, x: np.ndarray) -> float:
        """Return the sum of squared residuals of the measurements."""
        return float(self._misfits(self.motion(x)).square().sum())

    def sizes(self, x: np.ndarray) -> np.ndarray:
        """Return root mean squares of the residuals, in standard deviations [channels, nv]; NaN where nothing was
        measured.
        """
        shape = (len(self.segments.channels), self.worlds.model.nv)
        squares = self._misfits(self.motion(x)).square().flatten(0, 1).sum(0).reshape(shape)
        counts = self.weight.gt(0.0).flatten(0, 1).sum(0).reshape(shape)
        return (squares / counts).sqrt().numpy()

    def many(self, thetas: np.ndarray) -> np.ndarray:
        """Return sums of squares [n], priors included, for free numbers of the unknowns [n, size], from measured
        starts.
        """
        count, segments = self.segments.count, self.segments
        together = max(1, min(len(thetas), TOGETHER // count))
        found = []
        for begin in range(0, len(thetas), together):
            rows = np.minimum(np.arange(begin, begin + together), len(thetas) - 1)  # the last group is padded
            theta = torch.from_numpy(thetas[rows]).repeat_interleave(count, dim=0)
            start = tuple(each.repeat(together, 1) for each in self._measured)
            inputs = segments.inputs.map(lambda each: each.repeat(1, together, 1))
            motion = self.worlds.run(theta, start, inputs, segments.rows)
            by_guess = (each.double().unflatten(1, (together, count)) for each in (motion.q, motion.qd))
            for q, qd in zip(*(each.unbind(1) for each in by_guess), strict=True):
                found.append(float(self._misfits(Motion(q, qd)).square().sum()))
        prior = self.unknowns.prior_deviations(torch.from_numpy(thetas)).square().sum(-1).numpy()
        return np.array(found[: len(thetas)]) + prior

    def best_of(self, guesses: np.ndarray) -> np.ndarray:
        """Return the guess [size] whose motions fit best, of [n, size]. All are simulated as one batch."""
        if guesses.ndim != 2 or guesses.shape[1] != self.size:
            raise ModelError(f"guesses has shape {guesses.shape}; expected (n, {self.size})")
        found = self.many(guesses)
        if not np.isfinite(found).any():
            raise ModelError("guesses: all motions diverge; give other guesses")
        return guesses[int(np.nanargmin(found))]

    def _columns(self, world: int) -> slice:
        """Return the columns of a segment's initial state, before those of known entries are left out."""
        first = self.size + world * len(self._moving)
        return slice(first, first + len(self._moving))

    @property
    def _prior(self) -> torch.Tensor:
        """Return one over the deviation of each change before the log, zero without a prior [worlds, width]."""
        return self.segments.scale * self.segments.prior

    @property
    def _measured(self) -> Start:
        """Return the measured first states of the segments."""
        segments = self.segments
        start = (segments.q[0], segments.qd[0], segments.act)
        return start if self.worlds.model.na else start[:2]

    def _changes(self, x: np.ndarray) -> torch.Tensor:
        """Return changes of initial states [worlds, width], in units of their scale; zeros where known."""
        changes = self.segments.scale.new_zeros(self.segments.free.shape)
        changes[self.segments.free] = torch.from_numpy(x[self.size :])
        return changes

    def _start(self, changes: torch.Tensor) -> Start:
        """Return initial states [worlds, nq], [worlds, nv] and, if there are any, [worlds, na]."""
        nv, moved = self.worlds.model.nv, self.segments.scale * changes
        q, *rates = self._measured
        changed = (x + d for x, d in zip(rates, (moved[:, nv : 2 * nv], moved[:, 2 * nv :]), strict=False))
        return self.robot.integrate(q, moved[:, :nv]), *changed

    def _start_slopes(self, changes: torch.Tensor) -> torch.Tensor:
        """Return derivatives of the initial states in the changes that are unknown in some segment [worlds, nq + nv +
        na, m].
        """
        if not self.extra:
            return changes.new_zeros(self.segments.count, self.worlds.state_size, 0)
        inner = changes.detach().requires_grad_()
        return _slopes(torch.cat(self._start(inner), dim=1), inner)[0][..., self._moving]

    def _misfits(self, motion: Motion) -> torch.Tensor:
        """Return residuals of the measurements [rows, worlds, channels * nv]."""
        given = {"q": (self.segments.q, motion.q), "qd": (self.segments.qd, motion.qd)}
        parts = [
            self.robot.difference(*given["q"]) if name == "q" else given["qd"][1] - given["qd"][0]
            for name in self.segments.channels
        ]
        return torch.where(self.weight > 0.0, self.weight * torch.cat(parts, dim=-1), 0.0)

    def _misfit_slopes(self, motion: Motion, slopes: torch.Tensor) -> torch.Tensor:
        """Return derivatives of the residuals [rows, worlds, channels * nv, p] from those of the states."""
        nq, nv, parts = self.worlds.model.nq, self.worlds.model.nv, []
        for name in self.segments.channels:
            if name == "q":
                inner = motion.q.detach().requires_grad_()
                (of_q,) = _slopes(self.robot.difference(self.segments.q, inner), inner)
                parts.append(of_q @ slopes[:, :, :nq])
            else:
                parts.append(slopes[:, :, nq : nq + nv])
        return torch.where(self.weight[..., None] > 0.0, self.weight[..., None] * torch.cat(parts, dim=2), 0.0)

    def _gap(self, motion: Motion, changes: torch.Tensor, before: int, after: int, row: int) -> torch.Tensor:
        """Return the gap from the start of a segment to the end of the previous one, in standard deviations [width]."""
        start, end = (each[after] for each in self._start(changes)), (each[row, before] for each in motion.states)
        return self._scaled_gap(tuple(start), tuple(end))

    def _gap_slopes(
        self, motion: Motion, changes: torch.Tensor, before: int, after: int, row: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return derivatives of a gap in the end of one segment and in the start of the next [width, nq + nv + na]."""
        start = tuple(each[after].detach().requires_grad_() for each in self._start(changes))
        end = tuple(each[row, before].detach().requires_grad_() for each in motion.states)
        found = _slopes(self._scaled_gap(start, end)[None], *end, *start)
        return torch.cat(found[: len(end)], dim=-1)[0], torch.cat(found[len(end) :], dim=-1)[0]

    def _scaled_gap(self, start: Start, end: Start) -> torch.Tensor:
        differences = self.robot.difference(start[0], end[0]), *(b - a for a, b in zip(start[1:], end[1:], strict=True))
        return torch.cat(differences) / self.segments.scale / self.gap


def _slopes(result: torch.Tensor, *inner: torch.Tensor) -> list[torch.Tensor]:
    """Return derivatives [..., m, n] of each row [..., m] in its own arguments [..., n], by one backward pass for each
    entry.
    """
    rows = [torch.autograd.grad(each.sum(), inner, retain_graph=True) for each in result.unbind(-1)]
    dims = [result.dim() - 1 if argument.dim() == result.dim() else 0 for argument in inner]
    found = [torch.stack([row[k] for row in rows], dim=dim) for k, dim in enumerate(dims)]
    return [each if dim else each[None] for each, dim in zip(found, dims, strict=True)]
