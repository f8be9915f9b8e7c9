"""Next velocity from impulses, and the beginning of its adjoint, by a team of threads per world: see
:mod:`warp_kernels.solver.impulse` for the equations.

The factors of the mass matrix are applied level by level.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.products import product_functions
from warp_kernels.solver.newton.team.products import Levels, team_product_functions
from warp_kernels.solver.newton.team.solve import solver_module
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.team import WIDTHS, team_functions
from warp_kernels.types import warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"team_impulse_kernels": [(width,) for width in WIDTHS]}


@functools.cache
def team_impulse_kernels(scalar: Any, width: int) -> SimpleNamespace:
    """Return the kernels for one precision and number of threads of a team."""
    vec3 = warp_types(scalar).vec3
    team, of_dof, products = team_functions(scalar, width), team_product_functions(scalar), product_functions(scalar)
    module = solver_module("team_impulse", scalar, width)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.kernel(module=module, enable_backward=False)
    def team_apply_impulses(
        # Model
        paths: Paths,
        levels: Levels,
        dt: scalar,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        impulse: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Data out
        scratch: wp.array2d(dtype=scalar),
        response: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
    ):
        """Add the impulses to the velocity; arguments as of ``apply_impulses``."""
        world, _lane = wp.tid()
        team.begin(scratch, world)
        count = constraints.count[world]
        nv = paths.dof_depth.shape[0]
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            push = of_dof.with_pushes(k, zero, one, impulse, count, world, paths, constraints, row)
            response[k, world] = factor_d[k, world] * push
        team.sync()
        for d in range(paths.max_depth):
            start = levels.start[d]
            dofs = levels.start[d + 1] - start
            for n in range(team.lane(), dofs, team.size()):
                k = levels.dof[start + team.item(n, dofs)]
                value = of_dof.without_above(k, response[k, world], factor_l, response, world, paths)
                response[k, world] = value
                qd_solved[world, k] = qd[world, k] + dt * qdd[world, k] + value
            team.sync()

    @wp.kernel(module=module, enable_backward=False)
    def team_velocity_adjoint(
        # Model
        paths: Paths,
        levels: Levels,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Adjoint in
        qd_solved_bar: wp.array2d(dtype=scalar),
        further_impulse_bar: wp.array2d(dtype=vec3),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
        impulse_bar: wp.array2d(dtype=vec3),
    ):
        """Begin the backward pass of the velocity; arguments as of ``velocity_adjoint``."""
        world, _lane = wp.tid()
        team.begin(scratch, world)
        nv = paths.dof_depth.shape[0]
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            weight[k, world] = qd_solved_bar[world, k]
        team.sync()
        for back in range(paths.max_depth - 1):
            d = paths.max_depth - 1 - back
            for n in range(team.lane(), nv, team.size()):
                k = team.item(n, nv)
                depth = paths.dof_depth[k]
                if depth < d:
                    left = weight[k, world]
                    for at in range(levels.start[d], levels.start[d + 1]):
                        below = levels.dof[at]
                        entry = paths.dof_row_start[below] + depth
                        if paths.ancestor[entry] == k:
                            left -= factor_l[entry, world] * weight[below, world]
                    weight[k, world] = left
            team.sync()
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            weight[k, world] = weight[k, world] * factor_d[k, world]
        if impulse_bar.shape[0] == 0:
            return
        team.sync()
        count = constraints.count[world]
        for n in range(team.lane(), count, team.size()):
            i = team.item(n, count)
            bar = products.row_product(i, world, paths, constraints, row, weight)
            if further_impulse_bar.shape[0] > 0:
                bar += further_impulse_bar[i, world]
            impulse_bar[i, world] = bar

    @wp.kernel(module=module, enable_backward=False)
    def team_weight_adjoint(
        # Model
        paths: Paths,
        levels: Levels,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        factor_d: wp.array2d(dtype=scalar),
        row: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Adjoint in
        rhs_bar: wp.array2d(dtype=vec3),
        # Data out
        scratch: wp.array2d(dtype=scalar),
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
    ):
        """Finish the weights; arguments as of ``weight_adjoint``."""
        world, _lane = wp.tid()
        team.begin(scratch, world)
        count = constraints.count[world]
        nv = paths.dof_depth.shape[0]
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            share = factor_d[k, world]
            before = weight[k, world]
            weight[k, world] = of_dof.with_pushes(k, before, share, rhs_bar, count, world, paths, constraints, row)
        team.sync()
        for d in range(paths.max_depth):
            start = levels.start[d]
            dofs = levels.start[d + 1] - start
            for n in range(team.lane(), dofs, team.size()):
                k = levels.dof[start + team.item(n, dofs)]
                weight[k, world] = of_dof.without_above(k, weight[k, world], factor_l, weight, world, paths)
            team.sync()

    return SimpleNamespace(
        module=module,
        team_apply_impulses=team_apply_impulses,
        team_velocity_adjoint=team_velocity_adjoint,
        team_weight_adjoint=team_weight_adjoint,
    )
