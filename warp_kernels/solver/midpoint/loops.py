"""Closed loops in a step from the middle: impulses of points, welds, couplings and dampers in Kahan's rule.

:mod:`warp_kernels.solver.midpoint.kahan` linearises the bias forces in the change of velocity by joint forces. In a loop the
impulses of its constraints change velocities too. With the rows J of points, welds and couplings, their right-hand side
``r = J v + bias`` and the forces f, the change y and the impulses l satisfy

    A y = dt f + J' l,    J y + R l = -r,    A = M + N.

The forces of motion then are c(v) + 2 th C(v, y), and the free change of velocity is ``x = y - M^-1 J' l``, so that the
solver finds l again where nothing else touches. Without this a loop is of first order.

R makes the system regular where rows depend on each other, as in a plane mechanism that is closed by a point: ``R = e
(sum of J_k^2 / m_k)`` with the constant inertias m of :mod:`warp_kernels.solver.midpoint.joint_weights`, summed over the rows of
a point or orientation. Dampers between two paths (:mod:`warp_kernels.solver.midpoint.rate_damping`) have an R and a share of
``J v`` in r of their own.

Rows are packed: those of a point along x, y and z follow each other (a block), and so do the entries of a row.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.constraints.kinds import COUPLING, ORIENTATION, POINT, is_of_tendon
from warp_kernels.kinematics.propagation import Links
from warp_kernels.solver.midpoint.coupled_system import coupled_system_functions, coupled_system_headers
from warp_kernels.solver.structs import Constrained, Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, lane_types, warp_types

# Fraction of a row's inverse mass that R adds to it, in double and in single precision.
SHARES = {wp.float64: 1.0e-6, wp.float32: 1.0e-5}
NEGLIGIBLE = 1.0e-20


@wp.struct
class Loops:
    """Rows of the points, welds, couplings and dampers of a model.

    Attributes:
        tree: trees that they act on.
        kind: POINT, ORIENTATION, COUPLING or TENDON (of a damper) [block].
        item: index of the anchor, the coupling or the damper [block].
        input: index of its switch, -1 for none [block].
        block_start: first row of each block, and the number of rows [blocks + 1].
        row_start: first entry of each row, and the number of entries [rows + 1].
        dof: degree of freedom of each entry.
        side: 1 if that moves the second link, -1 if it moves the first; of a coupling 1 for the dependent one; of a
            damper 1.
    """

    tree: wp.array(dtype=int)
    kind: wp.array(dtype=int)
    item: wp.array(dtype=int)
    input: wp.array(dtype=int)
    block_start: wp.array(dtype=int)
    row_start: wp.array(dtype=int)
    dof: wp.array(dtype=int)
    side: wp.array(dtype=int)


@functools.cache
def loop_row_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel ``loop_rows`` for one precision, with Warp's adjoint."""
    t = warp_types(scalar)
    frames, sp = geometry_frame_functions(scalar), spatial_functions(scalar)
    Equalities = solver_structs(scalar).Equalities
    vec3, spatial = t.vec3, t.spatial
    module = kernel_module("loop_rows", scalar, inlined=True)

    @wp.func
    def lever_to(
        point: vec3, item: int, k: int, constrained: Constrained, link_tree: wp.array(dtype=int),
        dof_tree: wp.array(dtype=int), origin: wp.array2d(dtype=vec3), world: int,
    ):  # fmt: skip
        """Return an anchor's point, relative to the origin of a degree of freedom's tree."""
        link_a = constrained.anchor_link_a[item]
        link_b = constrained.anchor_link_b[item]
        reference = frames.reference_tree(link_a, link_b, link_tree)
        return point + (origin[reference, world] - origin[dof_tree[k], world])

    @wp.kernel(module=module)
    def loop_rows(
        # Model
        loops: Loops,
        constrained: Constrained,
        trees: TreeDofs,
        link_tree: wp.array(dtype=int),
        # Parameters
        coupling_ratio: wp.array2d(dtype=scalar),
        # Data in
        qd: wp.array2d(dtype=scalar),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        equalities: Equalities,
        switch_on: wp.array2d(dtype=int),
        # Data out
        loop_row: wp.array2d(dtype=scalar),
        loop_rhs: wp.array2d(dtype=scalar),
    ):
        """Compute the entries and the right-hand sides r of the rows of a block, over (block, world).

        They are zero for constraints that are off.
        """
        block, world = wp.tid()
        kind = loops.kind[block]
        item = loops.item[block]
        on = scalar(1.0)
        if switch_on.shape[0] > 0:
            on = scalar(switch_on[loops.input[block], world])
        for row in range(loops.block_start[block], loops.block_start[block + 1]):
            axis = row - loops.block_start[block]
            total = scalar(0.0)
            if kind == COUPLING:
                total += equalities.coupling_bias[item, world]
            elif kind == POINT:
                total += equalities.anchor_bias[item, world][axis]
            else:
                total += equalities.anchor_turn[item, world][axis]
            loop_rhs[row, world] = on * total
            for at in range(loops.row_start[row], loops.row_start[row + 1]):
                k = loops.dof[at]
                value = scalar(loops.side[at])
                if kind == COUPLING:
                    if loops.side[at] < 0:
                        value *= coupling_ratio[wp.min(world, coupling_ratio.shape[0] - 1), item]
                elif kind == ORIENTATION:
                    value *= sp.angular(subspace[k, world])[axis]
                else:
                    point = equalities.anchor_point[item, world]
                    lever = lever_to(point, item, k, constrained, link_tree, trees.dof_tree, origin, world)
                    value *= sp.point_velocity(subspace[k, world], lever)[axis]
                loop_row[at, world] = on * value
                loop_rhs[row, world] += on * (value * qd[world, k])

    return SimpleNamespace(module=module, loop_rows=loop_rows)


@functools.cache
def loop_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels ``couple_loops`` and its adjoint for one precision and a number of worlds in a lane group, over
    groups.
    """
    t, a, system = lane_types(scalar, lanes), algebra(scalar, lanes), coupled_system_functions(scalar, lanes)
    real = t.real
    states, reals = wp.array2d(dtype=scalar), wp.array2d(dtype=real)
    headers = coupled_system_headers(lanes)
    module, adjoint_module = (
        kernel_module(name, scalar, lanes, headers=headers) for name in ("loops", "loops_adjoint")
    )
    zero, one, two = scalar(0.0), scalar(1.0), scalar(2.0)
    share, negligible = scalar(SHARES[scalar]), scalar(NEGLIGIBLE)

    @wp.func
    def row_times(loops: Loops, row: int, group: int, loop_row: reals, x: reals):
        """Return J x for one row."""
        total = a.real(zero)
        for at in range(loops.row_start[row], loops.row_start[row + 1]):
            total += a.mul(loop_row[at, group], x[loops.dof[at], group])
        return total

    @wp.func
    def first_dof(loops: Loops, links: Links, n: int):
        """Return the first degree of freedom of the n-th tree of the loops."""
        return links.qd_start[links.tree_start[loops.tree[n]]]

    @wp.func
    def end_dof(loops: Loops, links: Links, n: int):
        """Return the one after its last."""
        return links.qd_start[links.tree_start[loops.tree[n] + 1]]

    @wp.func
    def clear_trees(loops: Loops, links: Links, group: int, x: reals):
        for n in range(loops.tree.shape[0]):
            for k in range(first_dof(loops, links, n), end_dof(loops, links, n)):
                x[k, group] = a.real(zero)

    @wp.func
    def add_row(loops: Loops, row: int, group: int, loop_row: reals, factor: real, x: reals):
        """Add a row times a number."""
        for at in range(loops.row_start[row], loops.row_start[row + 1]):
            k = loops.dof[at]
            x[k, group] = x[k, group] + a.mul(loop_row[at, group], factor)

    @wp.func
    def rows_transposed(loops: Loops, links: Links, group: int, loop_row: reals, impulse: reals, x: reals):
        """Compute x = J' l."""
        clear_trees(loops, links, group, x)
        for row in range(impulse.shape[0]):
            add_row(loops, row, group, loop_row, impulse[row, group], x)

    @wp.func
    def solve_trees(
        loops: Loops, links: Links, paths: Paths, group: int, lower: reals, upper: reals, diagonal: reals, x: reals
    ):
        """Compute x := A^-1 x."""
        for n in range(loops.tree.shape[0]):
            start = first_dof(loops, links, n)
            end = end_dof(loops, links, n)
            system.solve_tree(paths, start, end, group, lower, upper, diagonal, x)

    @wp.func
    def solve_trees_transposed(
        loops: Loops, links: Links, paths: Paths, group: int, lower: reals, upper: reals, diagonal: reals, x: reals
    ):
        """Compute x := A'^-1 x."""
        for n in range(loops.tree.shape[0]):
            start = first_dof(loops, links, n)
            end = end_dof(loops, links, n)
            system.solve_tree_transposed(paths, start, end, group, lower, upper, diagonal, x)

    @wp.func
    def solve_masses(loops: Loops, links: Links, paths: Paths, group: int, factor_l: reals, factor_d: reals, x: reals):
        """Compute x := M^-1 x."""
        for n in range(loops.tree.shape[0]):
            start = first_dof(loops, links, n)
            end = end_dof(loops, links, n)
            system.solve_tree_mass(paths, start, end, group, factor_l, factor_d, x)

    @wp.func
    def factor_matrix(count: int, group: int, matrix: reals):
        """Factor a matrix as L U in place, with ones on the diagonal of L."""
        for pivot in range(count):
            inverse = a.div(a.real(one), matrix[pivot * count + pivot, group])
            for row in range(pivot + 1, count):
                part = a.mul(matrix[row * count + pivot, group], inverse)
                matrix[row * count + pivot, group] = part
                for column in range(pivot + 1, count):
                    entry = matrix[row * count + column, group]
                    matrix[row * count + column, group] = entry - a.mul(part, matrix[pivot * count + column, group])

    @wp.func
    def solve_matrix(count: int, group: int, matrix: reals, x: reals):
        """Solve in place with the factors."""
        for row in range(count):
            total = x[row, group]
            for column in range(row):
                total -= a.mul(matrix[row * count + column, group], x[column, group])
            x[row, group] = total
        for back in range(count):
            row = count - 1 - back
            total = x[row, group]
            for column in range(row + 1, count):
                total -= a.mul(matrix[row * count + column, group], x[column, group])
            x[row, group] = a.div(total, matrix[row * count + row, group])

    @wp.func
    def solve_matrix_transposed(count: int, group: int, matrix: reals, x: reals):
        """Solve in place with the transposed factors."""
        for row in range(count):
            total = x[row, group]
            for column in range(row):
                total -= a.mul(matrix[column * count + row, group], x[column, group])
            x[row, group] = a.div(total, matrix[row * count + row, group])
        for back in range(count):
            row = count - 1 - back
            total = x[row, group]
            for column in range(row + 1, count):
                total -= a.mul(matrix[column * count + row, group], x[column, group])
            x[row, group] = total

    @wp.kernel(module=module, enable_backward=False)
    def couple_loops(
        # Model
        loops: Loops,
        links: Links,
        paths: Paths,
        joint_inertia: wp.array(dtype=scalar),
        dt: scalar,
        # Data in
        loop_row: reals,
        loop_rhs: reals,
        loop_compliance: reals,
        factor_l: reals,
        factor_d: reals,
        kahan_lower: reals,
        kahan_upper: reals,
        kahan_diagonal: reals,
        # Data out
        loop_matrix: reals,
        loop_impulse: reals,
        loop_push: reals,
        kahan_change: reals,
        kahan_loss: reals,
        qdd: states,
    ):
        """Change qdd from that of trees to x / dt, and kahan_change to y.

        loop_matrix: factors of J A^-1 J' + R. loop_impulse: l. loop_push: M^-1 J' l.
        """
        group = wp.tid()
        count = loop_rhs.shape[0]
        for row in range(count):
            clear_trees(loops, links, group, loop_push)
            add_row(loops, row, group, loop_row, a.real(one), loop_push)
            solve_trees(loops, links, paths, group, kahan_lower, kahan_upper, kahan_diagonal, loop_push)
            for other in range(count):
                loop_matrix[other * count + row, group] = row_times(loops, other, group, loop_row, loop_push)
            loop_impulse[row, group] = -loop_rhs[row, group] - row_times(loops, row, group, loop_row, kahan_change)
        for block in range(loops.kind.shape[0]):
            first = loops.block_start[block]
            last = loops.block_start[block + 1]
            softness = loop_compliance[first, group]
            if not is_of_tendon(loops.kind[block]):
                softness = a.real(negligible)
                for at in range(loops.row_start[first], loops.row_start[last]):
                    entry = loop_row[at, group]
                    softness += (share / joint_inertia[loops.dof[at]]) * a.mul(entry, entry)
            for row in range(first, last):
                loop_matrix[row * count + row, group] = loop_matrix[row * count + row, group] + softness
        factor_matrix(count, group, loop_matrix)
        solve_matrix(count, group, loop_matrix, loop_impulse)
        rows_transposed(loops, links, group, loop_row, loop_impulse, loop_push)
        solve_trees(loops, links, paths, group, kahan_lower, kahan_upper, kahan_diagonal, loop_push)
        for n in range(loops.tree.shape[0]):
            for k in range(first_dof(loops, links, n), end_dof(loops, links, n)):
                kahan_loss[k, group] = kahan_loss[k, group] - loop_push[k, group]
                kahan_change[k, group] = kahan_change[k, group] + loop_push[k, group]
        rows_transposed(loops, links, group, loop_row, loop_impulse, loop_push)
        solve_masses(loops, links, paths, group, factor_l, factor_d, loop_push)
        for n in range(loops.tree.shape[0]):
            for k in range(first_dof(loops, links, n), end_dof(loops, links, n)):
                kahan_loss[k, group] = kahan_loss[k, group] + loop_push[k, group]
                a.store(qdd, group, k, (one / dt) * (kahan_change[k, group] - loop_push[k, group]))

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def loop_adjoint(
        # Model
        loops: Loops,
        links: Links,
        paths: Paths,
        joint_inertia: wp.array(dtype=scalar),
        dt: scalar,
        # Data in
        loop_row: reals,
        factor_l: reals,
        factor_d: reals,
        kahan_lower: reals,
        kahan_upper: reals,
        kahan_diagonal: reals,
        kahan_change: reals,
        loop_matrix: reals,
        loop_impulse: reals,
        loop_push: reals,
        # Data out
        loop_weight: reals,
        loop_force: reals,
        kahan_force: reals,
        # Adjoint out
        motion_weight: states,
        mass_bar: reals,
        mass_bar_diagonal: reals,
        tau_bar: states,
        loop_row_bar: reals,
        loop_rhs_bar: reals,
        loop_compliance_bar: reals,
    ):
        """Change motion_weight from -dt p to -dt (p - M^-1 J' m), and propagate to the rows and the mass matrix.

        (W, m) solves ``A' W + J' m = M p, J (W - p) = R m``; after the change the adjoint of trees finds W. The mass
        matrix gets what the adjoint of inverse dynamics at x lacks: -w u' for w = W - p and u = M^-1 J' l. The first
        three outputs are scratch.
        """
        group = wp.tid()
        count = loop_rhs_bar.shape[0]
        for n in range(loops.tree.shape[0]):
            start = first_dof(loops, links, n)
            end = end_dof(loops, links, n)
            for k in range(start, end):
                loop_weight[k, group] = (-one / dt) * a.load_bar(motion_weight, group, k)
            system.multiply_tree(paths, start, end, group, factor_l, factor_d, loop_weight)
        solve_trees_transposed(loops, links, paths, group, kahan_lower, kahan_upper, kahan_diagonal, loop_weight)
        for n in range(loops.tree.shape[0]):
            for k in range(first_dof(loops, links, n), end_dof(loops, links, n)):
                loop_weight[k, group] = loop_weight[k, group] + (one / dt) * a.load_bar(motion_weight, group, k)
        for row in range(count):
            loop_force[row, group] = row_times(loops, row, group, loop_row, loop_weight)
        solve_matrix_transposed(count, group, loop_matrix, loop_force)
        rows_transposed(loops, links, group, loop_row, loop_force, kahan_force)
        solve_trees_transposed(loops, links, paths, group, kahan_lower, kahan_upper, kahan_diagonal, kahan_force)
        for n in range(loops.tree.shape[0]):
            for k in range(first_dof(loops, links, n), end_dof(loops, links, n)):
                w = loop_weight[k, group] - kahan_force[k, group]
                loop_weight[k, group] = w
                mass_bar_diagonal[k, group] = mass_bar_diagonal[k, group] - a.mul(w, loop_push[k, group])
                for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                    j = paths.ancestor[at]
                    both = a.mul(w, loop_push[j, group]) + a.mul(loop_weight[j, group], loop_push[k, group])
                    mass_bar[at, group] = mass_bar[at, group] - both
        for block in range(loops.kind.shape[0]):
            first = loops.block_start[block]
            last = loops.block_start[block + 1]
            softness_bar = a.real(zero)
            for row in range(first, last):
                softness_bar -= a.mul(loop_force[row, group], loop_impulse[row, group])
            squares_bar = softness_bar
            if is_of_tendon(loops.kind[block]):
                loop_compliance_bar[first, group] = softness_bar
                squares_bar = a.real(zero)
            for row in range(first, last):
                force = loop_force[row, group]
                impulse = loop_impulse[row, group]
                for at in range(loops.row_start[row], loops.row_start[row + 1]):
                    k = loops.dof[at]
                    bar = a.mul(impulse, loop_weight[k, group]) - a.mul(force, kahan_change[k, group])
                    bar += (two * share / joint_inertia[k]) * a.mul(squares_bar, loop_row[at, group])
                    loop_row_bar[at, group] = bar
                loop_rhs_bar[row, group] = -force
        rows_transposed(loops, links, group, loop_row, loop_force, kahan_force)
        solve_masses(loops, links, paths, group, factor_l, factor_d, kahan_force)
        for n in range(loops.tree.shape[0]):
            for k in range(first_dof(loops, links, n), end_dof(loops, links, n)):
                lost = dt * kahan_force[k, group]
                if tau_bar.shape[0] > 0:
                    a.add(tau_bar, group, k, -lost)
                a.store(motion_weight, group, k, a.load_bar(motion_weight, group, k) + lost)

    return SimpleNamespace(module=module, couple_loops=couple_loops, loop_adjoint=loop_adjoint)
