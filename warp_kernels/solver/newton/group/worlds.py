"""Newton's method on the worlds of a lane group, in lock-step: the operations of
:mod:`warp_kernels.solver.newton.iteration`.

A world that needs convex rounds, which few do, or more systems than MOST_STEPS is left to the solver for one. Converged
worlds wait for the others of their group.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.newton.constants import MOST_STEPS, SLOPE, STIFFEST, SUMS, rounding
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.group.after_sweeps import step_after_sweeps_functions
from warp_kernels.solver.newton.group.steps import group_step_functions
from warp_kernels.solver.newton.group.structs import KEEPS_ALL, SOLVED, UNSOLVED, group_structs
from warp_kernels.solver.newton.iteration import AFTER_SWEEPS, DONE, decision_functions, iteration_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.types import warp_types


@functools.cache
def group_world_functions(scalar: Any, friction: str, lanes: int) -> SimpleNamespace:
    """Return the Warp functions for one precision, friction model or cone of MuJoCo's, and number of worlds in a lane
    group.
    """
    s = group_step_functions(scalar, friction, lanes)
    coupled, together, laws = s.coupled, s.together, s.side
    after_sweeps = step_after_sweeps_functions(scalar, friction, lanes) if coupled else SimpleNamespace()
    descent, common = descent_functions(scalar, friction), row_functions(scalar)
    decide = decision_functions(scalar, coupled, in_group=True)
    Work, State = group_structs(scalar).Work, newton_structs(scalar).State
    vec2, zero, singular = warp_types(scalar).vec2, scalar(0.0), descent.singular
    sums, precision = scalar(SUMS[scalar]), scalar(rounding(scalar))

    # Inline: a call copies the descriptions of all arrays.
    @wp.func(inline=True)
    def state(n: int, work: Work, states: int):
        return work.shared.state[n]

    @wp.func(inline=True)
    def with_state(n: int, work: Work, states: int, state: State):
        work.shared.state[n] = state
        return states

    @wp.func(inline=True)
    def world_at(n: int, work: Work):
        return work.group * lanes + n

    @wp.func(inline=True)
    def count_at(n: int, work: Work):
        return work.constraints.count[world_at(n, work)]

    @wp.func(inline=True)
    def epsilon_at(n: int, work: Work):
        """Return R as a share of the inverse mass."""
        if wp.static(coupled):
            return common.value_of(work.regularisation, world_at(n, work), 0)
        else:
            return scalar(STIFFEST)

    @wp.func(inline=True)
    def find_steps(work: Work, states: int):
        """Sweep worlds that ask for it, and compute the steps of all."""
        shared = work.shared
        any_after_sweeps = bool(False)
        any_swept = bool(False)
        for n in range(lanes):
            mode = shared.state[n].mode
            shared.waits[n] = int(mode >= DONE)
            any_after_sweeps = any_after_sweeps or mode == AFTER_SWEEPS
            any_swept = any_swept or (mode == AFTER_SWEEPS and shared.state[n].passes > 0)
        if wp.static(coupled):
            if any_swept:
                after_sweeps.sweep(work)
            if any_after_sweeps:
                after_sweeps.linear_residuals(work)
        s.find_steps(work)
        for n in range(lanes):
            shared.moves[n] = int(shared.waits[n] == 0 and shared.least[n] > singular)
            shared.lengths[n] = scalar(1.0)
        if wp.static(coupled):
            if any_swept:
                after_sweeps.keep_impulses(work)
        else:
            together.find_energies(
                work.group,
                work.nv,
                work.problem.inverse_mass,
                work.iterate.z,
                work.iterate.z_before,
                work.iterate.step,
                shared,
            )
            laws.find_lengths(work.group, work.most, work.nv, scalar(SLOPE), work.iterate.step, shared)
        for n in range(lanes):
            if shared.waits[n] == 0:
                state = decide.first_length(shared.state[n], shared.moves[n] == 1)
                state.length = state.length * shared.lengths[n]
                shared.state[n] = state
        return states

    @wp.func(inline=True)
    def move(work: Work, states: int):
        """Move z by the ``length`` of each world that tries it, and compute the residuals with their squares."""
        shared = work.shared
        for n in range(lanes):
            state = shared.state[n]
            # Without a step it may hold NaN.
            shared.moves[n] = int(state.tries == 1 and state.length != zero)
            shared.lengths[n] = state.length
        together.move_by(work.group, work.nv, work.iterate.step, shared, work.iterate.z)
        s.find_residuals(False, work)
        for n in range(lanes):
            state = shared.state[n]
            if state.tries == 1:
                state.square = shared.square[n]
                shared.state[n] = state
        return states

    @wp.func(inline=True)
    def recalls(n: int, work: Work):
        return work.shared.recalled[n] == 1

    @wp.func(inline=True)
    def free_square(n: int, work: Work):
        return descent.free_square(world_at(n, work), work.nv, work.problem, work.iterate)

    @wp.func(inline=True)
    def measure(work: Work):
        """Compute the magnitudes of row values if that is done for all worlds at once."""
        if wp.static(not coupled):
            laws.find_magnitudes(work.most, scalar(STIFFEST), sums, precision, work.shared)

    @wp.func(inline=True)
    def magnitudes(n: int, work: Work):
        if wp.static(coupled):
            world = world_at(n, work)
            return descent.magnitudes(
                world, count_at(n, work), epsilon_at(n, work), work.constraints, work.problem, work.iterate
            )
        else:
            return vec2(work.shared.magnitude[n], work.shared.magnitude[lanes + n])

    @wp.func(inline=True)
    def step_square(n: int, work: Work):
        if wp.static(coupled):
            return descent.step_square(world_at(n, work), work.nv, work.problem, work.iterate)
        else:
            return work.shared.along[lanes + n]

    @wp.func(inline=True)
    def goal(n: int, rounded: scalar, work: Work):
        return descent.goal(rounded, work.shared.scale[n], epsilon_at(n, work), work.tolerance)

    @wp.func(inline=True)
    def prepare(n: int, work: Work, state: State):
        """Do nothing: worlds that need another problem or convex rounds are left to the solver for one."""

    @wp.func(inline=True)
    def end(work: Work, states: int, solved: int):
        """Store the residual of the worlds that this step has ended, and their systems for the adjoint."""
        shared = work.shared
        together.velocities_left(work.group, work.nv, work.iterate.residual, shared)
        for n in range(lanes):
            mode = shared.state[n].mode
            shared.moves[n] = int(shared.waits[n] == 0 and mode == DONE)
            if shared.moves[n] == 1:
                work.residual[world_at(n, work)] = shared.left_now[n]
                work.solver_iterations[world_at(n, work)] = solved
        if work.keeps > 0:
            together.keep_system(work.group, work.nv, work.keeps == KEEPS_ALL, shared, work.system)

    loop = iteration_functions(
        scalar,
        SimpleNamespace(
            width=lanes,
            Work=Work,
            States=int,
            decisions=decide,
            state=state,
            with_state=with_state,
            count_at=count_at,
            find_steps=find_steps,
            move=move,
            recalls=recalls,
            free_square=free_square,
            measure=measure,
            magnitudes=magnitudes,
            step_square=step_square,
            goal=goal,
            prepare=prepare,
            end=end,
        ),
    )

    @wp.func(inline=True)
    def solve(work: Work, iterations: int):
        """Solve worlds from z, whose values, impulses and residuals are up to date; ``stage``: the worlds solved."""
        moving = int(0)
        for n in range(lanes):
            # No struct is assigned in a branch: the compiler would copy it at the branch's end, and stall on the
            # preceding stores.
            first = State()
            first.mode = DONE
            work.shared.state[n] = first
            if wp.static(coupled):
                if work.shared.recalled[n] == 1 and s.has(0, world_at(n, work), work.constraints):
                    after_sweeps.recall(n, work)
            if s.has(0, world_at(n, work), work.constraints):
                work.shared.state[n] = loop.begin(n, work.shared.square[n], work)
            moving += int(work.shared.state[n].mode < DONE)
        loop.iterate(work, 0, moving, wp.min(iterations, MOST_STEPS))
        if wp.static(not coupled):
            laws.keep_impulses(work.group, work.most, work.shared, work.iterate.value, work.iterate.impulse)
        for n in range(work.worlds):
            work.stage[world_at(n, work)] = wp.where(work.shared.state[n].mode == DONE, SOLVED, UNSOLVED)

    return SimpleNamespace(Work=Work, begin=s.begin, solve=solve)
