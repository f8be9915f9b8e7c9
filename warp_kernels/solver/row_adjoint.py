"""The adjoint of a step's constraint rows and of its right-hand side, with what :mod:`warp_kernels.solver.impulse` has solved for.

With the names of that file, the adjoint of the rows of block c along the path to its tail is

    g_c = lambda_c w + b_bar_c v+ + sum_c' (D + D')_cc' Y_c'.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.delassus import Couplings
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
    ORIENTATION,
    POINT,
    TORSION,
    kernel_module,
    warp_types,
)


@functools.cache
def row_adjoint_kernels(scalar: Any) -> SimpleNamespace:
    """The way back of the rows, for one precision."""
    t = warp_types(scalar)
    rows = row_functions(scalar)
    factor = factor_kernels(scalar)
    contacts = contact_functions(scalar)
    geometric = geometric_functions(scalar)
    joints = joint_functions(scalar)
    limit = limit_functions(scalar)
    vec2, vec3, spatial, mat33 = t.vec2, t.vec3, t.spatial, t.mat33
    Options, Limits = rows.Options, limit.Limits
    module = kernel_module("row_adjoint", scalar)

    @wp.func
    def entry_bar(
        block: int,
        at: int,
        k: int,
        world: int,
        impulse: wp.array2d(dtype=vec3),
        weight: wp.array2d(dtype=scalar),
        rhs_bar: wp.array2d(dtype=vec3),
        qd_next: wp.array2d(dtype=scalar),
        coupling: wp.array2d(dtype=vec3),
    ):
        """Adjoint of a block's rows at degree of freedom k; ``at`` is the place of its incidence's first in coupling."""
        g = impulse[block, world] * weight[k, world] + rhs_bar[block, world] * qd_next[world, k]
        if coupling.shape[0] > 0:
            g += coupling[at + k, world]
        return g

    @wp.kernel(module=module, enable_backward=False)
    def row_adjoint(
        # Model
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        dof_tree: wp.array(dtype=int),
        tree_dof_start: wp.array(dtype=int),
        max_tree_dofs: int,
        options: Options,
        # Parameters
        limits: Limits,
        coupling_ratio: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qd_next: wp.array2d(dtype=scalar),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        contact_point: wp.array2d(dtype=vec3),
        contact_frame: wp.array2d(dtype=mat33),
        contact_distance: wp.array2d(dtype=scalar),
        contact_restitution: wp.array2d(dtype=scalar),
        contact_spring: wp.array2d(dtype=vec2),
        anchor_point: wp.array2d(dtype=vec3),
        cone_gap: wp.array2d(dtype=scalar),
        cone_row: wp.array2d(dtype=vec3),
        block_count: wp.array(dtype=int),
        block_kind: wp.array2d(dtype=int),
        block_item: wp.array2d(dtype=int),
        block_tail: wp.array2d(dtype=int),
        block_reference: wp.array2d(dtype=int),
        approach: wp.array2d(dtype=scalar),
        impulse: wp.array2d(dtype=vec3),
        weight: wp.array2d(dtype=scalar),
        couplings: Couplings,
        coupling: wp.array2d(dtype=vec3),
        # Adjoint in
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        softness_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        origin_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=spatial),
        contact_point_bar: wp.array2d(dtype=vec3),
        contact_frame_bar: wp.array2d(dtype=mat33),
        contact_distance_bar: wp.array2d(dtype=scalar),
        contact_friction_bar: wp.array2d(dtype=scalar),
        contact_restitution_bar: wp.array2d(dtype=scalar),
        contact_spring_bar: wp.array2d(dtype=vec2),
        coupling_bias_bar: wp.array2d(dtype=scalar),
        anchor_point_bar: wp.array2d(dtype=vec3),
        anchor_bias_bar: wp.array2d(dtype=vec3),
        anchor_turn_bar: wp.array2d(dtype=vec3),
        cone_gap_bar: wp.array2d(dtype=scalar),
        cone_row_bar: wp.array2d(dtype=vec3),
        limit_bars: Limits,
        friction_loss_bar: wp.array2d(dtype=scalar),
        coupling_ratio_bar: wp.array2d(dtype=scalar),
        actuator_row_bar: wp.array2d(dtype=vec3),
    ):
        """Adjoint of the rows and of the right-hand side, block after block."""
        world = wp.tid()
        for block in range(block_count[world]):
            kind = block_kind[block, world]
            item = block_item[block, world]
            b_bar = rhs_bar[block, world]
            if kind == CONTACT:
                contacts.contact_bias_adjoint(
                    contact_distance[item, world],
                    approach[block, world],
                    contact_restitution[item, world],
                    contact_spring,
                    item,
                    world,
                    options,
                    b_bar[0],
                    softness_bar[block, world],
                    contact_distance_bar,
                    contact_restitution_bar,
                    contact_spring_bar,
                )
                contact_friction_bar[item, world] = bound_bar[block, world]
            elif kind == FRICTION_LOSS:
                rows.add_at(friction_loss_bar, world, item, options.dt * bound_bar[block, world])
            elif kind == COUPLING:
                coupling_bias_bar[item, world] = b_bar[0]
            elif kind == POINT:
                anchor_bias_bar[item, world] = b_bar
            elif kind == ORIENTATION:
                anchor_turn_bar[item, world] = b_bar
            elif kind == ACTUATOR:
                actuator_row_bar[item, world] = vec3(b_bar[0], softness_bar[block, world], bound_bar[block, world])
            elif kind == CONE_LIMIT:
                first = block_tail[2 * block + 1, world] - 2
                gap = cone_gap[item, world] - rows.value_of(limits.margin, world, first)
                gap_bar = limit.limit_bias_adjoint(
                    limits, first, gap, options, world, b_bar[0], softness_bar[block, world], limit_bars
                )
                rows.add_at(limit_bars.margin, world, first, -gap_bar)
                cone_gap_bar[item, world] = gap_bar
            elif kind != TORSION:
                q_bar[world, dof_q[item]] += limit.limit_adjoint(
                    limits,
                    kind,
                    item,
                    q[world, dof_q[item]],
                    options,
                    world,
                    b_bar[0],
                    softness_bar[block, world],
                    limit_bars,
                )
        # In loops of their own: all at once has no room in the registers of a GPU.
        for block in range(block_count[world]):
            kind = block_kind[block, world]
            if not geometric.is_geometric(kind):
                continue
            item = block_item[block, world]
            b_bar = rhs_bar[block, world]
            before_bar = scalar(0.0)
            if kind == CONTACT:
                before_bar = contacts.approach_adjoint(
                    contact_distance[item, world],
                    approach[block, world],
                    contact_restitution[item, world],
                    contact_spring,
                    item,
                    world,
                    options,
                    b_bar[0],
                )
            for side in range(2):
                tail = block_tail[2 * block + side, world]
                if tail < 0:
                    continue
                tree = dof_tree[tail]
                reference = block_reference[block, world]
                sign = rows.side_sign(side)
                at = couplings.block_incidence[2 * block + side, world] * max_tree_dofs - tree_dof_start[tree]
                point = vec3()
                frame = sign * wp.identity(n=3, dtype=scalar)
                if kind == CONTACT or kind == TORSION:
                    point = contact_point[item, world]
                    frame = contact_frame[item, world] * sign
                elif kind == POINT:
                    point = anchor_point[item, world]
                lever = point + (origin[reference, world] - origin[tree, world])
                frame_bar = mat33()
                lever_bar = vec3()
                for d in range(dof_depth[tail] + 1):
                    k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                    g = entry_bar(block, at, k, world, impulse, weight, rhs_bar, qd_next, coupling)
                    g += vec3(before_bar * qd[world, k], scalar(0.0), scalar(0.0))
                    column = subspace[k, world]
                    push = g * frame
                    subspace_bar[k, world] += geometric.column_adjoint(kind, push, lever)
                    lever_bar += geometric.lever_adjoint(kind, push, column)
                    motion = geometric.motion(kind, column, lever)
                    frame_bar += wp.outer(g, motion)
                    jacobian = frame * motion
                    qd_bar[world, k] += wp.dot(jacobian, b_bar) + jacobian[0] * before_bar
                if kind == CONTACT or kind == TORSION:
                    contact_frame_bar[item, world] += frame_bar * sign
                    contact_point_bar[item, world] += lever_bar
                elif kind == POINT:
                    anchor_point_bar[item, world] += lever_bar
                origin_bar[reference, world] += lever_bar
                origin_bar[tree, world] -= lever_bar
        for block in range(block_count[world]):
            kind = block_kind[block, world]
            if geometric.is_geometric(kind):
                continue
            item = block_item[block, world]
            b_bar = rhs_bar[block, world]
            for side in range(2):
                tail = block_tail[2 * block + side, world]
                if tail < 0:
                    continue
                own = int(1)  # degrees of freedom of the joint in the row
                if kind == CONE_LIMIT:
                    own = 3
                row_bar = vec3()
                for above in range(own):
                    k = tail - above
                    value = joints.joint_row(kind, item, side, above, world, coupling_ratio, cone_row)
                    qd_bar[world, k] += value * b_bar[0]
                    if kind == CONE_LIMIT or kind == COUPLING:
                        at = couplings.block_incidence[2 * block + side, world] * max_tree_dofs
                        at -= tree_dof_start[dof_tree[tail]]
                        g = entry_bar(block, at, k, world, impulse, weight, rhs_bar, qd_next, coupling)
                        row_bar[2 - above] = g[0]
                if kind == CONE_LIMIT:
                    cone_row_bar[item, world] = row_bar
                if kind == COUPLING and side == 0:
                    rows.add_at(coupling_ratio_bar, world, item, -row_bar[2])

    return SimpleNamespace(module=module, row_adjoint=row_adjoint)
