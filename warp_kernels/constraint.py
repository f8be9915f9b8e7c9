"""Constraint rows in blocks of three: contacts with their friction, joint limits, dry joint friction.

A block is a vector of up to three impulses: normal and two tangents of a contact; one entry for a limit or for dry friction,
whose other two rows are zero. Each side of a block acts on the degrees of freedom from a tail to its root; rows are kept
along that path, already multiplied by L'^-1 (M = L' D L), so that the Delassus matrix J M^-1 J' needs nothing but dot products over
the degrees of freedom that two paths share. The sign of a side is part of its rows: a block's velocity is that of b less that of a.

Layout: ``[block, world]``; row entries ``[(2 block + side) max_depth + d, world]``; Delassus blocks
``[block max_blocks + other, world]``. A world's blocks are shared out among ``lanes`` threads, launched over (lane, world).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import frame_functions
from warp_kernels.factor import factor_kernels
from warp_kernels.spatial import spatial_functions
from warp_kernels.types import CONTACT, FRICTION_LOSS, LOWER_LIMIT, UPPER_LIMIT, kernel_module, warp_types


@functools.cache
def row_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions shared by the rows and by their adjoint."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, spatial, mat33 = t.vec3, t.spatial, t.mat33

    @wp.struct
    class Options:
        """Numbers of :class:`sim.ContactOptions` that the kernels need."""

        dt: scalar
        erp: scalar
        cfm: scalar
        max_correction: scalar
        restitution_threshold: scalar
        limit_margin: scalar

    @wp.func
    def side_sign(side: int):
        return scalar(2 * side - 1)

    @wp.func
    def contact_row(frame: mat33, column: spatial, lever: vec3):
        """Velocity of the contact point along normal and tangents for a unit rate of one degree of freedom."""
        return frame * sp.point_velocity(column, lever)

    @wp.func
    def correction(distance: scalar, options: Options):
        """Velocity bias: linear in the signed distance across the resting state, bounded far inside."""
        return wp.max(options.erp * distance / options.dt, -options.max_correction)

    @wp.func
    def bounces(distance: scalar, approach: scalar, restitution: scalar, options: Options):
        """Whether a contact hits within this step and leaves fast enough to bounce. approach: normal velocity before.

        A slower one goes on to the surface, while a bounce turns back from where it is: with the threshold on the velocity
        after, nothing jumps as restitution goes to zero.
        """
        hits = distance + options.dt * approach < scalar(0.0)
        return hits and restitution * approach < -options.restitution_threshold

    return SimpleNamespace(
        Options=Options, side_sign=side_sign, contact_row=contact_row, correction=correction, bounces=bounces
    )


@functools.cache
def constraint_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels that list the blocks of a world and build their rows, for one precision."""
    t = warp_types(scalar)
    rows = row_functions(scalar)
    factor = factor_kernels(scalar)
    frames = frame_functions(scalar)
    vec3, spatial, mat33 = t.vec3, t.spatial, t.mat33
    module = kernel_module("constraint", scalar)
    Options = rows.Options

    @wp.func
    def joint_block(
        block: int,
        world: int,
        kind: int,
        dof: int,
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
    ):
        """Write a block that acts on one degree of freedom; its side a is the world."""
        block_kind[block, world] = kind
        block_item[block, world] = dof
        block_tail[2 * block, world] = -1
        block_tail[2 * block + 1, world] = dof

    @wp.kernel(module=module, enable_backward=False)
    def list_blocks(
        # Model
        limited_dof: wp.array(dtype=int),
        lossy_dof: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        link_tail_dof: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        geometry_link: wp.array(dtype=int),
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        options: Options,
        # Parameters
        lower_limit: wp.array2d(dtype=scalar),
        upper_limit: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        contact_count: wp.array(dtype=int),
        slot_pair: wp.array2d(dtype=int),
        # Data out
        block_count: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
        block_reference: wp.array2d(dtype=int),
    ):
        """Contacts first, then limits that may be reached, then dry friction. block_tail: [2 block + side, world].

        block_reference: the tree about whose origin a contact point is given, that of b, or of a where b is the world.
        """
        world = wp.tid()
        count = int(0)
        for slot in range(contact_count[world]):
            block_kind[count, world] = CONTACT
            block_item[count, world] = slot
            pair = slot_pair[slot, world]
            link_a = geometry_link[pair_a[pair]]
            link_b = geometry_link[pair_b[pair]]
            tail_a = int(-1)
            tail_b = int(-1)
            if link_a >= 0:
                tail_a = link_tail_dof[link_a]
            if link_b >= 0:
                tail_b = link_tail_dof[link_b]
            block_tail[2 * count, world] = tail_a
            block_tail[2 * count + 1, world] = tail_b
            block_reference[count, world] = frames.reference_tree(link_a, link_b, link_tree)
            count += 1
        for i in range(limited_dof.shape[0]):
            k = limited_dof[i]
            value = q[world, dof_q[k]]
            reach = options.limit_margin + options.dt * wp.abs(qd[world, k] + options.dt * qdd[world, k])
            kind = int(-1)
            if value - lower_limit[wp.min(world, lower_limit.shape[0] - 1), k] < reach:
                kind = LOWER_LIMIT
            if upper_limit[wp.min(world, upper_limit.shape[0] - 1), k] - value < reach:
                if kind < 0:
                    kind = UPPER_LIMIT
                else:
                    # A range so narrow that both are near: a second block.
                    joint_block(count, world, UPPER_LIMIT, k, block_kind, block_item, block_tail)
                    count += 1
            if kind >= 0:
                joint_block(count, world, kind, k, block_kind, block_item, block_tail)
                count += 1
        for i in range(lossy_dof.shape[0]):
            joint_block(count, world, FRICTION_LOSS, lossy_dof[i], block_kind, block_item, block_tail)
            count += 1
        block_count[world] = count

    @wp.kernel(module=module, enable_backward=False)
    def block_rows(
        # Model
        lanes: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        dof_tree: wp.array(dtype=int),
        max_depth: int,
        options: Options,
        # Parameters
        lower_limit: wp.array2d(dtype=scalar),
        upper_limit: wp.array2d(dtype=scalar),
        friction_loss: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        factor_l: wp.array2d(dtype=scalar),
        contact_point: wp.array2d(dtype=vec3),
        contact_frame: wp.array2d(dtype=mat33),
        contact_distance: wp.array2d(dtype=scalar),
        contact_friction: wp.array2d(dtype=scalar),
        contact_restitution: wp.array2d(dtype=scalar),
        block_count: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
        block_reference: wp.array2d(dtype=int),
        # Data out
        row: wp.array2d(dtype=vec3),
        rhs: wp.array2d(dtype=vec3),
        bound: wp.array2d(dtype=scalar),
        approach: wp.array2d(dtype=scalar),
    ):
        """Rows along both paths, right-hand side ``J v* + bias``, and the bound: friction, or the impulse of dry friction."""
        lane, world = wp.tid()
        for block in range(lane, block_count[world], lanes):
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
                lever = vec3()
                frame = mat33()
                if kind == CONTACT:
                    reference = origin[block_reference[block, world], world]
                    lever = contact_point[item, world] + (reference - origin[dof_tree[tail], world])
                    frame = contact_frame[item, world] * rows.side_sign(side)
                for d in range(depth + 1):
                    k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                    value = vec3()
                    if kind == CONTACT:
                        value = rows.contact_row(frame, subspace[k, world], lever)
                    elif d == depth:
                        value = vec3(scalar(1.0), scalar(0.0), scalar(0.0))
                        if kind == UPPER_LIMIT:
                            value = -value
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
            bias = scalar(0.0)
            limit = scalar(0.0)
            if kind == CONTACT:
                distance = contact_distance[item, world]
                bias = rows.correction(distance, options)
                restitution = contact_restitution[item, world]
                if rows.bounces(distance, before, restitution, options):
                    bias = wp.min(bias, restitution * before)
                limit = contact_friction[item, world]
            elif kind == LOWER_LIMIT:
                gap = q[world, dof_q[item]] - lower_limit[wp.min(world, lower_limit.shape[0] - 1), item]
                bias = rows.correction(gap, options)
            elif kind == UPPER_LIMIT:
                gap = upper_limit[wp.min(world, upper_limit.shape[0] - 1), item] - q[world, dof_q[item]]
                bias = rows.correction(gap, options)
            else:
                limit = options.dt * friction_loss[wp.min(world, friction_loss.shape[0] - 1), item]
            rhs[block, world] = free_velocity + vec3(bias, scalar(0.0), scalar(0.0))
            bound[block, world] = limit
            approach[block, world] = before

    @wp.kernel(module=module, enable_backward=False)
    def delassus(
        # Model
        lanes: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        dof_tree: wp.array(dtype=int),
        max_depth: int,
        max_blocks: int,
        options: Options,
        # Data in
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        block_count: wp.array(dtype=int),
        block_tail: wp.array2d(dtype=int),
        # Data out
        matrix: wp.array2d(dtype=mat33),
    ):
        """Block row of ``J M^-1 J' + cfm``, the lower half and its mirror."""
        lane, world = wp.tid()
        for block in range(lane, block_count[world], lanes):
            for other in range(block + 1):
                total = mat33()
                if other == block:
                    total = options.cfm * wp.identity(n=3, dtype=scalar)
                for side in range(4):
                    here = 2 * block + side // 2
                    there = 2 * other + side % 2
                    tail = block_tail[here, world]
                    mate = block_tail[there, world]
                    if tail >= 0 and mate >= 0:
                        if dof_tree[tail] == dof_tree[mate]:
                            shared = wp.min(dof_depth[tail], dof_depth[mate]) + 1
                            for d in range(shared):
                                k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                                m = factor.path_dof(dof_depth, dof_row_start, ancestor, mate, d)
                                if k != m:
                                    break
                                total += wp.outer(
                                    row[here * max_depth + d, world] * factor_d[k, world],
                                    row[there * max_depth + d, world],
                                )
                matrix[block * max_blocks + other, world] = total
                if other < block:
                    matrix[other * max_blocks + block, world] = wp.transpose(total)

    return SimpleNamespace(module=module, list_blocks=list_blocks, block_rows=block_rows, delassus=delassus)
