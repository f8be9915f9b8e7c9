"""The sparse factorisation M = L' D L that the articulated-body algorithm leaves behind, and the adjoint of the mass matrix.

L has a unit diagonal and entries only at ancestors: ``L[k, j] = U_k . S_j / D_k`` (Featherstone 2014, section 6.5, with the
factors U and D of the articulated-body algorithm). Rows are packed: entry ``dof_row_start[k] + d`` of a packed array belongs to degree of
freedom k and its ancestor at depth d, whose index stands at the same place of ``ancestor``. Where ``lanes`` is given, so many threads share the degrees of freedom of a world.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.spatial import spatial_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def factor_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of the factorisation for one precision."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    spatial, inertia10 = t.spatial, t.inertia
    module = kernel_module("factor", scalar)
    array2d = wp.array2d(dtype=scalar)
    ints = wp.array(dtype=int)

    @wp.func
    def path_dof(depth: ints, row_start: ints, ancestor: ints, tail: int, d: int):
        """The degree of freedom at depth d on the path from the root to ``tail``, that one included."""
        if d < depth[tail]:
            return ancestor[row_start[tail] + d]
        return tail

    @wp.func
    def solve_transposed(
        row_start: ints, depth: ints, ancestor: ints, factor_l: array2d, x: array2d, nv: int, world: int
    ):
        """x := L'^-1 x, for x stored [dof, world]."""
        for back in range(nv):
            k = nv - 1 - back
            value = x[k, world]
            if value != scalar(0.0):
                for d in range(depth[k]):
                    at = row_start[k] + d
                    x[ancestor[at], world] -= factor_l[at, world] * value

    @wp.func
    def solve_lower(row_start: ints, depth: ints, ancestor: ints, factor_l: array2d, x: array2d, nv: int, world: int):
        """x := L^-1 x, for x stored [dof, world]."""
        for k in range(nv):
            value = x[k, world]
            for d in range(depth[k]):
                at = row_start[k] + d
                value -= factor_l[at, world] * x[ancestor[at], world]
            x[k, world] = value

    @wp.kernel(module=module, enable_backward=False)
    def factor_mass_matrix(
        # Model
        lanes: int,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        factor_u: wp.array2d(dtype=spatial),
        factor_d: wp.array2d(dtype=scalar),
        subspace: wp.array2d(dtype=spatial),
        # Data out
        factor_l: wp.array2d(dtype=scalar),
    ):
        lane, world = wp.tid()
        nv = dof_depth.shape[0]
        for k in range(lane, nv, lanes):
            u = factor_u[k, world] * factor_d[k, world]
            for d in range(dof_depth[k]):
                at = dof_row_start[k] + d
                factor_l[at, world] = wp.dot(u, subspace[ancestor[at], world])

    @wp.kernel(module=module, enable_backward=False)
    def mass_matrix_adjoint(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        mass_bar: wp.array2d(dtype=scalar),
        mass_bar_diagonal: wp.array2d(dtype=scalar),
        # Adjoint out
        composite: wp.array2d(dtype=inertia10),
        composite_bar: wp.array2d(dtype=inertia10),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Adds to the adjoints of subspace and link_inertia, given that of the mass matrix.

        M[k, j] = S_j . Ic S_k with Ic the composite inertia of the links that k moves (Featherstone 2014, table 6.2), j an ancestor of k
        or k. ``mass_bar`` is packed and counts an entry and its mirror together.
        """
        tree, world = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        for link in range(first, last):
            composite[link, world] = link_inertia[link, world]
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = link_parent[link]
            if parent >= 0:
                composite[parent, world] += composite[link, world]
        for link in range(first, last):
            parent = link_parent[link]
            total = inertia10()
            if parent >= 0:
                total = composite_bar[parent, world]
            whole = composite[link, world]
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                s = subspace[k, world]
                force = sp.apply_inertia(whole, s)
                along = s * mass_bar_diagonal[k, world]
                subspace_bar[k, world] += force * mass_bar_diagonal[k, world]
                for d in range(dof_depth[k]):
                    at = dof_row_start[k] + d
                    j = ancestor[at]
                    along += subspace[j, world] * mass_bar[at, world]
                    subspace_bar[j, world] += force * mass_bar[at, world]
                subspace_bar[k, world] += sp.apply_inertia(whole, along)
                total += sp.inertia_quadratic(along, s)
            composite_bar[link, world] = total
            link_inertia_bar[link, world] += total

    return SimpleNamespace(
        module=module,
        path_dof=path_dof,
        solve_transposed=solve_transposed,
        solve_lower=solve_lower,
        factor_mass_matrix=factor_mass_matrix,
        mass_matrix_adjoint=mass_matrix_adjoint,
    )
