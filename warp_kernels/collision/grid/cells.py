"""Grid of cells: its arrays, and the members of each cell.

Each member is in the cell of its centre, in a list by the cell's hash (Teschner et al. 2003, *Optimized spatial hashing
for collision detection of deformable objects*). The order within a list depends on the threads; the candidate pairs
don't.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module, warp_types


@functools.cache
def grid_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision. A *member* is a geometry of a possible pair, by its index in
    ``colliding``.
    """

    @wp.struct
    class Grid:
        """Rules of which members may touch, and the offsets of each one's candidate pairs.

        Attributes:
            width: of a cell [m].
            words: words of broad-phase bits of each member for each family, with a capacity of 32 pairs each.
            in_cells: 1 for members in the cells; others are partners of those [member].
            is_static: 1 for members that no force moves [member].
            group: collision group bits [member].
            mask: the groups that it collides with [member].
            priority: contact priority [member].
            takes_larger: 1 if the pair takes the larger friction of two that both have 1 [member].
            partner_start: start of the partners of each member in ``partner``, and their end [member + 1].
            partner: geometries that a member is always compared with [partner].
            partner_rule: rule that combines their friction, a code of :mod:`warp_kernels.collision.materials`
                [partner].
            partner_stated: number of the two among the pairs with their own friction, -1 without [partner].
            excluded_start: start of the excluded members of each member in ``excluded``, and their end [member + 1].
            excluded: members that a member in the cells is never compared with [excluded].
            family: index of the family of two types among those present, at 16 type + other type [16 * 16].
        """

        width: scalar
        words: int
        in_cells: wp.array(dtype=int)
        is_static: wp.array(dtype=int)
        group: wp.array(dtype=wp.uint32)
        mask: wp.array(dtype=wp.uint32)
        priority: wp.array(dtype=int)
        takes_larger: wp.array(dtype=int)
        partner_start: wp.array(dtype=int)
        partner: wp.array(dtype=int)
        partner_rule: wp.array(dtype=int)
        partner_stated: wp.array(dtype=int)
        excluded_start: wp.array(dtype=int)
        excluded: wp.array(dtype=int)
        family: wp.array(dtype=int)

    @wp.struct
    class Cells:
        """Members of each cell, as lists by the hash of the cell.

        Attributes:
            head: first member of each list, -1 for none [bucket, world].
            following: the member after each one in its list, -1 for none [member, world].
            cell: of each member, in whole widths along x, y and z [member, world].
        """

        head: wp.array2d(dtype=int)
        following: wp.array2d(dtype=int)
        cell: wp.array2d(dtype=wp.vec3i)

    @wp.struct
    class CandidatePairs:
        """Candidate pairs of each world.

        Those of member m of a world w and the family of index f are the first of the ``32 words`` from ``((f num_worlds
        + w) num_members + m) 32 words`` on, in order of their geometries.

        Attributes:
            a: first geometry of each pair.
            b: second geometry of each pair.
            rule: rule that combines their friction.
            stated: number of each pair among those with their own friction, -1 without.
            bits: a bit for each pair [(f num_members + m) words, world].
        """

        a: wp.array(dtype=wp.int32)
        b: wp.array(dtype=wp.int32)
        rule: wp.array(dtype=wp.int32)
        stated: wp.array(dtype=wp.int32)
        bits: wp.array2d(dtype=wp.uint32)

    return SimpleNamespace(Grid=Grid, Cells=Cells, CandidatePairs=CandidatePairs)


# Range of cells from the world's origin; anything beyond is in the last one.
FARTHEST = 1.0e9


@functools.cache
def cell_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of cells for one precision."""
    vec3 = warp_types(scalar).vec3
    farthest = scalar(FARTHEST)

    @wp.func
    def along(position: scalar, width: scalar):
        """Return the cell of a position along one axis."""
        index = wp.floor(position / width)
        cell = int(0)  # for NaN
        if index >= -farthest and index <= farthest:
            cell = int(index)
        elif index > farthest:
            cell = int(farthest)
        elif index < -farthest:
            cell = -int(farthest)
        return cell

    @wp.func
    def cell_of(position: vec3, width: scalar):
        return wp.vec3i(along(position[0], width), along(position[1], width), along(position[2], width))

    @wp.func
    def bucket_of(x: int, y: int, z: int, buckets: int):
        """Return the list of a cell; ``buckets`` is a power of two."""
        mixed = wp.uint32(x) * wp.uint32(73856093)
        mixed = mixed ^ (wp.uint32(y) * wp.uint32(19349663)) ^ (wp.uint32(z) * wp.uint32(83492791))
        mixed = mixed ^ (mixed >> wp.uint32(15))
        return int(mixed & wp.uint32(buckets - 1))

    return SimpleNamespace(cell_of=cell_of, bucket_of=bucket_of)


@functools.cache
def cell_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels that fill the cells, for one precision."""
    vec3 = warp_types(scalar).vec3
    f = cell_functions(scalar)
    structs = grid_structs(scalar)
    Grid, Cells = structs.Grid, structs.Cells
    module = kernel_module("collision.grid_cells", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def clear_cells(
        # Data out
        cells: Cells,
        constraint_overflow: wp.array(dtype=int),
    ):
        """Empty the lists, and the count of dropped pairs."""
        bucket, world = wp.tid()
        cells.head[bucket, world] = -1
        if bucket == 0:
            constraint_overflow[world] = 0

    @wp.kernel(module=module, enable_backward=False)
    def fill_cells(
        # Model
        colliding: wp.array(dtype=int),
        grid: Grid,
        # Data in
        geometry_centre: wp.array2d(dtype=vec3),
        # Data out
        cells: Cells,
    ):
        member, world = wp.tid()
        if grid.in_cells[member] == 0:
            return
        cell = f.cell_of(geometry_centre[colliding[member], world], grid.width)
        cells.cell[member, world] = cell
        bucket = f.bucket_of(cell[0], cell[1], cell[2], cells.head.shape[0])
        cells.following[member, world] = wp.atomic_exch(cells.head, bucket, world, member)

    return SimpleNamespace(module=module, clear_cells=clear_cells, fill_cells=fill_cells)
