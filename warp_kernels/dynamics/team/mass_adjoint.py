"""Adjoint of the mass matrix by a team of threads per world, see :mod:`warp_kernels.dynamics.composite`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.dynamics.team.levels import TREE_WIDTHS, LinkLevels, tree_module
from warp_kernels.kinematics.propagation import Links
from warp_kernels.team import team_functions
from warp_kernels.types import warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_mass_adjoint_kernels": TREE_WIDTHS}


@functools.cache
def team_mass_adjoint_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernel for one precision and number of threads of a team."""
    t, sp = warp_types(scalar), spatial_functions(scalar, 1)
    spatial, inertia10 = t.spatial, t.inertia
    team, module = team_functions(scalar, width), tree_module("team_mass_adjoint", scalar, width)

    @wp.kernel(module=module, enable_backward=False)
    def team_mass_matrix_adjoint(
        # Model
        links: Links,
        link_levels: LinkLevels,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Adjoint in
        mass_bar: wp.array2d(dtype=scalar),
        mass_bar_diagonal: wp.array2d(dtype=scalar),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        column_force: wp.array2d(dtype=spatial),
        column_motion: wp.array2d(dtype=spatial),
        # Adjoint out
        composite: wp.array2d(dtype=inertia10),
        subspace_bar: wp.array2d(dtype=spatial),
        link_inertia_bar: wp.array2d(dtype=inertia10),
    ):
        """Add to the adjoints of subspace and link_inertia, as the kernel ``mass_matrix_adjoint``; the arrays before
        them are scratch.
        """
        world, _lane = wp.tid()
        team.begin(scratch, world)
        num_links = links.parent.shape[0]
        num_levels = link_levels.start.shape[0] - 1
        nv = dof_depth.shape[0]
        for back in range(num_levels):
            level = num_levels - 1 - back
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                whole = link_inertia[link, world]
                for at in range(link_levels.child_start[link], link_levels.child_start[link + 1]):
                    whole += composite[link_levels.child[at], world]
                composite[link, world] = whole
            team.sync()
        # Columns of the matrix: the motions of k and its ancestors, weighted by the adjoints of their entries.
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            inertia = composite[link_levels.dof_link[k], world]
            diagonal = mass_bar_diagonal[k, world]
            s = subspace[k, world]
            force = sp.apply_inertia(inertia, s)
            along = diagonal * s
            for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
                along += mass_bar[at, world] * subspace[ancestor[at], world]
            column_force[k, world] = force
            column_motion[k, world] = along
            subspace_bar[k, world] = subspace_bar[k, world] + diagonal * force + sp.apply_inertia(inertia, along)
        team.sync()
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            total = subspace_bar[k, world]
            for at in range(link_levels.below_start[k], link_levels.below_start[k + 1]):
                total += mass_bar[link_levels.below_at[at], world] * column_force[link_levels.below[at], world]
            subspace_bar[k, world] = total
        for n in range(team.lane(), num_links, team.size()):
            link = team.item(n, num_links)
            own = inertia10()
            for k in range(links.qd_start[link], links.qd_start[link + 1]):
                own += sp.inertia_quadratic(column_motion[k, world], subspace[k, world])
            composite[link, world] = own
        team.sync()
        for level in range(num_levels):
            first = link_levels.start[level]
            count = link_levels.start[level + 1] - first
            for n in range(team.lane(), count, team.size()):
                link = link_levels.link[first + team.item(n, count)]
                bar = composite[link, world]
                if links.parent[link] >= 0:
                    bar += composite[links.parent[link], world]
                    composite[link, world] = bar
                link_inertia_bar[link, world] = link_inertia_bar[link, world] + bar
            team.sync()

    return SimpleNamespace(module=module, team_mass_matrix_adjoint=team_mass_matrix_adjoint)
