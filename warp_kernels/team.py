"""Teams of threads: on a GPU several threads share out the work of one world, on a CPU one thread does all of it.

A kernel is launched over (world, lane), with the number of lanes that :func:`lanes_of_team` returns. Its work is loops
over items, such as constraints or rows of a matrix, with ``sync`` between those that depend on each other::

    team = team_functions(scalar, width, room)

    for n in range(team.lane(), count, team.size()):
        i = team.item(n, count)
        ...
    team.sync()

The items between two calls of ``sync`` are a phase. They may come in any order and at the same time: no item may read
what another one writes in the same phase, nor write to the same number. What is outside of such loops all threads do
alike, with the same values, so that all of them call ``sync`` equally often. An entry is written by ``x[i] = x[i] + y``:
``+=`` would be atomic.

``team.memory`` is shared memory on a GPU, if it suffices. Warps of a GPU have 32 threads. With narrower teams a warp has
several worlds, which wait for each other at each ``sync``.

Rehearsals on a CPU take items in another order and report phases whose items meet (``tests/team_checks.py``).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import kernel_module

# C++ of these functions.
TEAM_HEADERS = ("team.h",)
# That of ``offsets``, in addition.
OFFSETS_HEADER = "team_offsets.h"
# Widths that a team may have on a GPU.
WIDTHS = (8, 16, 32)
# Threads of a block.
BLOCK = 64
# Shared memory of a block, bytes, without that of sums.
SHARED_MEMORY = 48 * 1024 - 8 * BLOCK


def lanes_of_team(device: wp.Device, width: int) -> int:
    """Return the threads of a world in a launch: one on a CPU."""
    return 1 if device.is_cpu else width


def fits_shared_memory(scalar: Any, width: int, room: int) -> bool:
    """Return whether the teams of a block have ``room`` numbers each in shared memory."""
    return BLOCK // width * room * wp.types.type_size_in_bytes(scalar) <= SHARED_MEMORY


def team_module(name: str, scalar: Any, *variant: str | int, headers: tuple[str, ...] = ()) -> wp.Module:
    """Return the module of kernels of teams.

    Args:
        name: of the module.
        scalar: precision.
        variant: further parts of its name.
        headers: C++ headers of its native functions.
    """
    return kernel_module(".".join(map(str, (name, *variant))), scalar, headers=(*headers, *TEAM_HEADERS))


@functools.cache
def team_functions(scalar: Any, width: int, room: int = 0) -> SimpleNamespace:
    """Return the Warp functions of teams for one precision.

    Args:
        scalar: precision.
        width: threads of a team on a GPU.
        room: numbers of a team in shared memory; 0 for memory in an array on a GPU, too.
    """
    native = Native(None, 1, "team")
    of_scalar = Native(scalar, 1, "team")

    @native.func_native(width)
    def lane() -> int:
        """Return the index of this thread in its team."""

    @native.func_native(width)
    def size() -> int:
        """Return the number of threads of a team."""

    @native.func_native()
    def item(k: int, n: int) -> int:
        """Return the item that comes as number k of n."""

    @native.func_native(width)
    def is_first() -> bool:
        """Return whether this thread does what one thread does for its team; ``sync`` comes after that."""

    @native.func_native()
    def sync():
        """Wait for all threads of the team."""

    @of_scalar.func_native(width)
    def total(value: scalar) -> scalar:
        """Return the sum of the values of all threads, added up in their order; a ``sync`` as well."""

    @native.func_native(width)
    def offsets(value: int) -> wp.vec2i:
        """Return the sum of the values of the threads before this one, and that of all threads; a ``sync`` as well.

        The module needs the header OFFSETS_HEADER.
        """

    @of_scalar.func_native(width, room)
    def memory(scratch: wp.array2d(dtype=scalar), world: int) -> wp.uint64:
        """Return the address of the team's memory. scratch: [world, room], read if there is no shared memory."""

    @of_scalar.func_native()
    def begin(scratch: wp.array2d(dtype=scalar), world: int):
        """Begin the work of a world: the first call of a kernel."""

    return SimpleNamespace(
        lane=lane,
        size=size,
        item=item,
        is_first=is_first,
        sync=sync,
        total=total,
        offsets=offsets,
        memory=memory,
        begin=begin,
    )
