"""From impulses to the next velocity, ``v+ = v* + M^-1 J' lambda``, and the hand-written adjoint of the whole constrained step.

With ``A = J M^-1 J' + cfm``, ``b = J v* + bias`` and the free step ``M (v* - qd) = dt (tau - h)``, and cotangents of v+, A and b at hand,
nothing is differentiated through a factorisation. With

    w = M^-1 (v+_bar + J' b_bar),   u = v+ - v* = M^-1 J' lambda,   Y = M^-1 J',   D = A_bar - b_bar lambda',

the adjoint of the mass matrix is ``-w u' - Y D Y'`` (only its entries at ancestors matter), that of the free step is the gradient of
``-dt w . ID(q, qd, (v* - qd)/dt)``, and that of the rows of block c along the path to its tail is

    g_c = lambda_c w + b_bar_c v+ + sum_c' (D + D')_cc' Y_c'.

D is zero where the sweeps have converged, and not there at all for the adjoint of the solution (:mod:`warp_kernels.implicit`).

Y and its products are kept for each incidence of a block and a tree (:mod:`warp_kernels.delassus`), ``[incidence max_tree_dofs + i,
world]`` with i counted from the first degree of freedom of the tree, ``tree_dof_start``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.delassus import Couplings
from warp_kernels.factor import factor_kernels
from warp_kernels.rows.contacts import contact_functions
from warp_kernels.rows.geometric import geometric_functions
from warp_kernels.rows.joints import joint_functions
from warp_kernels.rows.limits import limit_functions
from warp_kernels.rows.shared import row_functions
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
def impulse_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels that apply impulses, and those of the way back, for one precision."""
    t = warp_types(scalar)
    rows = row_functions(scalar)
    factor = factor_kernels(scalar)
    contacts = contact_functions(scalar)
    geometric = geometric_functions(scalar)
    joints = joint_functions(scalar)
    limit = limit_functions(scalar)
    vec2, vec3, spatial, mat33 = t.vec2, t.vec3, t.spatial, t.mat33
    Options, Limits = rows.Options, limit.Limits
    module = kernel_module("impulse", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def apply_impulses(
        # Model
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        max_depth: int,
        dt: scalar,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        block_count: wp.array(dtype=int),
        block_tail: wp.array2d(dtype=int),
        # Data out
        response: wp.array2d(dtype=scalar),
        qd_next: wp.array2d(dtype=scalar),
    ):
        """response: M^-1 J' lambda, [dof, world]."""
        world = wp.tid()
        nv = dof_depth.shape[0]
        for k in range(nv):
            response[k, world] = scalar(0.0)
        for block in range(block_count[world]):
            for side in range(2):
                here = 2 * block + side
                tail = block_tail[here, world]
                if tail >= 0:
                    for d in range(dof_depth[tail] + 1):
                        k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                        response[k, world] += wp.dot(row[here * max_depth + d, world], impulse[block, world])
        if block_count[world] > 0:
            for k in range(nv):
                response[k, world] = response[k, world] * factor_d[k, world]
            factor.solve_lower(dof_row_start, dof_depth, ancestor, factor_l, response, nv, world)
        for k in range(nv):
            qd_next[world, k] = qd[world, k] + dt * qdd[world, k] + response[k, world]

    @wp.kernel(module=module, enable_backward=False)
    def velocity_adjoint(
        # Model
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        max_depth: int,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        block_count: wp.array(dtype=int),
        block_tail: wp.array2d(dtype=int),
        qd_next_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
        impulse_bar: wp.array2d(dtype=vec3),
    ):
        """impulse_bar = J M^-1 v+_bar; weight: v+_bar half way through that solve [dof, world]."""
        world = wp.tid()
        nv = dof_depth.shape[0]
        for k in range(nv):
            weight[k, world] = qd_next_bar[world, k]
        factor.solve_transposed(dof_row_start, dof_depth, ancestor, factor_l, weight, nv, world)
        for k in range(nv):
            weight[k, world] = weight[k, world] * factor_d[k, world]
        for block in range(block_count[world]):
            total = vec3()
            for side in range(2):
                here = 2 * block + side
                tail = block_tail[here, world]
                if tail >= 0:
                    for d in range(dof_depth[tail] + 1):
                        k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                        total += row[here * max_depth + d, world] * weight[k, world]
            impulse_bar[block, world] = total

    @wp.kernel(module=module, enable_backward=False)
    def weight_adjoint(
        # Model
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        max_depth: int,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        block_count: wp.array(dtype=int),
        block_tail: wp.array2d(dtype=int),
        rhs_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
    ):
        """w = M^-1 (v+_bar + J' b_bar), from where :func:`velocity_adjoint` has stopped."""
        world = wp.tid()
        for block in range(block_count[world]):
            for side in range(2):
                here = 2 * block + side
                tail = block_tail[here, world]
                if tail >= 0:
                    for d in range(dof_depth[tail] + 1):
                        k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                        share = wp.dot(row[here * max_depth + d, world], rhs_bar[block, world])
                        weight[k, world] += share * factor_d[k, world]
        factor.solve_lower(dof_row_start, dof_depth, ancestor, factor_l, weight, dof_depth.shape[0], world)

    @wp.kernel(module=module, enable_backward=False)
    def block_response(
        # Model
        lanes: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        dof_tree: wp.array(dtype=int),
        tree_dof_start: wp.array(dtype=int),
        max_depth: int,
        max_tree_dofs: int,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        block_count: wp.array(dtype=int),
        block_tail: wp.array2d(dtype=int),
        couplings: Couplings,
        # Adjoint out
        response: wp.array2d(dtype=vec3),
    ):
        """Y = M^-1 J' of the incidences of a block."""
        lane, world = wp.tid()
        for block in range(lane, block_count[world], lanes):
            for side in range(2):
                here = 2 * block + side
                tail = block_tail[here, world]
                incidence = couplings.block_incidence[here, world]
                if incidence >= 0:
                    tree = dof_tree[tail]
                    first = tree_dof_start[tree]
                    at = incidence * max_tree_dofs - first
                    if side == 0 or couplings.block_incidence[here - 1, world] != incidence:
                        for k in range(first, tree_dof_start[tree + 1]):
                            response[at + k, world] = vec3()
                    for d in range(dof_depth[tail] + 1):
                        k = factor.path_dof(dof_depth, dof_row_start, ancestor, tail, d)
                        response[at + k, world] += row[here * max_depth + d, world] * factor_d[k, world]
                    if side == 1 or couplings.block_incidence[here + 1, world] != incidence:
                        for k in range(first, tree_dof_start[tree + 1]):
                            value = response[at + k, world]
                            for d in range(dof_depth[k]):
                                entry = dof_row_start[k] + d
                                value -= response[at + ancestor[entry], world] * factor_l[entry, world]
                            response[at + k, world] = value

    @wp.func
    def incidence_between(block: int, start: int, end: int, world: int, couplings: Couplings):
        """A block's incidence with the tree whose incidences are those from start to before end; -1 if it has none."""
        incidence = couplings.block_incidence[2 * block + 1, world]
        if incidence < start or incidence >= end:
            incidence = couplings.block_incidence[2 * block, world]
            if incidence < start or incidence >= end:
                incidence = -1
        return incidence

    @wp.kernel(module=module, enable_backward=False)
    def block_coupling(
        # Model
        lanes: int,
        dof_tree: wp.array(dtype=int),
        tree_dof_start: wp.array(dtype=int),
        max_tree_dofs: int,
        # Data in
        block_count: wp.array(dtype=int),
        block_tail: wp.array2d(dtype=int),
        couplings: Couplings,
        matrix_bar: wp.array2d(dtype=mat33),
        response: wp.array2d(dtype=vec3),
        # Adjoint out
        coupling: wp.array2d(dtype=vec3),
    ):
        """G = (D + D') Y of the incidences of a block: for each, the sum over the blocks that hold on to its tree."""
        lane, world = wp.tid()
        for block in range(lane, block_count[world], lanes):
            for side in range(2):
                incidence = couplings.block_incidence[2 * block + side, world]
                if incidence < 0 or (side == 1 and incidence == couplings.block_incidence[2 * block, world]):
                    continue
                tree = dof_tree[block_tail[2 * block + side, world]]
                start = couplings.tree_start[tree, world]
                end = couplings.tree_start[tree + 1, world]
                dofs = tree_dof_start[tree + 1] - tree_dof_start[tree]
                at = incidence * max_tree_dofs
                for i in range(dofs):
                    coupling[at + i, world] = vec3()
                place = couplings.row[block, world]
                entry = place[0]
                for r in range(place[2], place[3]):
                    run = couplings.run[r, world]
                    for other in range(run[0], run[1]):
                        mate = incidence_between(other, start, end, world, couplings) * max_tree_dofs
                        if mate >= 0:
                            m = matrix_bar[entry, world]
                            for i in range(dofs):
                                coupling[at + i, world] += m * response[mate + i, world]
                        entry += 1

    @wp.kernel(module=module, enable_backward=False)
    def free_step_adjoint(
        # Model
        lanes: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        dof_q: wp.array(dtype=int),
        dof_tree: wp.array(dtype=int),
        tree_dof_start: wp.array(dtype=int),
        max_tree_dofs: int,
        dt: scalar,
        # Parameters
        damping: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        impulse_response: wp.array2d(dtype=scalar),
        couplings: Couplings,
        weight: wp.array2d(dtype=scalar),
        response: wp.array2d(dtype=vec3),
        coupling: wp.array2d(dtype=vec3),
        qd_next_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        power_weight: wp.array2d(dtype=scalar),
        mass_bar: wp.array2d(dtype=scalar),
        mass_bar_diagonal: wp.array2d(dtype=scalar),
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        tau_bar: wp.array2d(dtype=scalar),
        damping_bar: wp.array2d(dtype=scalar),
        armature_bar: wp.array2d(dtype=scalar),
        stiffness_bar: wp.array2d(dtype=scalar),
        rest_position_bar: wp.array2d(dtype=scalar),
    ):
        """One degree of freedom: power_weight = -dt w, packed M_bar of the impulses, and the terms on the joint's own diagonal.

        weight holds w, response Y and coupling G, both empty where D isn't there; the step's implicit diagonal is armature + dt damping + dt^2 stiffness.
        """
        lane, world = wp.tid()
        for k in range(lane, dof_depth.shape[0], lanes):
            w = weight[k, world]
            u = impulse_response[k, world]
            diagonal = -w * u
            first = dof_row_start[k]
            for d in range(dof_depth[k]):
                j = ancestor[first + d]
                mass_bar[first + d, world] = -w * impulse_response[j, world] - weight[j, world] * u
            if coupling.shape[0] > 0:
                tree = dof_tree[k]
                for incidence in range(couplings.tree_start[tree, world], couplings.tree_start[tree + 1, world]):
                    at = incidence * max_tree_dofs - tree_dof_start[tree]
                    y = response[at + k, world]
                    diagonal -= scalar(0.5) * wp.dot(y, coupling[at + k, world])
                    for d in range(dof_depth[k]):
                        mass_bar[first + d, world] -= wp.dot(y, coupling[at + ancestor[first + d], world])
            mass_bar_diagonal[k, world] = diagonal
            power_weight[world, k] = -dt * w
            tau_bar[world, k] += dt * w
            change = dt * qdd[world, k]
            free = qd[world, k] + change
            damp = damping[wp.min(world, damping.shape[0] - 1), k]
            spring = stiffness[wp.min(world, stiffness.shape[0] - 1), k]
            rows.add_at(armature_bar, world, k, diagonal - w * change)
            rows.add_at(damping_bar, world, k, dt * (diagonal - w * free))
            # v*_bar reaches qd directly as M w less the implicit diagonal's share; the rows add theirs in row_adjoint.
            qd_bar[world, k] += qd_next_bar[world, k] - dt * damp * w
            if dof_q[k] >= 0:
                qd_bar[world, k] -= dt * dt * spring * w
                stretch = q[world, dof_q[k]] - rest_position[wp.min(world, rest_position.shape[0] - 1), k] + dt * free
                q_bar[world, dof_q[k]] -= dt * spring * w
                rows.add_at(stiffness_bar, world, k, dt * (dt * diagonal - w * stretch))
                rows.add_at(rest_position_bar, world, k, dt * spring * w)

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
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        softness_bar: wp.array2d(dtype=scalar),
        couplings: Couplings,
        coupling: wp.array2d(dtype=vec3),
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

    return SimpleNamespace(
        module=module,
        apply_impulses=apply_impulses,
        velocity_adjoint=velocity_adjoint,
        weight_adjoint=weight_adjoint,
        block_response=block_response,
        block_coupling=block_coupling,
        free_step_adjoint=free_step_adjoint,
        row_adjoint=row_adjoint,
    )
