"""Newton's method on one world, or on a part of it: the operations of :mod:`warp_kernels.solver.newton.iteration`."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.constants import GUIDED, STIFFEST
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.gauss_seidel import sweep_functions
from warp_kernels.solver.newton.iteration import (
    AFTER_SWEEPS,
    DONE,
    NEVER,
    NOW,
    decision_functions,
    world_iteration_functions,
)
from warp_kernels.solver.newton.residual import HELD, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import most_registers


@functools.cache
def work_struct(scalar: Any) -> Any:
    """Return the struct for one precision."""
    structs = newton_structs(scalar)

    @wp.struct
    class Work:
        """World, or a part of one, and its arrays.

        Attributes:
            world: its index.
            count, nv: its numbers of constraints and degrees of freedom.
            recalled: 1 if the iterate starts with the impulses of the previous time step.
            scale: of rounding, see :func:`warp_kernels.solver.newton.descent.descent_functions`.
            tolerance: of the residual, as a share of ``scale``.
            epsilon: R as a share of the effective inverse mass.
            regularisation: that share of each world, in the hard law.
        """

        world: int
        count: int
        nv: int
        recalled: int
        scale: scalar
        tolerance: scalar
        epsilon: scalar
        regularisation: wp.array2d(dtype=scalar)
        paths: Paths
        trees: TreeDofs
        constraints: Constraints
        couplings: Couplings
        problem: structs.Problem
        system: structs.System
        iterate: structs.Iterate

    return Work


@functools.cache
def opaque_index(scalar: Any) -> wp.Function:
    """Return a Warp function of the index of a world, for one precision."""

    @Native(scalar, 1, "newton").func_native()
    def opaque(world: int) -> int:
        """Return the index of a world, so that a GPU computes addresses anew instead of keeping them in registers."""

    return opaque


@functools.cache
def problem_change(scalar: Any, friction: str, divided: bool = False) -> wp.Function:
    """Return the Warp function that changes a constraint for the next step, under the hard law."""
    f, sweeps = residual_functions(scalar, friction, divided=divided), sweep_functions(scalar, friction, divided)
    structs = newton_structs(scalar)
    State, Problem, Iterate = structs.State, structs.Problem, structs.Iterate
    one = scalar(1.0)

    @wp.func
    def change(i: int, world: int, state: State, constraints: Constraints, problem: Problem, iterate: Iterate):
        """Make a constraint harder or softer, or store its normal impulse for a new round."""
        if state.harder != one:
            sweeps.harden(i, world, state.harder, problem, iterate)
        else:
            f.hold_normal_impulse(i, world, constraints, problem, iterate)

    return change


@functools.cache
def one_world_functions(scalar: Any, friction: str, divided: bool = False) -> SimpleNamespace:
    """Return the Warp functions for one precision and friction model or cone of MuJoCo's, of whole worlds or of
    parts.
    """
    f = residual_functions(scalar, friction, divided=divided)
    descent = descent_functions(scalar, friction, divided)
    coupled = f.coupled
    sweeps = sweep_functions(scalar, friction, divided) if coupled else SimpleNamespace()
    change = problem_change(scalar, friction, divided) if coupled else None
    decide = decision_functions(scalar, coupled, in_group=False)
    structs, common = newton_structs(scalar), row_functions(scalar)
    Work, State = work_struct(scalar), structs.State
    opaque = opaque_index(scalar)
    zero = scalar(0.0)

    @wp.func(inline=True)
    def share_of(world: int, work: Work):
        """Return R of a world as a share of the effective inverse mass. It scales rounding errors of the values to
        those of the impulses.
        """
        if wp.static(coupled):
            return common.value_of(work.regularisation, world, 0)
        else:
            return scalar(STIFFEST)

    @wp.func(inline=True)
    def sweep(work: Work, state: State):
        """Sweep as often as a state says; the first sweeps start from zero impulses, unless those of the previous time
        step or of a softer problem are available.
        """
        afresh = state.soft == NOW or (state.soft == NEVER and work.recalled == 0)
        sweeps.resume(
            work.world, work.count, work.nv, state.passes == 1, afresh, state.sweeps, work.paths, work.constraints,
            work.problem, work.iterate,
        )  # fmt: skip

    @wp.func(inline=True)
    def find_steps(work: Work, state: State):
        """Sweep if the state asks for it, and compute the step."""
        work.world = opaque(work.world)
        world, count, nv = work.world, work.count, work.nv
        if wp.static(coupled):
            if state.mode == AFTER_SWEEPS and state.passes > 0:
                sweep(work, state)
                sweeps.implied_values(world, count, work.paths, work.constraints, work.problem, work.iterate)
        symmetric = f.assemble(
            world, count, nv, state.mode, work.trees, work.paths, work.constraints, work.couplings, work.problem,
            work.iterate, work.system,
        )  # fmt: skip
        if wp.static(coupled):
            if state.mode == AFTER_SWEEPS:
                f.linear_residual(world, count, nv, work.paths, work.constraints, work.problem, work.iterate)
        found = descent.find_step(world, nv, symmetric, work.system, work.iterate)
        if wp.static(coupled):
            if state.mode == AFTER_SWEEPS and found and state.passes > 0 and state.passes <= GUIDED:
                f.keep_impulses(world, count, work.paths, work.constraints, work.problem, work.iterate)
        state = decide.first_length(state, found)
        if found and state.mode == HELD:
            state.length = descent.exact_length(
                world, count, nv, work.paths, work.constraints, work.problem, work.iterate
            )
        return state

    @wp.func(inline=True)
    def move(work: Work, state: State):
        """Move z by a ``length``, and compute the residual with its square."""
        work.world = opaque(work.world)
        if state.length != zero:
            descent.move(work.world, work.nv, state.length, work.iterate)
        state.square = f.find_residual(
            work.world, work.count, work.nv, state.bounds, work.paths, work.constraints, work.problem, work.iterate
        )
        return state

    @wp.func(inline=True)
    def recalls(n: int, work: Work):
        return work.recalled == 1

    @wp.func(inline=True)
    def free_square(n: int, work: Work):
        return descent.free_square(work.world, work.nv, work.problem, work.iterate)

    @wp.func(inline=True)
    def magnitudes(n: int, work: Work):
        return descent.magnitudes(work.world, work.count, work.epsilon, work.constraints, work.problem, work.iterate)

    @wp.func(inline=True)
    def step_square(n: int, work: Work):
        return descent.step_square(work.world, work.nv, work.problem, work.iterate)

    @wp.func(inline=True)
    def goal(n: int, rounded: scalar, work: Work):
        return descent.goal(rounded, work.scale, work.epsilon, work.tolerance)

    @wp.func(inline=True)
    def prepare(n: int, work: Work, state: State):
        """Make the problem harder or softer, and store the normal impulses for a new round."""
        if wp.static(coupled):
            if decide.changes_problem(state):
                for m in range(work.count):
                    i = f.parts.constraint_of(m, work.world, work.iterate)
                    change(i, work.world, state, work.constraints, work.problem, work.iterate)

    loop = world_iteration_functions(
        scalar, Work, decide, find_steps=find_steps, move=move, magnitudes=magnitudes, step_square=step_square,
        goal=goal, prepare=prepare, recalls=recalls, free_square=free_square,
    )  # fmt: skip

    # Inline: a call copies the descriptors of all arrays, which takes as long as solving a small island.
    @wp.func(inline=True)
    def solve(work: Work, square: scalar, iterations: int):
        """Solve from z, whose values, impulses and residual are those of ``iterate``; square: of the residual.

        Return the residual as the largest velocity, by the pivots of the last system [m/s or rad/s], and the number of
        systems solved.
        """
        work.world = opaque(work.world)
        first = loop.begin(0, square, work)
        if wp.static(coupled):
            if work.recalled == 1:
                sweeps.recall(work.world, work.count, work.problem, work.iterate)
        last, solved = loop.iterate(work, first, int(first.mode < DONE), iterations)
        left = zero
        if solved > 0:
            left = descent.velocity_left(work.world, work.nv, work.system, work.iterate)
        if wp.static(coupled):
            if last.mode != DONE:
                sweep(work, decide.last_sweeps(last, work.count))
                sweeps.settle(work.world, work.count, work.paths, work.constraints, work.problem, work.iterate)
        return left, solved

    return SimpleNamespace(Work=Work, share_of=share_of, descent=descent, residual=f, solve=solve)


def solve_kernel(scalar: Any, cone: str, module: wp.Module) -> wp.Kernel:
    """Return the kernel ``newton_solve`` or ``convex_solve`` for one precision and friction model or cone of MuJoCo's,
    one thread per world.
    """
    hard = cone in FRICTION_MODELS
    f = one_world_functions(scalar, cone)
    Work = f.Work
    zero = scalar(0.0)

    @wp.kernel(
        name="newton_solve" if hard else "convex_solve",
        module=module,
        enable_backward=False,
        cuda_max_registers=most_registers(scalar) if hard else None,
    )
    def solve(
        # Model
        dt: scalar,
        iterations: int,
        # Data in
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        stage: wp.array(dtype=int),
        # Data out
        work: Work,
        residual: wp.array(dtype=scalar),
        solver_iterations: wp.array(dtype=int),
    ):
        """Solve all worlds.

        residual: as the largest velocity, by the pivots of the last system [m/s or rad/s].
        work: ``row_stiffness`` of its problem changes during the solve, and keeps the value of the end.
        solver_iterations: systems solved.
        stage: zero for worlds that are solved already (:mod:`warp_kernels.solver.newton.group.solve`); no rows if none
            is.
        """
        world = wp.tid()
        if stage.shape[0] > 0 and stage[world] == 0:
            return
        count = work.constraints.count[world]
        residual[world] = zero
        solver_iterations[world] = 0
        if count == 0:
            return
        nv = work.paths.dof_depth.shape[0]
        work.world = world
        work.count = count
        work.nv = nv
        work.scale = f.descent.initial_guess(
            0, nv, dt, qd, qdd, work.paths, factor_l, work.problem.inverse_mass, work.iterate.z_before, world
        )
        square, recalled = f.descent.begin(
            world, count, nv, work.scale, work.paths, work.constraints, work.problem, work.iterate
        )
        work.recalled = int(recalled)
        work.epsilon = f.share_of(world, work)
        left, solved = f.solve(work, square, iterations)
        residual[world] = left
        solver_iterations[world] = solved

    return solve
