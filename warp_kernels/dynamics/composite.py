"""Composite inertias of subtrees, and the adjoint of the mass matrix computed from them.

M[k, j] = S_j . Ic S_k with Ic the composite inertia of the links that k moves (Featherstone 2014, table 6.2), j an
ancestor of k or k. The loops are ``while`` loops, which Warp compiles to fewer instructions than ``range``; none of
this has an adjoint by Warp.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.cpu.native import Native
from warp_kernels.kinematics.propagation import propagation
from warp_kernels.types import lane_types
from warp_kernels.variants import used_arguments_only

# C++ of modules with several lanes that have :func:`mass_matrix_adjoint`, ``packed``; see :mod:`warp_kernels.cpu.native`.
COMPOSITE_HEADERS = ("dynamics/composite.h",)


@functools.cache
def composite_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the Warp functions for one precision and a number of worlds in a lane group, in the order in which an
    adjoint calls them.
    """
    t, a, sp = lane_types(scalar, lanes), algebra(scalar, lanes), spatial_functions(scalar, lanes)
    real, spatial, inertia10, hand = t.real, t.spatial, t.inertia, propagation(lanes)

    @wp.func
    def start_alone(
        first: int,
        last: int,
        group: int,
        link_forks: wp.array(dtype=int),
        link_inertia: wp.array2d(dtype=inertia10),
        composite: wp.array2d(dtype=inertia10),
    ):
        """Set each link's composite inertia to its own, if it is kept in memory."""
        link = first
        while link < last:
            hand.keep(link_inertia[link, group], link, group, link_forks, composite)
            link += 1

    @wp.func
    def add_to_parent(link: int, parent: int, group: int, composite: wp.array2d(dtype=inertia10)):
        """Add the composite inertia of a link to its parent; the last link of a tree comes first."""
        whole = composite[link, group]
        if parent >= 0:
            composite[parent, group] = composite[parent, group] + whole
        return whole

    @wp.func
    def column_adjoint(
        k: int,
        group: int,
        whole: inertia10,
        s: spatial,
        force: spatial,
        along: spatial,
        diagonal: real,
        subspace_bar: wp.array2d(dtype=spatial),
    ):
        """Compute the adjoint of ``whole`` from column k of the matrix; add to that of ``s``.

        Args:
            force: ``whole`` times s.
            along: the motions S_j of k and its ancestors, weighted by the adjoints of M[k, j].
            diagonal: the adjoint of M[k, k].
        """
        subspace_bar[k, group] += a.scale_spatial(diagonal, force) + sp.apply_inertia(whole, along)
        return sp.inertia_quadratic(along, s)

    @wp.func
    def pass_to_links(
        first: int,
        last: int,
        group: int,
        link_parent: wp.array(dtype=int),
        link_forks: wp.array(dtype=int),
        composite_bar: wp.array2d(dtype=inertia10),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Propagate the adjoints of composites to the links: sum those of all links above, and add them."""
        total = inertia10()
        link = first
        while link < last:
            total = hand.from_parent(total, inertia10(), link_parent[link], link - 1, group, composite_bar)
            total += composite_bar[link, group]
            hand.keep(total, link, group, link_forks, composite_bar)
            link_inertia_bar[link, group] += total
            link += 1

    return SimpleNamespace(
        start_alone=start_alone,
        add_to_parent=add_to_parent,
        column_adjoint=column_adjoint,
        pass_to_links=pass_to_links,
    )


def mass_matrix_adjoint(name: str, module: wp.Module, scalar: Any, lanes: int, packed: bool) -> wp.Kernel:
    """Return the adjoint of the mass matrix, without that of the armature, as a kernel over (tree, lane group).

    Args:
        name: of the kernel.
        module: its Warp module.
        scalar: precision.
        lanes: number of worlds in a lane group.
        packed: whether the adjoint of the matrix comes as ``mass_bar``, its entries below the diagonal, each together
            with its mirror, packed as in :mod:`warp_kernels.dynamics.mass_matrix`, and ``mass_bar_diagonal``; otherwise
            whole, as ``mass_matrix_bar``.
    """
    t, a, sp = lane_types(scalar, lanes), algebra(scalar, lanes), spatial_functions(scalar, lanes)
    co, hand = composite_functions(scalar, lanes), propagation(lanes)
    spatial, inertia10 = t.spatial, t.inertia
    ints, motions, array2d = wp.array(dtype=int), wp.array2d(dtype=spatial), wp.array2d(dtype=t.real)

    # Both: the motions of k and its ancestors, weighted by the adjoints of their entries; add to those of the
    # ancestors.
    @wp.func
    def whole_path(
        k: int,
        group: int,
        force: spatial,
        dof_parent: ints,
        subspace: motions,
        mass_matrix_bar: wp.array3d(dtype=scalar),
        subspace_bar: motions,
    ):
        along = a.scale_spatial(a.load_bar3(mass_matrix_bar, group, k, k), subspace[k, group])
        above = dof_parent[k]
        while above >= 0:
            bar = a.load_bar3(mass_matrix_bar, group, k, above) + a.load_bar3(mass_matrix_bar, group, above, k)
            along += a.scale_spatial(bar, subspace[above, group])
            subspace_bar[above, group] += a.scale_spatial(bar, force)
            above = dof_parent[above]
        return along

    if lanes == 1:  # native code takes more registers of a GPU

        @wp.func
        def packed_path(
            k: int,
            group: int,
            force: spatial,
            depth: ints,
            row_start: ints,
            ancestor: ints,
            subspace: motions,
            mass_bar: array2d,
            mass_bar_diagonal: array2d,
            subspace_bar: motions,
        ):
            along = a.scale_spatial(mass_bar_diagonal[k, group], subspace[k, group])
            at = row_start[k]
            past = at + depth[k]
            while at < past:
                j = ancestor[at]
                bar = mass_bar[at, group]
                along += a.scale_spatial(bar, subspace[j, group])
                subspace_bar[j, group] += a.scale_spatial(bar, force)
                at += 1
            return along

    else:

        @Native(scalar, lanes, "composite").func_native()
        def packed_path(
            k: int,
            group: int,
            force: spatial,
            depth: ints,
            row_start: ints,
            ancestor: ints,
            subspace: motions,
            mass_bar: array2d,
            mass_bar_diagonal: array2d,
            subspace_bar: motions,
        ) -> spatial: ...

    @wp.kernel(name=name, module=module, enable_backward=False)
    @used_arguments_only
    def adjoint(
        # Model
        tree_link_start: wp.array(dtype=int),
        link_parent: wp.array(dtype=int),
        link_forks: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dof_parent: wp.array(dtype=int),
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint in
        mass_matrix_bar: wp.array3d(dtype=scalar),
        mass_bar: wp.array2d(dtype=t.real),
        mass_bar_diagonal: wp.array2d(dtype=t.real),
        # Adjoint out
        composite: wp.array2d(dtype=inertia10),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Add to the adjoints of subspace and link_inertia; ``composite`` is scratch."""
        tree, group = wp.tid()
        first = tree_link_start[tree]
        last = tree_link_start[tree + 1]
        co.start_alone(first, last, group, link_forks, link_inertia, composite)
        whole = inertia10()
        link = last - 1
        while link >= first:
            own = hand.kept(link_inertia[link, group], link, group, link_forks, composite)
            whole = hand.from_children(whole, own, link, last, link_parent)
            hand.to_parent(whole, link, link_parent[link], group, composite)
            total = inertia10()
            k = joint_qd_start[link]
            past = joint_qd_start[link + 1]
            while k < past:
                s = subspace[k, group]
                force = sp.apply_inertia(whole, s)
                if wp.static(packed):
                    along = packed_path(
                        k, group, force, dof_depth, dof_row_start, ancestor, subspace, mass_bar, mass_bar_diagonal,
                        subspace_bar,
                    )  # fmt: skip
                    diagonal = mass_bar_diagonal[k, group]
                else:
                    along = whole_path(k, group, force, dof_parent, subspace, mass_matrix_bar, subspace_bar)
                    diagonal = a.load_bar3(mass_matrix_bar, group, k, k)
                total += co.column_adjoint(k, group, whole, s, force, along, diagonal, subspace_bar)
                k += 1
            composite[link, group] = total
            link -= 1
        co.pass_to_links(first, last, group, link_parent, link_forks, composite, link_inertia_bar)

    return adjoint
