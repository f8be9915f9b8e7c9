"""The joint-space mass matrix by the composite-rigid-body algorithm (Featherstone 2014, table 6.2), in the common frame."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.spatial import spatial_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def crba_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of the mass matrix for one precision. Its adjoint is in :mod:`warp_kernels.factor`."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    spatial, inertia10 = t.spatial, t.inertia
    module = kernel_module("crba", scalar)

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
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        composite: wp.array2d(dtype=inertia10),
        mass_matrix: wp.array3d(dtype=scalar),
    ):
        """Writes the entries of one tree, over (tree, world); those between trees are zero and stay as they are."""
        tree, world = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        for link in range(first, last):
            composite[link, world] = link_inertia[link, world]
        for reverse in range(last - first):
            link = last - 1 - reverse
            parent = link_parent[link]
            whole = composite[link, world]
            if parent >= 0:
                composite[parent, world] += whole
            for k in range(joint_qd_start[link], joint_qd_start[link + 1]):
                force = sp.apply_inertia(whole, subspace[k, world])
                rotor = armature[wp.min(world, armature.shape[0] - 1), k]
                mass_matrix[world, k, k] = wp.dot(subspace[k, world], force) + rotor
                above = dof_parent[k]
                while above >= 0:
                    value = wp.dot(subspace[above, world], force)
                    mass_matrix[world, k, above] = value
                    mass_matrix[world, above, k] = value
                    above = dof_parent[above]

    @wp.kernel(module=module, enable_backward=False)
    def pack_mass_matrix_adjoint(
        # Model
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Adjoint in
        mass_matrix_bar: wp.array3d(dtype=scalar),
        # Adjoint out
        mass_bar: wp.array2d(dtype=scalar),
        mass_bar_diagonal: wp.array2d(dtype=scalar),
    ):
        """The adjoint of the full matrix in packed ancestor storage, an entry and its mirror together, over (dof, world)."""
        k, world = wp.tid()
        mass_bar_diagonal[k, world] = mass_matrix_bar[world, k, k]
        for d in range(dof_depth[k]):
            at = dof_row_start[k] + d
            j = ancestor[at]
            mass_bar[at, world] = mass_matrix_bar[world, k, j] + mass_matrix_bar[world, j, k]

    @wp.kernel(module=module, enable_backward=False)
    def armature_adjoint(
        # Adjoint in
        mass_matrix_bar: wp.array3d(dtype=scalar),
        # Adjoint out
        armature_bar: wp.array2d(dtype=scalar),
    ):
        """Adds the diagonal to the adjoint of the armature, over (dof, world)."""
        k, world = wp.tid()
        wp.atomic_add(armature_bar, wp.min(world, armature_bar.shape[0] - 1), k, mass_matrix_bar[world, k, k])

    return SimpleNamespace(
        module=module,
        crba=crba,
        pack_mass_matrix_adjoint=pack_mass_matrix_adjoint,
        armature_adjoint=armature_adjoint,
    )
