"""Logs cut into segments of one length, which are simulated as a batch, and states of actuators along a log."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sim.errors import ModelError, NotFiniteWarning
from sim.identify.logs.log import EVEN, Log, channel_names
from sim.identify.trajectories.measurements import (
    INPUTS,
    MEASURED,
    completed,
    input_deviations,
    noise_deviations,
    require_start,
    start_deviations,
    weights_of,
)
from sim.identify.trajectories.sensitivity import Inputs, as_states
from sim.model.checks import is_positive
from sim.model.model import Model
from sim.simulation.simulator import Simulator


def activations_of(model: Model, log: Log, dt: float, hold: int) -> np.ndarray:
    """Return states of actuators in each row of a log [n, na]: the log's, or those that its inputs produce from zeros.

    They depend on inputs and parameters only, not on the simulated joints.

    Args:
        model: the model.
        log: the log, whose first coordinates are known.
        dt: time step [s].
        hold: number of steps from one row to the next.
    """
    if log.act is not None:
        return log.act
    found = np.zeros((len(log), model.na))
    if model.na and log.control is not None:
        simulator = Simulator(model, dt, device="cpu")
        state = simulator.state(log.q[0])
        control = np.repeat(log.control[:-1], hold, axis=0)[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotFiniteWarning)
            states = simulator.rollout(state, control=control, checkpoint_interval=hold).act
        assert states is not None, "the model has some"
        found[:] = np.nan_to_num(states.numpy()[:, 0], nan=0.0, posinf=0.0, neginf=0.0)
    return found


# Standard deviation of an actuator's state, relative to the largest: scale of the first search step.
ACT_SHARE = 1e-3


@dataclass(frozen=True)
class Segments:
    """Segments of logs, one for each world. Shorter ones continue with their last input, unmeasured.

    Attributes:
        hold: number of steps from one row to the next.
        interval: the time between them [s].
        starts: start of each segment, in its log's time [s].
        q: measured coordinates, interpolated where there are none [rows, worlds, nq].
        qd: measured velocities, or derivatives of the coordinates, likewise [rows, worlds, nv].
        inputs: inputs of the motions.
        input_noise: standard deviation of each of their entries, joint forces first [n].
        channels: measured channels, "q", "qd" or both.
        weight: one over the deviation for measured entries, zero elsewhere [rows, worlds, channels * nv].
        following: (segment, next segment, first row of the next one).
        act: states of actuators at the start of each segment [worlds, na]: known in the first ones, a guess in others.
        scale: typical change of a state: changes of q, of qd and of act [2 nv + na].
        free: mask of unknown entries of each initial state, in that order [worlds, 2 nv + na].
        prior: one over the deviation of each initial state before the log, zero without a prior, likewise.
    """

    hold: int
    interval: float
    starts: tuple[float, ...]
    q: torch.Tensor
    qd: torch.Tensor
    inputs: Inputs
    input_noise: torch.Tensor
    channels: tuple[str, ...]
    weight: torch.Tensor
    following: tuple[tuple[int, int, int], ...]
    act: torch.Tensor
    scale: torch.Tensor
    free: torch.Tensor
    prior: torch.Tensor

    @property
    def rows(self) -> int:
        """Number of states of a motion, the first included."""
        return len(self.q)

    @property
    def count(self) -> int:
        """Number of segments."""
        return self.q.shape[1]


Piece = tuple[int, int, int]  # log, first row, last row


def cut(
    model: Model,
    logs: Sequence[Log],
    dt: float,
    noise: Mapping[str, Any],
    duration: float | None,
    start: Mapping[str, Any],
) -> Segments:
    """Cut logs into segments; see :func:`sim.identify.fit_trajectories` for the arguments."""
    if not logs:
        raise ModelError("no logs")
    hold, interval = _intervals(model, logs, dt)
    deviations, known = noise_deviations(model, noise), start_deviations(model, start)
    channels = tuple(name for name in MEASURED if name in deviations)
    measured = [weights_of(model, log, deviations) for log in logs]
    for log, weight in zip(logs, measured, strict=True):
        require_start(model, log, weight, "q" in start, duration is not None)
        for name in known:  # the first row is the mean of a prior, not a measurement
            if name in channels:
                columns = channels.index(name) * model.nv + np.flatnonzero(known[name] < np.inf)
                weight[0, columns] = 0.0
    complete = [completed(model, log, known) for log in logs]
    activations = [activations_of(model, log, dt, hold) for log in complete]
    length = _length(logs, interval, duration)
    pieces = [
        (k, first, min(first + length, len(log) - 1))
        for k, log in enumerate(logs)
        for first in range(0, len(log) - 1, length)
    ]

    def stacked(values: Sequence[np.ndarray], rows: int) -> torch.Tensor:
        return as_states(np.stack([_part(values, piece, rows) for piece in pieces], axis=1))

    inputs = [name for name in INPUTS if getattr(logs[0], name) is not None]
    of_first = np.array([first == 0 for _, first, _ in pieces])[:, None]
    width = np.concatenate([known["q"], known["qd"], np.zeros(model.na)])
    return Segments(
        hold, interval, tuple(float(logs[k].time[first]) for k, first, _ in pieces),
        stacked([log.q for log in complete], length + 1), stacked([_velocity(log) for log in complete], length + 1),
        Inputs(*(stacked([_input(log, name) for log in logs], length) if name in inputs else None for name in INPUTS)),
        torch.from_numpy(input_deviations(model, logs[0], inputs, deviations)),
        channels, as_states(np.stack([_of_piece(measured, logs, piece, length + 1) for piece in pieces], axis=1)),
        tuple((k - 1, k, length) for k, first in enumerate(of_first[:, 0]) if not first),
        as_states(np.array([activations[k][first] for k, first, _ in pieces])),
        torch.from_numpy(np.append(_scale(deviations, known, interval), _scale_of_act(activations))),
        torch.from_numpy(~of_first | (width > 0.0)),
        torch.from_numpy(of_first / np.where(width > 0.0, width, np.inf)),
    )  # fmt: skip


def _part(values: Sequence[np.ndarray], piece: Piece, rows: int) -> np.ndarray:
    """Return the rows of a piece, continued with its last one."""
    k, first, last = piece
    part = values[k][first : last + 1][:rows]
    return np.concatenate([part, np.repeat(part[-1:], rows - len(part), axis=0)])


def _of_piece(weights: Sequence[np.ndarray], logs: Sequence[Log], piece: Piece, rows: int) -> np.ndarray:
    """Return the weights of a piece, zero behind its end. A row shared by two belongs to the one that starts there."""
    k, first, last = piece
    found = np.zeros((rows, weights[k].shape[1]))
    count = last - first + (last == len(logs[k]) - 1)
    found[:count] = weights[k][first : first + count]
    return found


def _scale_of_act(activations: Sequence[np.ndarray]) -> np.ndarray:
    largest = np.max([np.abs(each).max(axis=0, initial=0.0) for each in activations], axis=0)
    return ACT_SHARE * np.where(largest > 0.0, largest, 1.0)


def _intervals(model: Model, logs: Sequence[Log], dt: float) -> tuple[int, float]:
    """Return the number of steps between rows, and the time between them."""
    if not is_positive(dt):
        raise ModelError(f"dt is {dt!r} s; it must be positive")
    dt = float(dt)
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


def _length(logs: Sequence[Log], interval: float, duration: float | None) -> int:
    """Return the number of intervals of a segment."""
    longest = max(len(log) for log in logs) - 1
    if duration is None:
        return longest
    if not is_positive(duration):
        raise ModelError(f"segment is {duration!r} s; it must be a positive number")
    length = min(longest, round(duration / interval))
    if length < 1:
        raise ModelError(f"segment is {duration:g} s; it must be at least the interval of the logs, {interval:g} s")
    return length


def _scale(noise: Mapping[str, np.ndarray], start: Mapping[str, np.ndarray], interval: float) -> np.ndarray:
    """Return the uncertainty of q and qd from one row, or before the log where nothing is measured [2 nv]."""
    none = np.full_like(start["q"], np.inf)
    q, qd = (noise.get(name, none) for name in MEASURED)
    found = np.concatenate([np.where(q < np.inf, q, interval * qd), np.where(qd < np.inf, qd, q / interval)])
    before = np.concatenate([start["q"], start["qd"]])
    return np.where(found < np.inf, found, np.where((before > 0.0) & (before < np.inf), before, 1.0))


def _velocity(log: Log) -> np.ndarray:
    assert log.qd is not None, "complete logs have them"
    return log.qd


def _input(log: Log, name: str) -> np.ndarray:
    log.require(name)
    value = getattr(log, name)
    assert isinstance(value, np.ndarray)
    gaps = np.argwhere(np.isnan(value[:-1]))
    if len(gaps):
        row, column = (int(k) for k in gaps[0])
        raise ModelError(
            f"{log.source}: {name} of {channel_names(log.model, name)[column]} isn't known at row {row}, and a "
            "simulation needs it: fill the gaps, with 0 for a joint that nothing drives"
        )
    return value[:-1]
