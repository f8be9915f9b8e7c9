"""Shared by all solvers: initial guess, search direction, line search, stopping criterion.

See :mod:`warp_kernels.solver.newton.solve` for the equations.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact, is_contact
from warp_kernels.constraints.shared import row_functions
from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.constants import (
    MOMENTUM_SUMS,
    PIVOT_ROUNDINGS,
    SEARCHES,
    SLIDES_FROM,
    SLOPE,
    SUMS,
    rounding,
)
from warp_kernels.solver.newton.residual import COUPLED, HELD, RECALLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import LEAST_INVERSE, warp_types

# The attempt at an initial guess that takes the velocity without impulses.
FREE_GUESS = 2


@functools.cache
def descent_functions(scalar: Any, friction: str, divided: bool = False) -> SimpleNamespace:
    """Return the Warp functions for one precision and friction model, of whole worlds or of parts."""
    f = residual_functions(scalar, friction, divided=divided)
    parts = f.parts
    laws, linear, products = f.laws, f.linear, f.products
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    common, vec2 = row_functions(scalar), warp_types(scalar).vec2
    zero = scalar(0.0)
    precision = scalar(rounding(scalar))
    singular = scalar(PIVOT_ROUNDINGS * rounding(scalar))
    sums = scalar(SUMS[scalar])

    @wp.func
    def find_step(world: int, nv: int, symmetric: bool, system: System, iterate: Iterate):
        """Factor the system and find the step (search direction). Return whether there is one."""
        begin = parts.first_index(world, iterate)
        least = linear.factorise(world, begin, nv, symmetric, system)
        if not least > singular:
            return False
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            iterate.work[system.permutation[k, world], world] = -iterate.residual[k, world]
        linear.solve(begin, nv, system, iterate.work, world)
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            iterate.step[k, world] = iterate.work[system.permutation[k, world], world]
        return True

    @wp.func
    def move(world: int, nv: int, length: scalar, iterate: Iterate):
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            iterate.z[k, world] += length * iterate.step[k, world]

    @wp.func
    def step_square(world: int, nv: int, problem: Problem, iterate: Iterate):
        """Return twice the kinetic energy of the step."""
        square = zero
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            square += iterate.step[k, world] * iterate.step[k, world] / problem.inverse_mass[k, world]
        return square

    @wp.func
    def velocity_left(world: int, nv: int, system: System, iterate: Iterate):
        """Return the largest velocity that the pivots of the last system make of the residual."""
        largest = zero
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            largest = wp.max(
                largest,
                wp.abs(iterate.residual[k, world])
                * wp.abs(linear.inverse_pivot(world, system.permutation[k, world], system)),
            )
        return largest

    @wp.func
    def slope_of(i: int, length: scalar, world: int, constraints: Constraints, problem: Problem, iterate: Iterate):
        """Return the share of a constraint in the derivative of the convex function along the step, at a step
        length.
        """
        kind = constraints.kind[i, world]
        if wp.static(f.paired):
            contact = constraints.item[i, world]
            if f.is_paired(kind, contact, world, problem):
                return zero
            if follows_contact(kind):
                own, other = f.cone.impulse_at(
                    iterate.value[contact, world] + length * iterate.slip[contact, world],
                    iterate.value[i, world] + length * iterate.slip[i, world],
                    problem.row_stiffness[contact, world],
                    f.coefficients(contact, world, problem),
                )
                return wp.dot(own, iterate.slip[contact, world]) + wp.dot(other, iterate.slip[i, world])
        bounds = f.impulse_bounds(i, kind, constraints.item[i, world], world, HELD, problem, iterate)
        value = iterate.value[i, world] + length * iterate.slip[i, world]
        return wp.dot(laws.impulse_at(kind, value, problem.row_stiffness[i, world], bounds), iterate.slip[i, world])

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
        """Return the derivative of the convex function along the step, at a step length; that of kinetic energy grows
        from its initial value.
        """
        total = begins + length * grows
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            total -= slope_of(i, length, world, constraints, problem, iterate)
        return total

    convex_length = line_search(scalar, slope_along)

    @wp.func
    def exact_length(
        world: int,
        count: int,
        nv: int,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        """Return the step length that minimises the convex function, from the step alone."""
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            iterate.slip[i, world] = products.row_product(i, world, paths, constraints, problem.row, iterate.step)
        begins = zero
        grows = zero
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            push = iterate.step[k, world] / problem.inverse_mass[k, world]
            begins += push * (iterate.z[k, world] + iterate.z_before[k, world])
            grows += push * iterate.step[k, world]
        return convex_length(world, count, begins, grows, constraints, problem, iterate)

    @Native(scalar, 1, "newton").func_native()
    def initial_guess(
        begin: int,
        end: int,
        dt: scalar,
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        paths: Paths,
        factor_l: wp.array2d(dtype=scalar),
        inverse_mass: wp.array2d(dtype=scalar),
        z_before: wp.array2d(dtype=scalar),
        world: int,
    ) -> scalar:
        """Compute ``z_before`` of some degrees of freedom.

        Return the scale of rounding: twice the kinetic energy of the velocity before the time step and of its change
        without impulses.
        """

    @wp.func
    def magnitude_of(i: int, world: int, constraints: Constraints, problem: Problem, iterate: Iterate):
        """Return the shares of a constraint in :func:`magnitudes`, apart from epsilon."""
        kind = constraints.kind[i, world]
        shares = laws.compliance_shares(kind)
        value = iterate.value[i, world]
        size = wp.cw_div(problem.size[i, world], shares)
        rounded = sums * problem.size_before[i, world]
        rounded = wp.cw_div(rounded + common.sizes(problem.value_before[i, world]) + common.sizes(value), shares)
        impulse = iterate.impulse[i, world]
        square = vec2()
        if impulse[0] != zero or wp.abs(value[0]) <= precision * rounded[0]:
            square = vec2(size[0] * size[0], rounded[0] * rounded[0])
            others = impulse[1] * impulse[1] + impulse[2] * impulse[2]
            bound = scalar(SLIDES_FROM) * problem.bound[i, world] * impulse[0]
            if not is_contact(kind) or others < bound * bound:
                square += vec2(size[1] * size[1], rounded[1] * rounded[1])
        return square * laws.tangent_stiffness(kind, problem.row_stiffness[i, world], problem.bound[i, world])

    @wp.func
    def magnitudes(
        world: int, count: int, epsilon: scalar, constraints: Constraints, problem: Problem, iterate: Iterate
    ):
        """Return sums over active rows in the kinetic energy norm: the magnitude, of the squares of the terms of their
        velocities at v*, and that of the squares of what ``precision`` is multiplied by in the rounding of their values
        at z.

        The norm is W = 1 / (epsilon stiffness). An error of a row value changes its impulse by 1 / (epsilon W) times as
        much. Sliding friction depends on its bound instead.
        """
        total = vec2()
        for n in range(count):
            total += magnitude_of(parts.constraint_of(n, world, iterate), world, constraints, problem, iterate)
        return epsilon * total

    @wp.func
    def guess_of(k: int, world: int, attempt: int, problem: Problem, iterate: Iterate):
        """Return z of a degree of freedom for an initial guess, see :func:`initial_guesses`."""
        is_prescribed = problem.inverse_mass[k, world] <= scalar(LEAST_INVERSE)
        return wp.where(attempt == FREE_GUESS or is_prescribed, -iterate.z_before[k, world], zero)

    @wp.func
    def goal(rounded: scalar, scale: scalar, epsilon: scalar, tolerance: scalar):
        """Return the square of a converged residual: the tolerance, or rounding.

        rounded: of the values that the residual is computed from, see :func:`magnitudes`; scale: see
        :func:`initial_guess`; epsilon: the regularisation.
        """
        relative = wp.max(tolerance, scalar(MOMENTUM_SUMS) * precision)
        rounding = precision / epsilon
        return relative * relative * scale + rounding * rounding * rounded

    @wp.func
    def pushes(world: int, count: int, iterate: Iterate):
        """Return whether any constraint has an impulse."""
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            if wp.dot(iterate.impulse[i, world], iterate.impulse[i, world]) > zero:
                return True
        return False

    @wp.func
    def set_guess(world: int, nv: int, attempt: int, problem: Problem, iterate: Iterate):
        """Set z to an initial guess, see :func:`initial_guesses`."""
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            iterate.z[k, world] = guess_of(k, world, attempt, problem, iterate)

    @wp.func
    def free_share(k: int, world: int, problem: Problem, iterate: Iterate):
        """Return the share of a degree of freedom in :func:`free_square`."""
        inverse = problem.inverse_mass[k, world]
        if inverse > scalar(LEAST_INVERSE):
            return iterate.z_before[k, world] * iterate.z_before[k, world] / inverse
        return zero

    @wp.func
    def free_square(world: int, nv: int, problem: Problem, iterate: Iterate):
        """Return twice the kinetic energy of the change of velocity without impulses: the square of the residual at the
        velocity before the step without impulses.
        """
        square = zero
        for n in range(nv):
            square += free_share(parts.dof_of(n, world, iterate), world, problem, iterate)
        return square

    begin = initial_guesses(scalar, f.coupled, set_guess, f.find_residual, pushes)

    return SimpleNamespace(
        singular=singular,
        find_step=find_step,
        move=move,
        step_square=step_square,
        velocity_left=velocity_left,
        exact_length=exact_length,
        initial_guess=initial_guess,
        guess_of=guess_of,
        pushes=pushes,
        slope_of=slope_of,
        magnitude_of=magnitude_of,
        magnitudes=magnitudes,
        goal=goal,
        free_share=free_share,
        free_square=free_square,
        begin=begin,
    )


def line_search(scalar: Any, slope_along: wp.Function) -> wp.Function:
    """Return the Warp function of the line search for one precision.

    Args:
        scalar: precision.
        slope_along: derivative of the convex function, see :func:`descent_functions`.
    """
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def convex_length(
        world: int,
        count: int,
        begins: scalar,
        grows: scalar,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        """Return the step length that minimises the convex function: between bounds that close by secants and
        bisection.

        Secants go through both bounds, or through the last two upper ones: at a kink to a steep slope the former hardly
        move, and the latter both lie beyond it. The search ends beyond it too, or the next step would end before it
        again.
        """
        low = zero
        low_slope = slope_along(world, count, begins, grows, zero, constraints, problem, iterate)
        high = one
        high_slope = slope_along(world, count, begins, grows, one, constraints, problem, iterate)
        goal = scalar(SLOPE) * wp.abs(low_slope)
        if wp.abs(high_slope) <= goal or high_slope < zero or low_slope >= zero:
            return one
        higher = low
        higher_slope = low_slope
        for search in range(SEARCHES):
            length = low - low_slope * (high - low) / (high_slope - low_slope)
            if search % 3 == 1:
                length = high - high_slope * (higher - high) / (higher_slope - high_slope)
            if search % 3 == 2 or not (length > low and length < high):
                length = scalar(0.5) * (low + high)
            slope = slope_along(world, count, begins, grows, length, constraints, problem, iterate)
            if wp.abs(slope) <= goal:
                return length
            if slope < zero:
                low = length
                low_slope = slope
            else:
                higher = high
                higher_slope = high_slope
                high = length
                high_slope = slope
        return high

    return convex_length


def initial_guesses(
    scalar: Any, coupled: bool, set_guess: wp.Function, find_residual: wp.Function, pushes: wp.Function
) -> wp.Function:
    """Return the Warp function that begins a solution, for one precision.

    Args:
        scalar: precision.
        coupled: whether friction follows normal impulses.
        set_guess: sets z to that without impulses, if the attempt is FREE_GUESS, or to that of the velocity before the
            step.
        find_residual: see :mod:`warp_kernels.solver.newton.residual`.
        pushes: whether there are impulses.
    """
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    zero = scalar(0.0)

    @wp.func
    def begin(
        world: int,
        count: int,
        nv: int,
        scale: scalar,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        """Set z to an initial guess: zero, or the z without impulses, which prescribed joints keep. Return the square of
        its residual, and whether its impulses are those of the previous step.

        If the previous step is recalled and had impulses, z is zero, with these impulses. Otherwise z is the better one
        of both. Bodies at rest start with their velocity, which is tried first: if impulses balance it to within the
        momenta of ``scale``, the velocity without impulses is not tried.
        """
        square = zero
        recalls = bool(False)
        if wp.static(coupled):
            recalls = problem.bias_change.shape[0] > 0
        # One call in a loop that isn't unrolled: a GPU's compiler repeats a function's code wherever it is called.
        attempt = wp.where(recalls, 0, 1)
        while attempt < 4:
            set_guess(world, nv, attempt, problem, iterate)
            mode = wp.where(attempt == 0, RECALLED, COUPLED)
            reached = find_residual(world, count, nv, mode, paths, constraints, problem, iterate)
            if attempt == FREE_GUESS:
                if reached <= square:
                    return reached, False
            else:
                square = reached
                accepted = attempt == 0 or (attempt == 1 and square <= scale)
                if accepted and pushes(world, count, iterate):
                    return square, attempt == 0
            attempt += 1
        return square, False

    return begin
