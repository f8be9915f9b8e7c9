"""Adjoint of the solution and of geometric rows under MuJoCo's law for the worlds of a lane group.

The same as :mod:`warp_kernels.solver.newton.adjoint.adjoint` and :mod:`warp_kernels.constraints.row_adjoint` for one world.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.mujoco.laws import CONES
from warp_kernels.solver.newton.adjoint.laws import law_adjoint_functions
from warp_kernels.solver.newton.group import system as kept
from warp_kernels.solver.newton.group.adjoint import adjoint_solve_functions
from warp_kernels.solver.newton.group.rows import group_geometry_functions
from warp_kernels.solver.newton.group.steps import group_step_functions
from warp_kernels.solver.newton.group.structs import MUJOCO_ADJOINT_HEADERS, group_structs, side_structs
from warp_kernels.solver.newton.group.system import adjoint_system_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.structs import Paths, TreeDofs, solver_structs
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"mujoco_group_adjoint_kernels": [(cone,) for cone in CONES.values()]}


@functools.cache
def mujoco_group_adjoint_kernels(scalar: Any, cone: str = "elliptic", lanes: int = 1) -> SimpleNamespace:
    """Return the kernel of the adjoint for one precision, cone and number of worlds in a lane group; empty with one
    lane.
    """
    if lanes == 1:
        return SimpleNamespace()
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    s = group_step_functions(scalar, cone, lanes)
    a, linear = adjoint_solve_functions(scalar, cone, lanes), adjoint_system_functions(scalar, lanes, True)
    geometry = group_geometry_functions(scalar, lanes)
    f, law_adjoint = residual_functions(scalar, cone), law_adjoint_functions(scalar, cone)
    Rows, Work = solver_structs(scalar).Rows, group_structs(scalar).Work
    Geometry = side_structs(scalar, lanes).Geometry
    module = kernel_module(f"mujoco_group_adjoint.{cone}", scalar, lanes, headers=MUJOCO_ADJOINT_HEADERS)
    wp.set_module_options({"max_unroll": 1}, module)
    zero = scalar(0.0)

    @wp.kernel(module=module, enable_backward=False)
    def convex_group_adjoint(
        # Model
        paths: Paths,
        trees: TreeDofs,
        # Data in
        factor_l: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qd_solved: wp.array2d(dtype=scalar),
        row_geometry: Geometry,
        # Adjoint in
        further_impulse_bar: wp.array2d(dtype=vec3),
        # Data out
        work: Work,
        # Adjoint out
        weight: wp.array2d(dtype=scalar),
        rows_bar: Rows,
        row_geometry_bar: Geometry,
        qd_bar: wp.array2d(dtype=scalar),
        adjoint_residual: wp.array(dtype=scalar),
    ):
        """Compute the adjoint. weight: D^-1 L'^-1 v+_bar, becomes w. work: the solution, whose values and impulses are
        read; the rest of its iterate is scratch.
        """
        group = wp.tid()
        constraints = work.constraints
        problem = work.problem
        iterate = work.iterate
        shared = work.shared
        worlds = wp.min(constraints.count.shape[0] - group * lanes, lanes)
        nv = paths.dof_depth.shape[0]
        most = int(0)
        for n in range(worlds):
            most = wp.max(most, constraints.count[group * lanes + n])
        if most == 0:
            linear.finish_weights(group, nv, paths, factor_l, weight)
            return
        most = s.slots.assign(group, most, constraints, shared)
        s.gather(group, most, nv, paths, constraints, problem, shared)
        has_further = further_impulse_bar.shape[0] > 0
        for n in range(lanes):
            shared.waits[n] = 0
        for i in range(most):
            s.find_slopes(i, group, constraints, problem, iterate, shared)
            if has_further:
                a.keep_further(i, group, further_impulse_bar, shared)
        a.solve(
            group, most, nv, has_further, constraints, problem, work.system, work.solver_iterations, work.stage, weight, shared,
            iterate,
        )  # fmt: skip
        for n in range(lanes):
            world = group * lanes + n
            shared.moves[n] = 0
            if s.has(0, world, constraints):
                shared.moves[n] = 1
                if shared.left[n] > zero:
                    left = wp.sqrt(shared.square[n] / shared.left[n])
                    adjoint_residual[world] = wp.max(adjoint_residual[world], left)
        linear.push_weights(group, nv, shared.moves, problem.inverse_mass, iterate.step, iterate.residual, weight)
        linear.finish_weights(group, nv, paths, factor_l, weight)
        geometry.begin_rows(group, nv, qd, qd_solved, shared)
        for i in range(most):
            for n in range(worlds):
                world = group * lanes + n
                c = shared.slot_constraint[i * lanes + n]
                if c >= 0:
                    kind = constraints.kind[c, world]
                    item = constraints.item[c, world]
                    value_bar = a.get(i, kept.RHS_BAR, n, shared)
                    rows_bar.rhs[c, world] = value_bar
                    bounds = f.impulse_bounds(c, kind, item, world, COUPLED, problem, iterate)
                    bars = law_adjoint.bound_adjoint(
                        c, kind, item, world, a.get(i, kept.S, n, shared), bounds, problem, iterate
                    )
                    rows_bar.bound[c, world] = bars[0]
                    rows_bar.compliance[c, world] = law_adjoint.common_resistance_adjoint(
                        c, world, iterate.value[c, world], value_bar, problem
                    )
            for n in range(lanes):
                a.keep_block_bar(i, n, mat33(), shared)  # R doesn't depend on the rows
            geometry.rows_adjoint(
                i, group, nv, trees, constraints, row_geometry, iterate.impulse, weight, shared, row_geometry_bar
            )
        geometry.end_rows(group, nv, shared, qd_bar)

    return SimpleNamespace(module=module, convex_group_adjoint=convex_group_adjoint)
