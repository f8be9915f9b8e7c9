"""Iteration of Newton's method: one loop for a world, an island and a lane group, and for every law.

The mode of a world selects its next step.

| mode | step |
|---|---|
| COUPLED | on the coupled equations, whose friction follows the normal impulses: the whole step, half of it, or none |
| AFTER_SWEEPS | sweeps of Gauss-Seidel first, then one on the coupled equations from there, the whole of it; without sweeps from the impulses of the previous time step |
| HELD | down the convex function for fixed friction bounds, by an exact line search |
| DONE | none: converged, or the residual is rounding |
| LEFT | none: a lane group leaves the world to the solver for one |

A law without coupling (MuJoCo's) is convex, so that its only steps are HELD. A step has one of these outcomes:

| outcome | of a step | meaning |
|---|---|---|
| SINGULAR | COUPLED, HELD | its system has no pivots |
| STAYED | COUPLED | neither the whole nor half of it reduces the square below ENOUGH |
| MOVED | COUPLED, AFTER_SWEEPS | z has changed |
| MOVED | HELD | the round ends: its square is small enough, or it has had ROUND steps |
| FAR | AFTER_SWEEPS | the residual exceeds NEAR of the magnitude, and there are passes left |
| CLOSER | HELD | the round continues |

The first line that fits gives the next mode. "Last but one" means that one system may still be solved.

| law | outcome | condition | next |
|---|---|---|---|
| any | at the beginning | no impulses, not finite, or no more than the goal of the momenta alone | DONE |
| coupled | at the beginning | with the impulses of the previous time step, near the solution | AFTER_SWEEPS, no sweeps |
| coupled | at the beginning | with these, or with more than TANGLE constraints, and far from the solution | AFTER_SWEEPS |
| coupled | at the beginning | | COUPLED |
| convex | at the beginning | | HELD |
| convex | SINGULAR | | DONE |
| convex | CLOSER | no more than the goal, or the step is rounding | DONE |
| convex | CLOSER | | HELD |
| coupled | MOVED, STAYED | no more than the goal, or STAYED and the step is rounding; the problem is softer | AFTER_SWEEPS, the problem as it was |
| coupled | any | last but one; the problem is softer | AFTER_SWEEPS, the problem as it was |
| coupled | MOVED | no more than the goal | DONE |
| coupled | MOVED | | COUPLED |
| coupled | STAYED | the step is rounding | DONE |
| coupled | CLOSER | | HELD |
| coupled | SINGULAR, STAYED, FAR | passes left | AFTER_SWEEPS |
| coupled | SINGULAR, STAYED | in a lane group | LEFT |
| coupled | SINGULAR, STAYED | after ROUNDS rounds, never softer, not last but one | AFTER_SWEEPS, the problem softer |
| coupled | SINGULAR, STAYED | | HELD, a new round |

A problem that becomes softer, or is restored, has all its passes again. If a world isn't DONE after the last system,
sweeps settle it. The names in capitals are in :mod:`warp_kernels.solver.newton.constants`.
"""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.solver.newton.constants import (
    AFAR,
    ENOUGH,
    LEAST_SWEEPS,
    MOST_PER_CONSTRAINT,
    MOST_SWEEPS,
    NEAR,
    PASSES,
    RECALLED_SHARE,
    ROUND,
    ROUND_SHARE,
    ROUNDS,
    SOFTER,
    TANGLE,
    rounding_square,
)
from warp_kernels.solver.newton.residual import COUPLED, HELD
from warp_kernels.solver.newton.structs import newton_structs

# Modes, in addition to COUPLED and HELD. From DONE on there is no step.
AFTER_SWEEPS, DONE, LEFT = 2, 3, 4
# Outcomes of a step.
SINGULAR, STAYED, MOVED, FAR, CLOSER = range(5)
# Whether the softer problem has been solved: not yet, it is now, or it was.
NEVER, NOW, BEFORE = range(3)


def decision_functions(scalar: Any, coupled: bool, in_group: bool) -> SimpleNamespace:
    """Return the Warp functions that choose a world's next step.

    Args:
        scalar: precision.
        coupled: whether friction follows normal impulses.
        in_group: whether worlds that need convex rounds are left to the solver for one.
    """
    State = newton_structs(scalar).State
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def first_state(count: int, square: scalar, magnitude: scalar, goal: scalar):
        """Return the initial state of a world with that many constraints; square: of its residual, not zero and
        finite; magnitude: only needed for coupled laws beyond TANGLE constraints.
        """
        state = State()
        state.square = square
        state.harder = one
        state.mode = wp.static(COUPLED if coupled else HELD)
        if square <= goal:
            state.mode = DONE
        elif wp.static(coupled) and count > TANGLE and square > scalar(AFAR) * magnitude:
            state = with_first_sweeps(state, count)
        return state

    @wp.func
    def with_first_sweeps(state: State, count: int):
        """Return the state whose next step follows the first pass of sweeps."""
        state.mode = AFTER_SWEEPS
        state.sweeps = next_sweeps(0, 0, count)
        state.passes = 1
        return state

    @wp.func
    def recalled_state(count: int, square: scalar, free: scalar):
        """Return the initial state of a world that starts with the impulses of the previous time step; square: of
        their residual; free: without impulses.
        """
        state = State()
        state.square = square
        state.harder = one
        state.mode = AFTER_SWEEPS
        if not square < scalar(RECALLED_SHARE) * free:
            state = with_first_sweeps(state, count)
        return state

    @wp.func
    def next_sweeps(passes: int, sweeps: int, count: int):
        """Return the number of sweeps of the next pass: more than in the previous one."""
        if passes == 0:
            return wp.clamp(2 * count, LEAST_SWEEPS, MOST_SWEEPS)
        return wp.max(sweeps, wp.min(2 * sweeps, MOST_PER_CONSTRAINT * count))

    @wp.func
    def first_length(state: State, found: bool):
        """Set the step length to the whole step, if one was found."""
        state.found = int(found)
        state.before = state.square
        state.bounds = wp.where(state.mode == HELD, HELD, COUPLED)
        state.trials = 0
        state.tries = 1
        state.length = wp.where(found, one, zero)
        return state

    @wp.func
    def next_length(state: State):
        """Return whether another step length is tried. ``length``: change from the present z."""
        state.trials += 1
        state.tries = 0
        state.length = zero
        if state.mode == COUPLED:
            # Half of the step, then back.
            if state.found == 1 and state.trials < 3 and not state.square < scalar(ENOUGH) * state.before:
                state.tries = 1
                state.length = scalar(-0.5)
        elif wp.static(coupled) and state.mode == HELD and state.bounds == HELD and state.found == 1:
            state.in_round += 1
            if state.in_round == ROUND or not state.square > state.enough:
                # The same z, with the bounds that follow it.
                state.tries = 1
                state.bounds = COUPLED
        return state

    @wp.func
    def outcome(state: State, magnitude: scalar):
        """Return the outcome of a step."""
        if state.mode == AFTER_SWEEPS:
            if state.passes < PASSES and state.square > scalar(NEAR) * magnitude:
                return int(FAR)
            return int(MOVED)
        if state.found == 0:
            return int(SINGULAR)
        if state.mode == COUPLED and not state.square < scalar(ENOUGH) * state.before:
            return int(STAYED)
        if state.mode == HELD and state.bounds == HELD:
            return int(CLOSER)
        return int(MOVED)

    @wp.func
    def asks_for_rounding(came: int):
        """Return whether a step may be the last because it is rounding."""
        return came == wp.static(STAYED if coupled else CLOSER)

    @wp.func
    def next_state(state: State, came: int, is_rounding: bool, goal: scalar, count: int, further: int):
        """Return the state after a step; further: systems that may still be solved. See the table of this module."""
        state.harder = one
        if wp.static(not coupled):
            if came == SINGULAR or state.square <= goal or is_rounding:
                state.mode = DONE
            return state
        ends = is_rounding or (came == MOVED and state.square <= goal)
        if state.soft == NOW and (ends or further == 1):
            state.soft = BEFORE
            state.harder = scalar(SOFTER)
        elif ends:
            state.mode = DONE
        elif came == MOVED:
            state.mode = COUPLED
        elif came == CLOSER:
            state.mode = HELD
        elif state.passes < PASSES:
            state.sweeps = next_sweeps(state.passes, state.sweeps, count)
            state.passes += 1
            state.mode = AFTER_SWEEPS
        elif wp.static(in_group):
            state.mode = LEFT
        elif state.rounds == ROUNDS and state.soft == NEVER and further > 1:
            state.soft = NOW
            state.harder = one / scalar(SOFTER)
        else:
            state.mode = HELD
            state.enough = wp.max(scalar(ROUND_SHARE) * state.square, goal)
            state.in_round = 0
            state.rounds += 1
        if state.harder != one:
            state = with_first_sweeps(state, count)
        return state

    @wp.func
    def last_sweeps(state: State, count: int):
        """Return the state of a world that isn't DONE after the last system, for the sweeps that settle it."""
        if state.mode != AFTER_SWEEPS:
            state.sweeps = next_sweeps(state.passes, state.sweeps, count)
            state.passes += 1
        return state

    @wp.func
    def changes_problem(state: State):
        """Return whether the problem becomes harder or softer, or a new round begins."""
        return state.harder != one or (state.mode == HELD and state.in_round == 0)

    return SimpleNamespace(
        coupled=coupled,
        first_state=first_state,
        recalled_state=recalled_state,
        last_sweeps=last_sweeps,
        first_length=first_length,
        next_length=next_length,
        outcome=outcome,
        asks_for_rounding=asks_for_rounding,
        next_state=next_state,
        changes_problem=changes_problem,
    )


def iteration_functions(scalar: Any, worlds: SimpleNamespace) -> SimpleNamespace:
    """Return the iteration over the worlds of one thread: one, a part of one, or those of a lane group.

    Args:
        scalar: precision.
        worlds: their operations (:mod:`warp_kernels.solver.newton.one_world`,
            :mod:`warp_kernels.solver.newton.group.worlds`):

            - ``width``: their number, ``Work``: a struct of their data, ``States``: the type of their states;
            - ``decisions``: of :func:`decision_functions`; ``goal``: the square at convergence;
            - ``state(n, work, states)``, ``with_state(n, work, states, state)``: get and set the state of world n;
            - ``find_steps(work, states)``: sweep worlds that ask for it, solve the systems of all, and call
              ``first_length``;
            - ``move(work, states)``: move z by each ``length``, and find the residual with its square;
            - ``recalls(n, work)``, ``free_square(n, work)``: whether the impulses of world n are those of the previous time
              step, and the square of its residual without impulses;
            - ``measure(work)``, ``count_at(n, work)``, ``magnitudes(n, work)``, ``step_square(n, work)``;
            - ``prepare(n, work, state)``: make the problem harder or softer, and set bounds of a new round aside;
            - ``end(work, states, solved)``: keep what is known of the worlds that have ended.
    """
    w, decide, width = worlds, worlds.decisions, worlds.width
    Work, States, State = worlds.Work, worlds.States, newton_structs(scalar).State
    zero = scalar(0.0)
    rounded = rounding_square(scalar)

    @wp.func(inline=True)
    def begin(n: int, square: scalar, work: Work):
        """Return the first state of world n; square: of its residual."""
        state = State()
        state.mode = DONE
        # Without impulses there is nothing to solve, and a state that isn't finite has no solution.
        if square != zero and wp.isfinite(square):
            count = w.count_at(n, work)
            recalls = bool(False)
            if wp.static(decide.coupled):
                recalls = w.recalls(n, work)
            if recalls:
                state = decide.recalled_state(count, square, w.free_square(n, work))
            else:
                # An initial guess isn't converged because some rows round coarsely: what it leaves in others would be
                # kicks.
                magnitude = zero
                if wp.static(decide.coupled):
                    if count > TANGLE:
                        magnitude = w.magnitudes(n, work)[0]
                state = decide.first_state(count, square, magnitude, w.goal(n, zero, work))
        return state

    @wp.func(inline=True)
    def take_steps(work: Work, states: States):
        """Take a step in each active world, up to its step length."""
        states = w.find_steps(work, states)
        trying = bool(True)
        # One call in a loop: a GPU's compiler repeats a function's code wherever it is called.
        while trying:
            states = w.move(work, states)
            trying = bool(False)
            for n in range(width):
                state = w.state(n, work, states)
                if state.tries == 1:
                    tried = decide.next_length(state)
                    trying = trying or tried.tries == 1
                    states = w.with_state(n, work, states, tried)
        return states

    @wp.func(inline=True)
    def iterate(work: Work, first: States, moving: int, iterations: int):
        """Take steps until all worlds have converged, or up to a number of systems. Return the states, and the number
        of systems.
        """
        states = first
        solved = int(0)
        while moving > 0 and solved < iterations:
            states = take_steps(work, states)
            w.measure(work)
            solved += 1
            ended = int(0)
            for n in range(width):
                state = w.state(n, work, states)
                if state.mode < DONE:
                    terms = w.magnitudes(n, work)
                    came = decide.outcome(state, terms[0])
                    is_rounding = bool(False)
                    if decide.asks_for_rounding(came):
                        is_rounding = w.step_square(n, work) <= rounded * terms[0]
                    goal = w.goal(n, terms[1], work)
                    after = decide.next_state(state, came, is_rounding, goal, w.count_at(n, work), iterations - solved)
                    w.prepare(n, work, after)
                    ended += int(after.mode >= DONE)
                    states = w.with_state(n, work, states, after)
            if ended > 0:
                w.end(work, states, solved)
                moving -= ended
        return states, solved

    return SimpleNamespace(begin=begin, iterate=iterate)


def world_iteration_functions(scalar: Any, Work: Any, decisions: SimpleNamespace, **operations: wp.Function) -> Any:
    """Return the iteration over one world, or a part of one, whose state is that of the iteration.

    Args:
        scalar: precision.
        Work: struct of its data, with its number of constraints, ``count``.
        decisions: of :func:`decision_functions`.
        operations: those of :func:`iteration_functions` that are not about states.
    """
    State = newton_structs(scalar).State

    @wp.func
    def state(n: int, work: Work, states: State):
        return states

    @wp.func
    def with_state(n: int, work: Work, states: State, state: State):
        return state

    @wp.func
    def count_at(n: int, work: Work):
        return work.count

    @wp.func
    def measure(work: Work):
        """Do nothing: the squares of one world are computed on demand."""

    @wp.func
    def end(work: Work, states: State, solved: int):
        """Do nothing: there is only one world, and its results are in the arrays already."""

    own = {"state": state, "with_state": with_state, "count_at": count_at, "measure": measure, "end": end}
    world = SimpleNamespace(width=1, Work=Work, States=State, decisions=decisions, **own, **operations)
    return iteration_functions(scalar, world)
