"""MuJoCo's law solved on the worlds of a lane group together, in lock-step.

The same start, steps and end as in :mod:`warp_kernels.solver.mujoco.solve`. A world that needs more systems than MOST_STEPS is left to
that. Worlds that are done wait for the others of their group.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.mujoco.laws import CONES
from warp_kernels.solver.newton.constants import MOST_STEPS, SLOPE, STIFFEST, SUMS, rounding, rounding_square
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.group.steps import group_step_functions
from warp_kernels.solver.newton.group.structs import DONE, MOVING, MUJOCO_GROUP_HEADERS, group_structs
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import kernel_module

# Whether the way back reads systems: without U, which it doesn't need where it takes the worlds of a group together, or with it.
KEEPS_HALF, KEEPS_ALL = 1, 2
# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"mujoco_group_kernels": [(cone,) for cone in CONES.values()]}


@functools.cache
def mujoco_group_kernels(scalar: Any, cone: str = "elliptic", lanes: int = 1) -> SimpleNamespace:
    """The solver for one precision, cone and number of worlds in a lane group; none with one lane."""
    if lanes == 1:
        return SimpleNamespace()
    s = group_step_functions(scalar, cone, lanes)
    together, laws = s.together, s.side
    descent = descent_functions(scalar, cone)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    Group = group_structs(scalar).Group
    module = kernel_module(f"mujoco_group.{cone}", scalar, lanes, headers=MUJOCO_GROUP_HEADERS)
    wp.set_module_options({"max_unroll": 1}, module)
    zero = scalar(0.0)
    singular = descent.singular
    sums = scalar(SUMS[scalar] * rounding(scalar))
    rounded = rounding_square(scalar)
    epsilon = scalar(STIFFEST)

    @wp.func
    def has_arrived(
        n: int,
        tolerance: scalar,
        stepped: bool,
        shared: Group,
    ):
        """Whether what a world's residual leaves, or what its last step has changed, is as little as is asked for, or rounding."""
        at_hand = shared.at_hand[n]
        arrived = shared.square[n] <= descent.goal(at_hand, shared.scale[n], epsilon, tolerance)
        if stepped:
            arrived = arrived or shared.along[lanes + n] <= rounded * at_hand
        return arrived

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
        """A step of each world that is on its way; those whose system is singular stay."""
        for n in range(lanes):
            shared.moves[n] = 0
            shared.waits[n] = 1
            if n < worlds and stage[group * lanes + n] == MOVING:
                shared.moves[n] = 1
                shared.waits[n] = 0
        s.find_steps(group, most, nv, constraints, problem, iterate, shared)
        together.find_energies(group, nv, problem.inverse_mass, iterate.z, iterate.step, shared)
        for n in range(lanes):
            if not shared.least[n] > singular:
                shared.moves[n] = 0
        laws.find_lengths(group, most, nv, scalar(SLOPE), iterate.step, shared)
        together.move_by(group, nv, iterate.step, shared, iterate.z)
        s.find_residuals(group, most, nv, constraints, problem, iterate, shared)
        laws.find_at_hand(most, epsilon, sums, shared)

    @wp.kernel(module=module, enable_backward=False)
    def convex_group(
        # Model
        paths: Paths,
        dt: scalar,
        iterations: int,
        tolerance: scalar,
        keeps: int,
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
        """system: the last one of each world, where ``keeps`` says that the way back will read it, KEEPS_HALF or KEEPS_ALL.

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
        laws.find_at_hand(most, epsilon, sums, shared)
        moving = int(0)
        for n in range(worlds):
            world = group * lanes + n
            square = shared.square[n]
            # Without impulses there is nothing to solve, and of a state that isn't finite there is no solution.
            if constraints.count[world] > 0 and square != zero and wp.isfinite(square):
                if not has_arrived(n, tolerance, False, shared):
                    stage[world] = MOVING
                    moving += 1
        steps = int(0)
        while moving > 0 and steps < wp.min(iterations, MOST_STEPS):
            take_steps(group, most, nv, worlds, stage, constraints, problem, iterate, shared)
            together.velocities_left(group, nv, iterate.residual, shared)
            moving = int(0)
            ending = int(0)
            for n in range(worlds):
                world = group * lanes + n
                has_moved = shared.moves[n] == 1
                shared.moves[n] = 0
                if stage[world] == MOVING:
                    residual[world] = shared.left_now[n]
                    if has_moved:
                        sweep_count[world] = steps + 1
                    if has_moved and not has_arrived(n, tolerance, True, shared):
                        moving += 1
                    else:
                        stage[world] = DONE
                        shared.moves[n] = 1
                        ending += 1
            if keeps > 0 and ending > 0:
                together.keep_system(group, nv, keeps == KEEPS_ALL, shared, system)
            steps += 1
        laws.keep_answers(group, most, shared, iterate.value, iterate.impulse)
        s.leave_rest(group, worlds, stage)

    return SimpleNamespace(module=module, convex_group=convex_group)
