"""The adjoints of the row values of a lane group's worlds: one system for each, with the transposed matrix.

What :mod:`warp_kernels.solver.newton.adjoint` does for one world.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.solver.mujoco.laws import CONES
from warp_kernels.solver.newton.group import adjoint_system as kept
from warp_kernels.solver.newton.group.adjoint_system import adjoint_system_functions
from warp_kernels.solver.newton.group.steps import group_step_functions
from warp_kernels.solver.newton.group.structs import SOLVED, group_structs
from warp_kernels.solver.newton.group.sweeps import FIELDS
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints
from warp_kernels.types import warp_types


@functools.cache
def adjoint_solve_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Warp functions for one precision, friction model or cone of MuJoCo's, and number of worlds in a lane group."""
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    s = group_step_functions(scalar, friction, lanes)
    together, linear = s.together, adjoint_system_functions(scalar, lanes, friction in CONES.values())
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    Group = group_structs(scalar).Group
    eps = float(np.finfo(wp.dtype_to_numpy(scalar)).eps)
    rounding_square = scalar((1000.0 * eps) ** 2)  # as for one world

    @wp.func
    def get(i: int, what: int, n: int, shared: Group):
        """A vector of world n among the fields of constraint i."""
        at = (i * FIELDS + what) * lanes + n
        return vec3(shared.fields[at], shared.fields[at + lanes], shared.fields[at + 2 * lanes])

    @wp.func
    def keep_further(i: int, group: int, further_impulse_bar: wp.array2d(dtype=vec3), shared: Group):
        """Keep what reaches the impulses in place i other than by the next velocity."""
        for n in range(lanes):
            world = group * lanes + n
            further = vec3()
            constraint = shared.order[i * lanes + n]
            if constraint >= 0:
                further = further_impulse_bar[constraint, world]
            for r in range(3):
                shared.fields[(i * FIELDS + kept.FURTHER + r) * lanes + n] = further[r]

    @wp.func
    def keep_own(i: int, n: int, own: mat33, shared: Group):
        """Keep the adjoint of the inverse masses of the rows in place i of one world."""
        for r in range(3):
            shared.fields[(i * FIELDS + kept.OWN_BAR + r) * lanes + n] = own[r, r]
        shared.fields[(i * FIELDS + kept.OWN_BAR + 3) * lanes + n] = own[0, 1]
        shared.fields[(i * FIELDS + kept.OWN_BAR + 4) * lanes + n] = own[0, 2]
        shared.fields[(i * FIELDS + kept.OWN_BAR + 5) * lanes + n] = own[1, 2]

    @wp.func
    def find_residual(
        group: int,
        most: int,
        nv: int,
        has_further: bool,
        problem: Problem,
        weight: wp.array2d(dtype=scalar),
        shared: Group,
        iterate: Iterate,
    ):
        """What the step leaves of the right-hand side, and its square."""
        linear.find_adjoint_residual(
            group, most, nv, has_further, weight, problem.inverse_mass, iterate.step, shared, iterate.residual
        )
        together.find_square(group, nv, problem.inverse_mass, iterate.residual, shared)

    @wp.func
    def is_left(shared: Group):
        """Stops worlds whose residual is no more than rounding. Returns whether any goes on."""
        goes_on = bool(False)
        for n in range(lanes):
            if shared.moves[n] == 1:
                shared.moves[n] = 0
                if not shared.square[n] <= rounding_square * shared.left[n]:
                    shared.moves[n] = 1
                    goes_on = True
        return goes_on

    @wp.func
    def solve(
        group: int,
        most: int,
        nv: int,
        has_further: bool,
        constraints: Constraints,
        problem: Problem,
        kept_system: System,
        sweep_count: wp.array(dtype=int),
        stage: wp.array(dtype=int),
        weight: wp.array2d(dtype=scalar),
        shared: Group,
        iterate: Iterate,
    ):
        """x, the step, and the adjoints of row values.

        The factors of the last Newton step serve as for one world. Where they don't, the system is assembled at the solution.
        """
        reached = int(0)
        if has_further:
            reached = most
        any_kept = bool(False)
        for n in range(lanes):
            shared.moves[n] = 1
        linear.begin_step(group, nv, shared.moves, iterate.step)
        # Of no step s is zero but for what reaches impulses otherwise.
        find_residual(group, reached, nv, has_further, problem, weight, shared, iterate)
        for n in range(lanes):
            world = group * lanes + n
            shared.left[n] = shared.square[n]
            shared.moves[n] = 0
            if s.has(0, world, constraints):
                if stage[world] == SOLVED and sweep_count[world] > 0:
                    shared.moves[n] = 1
                    any_kept = True
        if any_kept:
            linear.solve_kept(group, nv, kept_system, iterate.residual, shared, iterate.step)
            find_residual(group, most, nv, has_further, problem, weight, shared, iterate)
        for n in range(lanes):
            if s.has(0, group * lanes + n, constraints):
                shared.moves[n] = 1
        again = is_left(shared)
        if again:
            for n in range(lanes):
                shared.coupled[n] = 0
            for i in range(most):
                s.find_slopes(i, group, constraints, problem, iterate, shared)
            s.factorise_slopes(group, most, nv, problem, shared)
            linear.begin_step(group, nv, shared.moves, iterate.step)
            find_residual(group, most, nv, has_further, problem, weight, shared, iterate)
        attempt = int(0)
        while again and attempt < 2:
            linear.solve_transposed(group, nv, iterate.residual, shared, iterate.step)
            find_residual(group, most, nv, has_further, problem, weight, shared, iterate)
            attempt += 1
            again = is_left(shared)

    return SimpleNamespace(get=get, keep_further=keep_further, keep_own=keep_own, solve=solve)
