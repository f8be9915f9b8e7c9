"""Damping of links in a step from the middle: symmetric matrices D that act on changes of their velocities.

With the motion subspaces S of the path to a link, D adds ``S_j . D S_k`` to the entries of the mass matrix, which are
those of D's sum over the links that k moves, as for inertias (:mod:`warp_kernels.dynamics.composite`). In the factors
and accelerations they are from the start (:mod:`warp_kernels.dynamics.aba`).

The backward pass of a step differentiates ``-h w . ID`` (:mod:`warp_kernels.solver.impulse`), to which damping adds
``-h w . E qdd`` with its entries E, and the entries as part of the mass matrix.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.dynamics.symmetric import symmetric_functions, symmetric_headers
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.kinematics.propagation import Links
from warp_kernels.solver.structs import Paths
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def link_damping_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision and a number of worlds in a lane group, over (tree, group)."""
    t, a, of = lane_types(scalar, lanes), algebra(scalar, lanes), symmetric_functions(scalar, lanes)
    joints = joint_functions(scalar, lanes)
    spatial, articulated = t.spatial, t.articulated
    states, reals = wp.array2d(dtype=scalar), wp.array2d(dtype=t.real)
    motions, matrices = wp.array2d(dtype=spatial), wp.array2d(dtype=articulated)
    module, adjoint_module = (
        kernel_module(name, scalar, lanes, headers=symmetric_headers(lanes))
        for name in ("link_damping", "link_damping_adjoint")
    )

    @wp.kernel(module=module, enable_backward=False)
    def damping_masses(
        # Model
        links: Links,
        paths: Paths,
        # Data in
        subspace: motions,
        # Data out
        link_damping: matrices,
        kahan_mass: reals,
        joint_diagonal: reals,
    ):
        """Sum D over subtrees, in place; add the entries below the diagonal, packed, to kahan_mass, if that has rows,
        and those on it to joint_diagonal.
        """
        tree, group = wp.tid()
        first = links.tree_start[tree]
        last = links.tree_start[tree + 1]
        for back in range(last - first):
            link = last - 1 - back
            parent = links.parent[link]
            if parent >= 0:
                of.add_matrix(link_damping, link, link_damping, parent, group)
            if kahan_mass.shape[0] == 0:
                continue
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                s = subspace[k, group]
                force = of.matrix_times(link_damping, link, group, s)
                joint_diagonal[k, group] = joint_diagonal[k, group] + a.dot_spatial(s, force)
                at_base = paths.dof_row_start[k]
                of_base = int(0)
                if joints.keeps_axes(links.joint_type[first]):
                    # Columns of motion of a free base are unit vectors.
                    of_base = wp.min(paths.dof_depth[k], 6)
                    for c in range(3):
                        if c < of_base:
                            kahan_mass[at_base + c, group] = kahan_mass[at_base + c, group] + force[3 + c]
                        if 3 + c < of_base:
                            kahan_mass[at_base + 3 + c, group] = kahan_mass[at_base + 3 + c, group] + force[c]
                for at in range(at_base + of_base, at_base + paths.dof_depth[k]):
                    entry = a.dot_spatial(subspace[paths.ancestor[at], group], force)
                    kahan_mass[at, group] = kahan_mass[at, group] + entry

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def damping_adjoint(
        # Model
        links: Links,
        paths: Paths,
        # Data in
        qdd: states,
        subspace: motions,
        link_damping: matrices,
        # Adjoint in
        motion_weight: states,
        mass_bar: reals,
        mass_bar_diagonal: reals,
        # Adjoint out
        link_damping_bar: matrices,
        subspace_bar: motions,
    ):
        """Compute the adjoint of D, as the symmetric matrix whose product with a change of D is that of the result, and
        add to that of subspaces. link_damping: sums over subtrees; motion_weight: -h w; mass_bar: packed, each entry
        together with its mirror.
        """
        tree, group = wp.tid()
        first = links.tree_start[tree]
        last = links.tree_start[tree + 1]
        for back in range(last - first):
            link = last - 1 - back
            link_damping_bar[link, group] = articulated()
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                s = subspace[k, group]
                force = of.matrix_times(link_damping, link, group, s)
                weight = a.load(motion_weight, group, k)
                change = a.load(qdd, group, k)
                own = mass_bar_diagonal[k, group] + a.mul(weight, change)
                along = a.scale_spatial(own, s)
                for at in range(paths.dof_row_start[k], paths.dof_row_start[k] + paths.dof_depth[k]):
                    j = paths.ancestor[at]
                    bar = mass_bar[at, group] + a.mul(weight, a.load(qdd, group, j))
                    bar += a.mul(a.load(motion_weight, group, j), change)
                    along += a.scale_spatial(bar, subspace[j, group])
                    subspace_bar[j, group] = subspace_bar[j, group] + a.scale_spatial(bar, force)
                found = a.scale_spatial(own, force) + of.matrix_times(link_damping, link, group, along)
                subspace_bar[k, group] = subspace_bar[k, group] + found
                of.add_product(link_damping_bar, link, group, along, s)
        for link in range(first, last):
            if links.parent[link] >= 0:
                of.add_matrix(link_damping_bar, links.parent[link], link_damping_bar, link, group)

    return SimpleNamespace(
        modules=(module, adjoint_module), damping_masses=damping_masses, damping_adjoint=damping_adjoint
    )
