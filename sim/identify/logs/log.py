"""Logs of a robot's motion: coordinates, velocities, accelerations and joint forces over time."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.interpolate
import scipy.signal

from sim.dynamics.kinematics import difference, integrate
from sim.errors import ModelError
from sim.identify.regressor import dof_names
from sim.model.checks import as_numbers, is_positive, is_whole, items_of, names_in, number, require_rows, require_type
from sim.model.model import Model

CHANNELS = ("q", "qd", "qdd", "tau", "control", "act")
WITH_GAPS = ("q", "qd", "qdd", "tau")  # NaN where nothing was measured
SPLINE_DEGREE = 5
EVEN = 1e-3  # maximum difference of even intervals, relative to the mean


@dataclass(frozen=True)
class Log:
    """Recorded motion. Its methods return a new log.

    NaN in q, qd, qdd or tau marks what wasn't measured: gaps, or whole columns. Of a quaternion, all four numbers are
    measured or none.

    Attributes:
        model: the model of the robot.
        time: time of each row [n], increasing, s.
        q: joint coordinates [n, nq].
        qd: joint velocities [n, nv]; None if they weren't measured.
        qdd: joint accelerations [n, nv], likewise.
        tau: joint forces [n, nv], likewise.
        control: inputs of the actuators [n, nu], likewise.
        source: origin of the log, for messages.
        act: states of the actuators that have one [n, na], if known. None if they are zero in the first row.

    Raises:
        ModelError: for a wrong shape, infinite values, NaN in time, control or act, and a time that doesn't increase,
            naming the row.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Log
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> time = np.linspace(0.0, 5.0, 501)
        >>> q, qd, qdd = (each[:, None] for each in (np.sin(time), np.cos(time), -np.sin(time)))
        >>> log = Log(model, time, q).resampled(50.0)
        >>> len(log.time), log.differentiated(window=0.2).qd.shape
        (251, (251, 1))
    """

    model: Model
    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray | None = None
    qdd: np.ndarray | None = None
    tau: np.ndarray | None = None
    control: np.ndarray | None = None
    source: str = "log"
    act: np.ndarray | None = None

    def __post_init__(self) -> None:
        require_type(f"{self.source}: model", self.model, Model, "a sim.Model; for a robot give robot.model")
        time = as_numbers(f"{self.source}: time", self.time)
        if time.ndim != 1 or len(time) < 2:
            raise ModelError(f"{self.source}: time has shape {time.shape}; expected [n], at least two rows")
        object.__setattr__(self, "time", time)
        self._require_finite("time", time[:, None])
        late = np.flatnonzero(np.diff(time) <= 0.0)
        if len(late):
            row = int(late[0]) + 1
            raise ModelError(
                f"{self.source}: time doesn't increase at row {row}: {time[row - 1]:g}, then {time[row]:g}"
            )
        for name in CHANNELS:
            value = getattr(self, name)
            if value is None and name != "q":
                continue
            array = as_numbers(f"{self.source}: {name}", value)
            expected = (len(time), channel_width(self.model, name))
            if array.shape != expected:
                raise ModelError(f"{self.source}: {name} has shape {array.shape}; expected {expected}")
            self._require_finite(name, array)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "q", self._unit_quaternions())

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        there = ", ".join(name for name in CHANNELS if getattr(self, name) is not None)
        return f"Log({self.source}: {len(self)} rows over {self.time[-1] - self.time[0]:g} s; {there})"

    @property
    def rate(self) -> float:
        """Rows per second, on average [Hz]."""
        return (len(self) - 1) / float(self.time[-1] - self.time[0])

    def require(self, *names: str) -> None:
        """Raise ModelError if a channel is missing, or unknown."""
        for name in names:
            if not isinstance(name, str) or name not in CHANNELS:
                raise ModelError(f"{self.source}: unknown channel {name!r}; there are {', '.join(CHANNELS)}")
            if getattr(self, name) is None:
                hint = "call differentiated() first" if name in ("qd", "qdd") else "it must be measured"
                raise ModelError(f"{self.source}: {name} is missing; {hint}")

    def require_complete(self, what: str, *names: str) -> None:
        """Raise ModelError, naming the caller, if channels that exist have gaps."""
        for name in names:
            value = getattr(self, name)
            if value is not None and np.isnan(value).any():
                row, column = (int(k) for k in np.argwhere(np.isnan(value))[0])
                owner = channel_names(self.model, name)[column]
                raise ModelError(
                    f"{self.source}: {what} needs {name} without gaps, but {name} of {owner} wasn't measured at row "
                    f"{row}, {self.time[row]:g} s; call filled(), or between() for a part without gaps"
                )

    def filled(self, longest: float = np.inf) -> "Log":
        """Interpolate across gaps, linearly. Those at the ends, and columns without any measurement, stay.

        Args:
            longest: longest time between the rows on either side of a gap that is filled [s].
        """
        longest = number(self.source, "longest", longest)
        if not longest > 0.0:
            raise ModelError(f"{self.source}: longest is {longest} s; it must be positive")

        def change(_: str, value: np.ndarray) -> np.ndarray:
            found = value.copy()
            for column in found.T:
                gap = np.isnan(column)
                known, values = self.time[~gap], column[~gap]
                if len(known) > 1:
                    after = np.searchsorted(known, self.time).clip(1, len(known) - 1)
                    gap &= known[after] - known[after - 1] <= longest * (1.0 + EVEN)
                    column[gap] = np.interp(self.time[gap], known, values, np.nan, np.nan)
            return found

        return self._of_channels(change)

    def without_gaps(self, *names: str) -> "Log":
        """Return the rows in which these channels were measured."""
        self.require(*names)
        rows = np.all([~np.isnan(getattr(self, name)).any(axis=1) for name in names], axis=0)
        if rows.sum() < 2:
            raise ModelError(f"{self.source}: {', '.join(names)} were measured together in fewer than two rows")
        return self._of_channels(lambda _, value: value[rows], time=self.time[rows])

    def between(self, start: float, end: float) -> "Log":
        """Return the rows from one time to another [s], both included."""
        start, end = (number(self.source, name, value) for name, value in (("start", start), ("end", end)))
        rows = (self.time >= start) & (self.time <= end)
        if rows.sum() < 2:
            raise ModelError(
                f"{self.source}: fewer than two rows lie between {start} and {end} s; it goes from {self.time[0]:g} "
                f"to {self.time[-1]:g} s"
            )
        return self._of_channels(lambda _, value: value[rows], time=self.time[rows])

    def resampled(self, rate: float) -> "Log":
        """Resample to even intervals, by linear interpolation; quaternions stay of unit length.

        Filter before lowering the rate: frequencies above half of the new rate alias to lower ones.

        Args:
            rate: rows per second [Hz].
        """
        if not is_positive(rate):
            raise ModelError(f"{self.source}: rate is {rate!r} Hz; it must be a positive number")
        rate = float(rate)
        require_rows(self.source, (self.time[-1] - self.time[0]) * rate)
        count = int(np.floor((self.time[-1] - self.time[0]) * rate + 1e-9)) + 1
        time = self.time[0] + np.arange(count) / rate
        return self._of_channels(lambda _, value: _interpolated(time, self.time, value), time=time)

    def filtered(self, cutoff: float, order: int = 4, channels: tuple[str, ...] = ("q", "qd", "tau")) -> "Log":
        """Apply a Butterworth filter forward and backward, without delay.

        Args:
            cutoff: frequency that loses half of its amplitude, in both passes together [Hz].
            order: order of the filter in each pass.
            channels: channels to filter.

        Raises:
            ModelError: for uneven intervals, gaps, a cutoff out of range, and fewer rows than the filter needs.
        """
        self.require_even("filtered")
        chosen = names_in("channels", channels)
        for name in set(chosen) - set(CHANNELS):
            raise ModelError(f"{self.source}: unknown channel {name!r}; there are {', '.join(CHANNELS)}")
        self.require_complete("filtered()", *chosen)
        if not is_whole(order, 1):
            raise ModelError(f"{self.source}: order is {order!r}; it must be a whole number of at least 1")
        if not is_positive(cutoff) or cutoff >= 0.5 * self.rate:
            raise ModelError(
                f"{self.source}: cutoff is {cutoff!r} Hz; it must be positive and below half the rate, {self.rate:g} Hz"
            )
        padding = 3 * (order + 1)  # rows mirrored at either end
        if len(self) <= padding:
            raise ModelError(
                f"{self.source}: a filter of order {order} needs {padding + 1} rows, but there are {len(self)}; take "
                "a longer log or a lower order"
            )
        sections = scipy.signal.butter(order, cutoff, fs=self.rate, output="sos")

        def change(name: str, value: np.ndarray) -> np.ndarray:
            return scipy.signal.sosfiltfilt(sections, value, axis=0, padlen=padding) if name in chosen else value

        return self._of_channels(change)

    def differentiated(self, window: float, order: int = 4) -> "Log":
        """Differentiate by polynomials through the rows around each (Savitzky-Golay), for velocities and accelerations.

        If qd was measured, q stays: qd becomes its polynomials' value and qdd their derivative. Otherwise q becomes its
        polynomials' value, and qd and qdd their derivatives. For quaternions the polynomials are those of the rotation
        vectors from row to row, added up.

        Args:
            window: duration of each polynomial's rows [s].
            order: degree of the polynomials.

        Raises:
            ModelError: for a window of too few rows, an order too low for the derivatives, uneven intervals, and gaps.
        """
        self.require_even("differentiated")
        if not is_positive(window):
            raise ModelError(f"{self.source}: window is {window!r} s; it must be a positive number")
        window = float(window)
        least = 1 if self.qd is not None else 2
        if not is_whole(order, least):
            raise ModelError(f"{self.source}: order is {order!r}; it must be a whole number of at least {least}")
        length = 2 * round(0.5 * window * self.rate) + 1
        if not order < length <= len(self):
            raise ModelError(
                f"{self.source}: a window of {window:g} s has {length} of {len(self)} rows; polynomials of degree "
                f"{order} need between {order + 1} and all"
            )

        def derivative(value: np.ndarray, number: int) -> np.ndarray:
            return scipy.signal.savgol_filter(value, length, order, deriv=number, delta=1.0 / self.rate, axis=0)

        return self._with_derivatives(derivative)

    def spline_differentiated(self, noise: float | np.ndarray) -> "Log":
        """Differentiate like :meth:`differentiated`, by smoothing splines of degree 5, at any intervals.

        Args:
            noise: standard deviation of the channel that is differentiated, for all joints or for each: splines are as
                smooth as it allows.
        """
        if len(self) <= SPLINE_DEGREE:
            need = f"splines of degree {SPLINE_DEGREE} need {SPLINE_DEGREE + 1} rows"
            raise ModelError(f"{self.source}: {need}, but there are {len(self)}")
        given = as_numbers(f"{self.source}: noise", noise)
        if given.shape not in ((), (1,), (self.model.nv,)):
            raise ModelError(f"{self.source}: noise has shape {given.shape}; expected one number, or {self.model.nv}")
        deviations = np.broadcast_to(given, (self.model.nv,))
        if not (deviations > 0.0).all():
            raise ModelError(f"{self.source}: noise is {noise}; it must be positive")

        def derivative(value: np.ndarray, number: int) -> np.ndarray:
            columns = []
            for column, deviation in zip(value.T, deviations, strict=True):
                weights = np.full(len(column), 1.0 / deviation)
                spline = scipy.interpolate.UnivariateSpline(self.time, column, weights, k=SPLINE_DEGREE, s=len(column))
                columns.append(spline(self.time, number))
            return np.stack(columns, axis=1)

        return self._with_derivatives(derivative)

    def shifted(self, channel: str, seconds: float) -> "Log":
        """Shift one channel to undo a delay [s]: it is taken from later rows, and the ends are cut off.

        Raises:
            ModelError: for a missing channel, and a delay that leaves fewer than two rows.
        """
        self.require(channel)
        time = self.time + number(self.source, "seconds", seconds)
        inside = (time >= self.time[0]) & (time <= self.time[-1])
        if inside.sum() < 2:
            raise ModelError(
                f"{self.source}: a shift of {seconds:g} s leaves fewer than two rows of "
                f"{self.time[-1] - self.time[0]:g} s; use a shorter delay"
            )

        def change(name: str, value: np.ndarray) -> np.ndarray:
            return _interpolated(time[inside], self.time, value) if name == channel else value[inside]

        return self._of_channels(change, time=self.time[inside])

    def with_offset(self, channel: str, offset: Any) -> "Log":
        """Subtract a constant from one channel."""
        self.require(channel)
        taken, width = as_numbers(f"{self.source}: offset", offset), channel_width(self.model, channel)
        if taken.shape not in ((), (1,), (width,), (len(self), width)):
            raise ModelError(f"{self.source}: offset has shape {taken.shape}; expected one number, or {width}")
        if not np.isfinite(taken).all():
            raise ModelError(f"{self.source}: offset is {offset}; it must be finite")
        return self._of_channels(lambda name, value: value - taken if name == channel else value)

    def velocities(self) -> np.ndarray:
        """Return the derivative of the coordinates by central differences [n, nv]."""
        return np.gradient(self._displacements(), self.time, axis=0)

    def _displacements(self) -> np.ndarray:
        """Return the displacement of each degree of freedom [n, nv], whose derivative is its velocity: q, but for
        quaternions the rotation vectors from row to row, added up.
        """
        if self.model.nq == self.model.nv:
            return self.q
        steps = difference(self._exact, self.q[:-1], self.q[1:]).numpy()
        return np.vstack([np.zeros(self.model.nv), steps.cumsum(axis=0)])

    def _with_derivatives(self, derivative: Any) -> "Log":
        self.require_complete("a derivative", "q" if self.qd is None else "qd")
        if self.qd is not None:
            return replace(self, qd=derivative(self.qd, 0), qdd=derivative(self.qd, 1))
        moved = self._displacements()
        smooth, qd, qdd = (derivative(moved, number) for number in range(3))
        q = smooth if moved is self.q else integrate(self._exact, self.q, smooth - moved).numpy()
        return replace(self, q=q, qd=qd, qdd=qdd)

    @property
    def _exact(self) -> Model:
        """Return the model in float64."""
        return replace(self.model, dtype="float64")

    def _of_channels(self, change: Any, **others: Any) -> "Log":
        there = {name: getattr(self, name) for name in CHANNELS}
        changed: dict[str, Any] = {
            name: None if value is None else change(name, value) for name, value in there.items()
        }
        return replace(self, **changed, **others)

    def require_even(self, what: str) -> None:
        """Raise ModelError, naming the caller, if intervals differ."""
        steps = np.diff(self.time)
        worst = int(np.abs(steps - steps.mean()).argmax())
        if abs(steps[worst] - steps.mean()) > EVEN * steps.mean():
            raise ModelError(
                f"{self.source}: {what}() needs even intervals, but row {worst + 1} comes after {steps[worst]:.4g} s "
                f"instead of {steps.mean():.4g} s; call resampled({self.rate:.4g}) first"
            )

    def _unit_quaternions(self) -> np.ndarray:
        """Normalise quaternions of coordinates, and remove sign changes between rows."""
        q = self.q.copy()
        for name in self.model.joint_names:
            part, dofs = self.model.q_slice(name), self.model.qd_slice(name)
            if part.stop - part.start == dofs.stop - dofs.start:
                continue
            quaternion = q[:, part.stop - 4 : part.stop]
            unknown = np.isnan(quaternion)
            partly = np.flatnonzero(unknown.any(axis=1) & ~unknown.all(axis=1))
            if len(partly):
                row = int(partly[0])
                raise ModelError(
                    f"{self.source}: the quaternion of {name} has NaN at row {row}, {self.time[row]:g} s; all four "
                    "numbers must be measured, or none"
                )
            measured = ~unknown[:, 0]
            quaternion = quaternion[measured]
            length = np.linalg.norm(quaternion, axis=1, keepdims=True)
            if not length.all():
                row = int(np.flatnonzero(measured)[np.argmin(length)])
                raise ModelError(
                    f"{self.source}: the quaternion of {name} is zero at row {row}, {self.time[row]:g} s; remove the "
                    "row or give its rotation"
                )
            quaternion /= length
            turned = np.einsum("ni,ni->n", quaternion[1:], quaternion[:-1]) < 0.0
            q[measured, part.stop - 4 : part.stop] = (
                quaternion * np.where(np.cumsum([False, *turned])[: len(quaternion)] % 2, -1.0, 1.0)[:, None]
            )
        return q

    def _require_finite(self, name: str, array: np.ndarray) -> None:
        wrong = np.isinf(array) if name in WITH_GAPS else ~np.isfinite(array)
        if wrong.any():
            row, column = (int(k) for k in np.argwhere(wrong)[0])
            label = name if name == "time" else f"{name} of {channel_names(self.model, name)[column]}"
            raise ModelError(f"{self.source}: {label} isn't finite at row {row}")


def listed_logs(logs: Log | Iterable[Log]) -> list[Log]:
    """Return one log or several as a list. Raises ModelError for none, and for anything else."""
    listed = [logs] if isinstance(logs, Log) else items_of("logs", logs, "a sim.identify.Log, or a list of them")
    if not listed:
        raise ModelError("logs is empty; give at least one log")
    for each in listed:
        require_type("logs", each, Log, "a sim.identify.Log, or a list of them")
    return listed


def channel_width(model: Model, channel: str) -> int:
    """Return the number of columns of a channel."""
    return {"q": model.nq, "control": model.nu, "act": model.na}.get(channel, model.nv)


def channel_names(model: Model, channel: str) -> tuple[str, ...]:
    """Return the owners of a channel's columns: joints, with an index if one has several columns, or actuators."""
    if channel == "control":
        return tuple(model.actuator_names)
    if channel == "act":
        return model.act_names
    if channel != "q" or model.nq == model.nv:
        return dof_names(model)
    names: list[str] = []
    for name in model.joint_names:
        part = model.q_slice(name)
        count = part.stop - part.start
        names += [name] if count == 1 else [f"{name}[{k}]" for k in range(count)]
    return tuple(names)


def _interpolated(time: np.ndarray, known: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(time, known, column) for column in values.T], axis=1).reshape(len(time), -1)


def measured_dofs(model: Model, q: np.ndarray) -> np.ndarray:
    """Return the mask of measured degrees of freedom [n, nv] for coordinates [n, nq] with NaN where none was."""
    known, columns = ~np.isnan(q), np.zeros(model.nv, dtype=np.int64)
    for name in model.joint_names:
        part, dofs = model.q_slice(name), model.qd_slice(name)
        columns[dofs] = np.minimum(np.arange(part.start, part.start + dofs.stop - dofs.start), part.stop - 1)
    return known[:, columns]
