"""Rows of a trajectory's arrays, which kernels know by address, and rows of a shard's own arrays."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types

# A row of a trajectory's array, which is that of a world in one step, and one of an array of this shard [world, n]; rows are contiguous.
# Warp's own access to an array looks at the sign of every index, which takes longer than the copy.
_ROWS = """
    using number = wp::{scalar};
    const int count = values.shape[1];
    number* here = reinterpret_cast<number*>(reinterpret_cast<char*>(values.data) + world * wp::int64(values.strides[0]));
    number* there = reinterpret_cast<number*>(address) + (wp::int64(row) * total_worlds + first_world + world) * count;
    {body}
"""
# Unrolled, such loops take a third of the time to compile a step, and are no faster.
_KEPT = """
#ifndef __CUDA_ARCH__
    #pragma clang loop unroll(disable)
#endif
"""
_WHERE_GIVEN = "if (address == 0) return;"
_LOAD = f"{_KEPT} for (int i = 0; i < count; ++i) here[i] = address ? there[i] : number(0);"
_STORE = f"{_WHERE_GIVEN}{_KEPT} for (int i = 0; i < count; ++i) there[i] = here[i];"
_ADD = f"{_WHERE_GIVEN}{_KEPT} for (int i = 0; i < count; ++i) here[i] += there[i];"
_COPY = """
    using number = wp::{scalar};
    const number* from = reinterpret_cast<const number*>(reinterpret_cast<const char*>(source.data) + world * wp::int64(source.strides[0]));
    number* to = reinterpret_cast<number*>(reinterpret_cast<char*>(target.data) + world * wp::int64(target.strides[0]));
    {kept}
    for (int i = 0; i < source.shape[1]; ++i) to[i] = from[i];
"""
# A number that isn't finite, less itself, is not a number.
_FINITE = """
    using number = wp::{scalar};
    const number* row = reinterpret_cast<const number*>(reinterpret_cast<const char*>(values.data) + world * wp::int64(values.strides[0]));
    bool finite = true;
    {kept}
    for (int i = 0; i < values.shape[1]; ++i) finite &= row[i] - row[i] == number(0);
    return finite;
"""
_WITHIN = """
    using number = wp::{scalar};
    const number* row = reinterpret_cast<const number*>(reinterpret_cast<const char*>(values.data) + world * wp::int64(values.strides[0]));
    bool within = true;
    {kept}
    for (int i = 0; i < values.shape[1]; ++i) within &= row[i] <= limit && row[i] >= -limit;
    return within;
"""


@wp.func
def row_address(address: wp.uint64, row: int, total_worlds: int, size: int):
    """Where a row of a trajectory's array begins; ``size`` is that of a world in it, in bytes.

    An array of all rows would have a stride of 32 bits from row to row, which 2 GiB are too many for.
    """
    return address + wp.uint64(row) * wp.uint64(total_worlds) * wp.uint64(size)


@functools.cache
def trajectory_row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    vec3 = warp_types(scalar).vec3
    number = wp.types.type_size_in_bytes(scalar)
    rows = wp.array2d(dtype=scalar)

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
        """A row of a trajectory's vectors [total_worlds, count]."""
        start = row_address(address, row, total_worlds, count * wp.static(3 * number))
        return wp.array(ptr=start, shape=(total_worlds, count), dtype=vec3)

    @wp.func
    def key_row(address: wp.uint64, row: int, total_worlds: int, count: int):
        """The same of keys."""
        start = row_address(address, row, total_worlds, count * wp.static(wp.types.type_size_in_bytes(wp.vec4i)))
        return wp.array(ptr=start, shape=(total_worlds, count), dtype=wp.vec4i)

    @wp.func_native(_ROWS.format(scalar=scalar.__name__, body=_LOAD))
    def load_row(address: wp.uint64, row: int, total_worlds: int, first_world: int, world: int, values: rows):
        """Read a world's values, zeros where there is no array."""

    @wp.func_native(_ROWS.format(scalar=scalar.__name__, body=_ADD))
    def add_row(address: wp.uint64, row: int, total_worlds: int, first_world: int, world: int, values: rows):
        """Add what a trajectory has to a world's values, nothing where there is no array."""

    @wp.func_native(_ROWS.format(scalar=scalar.__name__, body=_STORE))
    def store_row(address: wp.uint64, row: int, total_worlds: int, first_world: int, world: int, values: rows):
        """Write a world's values where there is an array for them."""

    @wp.func_native(_COPY.format(scalar=scalar.__name__, kept=_KEPT))
    def copy_row(source: rows, world: int, target: rows):
        """Copy a world's values."""

    @wp.func_native(_FINITE.format(scalar=scalar.__name__, kept=_KEPT))
    def is_finite_row(values: rows, world: int) -> bool:
        """Whether all values of a world are finite."""

    @wp.func_native(_WITHIN.format(scalar=scalar.__name__, kept=_KEPT))
    def is_row_within(values: rows, world: int, limit: scalar) -> bool:
        """Return whether no value of a world is greater than a finite limit, either way, or not a number."""

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
