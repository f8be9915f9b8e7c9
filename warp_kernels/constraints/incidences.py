"""Which constraints hold on to each tree.

A constraint's *incidence* is its hold on one tree: it has one, or two where it stands between two trees.
"""

import warp as wp

from warp_kernels.solver.structs import Constraints, Couplings


@wp.func
def tree_of(tail: int, dof_tree: wp.array(dtype=int)):
    tree = int(-1)
    if tail >= 0:
        tree = dof_tree[tail]
    return tree


@wp.func
def sort_incidences(count: int, world: int, dof_tree: wp.array(dtype=int), constraints: Constraints, c: Couplings):
    """Sort the sides of the first ``count`` constraints by tree."""
    trees = c.tree_start.shape[0] - 1
    for tree in range(trees + 1):
        c.tree_start[tree, world] = 0
    for constraint in range(count):
        a = tree_of(constraints.tail[2 * constraint, world], dof_tree)
        b = tree_of(constraints.tail[2 * constraint + 1, world], dof_tree)
        if a >= 0:
            c.tree_start[a, world] += 1
        if b >= 0 and b != a:
            c.tree_start[b, world] += 1
    total = int(0)
    for tree in range(trees):
        own = c.tree_start[tree, world]
        c.tree_start[tree, world] = total
        total += own
    # Each start moves on to the next one's as the tree fills up.
    for constraint in range(count):
        for side in range(2):
            tree = tree_of(constraints.tail[2 * constraint + side, world], dof_tree)
            at = int(-1)
            if tree >= 0:
                at = c.tree_start[tree, world]
                if side == 1 and tree == tree_of(constraints.tail[2 * constraint, world], dof_tree):
                    at = c.constraint_incidence[2 * constraint, world]
                else:
                    c.incidence_constraint[at, world] = constraint
                    c.tree_start[tree, world] = at + 1
            c.constraint_incidence[2 * constraint + side, world] = at
    for back in range(trees):
        tree = trees - back
        c.tree_start[tree, world] = c.tree_start[tree - 1, world]
    c.tree_start[0, world] = 0
