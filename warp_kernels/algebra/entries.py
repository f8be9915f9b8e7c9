"""Entries of arrays of states [world, ...] for lane groups of several worlds.

A kernel takes such an array itself, or reads its address from a table in memory, see :class:`sim.arrays.array_refs.ArrayRef`.
``load`` reads, with the last world again where a lane has none, ``load_bar`` reads an adjoint, zero there; ``store`` and ``add``
write. The digit in a name is the number of dimensions of the array, two where there is none.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import lane_types


def entry_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for a precision and a number of lanes."""
    t = lane_types(scalar, lanes)
    lane = t.real

    native = Native(scalar, lanes, "algebra")

    # Entries [world, k] and [world, i, j] of the worlds of a group, each for both kinds of arrays.
    for two, three in ((wp.array2d(dtype=scalar), wp.array3d(dtype=scalar)), (t.states2d, t.states3d)):

        @wp.func_native(native.call("load", "values", "group", "k", returns=True))
        def load(values: two, group: int, k: int) -> lane: ...

        @wp.func_native(native.call("load_bar", "values", "group", "k", returns=True))
        def load_bar(values: two, group: int, k: int) -> lane: ...

        @wp.func_native(native.call("store", "values", "group", "k", "x"))
        def store(values: two, group: int, k: int, x: lane): ...

        @wp.func_native(native.call("add", "values", "group", "k", "x"))
        def add(values: two, group: int, k: int, x: lane): ...

        @wp.func_native(native.call("load", "values", "group", "i", "j", returns=True))
        def load3(values: three, group: int, i: int, j: int) -> lane: ...

        @wp.func_native(native.call("load_bar", "values", "group", "i", "j", returns=True))
        def load_bar3(values: three, group: int, i: int, j: int) -> lane: ...

        @wp.func_native(native.call("store", "values", "group", "i", "j", "x"))
        def store3(values: three, group: int, i: int, j: int, x: lane): ...

        @wp.func_native(native.call("add", "values", "group", "i", "j", "x"))
        def add3(values: three, group: int, i: int, j: int, x: lane): ...

    @native.func_native(False, template="fetch")
    def fetch_to_read(values: t.states2d, group: int): ...

    @native.func_native(False, template="fetch")
    def fetch_frame_to_read(values: t.states3d, group: int, frame: int): ...

    @native.func_native(True, template="fetch")
    def fetch_frame_to_write(values: t.states3d, group: int, frame: int): ...

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
