"""Newton's method on the world of a team: the operations of :mod:`warp_kernels.solver.newton.iteration`.

All threads of a team go through the iteration with the same state. They share out the constraints and degrees of
freedom; sweeps of Gauss-Seidel, which are rare and of the hard law alone, are left to one of them.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.newton.constants import GUIDED, STIFFEST
from warp_kernels.solver.newton.descent import descent_functions, initial_guesses, line_search
from warp_kernels.solver.newton.gauss_seidel import sweep_functions
from warp_kernels.solver.newton.iteration import (
    AFTER_SWEEPS,
    DONE,
    NEVER,
    NOW,
    decision_functions,
    world_iteration_functions,
)
from warp_kernels.solver.newton.one_world import opaque_index, problem_change
from warp_kernels.solver.newton.residual import HELD, RECALLED
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.newton.team.system import team_system_functions, team_work_struct
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types


@functools.cache
def team_residual_functions(scalar: Any, friction: str, width: int, dofs: int) -> SimpleNamespace:
    """Return the Warp functions of residuals and step lengths; arguments as of
    :func:`warp_kernels.solver.newton.team.system.team_system_functions`.
    """
    system = team_system_functions(scalar, friction, width, dofs)
    f, team = system.residual, system.team
    laws, products = f.laws, f.products
    descent = descent_functions(scalar, friction)
    structs = newton_structs(scalar)
    Work, Problem, Iterate = team_work_struct(scalar), structs.Problem, structs.Iterate
    vec2, zero, one = warp_types(scalar).vec2, scalar(0.0), scalar(1.0)

    @wp.func
    def value_at(i: int, work: Work):
        """Return the row values of constraint i at z."""
        change = products.row_product(i, work.world, work.paths, work.constraints, work.problem.row, work.iterate.z)
        return work.problem.value_before[i, work.world] + change

    @wp.func
    def momenta_left(work: Work):
        """Compute the residual of the impulses at z. Return its square."""
        square = zero
        for n in range(team.lane(), work.nv, team.size()):
            k = team.item(n, work.nv)
            inverse = work.problem.inverse_mass[k, work.world]
            moved = (work.iterate.z[k, work.world] + work.iterate.z_before[k, work.world]) / inverse
            left = system.with_pushes(k, moved, -one, work.iterate.impulse, work)
            work.iterate.residual[k, work.world] = left
            square += left * left * inverse
        return team.total(square)

    @wp.func
    def find_residual(mode: int, work: Work):
        """Compute row values, impulses and residual at z. Return the residual's square."""
        world = work.world
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            value = value_at(i, work)
            if wp.static(f.coupled) and mode == RECALLED:
                value[0] = value[0] - work.problem.bias_change[i, world]
            work.iterate.value[i, world] = value
        team.sync()
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            kind = work.constraints.kind[i, world]
            item = work.constraints.item[i, world]
            if wp.static(f.paired):
                if f.is_paired(kind, item, world, work.problem):
                    continue  # with its TORSION
                if follows_contact(kind):
                    first, other = f.pair_impulses(i, item, world, work.problem, work.iterate)
                    work.iterate.impulse[item, world] = first
                    work.iterate.impulse[i, world] = other
                    continue
            bounds = f.impulse_bounds(i, kind, item, world, mode, work.problem, work.iterate)
            work.iterate.impulse[i, world] = laws.impulse_at(
                kind, work.iterate.value[i, world], work.problem.row_stiffness[i, world], bounds
            )
        team.sync()
        return momenta_left(work)

    @wp.func
    def linear_impulses(target: wp.array2d(dtype=warp_types(scalar).vec3), work: Work):
        """Set ``target`` to the impulses linearised at the values, ``slip`` away from there."""
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            target[i, work.world] = f.linear_impulse(i, work.world, work.constraints, work.problem, work.iterate)
        team.sync()

    @wp.func
    def linear_residual(work: Work):
        """Compute the residual at z with impulses linearised at the current values, which need not be those at z."""
        world = work.world
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            work.iterate.slip[i, world] = value_at(i, work) - work.iterate.value[i, world]
        team.sync()
        linear_impulses(work.iterate.impulse, work)
        momenta_left(work)

    @wp.func
    def keep_impulses(work: Work):
        """Set the impulses of the sweeps to the linearised ones at the end of the step."""
        world = work.world
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            change = products.row_product(i, world, work.paths, work.constraints, work.problem.row, work.iterate.step)
            work.iterate.slip[i, world] = work.iterate.slip[i, world] + change
        team.sync()
        linear_impulses(work.iterate.sweep_impulse, work)

    @wp.func
    def slope_along(
        world: int,
        count: int,
        begins: scalar,
        grows: scalar,
        length: scalar,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        """Return the derivative of the convex function along the step, at a step length."""
        total = zero
        for n in range(team.lane(), count, team.size()):
            total += descent.slope_of(team.item(n, count), length, world, constraints, problem, iterate)
        return begins + length * grows - team.total(total)

    convex_length = line_search(scalar, slope_along)

    @wp.func
    def exact_length(work: Work):
        """Return the step length that minimises the convex function, from the step alone."""
        world = work.world
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            work.iterate.slip[i, world] = products.row_product(
                i, world, work.paths, work.constraints, work.problem.row, work.iterate.step
            )
        begins = zero
        grows = zero
        for n in range(team.lane(), work.nv, team.size()):
            k = team.item(n, work.nv)
            push = work.iterate.step[k, world] / work.problem.inverse_mass[k, world]
            begins += push * (work.iterate.z[k, world] + work.iterate.z_before[k, world])
            grows += push * work.iterate.step[k, world]
        begins = team.total(begins)
        grows = team.total(grows)
        return convex_length(world, work.count, begins, grows, work.constraints, work.problem, work.iterate)

    @wp.func
    def magnitudes(work: Work):
        """Return the sums of :func:`warp_kernels.solver.newton.descent.descent_functions`."""
        total = vec2()
        for n in range(team.lane(), work.count, team.size()):
            i = team.item(n, work.count)
            total += descent.magnitude_of(i, work.world, work.constraints, work.problem, work.iterate)
        first = team.total(total[0])
        second = team.total(total[1])
        return work.epsilon * vec2(first, second)

    return SimpleNamespace(
        system=system,
        descent=descent,
        find_residual=find_residual,
        linear_residual=linear_residual,
        keep_impulses=keep_impulses,
        exact_length=exact_length,
        magnitudes=magnitudes,
    )


@functools.cache
def team_step_functions(scalar: Any, friction: str, width: int, dofs: int) -> SimpleNamespace:
    """Return the Warp functions of a solution; arguments as of
    :func:`warp_kernels.solver.newton.team.system.team_system_functions`.
    """
    own = team_residual_functions(scalar, friction, width, dofs)
    system, descent = own.system, own.descent
    f, team = system.residual, system.team
    coupled, opaque = f.coupled, opaque_index(scalar)
    sweeps = sweep_functions(scalar, friction) if coupled else SimpleNamespace()
    change = problem_change(scalar, friction) if coupled else None
    decide = decision_functions(scalar, coupled, in_group=False)
    structs, common = newton_structs(scalar), row_functions(scalar)
    Work, State = team_work_struct(scalar), structs.State
    Problem, Iterate = structs.Problem, structs.Iterate
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def share_of(work: Work):
        """Return R of the world as a share of the effective inverse mass."""
        if wp.static(coupled):
            return common.value_of(work.regularisation, work.world, 0)
        else:
            return scalar(STIFFEST)

    @wp.func
    def set_guess(world: int, nv: int, attempt: int, problem: Problem, iterate: Iterate):
        """Set z to an initial guess, see :func:`warp_kernels.solver.newton.descent.initial_guesses`."""
        for n in range(team.lane(), nv, team.size()):
            k = team.item(n, nv)
            iterate.z[k, world] = descent.guess_of(k, world, attempt, problem, iterate)
        team.sync()

    @wp.func
    def find_residual(
        world: int,
        count: int,
        nv: int,
        mode: int,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        work = Work()
        work.world = world
        work.count = count
        work.nv = nv
        work.paths = paths
        work.constraints = constraints
        work.problem = problem
        work.iterate = iterate
        return own.find_residual(mode, work)

    begin = initial_guesses(scalar, coupled, set_guess, find_residual, descent.pushes)

    @wp.func
    def sweep(work: Work, state: State, last: bool):
        """Sweep as often as a state says, by one thread, and compute the implied values; the ``last`` sweeps settle
        the impulses.
        """
        afresh = state.soft == NOW or (state.soft == NEVER and work.recalled == 0)
        if team.is_first():
            sweeps.resume(
                work.world, work.count, work.nv, state.passes == 1, afresh, state.sweeps, work.paths, work.constraints,
                work.problem, work.iterate,
            )  # fmt: skip
            if last:
                sweeps.settle(work.world, work.count, work.paths, work.constraints, work.problem, work.iterate)
            else:
                sweeps.implied_values(work.world, work.count, work.paths, work.constraints, work.problem, work.iterate)
        team.sync()

    @wp.func
    def find_steps(work: Work, state: State):
        """Sweep if the state asks for it, and compute the step."""
        work.world = opaque(work.world)
        if wp.static(coupled):
            if state.mode == AFTER_SWEEPS and state.passes > 0:
                sweep(work, state, False)
        system.assemble(state.mode, False, work)
        if wp.static(coupled):
            if state.mode == AFTER_SWEEPS:
                own.linear_residual(work)
        system.set_side(-one, work.iterate.residual, work)
        found = bool(system.factorise(work) > wp.static(descent.singular))
        if found:
            system.solve_upper(work.iterate.step, work)
            if wp.static(coupled):
                if state.mode == AFTER_SWEEPS and state.passes > 0 and state.passes <= GUIDED:
                    own.keep_impulses(work)
        state = decide.first_length(state, found)
        if found and state.mode == HELD:
            state.length = own.exact_length(work)
        return state

    @wp.func
    def move(work: Work, state: State):
        """Move z by a ``length``, and compute the residual with its square."""
        work.world = opaque(work.world)
        if state.length != zero:
            for n in range(team.lane(), work.nv, team.size()):
                k = team.item(n, work.nv)
                moved = work.iterate.z[k, work.world] + state.length * work.iterate.step[k, work.world]
                work.iterate.z[k, work.world] = moved
            team.sync()
        state.square = own.find_residual(state.bounds, work)
        return state

    @wp.func
    def recalls(n: int, work: Work):
        return work.recalled == 1

    @wp.func
    def free_square(n: int, work: Work):
        """Return the square of the residual at the velocity before the step without impulses."""
        square = zero
        for m in range(team.lane(), work.nv, team.size()):
            k = team.item(m, work.nv)
            square += descent.free_share(k, work.world, work.problem, work.iterate)
        return team.total(square)

    @wp.func
    def magnitudes(n: int, work: Work):
        return own.magnitudes(work)

    @wp.func
    def step_square(n: int, work: Work):
        """Return twice the kinetic energy of the step."""
        square = zero
        for m in range(team.lane(), work.nv, team.size()):
            k = team.item(m, work.nv)
            step = work.iterate.step[k, work.world]
            square += step * step / work.problem.inverse_mass[k, work.world]
        return team.total(square)

    @wp.func
    def goal(n: int, rounded: scalar, work: Work):
        return descent.goal(rounded, work.scale, work.epsilon, work.tolerance)

    @wp.func
    def prepare(n: int, work: Work, state: State):
        """Make the problem harder or softer, and store the normal impulses for a new round."""
        if wp.static(coupled):
            if decide.changes_problem(state):
                for m in range(team.lane(), work.count, team.size()):
                    i = team.item(m, work.count)
                    change(i, work.world, state, work.constraints, work.problem, work.iterate)
                team.sync()

    loop = world_iteration_functions(
        scalar, Work, decide, find_steps=find_steps, move=move, magnitudes=magnitudes, step_square=step_square,
        goal=goal, prepare=prepare, recalls=recalls, free_square=free_square,
    )  # fmt: skip

    @wp.func
    def solve(work: Work, iterations: int):
        """Solve from the better initial guess. Return the residual as the largest velocity, by the pivots of the last
        system [m/s or rad/s], and the number of systems solved.
        """
        square, recalled = begin(
            work.world, work.count, work.nv, work.scale, work.paths, work.constraints, work.problem, work.iterate
        )
        work.recalled = int(recalled)
        first = loop.begin(0, square, work)
        if wp.static(coupled):
            if recalled:
                # Only sweeps read these impulses, by the same thread.
                if team.is_first():
                    sweeps.recall(work.world, work.count, work.problem, work.iterate)
        last, solved = loop.iterate(work, first, int(first.mode < DONE), iterations)
        left = zero
        if solved > 0:
            left = system.velocity_left(work)
        if wp.static(coupled):
            if last.mode != DONE:
                sweep(work, decide.last_sweeps(last, work.count), True)
        return left, solved

    return SimpleNamespace(team=team, descent=descent, share_of=share_of, solve=solve)
