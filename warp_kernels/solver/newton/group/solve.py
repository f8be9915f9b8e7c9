"""Newton's method on the worlds of a lane group together, in lock-step.

The same start, steps and end as in :mod:`warp_kernels.solver.newton.solve`, sweeps included. A world that needs convex rounds, which few do,
or more systems than MOST_STEPS is left to that. Worlds that are done wait for the others of their group.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.newton.constants import ENOUGH, MOST_STEPS, NEAR, PASSES, rounding_square
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.group.steps import group_step_functions
from warp_kernels.solver.newton.group.structs import DONE, GROUP_HEADERS, LEFT, MOVING, group_structs
from warp_kernels.solver.newton.group.swept import swept_step_functions
from warp_kernels.solver.newton.iteration import SWEPT
from warp_kernels.solver.newton.residual import COUPLED
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.newton.sweeps import sweep_functions
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import kernel_module

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_group_kernels": [(model,) for model in FRICTION_MODELS]}


@functools.cache
def newton_group_kernels(scalar: Any, friction: str = "cone", lanes: int = 1) -> SimpleNamespace:
    """The solver for one precision, friction model and number of worlds in a lane group; none with one lane."""
    if lanes == 1:
        return SimpleNamespace()
    s, swept = group_step_functions(scalar, friction, lanes), swept_step_functions(scalar, friction, lanes)
    together = s.together
    descent, sweeps = descent_functions(scalar, friction), sweep_functions(scalar, friction)
    common = row_functions(scalar)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    Group = group_structs(scalar).Group
    module = kernel_module(f"newton_group.{friction}", scalar, lanes, headers=GROUP_HEADERS)
    wp.set_module_options({"max_unroll": 1}, module)
    zero, one = scalar(0.0), scalar(1.0)
    singular = descent.singular
    rounded = rounding_square(scalar)

    @wp.func
    def take_steps(
        group: int,
        most: int,
        nv: int,
        worlds: int,
        stage: wp.array(dtype=int),
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
        shared: Group,
    ):
        """A step of each world that is on its way, with the square of its residual before in ``left``."""
        any_swept = bool(False)
        for n in range(lanes):
            shared.moves[n] = 0
            shared.waits[n] = 1
            shared.left[n] = shared.square[n]
            if n < worlds and stage[group * lanes + n] == MOVING:
                shared.moves[n] = 1
                shared.waits[n] = 0
                any_swept = any_swept or shared.mode[n] == SWEPT
        if any_swept:
            swept.linear_residuals(group, most, nv, constraints, problem, iterate, shared)
        s.find_steps(group, most, nv, constraints, problem, iterate, shared)
        for n in range(lanes):
            if not shared.least[n] > singular:
                shared.moves[n] = 0
        if any_swept:
            swept.keep_all_impulses(group, most, nv, constraints, problem, iterate, shared)
        together.move_along(group, nv, one, shared.moves, iterate.step, iterate.z)
        s.find_residuals(group, most, nv, constraints, problem, iterate, shared)
        swept.go_back(group, most, nv, scalar(ENOUGH), constraints, problem, iterate, shared)

    @wp.func
    def judge(
        n: int,
        world: int,
        nv: int,
        epsilon: scalar,
        tolerance: scalar,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
        shared: Group,
    ):
        """What becomes of a world after its step. Returns its stage; where it is to be swept, its ``number`` says how often."""
        at_hand = descent.square_at_hand(world, constraints.count[world], epsilon, constraints, problem, iterate)
        square = shared.square[n]
        aim = descent.goal(at_hand, shared.scale[n], epsilon, tolerance)
        moved = shared.moves[n] == 1 and square < scalar(ENOUGH) * shared.left[n]
        if shared.mode[n] == SWEPT:
            moved = shared.failures[n] >= PASSES or not square > scalar(NEAR) * at_hand
        elif shared.moves[n] == 1 and not moved:
            if descent.step_square(world, nv, problem, iterate) <= rounded * at_hand:
                return int(DONE)  # what is left is rounding
        if moved:
            shared.mode[n] = COUPLED
            if square <= aim:
                return int(DONE)
            return int(MOVING)
        if shared.failures[n] >= PASSES:
            return int(LEFT)
        shared.failures[n] += 1
        shared.number[n] = shared.sweeps[n]
        shared.sweeps[n] = sweeps.next_number(shared.number[n], constraints.count[world])
        shared.mode[n] = SWEPT
        return int(MOVING)

    @wp.kernel(module=module, enable_backward=False)
    def newton_group(
        # Model
        paths: Paths,
        dt: scalar,
        iterations: int,
        tolerance: scalar,
        keeps: int,
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
        """system: the last one of each world, where the way back ``keeps`` it.

        stage: DONE, or LEFT for worlds that need more [world]. residual and sweep_count of the former as for one world.
        """
        group = wp.tid()
        worlds = wp.min(constraints.count.shape[0] - group * lanes, lanes)
        nv = paths.dof_depth.shape[0]
        most = s.begin_group(
            group, worlds, nv, dt, paths, qd, qdd, factor_l, constraints, problem, shared, iterate, residual,
            sweep_count, stage,
        )  # fmt: skip
        if most == 0:
            return
        moving = int(0)
        for n in range(worlds):
            world = group * lanes + n
            square = shared.square[n]
            shared.mode[n] = COUPLED
            shared.failures[n] = 0
            epsilon = common.value_of(regularisation, world, 0)
            count = constraints.count[world]
            shared.sweeps[n] = sweeps.first_number(count)
            # Without impulses there is nothing to solve, and of a state that isn't finite there is no solution.
            if count > 0 and square != zero and wp.isfinite(square):
                at_hand = descent.square_at_hand(world, count, epsilon, constraints, problem, iterate)
                if square > descent.goal(at_hand, shared.scale[n], epsilon, tolerance):
                    stage[world] = MOVING
                    moving += 1
        steps = int(0)
        prepared = bool(False)
        while moving > 0 and steps < wp.min(iterations, MOST_STEPS):
            take_steps(group, most, nv, worlds, stage, constraints, problem, iterate, shared)
            together.velocities_left(group, nv, iterate.residual, shared)
            steps += 1
            moving = int(0)
            ending = int(0)
            any_swept = bool(False)
            for n in range(lanes):
                shared.number[n] = 0
            for n in range(worlds):
                world = group * lanes + n
                if stage[world] == MOVING:
                    epsilon = common.value_of(regularisation, world, 0)
                    now = judge(n, world, nv, epsilon, tolerance, constraints, problem, iterate, shared)
                    stage[world] = now
                    sweep_count[world] = steps
                    residual[world] = shared.left_now[n]
                    shared.moves[n] = int(now == DONE)
                    ending += shared.moves[n]
                    if now == MOVING:
                        moving += 1
                        any_swept = any_swept or shared.number[n] > 0
                else:
                    shared.moves[n] = 0
            if keeps > 0 and ending > 0:
                together.keep_system(group, nv, True, shared, system)
            if any_swept:
                if not prepared:
                    swept.prepare_sweeps(group, most, nv, constraints, problem, iterate, shared)
                    prepared = bool(True)
                swept.sweep_all(group, most, nv, constraints, problem, iterate, shared)
        s.leave_rest(group, worlds, stage)

    return SimpleNamespace(module=module, newton_group=newton_group)
