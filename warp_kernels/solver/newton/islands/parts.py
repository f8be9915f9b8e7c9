"""Which constraints, degrees of freedom and trees a function of Newton's method works on: those of a world, or of a part of it."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.structs import newton_structs

# Rows of ``Iterate.part``: where the part begins in each list, how many trees it has, where its rows begin among the entries of the
# system and where they end, and 1 while the system holds factors of all parts.
CONSTRAINTS, DOFS, TREES, NUM_TREES, ROOM, ROOM_END, FACTORED = range(7)
PART_ROWS = 7


@functools.cache
def part_functions(scalar: Any, divided: bool) -> SimpleNamespace:
    """Warp functions for one precision. Where worlds are not ``divided``, numbers are what they count."""
    Iterate = newton_structs(scalar).Iterate

    @wp.func
    def constraint_of(n: int, world: int, iterate: Iterate):
        """The part's constraint at place n."""
        if wp.static(divided):
            return iterate.part_constraint[iterate.part[CONSTRAINTS, world] + n, world]
        else:
            return n

    @wp.func
    def dof_of(n: int, world: int, iterate: Iterate):
        """The part's degree of freedom at place n."""
        if wp.static(divided):
            return iterate.part_dof[iterate.part[DOFS, world] + n, world]
        else:
            return n

    @wp.func
    def tree_of(n: int, world: int, iterate: Iterate):
        """The part's tree at place n."""
        if wp.static(divided):
            return iterate.part_tree[iterate.part[TREES, world] + n, world]
        else:
            return n

    @wp.func
    def first_place(world: int, iterate: Iterate):
        """The first place of the part's degrees of freedom in the system. Parts stand one after the other."""
        if wp.static(divided):
            return iterate.part[DOFS, world]
        else:
            return 0

    @wp.func
    def tree_count(world: int, iterate: Iterate, queue: wp.array2d(dtype=int)):
        """How many trees it has. queue: with room for those of a world."""
        if wp.static(divided):
            return iterate.part[NUM_TREES, world]
        else:
            return queue.shape[0]

    return SimpleNamespace(
        constraint_of=constraint_of, dof_of=dof_of, tree_of=tree_of, first_place=first_place, tree_count=tree_count
    )
