"""Rows of constraints (:mod:`warp_kernels.constraints.listing`), their right-hand sides and bounds."""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.contacts import bounce_functions, contact_row_functions
from warp_kernels.constraints.geometric import anchor_row_functions, geometric_functions
from warp_kernels.constraints.joints import joint_row_functions
from warp_kernels.constraints.kinds import (
    has_own_kernels,
    is_angular,
    is_contact,
    is_equality,
    is_geometric,
    is_of_anchor,
    is_of_joint,
)
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constraints, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"constraint_row_kernels": [(True,), (False,)]}


@functools.cache
def constraint_row_kernels(scalar: Any, with_rows: bool = True) -> SimpleNamespace:
    """Return the kernel that builds rows, right-hand sides and bounds, for one precision.

    Without ``with_rows`` it computes the part that :mod:`warp_kernels.solver.newton.group.rows` doesn't: biases, bounds
    and compliance.
    """
    t = warp_types(scalar)
    common = row_functions(scalar)
    anchors, contact_rows = anchor_row_functions(scalar), contact_row_functions(scalar)
    bounce = bounce_functions(scalar)
    geometric, products = geometric_functions(scalar), product_functions(scalar)
    joint_rows = joint_row_functions(scalar)
    reference_rows = reference_row_functions(scalar)
    factor = factor_kernels(scalar)
    vec2, vec3 = t.vec2, t.vec3
    name = "constraint_rows" if with_rows else "constraint_biases"
    module = kernel_module(name, scalar, headers=ROW_HEADERS)
    structs = solver_structs(scalar)
    Options, Limits, Contacts, Cones = structs.Options, structs.Limits, structs.Contacts, structs.Cones
    Equalities, Motions, Rows, Bounces = structs.Equalities, structs.Motions, structs.Rows, structs.Bounces
    References = structs.References
    resolution = scalar(np.finfo(wp.dtype_to_numpy(scalar)).eps)

    @wp.func
    def bounced(
        constraint: int,
        item: int,
        world: int,
        bias: vec2,
        options: Options,
        contacts: Contacts,
        rows: Rows,
        bounces: Bounces,
    ):
        """Return bias and compliance of a contact that may bounce; the given ones if it doesn't."""
        distance = contacts.distance[item, world]
        restitution = contacts.restitution[item, world]
        before = bounces.before[constraint, world]
        free = rows.rhs[constraint, world][0]
        found = bias
        late = scalar(0.0)
        if bounce.bounces(distance, before, free, restitution, contacts.spring, item, world, options):
            late = bounce.time(distance, free, restitution, options)
            found = vec2(bounce.bias(distance, before, free, late, restitution, options), scalar(0.0))
        else:
            free = scalar(0.0)
        bounces.free[constraint, world] = free
        bounces.late[constraint, world] = late
        return found

    @wp.func
    def position_rounding(constraint: int, world: int, trees: TreeDofs, constraints: Constraints, motions: Motions):
        """Return the rounding of the positions of a constraint's bodies: that of the largest coordinate of each tree's
        origin.
        """
        size = scalar(0.0)
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail >= 0:
                size += wp.max(wp.abs(motions.origin[trees.dof_tree[tail], world]))
        return size * resolution

    @wp.kernel(name=name, module=module, enable_backward=False)
    @used_arguments_only
    def constraint_rows(
        # Model
        threads: int,
        paths: Paths,
        trees: TreeDofs,
        dof_q: wp.array(dtype=int),
        options: Options,
        # Parameters
        limits: Limits,
        friction_loss: wp.array2d(dtype=scalar),
        coupling_ratio: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        motions: Motions,
        factor_l: wp.array2d(dtype=scalar),
        actuator_row: wp.array2d(dtype=vec3),
        contacts: Contacts,
        equalities: Equalities,
        cones: Cones,
        references: References,
        constraints: Constraints,
        # Data out
        row: wp.array2d(dtype=vec3),
        rows: Rows,
        bounces: Bounces,
    ):
        """Build rows along both paths, right-hand side ``J v* + bias``, and the bound: friction, or the largest
        impulse.

        compliance: addition to the first diagonal entry; for an actuator the whole diagonal term, without cfm.
        """
        thread, world = wp.tid()
        if wp.static(with_rows):
            for constraint in range(thread, constraints.count[world], threads):
                kind = constraints.kind[constraint, world]
                if has_own_kernels(kind):  # see constraints.tendon_rows and mujoco.resistance
                    continue
                item = constraints.item[constraint, world]
                share = reference_rows.reference(references, kind, item, world)[2]
                before = vec3()
                change = vec3()
                size_before = vec3()
                size_change = vec3()
                for side in range(2):
                    tail = constraints.tail[2 * constraint + side, world]
                    if tail < 0:
                        continue
                    at = (2 * constraint + side) * paths.max_depth
                    depth = paths.dof_depth[tail]
                    if is_geometric(kind):
                        point, frame = geometric.point_and_frame(kind, side, item, world, contacts, equalities)
                        lever = point + (
                            motions.origin[constraints.reference[constraint, world], world]
                            - motions.origin[trees.dof_tree[tail], world]
                        )
                        sums = geometric.write_rows(
                            row,
                            at,
                            paths,
                            tail,
                            is_angular(kind),
                            frame,
                            lever,
                            motions.subspace,
                            qd,
                            qdd,
                            options.dt,
                            world,
                        )
                        before += sums[0]
                        change += sums[1]
                        size_before += sums[2]
                        size_change += sums[3]
                    else:
                        for d in range(depth + 1):
                            k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                            value = vec3()
                            value[0] = joint_rows.joint_row(
                                kind, item, side, depth - d, world, coupling_ratio, cones.row
                            )
                            row[at + d, world] = value
                            before += value * qd[world, k]
                            change += value * (options.dt * qdd[world, k])
                            size_before += wp.abs(value) * wp.abs(qd[world, k])
                            size_change += wp.abs(value) * wp.abs(options.dt * qdd[world, k])
                    products.solve_row(row, at, paths, tail, factor_l, world)
                rows.rhs[constraint, world] = share * before + change
                if rows.size.shape[0] > 0:
                    rows.size[constraint, world] = common.sizes(size_before + size_change)
                    rows.value_before[constraint, world] = share * before
                    rows.size_before[constraint, world] = common.sizes(size_before)
                if bounces.before.shape[0] > 0:
                    bounces.before[constraint, world] = before[0]
        # In a separate loop, so that it needs no registers in addition to those of the rows.
        for constraint in range(thread, constraints.count[world], threads):
            kind = constraints.kind[constraint, world]
            if rows.bias_change.shape[0] > 0:
                rows.bias_change[constraint, world] = scalar(0.0)
            if has_own_kernels(kind):
                continue
            item = constraints.item[constraint, world]
            bias = vec2()  # and compliance
            most = scalar(0.0)
            others = vec3()  # biases of three rows
            referred = reference_rows.is_referred(references, kind)
            if referred:
                found = reference_rows.reference(references, kind, item, world)
                bias = vec2(found[0], found[1])
            if is_contact(kind):
                most = contacts.friction[item, world]
                if not referred:
                    removal = common.contact_correction(constraint, world, trees, constraints, options)
                    bias = contact_rows.contact_bias(
                        contacts.distance[item, world], removal, contacts.spring, item, world, options
                    )
                    if bounces.before.shape[0] > 0:
                        bias = bounced(constraint, item, world, bias, options, contacts, rows, bounces)
                    if rows.bias_change.shape[0] > 0:
                        covered = options.dt * rows.value_before[constraint, world][0]
                        if wp.abs(covered) > position_rounding(constraint, world, trees, constraints, motions):
                            earlier = contact_rows.contact_bias(
                                contacts.distance[item, world] - covered, removal, contacts.spring, item, world, options
                            )
                            rows.bias_change[constraint, world] = bias[0] - earlier[0]
            elif is_of_anchor(kind):
                others = anchors.bias(kind, item, world, equalities)
            elif is_of_joint(kind):
                most = joint_rows.joint_bound(kind, item, world, options, friction_loss, actuator_row)
                if not referred:
                    bias = joint_rows.joint_bias(
                        kind, constraint, item, world, q, dof_q, options, limits, actuator_row, equalities, cones,
                        constraints,
                    )  # fmt: skip
            if is_equality(kind):
                most = scalar(wp.inf)
            others += vec3(bias[0], scalar(0.0), scalar(0.0))
            rows.rhs[constraint, world] += others
            if rows.size.shape[0] > 0:
                rows.value_before[constraint, world] += others
            rows.bound[constraint, world] = most
            rows.compliance[constraint, world] = bias[1]

    return SimpleNamespace(module=module, constraint_rows=constraint_rows)
