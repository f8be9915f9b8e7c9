"""Entries of arrays of states [world, ...] for lane groups of several worlds.

A kernel takes such an array itself, or reads its address from a table in memory, see
:class:`sim.arrays.array_refs.ArrayRef`. ``load`` reads, repeating the last world in a lane without a world,
``load_bar`` reads an adjoint, zero there; ``store`` and ``add`` write. The digit in a name is the number of dimensions
of the array, two if absent.

Large entries are read and written as a whole. In such an array the entries of one world are contiguous, in a register
those of several worlds. A buffer [entry, lane] transposes between them. For a frame [i, j] in an array [world, frame,
i, j] ``read_frame`` fills it and ``get`` reads from it; ``put`` fills the buffer that ``begin`` zeroed for the first
group of a launch, which a CPU takes first, and ``end_frame`` writes it all. For a row in an array [world, k]
``put_bar`` fills it and ``end_bars`` adds it all, or writes it.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import lane_types


def entry_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """Return the functions for a precision and a number of lanes."""
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


def frame_entry_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """Return the functions for a precision and a number of lanes, a power of two.

    A buffer has twice as many numbers as entries and lanes; only ``end_frame`` needs the second half. It writes without
    gaps.
    """
    t = lane_types(scalar, lanes)
    lane, states2d, states4d, numbers = t.real, t.states2d, t.states4d, wp.array(dtype=scalar)

    native = Native(scalar, lanes, "algebra")

    @native.func_native()
    def read_frame(buffer: numbers, values: states4d, group: int, frame: int, rows: int, columns: int): ...

    @native.func_native()
    def get(buffer: numbers, values: states4d, group: int, frame: int, i: int, j: int, columns: int) -> lane: ...

    @native.func_native()
    def begin(buffer: numbers, group: int, count: int): ...

    @native.func_native()
    def put(buffer: numbers, values: states4d, group: int, frame: int, i: int, j: int, columns: int, x: lane): ...

    @native.func_native()
    def end_frame(buffer: numbers, values: states4d, group: int, frame: int, rows: int, columns: int): ...

    @native.func_native()
    def put_bar(buffer: numbers, values: states2d, group: int, k: int, x: lane): ...

    @native.func_native()
    def end_bars(buffer: numbers, values: states2d, group: int, tree: int, count: int): ...

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
