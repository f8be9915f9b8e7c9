"""Linear system of a Newton step: sparsity pattern, assembly from the rows, factorisation and solution."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.group.structs import MOST_DOFS
from warp_kernels.solver.newton.parts import FACTORED, ROOM, ROOM_END, part_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types


@functools.cache
def system_functions(scalar: Any, divided: bool = False) -> SimpleNamespace:
    """Return the Warp functions of the system for one precision, of whole worlds or of parts."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    structs = newton_structs(scalar)
    Iterate, System = structs.Iterate, structs.System
    parts = part_functions(scalar, divided)
    native = Native(scalar, 1, "newton")
    zero = scalar(0.0)

    @wp.func
    def entry(world: int, p: int, q: int, system: System):
        """Return the offset of the entry at indices p >= q, q no earlier than the row begins."""
        return system.row_start[p, world] + q

    @wp.func
    def pack(world: int, begin: int, nv: int, room: int, system: System):
        """Pack the rows of nv indices from ``begin`` on, starting at ``room`` among the entries. Return their end.

        If that exceeds the capacity they start at the first entry; if they are too many, the system is only its
        diagonal, which is marked.
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
        """Pack the part's rows after those of the part before, within the capacity. Otherwise it leaves others without
        factors.
        """
        room = iterate.part[ROOM, world]
        iterate.part[ROOM_END, world] = pack(world, begin, nv, room, system)
        if system.is_packed[world] == 0 or entry(world, begin, begin, system) != room:
            iterate.part[FACTORED, world] = 0

    @native.func_native()
    def extend_rows(paths: Paths, tail: int, least: int, system: System, world: int):
        """Extend the rows that a side of a constraint covers to begin at the index ``least`` or before."""

    @native.func_native()
    def clear_row(entries: wp.array2d(dtype=scalar), begin: int, count: int, world: int):
        """Set entries to zero."""

    @wp.func
    def outline(
        world: int, count: int, nv: int, paths: Paths, constraints: Constraints, iterate: Iterate, system: System
    ):
        """Find the start of each row: the first index that one of its constraints in the system covers."""
        begin = parts.first_index(world, iterate)
        for p in range(begin, begin + nv):
            system.first[p, world] = p
        for n in range(count):
            constraint = parts.constraint_of(n, world, iterate)
            if system.active[constraint, world] == 0:
                continue
            least = begin + nv
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail >= 0:
                    # Indices descend from the root to the tail.
                    least = wp.min(least, system.permutation[tail, world])
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail >= 0:
                    extend_rows(paths, tail, least, system, world)
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
        """Set the system to D. Entries above the diagonal of a symmetric system aren't read."""
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            p = system.permutation[k, world]
            begin = entry(world, p, system.first[p, world], system)
            diagonal = entry(world, p, p, system)
            clear_row(system.lower, begin, diagonal - begin, world)
            if not symmetric:
                clear_row(system.upper, begin, diagonal - begin, world)
            system.lower[diagonal, world] = scalar(1.0) / inverse_mass[k, world]

    @wp.func
    def keep_masses(world: int, nv: int, inverse_mass: wp.array2d(dtype=scalar), iterate: Iterate, system: System):
        """Set the part's system to D, and factor it."""
        begin = parts.first_index(world, iterate)
        for n in range(nv):
            system.permutation[parts.dof_of(n, world, iterate), world] = begin + n
            system.first[begin + n, world] = begin + n
        pack_part(world, begin, nv, iterate, system)
        for n in range(nv):
            inverse = inverse_mass[parts.dof_of(n, world, iterate), world]
            system.lower[entry(world, begin + n, begin + n, system), world] = inverse

    @native.func_native()
    def add_sides(
        row: wp.array2d(dtype=vec3),
        here: int,
        there: int,
        paths: Paths,
        tail: int,
        mate: int,
        slope: mat33,
        symmetric: bool,
        system: System,
        world: int,
    ):
        """Subtract the entries of one pair of sides: of a constraint whose rows begin at ``here``, and of another."""

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
        """Subtract ``row_constraint' slope row_other``. Both constraints act on the same paths.

        With ``symmetric`` the entries above the diagonal are unchanged.
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
                here = (2 * constraint + near) * paths.max_depth
                there = (2 * other + side) * paths.max_depth
                add_sides(row, here, there, paths, tail, mate, slope, symmetric, system, world)

    @native.func_native(template="factorise")
    def factors_of(begin: int, nv: int, symmetric: bool, system: System, world: int) -> scalar: ...

    @wp.func
    def factorise(world: int, begin: int, nv: int, symmetric: bool, system: System):
        """Factorise nv indices from ``begin`` on as L U without pivoting, L with a unit diagonal.

        Return the smallest pivot, as a share of its diagonal entry.

        With ``symmetric`` the entries above the diagonal aren't read. If the system exceeds the capacity it returns
        zero.
        """
        least = factors_of(begin, nv, symmetric, system, world)
        if system.is_packed[world] == 0:
            return zero
        return least

    @wp.func
    def spoil(world: int, nv: int, system: System):
        """Set the solution to NaN, if there are no factors."""
        for p in range(nv):
            system.lower[entry(world, p, p, system), world] = scalar(wp.nan)

    @wp.func
    def inverse_pivot(world: int, p: int, system: System):
        """Return one over the pivot at index p, of the factors."""
        return system.lower[entry(world, p, p, system), world]

    @native.func_native()
    def solve(begin: int, nv: int, system: System, x: wp.array2d(dtype=scalar), world: int):
        """Solve in permutation: x := (L U)^-1 x, x in elimination order, of which nv from ``begin`` on count."""

    @wp.func
    def solve_transposed(world: int, nv: int, system: System, x: wp.array2d(dtype=scalar)):
        """Solve in permutation: x := (L U)'^-1 x, x in elimination order. Written out, it takes fewer registers of a GPU than
        with the functions above.
        """
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
