"""Rows of a trajectory's arrays, which kernels access by address, and rows of a shard's own arrays."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import warp_types

# C++ of these functions.
RECORDING_HEADERS = ("recording.h",)


@wp.func
def row_address(address: wp.uint64, row: int, total_worlds: int, size: int):
    """Return the address of a row of a trajectory's array; ``size`` is that of a world in it, in bytes.

    An array of all rows would have a stride of 32 bits from row to row, which 2 GiB exceed.
    """
    return address + wp.uint64(row) * wp.uint64(total_worlds) * wp.uint64(size)


@functools.cache
def trajectory_row_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3
    number = wp.types.type_size_in_bytes(scalar)
    rows = wp.array2d(dtype=scalar)
    native = Native(scalar, 1, "recording")

    @wp.func
    def read(address: wp.uint64, row: int, total_worlds: int, size: int, world: int, i: int):
        start = row_address(address, row, total_worlds, size * wp.static(number))
        return wp.array(ptr=start, shape=(total_worlds, size), dtype=scalar)[world, i]

    @wp.func
    def write(address: wp.uint64, row: int, total_worlds: int, size: int, world: int, i: int, value: scalar):
        start = row_address(address, row, total_worlds, size * wp.static(number))
        target = wp.array(ptr=start, shape=(total_worlds, size), dtype=scalar)
        target[world, i] = value

    @wp.func
    def vector_row(address: wp.uint64, row: int, total_worlds: int, count: int):
        """Return a row of a trajectory's vectors [total_worlds, count]."""
        start = row_address(address, row, total_worlds, count * wp.static(3 * number))
        return wp.array(ptr=start, shape=(total_worlds, count), dtype=vec3)

    @wp.func
    def key_row(address: wp.uint64, row: int, total_worlds: int, count: int):
        """Return a row of a trajectory's keys."""
        start = row_address(address, row, total_worlds, count * wp.static(wp.types.type_size_in_bytes(wp.vec4i)))
        return wp.array(ptr=start, shape=(total_worlds, count), dtype=wp.vec4i)

    @native.func_native()
    def load_row(address: wp.uint64, row: int, total_worlds: int, first_world: int, world: int, values: rows):
        """Read a world's values, zeros if there is no array."""

    @native.func_native()
    def add_row(address: wp.uint64, row: int, total_worlds: int, first_world: int, world: int, values: rows):
        """Add a trajectory's values to a world's, nothing if there is no array."""

    @native.func_native()
    def store_row(address: wp.uint64, row: int, total_worlds: int, first_world: int, world: int, values: rows):
        """Write a world's values if there is an array for them."""

    @native.func_native()
    def copy_row(source: rows, world: int, target: rows):
        """Copy a world's values."""

    @native.func_native()
    def is_finite_row(values: rows, world: int) -> bool:
        """Return whether all values of a world are finite."""

    @native.func_native()
    def is_row_within(values: rows, world: int, limit: scalar) -> bool:
        """Return whether the magnitude of all values of a world is within a finite limit, and none is NaN."""

    return SimpleNamespace(
        read=read,
        write=write,
        vector_row=vector_row,
        key_row=key_row,
        load_row=load_row,
        add_row=add_row,
        store_row=store_row,
        copy_row=copy_row,
        is_finite_row=is_finite_row,
        is_row_within=is_row_within,
    )
