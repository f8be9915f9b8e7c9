"""MuJoCo's constraint forces as impulses, functions of row values, for elliptic and pyramidal cones.

With the row value r = J v+ - J v - h a_ref and R the regularisation, an impulse is minus the gradient of a convex
function s(r): MuJoCo's s(J a - a_ref) with everything times the time step h. A contact's rows have one joint law: its
friction coefficient is part of s, so that there is no iteration over the normal impulse (Todorov, *Convex and
analytically-invertible dynamics with contacts and constraints*, 2014; MuJoCo's documentation, *Computation*,
"Constraint model").

An elliptic cone may include spinning and rolling as well as sliding friction (``condim`` 4 and 6). Such a contact is
two constraints: its own, with the values r of the normal and two tangents, and its TORSION, with the values t of the
spin about the normal and the rolling about both tangents. With the coefficients mu of sliding, c_s and c_r of the
others and ``D = diag(c_s, c_r, c_r) / mu``, R of a row of t is that of a tangent over the square of its entry of D
(MuJoCo's ``R mu^2 / c^2``), so that in ``(r, D t)`` the cone is an elliptic one with five tangents, with the length of
all five as the slip.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.kinds import is_in_cone, is_in_interval, is_one_sided
from warp_kernels.types import warp_types


@functools.cache
def resisting_cone_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision; ``coefficients`` are those of sliding, spinning and rolling."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    zero, one, two = scalar(0.0), scalar(1.0), scalar(2.0)

    @wp.func
    def shares(coefficients: vec3):
        """Return the diagonal of D."""
        return vec3(coefficients[1], coefficients[2], coefficients[2]) / coefficients[0]

    @wp.func
    def on_surface(r: vec3, w: vec3, stiffness: vec2, friction: scalar):
        """Return ``on_surface`` of the plain cone, and the size of the slip; w is D t."""
        size = wp.sqrt(r[1] * r[1] + r[2] * r[2] + wp.dot(w, w))
        excess = friction * size - r[0]
        ratio = friction * friction * stiffness[0] / stiffness[1]
        slides = excess + (one + ratio) * r[0] > zero and excess > zero
        return slides, excess, ratio, size

    @wp.func
    def impulse_at(r: vec3, t: vec3, stiffness: vec2, coefficients: vec3):
        """Return the impulses of both constraints."""
        if coefficients[0] <= zero or stiffness[0] <= zero:
            return vec3(wp.max(zero, -stiffness[0] * r[0]), zero, zero), vec3()
        d = shares(coefficients)
        w = wp.cw_mul(d, t)
        slides, excess, ratio, size = on_surface(r, w, stiffness, coefficients[0])
        if slides:
            normal = stiffness[0] * excess / (one + ratio)
            along = -coefficients[0] * normal / size
            return vec3(normal, along * r[1], along * r[2]), along * wp.cw_mul(d, w)
        if excess > zero:
            return vec3(-stiffness[0] * r[0], -stiffness[1] * r[1], -stiffness[1] * r[2]), -stiffness[1] * wp.cw_mul(
                d, w
            )
        return vec3(), vec3()

    @wp.func
    def slopes(r: vec3, t: vec3, stiffness: vec2, coefficients: vec3):
        """Return the derivatives of the impulses: own by own value, own by t (and transposed the other way), of TORSION
        by t.
        """
        if coefficients[0] <= zero or stiffness[0] <= zero:
            own = mat33()
            if r[0] < zero:
                own[0, 0] = -stiffness[0]
            return own, mat33(), mat33()
        d = shares(coefficients)
        w = wp.cw_mul(d, t)
        slides, excess, ratio, size = on_surface(r, w, stiffness, coefficients[0])
        squares = wp.diag(wp.cw_mul(d, d))
        if slides:
            steep = stiffness[0] / (one + ratio)
            turns = coefficients[0] * steep * excess / size
            along = vec3(zero, r[1], r[2]) / size
            spin = wp.cw_mul(d, w) / size
            grows = vec3(one, zero, zero) - coefficients[0] * along
            winds = -coefficients[0] * spin
            own = -steep * wp.outer(grows, grows) - turns * (wp.diag(vec3(zero, one, one)) - wp.outer(along, along))
            mixed = -steep * wp.outer(grows, winds) + turns * wp.outer(along, spin)
            other = -steep * wp.outer(winds, winds) - turns * (squares - wp.outer(spin, spin))
            return own, mixed, other
        if excess > zero:
            return wp.diag(vec3(-stiffness[0], -stiffness[1], -stiffness[1])), mat33(), -stiffness[1] * squares
        return mat33(), mat33(), mat33()

    @wp.func
    def coefficient_bars(r: vec3, t: vec3, stiffness: vec2, coefficients: vec3, s: vec3, s_other: vec3):
        """Return the adjoints of the coefficients, from those of the impulses."""
        friction = coefficients[0]
        if friction <= zero or stiffness[0] <= zero:
            return vec3()
        d = shares(coefficients)
        w = wp.cw_mul(d, t)
        slides, excess, ratio, size = on_surface(r, w, stiffness, friction)
        pulled = wp.cw_mul(wp.cw_mul(d, t), s_other)  # of the impulse of TORSION, half its derivative in D
        friction_bar = zero
        d_bar = vec3()
        if slides:
            normal = stiffness[0] * excess / (one + ratio)
            along = -friction * normal / size
            work = s[1] * r[1] + s[2] * r[2] + wp.dot(pulled, d)
            rate = (stiffness[0] * size - two * normal * ratio / friction) / (one + ratio)
            friction_bar = s[0] * rate - (normal + friction * rate) / size * work
            steep = stiffness[0] * friction / (one + ratio)
            size_bar = s[0] * steep + (friction * normal / size - friction * steep) / size * work
            d_bar = (size_bar / size) * wp.cw_mul(w, t) + (two * along) * pulled
        elif excess > zero:
            d_bar = (-two * stiffness[1]) * pulled
        return vec3(friction_bar - wp.dot(d_bar, d) / friction, d_bar[0] / friction, (d_bar[1] + d_bar[2]) / friction)

    return SimpleNamespace(impulse_at=impulse_at, slopes=slopes, coefficient_bars=coefficient_bars)


# Cone of each of the friction models that users choose from.
CONES = {"cone": "elliptic", "pyramid": "pyramidal"}
# The elliptic cone with spinning and rolling friction (:mod:`warp_kernels.solver.mujoco.laws`).
RESISTING = "elliptic.resisting"
ALL_CONES = (*CONES.values(), RESISTING)
# The edges of a pyramid have the regularisation 2 mu^2 R. Below this square of mu, in units of rounding, a step's
# system would be singular to rounding, so that R grows (:mod:`warp_kernels.solver.mujoco.references`) as mu^2 falls.
FLATTEST = 1e4


def flattest_square(scalar: Any) -> Any:
    """Return the square of the friction coefficient below which edges of a pyramid get no stiffer."""
    return scalar(FLATTEST * float(np.finfo(wp.dtype_to_numpy(scalar)).eps))


@functools.cache
def mujoco_law_functions(scalar: Any, cone: str) -> SimpleNamespace:
    """Return Warp functions like those of :mod:`warp_kernels.solver.newton.laws`. The bounds of a contact are (friction
    coefficient, 0).
    """
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    pyramid = _pyramidal_functions(scalar)
    f = pyramid if cone == "pyramidal" else _elliptic_functions(scalar)
    zero = scalar(0.0)
    flattest = flattest_square(scalar)

    @wp.func
    def compliance_shares(kind: int):
        """Return the compliance of the law for all rows."""
        return vec2(scalar(1.0), scalar(1.0))

    @wp.func
    def tangent_stiffness(kind: int, stiffness: vec2, bound: scalar):
        """Return 1 / R of the other rows, without the addition to R of a flat pyramid."""
        if wp.static(cone == "pyramidal") and is_in_cone(kind) and bound > zero:
            return wp.max(stiffness[1], scalar(2.0) * flattest * pyramid.edge_stiffness(stiffness, bound))
        return stiffness[1]

    @wp.func
    def impulse_at(kind: int, r: vec3, stiffness: vec2, bounds: vec2):
        """Return the impulses of a constraint."""
        if is_in_cone(kind) and bounds[0] > zero:
            return f.impulse_at(r, stiffness, bounds[0])
        if is_one_sided(kind):
            return vec3(wp.max(zero, -stiffness[0] * r[0]), zero, zero)
        if is_in_interval(kind):
            return vec3(wp.clamp(-stiffness[0] * r[0], -bounds[0], bounds[0]), zero, zero)
        return vec3(-stiffness[0] * r[0], -stiffness[1] * r[1], -stiffness[1] * r[2])

    @wp.func
    def slope(kind: int, r: vec3, stiffness: vec2, bounds: vec2):
        """Return the derivative of the impulses with respect to the row values: symmetric, negative semidefinite."""
        if is_in_cone(kind) and bounds[0] > zero:
            return f.slope(r, stiffness, bounds[0])
        result = mat33()
        if is_one_sided(kind):
            if r[0] < zero:
                result[0, 0] = -stiffness[0]
        elif is_in_interval(kind):
            if wp.abs(stiffness[0] * r[0]) <= bounds[0] and bounds[0] > zero:
                result[0, 0] = -stiffness[0]
        else:
            result = wp.diag(vec3(-stiffness[0], -stiffness[1], -stiffness[1]))
        return result

    @wp.func
    def bound_slope(kind: int, r: vec3, stiffness: vec2, bounds: vec2, share: vec2):
        """Return the derivative of the impulses with respect to a contact's friction coefficient, or to the bound,
        times ``share[0]``.
        """
        if is_in_cone(kind) and bounds[0] > zero:
            return share[0] * f.friction_slope(r, stiffness, bounds[0])
        result = vec3()
        if is_in_interval(kind) and wp.abs(stiffness[0] * r[0]) > bounds[0]:
            result[0] = -wp.sign(r[0]) * share[0]
        return result

    return SimpleNamespace(
        compliance_shares=compliance_shares,
        tangent_stiffness=tangent_stiffness,
        impulse_at=impulse_at,
        slope=slope,
        bound_slope=bound_slope,
    )


def _elliptic_functions(scalar: Any) -> SimpleNamespace:
    """Return the law of a contact with friction mu > 0 whose cost falls with the distance from the elliptic cone, its
    dual scaled by R.

    With m^2 = mu^2 R_t / R_n (MuJoCo's ``contact.mu``) there are three zones: no impulse inside the dual cone
    (separating), that is for r_n >= mu |r_t|; -r / R if that lies within the friction cone (sticking); between them an
    impulse on the cone's surface (sliding).
    """
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def on_surface(r: vec3, stiffness: vec2, friction: scalar):
        """Return whether the impulse slides; friction times the slip minus the normal value; the square of m."""
        excess = friction * wp.length(vec2(r[1], r[2])) - r[0]
        ratio = friction * friction * stiffness[0] / stiffness[1]
        # m^2 r_n + mu |r_t| > 0
        slides = excess + (one + ratio) * r[0] > zero and excess > zero
        return slides, excess, ratio

    @wp.func
    def impulse_at(r: vec3, stiffness: vec2, friction: scalar):
        slides, excess, ratio = on_surface(r, stiffness, friction)
        if slides:
            normal = stiffness[0] * excess / (one + ratio)
            along = -friction * normal / wp.length(vec2(r[1], r[2]))
            return vec3(normal, along * r[1], along * r[2])
        if excess > zero:
            return vec3(-stiffness[0] * r[0], -stiffness[1] * r[1], -stiffness[1] * r[2])
        return vec3()

    @wp.func
    def slope(r: vec3, stiffness: vec2, friction: scalar):
        slides, excess, ratio = on_surface(r, stiffness, friction)
        result = mat33()
        if slides:
            size = wp.length(vec2(r[1], r[2]))
            steep = stiffness[0] / (one + ratio)
            # (1, -mu t), along which the impulse grows, and the part that turns with the slip.
            grows = vec3(one, -friction * r[1] / size, -friction * r[2] / size)
            turns = vec3(zero, -r[2] / size, r[1] / size)
            result = -steep * wp.outer(grows, grows) - (friction * steep * excess / size) * wp.outer(turns, turns)
        elif excess > zero:
            result = wp.diag(vec3(-stiffness[0], -stiffness[1], -stiffness[1]))
        return result

    @wp.func
    def friction_slope(r: vec3, stiffness: vec2, friction: scalar):
        slides, excess, ratio = on_surface(r, stiffness, friction)
        if not slides:
            return vec3()
        size = wp.length(vec2(r[1], r[2]))
        normal = stiffness[0] * excess / (one + ratio)
        rate = (stiffness[0] * size - scalar(2.0) * normal * ratio / friction) / (one + ratio)
        along = -(normal + friction * rate) / size
        return vec3(rate, along * r[1], along * r[2])

    return SimpleNamespace(impulse_at=impulse_at, slope=slope, friction_slope=friction_slope)


def _pyramidal_functions(scalar: Any) -> SimpleNamespace:
    """Return the law of a contact with friction mu > 0 with unilateral forces along the four edges (1, +-mu, 0) and (1,
    0, +-mu) of a pyramid.

    All have the regularisation 2 m^2 R_n, with m^2 = mu^2 R_t / R_n.
    """
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    zero = scalar(0.0)

    @wp.func
    def edge(number: int, friction: scalar):
        sign = scalar(1 - 2 * (number % 2))
        if number < 2:
            return vec3(scalar(1.0), sign * friction, zero)
        return vec3(scalar(1.0), zero, sign * friction)

    @wp.func
    def edge_stiffness(stiffness: vec2, friction: scalar):
        return stiffness[1] / (scalar(2.0) * friction * friction)

    @wp.func
    def impulse_at(r: vec3, stiffness: vec2, friction: scalar):
        total = vec3()
        for number in range(4):
            e = edge(number, friction)
            total += wp.max(zero, -edge_stiffness(stiffness, friction) * wp.dot(e, r)) * e
        return total

    @wp.func
    def slope(r: vec3, stiffness: vec2, friction: scalar):
        total = mat33()
        for number in range(4):
            e = edge(number, friction)
            if wp.dot(e, r) < zero:
                total -= edge_stiffness(stiffness, friction) * wp.outer(e, e)
        return total

    @wp.func
    def friction_slope(r: vec3, stiffness: vec2, friction: scalar):
        """Return the derivative in mu: the edges turn with mu, and their regularisation grows with its square."""
        total = vec3()
        for number in range(4):
            e = edge(number, friction)
            value = wp.dot(e, r)
            if value < zero:
                g = edge_stiffness(stiffness, friction)
                turn = (e - vec3(scalar(1.0), zero, zero)) / friction
                push = -g * value
                rate = -g * wp.dot(turn, r) - scalar(2.0) * push / friction
                total += rate * e + push * turn
        return total

    return SimpleNamespace(
        edge_stiffness=edge_stiffness, impulse_at=impulse_at, slope=slope, friction_slope=friction_slope
    )
