"""Which members are in which cell of the grid.

Each stands in the cell of its centre, in a list by the cell's hash (Teschner et al. 2003, *Optimized spatial hashing for collision
detection of deformable objects*). The order within a list depends on the threads; what is found from it doesn't.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.grid.structs import grid_structs
from warp_kernels.types import kernel_module, warp_types

# Cells are counted so far from the world's origin; what lies beyond is in the last one.
FARTHEST = 1.0e9


@functools.cache
def cell_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of cells for one precision."""
    vec3 = warp_types(scalar).vec3
    farthest = scalar(FARTHEST)

    @wp.func
    def along(position: scalar, width: scalar):
        """The cell of a position along one axis."""
        place = wp.floor(position / width)
        cell = int(0)  # of what is not a number
        if place >= -farthest and place <= farthest:
            cell = int(place)
        elif place > farthest:
            cell = int(farthest)
        elif place < -farthest:
            cell = -int(farthest)
        return cell

    @wp.func
    def cell_of(position: vec3, width: scalar):
        return wp.vec3i(along(position[0], width), along(position[1], width), along(position[2], width))

    @wp.func
    def bucket_of(x: int, y: int, z: int, buckets: int):
        """The list of a cell; ``buckets`` is a power of two."""
        mixed = wp.uint32(x) * wp.uint32(73856093)
        mixed = mixed ^ (wp.uint32(y) * wp.uint32(19349663)) ^ (wp.uint32(z) * wp.uint32(83492791))
        mixed = mixed ^ (mixed >> wp.uint32(15))
        return int(mixed & wp.uint32(buckets - 1))

    return SimpleNamespace(cell_of=cell_of, bucket_of=bucket_of)


@functools.cache
def cell_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels that fill the cells, for one precision."""
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
        """Empty the lists, and the count to which pairs without room are added."""
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
