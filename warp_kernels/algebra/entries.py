"""Entries of arrays of states [world, ...] for lane groups of several worlds.

A kernel takes such an array itself, or reads its address from a table in memory, see :class:`sim.arrays.array_refs.ArrayRef`.
``load`` reads, with the last world again where a lane has none, ``load_bar`` reads an adjoint, zero there; ``store`` and ``add``
write. The digit in a name is the number of dimensions of the array, two where there is none.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import lane_types

# ``at`` is the entry of the group's first world, ``step`` how many bytes it is to that of the next one, and ``own`` how
# many worlds the group has.
_ENTRY = """
    const int first = group * {lanes};
    const int own = values.shape[0] - first;
    const wp::int64 step = values.strides[0];
    char* at = reinterpret_cast<char*>(values.data) + first * step{offsets};
    using pointer = wp::{scalar}*;
"""
# The same for an array that is looked up, see :class:`sim.arrays.array_refs.ArrayRef`.
LOOKED_UP = """
    const wp::int64* where = values.data;
    const int first = group * {lanes};
    const wp::int32 own = wp::int32(where[1]) - first;
    const wp::int64 step = where[4];
    char* at = reinterpret_cast<char*>(where[0]) + first * step{offsets};
    using pointer = wp::{scalar}*;
"""
# The last group may have fewer worlds: loops for it stay loops, or most of the code would be theirs. What they index is a
# vector, which need not lie in memory for it.
_VECTOR = """
    typedef wp::{scalar} vector __attribute__((ext_vector_type({lanes}), aligned(sizeof(wp::{scalar}))));
"""
_ROLLED = "#pragma clang loop unroll(disable) vectorize(disable)"
_RETURN = """
    wp::vec_t<{lanes}, wp::{scalar}> x;
    *reinterpret_cast<vector*>(x.c) = v;
    return x;
"""
_LOAD = f"""
    {_VECTOR}
    vector v;
    if (own >= {{lanes}})
        for (int n = 0; n < {{lanes}}; ++n) v[n] = *pointer(at + n * step);
    else
        {_ROLLED}
        for (int n = 0; n < {{lanes}}; ++n) v[n] = *pointer(at + (n < own ? n : own - 1) * step);
    {_RETURN}
"""
_LOAD_BAR = f"""
    {_VECTOR}
    vector v = 0;
    if (own >= {{lanes}})
        for (int n = 0; n < {{lanes}}; ++n) v[n] = *pointer(at + n * step);
    else
        {_ROLLED}
        for (int n = 0; n < own; ++n) v[n] = *pointer(at + n * step);
    {_RETURN}
"""
_CHANGE = f"""
    {_VECTOR}
    const vector v = *reinterpret_cast<const vector*>(x.c);
    if (own >= {{lanes}})
        for (int n = 0; n < {{lanes}}; ++n) *pointer(at + n * step) {{assign}} v[n];
    else
        {_ROLLED}
        for (int n = 0; n < own; ++n) *pointer(at + n * step) {{assign}} v[n];
"""
_STORE = _CHANGE.replace("{assign}", "=")
_ADD = _CHANGE.replace("{assign}", "+=")
# What the next group reads or writes is on its way to the nearest cache while this one is worked on.
_FETCH = """
    for (int n = {lanes}; n < (own < 2 * {lanes} ? own : 2 * {lanes}); ++n)
        for (int b = 0; b < where[2]; b += 64) __builtin_prefetch(at + n * step + b, {write}, 3);
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
        (wp.array2d(dtype=scalar), wp.array3d(dtype=scalar), _ENTRY),
        (t.states2d, t.states3d, LOOKED_UP),
    ]
    # Entries [world, k] and [world, i, j] of the worlds of a group, each for both kinds of arrays.
    for two, three, entry in kinds:

        @wp.func_native(native(entry, _LOAD, "k"))
        def load(values: two, group: int, k: int) -> lane: ...

        @wp.func_native(native(entry, _LOAD_BAR, "k"))
        def load_bar(values: two, group: int, k: int) -> lane: ...

        @wp.func_native(native(entry, _STORE, "k"))
        def store(values: two, group: int, k: int, x: lane): ...

        @wp.func_native(native(entry, _ADD, "k"))
        def add(values: two, group: int, k: int, x: lane): ...

        @wp.func_native(native(entry, _LOAD, "i", "j"))
        def load3(values: three, group: int, i: int, j: int) -> lane: ...

        @wp.func_native(native(entry, _LOAD_BAR, "i", "j"))
        def load_bar3(values: three, group: int, i: int, j: int) -> lane: ...

        @wp.func_native(native(entry, _STORE, "i", "j"))
        def store3(values: three, group: int, i: int, j: int, x: lane): ...

        @wp.func_native(native(entry, _ADD, "i", "j"))
        def add3(values: three, group: int, i: int, j: int, x: lane): ...

    @wp.func_native(native(LOOKED_UP, _FETCH.replace("{write}", "0")))
    def fetch_to_read(values: t.states2d, group: int): ...

    @wp.func_native(native(LOOKED_UP, _FETCH.replace("{write}", "0"), "frame"))
    def fetch_frame_to_read(values: t.states3d, group: int, frame: int): ...

    @wp.func_native(native(LOOKED_UP, _FETCH.replace("{write}", "1"), "frame"))
    def fetch_frame_to_write(values: t.states3d, group: int, frame: int): ...

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
