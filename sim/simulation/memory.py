"""Memory that many worlds would take, before it is taken."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import warp as wp

from sim.errors import ModelError

MANY = 100_000  # worlds from which on their memory is looked at first
SAMPLE = 64  # worlds from whose arrays that of many is told
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def require_memory(worlds: int, device: wp.Device, make: Callable[[int], object]) -> None:
    """Refuse worlds whose working arrays don't fit into the memory of a device.

    Args:
        worlds: how many there are to be.
        device: where they are to be.
        make: makes the object that holds the arrays of some of them.

    Raises:
        ModelError: with the bytes that the worlds would take, and those that there are.
    """
    if worlds < MANY:
        return
    one, two = (bytes_of(make(count)) for count in (SAMPLE, 2 * SAMPLE))
    per_world = (two - one) // SAMPLE
    there = device.total_memory if device.is_cuda else host_memory()
    if worlds * per_world > there:
        raise ModelError(
            f"Simulator: {worlds} worlds would take {worlds * per_world} bytes of memory, {per_world} each, but "
            f"{device} has {there}; at most {there // per_world} fit"
        )


def bytes_of(thing: object) -> int:
    """Bytes of the Warp arrays among the attributes of an object, and in lists, tuples and structs there."""
    seen: dict[int, int] = {}

    def visit(value: object, depth: int) -> None:
        if isinstance(value, wp.array):
            if value.ptr:
                seen[value.ptr] = max(seen.get(value.ptr, 0), value.capacity)
        elif depth and isinstance(value, Mapping):
            for each in value.values():
                visit(each, depth - 1)
        elif depth and isinstance(value, list | tuple):
            for each in value:
                visit(each, depth - 1)
        elif depth and hasattr(value, "__dict__") and not callable(value):
            visit(vars(value), depth - 1)

    visit(thing, 4)
    return sum(seen.values())


def host_memory() -> int:
    """Bytes of memory of this machine, or of the group of processes that this one belongs to."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(there, int(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return there
