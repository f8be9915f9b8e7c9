"""Spinning and rolling friction of contacts under MuJoCo's law, with pyramids (``condim`` 4 and 6).

A pyramid's forces act along edges ``n +- c d``, one pair for each direction d of friction with its coefficient c, and
the costs of edges add up. So a contact is up to three constraints: its own, with the tangents; one with the normal
velocity and the rolling about both tangents; and one with the normal velocity and the spin about the normal, which is
there twice, so that its pyramid has four edges as well, each twice as soft. All edges have the regularisation of the
first pair: R of the others is ``R mu^2 / c^2``, which gives their edges the same again.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.constraints.contacts import contact_row_functions
from warp_kernels.constraints.kinds import SPIN, is_of_pyramid
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def resistance_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of the rows for one precision."""
    t = warp_types(scalar)
    vec3, mat33, spatial = t.vec3, t.mat33, t.spatial
    sp = spatial_functions(scalar)

    @wp.func
    def entries(kind: int, frame: mat33, column: spatial, lever: vec3):
        """Return the rows' entries at a degree of freedom with this motion."""
        push = frame * sp.point_velocity(column, lever)
        turn = frame * sp.angular(column)
        if kind == SPIN:
            return vec3(push[0], turn[0], turn[0])
        return vec3(push[0], turn[1], turn[2])

    @wp.func
    def entries_power(kind: int, frame: mat33, column: spatial, lever: vec3, bar: vec3):
        return wp.dot(bar, entries(kind, frame, column, lever))

    return SimpleNamespace(entries=entries, entries_power=entries_power)


@functools.cache
def resistance_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    f, factor, products = resistance_functions(scalar), factor_kernels(scalar), product_functions(scalar)
    common, contact_rows = row_functions(scalar), contact_row_functions(scalar)
    structs = solver_structs(scalar)
    Options, Contacts, Motions, Rows = structs.Options, structs.Contacts, structs.Motions, structs.Rows
    # wp.grad takes plain names only.
    entries_power = f.entries_power
    module = kernel_module("mujoco_resistance", scalar, headers=ROW_HEADERS, inlined=True)
    zero = scalar(0.0)

    @wp.kernel(module=module)
    def resistance_references(
        # Data in
        contact_count: wp.array(dtype=wp.int32),
        contact_friction: wp.array2d(dtype=scalar),
        contact_resistance: wp.array2d(dtype=vec2),
        contact_reference: wp.array2d(dtype=vec3),
        # Data out
        resistance_reference: wp.array2d(dtype=vec3),
    ):
        """Compute references over (slot, world): that of spinning at 2 slot, of rolling at 2 slot + 1; zero without."""
        slot, world = wp.tid()
        if slot >= contact_count[world]:
            return
        own = contact_reference[slot, world]
        friction = contact_friction[slot, world]
        coefficients = contact_resistance[slot, world]
        for part in range(2):
            result = vec3()
            if coefficients[part] > zero:
                ratio = friction / coefficients[part]
                result = vec3(own[0], scalar(2 - part) * own[1] * ratio * ratio, own[2])
            resistance_reference[2 * slot + part, world] = result

    @wp.kernel(module=module, enable_backward=False)
    def resistance_rows(
        # Model
        threads: int,
        paths: Paths,
        trees: TreeDofs,
        options: Options,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        motions: Motions,
        factor_l: wp.array2d(dtype=scalar),
        contacts: Contacts,
        contact_resistance: wp.array2d(dtype=vec2),
        resistance_reference: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Data out
        row: wp.array2d(dtype=vec3),
        rows: Rows,
    ):
        """Build rows like ``constraint_rows`` of :mod:`warp_kernels.constraints.rows`, which omits these."""
        thread, world = wp.tid()
        for constraint in range(thread, constraints.count[world], threads):
            kind = constraints.kind[constraint, world]
            if not is_of_pyramid(kind):
                continue
            item = constraints.item[constraint, world]
            reference = resistance_reference[2 * item + kind - SPIN, world]
            before = vec3()
            change = vec3()
            size_before = vec3()
            size_change = vec3()
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail < 0:
                    continue
                at = (2 * constraint + side) * paths.max_depth
                slot = contact_rows.frame_slot(kind, item, contacts)
                frame = contacts.frame[slot, world] * common.side_sign(side)
                lever = contact_rows.point_on_side(contacts.point, contacts.apart, side, item, world) + (
                    motions.origin[constraints.reference[constraint, world], world]
                    - motions.origin[trees.dof_tree[tail], world]
                )
                for d in range(paths.dof_depth[tail] + 1):
                    k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                    value = f.entries(kind, frame, motions.subspace[k, world], lever)
                    row[at + d, world] = value
                    before += value * qd[world, k]
                    change += value * (options.dt * qdd[world, k])
                    size_before += wp.abs(value) * wp.abs(qd[world, k])
                    size_change += wp.abs(value) * wp.abs(options.dt * qdd[world, k])
                products.solve_row(row, at, paths, tail, factor_l, world)
            value_before = reference[2] * before + vec3(reference[0], zero, zero)
            rows.rhs[constraint, world] = value_before + change
            rows.bound[constraint, world] = contact_resistance[item, world][kind - SPIN]
            rows.compliance[constraint, world] = reference[1]
            rows.size[constraint, world] = common.sizes(size_before + size_change)
            rows.value_before[constraint, world] = value_before
            rows.size_before[constraint, world] = common.sizes(size_before)

    # A separate module, for wp.grad (see warp_kernels.solver.pgs).
    adjoint_module = kernel_module("mujoco_resistance_adjoint", scalar)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def resistance_row_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        motions: Motions,
        contacts: Contacts,
        resistance_reference: wp.array2d(dtype=vec3),
        constraints: Constraints,
        impulse: wp.array2d(dtype=vec3),
        weight: wp.array2d(dtype=scalar),
        couplings: Couplings,
        coupled_response: wp.array2d(dtype=vec3),
        # Adjoint in
        rows_bar: Rows,
        # Adjoint out
        qd_bar: wp.array2d(dtype=scalar),
        motions_bar: Motions,
        contacts_bar: Contacts,
        contact_resistance_bar: wp.array2d(dtype=vec2),
        resistance_reference_bar: wp.array2d(dtype=vec3),
    ):
        """Compute the adjoint of the rows like ``row_adjoint`` of :mod:`warp_kernels.constraints.row_adjoint`."""
        world = wp.tid()
        for constraint in range(constraints.count[world]):
            kind = constraints.kind[constraint, world]
            if not is_of_pyramid(kind):
                continue
            item = constraints.item[constraint, world]
            share = resistance_reference[2 * item + kind - SPIN, world][2]
            b_bar = rows_bar.rhs[constraint, world]
            share_bar = scalar(0.0)
            reference = constraints.reference[constraint, world]
            for side in range(2):
                tail = constraints.tail[2 * constraint + side, world]
                if tail < 0:
                    continue
                tree = trees.dof_tree[tail]
                sign = common.side_sign(side)
                slot = contact_rows.frame_slot(kind, item, contacts)
                frame = contacts.frame[slot, world] * sign
                lever = contact_rows.point_on_side(contacts.point, contacts.apart, side, item, world) + (
                    motions.origin[reference, world] - motions.origin[tree, world]
                )
                frame_bar = mat33()
                lever_bar = vec3()
                at = couplings.constraint_incidence[2 * constraint + side, world] * trees.max_tree_dofs
                at -= trees.tree_dof_start[tree]
                for d in range(paths.dof_depth[tail] + 1):
                    k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
                    gain = qd_solved[world, k] - (scalar(1.0) - share) * qd[world, k]
                    g = impulse[constraint, world] * weight[k, world] + b_bar * gain
                    if coupled_response.shape[0] > 0:
                        g += coupled_response[at + k, world]
                    column = motions.subspace[k, world]
                    _kind_bar, own_frame_bar, column_bar, own_lever_bar, _g_bar = wp.grad(entries_power)(
                        kind, frame, column, lever, g
                    )
                    frame_bar += own_frame_bar
                    lever_bar += own_lever_bar
                    motions_bar.subspace[k, world] += column_bar
                    along = wp.dot(f.entries(kind, frame, column, lever), b_bar)
                    share_bar += along * qd[world, k]
                    qd_bar[world, k] += share * along
                contacts_bar.frame[slot, world] += frame_bar * sign
                contacts_bar.point[item, world] += lever_bar
                if contacts.apart.shape[0] > 0:
                    contacts_bar.apart[item, world] += (scalar(0.5) * sign) * lever_bar
                motions_bar.origin[reference, world] += lever_bar
                motions_bar.origin[tree, world] -= lever_bar
            bar = vec2(rows_bar.bound[constraint, world], zero)
            if kind > SPIN:
                bar = vec2(zero, bar[0])
            contact_resistance_bar[item, world] += bar
            resistance_reference_bar[2 * item + kind - SPIN, world] = vec3(
                b_bar[0], rows_bar.compliance[constraint, world], share_bar
            )

    return SimpleNamespace(
        modules=(module, adjoint_module),
        resistance_references=resistance_references,
        resistance_rows=resistance_rows,
        resistance_row_adjoint=resistance_row_adjoint,
    )
