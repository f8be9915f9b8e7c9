"""The adjoint of a step's constraint rows and of its right-hand side, with what :mod:`warp_kernels.solver.impulse` has solved for.

With the names of that file, the adjoint of the rows of constraint c along the path to its tail is

    g_c = lambda_c w + b_bar_c v+ + sum_c' (D + D')_cc' Y_c'.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.contacts import contact_row_functions
from warp_kernels.constraints.geometric import geometric_functions
from warp_kernels.constraints.joints import joint_row_functions
from warp_kernels.constraints.kinds import (
    ACTUATOR,
    CONE_LIMIT,
    CONTACT,
    COUPLING,
    FRICTION_LOSS,
    ORIENTATION,
    POINT,
    SPIN,
    TORSION,
    has_own_kernels,
    is_geometric,
    is_of_tendon,
)
from warp_kernels.constraints.limits import limit_functions
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.dynamics.factor import factor_kernels
from warp_kernels.solver.structs import Constrained, Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"row_adjoint_kernels": [(True,), (False,)]}


@functools.cache
def row_adjoint_kernels(scalar: Any, geometric_rows: bool = True) -> SimpleNamespace:
    """The way back of the rows, for one precision.

    Without ``geometric_rows`` what is left beside :mod:`warp_kernels.solver.newton.group.adjoint`: that of right-hand sides, and of the rows
    of joints and tendons.
    """
    t = warp_types(scalar)
    common = row_functions(scalar)
    factor = factor_kernels(scalar)
    contact_rows = contact_row_functions(scalar)
    geometric = geometric_functions(scalar)
    joint_rows = joint_row_functions(scalar)
    limit = limit_functions(scalar)
    reference_rows = reference_row_functions(scalar)
    vec3, mat33 = t.vec3, t.mat33
    zero = scalar(0.0)
    structs = solver_structs(scalar)
    Options, Limits, Contacts, Cones = structs.Options, structs.Limits, structs.Contacts, structs.Cones
    Equalities, Motions, Rows, Bounces = structs.Equalities, structs.Motions, structs.Rows, structs.Bounces
    References = structs.References
    module = kernel_module("row_adjoint" if geometric_rows else "joint_row_adjoint", scalar)

    @wp.func
    def entry_bar(
        constraint: int,
        at: int,
        k: int,
        world: int,
        impulse: wp.array2d(dtype=vec3),
        weight: wp.array2d(dtype=scalar),
        rhs_bar: wp.array2d(dtype=vec3),
        gain: scalar,
        coupled_response: wp.array2d(dtype=vec3),
    ):
        """Adjoint of a constraint's rows at degree of freedom k; ``at`` is the place of its incidence's first in coupled_response.

        gain: the velocity after the step, less what the rows don't hold of that before.
        """
        g = impulse[constraint, world] * weight[k, world] + rhs_bar[constraint, world] * gain
        if coupled_response.shape[0] > 0:
            g += coupled_response[at + k, world]
        return g

    @wp.kernel(name="row_adjoint" if geometric_rows else "joint_row_adjoint", module=module, enable_backward=False)
    @used_arguments_only
    def row_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        dof_q: wp.array(dtype=int),
        constrained: Constrained,
        options: Options,
        # Parameters
        limits: Limits,
        coupling_ratio: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        motions: Motions,
        contacts: Contacts,
        equalities: Equalities,
        cones: Cones,
        tendon_row: wp.array3d(dtype=scalar),
        references: References,
        constraints: Constraints,
        bounces: Bounces,
        impulse: wp.array2d(dtype=vec3),
        weight: wp.array2d(dtype=scalar),
        lag_weight: wp.array2d(dtype=scalar),
        couplings: Couplings,
        coupled_response: wp.array2d(dtype=vec3),
        # Adjoint in
        rows_bar: Rows,
        distance_share: wp.array2d(dtype=scalar),
        bounces_bar: Bounces,
        # Adjoint out
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        motions_bar: Motions,
        contacts_bar: Contacts,
        equalities_bar: Equalities,
        cones_bar: Cones,
        tendon_row_bar: wp.array3d(dtype=scalar),
        tendon_bound_bar: wp.array2d(dtype=scalar),
        options_bar: Options,
        limits_bar: Limits,
        references_bar: References,
        friction_loss_bar: wp.array2d(dtype=scalar),
        coupling_ratio_bar: wp.array2d(dtype=scalar),
        actuator_row_bar: wp.array2d(dtype=vec3),
    ):
        """Adjoint of the rows and of the right-hand side, constraint after constraint.

        distance_share: of smoothed gradients (:mod:`warp_kernels.solver.newton.smoothing`); no rows without.
        """
        world = wp.tid()
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            if kind >= SPIN:  # see mujoco.resistance
                continue
            item = constraints.item[constraint, world]
            b_bar = rows_bar.rhs[constraint, world]
            if distance_share.shape[0] > 0:
                b_bar = b_bar * distance_share[constraint, world]
            if reference_rows.is_referred(references, kind):
                bar = vec3(b_bar[0], rows_bar.softness[constraint, world], scalar(0.0))
                reference_rows.add_reference_bar(references_bar, kind, item, world, bar)
                if kind == CONTACT:
                    contacts_bar.friction[item, world] = rows_bar.bound[constraint, world]
                elif kind == FRICTION_LOSS:
                    common.add_at(friction_loss_bar, world, item, options.dt * rows_bar.bound[constraint, world])
                elif is_of_tendon(kind):
                    tendon_bound_bar[item, world] = rows_bar.bound[constraint, world]
                elif kind == POINT:
                    equalities_bar.anchor_bias[item, world] = b_bar
                elif kind == ORIENTATION:
                    equalities_bar.anchor_turn[item, world] = b_bar
            elif kind == CONTACT:
                bouncing = bool(False)
                if bounces.free.shape[0] > 0:
                    bouncing = bounces.free[constraint, world] != scalar(0.0)
                if not bouncing:
                    contact_rows.contact_bias_adjoint(
                        contacts.distance[item, world],
                        common.contact_correction(constraint, world, trees, constraints, options),
                        contacts.spring,
                        item,
                        world,
                        options,
                        b_bar[0],
                        rows_bar.softness[constraint, world],
                        contacts_bar.distance,
                        contacts_bar.spring,
                        options_bar,
                    )
                contacts_bar.friction[item, world] = rows_bar.bound[constraint, world]
            elif kind == FRICTION_LOSS:
                common.add_at(friction_loss_bar, world, item, options.dt * rows_bar.bound[constraint, world])
            elif kind == COUPLING:
                equalities_bar.coupling_bias[item, world] = b_bar[0]
            elif kind == POINT:
                equalities_bar.anchor_bias[item, world] = b_bar * equalities.anchor_frame[2 * item, world]
            elif kind == ORIENTATION:
                equalities_bar.anchor_turn[item, world] = b_bar * equalities.anchor_frame[2 * item + 1, world]
            elif kind == ACTUATOR:
                actuator_row_bar[item, world] = vec3(
                    b_bar[0], rows_bar.softness[constraint, world], rows_bar.bound[constraint, world]
                )
            elif kind == CONE_LIMIT:
                first = constraints.tail[2 * constraint + 1, world] - 2
                gap = cones.gap[item, world] - common.value_of(limits.margin, world, first)
                gap_bar = limit.limit_bias_adjoint(
                    limits,
                    first,
                    gap,
                    options,
                    world,
                    b_bar[0],
                    rows_bar.softness[constraint, world],
                    limits_bar,
                    options_bar,
                )
                common.add_at(limits_bar.margin, world, first, -gap_bar)
                cones_bar.gap[item, world] = gap_bar
            elif kind != TORSION:
                q_bar[world, dof_q[item]] += limit.limit_adjoint(
                    limits,
                    kind,
                    item,
                    q[world, dof_q[item]],
                    options,
                    world,
                    b_bar[0],
                    rows_bar.softness[constraint, world],
                    limits_bar,
                    options_bar,
                )
        # In loops of their own: all at once has no room in the registers of a GPU.
        if wp.static(geometric_rows):
            for constraint in range(constraints.count[world]):
                kind = constraints.kind[constraint, world]
                if not is_geometric(kind):
                    continue
                item = constraints.item[constraint, world]
                b_bar = rows_bar.rhs[constraint, world]
                share = reference_rows.reference(references, kind, item, world)[2]
                share_bar = scalar(0.0)
                before_bar = scalar(0.0)
                free_bar = scalar(0.0)
                late_impulse = vec3()
                if bounces.free.shape[0] > 0:
                    if kind == CONTACT:
                        before_bar = bounces_bar.before[constraint, world]
                        free_bar = bounces_bar.free[constraint, world]
                    if kind == CONTACT or kind == TORSION:
                        late_impulse = bounces.late[item, world] * impulse[constraint, world]
                for side in range(2):
                    tail = constraints.tail[2 * constraint + side, world]
                    if tail < 0:
                        continue
                    tree = trees.dof_tree[tail]
                    reference = constraints.reference[constraint, world]
                    sign = common.side_sign(side)
                    at = (
                        couplings.constraint_incidence[2 * constraint + side, world] * trees.max_tree_dofs
                        - trees.tree_dof_start[tree]
                    )
                    point = vec3()
                    frame = sign * wp.identity(n=3, dtype=scalar)
                    if kind == CONTACT or kind == TORSION:
                        point = contact_rows.point_on_side(contacts.point, contacts.apart, side, item, world)
                        frame = contacts.frame[item, world] * sign
                    else:
                        frame = equalities.anchor_frame[geometric.frame_of(kind, item), world] * sign
                        if kind == POINT:
                            point = contact_rows.point_on_side(
                                equalities.anchor_point, equalities.anchor_apart, side, item, world
                            )
                    lever = point + (motions.origin[reference, world] - motions.origin[tree, world])
                    frame_bar = mat33()
                    lever_bar = vec3()
                    for d in range(paths.dof_depth[tail] + 1):
                        k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                        gain = qd_solved[world, k] - (scalar(1.0) - share) * qd[world, k]
                        g = entry_bar(constraint, at, k, world, impulse, weight, rows_bar.rhs, gain, coupled_response)
                        if bounces.free.shape[0] > 0:
                            before = qd[world, k]
                            free = before + options.dt * qdd[world, k]
                            g += vec3(before_bar * before + free_bar * free, scalar(0.0), scalar(0.0))
                            g += late_impulse * lag_weight[k, world]
                        column = motions.subspace[k, world]
                        push = g * frame
                        motions_bar.subspace[k, world] += geometric.column_adjoint(kind, push, lever)
                        lever_bar += geometric.lever_adjoint(kind, push, column)
                        motion = geometric.motion(kind, column, lever)
                        frame_bar += wp.outer(g, motion)
                        jacobian = frame * motion
                        along = wp.dot(jacobian, b_bar)
                        share_bar += along * qd[world, k]
                        qd_bar[world, k] += share * along + jacobian[0] * (before_bar + free_bar)
                    if kind == CONTACT or kind == TORSION:
                        contacts_bar.frame[item, world] += frame_bar * sign
                        contacts_bar.point[item, world] += lever_bar
                        if contacts.apart.shape[0] > 0:
                            contacts_bar.apart[item, world] += (scalar(0.5) * sign) * lever_bar
                    elif kind == POINT:
                        equalities_bar.anchor_point[item, world] += lever_bar
                        if equalities.anchor_apart.shape[0] > 0:
                            equalities_bar.anchor_apart[item, world] += (scalar(0.5) * sign) * lever_bar
                    elif equalities.anchor_apart.shape[0] > 0:
                        equalities_bar.anchor_frame[2 * item + 1, world] += frame_bar * sign
                    motions_bar.origin[reference, world] += lever_bar
                    motions_bar.origin[tree, world] -= lever_bar
                reference_rows.add_reference_bar(references_bar, kind, item, world, vec3(zero, zero, share_bar))
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            if is_geometric(kind) or has_own_kernels(kind):
                continue
            item = constraints.item[constraint, world]
            b_bar = rows_bar.rhs[constraint, world]
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail < 0:
                    continue
                share = reference_rows.reference(references, kind, item, world)[2]
                share_bar = scalar(0.0)
                own = int(1)  # degrees of freedom of the joint in the row
                if kind == CONE_LIMIT:
                    own = 3
                row_bar = vec3()
                for above in range(own):
                    k = tail - above
                    value = joint_rows.joint_row(kind, item, side, above, world, coupling_ratio, cones.row)
                    share_bar += value * b_bar[0] * qd[world, k]
                    qd_bar[world, k] += share * value * b_bar[0]
                    if kind == CONE_LIMIT or kind == COUPLING:
                        at = couplings.constraint_incidence[2 * constraint + side, world] * trees.max_tree_dofs
                        at -= trees.tree_dof_start[trees.dof_tree[tail]]
                        gain = qd_solved[world, k] - (scalar(1.0) - share) * qd[world, k]
                        g = entry_bar(constraint, at, k, world, impulse, weight, rows_bar.rhs, gain, coupled_response)
                        row_bar[2 - above] = g[0]
                reference_rows.add_reference_bar(references_bar, kind, item, world, vec3(zero, zero, share_bar))
                if kind == CONE_LIMIT:
                    cones_bar.row[item, world] = row_bar
                if kind == COUPLING and side == 0:
                    common.add_at(coupling_ratio_bar, world, item, -row_bar[2])
        if tendon_row.shape[0] == 0:
            return
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            if not is_of_tendon(kind):
                continue
            item = constraints.item[constraint, world]
            b_bar = rows_bar.rhs[constraint, world]
            share = references.tendon[item, world][2]
            share_bar = scalar(0.0)
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail < 0:
                    continue
                at = couplings.constraint_incidence[2 * constraint + side, world] * trees.max_tree_dofs
                at -= trees.tree_dof_start[trees.dof_tree[tail]]
                for d in range(paths.dof_depth[tail] + 1):
                    k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                    if constrained.tendon_side[item, k] == side:
                        value = tendon_row[item, k, world]
                        share_bar += value * b_bar[0] * qd[world, k]
                        qd_bar[world, k] += share * value * b_bar[0]
                        gain = qd_solved[world, k] - (scalar(1.0) - share) * qd[world, k]
                        g = entry_bar(constraint, at, k, world, impulse, weight, rows_bar.rhs, gain, coupled_response)
                        tendon_row_bar[item, k, world] = g[0]
            references_bar.tendon[item, world] += vec3(zero, zero, share_bar)

    return SimpleNamespace(module=module, row_adjoint=row_adjoint)
