"""Derivatives of smoothed laws, for the backward pass only: contacts that are nearly active, and friction between
sticking and sliding.

A contact with the value r > 0 after the step has no impulse and contributes nothing to the gradient. Its smoothed
derivative is that of a contact that stops a share of its velocity u: in a step of the time h

    p = exp(-r / smoothing_velocity) h (RATE - u / kappa),   smoothing_velocity = kappa / h,   0 <= p <= 1,

so that an approaching body transfers 1 - exp(-1) of its velocity over all steps, most of it within kappa of the touch,
and the rest at the touch itself. RATE is for bodies that rest nearby. A gap that grows faster has no such share: it
would attract what has been pushed away. An active contact has its exact derivative. Sticking friction releases the
share ``exp(-m / smoothing_velocity) / 2``, where m is the margin until it slides; sliding friction has its exact derivative. A row
that stops the share p of its velocity has the compliance ``(W + R) / p - W``, W being its effective inverse mass.

The distance d adds d / h to r; its adjoint is scaled by p / 4: a gap then follows ``u+ = (1 - p) u - p^2 d / (4 h)``,
which is overdamped for every p. Unscaled, the gap would oscillate, and the gradient would change its sign with the
horizon.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_one_sided
from warp_kernels.constraints.products import ROW_HEADERS, product_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.newton.laws import law_functions
from warp_kernels.solver.newton.structs import newton_structs
from warp_kernels.solver.structs import Constraints, Paths
from warp_kernels.types import kernel_module, warp_types

RATE = 1.0  # [1/s]


@functools.cache
def smoothing_functions(scalar: Any, friction: str) -> SimpleNamespace:
    """Return the Warp functions for one precision and friction model, in addition to those of the laws.

    ``held``: the share of its velocity that a contact or limit stops along its first row; ``mass``: W; ``smoothing_velocity`` in
    m/s.
    """
    t = warp_types(scalar)
    vec2, vec3 = t.vec2, t.vec3
    laws = law_functions(scalar, friction)
    zero, half, one = scalar(0.0), scalar(0.5), scalar(1.0)

    @wp.func
    def response(stiffness: scalar, mass: scalar, share: scalar):
        """Return one over the compliance of a row that stops a share of its velocity."""
        return stiffness * share / (one + mass * stiffness * (one - share))

    @wp.func
    def holding_share(size: scalar, stiffness: scalar, limit: scalar, mass: scalar, smoothing_velocity: scalar):
        """Return the share of its velocity that friction stops, at a slip of ``size``."""
        if size * stiffness > limit:
            return zero
        return one - half * wp.exp(-mass * (limit - size * stiffness) / smoothing_velocity)

    @wp.func
    def slope(
        kind: int, r: vec3, stiffness: vec2, bounds: vec2, held: scalar, mass: scalar, smoothing_velocity: scalar
    ):
        """Return ``slope`` of the smoothed law."""
        result = laws.slope(kind, r, stiffness, bounds)
        if is_one_sided(kind):
            result[0, 0] = -response(stiffness[0], mass, held)
            if bounds[0] > zero:
                size = wp.length(vec2(r[1], r[2]))
                share = holding_share(size, stiffness[1], bounds[0], mass, smoothing_velocity)
                sticks = response(stiffness[1], mass, share)
                slides = zero
                along = vec2()
                if size > zero:
                    along = vec2(r[1], r[2]) / size
                    # Far below the limit, no slip direction is preferred.
                    slides = (one - share) * wp.min(stiffness[1] * size * stiffness[1] / bounds[0], bounds[0] / size)
                result[1, 1] = -sticks - slides * along[1] * along[1]
                result[2, 2] = -sticks - slides * along[0] * along[0]
                result[1, 2] = slides * along[0] * along[1]
                result[2, 1] = result[1, 2]
        return result

    @wp.func
    def bound_slope(
        kind: int, r: vec3, stiffness: vec2, bounds: vec2, share: vec2, mass: scalar, smoothing_velocity: scalar
    ):
        """Return ``bound_slope`` of the smoothed law."""
        result = laws.bound_slope(kind, r, stiffness, bounds, share)
        if is_one_sided(kind):
            size = wp.length(vec2(r[1], r[2]))
            result = vec3()
            if bounds[0] > zero and size > zero:
                used = wp.min(one, size * stiffness[1] / bounds[0])
                lets_go = one - holding_share(size, stiffness[1], bounds[0], mass, smoothing_velocity)
                sliding = share[0] * used * lets_go / size
                result = vec3(zero, -sliding * r[1], -sliding * r[2])
        return result

    @wp.func
    def held_rows(kind: int, r: vec3, stiffness: vec2, bounds: vec2):
        """Return one for the first row and for the others of a constraint if their impulses are -r / R, zero
        otherwise.
        """
        rows = vec2(one, one)
        if is_one_sided(kind):
            if r[0] >= zero:
                rows[0] = zero
            if wp.length(vec2(r[1], r[2])) * stiffness[1] > bounds[0]:
                rows[1] = zero
        return rows

    return SimpleNamespace(slope=slope, bound_slope=bound_slope, held_rows=held_rows)


@functools.cache
def smoothing_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel that finds nearly active contacts, for one precision."""
    common = row_functions(scalar)
    products = product_functions(scalar)
    compliance_shares = law_functions(scalar, "cone").compliance_shares
    structs = newton_structs(scalar)
    Problem, Iterate = structs.Problem, structs.Iterate
    module = kernel_module("newton_smoothing", scalar, headers=ROW_HEADERS)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.kernel(module=module, enable_backward=False)
    def held_shares(
        # Model
        paths: Paths,
        dt: scalar,
        # Parameters
        regularisation: wp.array2d(dtype=scalar),
        # Data in
        qd_solved: wp.array2d(dtype=scalar),
        factor_l: wp.array2d(dtype=scalar),
        constraints: Constraints,
        problem: Problem,
        # Data out
        iterate: Iterate,
        held_share: wp.array2d(dtype=scalar),
        row_inverse_mass: wp.array2d(dtype=scalar),
        distance_share: wp.array2d(dtype=scalar),
    ):
        """Compute the shares of smoothed gradients.

        held_share: of its velocity, that a constraint stops along its first row [nc, world]. row_inverse_mass: W.
        distance_share: factor on the adjoint of the distance [nc, world]. iterate: the solution; scratch is used.
        """
        world = wp.tid()
        for k in range(paths.dof_depth.shape[0]):
            own = qd_solved[world, k]
            for d in range(paths.dof_depth[k]):
                at = paths.dof_row_start[k] + d
                own += factor_l[at, world] * qd_solved[world, paths.ancestor[at]]
            iterate.work[k, world] = own
        for i in range(constraints.count[world]):
            # 1 / stiffness is R, the regularisation times W; zero for immovable rows.
            stiffness = problem.row_stiffness[i, world][1]
            mass = zero
            if stiffness > zero:
                share = compliance_shares(constraints.kind[i, world])[1]
                mass = one / (share * stiffness * common.value_of(regularisation, world, 0))
            row_inverse_mass[i, world] = mass
            held = one
            passed = one
            r = iterate.value[i, world][0]
            if is_one_sided(constraints.kind[i, world]) and r >= zero:
                velocity = products.row_product(i, world, paths, constraints, problem.row, iterate.work)[0]
                # h u / kappa is u / smoothing_velocity.
                meets = wp.clamp(dt * scalar(RATE) - velocity / problem.smoothing_velocity, zero, one)
                held = meets * wp.exp(-r / problem.smoothing_velocity)
                passed = scalar(0.25) * held
            held_share[i, world] = held
            distance_share[i, world] = passed

    return SimpleNamespace(module=module, held_shares=held_shares)
