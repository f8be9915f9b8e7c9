"""Newton's method on the worlds of a lane group together.

Where whole steps lead to the solution, as they nearly always do, this is what :mod:`warp_kernels.solver.newton.solve` does: the same start,
the same steps, the same end. A world that needs more than that is left to it. Worlds that are done wait for the others of
their group.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.group.structs import MOST_CONSTRAINTS, group_structs
from warp_kernels.solver.newton.group.system import group_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.solve import ENOUGH
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.rows.shared import row_functions
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_group_kernels": [(model,) for model in FRICTION_MODELS]}

# Systems after which a world is left to the solver for one.
MOST_STEPS = 6

# Where a world is: it has its solution, is on its way, or is left to the solver for one.
DONE = 0
MOVING = 1
LEFT = 2


@functools.cache
def newton_group_kernels(scalar: Any, friction: str = "cone", lanes: int = 1) -> SimpleNamespace:
    """The solver for one precision, friction model and number of worlds in a lane group; none with one lane."""
    if lanes == 1:
        return SimpleNamespace()
    vec3 = warp_types(scalar).vec3
    f = residual_functions(scalar, friction)
    laws = f.laws
    descent = descent_functions(scalar, friction)
    together = group_functions(scalar, lanes)
    common = row_functions(scalar)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    Group = group_structs(scalar).Group
    module = kernel_module(f"newton_group.{friction}", scalar, lanes)
    wp.set_module_options({"max_unroll": 1}, module)
    zero, one = scalar(0.0), scalar(1.0)
    precision, sums, singular = descent.precision, descent.sums, descent.singular

    @wp.func
    def find_residual(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Row values, impulses, the residual and its square, at z."""
        together.begin_residual(group, nv, iterate.z, problem.inverse_mass, iterate.residual)
        for i in range(most):
            together.find_values(i, group, nv, shared.dofs, shared.length, shared.rows, iterate.z, shared.three)
            for n in range(lanes):
                world = group * lanes + n
                impulse = vec3()
                if world < constraints.count.shape[0] and i < constraints.count[world]:
                    value = problem.rhs[i, world] + vec3(
                        shared.three[n], shared.three[lanes + n], shared.three[2 * lanes + n]
                    )
                    iterate.value[i, world] = value
                    kind = constraints.kind[i, world]
                    item = constraints.item[i, world]
                    bounds = f.impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
                    impulse = laws.answer(kind, value, problem.grip[i, world], bounds)
                    iterate.impulse[i, world] = impulse
                for r in range(3):
                    shared.three[r * lanes + n] = impulse[r]
            together.take_push(
                i, group, nv, shared.dofs, shared.length, shared.rows, shared.three, iterate.residual
            )
        together.find_square(group, nv, problem.inverse_mass, iterate.residual, shared.square)

    @wp.func
    def find_slopes(
        i: int, group: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Slopes of a constraint's impulses in each world, and whether any of them answers to its values."""
        first = 9 * lanes * i
        shared.answers[i] = 0
        for n in range(lanes):
            world = group * lanes + n
            for at in range(9):
                shared.slope[first + at * lanes + n] = zero
            if world < constraints.count.shape[0] and i < constraints.count[world]:
                kind = constraints.kind[i, world]
                item = constraints.item[i, world]
                own, follows = f.slopes(i, kind, item, world, COUPLED, problem, iterate)
                if wp.ddot(own, own) > zero:
                    shared.answers[i] = 1
                    for r in range(3):
                        for c in range(3):
                            shared.slope[first + (3 * r + c) * lanes + n] = own[r, c]
                if wp.dot(follows, follows) > zero:
                    shared.coupled[n] = 1

    @wp.func
    def find_step(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """Assemble the systems of all worlds, factor them and find the steps."""
        for n in range(lanes):
            shared.coupled[n] = 0
        for i in range(most):
            find_slopes(i, group, constraints, problem, iterate, shared)
        any_coupled = bool(False)
        for n in range(lanes):
            any_coupled = any_coupled or shared.coupled[n] == 1
        together.begin_system(
            group, most, nv, shared.answers, shared.dofs, shared.length, shared.first, problem.inverse_mass,
            shared.lower, shared.upper,
        )  # fmt: skip
        for i in range(most):
            if shared.answers[i] == 1:
                together.add_constraint(
                    i, nv, any_coupled, shared.dofs, shared.length, shared.rows, shared.slope, shared.lower, shared.upper
                )
        together.factorise(nv, any_coupled, shared.coupled, shared.first, shared.lower, shared.upper, shared.least)
        together.find_step(
            group, nv, shared.first, shared.lower, shared.upper, shared.velocity, iterate.residual, iterate.step
        )

    @wp.func
    def begin(
        group: int, most: int, nv: int, constraints: Constraints, problem: Problem, iterate: Iterate, shared: Group
    ):
        """As :func:`warp_kernels.solver.newton.descent.begin`: start with the velocity before, or without impulses."""
        for n in range(lanes):
            shared.moves[n] = 1
        together.start_at(group, nv, shared.moves, iterate.step, iterate.z)
        find_residual(group, most, nv, constraints, problem, iterate, shared)
        undecided = bool(False)
        for n in range(lanes):
            world = group * lanes + n
            shared.left[n] = shared.square[n]
            if world < constraints.count.shape[0]:
                rests = shared.square[n] <= shared.scale[n]
                if not rests or not descent.pushes(world, constraints.count[world], iterate):
                    shared.moves[n] = 0
                    undecided = True
        if undecided:
            together.start_at(group, nv, shared.moves, iterate.step, iterate.z)
            find_residual(group, most, nv, constraints, problem, iterate, shared)
            undecided = bool(False)
            for n in range(lanes):
                if shared.moves[n] == 0 and not shared.square[n] <= shared.left[n]:
                    shared.moves[n] = 1
                    undecided = True
        if undecided:
            together.start_at(group, nv, shared.moves, iterate.step, iterate.z)
            find_residual(group, most, nv, constraints, problem, iterate, shared)

    @wp.func
    def goal(
        world: int,
        n: int,
        epsilon: scalar,
        tolerance: scalar,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
        shared: Group,
    ):
        """The square of a residual that is asked for, or no more than rounding."""
        relative = wp.max(tolerance, precision)
        rounding = sums * precision / epsilon
        at_hand = descent.square_at_hand(world, constraints.count[world], epsilon, constraints, problem, iterate)
        return relative * relative * shared.scale[n] + rounding * rounding * at_hand

    @wp.kernel(module=module, enable_backward=False)
    def newton_group(
        # Model
        paths: Paths,
        dt: scalar,
        iterations: int,
        tolerance: scalar,
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        constraints: Constraints,
        problem: Problem,
        # Data out
        shared: Group,
        system: System,
        iterate: Iterate,
        residual: wp.array(dtype=scalar),
        sweep_count: wp.array(dtype=int),
        stage: wp.array(dtype=int),
    ):
        """stage: DONE, or LEFT for worlds that need more [world]. residual and sweep_count of the former as for one world."""
        group = wp.tid()
        worlds = wp.min(constraints.count.shape[0] - group * lanes, lanes)
        nv = paths.dof_depth.shape[0]
        most = int(0)
        for n in range(worlds):
            world = group * lanes + n
            most = wp.max(most, constraints.count[world])
            residual[world] = zero
            sweep_count[world] = 0
            stage[world] = DONE
        if most == 0:
            return
        if most > MOST_CONSTRAINTS:
            for n in range(worlds):
                stage[group * lanes + n] = LEFT
            return
        for i in range(most):
            together.gather_rows(
                i, group, nv, paths.max_depth, paths.dof_depth, paths.dof_row_start, paths.ancestor, shared.path,
                constraints.count, constraints.tail, problem.row, shared.dofs, shared.length, shared.rows,
            )  # fmt: skip
        together.look_back(
            group, nv, dt, paths.dof_depth, paths.dof_row_start, paths.ancestor, qd, qdd, factor_l,
            problem.inverse_mass, shared.velocity, iterate.step, shared.scale,
        )  # fmt: skip
        begin(group, most, nv, constraints, problem, iterate, shared)
        moving = int(0)
        for n in range(worlds):
            world = group * lanes + n
            square = shared.square[n]
            epsilon = common.value_of(regularisation, world, 0)
            # Without impulses there is nothing to solve, and of a state that isn't finite there is no solution.
            if constraints.count[world] > 0 and square != zero and wp.isfinite(square):
                if square > goal(world, n, epsilon, tolerance, constraints, problem, iterate, shared):
                    stage[world] = MOVING
                    moving += 1
        steps = int(0)
        while moving > 0 and steps < wp.min(iterations, MOST_STEPS):
            find_step(group, most, nv, constraints, problem, iterate, shared)
            for n in range(lanes):
                shared.moves[n] = 0
                shared.left[n] = shared.square[n]
            for n in range(worlds):
                world = group * lanes + n
                if stage[world] == MOVING:
                    if shared.least[n] > singular:
                        shared.moves[n] = 1
                    else:
                        stage[world] = LEFT
                        moving -= 1
            together.move(group, nv, shared.moves, iterate.step, iterate.z)
            together.keep_system(
                group, nv, shared.moves, shared.first, shared.lower, shared.upper, system.place, system.first,
                system.lower, system.upper,
            )  # fmt: skip
            find_residual(group, most, nv, constraints, problem, iterate, shared)
            steps += 1
            for n in range(worlds):
                world = group * lanes + n
                if shared.moves[n] == 1:
                    epsilon = common.value_of(regularisation, world, 0)
                    if not shared.square[n] < scalar(ENOUGH) * shared.left[n]:
                        stage[world] = LEFT
                        moving -= 1
                    elif shared.square[n] <= goal(
                        world, n, epsilon, tolerance, constraints, problem, iterate, shared
                    ):
                        stage[world] = DONE
                        moving -= 1
                        sweep_count[world] = steps
            together.velocity_left(group, nv, shared.lower, iterate.residual, shared.left)
            for n in range(worlds):
                if shared.moves[n] == 1:
                    residual[group * lanes + n] = shared.left[n]
        for n in range(worlds):
            if stage[group * lanes + n] == MOVING:
                stage[group * lanes + n] = LEFT

    return SimpleNamespace(module=module, newton_group=newton_group)
