"""Residuals between simulated and measured motions, and their derivatives."""

import numpy as np
import scipy.stats
import torch

from sim.errors import ModelError
from sim.identify.estimate import Residuals, prior_deviations, prior_slopes
from sim.identify.trajectories.segments import Segments
from sim.identify.trajectories.sensitivity import Motion, Simulators, Start
from sim.identify.trajectories.whitening import Whitening
from sim.identify.unknown.unknowns import UnknownSet
from sim.torch.robot.robot import Robot

# Standard deviation of a gap between one segment's end and the next one's start, relative to that of a measurement:
# small enough that remaining gaps are negligible.
GAP = 1e-3
# Initial value, so that a search doesn't have to follow the narrow curved valley of motions without gaps from the
# start.
FIRST_GAP = 0.1
TOGETHER = 1024  # motions per batch
UNLIKELY = 1e-3  # probability of residuals below which the model is called wrong
UNLIKELY_CORRELATED = 0.05  # the same, of averages over neighbours, once it is
FEW_PIECES = 30  # number of independent pieces from which the variance of their sum can be taken
FEWEST = 5  # averages of neighbouring residuals from which their variance is taken


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
        noisy: True if inputs have noise; then residuals are those that :meth:`whiten` makes independent.
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
        self.noisy = bool(segments.input_noise.any())
        self._known: tuple[bytes, Motion] | None = None
        self._whitening: Whitening | None = None
        self._ends: dict[int, torch.Tensor] = {}  # derivatives of gaps in a segment's last state, for gaps of size one

    def whiten(self, x: np.ndarray) -> None:
        """Make residuals independent for errors of inputs near the motions of these free numbers [size + extra]."""
        motion, segments, theta = self.motion(x), self.segments, torch.from_numpy(x[: self.size])
        numbers = theta.repeat(segments.count, 1)
        transition, _, of_inputs = self.worlds.of_intervals(numbers, motion, segments.inputs, of_inputs=True)
        states = torch.eye(self.worlds.state_size, dtype=torch.float64).expand(segments.rows, segments.count, -1, -1)
        slopes = self._misfit_slopes(motion, states)
        self._whitening = Whitening(transition, of_inputs * segments.input_noise, slopes)
        changes = self._changes(x)
        self._ends = {each[0]: self.gap * self._gap_slopes(motion, changes, *each)[0] for each in segments.following}

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
        misfits, error = self._white(self._misfits(motion)[..., None])
        gaps = [
            self._white_gap(each[0], self._gap(motion, changes, *each)[:, None], error).numpy().ravel()
            for each in self.segments.following
        ]
        of_start = (changes * self._prior)[self._prior > 0.0].numpy()
        prior = prior_deviations(self.unknowns, x[: self.size])
        return np.concatenate([misfits.numpy().ravel(), prior, *gaps, of_start])

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return derivatives, see :class:`Residuals`."""
        motion, count = self.motion(x), self.segments.count
        changes, theta = self._changes(x), torch.from_numpy(x[: self.size]).repeat(count, 1)
        start = self._start_slopes(changes)
        slopes = self.worlds.derivatives(theta, motion, self.segments.inputs, start)
        own, error = self._white(self._misfit_slopes(motion, slopes))
        all_numbers = len(self._used)
        whole = np.zeros((*own.shape[:3], all_numbers))
        whole[..., : self.size] = own[..., : self.size]
        for world in range(count):
            whole[:, world, :, self._columns(world)] = own[:, world, :, self.size :].numpy()
        prior = prior_slopes(self.unknowns, x[: self.size])
        parts = [whole.reshape(-1, all_numbers), np.pad(prior, ((0, 0), (0, all_numbers - self.size)))]
        for before, after, row in self.segments.following:
            of_end, of_start = self._gap_slopes(motion, changes, before, after, row)
            gap = np.zeros((len(of_end), all_numbers))
            along = self._white_gap(before, of_end @ slopes[row, before], error).numpy()
            gap[:, : self.size], gap[:, self._columns(before)] = along[:, : self.size], along[:, self.size :]
            gap[:, self._columns(after)] = self._white_gap(before, of_start @ start[after], None).numpy()
            parts.append(gap)
        known_before = self._prior[:, self._moving].numpy().ravel()
        parts.append(np.diag(np.append(np.zeros(self.size), known_before))[self.size :][known_before > 0.0])
        return np.concatenate(parts)[:, self._used]

    def marginal(self, slope: np.ndarray) -> np.ndarray:
        """Return derivatives in the unknowns [n, size] without the part that unknown initial states explain, from those
        in all free numbers.
        """
        own, of_start = slope[:, : self.size], slope[:, self.size :]
        return own - of_start @ np.linalg.lstsq(of_start.T @ of_start, of_start.T @ own, rcond=None)[0]

    def excess(self, x: np.ndarray) -> np.ndarray:
        """Return the variance of residuals over that of their noise [channels, nv]: one if the noise explains them.

        It is that of averages over the number of rows for which it is largest, so that residuals that stay alike count.
        """
        residuals, measured = self._residuals(x).numpy(), (self.weight > 0.0).numpy()
        columns = [excess_variance(residuals[..., k], measured[..., k]) for k in range(residuals.shape[-1])]
        return np.array(columns).reshape(len(self.segments.channels), -1)

    def misfit(self, x: np.ndarray) -> float:
        """Return the sum of squared residuals of the measurements."""
        return float(self._residuals(x).square().sum())

    def sizes(self, x: np.ndarray) -> np.ndarray:
        """Return root mean squares of the residuals, in standard deviations [channels, nv]; NaN where nothing was
        measured.
        """
        shape = (len(self.segments.channels), self.worlds.model.nv)
        squares = self._residuals(x).square().flatten(0, 1).sum(0).reshape(shape)
        counts = self.weight.gt(0.0).flatten(0, 1).sum(0).reshape(shape)
        return (squares / counts).sqrt().numpy()

    def many(self, thetas: np.ndarray, excess: np.ndarray | float = 1.0) -> np.ndarray:
        """Return sums of squares [n], priors included, for free numbers of the unknowns [n, size], from measured
        starts.

        Args:
            thetas: the free numbers.
            excess: variance of the residuals over that of their noise, [channels, nv] or one for all.
        """
        count, segments = self.segments.count, self.segments
        wider = torch.as_tensor(np.ravel(np.sqrt(excess)))
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
                residuals = self._white(self._misfits(Motion(q, qd))[..., None])[0][..., 0]
                found.append(float((residuals / wider).square().sum()))
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

    def _residuals(self, x: np.ndarray) -> torch.Tensor:
        """Return independent residuals of the measurements [rows, worlds, channels * nv]."""
        return self._white(self._misfits(self.motion(x))[..., None])[0][..., 0]

    def _white(self, misfits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return independent residuals, or derivatives of residuals [rows, worlds, channels * nv, c], and the predicted
        change of the last state.
        """
        return (misfits, None) if self._whitening is None else self._whitening(misfits)

    def _white_gap(self, world: int, gap: torch.Tensor, error: torch.Tensor | None) -> torch.Tensor:
        """Return independent gaps behind a segment, or derivatives of gaps [width, c]."""
        if self._whitening is None:
            return gap
        slope = self._ends[world] / self.gap
        return self._whitening.at_end(world, slope, gap, None if error is None else error[world])

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


def excess_variance(residuals: np.ndarray, measured: np.ndarray) -> float:
    """Return the variance of sums of residuals over that of independent noise: one if that explains them.

    It is their own variance if that is improbable, and then that of averages over two neighbours, over four and so on,
    while independent residuals would hardly give one as large. Where they stay alike so long that only a few
    independent pieces are left, their whole energy could lie in the direction of an unknown.

    Args:
        residuals: residuals in standard deviations, zero where nothing was measured [rows, worlds].
        measured: mask of the measured ones.
    """
    count = int(measured.sum())
    found, length, correlated = 1.0, 1, False
    while length <= len(residuals) and FEWEST * length <= count:
        sums, counts = (_sums(each, length) for each in (residuals, measured))
        squares = sums[counts > 0] ** 2 / counts[counts > 0]
        # Equivalent number of independent squares: of overlapping averages, and of their growth with their length.
        freedom = 1.5 * count / length if length > 1 else count
        if found > 1.0:
            freedom = 0.5 * count / ((1.0 - np.arange(1, length) / length) ** 2).sum()
        limit = UNLIKELY if found == 1.0 else UNLIKELY_CORRELATED
        if scipy.stats.chi2.sf(freedom * squares.mean() / found, freedom) < limit:
            found, correlated = float(squares.mean()), length > 1
        length *= 2
    energy = float((residuals**2).sum())
    return energy if correlated and energy < FEW_PIECES * found else found


def _sums(values: np.ndarray, length: int) -> np.ndarray:
    """Return sums of so many neighbouring rows [rows + 1 - length, worlds]."""
    sums = np.pad(np.cumsum(values, axis=0), ((1, 0), (0, 0)))
    return sums[length:] - sums[:-length]


def _slopes(result: torch.Tensor, *inner: torch.Tensor) -> list[torch.Tensor]:
    """Return derivatives [..., m, n] of each row [..., m] in its own arguments [..., n], by one backward pass for each
    entry.
    """
    rows = [torch.autograd.grad(each.sum(), inner, retain_graph=True) for each in result.unbind(-1)]
    dims = [result.dim() - 1 if argument.dim() == result.dim() else 0 for argument in inner]
    found = [torch.stack([row[k] for row in rows], dim=dim) for k, dim in enumerate(dims)]
    return [each if dim else each[None] for each, dim in zip(found, dims, strict=True)]
