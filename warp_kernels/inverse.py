"""The inverse of the mass matrix from its sparse factors, and what its adjoint needs."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module, warp_types


@functools.cache
def inverse_kernels(scalar: Any) -> SimpleNamespace:
    """The kernels for one precision."""
    t = warp_types(scalar)
    module = kernel_module("inverse", t.scalar)

    @wp.kernel(module=module, enable_backward=False)
    def inverse_mass_matrix(
        # Model
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        # Data out
        inverse: wp.array3d(dtype=scalar),
    ):
        """A column, and as a row, of (L' D L)^-1, over (column, world); ``factor_d`` holds the inverse of D."""
        column, world = wp.tid()
        nv = dof_depth.shape[0]
        for k in range(nv):
            inverse[world, column, k] = scalar(0.0)
        inverse[world, column, column] = scalar(1.0)
        for back in range(column + 1):
            k = column - back
            value = inverse[world, column, k]
            if value != scalar(0.0):
                for d in range(dof_depth[k]):
                    at = dof_row_start[k] + d
                    inverse[world, column, ancestor[at]] -= factor_l[at, world] * value
        for k in range(nv):
            value = inverse[world, column, k] * factor_d[k, world]
            for d in range(dof_depth[k]):
                at = dof_row_start[k] + d
                value -= factor_l[at, world] * inverse[world, column, ancestor[at]]
            inverse[world, column, k] = value

    @wp.kernel(module=module, enable_backward=False)
    def product(
        # Model
        factor: scalar,
        # Data in
        a: wp.array3d(dtype=scalar),
        b: wp.array3d(dtype=scalar),
        # Data out
        c: wp.array3d(dtype=scalar),
    ):
        """c = factor a b for square matrices, over (row, column, world)."""
        i, j, world = wp.tid()
        total = scalar(0.0)
        for k in range(a.shape[2]):
            total += a[world, i, k] * b[world, k, j]
        c[world, i, j] = factor * total

    return SimpleNamespace(module=module, inverse_mass_matrix=inverse_mass_matrix, product=product)
