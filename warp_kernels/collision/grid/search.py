"""Candidate pairs of each body in a grid of cells.

A pair belongs to the member with the larger bounding radius, which therefore searches no farther than twice its radius,
however large those of others are.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.broad_phase import WORD, candidate_functions
from warp_kernels.collision.grid.cells import cell_functions, grid_structs
from warp_kernels.collision.materials import FIRST, MAXIMUM, PRODUCT, SECOND
from warp_kernels.collision.pairs import FAMILIES
from warp_kernels.collision.structs import collision_structs
from warp_kernels.cpu.native import Native
from warp_kernels.types import kernel_module, warp_types

counts = wp.types.vector(length=len(FAMILIES), dtype=wp.int32)


@functools.cache
def grid_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels that find the candidate pairs, for one precision."""
    t = warp_types(scalar)
    vec3 = t.vec3
    f = cell_functions(scalar)
    pair_test = candidate_functions(scalar)
    structs = grid_structs(scalar)
    Grid, Cells, CandidatePairs = structs.Grid, structs.Cells, structs.CandidatePairs
    Geometries = collision_structs(scalar).Geometries
    module = kernel_module("collision.grid_search", scalar, headers=("collision/grid.h",))
    wp.set_module_options({"max_unroll": 1}, module)

    @wp.func
    def comes_first(g: int, other: int, geometries: Geometries):
        """Return whether g is the first geometry of a pair: the one of the lower type, or the lower one of two of a
        type.
        """
        if geometries.type[g] == geometries.type[other]:
            return g < other
        return geometries.type[g] < geometries.type[other]

    @wp.func
    def combined_rule(member: int, other: int, grid: Grid):
        """Return the rule that combines the friction of two members, the first of them the pair's first."""
        rule = int(PRODUCT)
        if grid.priority[member] > grid.priority[other]:
            rule = int(FIRST)
        elif grid.priority[member] < grid.priority[other]:
            rule = int(SECOND)
        elif grid.takes_larger[member] == 1 and grid.takes_larger[other] == 1:
            rule = int(MAXIMUM)
        return rule

    @wp.func
    def is_excluded(member: int, other: int, grid: Grid):
        for entry in range(grid.excluded_start[member], grid.excluded_start[member + 1]):
            if grid.excluded[entry] == other:
                return True
        return False

    @wp.func
    def is_before(a: int, b: int, other_a: int, other_b: int):
        return a < other_a or (a == other_a and b < other_b)

    @wp.func
    def add_pair(start: int, room: int, count: int, a: int, b: int, rule: int, stated: int, pairs: CandidatePairs):
        """Insert a pair in order among the ``count`` from ``start`` on; beyond the capacity the last ones are
        dropped.
        """
        at = wp.min(count, room)
        while at > 0 and is_before(a, b, pairs.a[start + at - 1], pairs.b[start + at - 1]):
            if at < room:
                pairs.a[start + at] = pairs.a[start + at - 1]
                pairs.b[start + at] = pairs.b[start + at - 1]
                pairs.rule[start + at] = pairs.rule[start + at - 1]
                pairs.stated[start + at] = pairs.stated[start + at - 1]
            at -= 1
        if at < room:
            pairs.a[start + at] = a
            pairs.b[start + at] = b
            pairs.rule[start + at] = rule
            pairs.stated[start + at] = stated

    @Native(None, 1, "grid").func_native(len(FAMILIES))
    def counted(found: counts, family: int) -> counts:
        """Return the counts with one more of a family."""

    @wp.func
    def start_of(family: int, member: int, world: int, members: int, grid: Grid, pairs: CandidatePairs):
        """Return the start of the pairs of a member and a family."""
        worlds = pairs.bits.shape[1]
        return ((family * worlds + world) * members + member) * grid.words * WORD

    @wp.func
    def look_at(
        member: int,
        other: int,
        world: int,
        found: counts,
        colliding: wp.array(dtype=int),
        geometries: Geometries,
        grid: Grid,
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        pairs: CandidatePairs,
    ):
        """Add the pair of two members in the cells, if it belongs to the first one and they may touch. Return the
        counts.
        """
        g = colliding[member]
        h = colliding[other]
        radius = geometry_ball[g, world][0]
        other_radius = geometry_ball[h, world][0]
        if member == other or other_radius > radius or (other_radius == radius and other < member):
            return found
        room = radius + other_radius
        if wp.length_sq(geometry_centre[h, world] - geometry_centre[g, world]) > room * room:
            return found
        if geometries.link[g] == geometries.link[h] or (grid.is_static[member] == 1 and grid.is_static[other] == 1):
            return found
        none = wp.uint32(0)
        if (grid.group[member] & grid.mask[other]) == none or (grid.group[other] & grid.mask[member]) == none:
            return found
        if is_excluded(member, other, grid):
            return found
        a = int(g)
        b = int(h)
        first = int(member)
        second = int(other)
        if not comes_first(g, h, geometries):
            a = int(h)
            b = int(g)
            first = int(other)
            second = int(member)
        family = grid.family[16 * geometries.type[a] + geometries.type[b]]
        start = start_of(family, member, world, colliding.shape[0], grid, pairs)
        rule = combined_rule(first, second, grid)
        add_pair(start, grid.words * WORD, found[family], a, b, rule, -1, pairs)
        return counted(found, family)

    @wp.func
    def look_around(
        member: int,
        world: int,
        found: counts,
        colliding: wp.array(dtype=int),
        geometries: Geometries,
        grid: Grid,
        cells: Cells,
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        pairs: CandidatePairs,
    ):
        """Search the cells for all members that may touch one. Return the counts."""
        centre = geometry_centre[colliding[member], world]
        search_radius = scalar(2.0) * geometry_ball[colliding[member], world][0]
        across = vec3(search_radius, search_radius, search_radius)
        low = f.cell_of(centre - across, grid.width)
        high = f.cell_of(centre + across, grid.width)
        number = float(high[0] - low[0] + 1) * float(high[1] - low[1] + 1) * float(high[2] - low[2] + 1)
        if number > float(colliding.shape[0]):
            # Its radius covers more cells than there are members.
            for other in range(colliding.shape[0]):
                if grid.in_cells[other] == 1:
                    found = look_at(
                        member, other, world, found, colliding, geometries, grid, geometry_centre, geometry_ball, pairs
                    )
            return found
        for x in range(low[0], high[0] + 1):
            for y in range(low[1], high[1] + 1):
                for z in range(low[2], high[2] + 1):
                    other = cells.head[f.bucket_of(x, y, z, cells.head.shape[0]), world]
                    while other >= 0:
                        # Cells of the same hash are searched in their own turn.
                        if cells.cell[other, world] == wp.vec3i(x, y, z):
                            found = look_at(
                                member, other, world, found, colliding, geometries, grid, geometry_centre,
                                geometry_ball, pairs,
                            )  # fmt: skip
                        other = cells.following[other, world]
        return found

    @wp.kernel(module=module, enable_backward=False)
    def search_grid(
        # Model
        colliding: wp.array(dtype=int),
        geometries: Geometries,
        grid: Grid,
        num_families: int,
        # Data in
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        geometry_axis: wp.array2d(dtype=vec3),
        cells: Cells,
        # Data out
        candidates: CandidatePairs,
        constraint_overflow: wp.array(dtype=int),
    ):
        """Find the candidate pairs of each member. Dropped pairs are added to ``constraint_overflow``."""
        member, world = wp.tid()
        members = colliding.shape[0]
        g = colliding[member]
        found = counts()
        for entry in range(grid.partner_start[member], grid.partner_start[member + 1]):
            other = grid.partner[entry]
            a = int(g)
            b = int(other)
            if not comes_first(g, other, geometries):
                a = int(other)
                b = int(g)
            if pair_test.may_touch(a, b, world, geometries, geometry_centre, geometry_ball, geometry_axis):
                family = grid.family[16 * geometries.type[a] + geometries.type[b]]
                start = start_of(family, member, world, members, grid, candidates)
                add_pair(
                    start, grid.words * WORD, found[family], a, b, grid.partner_rule[entry],
                    grid.partner_stated[entry], candidates,
                )  # fmt: skip
                found = counted(found, family)
        if grid.in_cells[member] == 1:
            found = look_around(
                member, world, found, colliding, geometries, grid, cells, geometry_centre, geometry_ball, candidates
            )
        for family in range(num_families):
            for word in range(grid.words):
                # The lowest bits, as many as there are pairs.
                left = wp.clamp(found[family] - word * WORD, 0, WORD)
                bits = wp.uint32(0)
                if left > 0:
                    bits = (wp.uint32(2) << wp.uint32(left - 1)) - wp.uint32(1)
                candidates.bits[(family * members + member) * grid.words + word, world] = bits
            beyond = found[family] - grid.words * WORD
            if beyond > 0:
                wp.atomic_add(constraint_overflow, world, beyond)

    return SimpleNamespace(module=module, search_grid=search_grid)
