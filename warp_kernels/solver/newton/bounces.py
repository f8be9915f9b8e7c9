"""Bounces with the full rebound velocity despite the regularisation of Newton's method.

A row with the regularisation R and the target velocity ``-bias`` misses it by ``R lambda``: a ball with restitution 0.5
would rebound with 0.496 of its speed. With A the row's own effective inverse mass and the value ``r = u* + bias``
without impulses, the value ``(1 + R / A) r`` compensates exactly if the contact acts alone.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.constraints.kinds import is_contact
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.newton.laws import law_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def newton_bounce_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, whose threads share the constraints of a world; for models with bouncing
    contacts.
    """
    vec3, mat33 = warp_types(scalar).vec3, warp_types(scalar).mat33
    products = product_functions(scalar)
    common = row_functions(scalar)
    laws, immovable = law_functions(scalar, "cone"), immovable_functions(scalar)
    Problem, Bounces = newton_structs(scalar).Problem, solver_structs(scalar).Bounces
    module = kernel_module("newton_bounces", scalar, headers=ROW_HEADERS)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.kernel(module=module, enable_backward=False)
    def harden_bounces(
        # Model
        threads: int,
        paths: Paths,
        # Data in
        constraints: Constraints,
        bounces: Bounces,
        # Data out
        problem: Problem,
        hardening: wp.array2d(dtype=scalar),
    ):
        """Scale the values of bouncing contacts in ``problem``. hardening: R / A of each contact that bounces, zero of
        others.
        """
        thread, world = wp.tid()
        for i in range(thread, constraints.count[world], threads):
            share = zero
            if is_contact(constraints.kind[i, world]):
                if bounces.free[i, world] != zero:
                    own = products.diagonal_block(i, world, paths, constraints, problem.row, problem.inverse_mass)
                    share = one / (problem.row_stiffness[i, world][0] * own[0, 0])
                    value = problem.rhs[i, world]
                    problem.rhs[i, world] = vec3(value[0] * (one + share), value[1], value[2])
                    problem.value_before[i, world] += vec3(value[0] * share, zero, zero)
            hardening[i, world] = share

    @wp.kernel(module=module, enable_backward=False)
    def hardening_adjoint(
        # Model
        threads: int,
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        constraints: Constraints,
        problem: Problem,
        hardening: wp.array2d(dtype=scalar),
        # Adjoint in
        rhs_bar: wp.array2d(dtype=vec3),
        # Adjoint out
        block_bar: wp.array2d(dtype=mat33),
        regularisation_bar: wp.array2d(dtype=scalar),
    ):
        """Propagate the adjoint of the scaled values to R, a share of the mean of the rows' effective inverse masses,
        and to A.

        That of the velocity without impulses is in :mod:`warp_kernels.solver.impact_time`.
        """
        thread, world = wp.tid()
        for i in range(thread, constraints.count[world], threads):
            share = hardening[i, world]
            if share > zero:
                share_bar = rhs_bar[i, world][0] * problem.rhs[i, world][0] / (one + share)
                compliance_bar = share_bar * share * problem.row_stiffness[i, world][0]
                epsilon = common.value_of(regularisation, world, 0)
                mobility = one / (problem.row_stiffness[i, world][0] * epsilon)
                mean = epsilon * compliance_bar / laws.row_count(constraints.kind[i, world])
                if immovable.is_least(mobility, i, world, problem.least_inverse_mass, constraints):
                    mean = zero
                block_bar[i, world] += wp.diag(vec3(mean - compliance_bar * share, mean, mean))
                common.add_at(regularisation_bar, world, 0, compliance_bar * mobility)

    return SimpleNamespace(module=module, harden_bounces=harden_bounces, hardening_adjoint=hardening_adjoint)
