"""An elliptic cone that holds spinning and rolling as well as sliding (``condim`` 4 and 6).

A contact is two constraints: its own, with the values r of the normal and two tangents, and its TORSION, with the values t of the spin about the
normal and the rolling about both tangents. With the coefficients mu of sliding, c_s and c_r of the others and ``D = diag(c_s, c_r, c_r) / mu``, R of a
row of t is that of a tangent over the square of its entry of D (MuJoCo's ``R mu^2 / c^2``), so that in ``(r, D t)`` the cone is one of
:mod:`warp_kernels.solver.mujoco.laws` with five tangents: the answers are those of there, with the length of all five as the slip.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def resisting_cone_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision; ``coefficients`` are those of sliding, spinning and rolling."""
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    zero, one, two = scalar(0.0), scalar(1.0), scalar(2.0)

    @wp.func
    def shares(coefficients: vec3):
        """The diagonal of D."""
        return vec3(coefficients[1], coefficients[2], coefficients[2]) / coefficients[0]

    @wp.func
    def on_surface(r: vec3, w: vec3, grip: vec2, friction: scalar):
        """As of the plain cone, and the size of the slip; w is D t."""
        size = wp.sqrt(r[1] * r[1] + r[2] * r[2] + wp.dot(w, w))
        excess = friction * size - r[0]
        ratio = friction * friction * grip[0] / grip[1]
        slides = excess + (one + ratio) * r[0] > zero and excess > zero
        return slides, excess, ratio, size

    @wp.func
    def answer(r: vec3, t: vec3, grip: vec2, coefficients: vec3):
        """Impulses of both constraints."""
        if coefficients[0] <= zero or grip[0] <= zero:
            return vec3(wp.max(zero, -grip[0] * r[0]), zero, zero), vec3()
        d = shares(coefficients)
        w = wp.cw_mul(d, t)
        slides, excess, ratio, size = on_surface(r, w, grip, coefficients[0])
        if slides:
            normal = grip[0] * excess / (one + ratio)
            along = -coefficients[0] * normal / size
            return vec3(normal, along * r[1], along * r[2]), along * wp.cw_mul(d, w)
        if excess > zero:
            return vec3(-grip[0] * r[0], -grip[1] * r[1], -grip[1] * r[2]), -grip[1] * wp.cw_mul(d, w)
        return vec3(), vec3()

    @wp.func
    def slopes(r: vec3, t: vec3, grip: vec2, coefficients: vec3):
        """Derivatives of the answers: own by own value, own by t (and transposed the other way), of TORSION by t."""
        if coefficients[0] <= zero or grip[0] <= zero:
            own = mat33()
            if r[0] < zero:
                own[0, 0] = -grip[0]
            return own, mat33(), mat33()
        d = shares(coefficients)
        w = wp.cw_mul(d, t)
        slides, excess, ratio, size = on_surface(r, w, grip, coefficients[0])
        squares = wp.diag(wp.cw_mul(d, d))
        if slides:
            steep = grip[0] / (one + ratio)
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
            return wp.diag(vec3(-grip[0], -grip[1], -grip[1])), mat33(), -grip[1] * squares
        return mat33(), mat33(), mat33()

    @wp.func
    def coefficient_bars(r: vec3, t: vec3, grip: vec2, coefficients: vec3, s: vec3, s_other: vec3):
        """Adjoints of the coefficients, from those of the impulses."""
        friction = coefficients[0]
        if friction <= zero or grip[0] <= zero:
            return vec3()
        d = shares(coefficients)
        w = wp.cw_mul(d, t)
        slides, excess, ratio, size = on_surface(r, w, grip, friction)
        pulled = wp.cw_mul(wp.cw_mul(d, t), s_other)  # of the answer of TORSION, half its derivative in D
        friction_bar = zero
        d_bar = vec3()
        if slides:
            normal = grip[0] * excess / (one + ratio)
            along = -friction * normal / size
            work = s[1] * r[1] + s[2] * r[2] + wp.dot(pulled, d)
            rate = (grip[0] * size - two * normal * ratio / friction) / (one + ratio)
            friction_bar = s[0] * rate - (normal + friction * rate) / size * work
            steep = grip[0] * friction / (one + ratio)
            size_bar = s[0] * steep + (friction * normal / size - friction * steep) / size * work
            d_bar = (size_bar / size) * wp.cw_mul(w, t) + (two * along) * pulled
        elif excess > zero:
            d_bar = (-two * grip[1]) * pulled
        return vec3(friction_bar - wp.dot(d_bar, d) / friction, d_bar[0] / friction, (d_bar[1] + d_bar[2]) / friction)

    return SimpleNamespace(answer=answer, slopes=slopes, coefficient_bars=coefficient_bars)
