"""Newton's method on the regularised problem of a step, with Coulomb's friction coupled to the normal impulses.

With z = L (v+ - v*) and the row values r = r* + row z, the impulses answer to the values (:mod:`warp_kernels.solver.newton.laws`) and

    D z = row' impulse(r)

is solved. With the bounds of friction held this is the minimum of a convex function, which Newton's method with an exact
line search always finds. The bounds follow the normal impulses, so that the whole is a fixed point. It is sought by Newton's method on the
coupled equations, whose matrix is not symmetric where something slides. Where that gets no nearer, sweeps of projected Gauss-Seidel say
what holds and what slides; where these have come several times, a convex round with the bounds of the iterate comes between (Castro
et al. 2021; Todorov, *Convex and analytically-invertible dynamics with contacts and constraints*, 2014, for the convex part). Friction that
presses bodies onto what it holds them by may send the search round in circles. Then a problem that gives way by more is solved first, in
the same way, and the search goes on from its solution.

A step begins with the velocity of the step before, or with that without impulses, whichever is nearer. The solution doesn't depend on it unless
there are several, as there can be where bodies are wedged between each other.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.constraints.kinds import has_own_softness, is_unbounded
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.newton.constants import (
    AFAR,
    ENOUGH,
    GUIDED,
    NEAR,
    PASSES,
    ROUND,
    ROUND_SHARE,
    ROUNDS,
    SOFTER,
    TANGLE,
    rounding_square,
)
from warp_kernels.solver.newton.descent import descent_functions
from warp_kernels.solver.newton.laws import law_functions
from warp_kernels.solver.newton.residual import COUPLED, HELD, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.newton.sweeps import sweep_functions
from warp_kernels.solver.newton.whitening import whitening_functions
from warp_kernels.solver.products import product_functions
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import kernel_module, most_registers, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_kernels": [(model,) for model in FRICTION_MODELS]}

# A step on the coupled equations from where sweeps have led, with what they found to hold and to slide; beside COUPLED and HELD.
SWEPT = 2
# What came of a step: none without pivots, too little gained, another z, one that is still far, or one nearer to the minimum of a
# convex round.
SINGULAR = 0
STAYED = 1
MOVED = 2
FAR = 3
CLOSER = 4


@functools.cache
def solution_functions(scalar: Any, friction: str, divided: bool = False) -> SimpleNamespace:
    """Warp functions of the iteration for one precision and friction model, of whole worlds or of parts."""
    f = residual_functions(scalar, friction, divided=divided)
    descent = descent_functions(scalar, friction, divided)
    sweeps = sweep_functions(scalar, friction, divided)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    zero, one = scalar(0.0), scalar(1.0)
    rounded = rounding_square(scalar)

    @wp.func
    def take_step(
        world: int,
        count: int,
        nv: int,
        mode: int,
        found: bool,
        enough: scalar,
        square: scalar,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        """Move along the step, if one was found. Returns the square of the residual, and what came of the step.

        On the coupled equations that is the whole step or half of it; where neither leaves enough less of the residual, z stays. In
        a convex round it is as far as the convex function falls; once that leaves ``enough`` or less, the residual is the coupled one.
        """
        if mode == COUPLED and not found:
            return square, int(SINGULAR)
        tried = one
        if mode == SWEPT and not found:
            tried = zero
        if mode == HELD:
            tried = descent.exact_length(world, count, nv, paths, constraints, problem, iterate)
        length = zero
        reached = square
        bounds = mode
        attempt = int(0)
        # One call in a loop, as in begin.
        while attempt < 3:
            descent.move(world, nv, tried - length, iterate)
            length = tried
            reached = f.find_residual(world, count, nv, bounds, paths, constraints, problem, iterate)
            attempt += 1
            if mode == HELD:
                if bounds == COUPLED:
                    return reached, int(MOVED)
                if reached > enough:
                    return reached, int(CLOSER)
                bounds = int(COUPLED)
            else:
                if mode == SWEPT or (attempt < 3 and reached < scalar(ENOUGH) * square):
                    return reached, int(MOVED)
                # Half of the step, then back.
                tried = one - scalar(0.5) * scalar(attempt)
        return reached, int(STAYED)

    # Inline: a call copies the descriptions of all arrays, which for a small island took as long as to solve it.
    @wp.func(inline=True)
    def solve(
        world: int,
        count: int,
        nv: int,
        scale: scalar,
        first_square: scalar,
        iterations: int,
        tolerance: scalar,
        epsilon: scalar,
        paths: Paths,
        trees: TreeDofs,
        constraints: Constraints,
        couplings: Couplings,
        problem: Problem,
        system: System,
        iterate: Iterate,
    ):
        """Solve a world, or a part of it, from z, whose values, impulses and residual are those of ``iterate``.

        scale: what rounding scales with, see ``look_back``; first_square: of the residual; epsilon: the regularisation.

        Returns the largest velocity that is still missing, by the pivots of the last system [m/s or rad/s], and how many systems were solved.
        """
        # Without impulses there is nothing to solve, and of a state that isn't finite there is no solution.
        square = scalar(first_square)
        if square == zero or not wp.isfinite(square):
            return zero, int(0)
        at_hand = descent.square_at_hand(world, count, epsilon, constraints, problem, iterate)
        if square <= descent.goal(at_hand, scale, epsilon, tolerance):
            return zero, int(0)
        solved = int(0)
        failures = int(0)
        number = sweeps.first_number(count)
        mode = int(COUPLED)
        enough = zero
        in_round = int(0)
        rounds = int(0)
        converged = bool(False)
        sweeps_first = count > TANGLE and square > scalar(AFAR) * at_hand
        soft = bool(False)  # while the softer problem is solved
        softened = bool(False)  # from then on
        while solved < iterations and not converged:
            if sweeps_first:
                afresh = soft or not softened
                sweeps.resume(world, count, nv, failures == 0, afresh, number, paths, constraints, problem, iterate)
                sweeps.implied_values(world, count, paths, constraints, problem, iterate)
                failures += 1
                number = sweeps.next_number(number, count)
                mode = int(SWEPT)
                sweeps_first = bool(False)
            symmetric = f.assemble(
                world, count, nv, mode, trees, paths, constraints, couplings, problem, iterate, system
            )
            if mode == SWEPT:
                f.linear_residual(world, count, nv, paths, constraints, problem, iterate)
            found = descent.find_step(world, nv, symmetric, system, iterate)
            if mode == SWEPT and found and failures <= GUIDED:
                f.keep_impulses(world, count, paths, constraints, problem, iterate)
            solved += 1
            in_round += 1
            if in_round == ROUND:
                enough = scalar(wp.inf)
            square, outcome = take_step(
                world, count, nv, mode, found, enough, square, paths, constraints, problem, iterate
            )
            at_hand = descent.square_at_hand(world, count, epsilon, constraints, problem, iterate)
            goal = descent.goal(at_hand, scale, epsilon, tolerance)
            if mode == SWEPT and failures < PASSES and square > scalar(NEAR) * at_hand:
                outcome = int(FAR)
            harder = one
            if outcome == MOVED:
                mode = int(COUPLED)
                converged = square <= goal
            elif outcome == STAYED and descent.step_square(world, nv, problem, iterate) <= rounded * at_hand:
                converged = True  # what is left is rounding
            elif outcome != CLOSER and failures < PASSES:
                sweeps_first = bool(True)
            elif outcome != CLOSER and rounds == ROUNDS and not softened and solved < iterations - 1:
                soft = bool(True)
                softened = bool(True)
                harder = one / scalar(SOFTER)
            elif outcome != CLOSER:
                f.hold_normal_impulses(world, count, constraints, problem, iterate)
                enough = wp.max(scalar(ROUND_SHARE) * square, goal)
                in_round = 0
                rounds += 1
                mode = int(HELD)
            # The last system is that of the problem itself.
            if soft and harder == one and (converged or solved == iterations - 1):
                soft = bool(False)
                harder = scalar(SOFTER)
            if harder != one:
                sweeps.harden(world, count, harder, problem, iterate)
                converged = bool(False)
                sweeps_first = bool(True)
                failures = 0
                number = sweeps.first_number(count)
        left = descent.velocity_left(world, nv, system, iterate)
        if not converged:
            sweeps.resume(world, count, nv, failures == 0, not softened, number, paths, constraints, problem, iterate)
            sweeps.settle(world, count, paths, constraints, problem, iterate)
        return left, solved

    return SimpleNamespace(descent=descent, residual=f, solve=solve)


@functools.cache
def newton_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """The solver for one precision and friction model, one thread per world."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    f = solution_functions(scalar, friction)
    laws, products = law_functions(scalar, friction), product_functions(scalar)
    common, immovable = row_functions(scalar), immovable_functions(scalar)
    whitening = whitening_functions(scalar)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    module = kernel_module(f"newton.{friction}", scalar)
    # Unrolled loops over sides and attempts make the code twice as long, and no faster.
    wp.set_module_options({"max_unroll": 1}, module)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.kernel(module=module, enable_backward=False)
    def regularise(
        # Model
        threads: int,
        paths: Paths,
        least_inverse_mass: wp.array(dtype=scalar),
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        factor_d: wp.array2d(dtype=scalar),
        softness: wp.array2d(dtype=scalar),
        anchor_error: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Data out
        grip: wp.array2d(dtype=vec2),
        row: wp.array2d(dtype=vec3),
        rhs: wp.array2d(dtype=vec3),
        row_size: wp.array2d(dtype=vec2),
        anchor_frame: wp.array2d(dtype=mat33),
    ):
        """grip: 1 / R, with R = regularisation times the mean inverse mass of the rows, less for friction, or the softness of a spring if that is more.

        Of a softness below zero the opposite is the share that is left of R beyond its least. Zero where nothing moves.
        """
        thread, world = wp.tid()
        for i in range(thread, constraints.count[world], threads):
            kind = constraints.kind[i, world]
            epsilon = common.value_of(regularisation, world, 0)
            if is_unbounded(kind):
                moves = whitening.whiten(
                    i,
                    world,
                    epsilon,
                    paths,
                    least_inverse_mass,
                    constraints,
                    factor_d,
                    row,
                    anchor_error,
                    rhs,
                    row_size,
                    anchor_frame,
                )
                grip[i, world] = vec2(moves / epsilon, moves / epsilon)
                continue
            total = products.mobility_trace(i, world, paths, constraints, row, factor_d)
            least = epsilon * immovable.least_mobility(i, world, least_inverse_mass, constraints)
            hard = immovable.bounded(epsilon * total / laws.row_count(kind), least)
            shares = laws.softness_shares(kind)
            first = softness[i, world]
            if first < zero:
                first = shares[0] * (least - first * (hard - least))
                if hard <= zero:
                    first = zero
            elif not has_own_softness(kind):
                first = wp.max(first, shares[0] * hard)
            pair = vec2()
            if first > zero:
                pair[0] = one / first
            if hard > zero:
                pair[1] = one / (shares[1] * hard)
            grip[i, world] = pair

    @wp.kernel(module=module, enable_backward=False, cuda_max_registers=most_registers(scalar))
    def newton_solve(
        # Model
        paths: Paths,
        trees: TreeDofs,
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
        couplings: Couplings,
        stage: wp.array(dtype=int),
        # Data out
        problem: Problem,
        system: System,
        iterate: Iterate,
        residual: wp.array(dtype=scalar),
        sweep_count: wp.array(dtype=int),
    ):
        """residual: the largest velocity that is still missing, by the pivots of the last system [m/s or rad/s].

        problem: with other grips in between, and those that it had in the end. sweep_count: systems solved. stage: zero for worlds that
        are solved already (:mod:`warp_kernels.solver.newton.group.solve`); no rows where none is.
        """
        world = wp.tid()
        if stage.shape[0] > 0 and stage[world] == 0:
            return
        count = constraints.count[world]
        residual[world] = zero
        sweep_count[world] = 0
        if count == 0:
            return
        nv = paths.dof_depth.shape[0]
        scale = f.descent.look_back(
            0, nv, dt, qd, qdd, paths.dof_depth, paths.dof_row_start, paths.ancestor, factor_l, problem.inverse_mass,
            iterate.step, world,
        )  # fmt: skip
        square = f.descent.begin(world, count, nv, scale, paths, constraints, problem, iterate)
        left, solved = f.solve(
            world,
            count,
            nv,
            scale,
            square,
            iterations,
            tolerance,
            common.value_of(regularisation, world, 0),
            paths,
            trees,
            constraints,
            couplings,
            problem,
            system,
            iterate,
        )
        residual[world] = left
        sweep_count[world] = solved

    return SimpleNamespace(module=module, regularise=regularise, newton_solve=newton_solve)
