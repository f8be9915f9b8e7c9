"""Sliders, in general and for the joint coordinates of one world, with three angles per orientation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.transform import Rotation

from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from warp_kernels import types as codes

if TYPE_CHECKING:
    from viser import GuiApi


def to_angles(xyzw: np.ndarray) -> np.ndarray:
    """Return roll, pitch and yaw [3] of a quaternion [4]: rotations about the fixed x, then y, then z axis [rad].

    If the pitch is a right angle, roll and yaw are about the same axis, and the yaw is set to zero.
    """
    x, y, z, w = np.asarray(xyzw, dtype=np.float64) / np.linalg.norm(xyzw)
    sine = 2.0 * (w * y - z * x)
    if abs(sine) > 1.0 - 1e-12:
        roll = 2.0 * np.arctan2(x, w)
        return np.array([(roll + np.pi) % (2.0 * np.pi) - np.pi, np.copysign(np.pi / 2.0, sine), 0.0])
    return np.array(
        [
            np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
            np.arcsin(sine),
            np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)),
        ]
    )


class Slider:
    """A slider on the page. The user's input takes precedence over the program's.

    The page sends every value while the user types or drags, and each waits in a thread. A value that the program shows
    meanwhile must not replace a waiting one, which would be lost.

    Args:
        handle: the slider of viser.
        lock: held while ``moved`` runs. Also hold it to call ``show``.
        moved: called with the value after the user has moved the slider.
    """

    def __init__(self, handle: Any, lock: threading.RLock, moved: Callable[[float], None]):
        self.handle = handle
        self._lock, self._moved = lock, moved
        self._known = handle.value  # the last value that was shown or acted on
        handle.on_update(self._update)

    @property
    def value(self) -> float:
        """Value on the page."""
        return self.handle.value

    def show(self, value: float) -> None:
        """Move the slider, unless the user has just moved it."""
        if self.handle.value == self._known:
            self.handle.value = value
            self._known = self.handle.value

    def _update(self, event: Any) -> None:
        if event.client_id is None:  # the program itself has set the value
            return
        with self._lock:
            value = self.handle.value
            if value != self._known:  # otherwise it was processed together with an earlier one
                self._known = value
                self._moved(value)


DIGITS = 4  # decimal places
FINE, COARSE = 1e-4, 1e-3  # step lengths of sliders with a range below 0.5, and above [rad, m]
ANGLES = ("swing", "twist", "rotation")  # limits of spherical joints
RANGE = 2.0  # range of sliders without limits, in both directions [m]


@dataclass(frozen=True)
class Coordinate:
    """A coordinate with a slider.

    Attributes:
        name: label of the slider.
        hint: tooltip.
        low: left end [rad, m].
        high: right end [rad, m].
        turns: whether the coordinate is periodic with a full turn.
    """

    name: str
    hint: str
    low: float
    high: float
    turns: bool = False


@dataclass(frozen=True)
class Group:
    """Sliders that together set a slice of q.

    Attributes:
        part: slice of q that they set.
        coordinates: one per slider.
        angles: whether the coordinates are the angles of a quaternion, see :func:`sim.viewer.sliders.to_angles`.
    """

    part: slice
    coordinates: tuple[Coordinate, ...]
    angles: bool = False

    def read(self, q: np.ndarray) -> np.ndarray:
        """Return the values of the sliders."""
        values = to_angles(q[self.part]) if self.angles else q[self.part]
        turns = np.array([coordinate.turns for coordinate in self.coordinates])
        return np.where(turns, (values + np.pi) % (2.0 * np.pi) - np.pi, values)

    def write(self, values: list[float], q: np.ndarray) -> None:
        """Write the sliders' values to q [nq]."""
        q[self.part] = Rotation.from_euler("xyz", values).as_quat() if self.angles else values


class JointSliders:
    """A slider for every degree of freedom. Sliders of dependent (coupled) joints are disabled.

    Args:
        gui: interface of the viser server; sliders are added at its current position.
        model: the model.
        lock: held while ``moved`` runs. Also hold it to call ``show``.
        moved: called with the index of a group after the user has moved one of its sliders.
    """

    def __init__(self, gui: GuiApi, model: Model, lock: threading.RLock, moved: Callable[[int], None]):
        self._model = model
        self._groups = list(groups(model))
        self._sliders: list[list[Slider]] = []
        followers = {int(model.dof_q[dof]) for dof in model.equalities.coupling_dof}
        for number, group in enumerate(self._groups):
            update = partial(lambda number, _: moved(number), number)
            sliders = []
            for coordinate, start in zip(group.coordinates, group.read(model.q0), strict=True):
                value = round(float(start), DIGITS)
                low, high = (round(float(end), DIGITS) for end in (coordinate.low, coordinate.high))
                handle = gui.add_slider(
                    coordinate.name,
                    min(low, value),
                    max(high, value),
                    COARSE if high - low > 0.5 else FINE,
                    value,
                    hint=coordinate.hint,
                    disabled=group.part.start in followers,
                )
                sliders.append(Slider(handle, lock, update))
            self._sliders.append(sliders)

    def show(self, q: np.ndarray) -> None:
        """Move the sliders to coordinates [nq], extending their range if necessary."""
        for group, sliders in zip(self._groups, self._sliders, strict=True):
            for slider, number in zip(sliders, group.read(q), strict=True):
                value, handle = round(float(number), DIGITS), slider.handle
                handle.min, handle.max = min(handle.min, value), max(handle.max, value)
                slider.show(value)

    def apply(self, number: int, q: np.ndarray) -> np.ndarray:
        """Return coordinates q [nq], updated from the sliders of one group and for dependent joints."""
        q = q.copy()
        self._groups[number].write([slider.value for slider in self._sliders[number]], q)
        return follow(self._model, q)


def follow(model: Model, q: np.ndarray) -> np.ndarray:
    """Return coordinates [nq] that satisfy all couplings."""
    equalities, q = model.equalities, q.copy()
    ratio, offset = (model.parameters[f"coupling_{name}"] for name in ("ratio", "offset"))
    for _ in equalities.coupling_names:  # a joint may depend on one that depends on a third
        q[model.dof_q[equalities.coupling_dof]] = ratio * q[model.dof_q[equalities.coupling_other]] + offset
    return q


def groups(model: Model) -> Iterator[Group]:
    """Return the sliders of a model, in the order of its joints."""
    for link, kind in enumerate(model.joint_type):
        name, first = model.joint_names[link], int(model.joint_q_start[link])
        hint = f"joint {name}, moves link {model.link_names[link]}"
        if JOINT_TYPES[int(kind)].scalar:
            yield _single(model, link, hint)
        elif kind == codes.FREE:
            middle = model.q0[first : first + 3]
            offsets = [
                Coordinate(f"{name} {axis} [m]", hint, float(at) - RANGE, float(at) + RANGE)
                for axis, at in zip("xyz", middle, strict=True)
            ]
            yield Group(slice(first, first + 3), tuple(offsets))
            yield _orientation(name, hint, first + 3)
        elif kind == codes.SPHERICAL:
            limits = {key: float(model.parameters[f"{key}_limit"].reshape(-1)[link]) for key in ANGLES}
            bounds = [f"{key} at most {limit:.4g} rad" for key, limit in limits.items() if np.isfinite(limit)]
            yield _orientation(name, "; ".join([hint, *bounds]), first)


def _single(model: Model, link: int, hint: str) -> Group:
    dof, first = int(model.joint_qd_start[link]), int(model.joint_q_start[link])
    revolute = JOINT_TYPES[int(model.joint_type[link])].angular
    unit, half = ("rad", np.pi) if revolute else ("m", RANGE)
    lower, upper = (float(model.parameters[f"{side}_limit"][dof]) for side in ("lower", "upper"))
    limited = bool(np.isfinite([lower, upper]).any())
    middle = 0.0 if revolute and not limited else float(model.q0[first])
    low = lower if np.isfinite(lower) else min(middle, upper) - half
    high = upper if np.isfinite(upper) else max(middle, lower) + half
    limits = f"limits {lower:.4g} to {upper:.4g} {unit}" if limited else "no limits"
    coordinate = Coordinate(
        f"{model.joint_names[link]} [{unit}]", f"{hint}; {limits}", low, high, turns=revolute and not limited
    )
    return Group(slice(first, first + 1), (coordinate,))


def _orientation(name: str, hint: str, first: int) -> Group:
    halves = {"roll": np.pi, "pitch": np.pi / 2.0, "yaw": np.pi}
    coordinates = [Coordinate(f"{name} {turn} [rad]", hint, -half, half) for turn, half in halves.items()]
    return Group(slice(first, first + 4), tuple(coordinates), angles=True)
