"""Parts of a world that Newton's method solves one at a time, and the elimination order of their degrees of freedom.

A part has constraints, degrees of freedom and trees: those of a world, or of an island. Trees that touch are close in
the order, and leaves come before roots.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Couplings, TreeDofs

# Rows of ``Iterate.part``: the start of the part in each list, its number of trees, the start and end of its rows among
# the entries of the system, and 1 while the system holds factors of all parts.
CONSTRAINTS, DOFS, TREES, NUM_TREES, ROOM, ROOM_END, FACTORED = range(7)
PART_ROWS = 7


@functools.cache
def part_functions(scalar: Any, divided: bool) -> SimpleNamespace:
    """Return the Warp functions for one precision. If worlds are not ``divided``, indices are identical to
    positions.
    """
    Iterate = newton_structs(scalar).Iterate

    @wp.func
    def constraint_of(n: int, world: int, iterate: Iterate):
        """Return the part's constraint at index n."""
        if wp.static(divided):
            return iterate.part_constraint[iterate.part[CONSTRAINTS, world] + n, world]
        else:
            return n

    @wp.func
    def dof_of(n: int, world: int, iterate: Iterate):
        """Return the part's degree of freedom at index n."""
        if wp.static(divided):
            return iterate.part_dof[iterate.part[DOFS, world] + n, world]
        else:
            return n

    @wp.func
    def tree_of(n: int, world: int, iterate: Iterate):
        """Return the part's tree at index n."""
        if wp.static(divided):
            return iterate.part_tree[iterate.part[TREES, world] + n, world]
        else:
            return n

    @wp.func
    def first_index(world: int, iterate: Iterate):
        """Return the part's first index in the elimination order. Parts are contiguous."""
        if wp.static(divided):
            return iterate.part[DOFS, world]
        else:
            return 0

    @wp.func
    def tree_count(world: int, iterate: Iterate, queue: wp.array2d(dtype=int)):
        """Return its number of trees. queue: with capacity for those of a world."""
        if wp.static(divided):
            return iterate.part[NUM_TREES, world]
        else:
            return queue.shape[0]

    return SimpleNamespace(
        constraint_of=constraint_of, dof_of=dof_of, tree_of=tree_of, first_index=first_index, tree_count=tree_count
    )


@functools.cache
def elimination_functions(scalar: Any, divided: bool = False) -> SimpleNamespace:
    """Return the Warp functions of the order for one precision, of whole worlds or of parts."""
    structs = newton_structs(scalar)
    Iterate, System = structs.Iterate, structs.System
    parts = part_functions(scalar, divided)

    @wp.func
    def spread(
        first: int,
        mark: int,
        world: int,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        system: System,
    ):
        """Queue all trees connected to the one at index ``first`` of the queue, near ones first.

        mark: of the trees in the queue; trees with another mark are not. Return the index after the last.
        """
        end = first + 1
        system.tree_mark[system.queue[first, world], world] = mark
        at = first
        while at < end:
            tree = system.queue[at, world]
            for incidence in range(couplings.tree_start[tree, world], couplings.tree_start[tree + 1, world]):
                constraint = couplings.incidence_constraint[incidence, world]
                if system.active[constraint, world] == 0:
                    continue
                for side in range(2):
                    tail = constraints.tail[2 * constraint + side, world]
                    if tail >= 0:
                        other = trees.dof_tree[tail]
                        if system.tree_mark[other, world] < mark:
                            system.tree_mark[other, world] = mark
                            system.queue[end, world] = other
                            end += 1
            at += 1
        return end

    @wp.func
    def permute(
        world: int, trees: TreeDofs, constraints: Constraints, couplings: Couplings, iterate: Iterate, system: System
    ):
        """Compute the permutation of the degrees of freedom."""
        count = parts.tree_count(world, iterate, system.queue)
        if count > 1:
            for n in range(count):
                system.tree_mark[parts.tree_of(n, world, iterate), world] = 0
            queued = int(0)
            for n in range(count):
                tree = parts.tree_of(n, world, iterate)
                if system.tree_mark[tree, world] == 0:
                    system.queue[queued, world] = tree
                    end = spread(queued, 1, world, trees, constraints, couplings, system)
                    # Repeat from the farthest tree, so that each layer is thin.
                    system.queue[queued, world] = system.queue[end - 1, world]
                    queued = spread(queued, 2, world, trees, constraints, couplings, system)
        else:
            system.queue[0, world] = parts.tree_of(0, world, iterate)
        start = int(parts.first_index(world, iterate))
        for back in range(count):
            tree = system.queue[count - 1 - back, world]
            first = trees.tree_dof_start[tree]
            dofs = trees.tree_dof_start[tree + 1] - first
            for i in range(dofs):
                system.permutation[first + i, world] = start + dofs - 1 - i
            start += dofs

    return SimpleNamespace(permute=permute)
