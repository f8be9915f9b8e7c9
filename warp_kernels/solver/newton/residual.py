"""Residual of an iterate, and the system of the next Newton step."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact, is_bounded_by_normal, is_contact
from warp_kernels.constraints.products import product_functions
from warp_kernels.solver.mujoco.laws import ALL_CONES, RESISTING, resisting_cone_functions
from warp_kernels.solver.newton.adjoint.smoothing import smoothing_functions
from warp_kernels.solver.newton.laws import law_functions
from warp_kernels.solver.newton.parts import elimination_functions, part_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.newton.system import system_functions
from warp_kernels.solver.structs import Constraints, Couplings, Paths, TreeDofs
from warp_kernels.types import warp_types

# Bounds of friction: from the normal impulses of the iterate, or from the stored ones. RECALLED: as COUPLED, with the
# row values of the previous step, from which its impulses follow.
COUPLED = 0
HELD = 1
RECALLED = 2


@functools.cache
def residual_functions(scalar: Any, friction: str, smoothed: bool = False, divided: bool = False) -> SimpleNamespace:
    """Return the Warp functions for one precision and friction model, with exact or ``smoothed`` laws, of whole worlds
    or of parts.
    """
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    laws = law_functions(scalar, friction)
    smoothing = smoothing_functions(scalar, friction)
    linear = system_functions(scalar, divided)
    elimination = elimination_functions(scalar, divided)
    parts = part_functions(scalar, divided)
    products = product_functions(scalar)
    structs = newton_structs(scalar)
    Problem, Iterate, System = structs.Problem, structs.Iterate, structs.System
    # Friction follows the normal impulse; under MuJoCo's law both depend on their values together.
    coupled = friction not in ALL_CONES
    # A contact and its TORSION have one joint law.
    paired = friction == RESISTING
    cone = resisting_cone_functions(scalar)
    zero = scalar(0.0)

    @wp.func
    def normal_impulse(contact: int, world: int, mode: int, problem: Problem, iterate: Iterate):
        """Return the normal impulse that bounds a contact's friction."""
        if mode == HELD:
            return iterate.held[contact, world]
        return wp.max(zero, -problem.row_stiffness[contact, world][0] * iterate.value[contact, world][0])

    @wp.func
    def is_paired(kind: int, item: int, world: int, problem: Problem):
        """Return whether a constraint is a contact with a TORSION, whose law covers both."""
        if not is_contact(kind):
            return False
        resistance = problem.resistance[item, world]
        return resistance[0] > zero or resistance[1] > zero

    @wp.func
    def coefficients(contact: int, world: int, problem: Problem):
        """Return the coefficients of sliding, spinning and rolling friction. A contact is its own slot."""
        resistance = problem.resistance[contact, world]
        return vec3(problem.bound[contact, world], resistance[0], resistance[1])

    @wp.func
    def pair_impulses(constraint: int, contact: int, world: int, problem: Problem, iterate: Iterate):
        """Return the impulses of a contact and of its TORSION, see :mod:`warp_kernels.solver.mujoco.laws`."""
        return cone.impulse_at(
            iterate.value[contact, world],
            iterate.value[constraint, world],
            problem.row_stiffness[contact, world],
            coefficients(contact, world, problem),
        )

    @wp.func
    def pair_slopes(constraint: int, contact: int, world: int, problem: Problem, iterate: Iterate):
        """Compute the slopes of a TORSION and its contact, see :mod:`warp_kernels.solver.mujoco.laws`."""
        return cone.slopes(
            iterate.value[contact, world],
            iterate.value[constraint, world],
            problem.row_stiffness[contact, world],
            coefficients(contact, world, problem),
        )

    @wp.func
    def bound_rates(constraint: int, kind: int, item: int, world: int, problem: Problem):
        """Return the factors of a constraint's bounds: friction coefficients, or the bound itself. A contact is its own
        slot.
        """
        if follows_contact(kind):
            return problem.resistance[item, world]
        return vec2(problem.bound[constraint, world], zero)

    @wp.func
    def impulse_bounds(
        constraint: int, kind: int, item: int, world: int, mode: int, problem: Problem, iterate: Iterate
    ):
        """Return the bounds of a constraint's impulses, see :func:`warp_kernels.solver.newton.laws.law_functions`."""
        bounds = bound_rates(constraint, kind, item, world, problem)
        if wp.static(coupled) and is_bounded_by_normal(kind):
            bounds = bounds * normal_impulse(item, world, mode, problem, iterate)
        return bounds

    @wp.func
    def residual_square(world: int, nv: int, problem: Problem, iterate: Iterate):
        """Return twice the kinetic energy of the residual's momenta."""
        square = zero
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            square += iterate.residual[k, world] * iterate.residual[k, world] * problem.inverse_mass[k, world]
        return square

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
        """Compute row values, impulses and residual at z. Return :func:`residual_square`."""
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            moved = iterate.z[k, world] + iterate.z_before[k, world]
            iterate.residual[k, world] = moved / problem.inverse_mass[k, world]
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            change = products.row_product(i, world, paths, constraints, problem.row, iterate.z)
            value = problem.value_before[i, world] + change
            if wp.static(coupled) and mode == RECALLED:
                value[0] = value[0] - problem.bias_change[i, world]
            iterate.value[i, world] = value
            kind = constraints.kind[i, world]
            if wp.static(paired):
                contact = constraints.item[i, world]
                if is_paired(kind, contact, world, problem):
                    continue
                if follows_contact(kind):
                    own, other = pair_impulses(i, contact, world, problem, iterate)
                    iterate.impulse[contact, world] = own
                    iterate.impulse[i, world] = other
                    if own[0] > zero:
                        products.add_push(contact, -own, world, paths, constraints, problem.row, iterate.residual)
                        products.add_push(i, -other, world, paths, constraints, problem.row, iterate.residual)
                    continue
            bounds = impulse_bounds(i, kind, constraints.item[i, world], world, mode, problem, iterate)
            impulse = laws.impulse_at(kind, value, problem.row_stiffness[i, world], bounds)
            iterate.impulse[i, world] = impulse
            if wp.dot(impulse, impulse) > zero:
                products.add_push(i, -impulse, world, paths, constraints, problem.row, iterate.residual)
        return residual_square(world, nv, problem, iterate)

    @wp.func
    def slope(constraint: int, kind: int, world: int, bounds: vec2, problem: Problem, iterate: Iterate):
        """Return the slope of the exact or smoothed law."""
        value = iterate.value[constraint, world]
        stiffness = problem.row_stiffness[constraint, world]
        if wp.static(smoothed):
            mass = problem.row_inverse_mass[constraint, world]
            held = problem.held_share[constraint, world]
            return smoothing.slope(kind, value, stiffness, bounds, held, mass, problem.smoothing_velocity)
        else:
            return laws.slope(kind, value, stiffness, bounds)

    @wp.func
    def bound_slope(
        constraint: int, kind: int, world: int, bounds: vec2, share: vec2, problem: Problem, iterate: Iterate
    ):
        """Return the slope of the exact or smoothed law with respect to the bounds' quantity."""
        value = iterate.value[constraint, world]
        stiffness = problem.row_stiffness[constraint, world]
        if wp.static(smoothed):
            mass = problem.row_inverse_mass[constraint, world]
            return smoothing.bound_slope(kind, value, stiffness, bounds, share, mass, problem.smoothing_velocity)
        else:
            return laws.bound_slope(kind, value, stiffness, bounds, share)

    @wp.func
    def friction_slope(
        constraint: int,
        kind: int,
        item: int,
        world: int,
        mode: int,
        bounds: vec2,
        problem: Problem,
        iterate: Iterate,
    ):
        """Return the derivative of a constraint's impulses with respect to the normal value of its contact.

        Nonzero only if friction slides and follows the normal impulse: then its bounds are positive.
        """
        if not wp.static(coupled) or mode == HELD:
            return vec3()
        if not is_bounded_by_normal(kind) or not (bounds[0] > zero or bounds[1] > zero):
            return vec3()
        rates = bound_rates(constraint, kind, item, world, problem)
        follows = bound_slope(constraint, kind, world, bounds, rates, problem, iterate)
        return follows * -problem.row_stiffness[item, world][0]

    @wp.func
    def slopes(constraint: int, kind: int, item: int, world: int, mode: int, problem: Problem, iterate: Iterate):
        """Return the derivatives of a constraint's impulses: with respect to its values, and :func:`friction_slope`.

        For a contact the first includes the second.
        """
        bounds = impulse_bounds(constraint, kind, item, world, mode, problem, iterate)
        result = slope(constraint, kind, world, bounds, problem, iterate)
        follows = friction_slope(constraint, kind, item, world, mode, bounds, problem, iterate)
        if wp.static(coupled) and is_contact(kind):
            result[1, 0] = follows[1]
            result[2, 0] = follows[2]
        return result, follows

    @wp.func
    def mark_active(
        world: int,
        count: int,
        mode: int,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
        system: System,
    ):
        """Mark the constraints whose impulses change with their values. Return whether no friction follows a normal
        impulse.
        """
        symmetric = bool(True)
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            kind = constraints.kind[i, world]
            if wp.static(paired):
                contact = constraints.item[i, world]
                if follows_contact(kind):
                    first, _mixed, _other = pair_slopes(i, contact, world, problem, iterate)
                    system.active[i, world] = 0
                    if wp.ddot(first, first) > zero:
                        system.active[i, world] = 1
                    system.active[contact, world] = system.active[i, world]
                    continue
            own, follows = slopes(i, kind, constraints.item[i, world], world, mode, problem, iterate)
            coupled = wp.dot(follows, follows) > zero
            system.active[i, world] = 0
            if coupled or wp.ddot(own, own) > zero:
                system.active[i, world] = 1
            if coupled:
                symmetric = False
        return symmetric

    @wp.func
    def assemble(
        world: int,
        count: int,
        nv: int,
        mode: int,
        trees: TreeDofs,
        paths: Paths,
        constraints: Constraints,
        couplings: Couplings,
        problem: Problem,
        iterate: Iterate,
        system: System,
    ):
        """Assemble the derivative of the residual with respect to z. Return whether it is symmetric."""
        symmetric = mark_active(world, count, mode, constraints, problem, iterate, system)
        elimination.permute(world, trees, constraints, couplings, iterate, system)
        linear.outline(world, count, nv, paths, constraints, iterate, system)
        linear.clear(world, nv, symmetric, problem.inverse_mass, iterate, system)
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            if system.active[i, world] == 0:
                continue
            kind = constraints.kind[i, world]
            item = constraints.item[i, world]
            if wp.static(paired):
                if is_paired(kind, item, world, problem):
                    continue
                if follows_contact(kind):
                    first, mixed, other = pair_slopes(i, item, world, problem, iterate)
                    linear.add_product(world, item, item, first, symmetric, paths, constraints, problem.row, system)
                    linear.add_product(world, i, i, other, symmetric, paths, constraints, problem.row, system)
                    linear.add_product(world, item, i, mixed, symmetric, paths, constraints, problem.row, system)
                    mixed = wp.transpose(mixed)
                    linear.add_product(world, i, item, mixed, symmetric, paths, constraints, problem.row, system)
                    continue
            own, follows = slopes(i, kind, item, world, mode, problem, iterate)
            if wp.ddot(own, own) > zero:
                linear.add_product(world, i, i, own, symmetric, paths, constraints, problem.row, system)
            if follows_contact(kind) and wp.dot(follows, follows) > zero:
                own = mat33(follows[0], zero, zero, follows[1], zero, zero, follows[2], zero, zero)
                linear.add_product(world, i, item, own, symmetric, paths, constraints, problem.row, system)
        return symmetric

    @wp.func
    def linear_impulse(i: int, world: int, constraints: Constraints, problem: Problem, iterate: Iterate):
        """Return a constraint's impulse linearised at its values, ``slip`` away from there."""
        kind = constraints.kind[i, world]
        item = constraints.item[i, world]
        bounds = impulse_bounds(i, kind, item, world, COUPLED, problem, iterate)
        impulse = laws.impulse_at(kind, iterate.value[i, world], problem.row_stiffness[i, world], bounds)
        slope, follows = slopes(i, kind, item, world, COUPLED, problem, iterate)
        impulse += slope * iterate.slip[i, world]
        if follows_contact(kind):
            impulse += follows * iterate.slip[item, world][0]
        return impulse

    @wp.func
    def linear_residual(
        world: int, count: int, nv: int, paths: Paths, constraints: Constraints, problem: Problem, iterate: Iterate
    ):
        """Compute the residual at z with impulses linearised at the current values, which need not be those at z."""
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            moved = iterate.z[k, world] + iterate.z_before[k, world]
            iterate.residual[k, world] = moved / problem.inverse_mass[k, world]
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            change = products.row_product(i, world, paths, constraints, problem.row, iterate.z)
            value = problem.value_before[i, world] + change
            iterate.slip[i, world] = value - iterate.value[i, world]
            impulse = linear_impulse(i, world, constraints, problem, iterate)
            products.add_push(i, -impulse, world, paths, constraints, problem.row, iterate.residual)

    @wp.func
    def keep_impulses(
        world: int, count: int, paths: Paths, constraints: Constraints, problem: Problem, iterate: Iterate
    ):
        """Set the impulses of the sweeps to the linearised ones at the end of the step, for sweeps that continue from there."""
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            iterate.slip[i, world] += products.row_product(i, world, paths, constraints, problem.row, iterate.step)
            iterate.sweep_impulse[i, world] = linear_impulse(i, world, constraints, problem, iterate)

    @wp.func
    def hold_normal_impulse(i: int, world: int, constraints: Constraints, problem: Problem, iterate: Iterate):
        """Store a contact's normal impulse as the bound of its friction."""
        if is_contact(constraints.kind[i, world]):
            iterate.held[i, world] = normal_impulse(i, world, COUPLED, problem, iterate)

    return SimpleNamespace(
        laws=laws,
        linear=linear,
        products=products,
        parts=parts,
        impulse_bounds=impulse_bounds,
        slopes=slopes,
        bound_slope=bound_slope,
        normal_impulse=normal_impulse,
        coupled=coupled,
        paired=paired,
        cone=cone,
        is_paired=is_paired,
        coefficients=coefficients,
        pair_impulses=pair_impulses,
        pair_slopes=pair_slopes,
        residual_square=residual_square,
        find_residual=find_residual,
        assemble=assemble,
        linear_impulse=linear_impulse,
        linear_residual=linear_residual,
        keep_impulses=keep_impulses,
        hold_normal_impulse=hold_normal_impulse,
    )
