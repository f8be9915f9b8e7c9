"""Memory that many worlds or steps would take, before it is taken."""

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import warp as wp

from sim.arrays.host_memory import Rows
from sim.errors import ModelError

T = TypeVar("T")

MANY = 100_000  # from this many worlds on their memory is looked at first
FEW_BYTES = 2**24  # states that take less are not looked at
SAMPLE = 64  # worlds whose arrays are measured, to tell what many take
UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def made_in_memory(worlds: int, device: wp.Device, make: Callable[[int], object], make_all: Callable[[], T]) -> T:
    """The working arrays of worlds, unless they don't fit into the memory of a device.

    Args:
        worlds: how many there are to be.
        device: where they are to be.
        make: makes the object that holds the arrays of some of them.
        make_all: makes those of all.

    Raises:
        ModelError: with what the worlds would take, what there is, and how many fit; of many worlds before any is made.
    """
    if worlds >= MANY:
        _require_memory(worlds, device, make)
    try:
        return make_all()
    except RuntimeError as error:  # Warp's, where a GPU has no room
        traceback.clear_frames(error.__traceback__)  # they hold what there was room for, which the sample needs
        _require_memory(worlds, device, make)
        raise


def _require_memory(worlds: int, device: wp.Device, make: Callable[[int], object]) -> None:
    one, two = (bytes_of(make(count)) for count in (SAMPLE, 2 * SAMPLE))
    per_world = (two - one) // SAMPLE
    there = device_memory(device)
    require_memory(
        f"Simulator: {worlds} worlds", worlds * per_world, str(device), there, f"at most {there // per_world} fit"
    )


def require_trajectory_memory(steps: int, interval: int, first: Sequence[Rows], every: int = 0) -> None:
    """Refuse a rollout whose states don't fit into the memory of their device.

    Args:
        steps: how many there are to be.
        interval: every how many steps a state is stored.
        first: what the first state consists of; each of them is stored for every state, and between two that are stored
            on the way back.
        every: bytes that every step keeps, whatever the interval.

    Raises:
        ModelError: with what the states would take, what there is, and what helps.
    """
    each = sum(array.size * wp.types.type_size_in_bytes(array.dtype) for array in first)
    kept = steps * every
    wanted = (-(-steps // interval) + min(interval, steps)) * each + kept
    if wanted < FEW_BYTES:
        return
    device = wp.get_device(first[0].device)
    there = device_memory(device)
    least = -(-steps * each // (there - kept)) if kept < there else 0
    fewer = f"store fewer with a checkpoint_interval of at least {least}, or " if least > interval else ""
    require_memory(f"rollout: the states of {steps} steps", wanted, str(device), there, f"{fewer}take fewer steps")


def require_memory(what: str, wanted: int, where: str, there: int, advice: str) -> None:
    """Refuse what would take more bytes of memory than there are.

    Raises:
        ModelError: with both numbers, and the advice.
    """
    if wanted > there:
        raise ModelError(f"{what} would take {amount(wanted)} of memory, but {where} has {amount(there)}; {advice}")


def amount(count: int) -> str:
    """A number of bytes, such as "25.3 GB"."""
    power = min((len(str(count)) - 1) // 3, len(UNITS) - 1)
    return f"{count / 1000**power:.3g} {UNITS[power]}"


def device_memory(device: wp.Device) -> int:
    """Bytes of memory of a device."""
    return device.total_memory if device.is_cuda else host_memory()


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
