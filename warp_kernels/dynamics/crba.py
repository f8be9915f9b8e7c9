"""The joint-space mass matrix by the composite-rigid-body algorithm (Featherstone 2014, table 6.2), in the common frame."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.dynamics.composite import composite_functions, mass_matrix_adjoint
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def crba_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Kernels of the mass matrix and its adjoint for one precision and a number of worlds in a lane group."""
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
        """Writes the entries of one tree, over (tree, lane group); those of two branches or trees are zero and stay as they are.

        ``composite`` holds the inertias of the links alone, and afterwards with all that they carry.
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
        """Adds the diagonal to the adjoint of the armature, over (world, dof)."""
        world, k = wp.tid()
        wp.atomic_add(armature_bar, wp.min(world, armature_bar.shape[0] - 1), k, mass_matrix_bar[world, k, k])

    return SimpleNamespace(
        module=module,
        crba=crba,
        crba_adjoint=mass_matrix_adjoint("crba_adjoint", module, scalar, lanes, packed=False),
        armature_adjoint=armature_adjoint,
    )
