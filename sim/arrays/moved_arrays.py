"""Memory of arrays: what an object has, what launches use, and the same launches on other memory."""

import bisect
from collections.abc import Iterable, Mapping
from typing import Any

import warp as wp

from sim.arrays.array_refs import for_lanes, referred

ALIGNMENT = 64  # bytes
PIECE = 4096  # bytes; memory of a kept step consists of whole pieces, those of a CPU's pages

# Address of the first byte of a piece of memory, and that behind its last one.
Range = tuple[int, int]


def range_of(array: wp.array) -> Range:
    """Return the memory of an array."""
    item = wp.types.type_size_in_bytes(array.dtype)
    last = sum((count - 1) * stride for count, stride in zip(array.shape, array.strides, strict=True))
    return array.ptr, array.ptr + last + item


def is_struct(value: Any) -> bool:
    """Return whether an argument of a kernel is a struct."""
    return hasattr(value, "_cls")


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in order, each those that overlap as one."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found


def overlapping(ranges: list[Range], others: list[Range]) -> list[Range]:
    """Return the ranges that overlap one of the others; both are merged."""
    starts = [first for first, _ in others]
    found = []
    for first, end in ranges:
        before = bisect.bisect_left(starts, end) - 1
        if before >= 0 and others[before][1] > first:
            found.append((first, end))
    return found


class UsedMemory:
    """Memory of the arrays that launches have as arguments; call it with each argument."""

    def __init__(self) -> None:
        self.ranges: set[Range] = set()

    def __call__(self, value: Any) -> Any:
        """Add the arrays of an argument, and return it."""
        if isinstance(value, wp.array):
            array = referred(value) or value
            if array.ptr and array.size:
                self.ranges.add(range_of(array))
        elif is_struct(value):
            for name in value._cls.vars:
                self(getattr(value, name))
        return value


class MovedArrays:
    """Arrays like those of launches, in another piece of memory; call it with each argument to replace.

    Args:
        offsets: offset in the other memory of each range that moves.
        address: address of the other memory.
        size: bytes of the other memory.

    Attributes:
        memory: the other memory.
        references: references to moved arrays, see :func:`sim.arrays.array_refs.for_lanes`.
    """

    def __init__(self, offsets: dict[Range, int], address: int, size: int):
        self.memory: Range = (address, address + size)
        self._ranges, self._offsets, self._address = sorted(offsets), offsets, address
        self._starts = [first for first, _ in self._ranges]
        self.references: list[wp.array] = []
        self._moved: dict[tuple[Any, ...], wp.array] = {}

    def __call__(self, value: Any) -> Any:
        """Return the argument with the arrays that move in the other memory."""
        if isinstance(value, wp.array):
            array = referred(value)
            return self._array(value) if array is None else self._reference(value, array)
        if is_struct(value):
            moved = value._cls()
            for name in value._cls.vars:
                setattr(moved, name, self(getattr(value, name)))
            return moved
        return value

    def _reference(self, value: wp.array, array: wp.array) -> wp.array:
        moved = self._array(array)
        if moved is array:
            return value
        reference: wp.array = for_lanes(moved, 2)
        self.references.append(reference)
        return reference

    def _array(self, array: wp.array) -> wp.array:
        if not (array.ptr and array.size):
            return array
        number = bisect.bisect_right(self._starts, array.ptr) - 1
        if number < 0 or array.ptr >= self._ranges[number][1]:
            return array
        grad = array.grad
        key = (array.ptr, array.shape, array.strides, array.dtype, None if grad is None else grad.ptr)
        moved = self._moved.get(key)
        if moved is None:
            first, _ = self._ranges[number]
            moved = wp.array(
                ptr=self._address + self._offsets[self._ranges[number]] + array.ptr - first,
                shape=array.shape, strides=array.strides, dtype=array.dtype, device=array.device, copy=False,
            )  # fmt: skip
            if grad is not None:
                moved.grad = grad
            self._moved[key] = moved
        return moved


def packed(ranges: Iterable[Range]) -> tuple[dict[Range, int], int]:
    """Return offsets at which ranges follow each other, and the number of bytes of all."""
    offsets, size = {}, 0
    for first, end in ranges:
        offsets[first, end] = size
        size += -(-(end - first) // ALIGNMENT) * ALIGNMENT
    return offsets, -(-max(size, 1) // PIECE) * PIECE


def arrays_of(thing: object) -> list[wp.array]:
    """Return all Warp arrays of an object that have memory, including those in nested objects, lists, tuples and
    structs.
    """
    found: dict[int, wp.array] = {}
    visited: dict[int, int] = {}

    def visit(value: object, depth: int) -> None:
        if isinstance(value, wp.array):
            if value.ptr:
                found[id(value)] = value
            return
        if visited.get(id(value), 0) >= depth:
            return
        visited[id(value)] = depth
        if isinstance(value, Mapping):
            for each in value.values():
                visit(each, depth - 1)
        elif isinstance(value, list | tuple):
            for each in value:
                visit(each, depth - 1)
        elif hasattr(value, "__dict__") and not callable(value):
            visit(vars(value), depth - 1)

    visit(thing, 6)
    return list(found.values())
