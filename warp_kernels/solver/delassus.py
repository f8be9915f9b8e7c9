"""Which blocks act on each other, and the matrix through which they do: ``A = J M^-1 J' + cfm + softness``.

Two blocks act on each other only where they hold on to a common tree. A block's *incidence* is its hold on one tree: it has one, or
two where it stands between two trees. A row of A has an entry for each block that shares a tree with its own, in ascending order; entries of
a row lie one after the other. Which blocks they are is kept as runs of numbers that follow each other: a world with one tree has one run
per row, and contacts of one pair of geometries, listed together, are one run. A is symmetric: an entry before the diagonal knows its mirror.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.rows.shared import row_functions
from warp_kernels.types import CONTACT, TORSION, kernel_module, warp_types


@wp.struct
class Couplings:
    """The blocks of each tree and the entries of each row, per world.

    Attributes:
        tree_start: first incidence of each tree, and their number [num_trees + 1, world].
        incidence_block: block of each incidence, ascending within a tree [incidence, world].
        block_incidence: incidence of each side, -1 for the world; both sides have the same one if they share their tree
            [2 block + side, world].
        row: of each row its first entry, its own block's entry, its first run and the one after its last [block, world].
        run: first block of a run, and the one after its last [run, world].
        mirror: for an entry before the diagonal, where its transpose stands [entry, world].
        cursor: scratch [block, world].
    """

    tree_start: wp.array2d(dtype=int)
    incidence_block: wp.array2d(dtype=int)
    block_incidence: wp.array2d(dtype=int)
    row: wp.array2d(dtype=wp.vec4i)
    run: wp.array2d(dtype=wp.vec2i)
    mirror: wp.array2d(dtype=int)
    cursor: wp.array2d(dtype=int)


@functools.cache
def delassus_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels that list the couplings of a world and compute its Delassus matrix, for one precision."""
    t = warp_types(scalar)
    rows = row_functions(scalar)
    factor = factor_kernels(scalar)
    vec3, mat33 = t.vec3, t.mat33
    module = kernel_module("delassus", scalar)
    Options = rows.Options
    none = 2**31 - 1

    @wp.func
    def tree_of(tail: int, dof_tree: wp.array(dtype=int)):
        tree = int(-1)
        if tail >= 0:
            tree = dof_tree[tail]
        return tree

    @wp.func
    def list_incidences(
        count: int, world: int, dof_tree: wp.array(dtype=int), block_tail: wp.array2d(dtype=int), c: Couplings
    ):
        """Sort the sides of the first ``count`` blocks by tree."""
        trees = c.tree_start.shape[0] - 1
        for tree in range(trees + 1):
            c.tree_start[tree, world] = 0
        for block in range(count):
            a = tree_of(block_tail[2 * block, world], dof_tree)
            b = tree_of(block_tail[2 * block + 1, world], dof_tree)
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
        for block in range(count):
            for side in range(2):
                tree = tree_of(block_tail[2 * block + side, world], dof_tree)
                at = int(-1)
                if tree >= 0:
                    at = c.tree_start[tree, world]
                    if side == 1 and tree == tree_of(block_tail[2 * block, world], dof_tree):
                        at = c.block_incidence[2 * block, world]
                    else:
                        c.incidence_block[at, world] = block
                        c.tree_start[tree, world] = at + 1
                c.block_incidence[2 * block + side, world] = at
        for back in range(trees):
            tree = trees - back
            c.tree_start[tree, world] = c.tree_start[tree - 1, world]
        c.tree_start[0, world] = 0

    @wp.func
    def block_at(at: int, end: int, world: int, c: Couplings):
        block = int(none)
        if at < end:
            block = c.incidence_block[at, world]
        return block

    @wp.func
    def list_rows(
        count: int, world: int, dof_tree: wp.array(dtype=int), block_tail: wp.array2d(dtype=int), c: Couplings
    ):
        """Runs and entries of the first ``count`` rows. Returns how many rows found room."""
        entry = int(0)
        run = int(0)
        for block in range(count):
            first_entry = entry
            first_run = run
            a = tree_of(block_tail[2 * block, world], dof_tree)
            b = tree_of(block_tail[2 * block + 1, world], dof_tree)
            at_a = int(0)
            end_a = int(0)
            at_b = int(0)
            end_b = int(0)
            if a >= 0:
                at_a = c.tree_start[a, world]
                end_a = c.tree_start[a + 1, world]
            if b >= 0 and b != a:
                at_b = c.tree_start[b, world]
                end_b = c.tree_start[b + 1, world]
            last = int(-2)
            while at_a < end_a or at_b < end_b:
                next_a = block_at(at_a, end_a, world, c)
                next_b = block_at(at_b, end_b, world, c)
                other = wp.min(next_a, next_b)
                if next_a == other:
                    at_a += 1
                if next_b == other:
                    at_b += 1
                if entry == c.mirror.shape[0]:
                    return block
                if other != last + 1:
                    if run == c.run.shape[0]:
                        return block
                    c.run[run, world] = wp.vec2i(other, other + 1)
                    run += 1
                else:
                    c.run[run - 1, world] = wp.vec2i(c.run[run - 1, world][0], other + 1)
                last = other
                if other < block:
                    place = c.cursor[other, world]
                    c.mirror[entry, world] = place
                    c.cursor[other, world] = place + 1
                elif other == block:
                    c.cursor[block, world] = entry + 1
                    c.row[block, world] = wp.vec4i(first_entry, entry, first_run, first_run)
                entry += 1
            c.row[block, world] = wp.vec4i(first_entry, c.row[block, world][1], first_run, run)
        return count

    @wp.func
    def without_contacts(
        first: int,
        count: int,
        world: int,
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
        block_reference: wp.array2d(dtype=int),
    ):
        """Leave out the contacts from the slot ``first`` on, with their torsion, and move up the blocks after them. Returns
        how many blocks are left.
        """
        kept = int(0)
        for block in range(count):
            kind = block_kind[block, world]
            item = block_item[block, world]
            if (kind != CONTACT and kind != TORSION) or item < first:
                block_kind[kept, world] = kind
                block_item[kept, world] = item
                block_reference[kept, world] = block_reference[block, world]
                for side in range(2):
                    block_tail[2 * kept + side, world] = block_tail[2 * block + side, world]
                kept += 1
        return kept

    @wp.kernel(module=module, enable_backward=False)
    def list_couplings(
        # Model
        dof_tree: wp.array(dtype=int),
        # Data in
        contact_count: wp.array(dtype=int),
        # Data out
        block_count: wp.array(dtype=int),
        block_overflow: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
        block_reference: wp.array2d(dtype=int),
        couplings: Couplings,
    ):
        """Fills ``couplings``. Where rows find no room, the last contacts are dropped and counted in ``block_overflow``; where
        that isn't enough, the last of the other blocks too.
        """
        world = wp.tid()
        count = int(block_count[world])
        contacts = int(contact_count[world])
        list_incidences(count, world, dof_tree, block_tail, couplings)
        fits = list_rows(count, world, dof_tree, block_tail, couplings)
        while fits < count and contacts > 0:
            # Few tries, none of which leaves out much more than it must.
            contacts -= wp.max(contacts // 8, 1)
            count = without_contacts(contacts, count, world, block_kind, block_item, block_tail, block_reference)
            list_incidences(count, world, dof_tree, block_tail, couplings)
            fits = list_rows(count, world, dof_tree, block_tail, couplings)
        if fits < count:
            # The rows before had room with entries for the blocks after them, so that they have it without.
            list_incidences(fits, world, dof_tree, block_tail, couplings)
            list_rows(fits, world, dof_tree, block_tail, couplings)
        block_count[world] = fits
        block_overflow[world] = contact_count[world] - contacts + count - fits

    @wp.func
    def shared_path(
        here: int,
        there: int,
        tail: int,
        mate: int,
        world: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        max_depth: int,
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
    ):
        """Product of two sides of blocks over the degrees of freedom that their paths share."""
        total = mat33()
        for d in range(wp.min(dof_depth[tail], dof_depth[mate]) + 1):
            k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
            if k != factor.path_dof(dof_depth, dof_row_start, ancestor, mate, d):
                break
            total += wp.outer(row[here * max_depth + d, world] * factor_d[k, world], row[there * max_depth + d, world])
        return total

    @wp.kernel(module=module, enable_backward=False)
    def delassus(
        # Model
        threads: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        max_depth: int,
        options: Options,
        # Data in
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        softness: wp.array2d(dtype=scalar),
        block_count: wp.array(dtype=int),
        block_tail: wp.array2d(dtype=int),
        couplings: Couplings,
        # Data out
        matrix: wp.array2d(dtype=mat33),
    ):
        """The entries on the diagonal and below it, and their mirrors."""
        thread, world = wp.tid()
        for block in range(thread, block_count[world], threads):
            place = couplings.row[block, world]
            entry = place[0]
            for r in range(place[2], place[3]):
                run = couplings.run[r, world]
                for other in range(run[0], wp.min(run[1], block + 1)):
                    total = mat33()
                    for side in range(4):
                        here = 2 * block + side // 2
                        there = 2 * other + side % 2
                        tail = block_tail[here, world]
                        mate = block_tail[there, world]
                        if tail >= 0 and mate >= 0:
                            total += shared_path(
                                here, there, tail, mate, world, dof_depth, dof_row_start, ancestor, max_depth,
                                factor_d, row,
                            )  # fmt: skip
                    if other == block:
                        total += options.cfm * wp.identity(n=3, dtype=scalar)
                        total[0, 0] += softness[block, world]
                        matrix[entry, world] = total
                    else:
                        matrix[entry, world] = total
                        matrix[couplings.mirror[entry, world], world] = wp.transpose(total)
                    entry += 1

    return SimpleNamespace(module=module, list_couplings=list_couplings, delassus=delassus)
