"""Active set of a world. Each constraint has three rows: contacts with friction, joint limits, dry joint friction,
actuators beyond their force limit, equality constraints.

A constraint is a vector of up to three impulses: normal and two tangents of a contact; its resistance to spinning and
to rolling; those of two coincident points or orientations; one entry for constraints on a joint, whose other two rows
are zero. Each side of a constraint acts on the degrees of freedom from a tail to its root. Rows are stored along that
path, already multiplied by L'^-1 (M = L' D L), so that the Delassus matrix J M^-1 J'
(:mod:`warp_kernels.solver.delassus`) needs only dot products over the degrees of freedom that two paths share. The sign
of a side is part of its rows: a constraint's velocity is that of b minus that of a.

An *incidence* is the action of a constraint on one tree: a constraint has one, or two if it connects two trees.

Layout: ``[constraint, world]``; row entries ``[(2 constraint + side) max_depth + d, world]``. ``threads`` threads share
the constraints of a world, launched over (thread, world).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.constraints.kinds import (
    ACTUATOR,
    CONE_LIMIT,
    CONTACT,
    COUPLING,
    FRICTION_LOSS,
    LOWER_LIMIT,
    POINT,
    ROLL,
    SPIN,
    TORSION,
    UPPER_LIMIT,
)
from warp_kernels.constraints.limits import limit_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import Constrained, Constraints, Couplings, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types


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
    # Each start moves to the next one's as the tree fills up.
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


@functools.cache
def constraint_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels that list the constraints of a world and build their rows, for one precision."""
    t = warp_types(scalar)
    common = row_functions(scalar)
    limit = limit_functions(scalar)
    frames = geometry_frame_functions(scalar)
    module = kernel_module("constraint", scalar)
    RowInputs, Geometries = solver_structs(scalar).RowInputs, collision_structs(scalar).Geometries

    @wp.func
    def joint_constraint(
        constraint: int,
        world: int,
        kind: int,
        item: int,
        dof: int,
        constraints: Constraints,
    ):
        """Write a constraint that acts on one degree of freedom; its side a is the world."""
        constraints.kind[constraint, world] = kind
        constraints.item[constraint, world] = item
        constraints.tail[2 * constraint, world] = -1
        constraints.tail[2 * constraint + 1, world] = dof

    @wp.func
    def link_constraint(
        constraint: int,
        world: int,
        kind: int,
        item: int,
        link_a: int,
        link_b: int,
        link_tail_dof: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        constraints: Constraints,
    ):
        """Write a constraint that acts between two links, -1 for the world."""
        constraints.kind[constraint, world] = kind
        constraints.item[constraint, world] = item
        tail_a = int(-1)
        tail_b = int(-1)
        if link_a >= 0:
            tail_a = link_tail_dof[link_a]
        if link_b >= 0:
            tail_b = link_tail_dof[link_b]
        constraints.tail[2 * constraint, world] = tail_a
        constraints.tail[2 * constraint + 1, world] = tail_b
        constraints.reference[constraint, world] = frames.reference_tree(link_a, link_b, link_tree)

    @wp.func
    def contact_constraint(
        constraint: int,
        world: int,
        kind: int,
        slot: int,
        geometries: Geometries,
        link_tail_dof: wp.array(dtype=int),
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        constraints: Constraints,
    ):
        """Write a constraint of a contact."""
        pair = slot_pair[slot, world]
        link_constraint(
            constraint, world, kind, slot, geometries.link[pair_a[pair]], geometries.link[pair_b[pair]], link_tail_dof,
            geometries.link_tree, constraints,
        )  # fmt: skip

    @wp.func
    def is_off(switch_on: wp.array2d(dtype=int), number: int, world: int):
        """Return whether an equality constraint is switched off; switch_on: no rows if none switches."""
        if switch_on.shape[0] == 0:
            return False
        return switch_on[number, world] == 0

    @wp.kernel(module=module, enable_backward=False)
    def list_constraints(
        # Model
        constrained: Constrained,
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        link_tail_dof: wp.array(dtype=int),
        geometries: Geometries,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        trees: TreeDofs,
        pyramids_resist: int,
        # Data in
        switch_on: wp.array2d(dtype=int),
        inputs: RowInputs,
        qdd: wp.array2d(dtype=scalar),
        contact_count: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        contact_resistance: wp.array2d(dtype=t.vec2),
        tendon_active: wp.array2d(dtype=int),
        tendon_switch: wp.array(dtype=int),
        # Data out
        constraints: Constraints,
        couplings: Couplings,
    ):
        """List the active constraints of each world. ``couplings``: incidences of each tree.

        Contacts come first, so that a contact's constraint is its slot. Spinning and rolling friction, limits within
        reach, dry friction, actuators beyond their force limit, tendons, couplings and anchors follow.
        """
        world = wp.tid()
        count = int(0)
        for slot in range(contact_count[world]):
            contact_constraint(
                count, world, CONTACT, slot, geometries, link_tail_dof, pair_a, pair_b, slot_pair, constraints
            )
            count += 1
        if contact_resistance.shape[0] > 0:
            for slot in range(contact_count[world]):
                resistance = contact_resistance[slot, world]
                first = int(0)  # kinds of its constraints
                last = int(-1)
                if pyramids_resist == 1:
                    first = SPIN
                    last = ROLL
                    if resistance[0] <= scalar(0.0):
                        first = ROLL
                    if resistance[1] <= scalar(0.0):
                        last = SPIN
                elif resistance[0] > scalar(0.0) or resistance[1] > scalar(0.0):
                    first = TORSION
                    last = TORSION
                for kind in range(first, last + 1):
                    contact_constraint(
                        count, world, kind, slot, geometries, link_tail_dof, pair_a, pair_b, slot_pair, constraints
                    )
                    count += 1
        for i in range(constrained.limited_dof.shape[0]):
            k = constrained.limited_dof[i]
            value = inputs.q[world, dof_q[k]]
            cutoff = limit.cutoff(inputs.options, inputs.qd[world, k] + inputs.options.dt * qdd[world, k])
            for kind in range(LOWER_LIMIT, UPPER_LIMIT + 1):  # both if the range is narrow
                if limit.limit_gap(inputs.limits, kind, k, value, world) < cutoff:
                    joint_constraint(count, world, kind, k, k, constraints)
                    count += 1
        for i in range(constrained.cone_dof.shape[0]):
            k = constrained.cone_dof[i]
            rate = scalar(0.0)
            for axis in range(3):
                rate += inputs.cones.row[i, world][axis] * (
                    inputs.qd[world, k + axis] + inputs.options.dt * qdd[world, k + axis]
                )
            cutoff = limit.cutoff(inputs.options, rate)
            if inputs.cones.gap[i, world] - common.value_of(inputs.limits.margin, world, k) < cutoff:
                constraints.kind[count, world] = CONE_LIMIT
                constraints.item[count, world] = i
                constraints.tail[2 * count, world] = -1
                constraints.tail[2 * count + 1, world] = k + 2
                count += 1
        for i in range(constrained.friction_dof.shape[0]):
            k = constrained.friction_dof[i]
            joint_constraint(count, world, FRICTION_LOSS, k, k, constraints)
            count += 1
        for i in range(inputs.actuator_row.shape[0]):
            if inputs.actuator_row[i, world][1] > scalar(0.0):
                joint_constraint(count, world, ACTUATOR, i, actuator_dof[i], constraints)
                count += 1
        for i in range(tendon_active.shape[0]):
            off = bool(False)
            if tendon_switch[i] >= 0:
                off = is_off(switch_on, tendon_switch[i], world)
            if tendon_active[i, world] == 1 and not off:
                constraints.kind[count, world] = constrained.tendon_kind[i]
                constraints.item[count, world] = i
                for side in range(2):
                    constraints.tail[2 * count + side, world] = constrained.tendon_tail[2 * i + side]
                count += 1
        for i in range(constrained.coupling_dof.shape[0]):
            if is_off(switch_on, constrained.anchor_link_a.shape[0] + i, world):
                continue
            constraints.kind[count, world] = COUPLING
            constraints.item[count, world] = i
            constraints.tail[2 * count, world] = constrained.coupling_other[i]
            constraints.tail[2 * count + 1, world] = constrained.coupling_dof[i]
            count += 1
        for i in range(constrained.anchor_link_a.shape[0]):
            if is_off(switch_on, i, world):
                continue
            for part in range(1 + constrained.anchor_welded[i]):
                link_constraint(
                    count, world, POINT + part, i, constrained.anchor_link_a[i], constrained.anchor_link_b[i],
                    link_tail_dof, geometries.link_tree, constraints,
                )  # fmt: skip
                count += 1
        constraints.count[world] = count
        sort_incidences(count, world, trees.dof_tree, constraints, couplings)

    return SimpleNamespace(module=module, list_constraints=list_constraints)
