"""Composite inertias, each link with all that it carries, and the way back from products with them.

M[k, j] = S_j . Ic S_k with Ic the composite inertia of the links that k moves (Featherstone 2014, table 6.2), j an ancestor of k or k.
The loops are ``while`` loops, which Warp compiles to fewer instructions than ``range``; none of this has an adjoint by Warp.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.types import lane_types


@functools.cache
def composite_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Warp functions for one precision and a number of worlds in a block, in the order in which an adjoint calls them."""
    t, a, sp = lane_types(scalar, lanes), algebra(scalar, lanes), spatial_functions(scalar, lanes)
    real, spatial, inertia10 = t.real, t.spatial, t.inertia

    @wp.func
    def start_alone(
        first: int,
        last: int,
        block: int,
        link_inertia: wp.array2d(dtype=inertia10),
        composite: wp.array2d(dtype=inertia10),
    ):
        """Every link with nothing to carry."""
        link = first
        while link < last:
            composite[link, block] = link_inertia[link, block]
            link += 1

    @wp.func
    def add_to_parent(link: int, parent: int, block: int, composite: wp.array2d(dtype=inertia10)):
        """What the link is with all it carries, put upon its parent; the last link of a tree comes first."""
        whole = composite[link, block]
        if parent >= 0:
            composite[parent, block] = composite[parent, block] + whole
        return whole

    @wp.func
    def column_adjoint(
        k: int,
        block: int,
        whole: inertia10,
        s: spatial,
        force: spatial,
        along: spatial,
        diagonal: real,
        subspace_bar: wp.array2d(dtype=spatial),
    ):
        """The adjoint of ``whole``, from column k of the matrix; adds to that of ``s``.

        Args:
            force: ``whole`` times s.
            along: the motions S_j of k and its ancestors, weighted by the adjoints of M[k, j].
            diagonal: the adjoint of M[k, k].
        """
        subspace_bar[k, block] += a.scale_spatial(diagonal, force) + sp.apply_inertia(whole, along)
        return sp.inertia_quadratic(along, s)

    @wp.func
    def pass_to_links(
        first: int,
        last: int,
        block: int,
        link_parent: wp.array(dtype=int),
        composite_bar: wp.array2d(dtype=inertia10),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """A link is part of the composites of all above it: sums their adjoints, and adds them to those of the links."""
        link = first
        while link < last:
            parent = link_parent[link]
            total = composite_bar[link, block]
            if parent >= 0:
                total += composite_bar[parent, block]
                composite_bar[link, block] = total
            link_inertia_bar[link, block] += total
            link += 1

    return SimpleNamespace(
        start_alone=start_alone,
        add_to_parent=add_to_parent,
        column_adjoint=column_adjoint,
        pass_to_links=pass_to_links,
    )
