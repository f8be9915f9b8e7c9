"""Gauss-Seidel sweeps over the regularised problem, which find the sticking and sliding constraints far from the
solution.

They update impulses, and z with them. The Newton step after the first pass provides new impulses to continue from,
which saves most of the sweeps (projected Gauss-Seidel with subspace minimisation: Silcowitz, Niebe and Erleben 2010).
Between sweeps the impulses move along conjugate directions, which saves half of the others (*A nonsmooth nonlinear
conjugate gradient method for interactive contact force problems*, by the same, 2010). An impulse says more about a
constraint than its row value: near the solution the values are the impulses times a small R. So the Newton step starts
from the row values whose constraint law gives these impulses.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact, is_bounded_by_normal, is_in_interval, is_one_sided
from warp_kernels.constraints.products import product_functions
from warp_kernels.cpu.native import Native
from warp_kernels.solver.newton.constants import EVERY, SLIDES_FROM
from warp_kernels.solver.newton.parts import part_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.projection import friction_projection_functions
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import warp_types


@functools.cache
def sweep_functions(scalar: Any, friction: str, divided: bool = False) -> SimpleNamespace:
    """Return the Warp functions of the sweeps for one precision and friction model, of whole worlds or of parts."""
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    f = friction_projection_functions(scalar, friction)
    products = product_functions(scalar)
    parts = part_functions(scalar, divided)
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    native = Native(scalar, 1, "newton")
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def compliance_of(stiffness: vec2):
        """Return R of the first row and of the others; zero for immovable rows."""
        first = zero
        others = zero
        if stiffness[0] > zero:
            first = scalar(1.0) / stiffness[0]
        if stiffness[1] > zero:
            others = scalar(1.0) / stiffness[1]
        return vec2(first, others)

    @wp.func
    def yielding(compliance: vec2, impulse: vec3):
        """Return R times the impulse."""
        return vec3(compliance[0] * impulse[0], compliance[1] * impulse[1], compliance[1] * impulse[2])

    @wp.func
    def torsion_bounds(contact: int, world: int, problem: Problem, iterate: Iterate):
        """Return the bounds on spinning and rolling friction of a contact, for its normal impulse in the sweeps."""
        return problem.resistance[contact, world] * iterate.sweep_impulse[contact, world][0]

    @wp.func
    def start(
        world: int,
        count: int,
        afresh: bool,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        """Initialise what all sweeps need of the constraints: ``afresh`` with the impulses of a warm start or zero,
        else with those of the sweeps.
        """
        warm = problem.start.shape[0] > 0
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            if afresh:
                iterate.sweep_impulse[i, world] = vec3()
                if warm:
                    iterate.sweep_impulse[i, world] = problem.start[i, world]
            compliance = compliance_of(problem.row_stiffness[i, world])
            block = wp.diag(vec3(compliance[0], compliance[1], compliance[1]))
            block += products.diagonal_block(i, world, paths, constraints, problem.row, problem.inverse_mass)
            iterate.block[i, world] = block
            iterate.row_compliance[i, world] = compliance
            iterate.step_length[i, world] = f.step_lengths(block)

    @wp.func
    def recall(world: int, count: int, problem: Problem, iterate: Iterate):
        """Set the impulses of the sweeps to those of a warm start, or of the iterate."""
        warm = problem.start.shape[0] > 0
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            iterate.sweep_impulse[i, world] = iterate.impulse[i, world]
            if warm:
                iterate.sweep_impulse[i, world] = problem.start[i, world]

    @wp.func
    def harden(i: int, world: int, factor: scalar, problem: Problem, iterate: Iterate):
        """Multiply a constraint's R by 1 / ``factor``. Its impulse in the sweeps becomes that of the iterate."""
        problem.row_stiffness[i, world] = problem.row_stiffness[i, world] * factor
        iterate.sweep_impulse[i, world] = iterate.impulse[i, world]

    @wp.func
    def find_motion(
        world: int, count: int, nv: int, paths: Paths, constraints: Constraints, problem: Problem, iterate: Iterate
    ):
        """Set z to the velocity of the impulses of the sweeps."""
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            iterate.z[k, world] = zero
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            products.add_push(i, iterate.sweep_impulse[i, world], world, paths, constraints, problem.row, iterate.z)
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            iterate.z[k, world] = iterate.z[k, world] * problem.inverse_mass[k, world] - iterate.z_before[k, world]

    @wp.func
    def updated(i: int, world: int, value: vec3, constraints: Constraints, problem: Problem, iterate: Iterate):
        """Return a constraint's impulse after its update; value: of its rows, R included."""
        kind = constraints.kind[i, world]
        old = iterate.sweep_impulse[i, world]
        block = iterate.block[i, world]
        column = vec3(block[0, 0], block[1, 0], block[2, 0])
        scale = iterate.step_length[i, world]
        if problem.row_stiffness[i, world][0] == zero:
            return vec3()
        if is_one_sided(kind):
            return f.contact_update(old, value, column, block[2, 1], scale, problem.bound[i, world])
        if is_in_interval(kind):
            return f.loss_update(old, value, scale, problem.bound[i, world])
        if follows_contact(kind):
            most = torsion_bounds(constraints.item[i, world], world, problem, iterate)
            return f.torsion_update(old, value, column, block[2, 1], scale, most[0], most[1])
        return f.equality_update(old, value, block)

    @wp.func
    def sweep(
        world: int,
        count: int,
        every: bool,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        """Sweep once over ``every`` constraint, or over those that have impulses. Changes are stored as ``impulse``.

        Return the sum of twice the kinetic energy of each change alone.
        """
        square = zero
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            old = iterate.sweep_impulse[i, world]
            if not every and wp.dot(old, old) == zero:
                continue
            value = problem.value_before[i, world]
            value += products.row_product(i, world, paths, constraints, problem.row, iterate.z)
            value += yielding(iterate.row_compliance[i, world], old)
            new = updated(i, world, value, constraints, problem, iterate)
            change = new - old
            if wp.dot(change, change) > zero:
                square += wp.dot(change, iterate.block[i, world] * change)
                iterate.impulse[i, world] = change
                iterate.sweep_impulse[i, world] = new
                products.add_scaled_push(
                    i, change, world, paths, constraints, problem.row, problem.inverse_mass, iterate.z
                )
        return square

    @native.func_native()
    def impulses_go_on(
        count: int,
        beta: scalar,
        share: scalar,
        x: wp.array2d(dtype=vec3),
        direction: wp.array2d(dtype=vec3),
        other: wp.array2d(dtype=vec3),
        world: int,
    ):
        """Move the impulses ``beta`` along the direction. The next direction is ``beta`` times it plus a ``share`` of
        the changes, ``other``, which become zero.
        """

    @native.func_native()
    def motion_goes_on(
        count: int,
        beta: scalar,
        share: scalar,
        x: wp.array2d(dtype=scalar),
        direction: wp.array2d(dtype=scalar),
        other: wp.array2d(dtype=scalar),
        world: int,
    ):
        """Move z along its direction, with the changes since ``other``, which becomes x."""

    @wp.func
    def go_on(world: int, count: int, nv: int, beta: scalar, share: scalar, iterate: Iterate):
        """Move impulses and z ``beta`` along their directions."""
        if wp.static(divided):
            for n in range(count):
                i = parts.constraint_of(n, world, iterate)
                change = iterate.impulse[i, world]
                along = beta * iterate.slip[i, world]
                iterate.sweep_impulse[i, world] = iterate.sweep_impulse[i, world] + along
                iterate.slip[i, world] = along + share * change
                iterate.impulse[i, world] = vec3()
            for n in range(nv):
                k = parts.dof_of(n, world, iterate)
                along_step = beta * iterate.step[k, world]
                here = iterate.z[k, world]
                iterate.step[k, world] = along_step + share * (here - iterate.work[k, world])
                iterate.z[k, world] = here + along_step
                iterate.work[k, world] = here + along_step
        else:
            impulses_go_on(count, beta, share, iterate.sweep_impulse, iterate.slip, iterate.impulse, world)
            motion_goes_on(nv, beta, share, iterate.z, iterate.step, iterate.work, world)

    @wp.func
    def resume(
        world: int,
        count: int,
        nv: int,
        first: bool,
        afresh: bool,
        number: int,
        paths: Paths,
        constraints: Constraints,
        problem: Problem,
        iterate: Iterate,
    ):
        """Run more sweeps from the impulses of the sweeps, the ``first`` ones also ``afresh``, see :func:`start`. Scratch of
        ``iterate`` is used, its ``impulse`` too.
        """
        if first:
            start(world, count, afresh, paths, constraints, problem, iterate)
        find_motion(world, count, nv, paths, constraints, problem, iterate)
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            iterate.slip[i, world] = vec3()
            iterate.impulse[i, world] = vec3()
        for n in range(nv):
            k = parts.dof_of(n, world, iterate)
            iterate.step[k, world] = zero
            iterate.work[k, world] = iterate.z[k, world]
        before = scalar(wp.inf)
        for turn in range(number):
            square = sweep(world, count, turn % EVERY == 0, paths, constraints, problem, iterate)
            if turn < number - 1:
                # Fletcher and Reeves; restarted if changes grow.
                beta = zero
                share = zero
                if square <= before and before > zero:
                    beta = square / before
                    share = one
                go_on(world, count, nv, beta, share, iterate)
            before = square

    @wp.func
    def implied_value(
        i: int, kind: int, item: int, world: int, compliance: vec2, at_z: vec3, problem: Problem, iterate: Iterate
    ):
        """Return the row values implied by a constraint's impulses in the sweeps: for sticking rows minus R times the impulse,
        for others those at z.
        """
        value = vec3(at_z[0], at_z[1], at_z[2])
        sweep_impulse = iterate.sweep_impulse[i, world]
        held = -yielding(compliance, sweep_impulse)
        if is_one_sided(kind):
            if sweep_impulse[0] > zero:
                value[0] = held[0]
            else:
                value[0] = wp.max(value[0], zero)
        elif is_in_interval(kind):
            if wp.abs(sweep_impulse[0]) < problem.bound[i, world]:
                value[0] = held[0]
        limit = problem.bound[i, world] * sweep_impulse[0]
        if follows_contact(kind):
            most = torsion_bounds(item, world, problem, iterate)
            if wp.abs(sweep_impulse[0]) < most[0]:
                value[0] = held[0]
            limit = most[1]
        if is_bounded_by_normal(kind):
            if wp.length(vec2(sweep_impulse[1], sweep_impulse[2])) < scalar(SLIDES_FROM) * limit:
                value[1] = held[1]
                value[2] = held[2]
        return value

    @wp.func
    def implied_values(
        world: int, count: int, paths: Paths, constraints: Constraints, problem: Problem, iterate: Iterate
    ):
        """Compute :func:`implied_value` of each constraint."""
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            value = problem.value_before[i, world]
            value += products.row_product(i, world, paths, constraints, problem.row, iterate.z)
            kind = constraints.kind[i, world]
            item = constraints.item[i, world]
            compliance = iterate.row_compliance[i, world]
            iterate.value[i, world] = implied_value(i, kind, item, world, compliance, value, problem, iterate)

    @wp.func
    def settle(world: int, count: int, paths: Paths, constraints: Constraints, problem: Problem, iterate: Iterate):
        """Accept the impulses of the sweeps if Newton's method has found nothing better: they are within their bounds."""
        for n in range(count):
            i = parts.constraint_of(n, world, iterate)
            iterate.impulse[i, world] = iterate.sweep_impulse[i, world]
        implied_values(world, count, paths, constraints, problem, iterate)

    return SimpleNamespace(
        compliance_of=compliance_of,
        step_lengths=f.step_lengths,
        recall=recall,
        resume=resume,
        harden=harden,
        implied_value=implied_value,
        implied_values=implied_values,
        settle=settle,
    )
