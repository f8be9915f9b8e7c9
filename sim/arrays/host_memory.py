"""Arrays, copies and fills between steps: on a CPU directly in memory, which is faster than a call of Warp."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from sim.arrays.device_model import the_cpu


class HostArray:
    """Contiguous array on a CPU that kernels access by its address.

    Making a Warp array takes longer than a step of a small robot, so that one is made only on request.

    Args:
        address: address of the first number.
        shape: shape of the array.
        dtype: Warp's scalar type.
        memory: owner of the numbers: a NumPy array or a PyTorch tensor of this shape.
    """

    __slots__ = ("dtype", "memory", "ptr", "shape", "size")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: Any, memory: Any):
        self.ptr = address
        self.shape = shape
        self.size = memory.size if isinstance(memory, np.ndarray) else memory.numel()
        self.dtype = dtype
        self.memory = memory

    @property
    def device(self) -> wp.Device:
        """Return the CPU."""
        return the_cpu()

    def numpy(self) -> np.ndarray:
        """Return the numbers, in the same memory."""
        return np.asarray(self.memory)

    def warp(self) -> wp.array:
        """Return a Warp array over the same memory, which it keeps alive."""
        array: wp.array = wp.array(ptr=self.ptr, dtype=self.dtype, shape=self.shape, device=self.device, copy=False)
        array._memory = self.memory  # type: ignore[attr-defined]
        return array


# Arrays that the table of pointers of :mod:`warp_kernels.rollout.checkpoint` may point to.
AnyArray = wp.array | HostArray


def new_rows(shape: Sequence[int], dtype: Any, device: wp.Device | None) -> AnyArray:
    """Return an uninitialised array of a scalar type: a Warp array unless the device is a CPU."""
    if device is None or not device.is_cpu:
        return wp.empty(tuple(shape), dtype=dtype, device=device)
    return _on_host(np.empty(shape, dtype=_numpy_type(dtype)), dtype)


def zero_rows(shape: Sequence[int], dtype: Any, device: wp.Device) -> AnyArray:
    """Return an array of zeros, likewise."""
    if not device.is_cpu:
        return wp.zeros(tuple(shape), dtype=dtype, device=device)
    return _on_host(np.zeros(shape, dtype=_numpy_type(dtype)), dtype)


def rows_of(value: np.ndarray, dtype: Any, device: wp.Device) -> AnyArray:
    """Return a copy of numbers on a device, of Warp's scalar type: a Warp array unless the device is a CPU."""
    if not device.is_cpu:
        return wp.array(value, dtype=dtype, device=device)
    return _on_host(np.array(value, dtype=_numpy_type(dtype), order="C"), dtype)


def _on_host(memory: np.ndarray, dtype: Any) -> HostArray:
    # memory.ctypes.data is half as fast.
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory.data)) if memory.size else 0
    return HostArray(address, memory.shape, dtype, memory)


def row_of(rows: AnyArray, row: int) -> AnyArray:
    """Return a row of a contiguous array, in the same memory."""
    if not isinstance(rows, HostArray):
        return rows[row]
    width = rows.size // rows.shape[0]
    return HostArray(rows.ptr + row * width * _bytes_of(rows.dtype), rows.shape[1:], rows.dtype, rows.memory[row])


def as_warp(rows: AnyArray) -> wp.array:
    """Return rows as a Warp array, over the same memory."""
    return rows.warp() if isinstance(rows, HostArray) else rows


def copy_rows(target: AnyArray, source: AnyArray, *, to_row: int = 0, from_row: int = 0) -> None:
    """Copy the number of rows of the smaller of two contiguous arrays, whose rows have the same size.

    Args:
        target: array to write to.
        source: array to read from.
        to_row: first row in the target.
        from_row: first row in the source.
    """
    count = min(target.size, source.size)
    if not count:
        return
    width = min(target.size // target.shape[0], source.size // source.shape[0])
    if _is_on_host(target) and _is_on_host(source):
        size = _bytes_of(target.dtype)
        ctypes.memmove(target.ptr + to_row * width * size, source.ptr + from_row * width * size, count * size)
    else:
        there, here = as_warp(target), as_warp(source)
        wp.copy(there, here, dest_offset=to_row * width, src_offset=from_row * width, count=count)


def copied(rows: AnyArray) -> AnyArray:
    """Return a copy of a contiguous array, on its device."""
    copy = new_rows(rows.shape, rows.dtype, rows.device)
    copy_rows(copy, rows)
    return copy


def _is_on_host(rows: AnyArray) -> bool:
    return isinstance(rows, HostArray) or bool(rows.device and rows.device.is_cpu)


_bytes_of = functools.cache(wp.types.type_size_in_bytes)
_numpy_type = functools.cache(wp.dtype_to_numpy)


class HostNumbers:
    """Small array that the host writes as a whole and reads.

    Args:
        array: contiguous array of a scalar type.
    """

    def __init__(self, array: wp.array):
        assert array.device is not None
        self.array = array
        self._view: np.ndarray | None = array.numpy() if array.device.is_cpu else None

    def write(self, values: Any) -> None:
        """Write one number everywhere, or as many numbers as the array has."""
        if self._view is not None:
            self._view[...] = values
        elif np.ndim(values) == 0:
            self.array.fill_(values)
        else:
            self.array.assign(np.asarray(values, dtype=wp.dtype_to_numpy(self.array.dtype)))

    def write_only(self, values: Mapping[int, int]) -> None:
        """Write some numbers by index, and zero elsewhere."""
        numbers = self._view
        if numbers is None:
            numbers = np.zeros(self.array.shape, dtype=wp.dtype_to_numpy(self.array.dtype))
        numbers.fill(0)
        for index, value in values.items():
            numbers[index] = value
        if self._view is None:
            self.array.assign(numbers)

    def has_bits(self) -> bool:
        """Return whether a number other than zero is in the array; NumPy's any takes five times as long."""
        return bool(self.numpy().tobytes().strip(b"\0"))

    def numpy(self) -> np.ndarray:
        """Return the numbers; on a CPU in the same memory."""
        return self.array.numpy() if self._view is None else self._view
