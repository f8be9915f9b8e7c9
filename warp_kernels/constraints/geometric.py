"""Rows made from the motion of links, and their adjoint: contacts with spinning and rolling friction, and anchors."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.constraints.contacts import contact_row_functions
from warp_kernels.constraints.kinds import is_angular, is_contact, is_of_contact_frame, is_unbounded, pair_index
from warp_kernels.constraints.references import reference_row_functions
from warp_kernels.constraints.shared import entry_functions, row_functions
from warp_kernels.cpu.native import Native
from warp_kernels.dynamics.mass_matrix import factor_kernels
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs, solver_structs
from warp_kernels.types import warp_types


@functools.cache
def anchor_row_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of anchor rows for one precision."""
    vec3 = warp_types(scalar).vec3
    reference_rows = reference_row_functions(scalar)
    structs = solver_structs(scalar)
    Equalities, RowInputs = structs.Equalities, structs.RowInputs

    @wp.func
    def bias(kind: int, item: int, world: int, equalities: Equalities):
        """Return the biases of the three rows of an anchor's constraint."""
        if is_angular(kind):
            return equalities.anchor_turn[item, world]
        return equalities.anchor_bias[item, world]

    @wp.func
    def bias_adjoint(kind: int, item: int, world: int, b_bar: vec3, inputs: RowInputs, inputs_bar: RowInputs):
        """Write the adjoint of the bias, which :mod:`warp_kernels.solver.newton.whitening` turns with the rows."""
        bar = b_bar
        if is_unbounded(kind) and not reference_rows.is_referred(inputs.references, kind):
            bar = b_bar * inputs.equalities.anchor_frame[pair_index(kind, item), world]
        if is_angular(kind):
            inputs_bar.equalities.anchor_turn[item, world] = bar
        else:
            inputs_bar.equalities.anchor_bias[item, world] = bar

    return SimpleNamespace(bias=bias, bias_adjoint=bias_adjoint)


@functools.cache
def geometric_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of geometric rows for one precision: three rows are a frame times a velocity, linear or
    angular.
    """
    t = warp_types(scalar)
    sp, common, contact_rows = spatial_functions(scalar), row_functions(scalar), contact_row_functions(scalar)
    structs = solver_structs(scalar)
    Contacts, Equalities = structs.Contacts, structs.Equalities
    vec3, mat33, spatial = t.vec3, t.mat33, t.spatial
    mat43 = wp.types.matrix(shape=(4, 3), dtype=scalar)

    @wp.func
    def point_and_frame(kind: int, side: int, item: int, world: int, contacts: Contacts, equalities: Equalities):
        """Return the point of a constraint on a side, and the frame that multiplies the velocity there, sign
        included.
        """
        sign = common.side_sign(side)
        point = vec3()
        frame = sign * wp.identity(n=3, dtype=scalar)
        if is_of_contact_frame(kind):
            point = contact_rows.point_on_side(contacts.point, contacts.apart, side, item, world)
            slot = contact_rows.frame_slot(kind, item, contacts)
            frame = contacts.frame[slot, world] * sign
        else:
            frame = equalities.anchor_frame[pair_index(kind, item), world] * sign
            if not is_angular(kind):
                point = contact_rows.point_on_side(equalities.anchor_point, equalities.anchor_apart, side, item, world)
        return point, frame

    @wp.func
    def motion(kind: int, column: spatial, lever: vec3):
        """Return the velocity of the point, or of the orientation, per unit rate of one degree of freedom."""
        if is_angular(kind):
            return sp.angular(column)
        return sp.point_velocity(column, lever)

    @Native(scalar, 1, "rows").func_native()
    def write_rows(
        row: wp.array2d(dtype=vec3),
        here: int,
        paths: Paths,
        tail: int,
        turns: bool,
        frame: mat33,
        lever: vec3,
        subspace: wp.array2d(dtype=spatial),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        dt: scalar,
        world: int,
    ) -> mat43:
        """Write the rows along the path to ``tail``, starting at ``here``: the frame times the motion of each degree of
        freedom.

        Return the rows times qd and times dt qdd, and the sums of the magnitudes of the terms of each.
        """

    @wp.func
    def column_adjoint(kind: int, push: vec3, lever: vec3):
        """Return the adjoint of the column in ``push . motion(kind, column, lever)``."""
        if is_angular(kind):
            return sp.join(push, vec3())
        return sp.join(wp.cross(lever, push), push)

    @wp.func
    def lever_adjoint(kind: int, push: vec3, column: spatial):
        """Return the adjoint of the lever in ``push . motion(kind, column, lever)``."""
        if is_angular(kind):
            return vec3()
        return wp.cross(push, sp.angular(column))

    return SimpleNamespace(
        point_and_frame=point_and_frame,
        motion=motion,
        write_rows=write_rows,
        column_adjoint=column_adjoint,
        lever_adjoint=lever_adjoint,
    )


@functools.cache
def geometric_adjoint_functions(scalar: Any, of_dofs: bool = True) -> SimpleNamespace:
    """Return the Warp functions of the adjoint for one precision.

    Without ``of_dofs`` they leave out the adjoints of motions and velocities of degrees of freedom, which constraints
    share.
    """
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    common, entries, factor = row_functions(scalar), entry_functions(scalar), factor_kernels(scalar)
    contact_rows = contact_row_functions(scalar)
    geometric, reference_rows = geometric_functions(scalar), reference_row_functions(scalar)
    structs = solver_structs(scalar)
    Bounces, Rows, RowInputs, Solved = structs.Bounces, structs.Rows, structs.RowInputs, structs.Solved
    Motions = structs.Motions
    zero = scalar(0.0)

    @wp.func
    def add_side_bars(
        kind: int, item: int, world: int, sign: scalar, lever_bar: vec3, frame_bar: mat33, inputs_bar: RowInputs
    ):
        """Add the adjoints of point and frame of one side to those of a contact or an anchor."""
        if is_of_contact_frame(kind):
            slot = contact_rows.frame_slot(kind, item, inputs_bar.contacts)
            inputs_bar.contacts.frame[slot, world] += frame_bar * sign
            inputs_bar.contacts.point[item, world] += lever_bar
            if inputs_bar.contacts.apart.shape[0] > 0:
                inputs_bar.contacts.apart[item, world] += (scalar(0.5) * sign) * lever_bar
        elif not is_angular(kind):
            inputs_bar.equalities.anchor_point[item, world] += lever_bar
            if inputs_bar.equalities.anchor_apart.shape[0] > 0:
                inputs_bar.equalities.anchor_apart[item, world] += (scalar(0.5) * sign) * lever_bar
        elif inputs_bar.equalities.anchor_apart.shape[0] > 0:
            inputs_bar.equalities.anchor_frame[2 * item + 1, world] += frame_bar * sign

    @wp.func
    def normal_bars(constraint: int, kind: int, world: int, bounces: Bounces, bounces_bar: Bounces):
        """Return the adjoints of a contact's normal velocity before the step, and of that without impulses."""
        bars = vec2()
        if bounces.free.shape[0] > 0 and is_contact(kind):
            bars = vec2(bounces_bar.before[constraint, world], bounces_bar.free[constraint, world])
        return bars

    @wp.func
    def side_lever(
        constraint: int,
        point: vec3,
        tail: int,
        world: int,
        trees: TreeDofs,
        constraints: Constraints,
        motions: Motions,
    ):
        """Return the point relative to the origin of the tree of a side."""
        reference = constraints.reference[constraint, world]
        tree = trees.dof_tree[tail]
        return point + (motions.origin[reference, world] - motions.origin[tree, world])

    @wp.func
    def entry_bar(
        constraint: int,
        kind: int,
        item: int,
        at: int,
        k: int,
        world: int,
        share: scalar,
        normal: vec2,
        bounces: Bounces,
        solved: Solved,
        rows_bar: Rows,
        inputs: RowInputs,
    ):
        """Return the adjoint of a constraint's rows at degree of freedom k; normal: see :func:`normal_bars`."""
        g = entries.entry_bar(constraint, at, k, world, share, solved, rows_bar, inputs)
        if bounces.free.shape[0] > 0:
            before = inputs.qd[world, k]
            free = before + inputs.options.dt * solved.qdd[world, k]
            g += vec3(normal[0] * before + normal[1] * free, zero, zero)
            if is_of_contact_frame(kind):
                late_impulse = bounces.late[item, world] * solved.impulse[constraint, world]
                g += late_impulse * solved.lag_weight[k, world]
        return g

    @wp.func
    def side_adjoint(
        constraint: int,
        side: int,
        tail: int,
        share_bar: scalar,
        world: int,
        paths: Paths,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        bounces: Bounces,
        solved: Solved,
        rows_bar: Rows,
        bounces_bar: Bounces,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """Propagate the adjoint of the rows of a side to frames and points, motions and qd. Return the adjoint of the
        lever, and ``share_bar`` with that of the share of the velocity before the step.
        """
        kind = constraints.kind[constraint, world]
        item = constraints.item[constraint, world]
        b_bar = rows_bar.rhs[constraint, world]
        share = reference_rows.reference(inputs.references, kind, item, world)[2]
        normal = normal_bars(constraint, kind, world, bounces, bounces_bar)
        at = entries.response_start(constraint, side, tail, world, trees, couplings)
        point, frame = geometric.point_and_frame(kind, side, item, world, inputs.contacts, inputs.equalities)
        lever = side_lever(constraint, point, tail, world, trees, constraints, inputs.motions)
        frame_bar = mat33()
        lever_bar = vec3()
        total = scalar(share_bar)
        for d in range(paths.dof_depth[tail] + 1):
            k = factor.path_dof(paths.dof_depth, paths.dof_row_start, paths.ancestor, tail, d)
            g = entry_bar(constraint, kind, item, at, k, world, share, normal, bounces, solved, rows_bar, inputs)
            column = inputs.motions.subspace[k, world]
            push = g * frame
            if wp.static(of_dofs):
                inputs_bar.motions.subspace[k, world] += geometric.column_adjoint(kind, push, lever)
            lever_bar += geometric.lever_adjoint(kind, push, column)
            motion = geometric.motion(kind, column, lever)
            frame_bar += wp.outer(g, motion)
            jacobian = frame * motion
            along = wp.dot(jacobian, b_bar)
            total += along * inputs.qd[world, k]
            if wp.static(of_dofs):
                inputs_bar.qd[world, k] += share * along + jacobian[0] * (normal[0] + normal[1])
        add_side_bars(kind, item, world, common.side_sign(side), lever_bar, frame_bar, inputs_bar)
        return lever_bar, total

    @wp.func
    def dof_adjoint(
        constraint: int,
        side: int,
        tail: int,
        k: int,
        world: int,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        bounces: Bounces,
        solved: Solved,
        rows_bar: Rows,
        bounces_bar: Bounces,
        inputs: RowInputs,
    ):
        """Return the adjoints of the motion and of qd of degree of freedom k, on the path of a side."""
        kind = constraints.kind[constraint, world]
        item = constraints.item[constraint, world]
        share = reference_rows.reference(inputs.references, kind, item, world)[2]
        normal = normal_bars(constraint, kind, world, bounces, bounces_bar)
        at = entries.response_start(constraint, side, tail, world, trees, couplings)
        point, frame = geometric.point_and_frame(kind, side, item, world, inputs.contacts, inputs.equalities)
        lever = side_lever(constraint, point, tail, world, trees, constraints, inputs.motions)
        g = entry_bar(constraint, kind, item, at, k, world, share, normal, bounces, solved, rows_bar, inputs)
        jacobian = frame * geometric.motion(kind, inputs.motions.subspace[k, world], lever)
        along = wp.dot(jacobian, rows_bar.rhs[constraint, world])
        column_bar = geometric.column_adjoint(kind, g * frame, lever)
        return column_bar, share * along + jacobian[0] * (normal[0] + normal[1])

    @wp.func
    def add_share_bar(constraint: int, share_bar: scalar, world: int, constraints: Constraints, inputs_bar: RowInputs):
        """Add to the adjoint of the share of the velocity before the step."""
        kind = constraints.kind[constraint, world]
        item = constraints.item[constraint, world]
        reference_rows.add_reference_bar(inputs_bar.references, kind, item, world, vec3(zero, zero, share_bar))

    @wp.func
    def row_adjoint(
        constraint: int,
        world: int,
        paths: Paths,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        bounces: Bounces,
        solved: Solved,
        rows_bar: Rows,
        bounces_bar: Bounces,
        inputs: RowInputs,
        inputs_bar: RowInputs,
    ):
        """Propagate the adjoint of a constraint's rows to motions, frames, points and qd."""
        share_bar = scalar(0.0)
        for side in range(2):
            tail = constraints.tail[2 * constraint + side, world]
            if tail < 0:
                continue
            lever_bar, share_bar = side_adjoint(
                constraint, side, tail, share_bar, world, paths, trees, constraints, couplings, bounces, solved,
                rows_bar, bounces_bar, inputs, inputs_bar,
            )  # fmt: skip
            inputs_bar.motions.origin[constraints.reference[constraint, world], world] += lever_bar
            inputs_bar.motions.origin[trees.dof_tree[tail], world] -= lever_bar
        add_share_bar(constraint, share_bar, world, constraints, inputs_bar)

    return SimpleNamespace(
        side_adjoint=side_adjoint, dof_adjoint=dof_adjoint, add_share_bar=add_share_bar, row_adjoint=row_adjoint
    )
