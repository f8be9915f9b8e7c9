"""Delays between the channels of a log, and constant offsets of its sensors."""

from dataclasses import dataclass

import numpy as np
import torch

from sim.errors import ModelError
from sim.identify.logs.log import Log
from sim.identify.regressor import as_robot, as_tensor
from sim.model.checks import number, require_type
from sim.model.model import Model
from sim.torch.robot.robot import Robot


@dataclass(frozen=True)
class Alignment:
    """Delay, gain and offset of a channel relative to its reference.

    Attributes:
        delay: delay, the same for all joints [s].
        gain: scale relative to the reference [nv].
        offset: constant added to it [nv].
        correlation: correlation with the reference, without the delay [nv]; values far from 1 are unreliable.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, align
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> found = align(Log(model, time, q, 1.1 * qd + 0.5), "qd")
        >>> found.gain.round(2).tolist(), found.offset.round(2).tolist()
        ([1.1], [0.5])
    """

    delay: float
    gain: np.ndarray
    offset: np.ndarray
    correlation: np.ndarray


def align(log: Log, channel: str, model: Robot | Model | None = None, longest: float = 0.1) -> Alignment:
    """Align a channel with its reference: qd with the derivative of q, tau with the robot's inverse dynamics.

    For tau a first guess of the robot's parameters is enough to find a delay; gain and offset are relative to that. But
    damping and friction that the guess lacks look like a delay, of some milliseconds for an arm: align again with the
    fitted robot.

    Args:
        log: the log, at even intervals; for tau with qd and qdd.
        channel: "qd" or "tau".
        model: the robot, for tau.
        longest: maximum delay, positive or negative [s].

    Raises:
        ModelError: for another channel, one that the log lacks, uneven intervals, a log shorter than the delays, and a
            delay beyond the maximum.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log, align
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> late = np.cos(time - 0.02)[:, None]  # measured 20 ms late
        >>> found = align(Log(model, time, q, late), "qd")
        >>> round(float(found.delay), 3), found.gain.round(2).tolist()
        (0.02, [1.0])
    """
    require_type("log", log, Log, "a sim.identify.Log")
    log.require(channel)
    log.require_even("align")
    log.require_complete("align()", "q", "qd", *(("qdd", "tau") if channel == "tau" else ()))
    longest = number("align", "longest", longest)
    if channel == "qd":
        should = log.velocities()
    elif channel == "tau" and model is not None:
        log.require("qd", "qdd")
        robot = as_robot(model)
        with torch.no_grad():
            q, qd, qdd = (as_tensor(robot, value) for value in (log.q, log.qd, log.qdd))
            should = robot.inverse_dynamics(q, qd, qdd).cpu().double().numpy()
    else:
        raise ModelError(f"channel is '{channel}'; it must be 'qd', or 'tau' with the robot")
    measured = getattr(log, channel)
    seconds = delay(should, measured, 1.0 / log.rate, longest)
    time = log.time + seconds
    inside = (time >= log.time[0]) & (time <= log.time[-1])
    now = np.stack([np.interp(time[inside], log.time, column) for column in measured.T], axis=1)
    should = should[inside]
    x, y = should - should.mean(axis=0), now - now.mean(axis=0)
    gain = (x * y).sum(axis=0) / np.maximum((x * x).sum(axis=0), 1e-300)
    size = np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
    correlation = (x * y).sum(axis=0) / np.maximum(size, 1e-300)
    return Alignment(seconds, gain, now.mean(axis=0) - gain * should.mean(axis=0), correlation)


def delay(first: np.ndarray, second: np.ndarray, dt: float, longest: float) -> float:
    """Compute the delay of one signal relative to another, to a fraction of the interval.

    It maximises the sum of all columns' correlations, at whole intervals and then on a parabola.

    Args:
        first: signals [n, k].
        second: the same signals, later [n, k].
        dt: interval [s].
        longest: maximum delay, positive or negative [s].
    """
    lags = round(longest / dt) if np.isfinite(longest) else 0
    if lags < 1 or 4 * lags > len(first):
        raise ModelError(f"delays up to {longest:g} s need an interval below that and a log of {8.0 * longest:g} s")
    middle = slice(lags, len(first) - lags)
    a = _standard(first[middle])
    scores = np.array(
        [(a * _standard(second[lags + k : len(first) - lags + k])).mean() for k in range(-lags, lags + 1)]
    )
    best = int(scores[1:-1].argmax()) + 1
    if scores[best] < max(scores[0], scores[-1]):
        raise ModelError(
            f"the correlation is largest at the maximum delay, longest={longest:g} s; raise longest, or check the "
            "sign of the channels"
        )
    before, at, after = scores[best - 1 : best + 2]
    curvature = before - 2.0 * at + after
    return dt * (best - lags + (0.5 * (before - after) / curvature if curvature < 0.0 else 0.0))


def _standard(signal: np.ndarray) -> np.ndarray:
    apart = signal - signal.mean(axis=0)
    return apart / np.maximum(np.sqrt((apart**2).mean(axis=0)), 1e-300)
