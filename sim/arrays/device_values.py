"""Values of parameters that stay on the device: a caller's array is copied and checked there, without synchronisation.

A number out of range can't raise an error then. It is counted, and the initial state of its worlds becomes NaN, so that
they are bad. The simulator's initial value replaces it, which keeps gradients finite.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.launch import launch
from sim.errors import ModelError
from sim.model.checks import on_host
from sim.model.model import Model
from sim.model.parameters import (
    ACROSS_PAIRS,
    AT_MOST,
    MAY_BE_INFINITE,
    NOT_NEGATIVE,
    PARAMETERS,
    POSITIVE,
    TOLERANCE,
    TOLERANCE_ABOVE,
    number_of_dims,
    require_shape,
)
from sim.model.shapes.inertia import least_scales
from sim.model.specs import ACTUATOR_GAINS
from warp_kernels.parameters import parameter_value_kernels
from warp_kernels.types import CURRENT, EXACT_FILTER, FILTER, MUSCLE, MUSCLE_FILTER, PID

# Dynamics of actuators' states that have each parameter.
OF_DYNAMICS = {
    "actuator_time_constant": (FILTER, EXACT_FILTER, MUSCLE_FILTER, CURRENT), "actuator_ki": (PID,),
    "actuator_resistance": (CURRENT,),
    "actuator_fall_time": (MUSCLE_FILTER,), "actuator_smoothing": (MUSCLE_FILTER,),
}  # fmt: skip


def unused_entries(name: str, model: Model) -> np.ndarray:
    """Return the mask of entries that must be zero because nothing reads them [n], such as gains of torque motors."""
    count = 1 if PARAMETERS[name].per == "world" else model.counts[PARAMETERS[name].per]
    if name == "stiffness":
        return np.asarray((model.dof_q < 0) & ~model.sprung_dofs)
    if name == "friction_across":
        return np.array([geometry.friction_direction is None for geometry in model.geometries], dtype=bool)
    if name in ACROSS_PAIRS:
        return np.array([pair.is_isotropic for pair in model.pair_frictions], dtype=bool)
    gain = name.removeprefix("actuator_")
    if gain != name and gain in ACTUATOR_GAINS:
        return ~np.isin(model.actuator_kind, ACTUATOR_GAINS[gain])
    if name.startswith("actuator_muscle_"):
        return np.asarray(model.actuator_kind != MUSCLE)
    if name in ("actuator_stall_force", "actuator_no_load_speed"):
        return np.asarray(model.parameters.get("actuator_stall_force", np.zeros(count)) == 0.0)
    if name == "actuator_delay":
        return np.asarray(model.delay_samples == 0)
    if name in OF_DYNAMICS:
        return ~np.isin(model.actuator_dynamics, OF_DYNAMICS[name])
    if name in ("actuator_force_axis", "actuator_torque_axis"):
        on_frames = model.transmissions.actuator[model.transmissions.link >= -1]
        return ~np.isin(np.arange(count), on_frames)
    return np.zeros(count, dtype=bool)


def parameter_range(name: str, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and maximum numbers, for the model's precision [n, size of an entry]."""
    unused = unused_entries(name, model)
    shape = (len(unused), int(np.prod(PARAMETERS[name].shape)))
    digits = np.finfo(model.dtype)
    most = np.inf if name in MAY_BE_INFINITE else float(digits.max)
    lower, upper = np.full(shape, -most), np.full(shape, most)
    if name in NOT_NEGATIVE:
        lower[:] = -TOLERANCE
    if name in AT_MOST:
        upper[:] = AT_MOST[name] + TOLERANCE_ABOVE
    if name in POSITIVE:
        lower[:] = float(digits.tiny)
    lower[unused], upper[unused] = 0.0, 0.0
    return lower, upper


# DLPack's device types; pinned host memory has another one.
ON_CPU, ON_CUDA, MANAGED_BY_CUDA = 1, 2, 13


@dataclass(frozen=True, eq=False)
class DeviceValue:
    """Value of a parameter on the device.

    Attributes:
        name: name of the parameter.
        shape: shape in which it was given, ``[n, ...]`` shared or ``[num_worlds, n, ...]`` per world.
        rows: numbers [1 or num_worlds, n * size], not to be written to.
        bad: count of numbers of each row that are out of range [1 or num_worlds].
    """

    name: str
    shape: tuple[int, ...]
    rows: wp.array
    bad: wp.array

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """Return the value on the host, float64, not to be written to. On CUDA the first call waits for the device."""
        return self.rows.numpy().astype(np.float64).reshape(self.shape)

    def entries(self, dtype: Any, first: int, last: int) -> wp.array:
        """Return the entries of some worlds [rows, n], or of all if shared; in the same memory."""
        size = int(np.prod(PARAMETERS[self.name].shape))
        begin, end = (first, last) if self.rows.shape[0] > 1 else (0, 1)
        part = self.rows[begin:end]
        shape = (part.shape[0], part.shape[1] // size)
        entries: wp.array = wp.array(ptr=part.ptr, dtype=dtype, shape=shape, device=self.rows.device, copy=False)
        entries._ref = self.rows  # type: ignore[assignment]  # keeps the memory alive
        return entries

    def spoil(self, q: wp.array) -> None:
        """Write NaN to the coordinates [num_worlds, nq] of worlds with a number out of range."""
        kernel = parameter_value_kernels(q.dtype).spoil_worlds
        launch(kernel, q.shape[0], device=q.device, record_tape=False, bad=self.bad, q=q)

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (self.numbers,)


class DeviceValues:
    """Factory of parameter values from arrays on the device.

    Args:
        model: the model of one world.
        num_worlds: number of worlds.
        device: device of the values.
        first: values of all parameters that are in range.

    Attributes:
        outside: count of given numbers that were out of range, [1] by parameter.
    """

    def __init__(self, model: Model, num_worlds: int, device: wp.Device, first: Mapping[str, np.ndarray]):
        self.model, self.num_worlds, self.device, self.first = model, num_worlds, device, first
        self.outside: dict[str, wp.array] = {}
        self._ranges: dict[str, tuple[wp.array, ...]] = {}
        self._kernels = parameter_value_kernels(model.scalar)

    def value(self, name: str, given: wp.array) -> DeviceValue:
        """Return a value for all worlds, copied and checked.

        Args:
            name: name of the parameter.
            given: ``[n, ...]`` or ``[num_worlds, n, ...]``, of scalars of the model's dtype, on the device.

        Raises:
            ModelError: for an unknown name or a wrong shape.
        """
        shape = tuple(given.shape)
        rows = require_shape(name, shape, self.model.counts, self.num_worlds)
        numbers = given.contiguous().reshape((rows, -1)) if given.ndim else given.reshape((1, 1))
        values = wp.empty_like(numbers, requires_grad=False)
        bad = wp.zeros(rows, dtype=wp.int32, device=self.device)
        lower, upper, instead = self._range(name)
        entry = PARAMETERS[name].shape
        scales = self._scales if name == "inertia" else wp.empty(0, dtype=self.model.scalar, device=self.device)
        size = int(np.prod(entry))
        launch(
            self._kernels.check_values, (rows, numbers.shape[1] // size), device=self.device, record_tape=False,
            lower=lower, upper=upper, instead=instead, size=size, turn=3 if entry == (7,) else -1, least_scale=scales,
            given=numbers, values=values, bad=bad, outside=self._outside(name),
        )  # fmt: skip
        return DeviceValue(name, shape, values, bad)

    @functools.cached_property
    def _scales(self) -> wp.array:
        """Return the scales with which inertias of links are judged."""
        return wp.array(least_scales(self.model.parameters["inertia"]), dtype=self.model.scalar, device=self.device)

    def with_worlds(self, present: "DeviceValue | np.ndarray", name: str, given: wp.array, worlds: Any) -> wp.array:
        """Return the values of all worlds with those of some replaced [num_worlds, n, ...], not checked.

        Args:
            present: present value, shared or per world.
            name: name of the parameter.
            given: ``[n, ...]`` for all chosen worlds or ``[k, n, ...]``, one for each.
            worlds: chosen worlds, see :attr:`sim.Simulator.parameters`; a tensor on the device isn't read on the
                host, and a number of worlds other than k counts as a value out of range.

        Raises:
            ModelError: for shapes that don't fit together.
        """
        spec = PARAMETERS[name]
        single = ((self.model.counts[spec.per],) if spec.per != "world" else ()) + spec.shape
        rank, chosen = self._ranks(name, worlds)
        rows = given.shape[0] if given.ndim > len(single) else 1
        if tuple(given.shape)[given.ndim - len(single) :] != single or (chosen is not None and rows not in (1, chosen)):
            raise ModelError(
                f"parameter '{name}': worlds of shape {tuple(np.shape(worlds))} and a value of shape "
                f"{tuple(given.shape)} don't match {self.num_worlds} worlds, whose values have shape "
                f"{(self.num_worlds, *single)}"
            )
        before = present.rows if isinstance(present, DeviceValue) else self._uploaded(present, single)
        values = wp.empty((self.num_worlds, before.shape[1]), dtype=self.model.scalar, device=self.device)
        arrays = {"before": before, "given": given.contiguous().reshape((rows, -1)), "rank": rank, "values": values}
        launch(self._kernels.merge_rows, self.num_worlds, arrays, device=self.device, record_tape=False)
        return values.reshape((self.num_worlds, *single))

    def _uploaded(self, value: np.ndarray, single: tuple[int, ...]) -> wp.array:
        rows = np.ascontiguousarray(value).reshape(-1, int(np.prod(single)))
        return wp.array(rows, dtype=self.model.scalar, device=self.device)

    def _ranks(self, name: str, worlds: Any) -> tuple[wp.array, int | None]:
        """Return the rank of each world among the chosen ones, -1 for none, and the number of chosen worlds if
        known.
        """
        device = self.device
        if not is_on_device(worlds, device):
            rank = np.full(self.num_worlds, -1, dtype=np.int32)
            try:
                chosen = np.arange(self.num_worlds)[np.asarray(on_host(worlds))]
            except IndexError:
                raise ModelError(f"parameter '{name}': worlds don't match {self.num_worlds} worlds") from None
            rank[chosen] = np.arange(len(chosen))
            return wp.array(rank, dtype=wp.int32, device=device), len(chosen)
        given = shared_scalars(worlds)
        found = wp.full(self.num_worlds, -1, dtype=wp.int32, device=device)
        if given.dtype == wp.int64 and given.ndim == 1:
            arrays = {"numbers": given, "rank": found, "outside": self._outside(name)}
            launch(self._kernels.rank_numbers, given.shape[0], arrays, device=device, record_tape=False)
            return found, int(given.shape[0])
        if given.dtype == wp.bool and tuple(given.shape) == (self.num_worlds,):
            until = wp.empty_like(found)
            arrays = {"mask": given, "ones": found}
            launch(self._kernels.count_mask, self.num_worlds, arrays, device=device, record_tape=False)
            wp.utils.array_scan(found, until, inclusive=True)
            arrays = {"mask": given, "until": until, "rank": found}
            launch(self._kernels.rank_mask, self.num_worlds, arrays, device=device, record_tape=False)
            return found, None
        raise ModelError(
            f"parameter '{name}': worlds of shape {tuple(given.shape)} and {given.dtype.__name__} don't match "
            f"{self.num_worlds} worlds; on the device give a mask of bool, or indices of int64"
        )

    def _range(self, name: str) -> tuple[wp.array, ...]:
        """Return the minimum numbers, the maximum numbers, and values between them."""
        if name not in self._ranges:
            first = self.first[name]
            instead = first[0] if first.ndim > number_of_dims(name) else first
            self._ranges[name] = tuple(map(self._uploaded_row, (*parameter_range(name, self.model), instead)))
        return self._ranges[name]

    def _uploaded_row(self, numbers: np.ndarray) -> wp.array:
        return wp.array(numbers.ravel(), dtype=self.model.scalar, device=self.device)

    def _outside(self, name: str) -> wp.array:
        if name not in self.outside:
            self.outside[name] = wp.zeros(1, dtype=wp.int32, device=self.device)
        return self.outside[name]


def is_on_device(value: object, device: wp.Device) -> bool:
    """Return whether a value is a tensor or array on this device whose memory can be shared."""
    if isinstance(value, wp.array):
        return value.device == device
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return False
    kind, number = value.__dlpack_device__()
    if device.is_cpu:
        return int(kind) == ON_CPU
    return int(kind) in (ON_CUDA, MANAGED_BY_CUDA) and number == device.ordinal


def shared_scalars(value: Any) -> wp.array:
    """Return a tensor or array as scalars in the same memory, with vectors and matrices as last dimensions."""
    if not isinstance(value, wp.array):
        shared = wp.from_dlpack(value)
        assert isinstance(shared, wp.array)
        return shared
    dtype: Any = value.dtype
    inner = getattr(dtype, "_shape_", ())
    if not inner:
        return value
    value = value.contiguous()
    shape = (*value.shape, *inner)
    return wp.array(ptr=value.ptr, dtype=dtype._wp_scalar_type_, shape=shape, device=value.device, copy=False)
