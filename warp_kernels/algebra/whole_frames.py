"""What arrays of states hold for one world, read and written whole, for lane groups of several worlds.

In such an array the entries of one world stand beside each other, in a register those of several worlds. Between them
lies a buffer [entry, lane]. Of a frame [i, j] in an array [world, frame, i, j] ``read_frame`` fills it and ``get`` takes
from it; ``put`` fills what ``begin`` made zero for the first group of a launch, which a CPU takes first, and ``end_frame``
writes it all. Of a row in an array [world, k] ``put_bar`` fills it and ``end_bars`` adds it all, or writes it.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.entries import LOOKED_UP
from warp_kernels.types import lane_types

_VECTOR = """
    typedef wp::{scalar} lane_values __attribute__((ext_vector_type({lanes}), aligned(sizeof(wp::{scalar}))));
"""
# Of an array that is looked up, from the row or frame of the group's first world on.
_WHOLE = (
    LOOKED_UP
    + _VECTOR
    + """
    const wp::int64 size = sizeof(wp::{scalar});
    wp::{scalar}* kept = buffer.data;
"""
)
_COUNT = """
    const int count = rows * columns;
"""
# As many entries at a time as there are lanes, of the last chunk some for a second time. The same of the next group is
# on its way to the nearest cache meanwhile.
_READ_FRAME = """
    if (own >= {lanes} && count >= {lanes} && where[7] == size && where[6] == columns * size) {{
        for (int chunk = 0; chunk < count; chunk += {lanes}) {{
            const int e = chunk + {lanes} <= count ? chunk : count - {lanes};
            lane_values r[{lanes}];
            for (int n = 0; n < {lanes}; ++n) {{
                r[n] = *reinterpret_cast<lane_values*>(at + n * step + e * size);
                __builtin_prefetch(at + ({lanes} + n) * step + e * size, 0, 3);
            }}
            {turn}
            for (int n = 0; n < {lanes}; ++n) reinterpret_cast<lane_values*>(kept)[e + n] = r[n];
        }}
        return;
    }}
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j)
            for (int n = 0; n < {lanes}; ++n)
                kept[(i * columns + j) * {lanes} + n] =
                    n < own ? *pointer(at + n * step + i * where[6] + j * where[7]) : 0;
"""
# Entries that nobody puts stay zero.
_BEGIN = """
    if (group == 0) memset(buffer.data, 0, count * {lanes} * sizeof(wp::{scalar}));
"""
# The frames of a large array (``where[3]``) are collected in a second part of the buffer and written from there past the
# caches, which they would fill, in lines of 64 bytes. That is in order with all else once the last group is done.
_END_FRAME = """
    typedef wp::{scalar} line __attribute__((ext_vector_type(64 / sizeof(wp::{scalar}))));
    typedef wp::{scalar} loose __attribute__((ext_vector_type(64 / sizeof(wp::{scalar})), aligned(sizeof(wp::{scalar}))));
    const wp::int64 all = {lanes} * count * size;
    if (own >= {lanes} && count >= {lanes}) {{
        const bool past = where[3] && step == count * size && all % 64 == 0 && wp::int64(at) % 64 == 0;
        char* to = past ? reinterpret_cast<char*>(kept + {lanes} * count) : at;
        for (int chunk = 0; chunk < count; chunk += {lanes}) {{
            const int e = chunk + {lanes} <= count ? chunk : count - {lanes};
            lane_values r[{lanes}];
            for (int n = 0; n < {lanes}; ++n) r[n] = reinterpret_cast<lane_values*>(kept)[e + n];
            {turn}
            for (int n = 0; n < {lanes}; ++n) {{
                *reinterpret_cast<lane_values*>(to + n * step + e * size) = r[n];
                if (!past) __builtin_prefetch(at + ({lanes} + n) * step + e * size, 1, 3);
            }}
        }}
        if (past)
            for (wp::int64 b = 0; b < all; b += 64)
                __builtin_nontemporal_store(*reinterpret_cast<loose*>(to + b), reinterpret_cast<line*>(at + b));
    }} else {{
        for (int n = 0; n < (own < {lanes} ? own : {lanes}); ++n)
            for (int e = 0; e < count; ++e)
                *pointer(at + n * step + e * size) = kept[e * {lanes} + n];
    }}
    if (where[3] && own <= {lanes}) __atomic_thread_fence(__ATOMIC_SEQ_CST);
"""
# Groups that don't overlap and single entries after them; what is marked as new (``where[3]``) is written by the first tree,
# which a CPU takes first, whatever was there.
_END_BARS = """
    const bool anew = where[3] && tree == 0;
    int e = 0;
    if (own >= {lanes} && where[5] == size)
        for (; e + {lanes} <= count; e += {lanes}) {{
            lane_values r[{lanes}];
            for (int n = 0; n < {lanes}; ++n) r[n] = reinterpret_cast<lane_values*>(kept)[e + n];
            {turn}
            for (int n = 0; n < {lanes}; ++n) {{
                lane_values* to = reinterpret_cast<lane_values*>(at + n * step + e * size);
                __builtin_prefetch(at + ({lanes} + n) * step + e * size, 1, 3);
                *to = anew ? r[n] : *to + r[n];
            }}
        }}
    for (; e < count; ++e)
        for (int n = 0; n < (own < {lanes} ? own : {lanes}); ++n) {{
            wp::{scalar}& to = *pointer(at + n * step + e * where[5]);
            to = anew ? kept[e * {lanes} + n] : to + kept[e * {lanes} + n];
        }}
"""
_ENTRY = """
    lane_values& entry = reinterpret_cast<lane_values*>(buffer.data)[{entry}];
"""
_GET = """
    wp::vec_t<{lanes}, wp::{scalar}> x;
    *reinterpret_cast<lane_values*>(x.c) = entry;
    return x;
"""
_PUT = """
    entry = *reinterpret_cast<lane_values*>(x.c);
"""


def frame_entry_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for a precision and a number of lanes, a power of two.

    A buffer has twice as many numbers as entries and lanes, of which only ``end_frame`` needs the second half. What it
    writes is without gaps.
    """
    t = lane_types(scalar, lanes)
    lane, states2d, states4d, numbers = t.real, t.states2d, t.states4d, wp.array(dtype=scalar)

    def native(code: str, entry: str = "i * columns + j", offsets: str = "") -> str:
        names = {"lanes": lanes, "scalar": scalar.__name__, "turn": _transposition(lanes)}
        return code.format(**names, entry=entry, offsets=offsets)

    of_frame = " + frame * where[5]"

    @wp.func_native(native(_WHOLE + _COUNT + _READ_FRAME, offsets=of_frame))
    def read_frame(buffer: numbers, values: states4d, group: int, frame: int, rows: int, columns: int): ...

    @wp.func_native(native(_VECTOR + _ENTRY + _GET))
    def get(buffer: numbers, values: states4d, group: int, frame: int, i: int, j: int, columns: int) -> lane: ...

    @wp.func_native(native(_BEGIN))
    def begin(buffer: numbers, group: int, count: int): ...

    @wp.func_native(native(_VECTOR + _ENTRY + _PUT))
    def put(buffer: numbers, values: states4d, group: int, frame: int, i: int, j: int, columns: int, x: lane): ...

    @wp.func_native(native(_WHOLE + _COUNT + _END_FRAME, offsets=of_frame))
    def end_frame(buffer: numbers, values: states4d, group: int, frame: int, rows: int, columns: int): ...

    @wp.func_native(native(_VECTOR + _ENTRY + _PUT, entry="k"))
    def put_bar(buffer: numbers, values: states2d, group: int, k: int, x: lane): ...

    @wp.func_native(native(_WHOLE + _END_BARS))
    def end_bars(buffer: numbers, values: states2d, group: int, tree: int, count: int): ...

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})


def _transposition(lanes: int) -> str:
    """Code that transposes the square of the vectors ``r[0]``, ``r[1]``, ...: of 2 x 2 squares, of squares of these, ..."""
    code = []
    size = 1
    while size < lanes:
        low = [k if k & size == 0 else lanes + k - size for k in range(lanes)]
        high = [k + size if k & size == 0 else lanes + k for k in range(lanes)]
        for one in (k for k in range(lanes) if k & size == 0):
            vectors = f"r[{one}], r[{one + size}]"
            turned = (f"__builtin_shufflevector({vectors}, {', '.join(map(str, order))})" for order in (low, high))
            code.append("{{ const lane_values low = {}, high = {}; ".format(*turned))
            code.append(f"r[{one}] = low; r[{one + size}] = high; }}\n")
        size *= 2
    return "".join(code)
