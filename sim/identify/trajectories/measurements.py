"""Measurements of motions: noise of logs and inputs, weights, and knowledge of initial states."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.dynamics.kinematics import difference, integrate
from sim.errors import ModelError
from sim.identify.logs.log import Log, channel_width, measured_dofs
from sim.identify.regressor import dof_names
from sim.model.checks import as_numbers
from sim.model.model import Model

MEASURED = ("q", "qd")
INPUTS = ("tau", "control")


def noise_deviations(model: Model, noise: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the standard deviation of each entry of the channels: infinite for unmeasured ones."""
    if not isinstance(noise, Mapping):
        raise ModelError(f"noise is {noise!r}; give a standard deviation by channel, such as {{'q': {noise!r}}}")
    _require_names("noise", noise, (*MEASURED, *INPUTS))
    if not set(noise) & set(MEASURED):
        raise ModelError("noise: give the standard deviation of 'q', of 'qd' or of both")
    found = {}
    for name in (each for each in (*MEASURED, *INPUTS) if each in noise):
        found[name] = value = _numbers(model, "noise", name, noise[name])
        if name in INPUTS and not ((value >= 0.0) & (value < np.inf)).all():
            raise ModelError(f"noise of {name} is {noise[name]}; expected zero or positive, finite numbers")
        if name in MEASURED and (not (value > 0.0).all() or np.isinf(value).all()):
            raise ModelError(f"noise of {name} is {noise[name]}; expected a positive number, or {model.nv} of them")
    return found


def input_deviations(model: Model, log: Log, inputs: Sequence[str], noise: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the standard deviation of each entry of the model's inputs, zero by default [n]."""
    log.require(*(name for name in INPUTS if name in noise))
    return np.concatenate([noise.get(name, np.zeros(channel_width(model, name))) for name in inputs] or [np.zeros(0)])


def start_deviations(model: Model, start: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the standard deviations of the initial state before the log, of q and of qd [nv]."""
    if not isinstance(start, Mapping):
        raise ModelError(f"start is {start!r}; give standard deviations by name, such as {{'q': 0.0, 'qd': 0.1}}")
    _require_names("start", start, MEASURED)
    found = {name: _numbers(model, "start", name, start.get(name, np.inf)) for name in MEASURED}
    for name, value in found.items():
        if not (value >= 0.0).all():
            raise ModelError(f"start of {name} is {start[name]}; expected positive numbers, or 0 for an exact start")
    return found


def _require_names(argument: str, given: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise ModelError(f"{argument}: unknown channel '{name}'; there are {', '.join(names)}")


def _numbers(model: Model, argument: str, name: str, value: Any) -> np.ndarray:
    given, width = as_numbers(f"{argument} of {name}", value), channel_width(model, "qd" if name == "q" else name)
    if given.ndim > 1 or given.size not in (1, width):
        raise ModelError(f"{argument} of {name} has shape {given.shape}; expected one number, or {width}")
    return np.broadcast_to(given, (width,)).copy()


def weights_of(model: Model, log: Log, noise: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return one over the deviation for measured entries, zero elsewhere [rows, channels * nv]."""
    log.require(*(name for name in MEASURED if name in noise))
    measured = {"q": measured_dofs(model, log.q), "qd": log.qd is not None and ~np.isnan(log.qd)}
    return np.hstack([measured[name] / noise[name] for name in MEASURED if name in noise])


def require_start(model: Model, log: Log, weights: np.ndarray, given: bool, segments: bool) -> None:
    """Raise ModelError for a degree of freedom that wasn't measured, unless its start is given."""
    unseen = np.flatnonzero(~weights.reshape(len(log), -1, model.nv).any(axis=(0, 1)))
    if not len(unseen) or (given and not segments):
        return
    remedy = (
        "segments need measurements of every degree of freedom"
        if segments
        else "give start={'q': ..., 'qd': ...}, the standard deviation of its first row (0: exact, np.inf: unknown), "
        "or known_start=True for an exact first row of all"
    )
    raise ModelError(f"{log.source}: {dof_names(model)[unseen[0]]} wasn't measured; {remedy}")


def completed(model: Model, log: Log, known: Mapping[str, np.ndarray]) -> Log:
    """Return the log with values at all rows: guesses of initial states, and means of the priors in its first row.

    Gaps are interpolated. Where nothing was measured, coordinates are the model's and velocities zero, and so are
    means of priors.
    """
    q = _without_gaps(log.time, log.q, model.q0)
    if np.isnan(log.q[0]).any():
        mean = np.where(np.isnan(log.q[0]), model.q0, log.q[0])
        change = difference(model, q[:1], mean[None]).numpy() * np.isfinite(known["q"])
        q[:1] = integrate(model, q[:1], change).numpy()
    log = replace(log, q=q)
    qd = log.velocities() if log.qd is None else _without_gaps(log.time, log.qd, np.zeros(model.nv))
    unseen = np.isfinite(known["qd"]) & (True if log.qd is None else np.isnan(log.qd[0]))
    qd[0] = np.where(unseen, 0.0, qd[0])
    return replace(log, qd=qd)


def _without_gaps(time: np.ndarray, values: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    columns = []
    for column, value in zip(values.T, otherwise, strict=True):
        known = ~np.isnan(column)
        columns.append(np.interp(time, time[known], column[known]) if known.any() else np.full(len(time), value))
    return np.stack(columns, axis=1)
