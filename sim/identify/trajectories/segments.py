"""Logs cut into segments of one length, which are simulated as a batch, and states of actuators along a log."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sim.errors import ModelError, NotFiniteWarning
from sim.identify.logs.log import EVEN, Log
from sim.identify.trajectories.sensitivity import Inputs, as_states
from sim.model.checks import as_numbers, is_positive
from sim.model.model import Model
from sim.simulation.simulator import Simulator


def activations_of(model: Model, log: Log, qd: np.ndarray, dt: float, hold: int) -> np.ndarray:
    """Return states of actuators in each row of a log [n, na]: the log's, or those that its inputs produce from zeros.

    They depend on inputs and parameters only, not on the simulated joints.

    Args:
        model: the model.
        log: the log.
        qd: velocities of its rows [n, nv].
        dt: time step [s].
        hold: number of steps from one row to the next.
    """
    if log.act is not None:
        return log.act
    found = np.zeros((len(log), model.na))
    if model.na and log.control is not None:
        simulator = Simulator(model, dt, device="cpu")
        state = simulator.state(log.q[0], qd[0])
        control = np.repeat(log.control[:-1], hold, axis=0)[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotFiniteWarning)
            states = simulator.rollout(state, control=control, checkpoint_interval=hold).act
        assert states is not None, "the model has some"
        found[:] = np.nan_to_num(states.numpy()[:, 0], nan=0.0, posinf=0.0, neginf=0.0)
    return found


MEASURED = ("q", "qd")
# Standard deviation of an actuator's state, relative to the largest: scale of the first search step.
ACT_SHARE = 1e-3


@dataclass(frozen=True)
class Segments:
    """Segments of logs, one for each world. Shorter ones continue with their last input, unmeasured.

    Attributes:
        hold: number of steps from one row to the next.
        interval: the time between them [s].
        starts: start of each segment, in its log's time [s].
        q: measured coordinates [rows, worlds, nq].
        qd: measured velocities, or derivatives of the coordinates [rows, worlds, nv].
        inputs: inputs of the motions.
        channels: measured channels, "q", "qd" or both.
        deviations: standard deviation of each channel's noise [channels, nv], infinite if nothing was measured.
        weight: one over the deviation for measured entries, zero elsewhere [rows, worlds, channels * nv].
        following: (segment, next segment, first row of the next one).
        first: the first segments of the logs.
        act: states of actuators at the start of each segment [worlds, na]: known in the first ones, a guess in others.
        act_scale: typical change of each state [na].
    """

    hold: int
    interval: float
    starts: tuple[float, ...]
    q: torch.Tensor
    qd: torch.Tensor
    inputs: Inputs
    channels: tuple[str, ...]
    deviations: torch.Tensor
    weight: torch.Tensor
    following: tuple[tuple[int, int, int], ...]
    first: tuple[int, ...]
    act: torch.Tensor
    act_scale: torch.Tensor

    @property
    def rows(self) -> int:
        """Number of states of a motion, the first included."""
        return len(self.q)

    @property
    def count(self) -> int:
        """Number of segments."""
        return self.q.shape[1]

    @property
    def state_scale(self) -> torch.Tensor:
        """Uncertainty of a state from one row: changes of q, of qd and of act [2 nv + na]."""
        scales = {name: self.deviations[k] for k, name in enumerate(self.channels)}
        q = scales.get("q", self.interval * self.deviations[0])
        return torch.cat([q, scales.get("qd", q / self.interval), self.act_scale])


def cut(
    model: Model, logs: Sequence[Log], dt: float, noise: Mapping[str, Any], duration: float | None, known_start: bool
) -> Segments:
    """Cut logs into segments; see :func:`sim.identify.fit_trajectories` for the arguments."""
    if not logs:
        raise ModelError("no logs")
    hold, interval = _intervals(model, logs, dt)
    if not isinstance(noise, Mapping):
        raise ModelError(f"noise is {noise!r}; give a standard deviation by channel, such as {{'q': {noise!r}}}")
    channels = tuple(name for name in MEASURED if name in noise)
    for name in noise:
        if name not in MEASURED:
            raise ModelError(f"noise: unknown channel '{name}'; there are {', '.join(MEASURED)}")
    if not channels:
        raise ModelError("noise: give the standard deviation of 'q', of 'qd' or of both")
    deviations = torch.stack([_deviations(model, name, noise[name]) for name in channels])
    if not (known_start or deviations.isfinite().all()):
        raise ModelError(
            "noise is infinite for a coordinate; give known_start=True, and its exact start in the first row of the log"
        )
    length = max(len(log) for log in logs) - 1
    if duration is not None:
        if not is_positive(duration):
            raise ModelError(f"segment is {duration!r} s; it must be a positive number")
        length = min(length, round(duration / interval))
        if length < 1:
            raise ModelError(f"segment is {duration:g} s; it must be at least the interval of the logs, {interval:g} s")
    pieces: list[tuple[Log, int, int]] = []
    following = []
    for log in logs:
        for start in range(0, len(log) - 1, length):
            if start:
                following.append((len(pieces) - 1, len(pieces), length))
            pieces.append((log, start, min(start + length, len(log) - 1)))
    weight = deviations.new_zeros(length + 1, len(pieces), deviations.numel())
    for world, (log, start, end) in enumerate(pieces):
        for k, name in enumerate(channels):
            log.require(name)
            # A row shared by two segments belongs to the one that starts there.
            last = end - start + (end == len(log) - 1)
            weight[:last, world, k * model.nv : (k + 1) * model.nv] = 1.0 / deviations[k]

    def stacked(values: Sequence[np.ndarray], rows: int) -> torch.Tensor:
        parts = []
        for value, (_, start, end) in zip(values, pieces, strict=True):
            part = value[start : end + 1][:rows]
            parts.append(np.concatenate([part, np.repeat(part[-1:], rows - len(part), axis=0)]))
        return as_states(np.stack(parts, axis=1))

    velocities = {id(log): _velocity(log) for log in logs}
    activations = {id(log): activations_of(model, log, velocities[id(log)], dt, hold) for log in logs}
    act = as_states(np.array([activations[id(log)][start] for log, start, _ in pieces]))
    largest = np.max([np.abs(each).max(axis=0, initial=0.0) for each in activations.values()], axis=0)
    act_scale = as_states(ACT_SHARE * np.where(largest > 0.0, largest, 1.0))
    inputs = Inputs(*(
        None if getattr(logs[0], name) is None else stacked([_input(log, name) for log, *_ in pieces], length)
        for name in ("tau", "control")
    ))  # fmt: skip
    starts = tuple(float(log.time[start]) for log, start, _ in pieces)
    q, qd = (stacked(values, length + 1) for values in ([log.q for log, *_ in pieces],
                                                        [velocities[id(log)] for log, *_ in pieces]))  # fmt: skip
    first = tuple(world for world, (_, start, _) in enumerate(pieces) if start == 0)
    return Segments(
        hold, interval, starts, q, qd, inputs, channels, deviations, weight, tuple(following), first, act, act_scale
    )


def _intervals(model: Model, logs: Sequence[Log], dt: float) -> tuple[int, float]:
    """Return the number of steps between rows, and the time between them."""
    if not is_positive(dt):
        raise ModelError(f"dt is {dt!r} s; it must be positive")
    for log in logs:
        if log.model is not model and (log.model.nq, log.model.nv) != (model.nq, model.nv):
            raise ModelError(f"{log.source}: it belongs to another model, with {log.model.nv} degrees of freedom")
        steps = np.diff(log.time) / dt
        hold = max(1, round(1.0 / (log.rate * dt)))
        wrong = np.flatnonzero(np.abs(steps - hold) > EVEN * hold)
        if len(wrong):
            row = int(wrong[0]) + 1
            raise ModelError(
                f"{log.source}: row {row} comes {steps[row - 1]:.4g} steps of {dt:g} s after the one before; rows must "
                f"be {hold} steps apart: call resampled({1.0 / (hold * dt):.6g})"
            )
        if log is not logs[0] and hold != max(1, round(1.0 / (logs[0].rate * dt))):
            raise ModelError(f"{log.source}: its rate is {log.rate:g} Hz, that of {logs[0].source} {logs[0].rate:g} Hz")
    return hold, hold * dt


def _deviations(model: Model, name: str, value: Any) -> torch.Tensor:
    given = as_numbers(f"noise of {name}", value)
    fits = given.ndim < 2 and given.size in (1, model.nv)
    found = np.broadcast_to(given, (model.nv,)) if fits else np.zeros(1)
    if not (found > 0.0).all() or np.isinf(found).all():
        raise ModelError(f"noise of {name} is {value}; expected a positive number, or {model.nv} of them")
    return torch.from_numpy(np.broadcast_to(found, (model.nv,)).copy())


def _velocity(log: Log) -> np.ndarray:
    if log.qd is not None:
        return log.qd
    if log.model.nq != log.model.nv:
        raise ModelError(f"{log.source}: coordinates with quaternions can't be differentiated; measure qd")
    return np.gradient(log.q, log.time, axis=0)


def _input(log: Log, name: str) -> np.ndarray:
    log.require(name)
    value = getattr(log, name)
    assert isinstance(value, np.ndarray)
    return value[:-1]
