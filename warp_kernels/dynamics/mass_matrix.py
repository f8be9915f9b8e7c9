"""Joint-space mass matrix, its sparse factors, its inverse, and their adjoints.

The matrix comes from the composite-rigid-body algorithm (Featherstone 2014, table 6.2), in the common frame; the
factorisation M = L' D L is a by-product of the articulated-body algorithm.

L has a unit diagonal and entries only at ancestors: ``L[k, j] = U_k . S_j / D_k`` (Featherstone 2014, section 6.5, with
the factors U and D of the articulated-body algorithm). Rows are packed: entry ``dof_row_start[k] + d`` of a packed
array belongs to degree of freedom k and its ancestor at depth d, whose index is at the same offset of ``ancestor``. A
world's degrees of freedom are shared by ``threads`` threads if it is given.

The inverse is stored in matrices of one row for each lane group, ``[groups, nv * nv]``, entry (i, j) at ``i * nv + j``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.dynamics.composite import COMPOSITE_HEADERS, composite_functions, mass_matrix_adjoint
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def crba_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels of the mass matrix and its adjoint for one precision and a number of worlds in a lane
    group.
    """
    t, a, sp = lane_types(scalar, lanes), algebra(scalar, lanes), spatial_functions(scalar, lanes)
    co = composite_functions(scalar, lanes)
    spatial, inertia10 = t.spatial, t.inertia
    module = kernel_module("crba", scalar, lanes)

    @wp.kernel(module=module, enable_backward=False)
    def crba(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dof_parent: wp.array(dtype=int),
        # Parameters
        armature: wp.array2d(dtype=scalar),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        # Data out
        composite: wp.array2d(dtype=inertia10),
        mass_matrix: wp.array3d(dtype=scalar),
    ):
        """Write the entries of one tree, over (tree, lane group); those of two branches or trees are zero and stay so.

        ``composite`` holds the inertias of the links alone, and afterwards those of their subtrees.
        """
        tree, group = wp.tid()
        first = tree_link_start[tree]
        link = tree_link_start[tree + 1] - 1
        while link >= first:
            whole = co.add_to_parent(link, link_parent[link], group, composite)
            k = joint_qd_start[link]
            past = joint_qd_start[link + 1]
            while k < past:
                s = subspace[k, group]
                force = sp.apply_inertia(whole, s)
                a.store3(mass_matrix, group, k, k, a.dot_spatial(s, force) + a.load_param_scalar(armature, group, k))
                above = dof_parent[k]
                while above >= 0:
                    value = a.dot_spatial(subspace[above, group], force)
                    a.store3(mass_matrix, group, k, above, value)
                    a.store3(mass_matrix, group, above, k, value)
                    above = dof_parent[above]
                k += 1
            link -= 1

    @wp.kernel(module=module, enable_backward=False)
    def armature_adjoint(
        # Adjoint in
        mass_matrix_bar: wp.array3d(dtype=scalar),
        # Adjoint out
        armature_bar: wp.array2d(dtype=scalar),
    ):
        """Add the diagonal to the adjoint of the armature, over (world, dof)."""
        world, k = wp.tid()
        wp.atomic_add(armature_bar, wp.min(world, armature_bar.shape[0] - 1), k, mass_matrix_bar[world, k, k])

    return SimpleNamespace(
        module=module,
        crba=crba,
        crba_adjoint=mass_matrix_adjoint("crba_adjoint", module, scalar, lanes, packed=False),
        armature_adjoint=armature_adjoint,
    )


@functools.cache
def factor_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels of the factorisation for one precision and a number of worlds in a lane group, and functions
    for one world.
    """
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    real, spatial = t.real, t.spatial
    module = kernel_module("factor", scalar, lanes, headers=COMPOSITE_HEADERS if lanes > 1 else ())
    ints = wp.array(dtype=int)

    @wp.func
    def path_dof(depth: ints, row_start: ints, ancestor: ints, tail: int, d: int):
        """Return the degree of freedom at depth d on the path from the root to ``tail``, inclusive."""
        if d < depth[tail]:
            return ancestor[row_start[tail] + d]
        return tail

    @wp.kernel(module=module, enable_backward=False)
    def factor_mass_matrix(
        # Model
        threads: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        factor_u: wp.array2d(dtype=spatial),
        factor_d: wp.array2d(dtype=real),
        subspace: wp.array2d(dtype=spatial),
        # Data out
        factor_l: wp.array2d(dtype=real),
    ):
        thread, group = wp.tid()
        nv = dof_depth.shape[0]
        for k in range(thread, nv, threads):
            u = a.scale_spatial(factor_d[k, group], factor_u[k, group])
            for d in range(dof_depth[k]):
                at = dof_row_start[k] + d
                factor_l[at, group] = a.dot_spatial(u, subspace[ancestor[at], group])

    return SimpleNamespace(
        module=module,
        path_dof=path_dof,
        factor_mass_matrix=factor_mass_matrix,
        mass_matrix_adjoint=mass_matrix_adjoint("mass_matrix_adjoint", module, scalar, lanes, packed=True),
    )


@functools.cache
def inverse_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision and a number of worlds in a lane group."""
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    real = t.real
    module = kernel_module("inverse", scalar, lanes)
    reals, motions = wp.array2d(dtype=real), wp.array2d(dtype=t.spatial)

    @wp.kernel(module=module, enable_backward=False)
    def lower_factor(
        # Model
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        factor_u: motions,
        factor_d: reals,
        subspace: motions,
        # Data out
        factor_l: reals,
    ):
        """Compute a row of L, packed as in :mod:`warp_kernels.dynamics.mass_matrix`, over (dof, group)."""
        k, group = wp.tid()
        u = a.scale_spatial(factor_d[k, group], factor_u[k, group])
        for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
            factor_l[at, group] = a.dot_spatial(u, subspace[ancestor[at], group])

    @wp.kernel(module=module, enable_backward=False)
    def inverse_mass_matrix(
        # Model
        dof_parent: wp.array(dtype=int),
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        factor_l: reals,
        factor_d: reals,
        # Data out
        columns: reals,
        inverse: wp.array3d(dtype=scalar),
    ):
        """Compute a column of (L' D L)^-1, also as a row, over (group, column); ``factor_d`` holds the inverse of D."""
        group, column = wp.tid()
        nv = dof_parent.shape[0]
        start = column * nv
        for k in range(nv):
            columns[group, start + k] = a.real(scalar(0.0))
        columns[group, start + column] = a.real(scalar(1.0))
        k = column
        while k >= 0:
            value = columns[group, start + k]
            for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
                j = start + ancestor[at]
                columns[group, j] = columns[group, j] - a.mul(factor_l[at, group], value)
            k = dof_parent[k]
        for k in range(nv):
            value = a.mul(columns[group, start + k], factor_d[k, group])
            for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
                value -= a.mul(factor_l[at, group], columns[group, start + ancestor[at]])
            columns[group, start + k] = value
            a.store3(inverse, group, column, k, value)

    @wp.kernel(module=module, enable_backward=False)
    def load_matrices(
        # Data in
        inverse: wp.array3d(dtype=scalar),
        # Adjoint in
        inverse_bar: wp.array3d(dtype=scalar),
        # Data out
        rows: reals,
        # Adjoint out
        rows_bar: reals,
    ):
        """Load a row of the inverse, and of the symmetric part of its adjoint, over (group, row)."""
        group, i = wp.tid()
        nv = inverse.shape[1]
        for j in range(nv):
            rows[group, i * nv + j] = a.load3(inverse, group, i, j)
            both = a.load_bar3(inverse_bar, group, i, j) + a.load_bar3(inverse_bar, group, j, i)
            rows_bar[group, i * nv + j] = both * scalar(0.5)

    @wp.kernel(module=module, enable_backward=False)
    def symmetric_product(
        # Model
        nv: int,
        # Data in
        x: reals,
        y: reals,
        # Data out
        z: reals,
    ):
        """Compute a row of z = x y, where y is symmetric, over (group, row)."""
        group, i = wp.tid()
        for j in range(nv):
            total = a.real(scalar(0.0))
            p = i * nv
            q = j * nv
            while p < (i + 1) * nv:
                total += a.mul(x[group, p], y[group, q])
                p += 1
                q += 1
            z[group, i * nv + j] = total

    @wp.kernel(module=module, enable_backward=False)
    def mass_matrix_bar(
        # Model
        dof_parent: wp.array(dtype=int),
        # Data in
        rows: reals,
        # Adjoint in
        right: reals,
        # Adjoint out
        mass_matrix_bar: wp.array3d(dtype=scalar),
    ):
        """Compute row k of -A S A, for ``rows`` = A, the inverse, and ``right`` = S A, at nonzeros of the mass matrix,
        over (group, k).
        """
        group, k = wp.tid()
        nv = dof_parent.shape[0]
        j = k
        while j >= 0:
            total = a.real(scalar(0.0))
            for i in range(nv):
                total -= a.mul(rows[group, k * nv + i], right[group, i * nv + j])
            a.store3(mass_matrix_bar, group, k, j, total)
            a.store3(mass_matrix_bar, group, j, k, total)
            j = dof_parent[j]

    return SimpleNamespace(
        module=module,
        lower_factor=lower_factor,
        inverse_mass_matrix=inverse_mass_matrix,
        load_matrices=load_matrices,
        symmetric_product=symmetric_product,
        mass_matrix_bar=mass_matrix_bar,
    )
