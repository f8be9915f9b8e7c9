"""Adjoint of R by a team of threads per world: see :mod:`warp_kernels.solver.newton.adjoint.regularisation` for the
equations.

G comes constraint by constraint. A degree of freedom then adds up the adjoints of its row of L and of its D, which are
converted level by level.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.products import product_functions
from warp_kernels.solver.newton.adjoint.regularisation import HEADERS, regularisation_functions
from warp_kernels.solver.newton.team.products import Levels, team_product_functions
from warp_kernels.solver.newton.team.solve import solver_module
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.team import WIDTHS, team_functions
from warp_kernels.types import warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_regularisation_kernels": [(width,) for width in WIDTHS]}


@functools.cache
def team_regularisation_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernel for one precision and number of threads of a team."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    team, of_dof, products = team_functions(scalar, width), team_product_functions(scalar), product_functions(scalar)
    own = regularisation_functions(scalar)
    module = solver_module("team_regularisation_adjoint", scalar, width, headers=HEADERS)
    zero, two = scalar(0.0), scalar(2.0)

    @wp.func
    def first_response(i: int, side: int, trees: TreeDofs, constraints: Constraints, couplings: Couplings, world: int):
        """Return where the responses of a side begin, as if at degree of freedom 0."""
        tree = trees.dof_tree[constraints.tail[2 * i + side, world]]
        at = couplings.constraint_incidence[2 * i + side, world] * trees.max_tree_dofs
        return at - trees.tree_dof_start[tree]

    @wp.kernel(module=module, enable_backward=False)
    def team_regularisation_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        levels: Levels,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        couplings: Couplings,
        # Adjoint in
        block_bar: wp.array2d(dtype=mat33),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        # Adjoint out
        coupled_response: wp.array2d(dtype=vec3),
        solver_mass_bar: wp.array2d(dtype=scalar),
        solver_mass_bar_diagonal: wp.array2d(dtype=scalar),
    ):
        """Compute the adjoint of R; arguments as of ``regularisation_adjoint``."""
        world, _lane = wp.tid()
        team.begin(scratch, world)
        nv = paths.dof_depth.shape[0]
        count = constraints.count[world]
        for n in range(team.lane(), count, team.size()):
            i = team.item(n, count)
            for side in range(2):
                tail = constraints.tail[2 * i + side, world]
                if tail >= 0:
                    at = first_response(i, side, trees, constraints, couplings, world)
                    for d in range(paths.dof_depth[tail] + 1):
                        k = of_dof.path_dof(tail, d, paths)
                        z = products.whole_entry(i, side, d, world, paths, constraints, row)
                        response = two * factor_d[k, world] * (block_bar[i, world] * z)
                        response -= own.take_above(
                            paths, k, at, z, False, factor_l, coupled_response, solver_mass_bar, world
                        )
                        coupled_response[at + k, world] = response
        team.sync()
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            first = paths.dof_row_start[k]
            share = factor_d[k, world] * factor_d[k, world]
            diagonal = zero
            for d in range(paths.dof_depth[k]):
                solver_mass_bar[first + d, world] = zero
            for i in range(count):
                side = int(0)
                if not of_dof.is_on_path(k, constraints.tail[2 * i, world], paths):
                    side = 1
                if of_dof.is_on_path(k, constraints.tail[2 * i + side, world], paths):
                    at = first_response(i, side, trees, constraints, couplings, world)
                    z = of_dof.entry(i, k, world, paths, constraints, row)
                    diagonal -= share * wp.dot(block_bar[i, world] * z, z)
                    own.take_above(paths, k, at, z, True, factor_l, coupled_response, solver_mass_bar, world)
            solver_mass_bar_diagonal[k, world] = diagonal
        team.sync()
        if count == 0:
            return
        for d in range(paths.max_depth):
            start = levels.start[d]
            dofs = levels.start[d + 1] - start
            for n in range(team.lane(), dofs, team.size()):
                k = levels.dof[start + team.item(n, dofs)]
                own.row_adjoint(k, world, paths, factor_l, factor_d, solver_mass_bar, solver_mass_bar_diagonal)
            team.sync()

    return SimpleNamespace(module=module, team_regularisation_adjoint=team_regularisation_adjoint)
