"""The joint-space mass matrix by the composite-rigid-body algorithm (Featherstone 2014, table 6.2), in the common frame."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.composite import composite_functions
from warp_kernels.spatial import spatial_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def crba_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of the mass matrix and its adjoint for one precision."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    co = composite_functions(scalar)
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
        # Data out
        composite: wp.array2d(dtype=inertia10),
        mass_matrix: wp.array3d(dtype=scalar),
    ):
        """Writes the entries of one tree, over (tree, world); those of two branches or trees are zero and stay as they are.

        ``composite`` holds the inertias of the links alone, and afterwards with all that they carry.
        """
        tree, world = wp.tid()
        first = tree_link_start[tree]
        link = tree_link_start[tree + 1] - 1
        row = wp.min(world, armature.shape[0] - 1)
        while link >= first:
            whole = co.add_to_parent(link, link_parent[link], world, composite)
            k = joint_qd_start[link]
            past = joint_qd_start[link + 1]
            while k < past:
                s = subspace[k, world]
                force = sp.apply_inertia(whole, s)
                mass_matrix[world, k, k] = wp.dot(s, force) + armature[row, k]
                above = dof_parent[k]
                while above >= 0:
                    value = wp.dot(subspace[above, world], force)
                    mass_matrix[world, k, above] = value
                    mass_matrix[world, above, k] = value
                    above = dof_parent[above]
                k += 1
            link -= 1

    @wp.func
    def path_adjoint(
        k: int,
        world: int,
        force: spatial,
        dof_parent: wp.array(dtype=int),
        subspace: wp.array2d(dtype=spatial),
        mass_matrix_bar: wp.array3d(dtype=scalar),
        subspace_bar: wp.array2d(dtype=spatial),
    ):
        """The motions of k and its ancestors, weighted by the adjoints of their entries; adds to those of the ancestors."""
        along = subspace[k, world] * mass_matrix_bar[world, k, k]
        above = dof_parent[k]
        while above >= 0:
            bar = mass_matrix_bar[world, k, above] + mass_matrix_bar[world, above, k]
            along += subspace[above, world] * bar
            subspace_bar[above, world] += force * bar
            above = dof_parent[above]
        return along

    @wp.kernel(module=module, enable_backward=False)
    def crba_adjoint(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dof_parent: wp.array(dtype=int),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint in
        mass_matrix_bar: wp.array3d(dtype=scalar),
        # Adjoint out
        composite: wp.array2d(dtype=inertia10),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Adds to the adjoints of subspace and link_inertia, over (tree, world); ``composite`` is scratch."""
        tree, world = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        co.start_alone(first, last, world, link_inertia, composite)
        link = last - 1
        while link >= first:
            whole = co.add_to_parent(link, link_parent[link], world, composite)
            total = inertia10()
            k = joint_qd_start[link]
            past = joint_qd_start[link + 1]
            while k < past:
                s = subspace[k, world]
                force = sp.apply_inertia(whole, s)
                along = path_adjoint(k, world, force, dof_parent, subspace, mass_matrix_bar, subspace_bar)
                diagonal = mass_matrix_bar[world, k, k]
                total += co.column_adjoint(k, world, whole, s, force, along, diagonal, subspace_bar)
                k += 1
            composite[link, world] = total
            link -= 1
        co.pass_to_links(first, last, world, link_parent, composite, link_inertia_bar)

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
        crba_adjoint=crba_adjoint,
        armature_adjoint=armature_adjoint,
    )
