"""The inverse of the mass matrix from its sparse factors, and what its adjoint needs.

What is worked on lies in matrices of one row for each lane group, ``[groups, nv * nv]``, entry (i, j) at ``i * nv + j``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def inverse_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """The kernels for one precision and a number of worlds in a lane group."""
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
        """A row of L, packed as in :mod:`warp_kernels.dynamics.factor`, over (dof, group)."""
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
        """A column, and as a row, of (L' D L)^-1, over (group, column); ``factor_d`` holds the inverse of D."""
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
        """A row of the inverse, and of the symmetric part of its adjoint, over (group, row)."""
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
        """A row of z = x y, where y is symmetric, over (group, row)."""
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
        """Row k of -A S A, for ``rows`` = A, the inverse, and ``right`` = S A, where the mass matrix isn't zero, over (group, k)."""
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
