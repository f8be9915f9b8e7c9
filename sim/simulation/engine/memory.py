"""Memory checks before many worlds or steps are allocated."""

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import warp as wp

from sim.arrays.host_memory import AnyArray
from sim.arrays.moved_arrays import arrays_of
from sim.errors import ModelError
from sim.model.checks import counted
from warp_kernels.types import LANES

T = TypeVar("T")

FEW_BYTES = 2**24  # smaller states are not checked
# Bound on memory above which worlds are measured before they are allocated.
SAFE_BYTES = 2**28
BYTES_PER_PAIR = 48  # upper bound of all solvers, per pair of contacts, coordinates, links or geometries of a world
SAMPLE = LANES  # worlds that are measured to extrapolate from
MOST_MEASURED = 512  # contacts of a world; larger capacities are extrapolated
UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def made_in_memory(
    worlds: int,
    contacts: int,
    items: int,
    device: wp.Device,
    make: Callable[[int, int], object],
    make_all: Callable[[], T],
) -> T:
    """Return the working arrays of worlds, unless they exceed the memory of the device.

    Args:
        worlds: number of worlds.
        contacts: contact capacity of each world.
        items: number of coordinates, links and geometries of a world.
        device: device of the arrays.
        make: allocates an object with the arrays of some worlds, with some contact capacity.
        make_all: allocates the arrays of all worlds.

    Raises:
        ModelError: with required and available memory, and the number of worlds that fit. Raised before allocation
            if the bound says that the worlds may not fit.
    """
    if worlds * (contacts + items) ** 2 * BYTES_PER_PAIR > SAFE_BYTES:
        _require_memory(worlds, contacts, device, make)
    try:
        return make_all()
    except RuntimeError as error:  # raised by Warp when memory runs out
        traceback.clear_frames(error.__traceback__)  # frees the arrays that were allocated, for the sample
        _require_memory(worlds, contacts, device, make)
        raise


def _require_memory(worlds: int, contacts: int, device: wp.Device, make: Callable[[int, int], object]) -> None:
    per_world = _bytes_per_world(contacts, make)
    there = device_memory(device)
    fit = there // max(per_world, 1)
    advice = f"at most {fit} fit" if fit else f"each has a capacity of {contacts} contacts; lower max_contacts"
    require_memory(f"Simulator: {counted(worlds, 'world')}", worlds * per_world, str(device), there, advice)


def _bytes_per_world(contacts: int, make: Callable[[int, int], object]) -> int:
    """Return the bytes per world, without shared arrays; for many contacts extrapolate a parabola through three
    sizes.
    """

    def measured(contacts: int) -> int:
        one, two = (bytes_of(make(worlds, contacts)) for worlds in (SAMPLE, 2 * SAMPLE))
        return (two - one) // SAMPLE

    if contacts <= MOST_MEASURED:
        return measured(contacts)
    at = [MOST_MEASURED // 4, MOST_MEASURED // 2, MOST_MEASURED]
    first, second, third = (measured(count) for count in at)
    slope, last_slope = Fraction(second - first, at[1] - at[0]), Fraction(third - second, at[2] - at[1])
    bend = max((last_slope - slope) / (at[2] - at[0]), Fraction(0))
    return int(third + (contacts - at[2]) * (last_slope + bend * (contacts - at[1])))


def require_trajectory_memory(steps: int, interval: int, first: Sequence[AnyArray], every: int = 0) -> None:
    """Raise ModelError if the states of a rollout exceed the memory of their device.

    Args:
        steps: number of steps.
        interval: number of steps between stored states.
        first: arrays of the initial state; each is stored for every stored state, and in the backward pass for the
            states of one interval.
        every: bytes that every step stores, whatever the interval.

    Raises:
        ModelError: with required and available memory, and a remedy.
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
    """Raise ModelError if an allocation exceeds the memory.

    Raises:
        ModelError: with both numbers, and the advice.
    """
    if wanted > there:
        raise ModelError(f"{what} would take {amount(wanted)} of memory, but {where} has {amount(there)}; {advice}")


def amount(count: int) -> str:
    """Return a number of bytes as text, such as "25.3 GB"."""
    power = min((len(str(count)) - 1) // 3, len(UNITS) - 1)
    return f"{count / 1000**power:.3g} {UNITS[power]}"


def device_memory(device: wp.Device) -> int:
    """Return the bytes of memory of a device."""
    return device.total_memory if device.is_cuda else host_memory()


def bytes_of(thing: object) -> int:
    """Return the bytes of all Warp arrays of an object, including those in nested objects, lists, tuples and
    structs.
    """
    seen: dict[int, int] = {}
    for array in arrays_of(thing):
        seen[array.ptr] = max(seen.get(array.ptr, 0), array.capacity)
    return sum(seen.values())


def host_memory() -> int:
    """Return the bytes of memory of this machine, or of the control group of this process if that is less."""
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_cgroup_limits()])


def _cgroup_limits() -> Iterator[int]:
    """Yield the memory limits of this process's control group and of its parents, for both versions of cgroups."""
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, name = (CGROUPS / "memory", "memory.limit_in_bytes") if controllers else (CGROUPS, "memory.max")
        # In a container the path may be the host's, of which only the root is visible.
        group = root / own.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(root):
                break
            with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
                yield int((folder / name).read_text())
