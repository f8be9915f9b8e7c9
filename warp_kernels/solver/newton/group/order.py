"""Which constraints of a lane group's worlds stand side by side.

Constraints of the same number need not act on the same degrees of freedom, while what stands side by side has those of all. With the
feet of a humanoid mixed, a system takes twice as long. So the constraints of each world are ordered by what they act on, and set side
by side with those that act on the same, or nearly. Their order depends on no other world, nor then do sums over them, to which places
that are empty add zeros.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.lane_code import native_code
from warp_kernels.solver.newton.group.structs import MOST_CONSTRAINTS

# What a place costs on top of its entries in the system: for each degree of freedom, and for itself. Measured.
EACH_DOF, EACH_PLACE = 6, 50

_IN_ORDER = """
    int* to = reinterpret_cast<int*>(order.data);
    for (int n = 0; n < {lanes}; ++n) {{
        const wp::int64 world = group * {lanes} + n;
        int own = 0;
        if (world < count.shape[0]) own = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(count.data) + world * wp::int64(count.strides[0]));
        for (int place = 0; place < most; ++place) to[place * {lanes} + n] = place < own ? place : -1;
    }}
"""
_ALIGN = """
    const wp::uint64* masks = reinterpret_cast<const wp::uint64*>(path.data);
    int* to = reinterpret_cast<int*>(order.data);
    const int room = order.shape[0] / {lanes} < {MOST} ? order.shape[0] / {lanes} : {MOST};
    auto cost = [](wp::uint64 mask) {{
        const int size = __builtin_popcountll(mask);
        return size * (size + 1) / 2 + {EACH_DOF} * size + {EACH_PLACE};
    }};
    wp::uint64 acts[{lanes}][{MOST}];
    int numbers[{lanes}][{MOST}], counts[{lanes}], at[{lanes}];
    for (int n = 0; n < {lanes}; ++n) {{
        const wp::int64 world = group * {lanes} + n;
        at[n] = counts[n] = 0;
        if (world >= count.shape[0]) continue;
        counts[n] = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(count.data) + world * wp::int64(count.strides[0]));
        for (int i = 0; i < counts[n]; ++i) {{
            wp::uint64 mask = 0;
            for (int side = 0; side < 2; ++side) {{
                const int t = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(tail.data) + (2 * i + side) * wp::int64(tail.strides[0]) + world * wp::int64(tail.strides[1]));
                if (t >= 0) mask |= masks[t];
            }}
            int place = i;
            for (; place > 0 && acts[n][place - 1] < mask; --place) {{
                acts[n][place] = acts[n][place - 1];
                numbers[n][place] = numbers[n][place - 1];
            }}
            acts[n][place] = mask;
            numbers[n][place] = i;
        }}
    }}
    wp::uint64 together[{MOST}];
    unsigned taken[{MOST}];
    int places = 0;
    while (true) {{
        // Those of all worlds that act on the same come next.
        wp::uint64 mask = 0;
        bool any = false;
        for (int n = 0; n < {lanes}; ++n)
            if (at[n] < counts[n]) {{
                any = true;
                if (acts[n][at[n]] > mask) mask = acts[n][at[n]];
            }}
        if (!any) break;
        unsigned own = 0;
        for (int n = 0; n < {lanes}; ++n)
            if (at[n] < counts[n] && acts[n][at[n]] == mask) own |= 1u << n;
        // Where they cost least: behind all constraints of these worlds.
        int best = places, least = cost(mask);
        if (places == room) least = 1 << 30;
        for (int place = places - 1; place >= 0 && !(taken[place] & own); --place) {{
            const int more = cost(together[place] | mask) - cost(together[place]);
            if (more < least) {{
                least = more;
                best = place;
            }}
        }}
        if (best == room) return 0;
        if (best == places) {{
            together[places] = 0;
            taken[places] = 0;
            for (int n = 0; n < {lanes}; ++n) to[places * {lanes} + n] = -1;
            ++places;
        }}
        together[best] |= mask;
        taken[best] |= own;
        for (int n = 0; n < {lanes}; ++n)
            if (own >> n & 1) to[best * {lanes} + n] = numbers[n][at[n]++];
    }}
    return places;
"""


@functools.cache
def group_order_functions(scalar: Any, lanes: int) -> SimpleNamespace:
    """The functions for one precision and number of lanes."""
    ints = wp.array(dtype=int)
    places = {"MOST": MOST_CONSTRAINTS, "EACH_DOF": EACH_DOF, "EACH_PLACE": EACH_PLACE}

    @wp.func_native(native_code(scalar, lanes, _IN_ORDER))
    def take_in_order(group: int, most: int, count: ints, order: ints):
        """Set constraints of the same number side by side."""

    @wp.func_native(native_code(scalar, lanes, _ALIGN, **places))
    def align(
        group: int, path: wp.array(dtype=wp.uint64), count: ints, tail: wp.array2d(dtype=int), order: ints
    ) -> int:
        """Set constraints side by side that act on the same. Returns the number of places; zero where there isn't room."""

    @wp.func
    def arrange(
        group: int, most: int, path: wp.array(dtype=wp.uint64), count: ints, tail: wp.array2d(dtype=int), order: ints
    ):
        """The same where there is room, else those of the same number. Returns the number of places."""
        places = int(0)
        if most <= MOST_CONSTRAINTS:
            places = align(group, path, count, tail, order)
        if places == 0:
            take_in_order(group, most, count, order)
            places = most
        return places

    return SimpleNamespace(take_in_order=take_in_order, align=align, arrange=arrange)
