"""Entries of arrays of states [world, ...] for blocks of several worlds.

Some of these arrays are told to a kernel in its launch; others it looks up where it is told, see
:class:`sim.located.Located`. ``load`` reads, with the last world again where a lane has none, ``load_bar`` reads an adjoint,
zero there; ``store`` and ``add`` write. The digit in a name is the number of dimensions of the array, two where there is
none. Between ``begin_frame``, which sets all entries of a frame [frame, i, j] to zero, and ``end_frame``, ``put`` writes.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import lane_types

# Warp's own access to an array looks at the sign of every index, which takes several times as long as the access.
# ``at`` is the entry of the block's first world, ``step`` how many bytes it is to that of the next one, and ``own`` how
# many worlds the block has.
_ENTRY = """
    const int first = block * {lanes};
    const int own = values.shape[0] - first;
    const wp::int64 step = values.strides[0];
    char* at = reinterpret_cast<char*>(values.data) + first * step{offsets};
    using pointer = wp::{scalar}*;
"""
# The same for an array that is looked up, see :class:`sim.located.Located`.
_LOOKED_UP = """
    const wp::int64* where = values.data;
    const int first = block * {lanes};
    const wp::int32 own = wp::int32(where[1]) - first;
    const wp::int64 step = where[4];
    char* at = reinterpret_cast<char*>(where[0]) + first * step{offsets};
    using pointer = wp::{scalar}*;
"""
_LOAD = """
    typedef wp::{scalar} vector __attribute__((ext_vector_type({lanes}), aligned(sizeof(wp::{scalar}))));
    vector v;
    if (own >= {lanes})
        for (int n = 0; n < {lanes}; ++n) v[n] = *pointer(at + n * step);
    else
        for (int n = 0; n < {lanes}; ++n) v[n] = *pointer(at + (n < own ? n : own - 1) * step);
    wp::vec_t<{lanes}, wp::{scalar}> x;
    *reinterpret_cast<vector*>(x.c) = v;
    return x;
"""
_LOAD_BAR = """
    wp::vec_t<{lanes}, wp::{scalar}> x;
    if (own >= {lanes})
        for (int n = 0; n < {lanes}; ++n) x.c[n] = *pointer(at + n * step);
    else
        for (int n = 0; n < own; ++n) x.c[n] = *pointer(at + n * step);
    return x;
"""
_STORE = """
    if (own >= {lanes})
        for (int n = 0; n < {lanes}; ++n) *pointer(at + n * step) = x.c[n];
    else
        for (int n = 0; n < own; ++n) *pointer(at + n * step) = x.c[n];
"""
_ADD = """
    if (own >= {lanes})
        for (int n = 0; n < {lanes}; ++n) *pointer(at + n * step) += x.c[n];
    else
        for (int n = 0; n < own; ++n) *pointer(at + n * step) += x.c[n];
"""
# What the next block reads or writes is on its way to the nearest cache while this one is worked on.
_FETCH = """
    for (int n = {lanes}; n < (own < 2 * {lanes} ? own : 2 * {lanes}); ++n)
        for (int b = 0; b < where[2]; b += 64) __builtin_prefetch(at + n * step + b, {write}, 3);
"""
# All ``count`` entries of a frame in an array without gaps. Those of a large array (``where[3]``) are collected in a
# buffer for the worlds of a block, where the nearest cache holds them, and written from there past the caches, which
# they would fill; they are in lines of 64 bytes.
_FRAME = """
    typedef wp::{scalar} vector __attribute__((ext_vector_type(64 / sizeof(wp::{scalar}))));
    typedef wp::{scalar} loose __attribute__((ext_vector_type(64 / sizeof(wp::{scalar})), aligned(sizeof(wp::{scalar}))));
    const wp::int64 size = count * wp::int64(sizeof(wp::{scalar}));
    const int worlds = own < {lanes} ? own : {lanes};
    char* to = where[3] ? reinterpret_cast<char*>(buffer.data) : at;
    const wp::int64 to_step = where[3] ? size : step;
"""
# In the buffer the entries that no block writes stay zero.
_BEGIN_FRAME = """
    if (!where[3] || block == 0)
        for (int n = 0; n < worlds; ++n)
            for (int e = 0; e < count; ++e) *pointer(to + n * to_step + e * wp::int64(sizeof(wp::{scalar}))) = 0;
"""
_PUT = """
    to += (i * columns + j) * wp::int64(sizeof(wp::{scalar}));
    if (own >= {lanes})
        for (int n = 0; n < {lanes}; ++n) *pointer(to + n * to_step) = x.c[n];
    else
        for (int n = 0; n < own; ++n) *pointer(to + n * to_step) = x.c[n];
"""
# What passes the caches is in order with all else once the last block is done.
_END_FRAME = """
    if (!where[3]) return;
    const wp::int64 all = {lanes} * size;
    if (own >= {lanes} && step == size && all % 64 == 0 && (where[0] + first * step) % 64 == 0)
        for (wp::int64 b = 0; b < all; b += 64)
            __builtin_nontemporal_store(*reinterpret_cast<const loose*>(to + b), reinterpret_cast<vector*>(at + b));
    else
        for (int n = 0; n < worlds; ++n) memcpy(at + n * step, to + n * size, size);
    if (own <= {lanes}) __atomic_thread_fence(__ATOMIC_SEQ_CST);
"""


def entry_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for a precision and a number of lanes."""
    t = lane_types(scalar, lanes)
    lane = t.real

    def native(entry: str, code: str, *indices: str) -> str:
        """The code for entries with these indices beside that of the world."""
        steps = "values.strides[{}]" if entry is _ENTRY else "where[4 + {}]"
        offsets = "".join(f" + {index} * wp::int64({steps.format(d + 1)})" for d, index in enumerate(indices))
        return (entry + code).format(lanes=lanes, scalar=scalar.__name__, offsets=offsets)

    kinds = [
        (wp.array2d(dtype=scalar), wp.array3d(dtype=scalar), wp.array4d(dtype=scalar), _ENTRY),
        (t.states2d, t.states3d, t.states4d, _LOOKED_UP),
    ]
    # Entries [world, k], [world, i, j] and [world, frame, i, j] of the worlds of a block, each for both kinds of arrays.
    for two, three, four, entry in kinds:

        @wp.func_native(native(entry, _LOAD, "k"))
        def load(values: two, block: int, k: int) -> lane: ...

        @wp.func_native(native(entry, _LOAD_BAR, "k"))
        def load_bar(values: two, block: int, k: int) -> lane: ...

        @wp.func_native(native(entry, _STORE, "k"))
        def store(values: two, block: int, k: int, x: lane): ...

        @wp.func_native(native(entry, _ADD, "k"))
        def add(values: two, block: int, k: int, x: lane): ...

        @wp.func_native(native(entry, _LOAD, "i", "j"))
        def load3(values: three, block: int, i: int, j: int) -> lane: ...

        @wp.func_native(native(entry, _LOAD_BAR, "i", "j"))
        def load_bar3(values: three, block: int, i: int, j: int) -> lane: ...

        @wp.func_native(native(entry, _STORE, "i", "j"))
        def store3(values: three, block: int, i: int, j: int, x: lane): ...

        @wp.func_native(native(entry, _ADD, "i", "j"))
        def add3(values: three, block: int, i: int, j: int, x: lane): ...

        @wp.func_native(native(entry, _LOAD_BAR, "frame", "i", "j"))
        def load_bar4(values: four, block: int, frame: int, i: int, j: int) -> lane: ...

        @wp.func_native(native(entry, _STORE, "frame", "i", "j"))
        def store4(values: four, block: int, frame: int, i: int, j: int, x: lane): ...

    @wp.func_native(native(_LOOKED_UP, _FETCH.replace("{write}", "0")))
    def fetch_to_read(values: t.states2d, block: int): ...

    @wp.func_native(native(_LOOKED_UP, _FETCH.replace("{write}", "1")))
    def fetch_to_write(values: t.states2d, block: int): ...

    @wp.func_native(native(_LOOKED_UP, _FETCH.replace("{write}", "0"), "frame"))
    def fetch_frame_to_read(values: t.states3d, block: int, frame: int): ...

    @wp.func_native(native(_LOOKED_UP, _FETCH.replace("{write}", "1"), "frame"))
    def fetch_frame_to_write(values: t.states3d, block: int, frame: int): ...

    numbers = wp.array(dtype=scalar)

    @wp.func_native(native(_LOOKED_UP, _FRAME + _BEGIN_FRAME, "frame"))
    def begin_frame(buffer: numbers, values: t.states4d, block: int, frame: int, count: int): ...

    @wp.func_native(native(_LOOKED_UP, _FRAME + _PUT, "frame"))
    def put(
        buffer: numbers, values: t.states4d, block: int, frame: int, i: int, j: int, columns: int, count: int, x: lane
    ): ...

    @wp.func_native(native(_LOOKED_UP, _FRAME + _END_FRAME, "frame"))
    def end_frame(buffer: numbers, values: t.states4d, block: int, frame: int, count: int): ...

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
