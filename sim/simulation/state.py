"""State of all worlds at one time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import warp as wp

from sim.arrays.device_model import find_device
from sim.arrays.host_memory import AnyArray, as_warp


class PackedArray(NamedTuple):
    """Picklable form of a Warp array.

    Attributes:
        values: a copy on the host.
        dtype: Warp's type.
        device: name of the device.
        requires_grad: whether it has a gradient; the value of the gradient is not kept.
    """

    values: np.ndarray
    dtype: Any
    device: str
    requires_grad: bool


def pack(array: wp.array | None) -> PackedArray | None:
    """Return a packed copy of an array of scalars."""
    if array is None:
        return None
    return PackedArray(array.numpy().copy(), array.dtype, str(array.device), array.requires_grad)


def unpack(packed: PackedArray | None) -> Any:
    """Return the array that was packed, or None.

    Raises:
        ModelError: if this machine doesn't have its device.
    """
    if packed is None:
        return None
    device = find_device(packed.device)
    return wp.array(packed.values, dtype=packed.dtype, device=device, requires_grad=packed.requires_grad)


@dataclass(frozen=True)
class Impulses:
    """Impulses of a step, the initial guess of the next one if the contact has ``warm_start=True``.

    Attributes:
        value: impulse of each constraint, zero for unused slots [num_worlds, max_constraints, 3], N s or N m s.
        key: identity of each constraint, by which the next step finds its impulse [num_worlds, max_constraints, 4].

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.0999))
        >>> options = sim.PgsContact(warm_start=True)
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu", contact=options)
        >>> impulses = simulator.step(simulator.initial_state()).impulses
        >>> impulses.value.shape[0], impulses.key.shape[2]
        (1, 4)
    """

    value: wp.array
    key: wp.array


@dataclass(frozen=True)
class State:
    """Coordinates and velocities of all worlds.

    Attributes:
        q: joint coordinates [num_worlds, nq].
        qd: joint velocities [num_worlds, nv].
        impulses: impulses of the step that led here, for a warm start. Default: zeros.
        act: states of the actuators that have one, in order [num_worlds, na]. Default: zeros.
        q_low: low words of positions, in float32: what rounding cuts off positions of free bases, and of slides that
            trees begin with, more than 8 m from the world's origin [num_worlds, n]. Default: zeros.
        broken: 1 for points, welds and couplings that have broken, otherwise 0, in the order of ``model.switch_names``
            [num_worlds, n]; only of models in which one has a ``break_force``. Default: zeros.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=2.0, position=(0, 0, 0.0999))
        >>> simulator = sim.Simulator(scene.finalize(), dt=1 / 240, device="cpu")
        >>> state = simulator.step(simulator.initial_state())
        >>> state.q.shape, state.qd.shape
        ((1, 7), (1, 6))
    """

    q: wp.array
    qd: wp.array
    impulses: Impulses | None = None
    act: wp.array | None = None
    q_low: wp.array | None = None
    broken: wp.array | None = None

    @classmethod
    def of_rows(
        cls,
        q: AnyArray,
        qd: AnyArray,
        impulses: Impulses | None,
        act: wp.array | None,
        q_low: wp.array | None = None,
        broken: wp.array | None = None,
    ) -> State:
        """Return a simulator's state, which makes Warp arrays of q and qd on first access, as that takes longer than a
        step.
        """
        state = cls.__new__(cls)
        vars(state).update(_rows={"q": q, "qd": qd}, impulses=impulses, act=act, q_low=q_low, broken=broken)
        vars(state)["_own_broken"] = broken
        return state

    def with_act(self, act: wp.array | None) -> State:
        """Return a state with other states of actuators."""
        state = replace(self, act=act)
        vars(state)["_own_broken"] = self.own_broken
        return state

    @property
    def own_broken(self) -> wp.array | None:
        """Return ``broken`` if a simulator wrote it, otherwise None."""
        return vars(self).get("_own_broken")

    def rows(self) -> tuple[AnyArray, AnyArray]:
        """Return q and qd, as Warp arrays if these have been made."""
        there = vars(self)
        return tuple(there[name] if name in there else there["_rows"][name] for name in ("q", "qd"))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> wp.array:
            rows = vars(self).get("_rows", {})
            if name not in rows:
                raise AttributeError(f"'State' object has no attribute '{name}'")
            vars(self)[name] = array = as_warp(rows[name])
            return array

    def __repr__(self) -> str:
        warm = ", impulses" if self.impulses is not None else ""
        act = f", act {list(self.act.shape)}" if self.act is not None and self.act.size else ""
        shapes = f"q {list(self.q.shape)}, qd {list(self.qd.shape)}{act}{warm}"
        return f"State({shapes}, {self.q.dtype.__name__} on {self.q.device})"

    def __reduce__(self) -> tuple[Any, ...]:
        warm = None if self.impulses is None else (pack(self.impulses.value), pack(self.impulses.key))
        return _state, (pack(self.q), pack(self.qd), warm, pack(self.act), pack(self.q_low), pack(self.broken))

    def __copy__(self) -> State:
        return replace(self)

    def numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of q and qd as NumPy arrays."""
        q, qd = self.rows()
        return q.numpy().copy(), qd.numpy().copy()


def _state(
    q: PackedArray,
    qd: PackedArray,
    warm: tuple[PackedArray, PackedArray] | None,
    act: PackedArray | None = None,
    q_low: PackedArray | None = None,
    broken: PackedArray | None = None,
) -> State:
    """Return a state from packed arrays, on new arrays."""
    impulses = None if warm is None else Impulses(unpack(warm[0]), unpack(warm[1]))
    return State(unpack(q), unpack(qd), impulses, unpack(act), unpack(q_low), unpack(broken))
