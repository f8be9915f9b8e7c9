"""Newton's method on the regularised problem of a step, with Coulomb's friction coupled to the normal impulses.

With z = L (v+ - v) and the row values r = r_v + row z, the impulses are functions of the values
(:mod:`warp_kernels.solver.newton.laws`) and

    D (z + z_v) = row' impulse(r)

is solved. v is the velocity before the step, at which the row values are r_v, and z_v = L (v - v*) with v* the velocity
without impulses. Measured from v* instead, the solution would be the same, but the row values of bodies at rest would be differences of numbers of the size
of g h that cancel to R times the impulse. Their rounding, divided by R, would be 1 / eps times that of the impulse.
Measured from v, nothing cancels at rest.

For fixed friction bounds this is the minimum of a convex function, which Newton's method with an exact line search
always finds. The bounds follow the normal impulses, so that the whole is a fixed point. It is solved by Newton's method
on the coupled equations, whose matrix is not symmetric with sliding contacts. If that makes no progress, sweeps of
projected Gauss-Seidel find the sticking and sliding constraints; after several of these, a convex round with the bounds
of the iterate comes between (Castro et al. 2021; Todorov, *Convex and analytically-invertible dynamics with contacts
and constraints*, 2014, for the convex part). Friction can increase the very normal force that sustains it (jamming),
and the iteration may then cycle. Then a softer problem, with a larger R, is solved first, in the same way, and the
iteration continues from its solution.

The initial guess is the velocity of the previous step, or the velocity without impulses, whichever has the smaller
residual. The solution doesn't depend on it unless it isn't unique, as with bodies wedged between each other.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.constraints.kinds import damps, has_own_compliance, is_unbounded
from warp_kernels.constraints.products import product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.newton.laws import law_functions
from warp_kernels.solver.newton.one_world import solve_kernel
from warp_kernels.solver.newton.structs import WORLD_HEADERS
from warp_kernels.solver.newton.whitening import whitening_functions
from warp_kernels.solver.projection import FRICTION_MODELS
from warp_kernels.solver.structs import Constraints, Paths, solver_structs
from warp_kernels.types import kernel_module, warp_types

# Arguments of factories beyond the scalar type, for checks over all kernels.
VARIANTS = {"newton_kernels": [(model,) for model in FRICTION_MODELS]}


@functools.cache
def newton_kernels(scalar: Any, friction: str = "cone") -> SimpleNamespace:
    """Return the solver for one precision and friction model, one thread per world."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    laws, products = law_functions(scalar, friction), product_functions(scalar)
    common, immovable = row_functions(scalar), immovable_functions(scalar)
    whitening = whitening_functions(scalar)
    Rows = solver_structs(scalar).Rows
    module = kernel_module(f"newton.{friction}", scalar, headers=WORLD_HEADERS)
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
        anchor_error: wp.array2d(dtype=vec3),
        constraints: Constraints,
        # Data out
        row_stiffness: wp.array2d(dtype=vec2),
        row: wp.array2d(dtype=vec3),
        rows: Rows,
        anchor_frame: wp.array2d(dtype=mat33),
    ):
        """Compute the regularisation. row_stiffness: 1 / R, with R = regularisation times the mean effective inverse mass of the
        rows, less for friction, or the compliance of a spring if that is larger.

        A negative compliance is minus the share of R beyond its lower bound. The compliance of a damper of a tendon is
        the whole R. Zero for immovable rows.
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
                    rows,
                    anchor_frame,
                )
                row_stiffness[i, world] = vec2(moves / epsilon, moves / epsilon)
                continue
            total = products.mobility_trace(i, world, paths, constraints, row, factor_d)
            least = epsilon * immovable.least_mobility(i, world, least_inverse_mass, constraints)
            hard = immovable.bounded(epsilon * total / laws.row_count(kind), least)
            shares = laws.compliance_shares(kind)
            first = rows.compliance[i, world]
            if first < zero:
                first = shares[0] * (least - first * (hard - least))
                if hard <= zero:
                    first = zero
            elif not has_own_compliance(kind) and not (damps(kind) and first > zero):
                first = wp.max(first, shares[0] * hard)
            pair = vec2()
            if first > zero:
                pair[0] = one / first
            if hard > zero:
                pair[1] = one / (shares[1] * hard)
            row_stiffness[i, world] = pair

    newton_solve = solve_kernel(scalar, friction, module)
    return SimpleNamespace(module=module, regularise=regularise, newton_solve=newton_solve)
