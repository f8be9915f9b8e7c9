"""The linear system of a Newton step: assembled from the rows, factored as L U in its envelope, and solved."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.newton.group.structs import MOST_DOFS
from warp_kernels.solver.newton.islands.parts import FACTORED, ROOM, ROOM_END, part_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types

# Warp's own access to an array looks at the sign of every index, which takes longer than the product. On a CPU eight sums don't wait
# for each other; where it works on one world alone, it adds eight products at a time, to the same result. A GPU has other threads
# to turn to, and needs its registers.
_PRODUCT = """
    using number = wp::{scalar};
    const wp::int64 step_a = a.strides[0];
    const wp::int64 step_b = b.strides[0];
    const char* x = reinterpret_cast<const char*>(a.data) + (row_a + start) * step_a + world * wp::int64(a.strides[1]);
    const char* y = reinterpret_cast<const char*>(b.data) + (row_b + start) * step_b + world * wp::int64(b.strides[1]);
    number sum[8] = {{0, 0, 0, 0, 0, 0, 0, 0}};
    int m = start;
#ifndef __CUDA_ARCH__
    if (step_a == sizeof(number) && step_b == sizeof(number)) {{
        typedef number pack __attribute__((ext_vector_type(8), aligned(sizeof(number))));
        pack packed = 0;
        for (; m + 8 <= end; m += 8, x += sizeof(pack), y += sizeof(pack))
            packed += *reinterpret_cast<const pack*>(x) * *reinterpret_cast<const pack*>(y);
        *reinterpret_cast<pack*>(sum) = packed;
    }}
    for (; m + 8 <= end; m += 8, x += 8 * step_a, y += 8 * step_b)
        for (int k = 0; k < 8; ++k)
            sum[k] += *reinterpret_cast<const number*>(x + k * step_a) * *reinterpret_cast<const number*>(y + k * step_b);
    for (; m + 4 <= end; m += 4, x += 4 * step_a, y += 4 * step_b)
        for (int k = 0; k < 4; ++k)
            sum[k] += *reinterpret_cast<const number*>(x + k * step_a) * *reinterpret_cast<const number*>(y + k * step_b);
#endif
    for (; m < end; ++m, x += step_a, y += step_b)
        sum[0] += *reinterpret_cast<const number*>(x) * *reinterpret_cast<const number*>(y);
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
"""

# Between place ``start`` and p: x[p] less the products of row p with x, or x less row p times x[p].
_ROW_TIMES_X = """
    using number = wp::{scalar};
    const wp::int64 step = a.strides[0], step_x = x.strides[0];
    const char* entries = reinterpret_cast<const char*>(a.data) + (row_p + start) * step + world * wp::int64(a.strides[1]);
    char* values = reinterpret_cast<char*>(x.data) + world * wp::int64(x.strides[1]);
    number& own = *reinterpret_cast<number*>(values + p * step_x);
    values += start * step_x;
    number {begin};
    for (int q = start; q < p; ++q, entries += step, values += step_x) {{
        {each}
    }}
    {end}
"""
_ENTRY, _VALUE = "*reinterpret_cast<const number*>(entries)", "*reinterpret_cast<number*>(values)"
_ROW_FROM_X = {"begin": "total = own", "each": f"total -= {_ENTRY} * {_VALUE};", "end": "own = total;"}
_X_FROM_ROW = {"begin": "value = own", "each": f"{_VALUE} -= {_ENTRY} * value;", "end": ""}

# The entries that one side of a constraint, which begins at ``here``, shares with one of another, which begins at ``there``.
_ADD_SIDES = """
    using number = wp::{scalar};
    using triple = wp::vec_t<3, number>;
    const char* rows = reinterpret_cast<const char*>(row.data) + world * wp::int64(row.strides[1]);
    const char* places = reinterpret_cast<const char*>(place.data) + world * wp::int64(place.strides[1]);
    char* below = reinterpret_cast<char*>(lower.data) + world * wp::int64(lower.strides[1]);
    char* above = reinterpret_cast<char*>(upper.data) + world * wp::int64(upper.strides[1]);
    const char* starts = reinterpret_cast<const char*>(row_start.data) + world * wp::int64(row_start.strides[1]);
    const auto row_of = [&](int p) {{ return *reinterpret_cast<const int*>(starts + p * wp::int64(row_start.strides[0])); }};
    const int* near = reinterpret_cast<const int*>(ancestor.data) + start;
    const int* far = reinterpret_cast<const int*>(ancestor.data) + mate_start;
    for (int d = 0; d <= mate_depth; ++d) {{
        const int k = d < mate_depth ? far[d] : mate;
        const int q = *reinterpret_cast<const int*>(places + k * wp::int64(place.strides[0]));
        const triple push = wp::mul(slope, *reinterpret_cast<const triple*>(rows + (there + d) * wp::int64(row.strides[0])));
        // Places descend along a path, so that these are all at the diagonal or below.
        const int last = symmetric && here == there ? d : depth;
        for (int e = 0; e <= last; ++e) {{
            const int j = e < depth ? near[e] : tail;
            const int p = *reinterpret_cast<const int*>(places + j * wp::int64(place.strides[0]));
            if (p < q && symmetric) continue;
            const number product = wp::dot(*reinterpret_cast<const triple*>(rows + (here + e) * wp::int64(row.strides[0])), push);
            if (p >= q)
                *reinterpret_cast<number*>(below + (row_of(p) + q) * wp::int64(lower.strides[0])) -= product;
            else
                *reinterpret_cast<number*>(above + (row_of(q) + p) * wp::int64(upper.strides[0])) -= product;
        }}
    }}
"""


@functools.cache
def system_functions(scalar: Any, divided: bool = False) -> SimpleNamespace:
    """Warp functions of the system for one precision, of whole worlds or of parts."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    factor = factor_kernels(scalar)
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
                    for d in range(paths.dof_depth[tail] + 1):
                        k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                        p = system.place[k, world]
                        system.first[p, world] = wp.min(system.first[p, world], least)
        if wp.static(divided):
            pack_part(world, begin, nv, iterate, system)
        elif nv > MOST_DOFS:
            pack(world, 0, nv, 0, system)

    @wp.func
    def clear(world: int, nv: int, inverse_mass: wp.array2d(dtype=scalar), iterate: Iterate, system: System):
        """Begin with D."""
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            p = system.place[k, world]
            for at in range(entry(world, p, system.first[p, world], system), entry(world, p, p, system)):
                system.lower[at, world] = zero
                system.upper[at, world] = zero
            system.lower[entry(world, p, p, system), world] = scalar(1.0) / inverse_mass[k, world]

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

    @wp.func_native(_PRODUCT.format(scalar=scalar.__name__))
    def sum_of_products(
        a: wp.array2d(dtype=scalar),
        row_a: int,
        b: wp.array2d(dtype=scalar),
        row_b: int,
        start: int,
        end: int,
        world: int,
    ) -> scalar:
        """Sum of the products of a part of two rows."""

    @wp.func
    def factorise(world: int, begin: int, nv: int, symmetric: bool, system: System):
        """L U without pivoting of nv places from ``begin`` on, L with a unit diagonal.

        Returns the least size of a pivot, as a share of its diagonal entry.

        With ``symmetric`` the entries above the diagonal aren't read. Without room for the system it returns zero.
        """
        least = scalar(1.0)
        for p in range(begin, begin + nv):
            first = system.first[p, world]
            row_p = entry(world, p, 0, system)
            diagonal = system.lower[row_p + p, world]
            pivot = diagonal
            for q in range(first, p):
                row_q = entry(world, q, 0, system)
                start = wp.max(first, system.first[q, world])
                below = system.lower[row_p + q, world]
                below -= sum_of_products(system.lower, row_p, system.upper, row_q, start, q, world)
                above = below
                if not symmetric:
                    above = system.upper[row_p + q, world]
                    above -= sum_of_products(system.lower, row_q, system.upper, row_p, start, q, world)
                below = below * system.lower[row_q + q, world]
                system.lower[row_p + q, world] = below
                system.upper[row_p + q, world] = above
                pivot -= below * above
            least = wp.min(least, wp.abs(pivot / diagonal))
            system.lower[row_p + p, world] = scalar(1.0) / pivot
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

    @wp.func_native(_ROW_TIMES_X.format(scalar=scalar.__name__, **_ROW_FROM_X))
    def take_row(a: wp.array2d(dtype=scalar), row_p: int, p: int, start: int, x: wp.array2d(dtype=scalar), world: int):
        """Take the products of row p of a factor with x away from x[p]."""

    @wp.func_native(_ROW_TIMES_X.format(scalar=scalar.__name__, **_X_FROM_ROW))
    def take_column(
        a: wp.array2d(dtype=scalar), row_p: int, p: int, start: int, x: wp.array2d(dtype=scalar), world: int
    ):
        """Take row p of a factor times x[p] away from x."""

    @wp.func
    def solve(world: int, begin: int, nv: int, system: System, x: wp.array2d(dtype=scalar)):
        """x := (L U)^-1 x, x by places, of which nv from ``begin`` on count."""
        for p in range(begin, begin + nv):
            take_row(system.lower, entry(world, p, 0, system), p, system.first[p, world], x, world)
        for back in range(nv):
            p = begin + nv - 1 - back
            x[p, world] = x[p, world] * system.lower[entry(world, p, p, system), world]
            take_column(system.upper, entry(world, p, 0, system), p, system.first[p, world], x, world)

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
