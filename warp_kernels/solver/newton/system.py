"""The linear system of a Newton step: outlined, assembled from the rows, factored and solved."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.factors import factor_functions
from warp_kernels.solver.newton.group.structs import MOST_DOFS
from warp_kernels.solver.newton.islands.parts import FACTORED, ROOM, ROOM_END, part_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types

# The entries that one side of a constraint, which begins at ``here``, shares with one of another, which begins at ``there``.
_ADD_SIDES = """
    using number = wp::{scalar};
    using bytes = wp::int64;
    using triple = wp::vec_t<3, number>;
    const char* rows = reinterpret_cast<const char*>(row.data) + world * bytes(row.strides[1]);
    const char* places = reinterpret_cast<const char*>(place.data) + world * bytes(place.strides[1]);
    const char* starts = reinterpret_cast<const char*>(row_start.data) + world * bytes(row_start.strides[1]);
    char* below = reinterpret_cast<char*>(lower.data) + world * bytes(lower.strides[1]);
    char* above = reinterpret_cast<char*>(upper.data) + world * bytes(upper.strides[1]);
    const bytes row_step = row.strides[0], step = lower.strides[0];
    const int* path = reinterpret_cast<const int*>(ancestor.data);
    const auto place_of = [&](int k) {{ return *reinterpret_cast<const int*>(places + k * bytes(place.strides[0])); }};
    const auto row_of = [&](int p) {{ return step * *reinterpret_cast<const int*>(starts + p * bytes(row_start.strides[0])); }};
    const char* mine = rows + here * row_step;
    const int least = place_of(mate);
    for (int e = 0; e <= depth; ++e, mine += row_step) {{
        const int p = place_of(e < depth ? path[start + e] : tail);
        // Places descend along a path: from here on all are above the diagonal.
        if (p < least && symmetric) break;
        const triple push = wp::mul(*reinterpret_cast<const triple*>(mine), slope);
        char* row_p = below + row_of(p);
        int d = symmetric && here == there ? e : 0;
        const char* theirs = rows + (there + d) * row_step;
        for (; d <= mate_depth; ++d, theirs += row_step) {{
            const int q = place_of(d < mate_depth ? path[mate_start + d] : mate);
            if (p < q && symmetric) continue;
            number& entry = *reinterpret_cast<number*>(p < q ? above + row_of(q) + p * step : row_p + q * step);
            entry -= wp::dot(push, *reinterpret_cast<const triple*>(theirs));
        }}
    }}
"""

# Of one side of a constraint: no row that its path reaches begins after ``least``.
_REACH = """
    const auto first_of = [&](int k) -> int& {{
        const int p = *reinterpret_cast<const int*>(
            reinterpret_cast<const char*>(place.data) + k * wp::int64(place.strides[0]) + world * wp::int64(place.strides[1]));
        return *reinterpret_cast<int*>(
            reinterpret_cast<char*>(first.data) + p * wp::int64(first.strides[0]) + world * wp::int64(first.strides[1]));
    }};
    const int* path = reinterpret_cast<const int*>(ancestor.data) + start;
    for (int d = 0; d <= depth; ++d) {{
        int& own = first_of(d < depth ? path[d] : tail);
        own = own < least ? own : least;
    }}
"""

# Zeros from the first to the last place of a row. Where a world is alone they follow each other.
_CLEAR_ROW = """
    using number = wp::{scalar};
    const wp::int64 step = entries.strides[0];
    char* at = reinterpret_cast<char*>(entries.data) + begin * step + world * wp::int64(entries.strides[1]);
    if (step == sizeof(number)) {{
        for (int k = 0; k < count; ++k) reinterpret_cast<number*>(at)[k] = 0;
        return;
    }}
    for (int k = 0; k < count; ++k) *reinterpret_cast<number*>(at + k * step) = 0;
"""


@functools.cache
def system_functions(scalar: Any, divided: bool = False) -> SimpleNamespace:
    """Warp functions of the system for one precision, of whole worlds or of parts."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    factors = factor_functions(scalar)
    structs = newton_structs(scalar)
    Iterate, System = structs.Iterate, structs.System
    parts = part_functions(scalar, divided)
    zero = scalar(0.0)

    @wp.func
    def entry(world: int, p: int, q: int, system: System):
        """Where the entry of places p >= q is, q no earlier than the row begins."""
        return system.row_start[p, world] + q

    @wp.func
    def pack(world: int, begin: int, nv: int, room: int, system: System):
        """Let the rows of nv places from ``begin`` on stand one after the other, from ``room`` on among the entries. Returns where they end.

        Where that is too far they stand from the first entry on; where they are too many, the system is no more than its diagonal,
        which is marked.
        """
        size = int(0)
        for p in range(begin, begin + nv):
            system.row_start[p, world] = room + size - system.first[p, world]
            size += p + 1 - system.first[p, world]
            if size > system.lower.shape[0]:
                break
        system.is_packed[world] = 1
        if size > system.lower.shape[0]:
            system.is_packed[world] = 0
            for p in range(begin, begin + nv):
                system.first[p, world] = p
                system.row_start[p, world] = 0
            return 0
        if room + size > system.lower.shape[0]:
            for p in range(begin, begin + nv):
                system.row_start[p, world] = system.row_start[p, world] - room
            return size
        return room + size

    @wp.func
    def pack_part(world: int, begin: int, nv: int, iterate: Iterate, system: System):
        """Let the part's rows stand after those of the part before, if there is room. Otherwise it leaves others without factors."""
        room = iterate.part[ROOM, world]
        iterate.part[ROOM_END, world] = pack(world, begin, nv, room, system)
        if system.is_packed[world] == 0 or entry(world, begin, begin, system) != room:
            iterate.part[FACTORED, world] = 0

    @wp.func_native(_REACH.format())
    def reach(
        ancestor: wp.array(dtype=int),
        tail: int,
        depth: int,
        start: int,
        least: int,
        place: wp.array2d(dtype=int),
        first: wp.array2d(dtype=int),
        world: int,
    ):
        """Let the rows that a side of a constraint reaches begin at the place ``least`` or before."""

    @wp.func_native(_CLEAR_ROW.format(scalar=scalar.__name__))
    def clear_row(entries: wp.array2d(dtype=scalar), begin: int, count: int, world: int):
        """Set entries to zero."""

    @wp.func
    def outline(
        world: int, count: int, nv: int, paths: Paths, constraints: Constraints, iterate: Iterate, system: System
    ):
        """Where each row begins: at the first place that one of its constraints in the system reaches."""
        begin = parts.first_place(world, iterate)
        for p in range(begin, begin + nv):
            system.first[p, world] = p
        for n in range(count):
            constraint = parts.constraint_of(n, world, iterate)
            if system.answers[constraint, world] == 0:
                continue
            least = begin + nv
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail >= 0:
                    # Places descend from the root to the tail.
                    least = wp.min(least, system.place[tail, world])
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail >= 0:
                    reach(
                        paths.ancestor,
                        tail,
                        paths.dof_depth[tail],
                        paths.dof_row_start[tail],
                        least,
                        system.place,
                        system.first,
                        world,
                    )
        if wp.static(divided):
            pack_part(world, begin, nv, iterate, system)
        elif nv > MOST_DOFS:
            pack(world, 0, nv, 0, system)

    @wp.func
    def clear(
        world: int,
        nv: int,
        symmetric: bool,
        inverse_mass: wp.array2d(dtype=scalar),
        iterate: Iterate,
        system: System,
    ):
        """Begin with D. Entries above the diagonal of a symmetric system aren't read."""
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            p = system.place[k, world]
            begin = entry(world, p, system.first[p, world], system)
            diagonal = entry(world, p, p, system)
            clear_row(system.lower, begin, diagonal - begin, world)
            if not symmetric:
                clear_row(system.upper, begin, diagonal - begin, world)
            system.lower[diagonal, world] = scalar(1.0) / inverse_mass[k, world]

    @wp.func
    def keep_masses(world: int, nv: int, inverse_mass: wp.array2d(dtype=scalar), iterate: Iterate, system: System):
        """Let D alone be the part's system, and factor it."""
        begin = parts.first_place(world, iterate)
        for n in range(nv):
            system.place[parts.dof_of(n, world, iterate), world] = begin + n
            system.first[begin + n, world] = begin + n
        pack_part(world, begin, nv, iterate, system)
        for n in range(nv):
            inverse = inverse_mass[parts.dof_of(n, world, iterate), world]
            system.lower[entry(world, begin + n, begin + n, system), world] = inverse

    @wp.func_native(_ADD_SIDES.format(scalar=scalar.__name__))
    def add_sides(
        row: wp.array2d(dtype=vec3),
        here: int,
        there: int,
        ancestor: wp.array(dtype=int),
        tail: int,
        depth: int,
        start: int,
        mate: int,
        mate_depth: int,
        mate_start: int,
        slope: mat33,
        symmetric: bool,
        place: wp.array2d(dtype=int),
        row_start: wp.array2d(dtype=int),
        lower: wp.array2d(dtype=scalar),
        upper: wp.array2d(dtype=scalar),
        world: int,
    ):
        """Take the entries of one pair of sides away."""

    @wp.func
    def add_product(
        world: int,
        constraint: int,
        other: int,
        slope: mat33,
        symmetric: bool,
        paths: Paths,
        constraints: Constraints,
        row: wp.array2d(dtype=vec3),
        system: System,
    ):
        """Take ``row_constraint' slope row_other`` away. Both constraints act on the same paths.

        With ``symmetric`` the entries above the diagonal are left as they are.
        """
        if system.is_packed[world] == 0:
            return
        for side in range(2):
            mate = constraints.tail[2 * other + side, world]
            if mate < 0:
                continue
            for near in range(2):
                tail = constraints.tail[2 * constraint + near, world]
                if tail < 0:
                    continue
                add_sides(
                    row,
                    (2 * constraint + near) * paths.max_depth,
                    (2 * other + side) * paths.max_depth,
                    paths.ancestor,
                    tail,
                    paths.dof_depth[tail],
                    paths.dof_row_start[tail],
                    mate,
                    paths.dof_depth[mate],
                    paths.dof_row_start[mate],
                    slope,
                    symmetric,
                    system.place,
                    system.row_start,
                    system.lower,
                    system.upper,
                    world,
                )

    @wp.func
    def factorise(world: int, begin: int, nv: int, symmetric: bool, system: System):
        """L U without pivoting of nv places from ``begin`` on, L with a unit diagonal.

        Returns the least size of a pivot, as a share of its diagonal entry.

        With ``symmetric`` the entries above the diagonal aren't read. Without room for the system it returns zero.
        """
        least = factors.factorise(
            begin, nv, symmetric, system.first, system.row_start, system.lower, system.upper, world
        )
        if system.is_packed[world] == 0:
            return zero
        return least

    @wp.func
    def spoil(world: int, nv: int, system: System):
        """Without factors a solution is not a number."""
        for p in range(nv):
            system.lower[entry(world, p, p, system), world] = scalar(wp.nan)

    @wp.func
    def inverse_pivot(world: int, p: int, system: System):
        """One over the pivot at place p, of the factors."""
        return system.lower[entry(world, p, p, system), world]

    @wp.func
    def solve(world: int, begin: int, nv: int, system: System, x: wp.array2d(dtype=scalar)):
        """x := (L U)^-1 x, x by places, of which nv from ``begin`` on count."""
        factors.solve(begin, nv, system.first, system.row_start, system.lower, system.upper, x, world)

    @wp.func
    def solve_transposed(world: int, nv: int, system: System, x: wp.array2d(dtype=scalar)):
        """x := (L U)'^-1 x, x by places. As it is, it takes fewer registers of a GPU than with the functions above."""
        for p in range(nv):
            value = x[p, world]
            for q in range(system.first[p, world], p):
                value -= system.upper[entry(world, p, q, system), world] * x[q, world]
            x[p, world] = value * system.lower[entry(world, p, p, system), world]
        for back in range(nv):
            p = nv - 1 - back
            value = x[p, world]
            for q in range(system.first[p, world], p):
                x[q, world] -= system.lower[entry(world, p, q, system), world] * value

    return SimpleNamespace(
        outline=outline,
        clear=clear,
        keep_masses=keep_masses,
        add_product=add_product,
        factorise=factorise,
        spoil=spoil,
        inverse_pivot=inverse_pivot,
        solve=solve,
        solve_transposed=solve_transposed,
    )
