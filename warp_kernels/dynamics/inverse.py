"""The inverse of the mass matrix from its sparse factors, and what its adjoint needs.

What is worked on lies in matrices of one row for each block of worlds, ``[blocks, nv * nv]``, entry (i, j) at ``i * nv + j``.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def inverse_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """The kernels for one precision and a number of worlds in a block."""
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
        """A row of L, packed as in :mod:`warp_kernels.dynamics.factor`, over (dof, block)."""
        k, block = wp.tid()
        u = a.scale_spatial(factor_d[k, block], factor_u[k, block])
        for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
            factor_l[at, block] = a.dot_spatial(u, subspace[ancestor[at], block])

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
        """A column, and as a row, of (L' D L)^-1, over (block, column); ``factor_d`` holds the inverse of D."""
        block, column = wp.tid()
        nv = dof_parent.shape[0]
        start = column * nv
        for k in range(nv):
            columns[block, start + k] = a.real(scalar(0.0))
        columns[block, start + column] = a.real(scalar(1.0))
        k = column
        while k >= 0:
            value = columns[block, start + k]
            for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
                j = start + ancestor[at]
                columns[block, j] = columns[block, j] - a.mul(factor_l[at, block], value)
            k = dof_parent[k]
        for k in range(nv):
            value = a.mul(columns[block, start + k], factor_d[k, block])
            for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
                value -= a.mul(factor_l[at, block], columns[block, start + ancestor[at]])
            columns[block, start + k] = value
            a.store3(inverse, block, column, k, value)

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
        """A row of the inverse, and of the symmetric part of its adjoint, over (block, row)."""
        block, i = wp.tid()
        nv = inverse.shape[1]
        for j in range(nv):
            rows[block, i * nv + j] = a.load3(inverse, block, i, j)
            both = a.load_bar3(inverse_bar, block, i, j) + a.load_bar3(inverse_bar, block, j, i)
            rows_bar[block, i * nv + j] = both * scalar(0.5)

    @wp.kernel(module=module, enable_backward=False)
    def product(
        # Model
        nv: int,
        # Data in
        x: reals,
        y: reals,
        # Data out
        z: reals,
    ):
        """A row of z = x y, where y is symmetric, over (block, row)."""
        block, i = wp.tid()
        for j in range(nv):
            total = a.real(scalar(0.0))
            p = i * nv
            q = j * nv
            while p < (i + 1) * nv:
                total += a.mul(x[block, p], y[block, q])
                p += 1
                q += 1
            z[block, i * nv + j] = total

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
        """Row k of -A S A, for ``rows`` = A, the inverse, and ``right`` = S A, where the mass matrix isn't zero, over (block, k)."""
        block, k = wp.tid()
        nv = dof_parent.shape[0]
        j = k
        while j >= 0:
            total = a.real(scalar(0.0))
            for i in range(nv):
                total -= a.mul(rows[block, k * nv + i], right[block, i * nv + j])
            a.store3(mass_matrix_bar, block, k, j, total)
            a.store3(mass_matrix_bar, block, j, k, total)
            j = dof_parent[j]

    return SimpleNamespace(
        module=module,
        lower_factor=lower_factor,
        inverse_mass_matrix=inverse_mass_matrix,
        load_matrices=load_matrices,
        product=product,
        mass_matrix_bar=mass_matrix_bar,
    )
