"""Adjoints of the constraint laws in their parameters other than row values: bounds, springs and the regularisation."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.constraints.kinds import follows_contact, has_own_compliance, is_bounded_by_normal, is_unbounded
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.mujoco.laws import resisting_cone_functions
from warp_kernels.solver.newton.adjoint.smoothing import smoothing_functions
from warp_kernels.solver.newton.residual import COUPLED, residual_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.newton.whitening import whitening_functions
from warp_kernels.solver.structs import Constraints, solver_structs
from warp_kernels.types import warp_types


@functools.cache
def law_adjoint_functions(scalar: Any, friction: str, smoothed: bool = False) -> SimpleNamespace:
    """Return the Warp functions for one precision and friction model, with exact or ``smoothed`` laws."""
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    f = residual_functions(scalar, friction, smoothed)
    laws = f.laws
    smoothing, cone = smoothing_functions(scalar, friction), resisting_cone_functions(scalar)
    common, immovable = row_functions(scalar), immovable_functions(scalar)
    whitening = whitening_functions(scalar)
    structs = newton_structs(scalar)
    Problem, Iterate, Equalities = structs.Problem, structs.Iterate, solver_structs(scalar).Equalities
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def bound_adjoint(
        constraint: int, kind: int, item: int, world: int, s: vec3, bounds: vec2, problem: Problem, iterate: Iterate
    ):
        """Return the adjoint of the friction coefficient, of both of TORSION, or of the bound."""
        size = one
        if wp.static(f.coupled) and is_bounded_by_normal(kind):
            size = f.normal_impulse(item, world, COUPLED, problem, iterate)
        first = f.bound_slope(constraint, kind, world, bounds, vec2(size, zero), problem, iterate)
        second = f.bound_slope(constraint, kind, world, bounds, vec2(zero, size), problem, iterate)
        return vec2(wp.dot(first, s), wp.dot(second, s))

    @wp.func
    def common_resistance_adjoint(constraint: int, world: int, value: vec3, value_bar: vec3, problem: Problem):
        """Return the adjoint of an R common to all rows, of impulses that are homogeneous in the values."""
        return -problem.row_stiffness[constraint, world][0] * wp.dot(value_bar, value)

    @wp.func
    def resistance_adjoint(
        constraint: int,
        kind: int,
        world: int,
        value: vec3,
        value_bar: vec3,
        bounds: vec2,
        regularisation: wp.array2d(dtype=scalar),
        constraints: Constraints,
        problem: Problem,
        compliance: wp.array2d(dtype=scalar),
    ):
        """Return the adjoints of R: of the compliance, of the regularisation's share of the effective inverse masses,
        and of the lower bound of those.

        Impulses within their bounds are -r / R: the adjoint of r determines that of R.
        """
        stiffness = problem.row_stiffness[constraint, world]
        first = -stiffness[0] * value_bar[0] * value[0]
        others = -stiffness[1] * (value_bar[1] * value[1] + value_bar[2] * value[2])
        if wp.static(smoothed):
            held = smoothing.held_rows(kind, value, stiffness, bounds)
            first = first * held[0]
            others = others * held[1]
        shares = laws.compliance_shares(kind)
        share = -compliance[constraint, world]
        if share > zero and stiffness[1] > zero:
            least = immovable.least_mobility(constraint, world, problem.least_inverse_mass, constraints)
            least *= common.value_of(regularisation, world, 0)
            hard = one / (shares[1] * stiffness[1])
            first *= shares[0]
            return vec3(first * (least - hard), share * first + shares[1] * others, (one - share) * first)
        if has_own_compliance(kind) or compliance[constraint, world] * stiffness[0] > one - scalar(1.0e-6):
            return vec3(first, shares[1] * others, zero)
        return vec3(zero, shares[0] * first + shares[1] * others, zero)

    @wp.func
    def mobility_adjoint(
        constraint: int,
        kind: int,
        world: int,
        resistance_bar: vec3,
        regularisation: wp.array2d(dtype=scalar),
        constraints: Constraints,
        problem: Problem,
        regularisation_bar: wp.array2d(dtype=scalar),
    ):
        """Propagate the adjoints of R to that of the squares of the rows; add to that of the regularisation."""
        stiffness = problem.row_stiffness[constraint, world][1]
        if not stiffness > zero:
            return zero
        # 1 / stiffness is R unless a spring is softer: a share of epsilon times W.
        epsilon = common.value_of(regularisation, world, 0)
        mobility = one / (stiffness * laws.compliance_shares(kind)[1] * epsilon)
        hard_bar = resistance_bar[1]
        least = immovable.least_mobility(constraint, world, problem.least_inverse_mass, constraints)
        common.add_at(regularisation_bar, world, 0, hard_bar * mobility + resistance_bar[2] * least)
        if immovable.is_least(mobility, constraint, world, problem.least_inverse_mass, constraints):
            return zero
        return epsilon * hard_bar / laws.row_count(kind)

    @wp.func
    def block_adjoint(
        constraint: int,
        kind: int,
        world: int,
        value: vec3,
        value_bar: vec3,
        resistance_bar: vec3,
        regularisation: wp.array2d(dtype=scalar),
        constraints: Constraints,
        problem: Problem,
        equalities: Equalities,
        equalities_bar: Equalities,
        regularisation_bar: wp.array2d(dtype=scalar),
    ):
        """Return the adjoint of the effective inverse masses of a constraint's rows, which determine R; add to that of
        the regularisation.
        """
        if is_unbounded(kind):
            return whitening.inverse_mass_adjoint(
                constraint, world, value, value_bar, problem.row_stiffness[constraint, world], regularisation,
                problem.least_inverse_mass, constraints, equalities, equalities_bar, regularisation_bar,
            )  # fmt: skip
        mean = mobility_adjoint(
            constraint, kind, world, resistance_bar, regularisation, constraints, problem, regularisation_bar
        )
        return mean * wp.identity(n=3, dtype=scalar)

    @wp.func
    def pair_adjoint(
        constraint: int,
        kind: int,
        item: int,
        world: int,
        problem: Problem,
        iterate: Iterate,
        rhs_bar: wp.array2d(dtype=vec3),
        bound_bar: wp.array2d(dtype=scalar),
        compliance_bar: wp.array2d(dtype=scalar),
        contact_resistance_bar: wp.array2d(dtype=vec2),
    ):
        """Compute the adjoints of bounds and compliance of a contact and its TORSION, solved as a pair."""
        # The impulses are homogeneous in the values of both, whose R have one factor.
        value = iterate.value[constraint, world]
        compliance_bar[constraint, world] = common_resistance_adjoint(
            constraint, world, value, rhs_bar[constraint, world], problem
        )
        if follows_contact(kind):
            bound_bar[constraint, world] = zero
            found = cone.coefficient_bars(
                iterate.value[item, world],
                value,
                problem.row_stiffness[item, world],
                f.coefficients(item, world, problem),
                iterate.slip[item, world],
                iterate.slip[constraint, world],
            )
            bound_bar[item, world] = found[0]
            contact_resistance_bar[item, world] += vec2(found[1], found[2])

    return SimpleNamespace(
        bound_adjoint=bound_adjoint,
        pair_adjoint=pair_adjoint,
        common_resistance_adjoint=common_resistance_adjoint,
        resistance_adjoint=resistance_adjoint,
        mobility_adjoint=mobility_adjoint,
        block_adjoint=block_adjoint,
    )
