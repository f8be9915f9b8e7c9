"""Links and degrees of freedom by their depth in the trees of a model."""

from typing import Any

import warp as wp

from warp_kernels.cpu.array_access import cuda_pair_functions
from warp_kernels.team import team_module


@wp.struct
class LinkLevels:
    """Links by the number of those above them, and what is below them.

    Attributes:
        start: first entry of each level in ``link``, and the number of links [levels + 1].
        link: links, level by level [num_links].
        child_start: first entry of each link in ``child``, and their number [num_links + 1].
        child: children of links.
        tree: tree of each link [num_links].
        dof_link: link of each degree of freedom [nv].
        below_start: first entry of each degree of freedom in ``below``, and their number [nv + 1].
        below: degrees of freedom that have it among their ancestors.
        below_at: their entries for it in packed storage, see :mod:`warp_kernels.dynamics.mass_matrix`.
    """

    start: wp.array(dtype=int)
    link: wp.array(dtype=int)
    child_start: wp.array(dtype=int)
    child: wp.array(dtype=int)
    tree: wp.array(dtype=int)
    dof_link: wp.array(dtype=int)
    below_start: wp.array(dtype=int)
    below: wp.array(dtype=int)
    below_at: wp.array(dtype=int)


# Widths for which tests over all kernels compile those of this folder: they differ in a constant.
TREE_WIDTHS = [(8,)]

# Motions, forces and inertias of links.
_LENGTHS = (6, 10)


def tree_module(name: str, scalar: Any, width: int) -> wp.Module:
    """Return the module of kernels of a pass over trees."""
    module = team_module(name, scalar, width)
    pairs = wp.ModuleBuildOptions(extra_cuda_preamble=cuda_pair_functions(_LENGTHS))
    wp.set_module_options({"extra_build_options": module.options["extra_build_options"].merged(pairs)}, module)
    return module
