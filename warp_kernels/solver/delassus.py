"""Couplings between constraints, and the Delassus matrix of a world: ``A = J M^-1 J' + cfm + compliance``.

Two constraints are coupled only if they act on a common tree (:mod:`warp_kernels.constraints.listing`). A row of A has
an entry for each constraint that shares a tree with its own, in ascending order; entries of a row are contiguous. These
constraints are stored as runs of consecutive numbers: a world with one tree has one run per row, and contacts of one
pair of geometries, listed together, are one run. A is symmetric: an entry before the diagonal stores the index of its
mirror.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.constraints.kinds import is_of_contact
from warp_kernels.constraints.listing import sort_incidences, tree_of
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def delassus_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels that list the couplings of a world and compute its Delassus matrix, for one precision."""
    t = warp_types(scalar)
    factor, immovable = factor_kernels(scalar), immovable_functions(scalar)
    vec3, mat33 = t.vec3, t.mat33
    module = kernel_module("delassus", scalar)
    Options = solver_structs(scalar).Options
    none = 2**31 - 1

    @wp.func
    def constraint_at(at: int, end: int, world: int, c: Couplings):
        constraint = int(none)
        if at < end:
            constraint = c.incidence_constraint[at, world]
        return constraint

    @wp.func
    def list_rows(count: int, world: int, dof_tree: wp.array(dtype=int), constraints: Constraints, c: Couplings):
        """List runs and entries of the first ``count`` rows. Return the number of rows within capacity."""
        entry = int(0)
        run = int(0)
        for constraint in range(count):
            first_entry = entry
            first_run = run
            a = tree_of(constraints.tail[2 * constraint, world], dof_tree)
            b = tree_of(constraints.tail[2 * constraint + 1, world], dof_tree)
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
                next_a = constraint_at(at_a, end_a, world, c)
                next_b = constraint_at(at_b, end_b, world, c)
                other = wp.min(next_a, next_b)
                if next_a == other:
                    at_a += 1
                if next_b == other:
                    at_b += 1
                if entry == c.mirror.shape[0]:
                    return constraint
                if other != last + 1:
                    if run == c.run.shape[0]:
                        return constraint
                    c.run[run, world] = wp.vec2i(other, other + 1)
                    run += 1
                else:
                    c.run[run - 1, world] = wp.vec2i(c.run[run - 1, world][0], other + 1)
                last = other
                if other < constraint:
                    slot = c.cursor[other, world]
                    c.mirror[entry, world] = slot
                    c.cursor[other, world] = slot + 1
                elif other == constraint:
                    c.cursor[constraint, world] = entry + 1
                    c.row[constraint, world] = wp.vec4i(first_entry, entry, first_run, first_run)
                entry += 1
            c.row[constraint, world] = wp.vec4i(first_entry, c.row[constraint, world][1], first_run, run)
        return count

    @wp.func
    def without_contacts(
        first: int,
        count: int,
        world: int,
        constraints: Constraints,
    ):
        """Drop the contacts from slot ``first`` on, with their spinning and rolling friction, and move up the
        constraints after them. Return the number of constraints left.
        """
        kept = int(0)
        for constraint in range(count):
            kind = constraints.kind[constraint, world]
            item = constraints.item[constraint, world]
            if not is_of_contact(kind) or item < first:
                constraints.kind[kept, world] = kind
                constraints.item[kept, world] = item
                constraints.reference[kept, world] = constraints.reference[constraint, world]
                for side in range(2):
                    constraints.tail[2 * kept + side, world] = constraints.tail[2 * constraint + side, world]
                kept += 1
        return kept

    @wp.kernel(module=module, enable_backward=False)
    def list_couplings(
        # Model
        trees: TreeDofs,
        # Data in
        contact_count: wp.array(dtype=int),
        # Data out
        constraints: Constraints,
        constraint_overflow: wp.array(dtype=int),
        couplings: Couplings,
    ):
        """Fill ``couplings``, which has the constraints of each tree already. If rows exceed the capacity, the last
        contacts are dropped and counted in ``constraint_overflow``; if that isn't enough, the last of the other
        constraints too.
        """
        world = wp.tid()
        count = int(constraints.count[world])
        contacts = int(contact_count[world])
        fits = list_rows(count, world, trees.dof_tree, constraints, couplings)
        while fits < count and contacts > 0:
            # Few attempts, none of which drops much more than necessary.
            contacts -= wp.max(contacts // 8, 1)
            count = without_contacts(contacts, count, world, constraints)
            sort_incidences(count, world, trees.dof_tree, constraints, couplings)
            fits = list_rows(count, world, trees.dof_tree, constraints, couplings)
        if fits < count:
            # The remaining rows fitted with entries for the constraints after them, so they fit without.
            sort_incidences(fits, world, trees.dof_tree, constraints, couplings)
            list_rows(fits, world, trees.dof_tree, constraints, couplings)
        constraints.count[world] = fits
        constraint_overflow[world] = contact_count[world] - contacts + count - fits

    @wp.func
    def shared_path(
        here: int,
        there: int,
        tail: int,
        mate: int,
        world: int,
        paths: Paths,
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
    ):
        """Return the product of two sides of constraints over the degrees of freedom that their paths share."""
        total = mat33()
        for d in range(wp.min(paths.dof_depth[tail], paths.dof_depth[mate]) + 1):
            k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
            if k != factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, mate, d):
                break
            total += wp.outer(
                row[here * paths.max_depth + d, world] * factor_d[k, world], row[there * paths.max_depth + d, world]
            )
        return total

    @wp.kernel(module=module, enable_backward=False)
    def delassus(
        # Model
        threads: int,
        paths: Paths,
        options: Options,
        # Data in
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        compliance: wp.array2d(dtype=scalar),
        constraints: Constraints,
        couplings: Couplings,
        # Data out
        matrix: wp.array2d(dtype=mat33),
    ):
        """Compute the entries on the diagonal and below it, and their mirrors. A constraint whose sides move alike has
        zero entries.
        """
        thread, world = wp.tid()
        for constraint in range(thread, constraints.count[world], threads):
            ranges = couplings.row[constraint, world]
            entry = ranges[0]
            for r in range(ranges[2], ranges[3]):
                run = couplings.run[r, world]
                for other in range(run[0], wp.min(run[1], constraint + 1)):
                    total = mat33()
                    apart = scalar(0.0)
                    for side in range(4):
                        here = 2 * constraint + side // 2
                        there = 2 * other + side % 2
                        tail = constraints.tail[here, world]
                        mate = constraints.tail[there, world]
                        if tail >= 0 and mate >= 0:
                            product = shared_path(
                                here, there, tail, mate, world, paths, factor_d, row,
                            )  # fmt: skip
                            total += product
                            if here == there:
                                apart += wp.trace(product)
                    if other == constraint:
                        if immovable.move_together(wp.trace(total), apart):
                            total = mat33()
                        total += options.cfm * wp.identity(n=3, dtype=scalar)
                        total[0, 0] += compliance[constraint, world]
                        matrix[entry, world] = total
                    else:
                        matrix[entry, world] = total
                        matrix[couplings.mirror[entry, world], world] = wp.transpose(total)
                    entry += 1

    return SimpleNamespace(module=module, list_couplings=list_couplings, delassus=delassus)
