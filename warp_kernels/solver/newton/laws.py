"""Constraint laws: impulse as a function of the constraint residual, and its derivative.

With the row values r (velocity after the step plus bias) the impulse is ``-r / R``, R = eps W, clamped to its bounds.
Friction of contacts uses half of that R, so that stick creep is smaller. A contact or a limit is unilateral; friction
lies in the disc (or square) that the normal impulse allows; dry friction and actuators have constant bounds. W is the
effective inverse mass of the constraint, the mean over its rows, so that the regularisation has the same effect for a
gram and for a thousand tons (Castro et al., *An Unconstrained Convex Formulation of Compliant Contact*, 2021, section
IV). For fixed bounds, each impulse is minus the gradient of a convex function of r.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import follows_contact, has_one_row, is_contact, is_in_interval, is_one_sided
from warp_kernels.solver.mujoco.laws import ALL_CONES, mujoco_law_functions
from warp_kernels.types import warp_types

# R of friction as a share of that of unilateral rows. Sticking friction creeps by R times its impulse all the time,
# whereas normal penetration doesn't accumulate.
FRICTION_SHARE = 0.5


@functools.cache
def law_functions(scalar: Any, friction: str) -> SimpleNamespace:
    """Return the Warp functions of the laws for one precision and friction model or cone of MuJoCo's
    (:mod:`warp_kernels.solver.mujoco.laws`).

    ``stiffness`` is 1 / R of the first row and of the others.
    """
    if friction in ALL_CONES:
        return mujoco_law_functions(scalar, friction)
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    zero = scalar(0.0)

    @wp.func
    def within_bound(r: scalar, stiffness: scalar, bound: scalar):
        """Return whether a row's impulse is below its bound (sticking). False without a bound, true without slip."""
        return wp.abs(stiffness * r) <= bound and bound > zero

    if friction == "cone":

        @wp.func
        def tangent_impulse(r: vec2, stiffness: scalar, limit: scalar):
            """Return the impulse within a disc, opposite to the slip."""
            size = wp.length(r)
            factor = stiffness
            if size * stiffness > limit:
                factor = limit / size
            return -factor * r

        @wp.func
        def tangent_slope(r: vec2, stiffness: scalar, limit: scalar):
            """Return the derivatives of the impulse: [0, 0], [0, 1], [1, 1]."""
            size = wp.length(r)
            if size * stiffness > limit:
                t = r / size
                factor = limit / size
                return vec3(-factor * t[1] * t[1], factor * t[0] * t[1], -factor * t[0] * t[0])
            if limit == zero:
                return vec3()
            return vec3(-stiffness, zero, -stiffness)

        @wp.func
        def tangent_limit_slope(r: vec2, stiffness: scalar, limit: scalar):
            """Return the derivative of the impulse with respect to its limit."""
            size = wp.length(r)
            if size * stiffness > limit:
                return -r / size
            return vec2(zero, zero)

    else:

        @wp.func
        def tangent_impulse(r: vec2, stiffness: scalar, limit: scalar):
            """Return the impulse within a square."""
            return vec2(wp.clamp(-stiffness * r[0], -limit, limit), wp.clamp(-stiffness * r[1], -limit, limit))

        @wp.func
        def tangent_slope(r: vec2, stiffness: scalar, limit: scalar):
            """Return the derivatives of the impulse: [0, 0], [0, 1], [1, 1]."""
            slope = vec3()
            if within_bound(r[0], stiffness, limit):
                slope[0] = -stiffness
            if within_bound(r[1], stiffness, limit):
                slope[2] = -stiffness
            return slope

        @wp.func
        def tangent_limit_slope(r: vec2, stiffness: scalar, limit: scalar):
            """Return the derivative of the impulse with respect to its limit."""
            slope = vec2()
            if wp.abs(stiffness * r[0]) > limit:
                slope[0] = -wp.sign(r[0])
            if wp.abs(stiffness * r[1]) > limit:
                slope[1] = -wp.sign(r[1])
            return slope

    @wp.func
    def row_count(kind: int):
        """Return the number of rows of a constraint: three, or one of a joint."""
        if has_one_row(kind):
            return scalar(1.0)
        return scalar(3.0)

    @wp.func
    def compliance_shares(kind: int):
        """Return R of the first row and of the others, as shares of the regularisation times W: friction of a contact
        has a smaller one.
        """
        if is_contact(kind):
            return vec2(scalar(1.0), scalar(FRICTION_SHARE))
        if follows_contact(kind):
            return vec2(scalar(FRICTION_SHARE), scalar(FRICTION_SHARE))
        return vec2(scalar(1.0), scalar(1.0))

    @wp.func
    def tangent_stiffness(kind: int, stiffness: vec2, bound: scalar):
        """Return 1 / R of the other rows."""
        return stiffness[1] * compliance_shares(kind)[1]

    @wp.func
    def impulse_at(kind: int, r: vec3, stiffness: vec2, bounds: vec2):
        """Return the impulses of a constraint.

        bounds: friction limit of a contact; of TORSION the limits of spinning and of rolling; otherwise the
        constraint's own.
        """
        if is_one_sided(kind):
            tangent = tangent_impulse(vec2(r[1], r[2]), stiffness[1], bounds[0])
            return vec3(wp.max(zero, -stiffness[0] * r[0]), tangent[0], tangent[1])
        if is_in_interval(kind):
            return vec3(wp.clamp(-stiffness[0] * r[0], -bounds[0], bounds[0]), zero, zero)
        if follows_contact(kind):
            roll = tangent_impulse(vec2(r[1], r[2]), stiffness[1], bounds[1])
            return vec3(wp.clamp(-stiffness[0] * r[0], -bounds[0], bounds[0]), roll[0], roll[1])
        return vec3(-stiffness[0] * r[0], -stiffness[1] * r[1], -stiffness[1] * r[2])

    @wp.func
    def slope(kind: int, r: vec3, stiffness: vec2, bounds: vec2):
        """Return the derivative of the impulses with respect to the row values, for fixed bounds: symmetric, negative
        semidefinite.
        """
        result = mat33()
        first = zero
        pair = vec3()
        if is_one_sided(kind):
            if r[0] < zero:
                first = -stiffness[0]
            pair = tangent_slope(vec2(r[1], r[2]), stiffness[1], bounds[0])
        elif is_in_interval(kind):
            if within_bound(r[0], stiffness[0], bounds[0]):
                first = -stiffness[0]
        elif follows_contact(kind):
            if within_bound(r[0], stiffness[0], bounds[0]):
                first = -stiffness[0]
            pair = tangent_slope(vec2(r[1], r[2]), stiffness[1], bounds[1])
        else:
            first = -stiffness[0]
            pair = vec3(-stiffness[1], zero, -stiffness[1])
        result[0, 0] = first
        result[1, 1] = pair[0]
        result[1, 2] = pair[1]
        result[2, 1] = pair[1]
        result[2, 2] = pair[2]
        return result

    @wp.func
    def bound_slope(kind: int, r: vec3, stiffness: vec2, bounds: vec2, share: vec2):
        """Return the derivative of the impulses with respect to the quantity that the bounds are proportional to, with
        the factors ``share``.

        For a contact that is its own normal impulse, for TORSION that of its contact; for dry friction and actuators
        the bound.
        """
        result = vec3()
        if is_one_sided(kind):
            tangent = tangent_limit_slope(vec2(r[1], r[2]), stiffness[1], bounds[0])
            result = vec3(zero, tangent[0] * share[0], tangent[1] * share[0])
        elif is_in_interval(kind):
            if wp.abs(stiffness[0] * r[0]) > bounds[0]:
                result[0] = -wp.sign(r[0]) * share[0]
        elif follows_contact(kind):
            roll = tangent_limit_slope(vec2(r[1], r[2]), stiffness[1], bounds[1])
            if wp.abs(stiffness[0] * r[0]) > bounds[0]:
                result[0] = -wp.sign(r[0]) * share[0]
            result[1] = roll[0] * share[1]
            result[2] = roll[1] * share[1]
        return result

    return SimpleNamespace(
        row_count=row_count,
        compliance_shares=compliance_shares,
        tangent_stiffness=tangent_stiffness,
        impulse_at=impulse_at,
        slope=slope,
        bound_slope=bound_slope,
    )
