"""The sparse factorisation M = L' D L that the articulated-body algorithm leaves behind, and the adjoint of the mass matrix.

L has a unit diagonal and entries only at ancestors: ``L[k, j] = U_k . S_j / D_k`` (Featherstone 2014, section 6.5, with
the factors U and D of the articulated-body algorithm). Rows are packed: entry ``dof_row_start[k] + d`` of a packed array
belongs to degree of freedom k and its ancestor at depth d, whose index stands at the same place of ``ancestor``. A world's degrees of
freedom are shared by ``threads`` threads where it is given.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.dynamics.composite import COMPOSITE_HEADERS, mass_matrix_adjoint
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def factor_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Kernels of the factorisation for one precision and a number of worlds in a lane group, and functions for one world."""
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    real, spatial = t.real, t.spatial
    module = kernel_module("factor", scalar, lanes, headers=COMPOSITE_HEADERS if lanes > 1 else ())
    ints = wp.array(dtype=int)

    @wp.func
    def path_dof(depth: ints, row_start: ints, ancestor: ints, tail: int, d: int):
        """The degree of freedom at depth d on the path from the root to ``tail``, that one included."""
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
