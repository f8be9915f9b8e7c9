"""Constraint rows in blocks of three: contacts with their friction, joint limits, dry joint friction, actuators beyond
their force limit, equality constraints.

A block is a vector of up to three impulses: normal and two tangents of a contact; its resistance to spinning and to
rolling; those of two points or orientations that coincide; one entry for all that acts on a joint, whose other two rows
are zero. Each side of a block acts on the degrees of freedom from a tail to its root; rows are kept along that path,
already multiplied by L'^-1 (M = L' D L), so that the Delassus matrix J M^-1 J' (:mod:`warp_kernels.solver.delassus`) needs
nothing but dot products over the degrees of freedom that two paths share. The sign of a side is part of its rows: a
block's velocity is that of b less that of a.

Layout: ``[block, world]``; row entries ``[(2 block + side) max_depth + d, world]``. A world's blocks are shared out among so many
``threads``, launched over (thread, world).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import frame_functions
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.rows.contacts import contact_functions
from warp_kernels.solver.rows.geometric import geometric_functions
from warp_kernels.solver.rows.joints import joint_functions
from warp_kernels.solver.rows.limits import limit_functions
from warp_kernels.solver.rows.shared import row_functions
from warp_kernels.types import (
    ACTUATOR,
    CONE_LIMIT,
    CONTACT,
    COUPLING,
    FRICTION_LOSS,
    LOWER_LIMIT,
    ORIENTATION,
    POINT,
    TORSION,
    UPPER_LIMIT,
    kernel_module,
    warp_types,
)


@functools.cache
def constraint_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels that list the blocks of a world and build their rows, for one precision."""
    t = warp_types(scalar)
    rows = row_functions(scalar)
    contacts = contact_functions(scalar)
    geometric = geometric_functions(scalar)
    joints = joint_functions(scalar)
    limit = limit_functions(scalar)
    factor = factor_kernels(scalar)
    frames = frame_functions(scalar)
    vec2, vec3, spatial, mat33 = t.vec2, t.vec3, t.spatial, t.mat33
    module = kernel_module("constraint", scalar)
    Options, Limits = rows.Options, limit.Limits

    @wp.func
    def joint_block(
        block: int,
        world: int,
        kind: int,
        item: int,
        dof: int,
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
    ):
        """Write a block that acts on one degree of freedom; its side a is the world."""
        block_kind[block, world] = kind
        block_item[block, world] = item
        block_tail[2 * block, world] = -1
        block_tail[2 * block + 1, world] = dof

    @wp.func
    def link_block(
        block: int,
        world: int,
        kind: int,
        item: int,
        link_a: int,
        link_b: int,
        link_tail_dof: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
        block_reference: wp.array2d(dtype=int),
    ):
        """Write a block that acts between two links, -1 for the world."""
        block_kind[block, world] = kind
        block_item[block, world] = item
        tail_a = int(-1)
        tail_b = int(-1)
        if link_a >= 0:
            tail_a = link_tail_dof[link_a]
        if link_b >= 0:
            tail_b = link_tail_dof[link_b]
        block_tail[2 * block, world] = tail_a
        block_tail[2 * block + 1, world] = tail_b
        block_reference[block, world] = frames.reference_tree(link_a, link_b, link_tree)

    @wp.kernel(module=module, enable_backward=False)
    def list_blocks(
        # Model
        limited_dof: wp.array(dtype=int),
        lossy_dof: wp.array(dtype=int),
        actuator_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        link_tail_dof: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        geometry_link: wp.array(dtype=int),
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        coupling_dof: wp.array(dtype=int),
        coupling_other: wp.array(dtype=int),
        anchor_link_a: wp.array(dtype=int),
        anchor_link_b: wp.array(dtype=int),
        anchor_welded: wp.array(dtype=int),
        cone_dof: wp.array(dtype=int),
        options: Options,
        # Parameters
        limits: Limits,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        contact_count: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        contact_resistance: wp.array2d(dtype=vec2),
        actuator_row: wp.array2d(dtype=vec3),
        cone_gap: wp.array2d(dtype=scalar),
        cone_row: wp.array2d(dtype=vec3),
        # Data out
        block_count: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
        block_reference: wp.array2d(dtype=int),
    ):
        """Contacts first, so that a contact's block is its slot; then those that resist spinning or rolling, limits that may be
        reached, dry friction, actuators beyond their force limit, couplings, anchors.

        block_tail: [2 block + side, world].
        block_reference: the tree about whose origin a point is given, that of b, or of a where b is the world.
        """
        world = wp.tid()
        count = int(0)
        for slot in range(contact_count[world]):
            pair = slot_pair[slot, world]
            link_block(
                count,
                world,
                CONTACT,
                slot,
                geometry_link[pair_a[pair]],
                geometry_link[pair_b[pair]],
                link_tail_dof,
                link_tree,
                block_kind,
                block_item,
                block_tail,
                block_reference,
            )
            count += 1
        if contact_resistance.shape[0] > 0:
            for slot in range(contact_count[world]):
                resistance = contact_resistance[slot, world]
                if resistance[0] > scalar(0.0) or resistance[1] > scalar(0.0):
                    pair = slot_pair[slot, world]
                    link_block(
                        count,
                        world,
                        TORSION,
                        slot,
                        geometry_link[pair_a[pair]],
                        geometry_link[pair_b[pair]],
                        link_tail_dof,
                        link_tree,
                        block_kind,
                        block_item,
                        block_tail,
                        block_reference,
                    )
                    count += 1
        for i in range(limited_dof.shape[0]):
            k = limited_dof[i]
            value = q[world, dof_q[k]]
            reach = options.limit_margin + options.dt * wp.abs(qd[world, k] + options.dt * qdd[world, k])
            kind = int(-1)
            if limit.limit_gap(limits, LOWER_LIMIT, k, value, world) < reach:
                kind = LOWER_LIMIT
            if limit.limit_gap(limits, UPPER_LIMIT, k, value, world) < reach:
                if kind < 0:
                    kind = UPPER_LIMIT
                else:
                    # A range so narrow that both are near: a second block.
                    joint_block(count, world, UPPER_LIMIT, k, k, block_kind, block_item, block_tail)
                    count += 1
            if kind >= 0:
                joint_block(count, world, kind, k, k, block_kind, block_item, block_tail)
                count += 1
        for i in range(cone_dof.shape[0]):
            k = cone_dof[i]
            rate = scalar(0.0)
            for axis in range(3):
                rate += cone_row[i, world][axis] * (qd[world, k + axis] + options.dt * qdd[world, k + axis])
            reach = options.limit_margin + options.dt * wp.abs(rate)
            if cone_gap[i, world] - rows.value_of(limits.margin, world, k) < reach:
                block_kind[count, world] = CONE_LIMIT
                block_item[count, world] = i
                block_tail[2 * count, world] = -1
                block_tail[2 * count + 1, world] = k + 2
                count += 1
        for i in range(lossy_dof.shape[0]):
            k = lossy_dof[i]
            joint_block(count, world, FRICTION_LOSS, k, k, block_kind, block_item, block_tail)
            count += 1
        for i in range(actuator_row.shape[0]):
            if actuator_row[i, world][1] > scalar(0.0):
                joint_block(count, world, ACTUATOR, i, actuator_dof[i], block_kind, block_item, block_tail)
                count += 1
        for i in range(coupling_dof.shape[0]):
            block_kind[count, world] = COUPLING
            block_item[count, world] = i
            block_tail[2 * count, world] = coupling_other[i]
            block_tail[2 * count + 1, world] = coupling_dof[i]
            count += 1
        for i in range(anchor_link_a.shape[0]):
            for part in range(1 + anchor_welded[i]):
                link_block(
                    count,
                    world,
                    POINT + part,
                    i,
                    anchor_link_a[i],
                    anchor_link_b[i],
                    link_tail_dof,
                    link_tree,
                    block_kind,
                    block_item,
                    block_tail,
                    block_reference,
                )
                count += 1
        block_count[world] = count

    @wp.kernel(module=module, enable_backward=False)
    def block_rows(
        # Model
        threads: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        dof_tree: wp.array(dtype=int),
        max_depth: int,
        options: Options,
        # Parameters
        limits: Limits,
        friction_loss: wp.array2d(dtype=scalar),
        coupling_ratio: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        factor_l: wp.array2d(dtype=scalar),
        actuator_row: wp.array2d(dtype=vec3),
        contact_point: wp.array2d(dtype=vec3),
        contact_frame: wp.array2d(dtype=mat33),
        contact_distance: wp.array2d(dtype=scalar),
        contact_friction: wp.array2d(dtype=scalar),
        contact_restitution: wp.array2d(dtype=scalar),
        contact_spring: wp.array2d(dtype=vec2),
        coupling_bias: wp.array2d(dtype=scalar),
        anchor_point: wp.array2d(dtype=vec3),
        anchor_bias: wp.array2d(dtype=vec3),
        anchor_turn: wp.array2d(dtype=vec3),
        cone_gap: wp.array2d(dtype=scalar),
        cone_row: wp.array2d(dtype=vec3),
        block_count: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
        block_reference: wp.array2d(dtype=int),
        # Data out
        row: wp.array2d(dtype=vec3),
        rhs: wp.array2d(dtype=vec3),
        bound: wp.array2d(dtype=scalar),
        softness: wp.array2d(dtype=scalar),
        approach: wp.array2d(dtype=scalar),
    ):
        """Rows along both paths, right-hand side ``J v* + bias``, and the bound: friction, or the largest impulse.

        softness: what a compliant block adds to its first diagonal entry; for an actuator all that stands there, without cfm.
        """
        thread, world = wp.tid()
        for block in range(thread, block_count[world], threads):
            kind = block_kind[block, world]
            item = block_item[block, world]
            free_velocity = vec3()
            before = scalar(0.0)
            for side in range(2):
                tail = block_tail[2 * block + side, world]
                if tail < 0:
                    continue
                at = (2 * block + side) * max_depth
                depth = dof_depth[tail]
                is_geometric = geometric.is_geometric(kind)
                lever = vec3()
                frame = rows.side_sign(side) * wp.identity(n=3, dtype=scalar)
                if is_geometric:
                    point = vec3()
                    if kind == CONTACT or kind == TORSION:
                        point = contact_point[item, world]
                        frame = contact_frame[item, world] * rows.side_sign(side)
                    elif kind == POINT:
                        point = anchor_point[item, world]
                    lever = point + (origin[block_reference[block, world], world] - origin[dof_tree[tail], world])
                for d in range(depth + 1):
                    k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                    value = vec3()
                    if is_geometric:
                        value = frame * geometric.motion(kind, subspace[k, world], lever)
                    else:
                        value[0] = joints.joint_row(kind, item, side, depth - d, world, coupling_ratio, cone_row)
                    row[at + d, world] = value
                    free_velocity += value * (qd[world, k] + options.dt * qdd[world, k])
                    before += value[0] * qd[world, k]
                # Multiply by L'^-1: deepest first.
                for back in range(depth):
                    d = depth - back
                    k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                    value = row[at + d, world]
                    first = dof_row_start[k]
                    for e in range(d):
                        row[at + e, world] -= factor_l[first + e, world] * value
            rhs[block, world] = free_velocity
            approach[block, world] = before
        # In a loop of its own: what it takes needs no registers beside what the rows take.
        for block in range(thread, block_count[world], threads):
            kind = block_kind[block, world]
            item = block_item[block, world]
            before = approach[block, world]
            bias = vec2()  # and softness
            most = scalar(0.0)
            others = vec3()  # biases of three rows
            if kind == CONTACT:
                bias = contacts.contact_bias(
                    contact_distance[item, world],
                    before,
                    contact_restitution[item, world],
                    contact_spring,
                    item,
                    world,
                    options,
                )
                most = contact_friction[item, world]
            elif kind == FRICTION_LOSS:
                most = options.dt * rows.value_of(friction_loss, world, item)
            elif kind == COUPLING:
                bias[0] = coupling_bias[item, world]
                most = scalar(wp.inf)
            elif kind == POINT:
                others = anchor_bias[item, world]
            elif kind == ORIENTATION:
                others = anchor_turn[item, world]
            elif kind == CONE_LIMIT:
                first = block_tail[2 * block + 1, world] - 2
                gap = cone_gap[item, world] - rows.value_of(limits.margin, world, first)
                bias = limit.limit_bias(limits, first, gap, options, world)
            elif kind == TORSION:
                most = scalar(0.0)  # its bounds follow the normal impulse
            elif kind == ACTUATOR:
                motor = actuator_row[item, world]
                bias = vec2(motor[0], motor[1] - options.cfm)
                most = motor[2]
            else:
                gap = limit.limit_gap(limits, kind, item, q[world, dof_q[item]], world)
                bias = limit.limit_bias(limits, item, gap, options, world)
            rhs[block, world] += others + vec3(bias[0], scalar(0.0), scalar(0.0))
            bound[block, world] = most
            softness[block, world] = bias[1]

    return SimpleNamespace(module=module, list_blocks=list_blocks, block_rows=block_rows)
