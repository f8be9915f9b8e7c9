"""Adjoint of rows and right-hand sides on a GPU, over (item, world): see :mod:`warp_kernels.constraints.row_adjoint`,
which takes one constraint of a world after the other.

Items are degrees of freedom, each of which adds up the parts of all constraints on whose paths it is for its motion and
its velocity, and constraints, for their biases and for what else is their own, such as the frame of a contact. Trees
are items of a second launch, for their origins. So the sums have the same order in every run, except those of
parameters that several constraints share: the recovery time, and stiffness, damping and margin of a spherical joint's
limits.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.geometric import geometric_adjoint_functions
from warp_kernels.constraints.joints import joint_row_functions
from warp_kernels.constraints.kinds import (
    follows_contact,
    is_geometric,
    is_of_joint,
    is_of_pyramid,
    is_of_tendon,
    is_second,
)
from warp_kernels.constraints.row_adjoint import bias_adjoint_function
from warp_kernels.constraints.tendon_rows import tendon_row_functions
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constrained, Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def item_adjoint_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision."""
    t = warp_types(scalar)
    vec3, spatial = t.vec3, t.spatial
    factor = factor_kernels(scalar)
    geometric, joints = geometric_adjoint_functions(scalar, False), joint_row_functions(scalar, False)
    tendons, bias_adjoint = tendon_row_functions(scalar, False), bias_adjoint_function(scalar)
    structs = solver_structs(scalar)
    Bounces, Rows, RowInputs, Solved = structs.Bounces, structs.Rows, structs.RowInputs, structs.Solved
    module = kernel_module("item_adjoint", scalar)
    wp.set_module_options({"max_unroll": 1}, module)

    @wp.func
    def comes_after(constraint: int, world: int, constraints: Constraints):
        """Return whether a constraint is the second one of its item, right after the first one."""
        if constraint == 0 or constraint >= constraints.count[world]:
            return False
        kind = constraints.kind[constraint, world]
        if not is_second(kind) or constraints.kind[constraint - 1, world] != kind - 1:
            return False
        return constraints.item[constraint, world] == constraints.item[constraint - 1, world]

    @wp.func
    def is_on_path(k: int, tail: int, paths: Paths):
        """Return whether degree of freedom k is on the path to ``tail``, which is -1 for none."""
        if tail < 0 or paths.dof_depth[k] > paths.dof_depth[tail]:
            return False
        return factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, paths.dof_depth[k]) == k

    @wp.func
    def item_of_constraint(
        i: int,
        kind: int,
        world: int,
        paths: Paths,
        trees: TreeDofs,
        constrained: Constrained,
        inputs: RowInputs,
        constraints: Constraints,
        couplings: Couplings,
        bounces: Bounces,
        solved: Solved,
        rows_bar: Rows,
        bounces_bar: Bounces,
        lever_bar: wp.array2d(dtype=vec3),
        inputs_bar: RowInputs,
    ):
        """Propagate to what is the constraint's own, except through its right-hand side."""
        if is_geometric(kind):
            share_bar = scalar(0.0)
            for side in range(2):
                tail = constraints.tail[2 * i + side, world]
                if tail >= 0:
                    bar, share_bar = geometric.side_adjoint(
                        i, side, tail, share_bar, world, paths, trees, constraints, couplings, bounces, solved,
                        rows_bar, bounces_bar, inputs, inputs_bar,
                    )  # fmt: skip
                    if lever_bar.shape[0] > 0:
                        lever_bar[2 * i + side, world] = bar
            geometric.add_share_bar(i, share_bar, world, constraints, inputs_bar)
        elif is_of_joint(kind):
            joints.row_adjoint(i, world, trees, constraints, couplings, solved, rows_bar, inputs, inputs_bar)
        elif is_of_tendon(kind):
            tendons.row_adjoint(
                i, world, paths, trees, constrained, constraints, couplings, solved, rows_bar, inputs, inputs_bar
            )

    @wp.func
    def item_of_dof(
        k: int,
        world: int,
        paths: Paths,
        trees: TreeDofs,
        constrained: Constrained,
        inputs: RowInputs,
        constraints: Constraints,
        couplings: Couplings,
        bounces: Bounces,
        solved: Solved,
        rows_bar: Rows,
        bounces_bar: Bounces,
        inputs_bar: RowInputs,
    ):
        """Add to the adjoints of the motion and the velocity of degree of freedom k."""
        column_bar = spatial()
        velocity_bar = scalar(0.0)
        for i in range(constraints.count[world]):
            kind = constraints.kind[i, world]
            if is_of_joint(kind):
                velocity_bar += joints.velocity_bar(i, k, world, constraints, rows_bar, inputs)
            elif not is_of_pyramid(kind):
                for side in range(2):
                    tail = constraints.tail[2 * i + side, world]
                    if is_on_path(k, tail, paths):
                        if is_geometric(kind):
                            column, velocity = geometric.dof_adjoint(
                                i, side, tail, k, world, trees, constraints, couplings, bounces, solved, rows_bar,
                                bounces_bar, inputs,
                            )  # fmt: skip
                            column_bar += column
                            velocity_bar += velocity
                        else:
                            velocity_bar += tendons.velocity_bar(
                                i, side, k, world, constrained, constraints, rows_bar, inputs
                            )
        inputs_bar.motions.subspace[k, world] = inputs_bar.motions.subspace[k, world] + column_bar
        inputs_bar.qd[world, k] = inputs_bar.qd[world, k] + velocity_bar

    @wp.kernel(module=module, enable_backward=False)
    def item_row_adjoint(
        # Model
        threads: int,
        later: int,
        paths: Paths,
        trees: TreeDofs,
        dof_q: wp.array(dtype=int),
        constrained: Constrained,
        # Data in
        inputs: RowInputs,
        constraints: Constraints,
        couplings: Couplings,
        bounces: Bounces,
        solved: Solved,
        # Adjoint in
        rows_bar: Rows,
        bounces_bar: Bounces,
        # Adjoint out
        lever_bar: wp.array2d(dtype=vec3),
        inputs_bar: RowInputs,
    ):
        """Compute the adjoint of the rows and of the right-hand side, as the kernel ``row_adjoint``.

        Items: ``threads`` for biases, as many for the rest of what is a constraint's own, degrees of freedom.

        later: 0 for all but spinning and rolling friction, 1 for these: they have the frame and the reference of their
            contact, so that they come in a second launch, without degrees of freedom.
        lever_bar: adjoint of the point of each side, relative to the origin of its tree [2 nc, world]; no rows if there
            is one tree.
        """
        item, world = wp.tid()
        if item >= 2 * threads:
            item_of_dof(
                item - 2 * threads, world, paths, trees, constrained, inputs, constraints, couplings, bounces, solved,
                rows_bar, bounces_bar, inputs_bar,
            )  # fmt: skip
            return
        count = constraints.count[world]
        for first in range(item % threads, count, threads):
            if comes_after(first, world, constraints):
                continue
            # Two limits of a joint share its coordinate: one thread adds to it.
            last = first
            if comes_after(first + 1, world, constraints):
                last += 1
            for i in range(first, last + 1):
                kind = constraints.kind[i, world]
                if is_of_pyramid(kind) or follows_contact(kind) != (later == 1):
                    continue
                if item < threads:
                    bias_adjoint(
                        i, kind, world, dof_q, trees, constraints, bounces, solved, rows_bar, inputs, inputs_bar
                    )
                else:
                    item_of_constraint(
                        i, kind, world, paths, trees, constrained, inputs, constraints, couplings, bounces, solved,
                        rows_bar, bounces_bar, lever_bar, inputs_bar,
                    )  # fmt: skip

    @wp.kernel(module=module, enable_backward=False)
    def origin_adjoint(
        # Model
        trees: TreeDofs,
        # Data in
        constraints: Constraints,
        # Adjoint in
        lever_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        inputs_bar: RowInputs,
    ):
        """Add to the adjoints of the origins of trees, over (tree, world)."""
        tree, world = wp.tid()
        total = vec3()
        for i in range(constraints.count[world]):
            if is_geometric(constraints.kind[i, world]):
                for side in range(2):
                    tail = constraints.tail[2 * i + side, world]
                    if tail >= 0 and trees.dof_tree[tail] != constraints.reference[i, world]:
                        if constraints.reference[i, world] == tree:
                            total += lever_bar[2 * i + side, world]
                        if trees.dof_tree[tail] == tree:
                            total -= lever_bar[2 * i + side, world]
        inputs_bar.motions.origin[tree, world] = inputs_bar.motions.origin[tree, world] + total

    return SimpleNamespace(module=module, item_row_adjoint=item_row_adjoint, origin_adjoint=origin_adjoint)
