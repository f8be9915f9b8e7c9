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
def listing_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions that decide on constraints and write them, for one precision.

    A candidate, such as a joint with limits, has up to two constraints, of consecutive kinds. Functions that decide
    return them as bits: 1 for the first one and 2 for the second one.
    """
    vec2 = warp_types(scalar).vec2
    common, limit = row_functions(scalar), limit_functions(scalar)
    frames = geometry_frame_functions(scalar)
    RowInputs, Geometries = solver_structs(scalar).RowInputs, collision_structs(scalar).Geometries
    zero = scalar(0.0)

    @wp.func
    def has_part(bits: int, part: int):
        """Return whether a candidate has its first constraint (part 0) or its second one (1)."""
        return ((bits >> part) & 1) == 1

    @wp.func
    def resisting_kind(pyramids_resist: int):
        """Return the kind of the first constraint of a contact with spinning and rolling friction."""
        kind = int(TORSION)
        if pyramids_resist == 1:
            kind = SPIN
        return kind

    @wp.func
    def resisting_bits(resistance: vec2, pyramids_resist: int):
        """Decide on spinning and rolling friction: separate constraints on pyramids, otherwise one."""
        bits = int(0)
        if resistance[0] > zero:
            bits = 1
        if resistance[1] > zero:
            if pyramids_resist == 1:
                bits += 2
            else:
                bits = 1
        return bits

    @wp.func
    def limit_bits(k: int, world: int, dof_q: wp.array(dtype=int), inputs: RowInputs, qdd: wp.array2d(dtype=scalar)):
        """Decide on the lower and the upper limit of a degree of freedom: both if the range is narrow."""
        value = inputs.q[world, dof_q[k]]
        cutoff = limit.cutoff(inputs.options, inputs.qd[world, k] + inputs.options.dt * qdd[world, k])
        bits = int(0)
        if limit.limit_gap(inputs.limits, LOWER_LIMIT, k, value, world) < cutoff:
            bits = 1
        if limit.limit_gap(inputs.limits, UPPER_LIMIT, k, value, world) < cutoff:
            bits += 2
        return bits

    @wp.func
    def cone_bits(i: int, k: int, world: int, inputs: RowInputs, qdd: wp.array2d(dtype=scalar)):
        """Decide on a limit of the spherical joint that begins at degree of freedom k."""
        rate = zero
        for axis in range(3):
            rate += inputs.cones.row[i, world][axis] * (
                inputs.qd[world, k + axis] + inputs.options.dt * qdd[world, k + axis]
            )
        cutoff = limit.cutoff(inputs.options, rate)
        bits = int(0)
        if inputs.cones.gap[i, world] - common.value_of(inputs.limits.margin, world, k) < cutoff:
            bits = 1
        return bits

    @wp.func
    def actuator_bits(i: int, world: int, inputs: RowInputs):
        """Decide on an actuator: it exceeds its force limit."""
        bits = int(0)
        if inputs.actuator_row[i, world][1] > zero:
            bits = 1
        return bits

    @wp.func
    def is_off(switch_on: wp.array2d(dtype=int), number: int, world: int):
        """Return whether an equality constraint is switched off; switch_on: no rows if none switches."""
        if switch_on.shape[0] == 0:
            return False
        return switch_on[number, world] == 0

    @wp.func
    def tendon_bits(
        i: int,
        world: int,
        switch_on: wp.array2d(dtype=int),
        tendon_active: wp.array2d(dtype=int),
        tendon_switch: wp.array(dtype=int),
    ):
        """Decide on a constraint of tendons."""
        off = bool(False)
        if tendon_switch[i] >= 0:
            off = is_off(switch_on, tendon_switch[i], world)
        bits = int(0)
        if tendon_active[i, world] == 1 and not off:
            bits = 1
        return bits

    @wp.func
    def coupling_bits(i: int, world: int, constrained: Constrained, switch_on: wp.array2d(dtype=int)):
        """Decide on two coupled joints."""
        bits = int(1)
        if is_off(switch_on, constrained.anchor_link_a.shape[0] + i, world):
            bits = 0
        return bits

    @wp.func
    def anchor_bits(i: int, world: int, constrained: Constrained, switch_on: wp.array2d(dtype=int)):
        """Decide on a pair of anchors: points, and orientations if they are welded."""
        bits = int(1)
        if constrained.anchor_welded[i] == 1:
            bits = 3
        if is_off(switch_on, i, world):
            bits = 0
        return bits

    @wp.func
    def path_constraint(
        constraint: int, world: int, kind: int, item: int, tail_a: int, tail_b: int, constraints: Constraints
    ):
        """Write a constraint that acts on the paths to two degrees of freedom, -1 for the world."""
        constraints.kind[constraint, world] = kind
        constraints.item[constraint, world] = item
        constraints.tail[2 * constraint, world] = tail_a
        constraints.tail[2 * constraint + 1, world] = tail_b

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
        tail_a = int(-1)
        tail_b = int(-1)
        if link_a >= 0:
            tail_a = link_tail_dof[link_a]
        if link_b >= 0:
            tail_b = link_tail_dof[link_b]
        path_constraint(constraint, world, kind, item, tail_a, tail_b, constraints)
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
    def tendon_constraint(i: int, constraint: int, world: int, constrained: Constrained, constraints: Constraints):
        """Write a constraint of tendons."""
        tail_a = constrained.tendon_tail[2 * i]
        tail_b = constrained.tendon_tail[2 * i + 1]
        path_constraint(constraint, world, constrained.tendon_kind[i], i, tail_a, tail_b, constraints)

    return SimpleNamespace(
        has_part=has_part,
        resisting_kind=resisting_kind,
        resisting_bits=resisting_bits,
        limit_bits=limit_bits,
        cone_bits=cone_bits,
        actuator_bits=actuator_bits,
        tendon_bits=tendon_bits,
        coupling_bits=coupling_bits,
        anchor_bits=anchor_bits,
        path_constraint=path_constraint,
        link_constraint=link_constraint,
        contact_constraint=contact_constraint,
        tendon_constraint=tendon_constraint,
    )


@functools.cache
def constraint_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel that lists the constraints of a world, for one precision."""
    t = warp_types(scalar)
    f = listing_functions(scalar)
    module = kernel_module("constraint", scalar)
    RowInputs, Geometries = solver_structs(scalar).RowInputs, collision_structs(scalar).Geometries

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
            f.contact_constraint(
                count, world, CONTACT, slot, geometries, link_tail_dof, pair_a, pair_b, slot_pair, constraints
            )
            count += 1
        if contact_resistance.shape[0] > 0:
            for slot in range(contact_count[world]):
                bits = f.resisting_bits(contact_resistance[slot, world], pyramids_resist)
                for part in range(2):
                    if f.has_part(bits, part):
                        f.contact_constraint(
                            count, world, f.resisting_kind(pyramids_resist) + part, slot, geometries, link_tail_dof,
                            pair_a, pair_b, slot_pair, constraints,
                        )  # fmt: skip
                        count += 1
        for i in range(constrained.limited_dof.shape[0]):
            k = constrained.limited_dof[i]
            bits = f.limit_bits(k, world, dof_q, inputs, qdd)
            for part in range(2):
                if f.has_part(bits, part):
                    f.path_constraint(count, world, LOWER_LIMIT + part, k, -1, k, constraints)
                    count += 1
        for i in range(constrained.cone_dof.shape[0]):
            k = constrained.cone_dof[i]
            if f.cone_bits(i, k, world, inputs, qdd) > 0:
                f.path_constraint(count, world, CONE_LIMIT, i, -1, k + 2, constraints)
                count += 1
        for i in range(constrained.friction_dof.shape[0]):
            k = constrained.friction_dof[i]
            f.path_constraint(count, world, FRICTION_LOSS, k, -1, k, constraints)
            count += 1
        for i in range(inputs.actuator_row.shape[0]):
            if f.actuator_bits(i, world, inputs) > 0:
                f.path_constraint(count, world, ACTUATOR, i, -1, actuator_dof[i], constraints)
                count += 1
        for i in range(tendon_active.shape[0]):
            if f.tendon_bits(i, world, switch_on, tendon_active, tendon_switch) > 0:
                f.tendon_constraint(i, count, world, constrained, constraints)
                count += 1
        for i in range(constrained.coupling_dof.shape[0]):
            if f.coupling_bits(i, world, constrained, switch_on) > 0:
                tail_a = constrained.coupling_other[i]
                f.path_constraint(count, world, COUPLING, i, tail_a, constrained.coupling_dof[i], constraints)
                count += 1
        for i in range(constrained.anchor_link_a.shape[0]):
            bits = f.anchor_bits(i, world, constrained, switch_on)
            for part in range(2):
                if f.has_part(bits, part):
                    f.link_constraint(
                        count, world, POINT + part, i, constrained.anchor_link_a[i], constrained.anchor_link_b[i],
                        link_tail_dof, geometries.link_tree, constraints,
                    )  # fmt: skip
                    count += 1
        constraints.count[world] = count
        sort_incidences(count, world, trees.dof_tree, constraints, couplings)

    return SimpleNamespace(module=module, list_constraints=list_constraints)
