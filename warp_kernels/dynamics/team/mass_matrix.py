"""Mass matrix by a team of threads per world, and its adjoint, see :mod:`warp_kernels.dynamics.composite`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.dynamics.team.levels import TREE_WIDTHS, LinkLevels, tree_module
from warp_kernels.kinematics.propagation import Links
from warp_kernels.team import team_functions
from warp_kernels.types import warp_types
from warp_kernels.variants import used_arguments_only

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_mass_matrix_kernels": TREE_WIDTHS, "team_mass_adjoint_kernels": TREE_WIDTHS}


@functools.cache
def team_mass_matrix_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernels of the whole matrix for one precision and number of threads of a team."""
    t, a, sp = warp_types(scalar), algebra(scalar, 1), spatial_functions(scalar, 1)
    team, module = team_functions(scalar, width), tree_module("team_crba", scalar, width)
    add_up = _composites(scalar, width)

    @wp.kernel(module=module, enable_backward=False)
    def team_crba(
        # Model
        link_levels: LinkLevels,
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        # Parameters
        armature: wp.array2d(dtype=scalar),
        # Data in
        subspace: wp.array2d(dtype=t.spatial),
        link_inertia: wp.array2d(dtype=t.inertia),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        composite: wp.array2d(dtype=t.inertia),
        mass_matrix: wp.array3d(dtype=scalar),
    ):
        """Write the entries of a world, as the kernel ``crba``; ``composite`` is scratch."""
        world, _lane = wp.tid()
        team.begin(scratch, world)
        add_up(link_levels, world, link_inertia, composite)
        nv = dof_depth.shape[0]
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            s = subspace[k, world]
            force = sp.apply_inertia(composite[link_levels.dof_link[k], world], s)
            mass_matrix[world, k, k] = a.dot_spatial(s, force) + a.load_param_scalar(armature, world, k)
            for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
                above = ancestor[at]
                value = a.dot_spatial(subspace[above, world], force)
                mass_matrix[world, k, above] = value
                mass_matrix[world, above, k] = value

    adjoint = _adjoint("team_crba_adjoint", module, scalar, width, packed=False)
    return SimpleNamespace(module=module, team_crba=team_crba, team_crba_adjoint=adjoint)


@functools.cache
def team_mass_adjoint_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the adjoint of the packed matrix for one precision and number of threads of a team."""
    module = tree_module("team_mass_adjoint", scalar, width)
    adjoint = _adjoint("team_mass_matrix_adjoint", module, scalar, width, packed=True)
    return SimpleNamespace(module=module, team_mass_matrix_adjoint=adjoint)


@functools.cache
def _composites(scalar: Any, width: int) -> wp.Function:
    """Return the Warp function that adds up the inertias of subtrees, with a ``sync`` at its end."""
    inertias, team = wp.array2d(dtype=warp_types(scalar).inertia), team_functions(scalar, width)

    @wp.func
    def add_up(link_levels: LinkLevels, world: int, link_inertia: inertias, composite: inertias):
        num_levels = link_levels.start.shape[0] - 1
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

    return add_up


def _adjoint(name: str, module: wp.Module, scalar: Any, width: int, packed: bool) -> wp.Kernel:
    """Return the adjoint of the matrix, without that of the armature.

    Args:
        name: of the kernel.
        module: its Warp module.
        scalar: precision.
        width: threads of a team.
        packed: as for :func:`warp_kernels.dynamics.composite.mass_matrix_adjoint`.
    """
    t, sp = warp_types(scalar), spatial_functions(scalar, 1)
    spatial, inertia10 = t.spatial, t.inertia
    team, add_up = team_functions(scalar, width), _composites(scalar, width)

    @wp.kernel(name=name, module=module, enable_backward=False)
    @used_arguments_only
    def adjoint(
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
        mass_matrix_bar: wp.array3d(dtype=scalar),
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
        """Add to the adjoints of subspace and link_inertia, as the kernels ``mass_matrix_adjoint`` and
        ``crba_adjoint``; the arrays before them are scratch.
        """
        world, _lane = wp.tid()
        team.begin(scratch, world)
        num_links = links.parent.shape[0]
        num_levels = link_levels.start.shape[0] - 1
        nv = dof_depth.shape[0]
        add_up(link_levels, world, link_inertia, composite)
        # Columns of the matrix: the motions of k and its ancestors, weighted by the adjoints of their entries.
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            inertia = composite[link_levels.dof_link[k], world]
            if wp.static(packed):
                diagonal = mass_bar_diagonal[k, world]
            else:
                diagonal = mass_matrix_bar[world, k, k]
            s = subspace[k, world]
            force = sp.apply_inertia(inertia, s)
            along = diagonal * s
            for at in range(dof_row_start[k], dof_row_start[k] + dof_depth[k]):
                above = ancestor[at]
                if wp.static(packed):
                    along += mass_bar[at, world] * subspace[above, world]
                else:
                    both = mass_matrix_bar[world, k, above] + mass_matrix_bar[world, above, k]
                    along += both * subspace[above, world]
            column_force[k, world] = force
            column_motion[k, world] = along
            subspace_bar[k, world] = subspace_bar[k, world] + diagonal * force + sp.apply_inertia(inertia, along)
        team.sync()
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            total = subspace_bar[k, world]
            for at in range(link_levels.below_start[k], link_levels.below_start[k + 1]):
                below = link_levels.below[at]
                if wp.static(packed):
                    total += mass_bar[link_levels.below_at[at], world] * column_force[below, world]
                else:
                    both = mass_matrix_bar[world, k, below] + mass_matrix_bar[world, below, k]
                    total += both * column_force[below, world]
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

    return adjoint
