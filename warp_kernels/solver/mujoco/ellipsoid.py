"""Minimum of ``x' A x / 2 + b' x`` within the ellipsoid ``sum (x_i / d_i)^2 <= radius^2``, as in MuJoCo's noslip
solver.

With D = diag(d), x = D v, and the multiplier m >= 0 of the bound, ``(D A D + m) v = -D b``. Newton's method on m begins
at zero and ends like MuJoCo's: after 20 iterations, or once an overshoot of the square, or a change of m, is below
1e-10 in its units (mju_QCQP of its engine_util_solve.c). Directions with d = 0 are omitted.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

TURNS = 20
# MuJoCo's bound on pivots, on the square's overshoot [N^2] and on changes of the multiplier [1/kg].
TOLERANCE = 1e-10
# Up to three directions MuJoCo checks the determinant rather than each pivot.
BY_DETERMINANT = 3


@functools.cache
def ellipsoid_functions(scalar: Any, size: int) -> SimpleNamespace:
    """Return the Warp functions for one precision and number of directions."""
    vec, mat = wp.types.vector(size, scalar), wp.types.matrix((size, size), scalar)
    turns = wp.types.vector(TURNS, scalar)
    zero, half, one, tolerance = scalar(0.0), scalar(0.5), scalar(1.0), scalar(TOLERANCE)

    @wp.func
    def scaled(a: mat, d: vec):
        """Return D A D."""
        result = mat()
        for i in range(size):
            for j in range(size):
                result[i, j] = d[i] * a[i, j] * d[j]
        return result

    @wp.func
    def factor(a: mat, d: vec, shift: scalar):
        """Return the lower factor of a + shift, with the inverse roots of the pivots, and whether it is positive enough
        for MuJoCo.
        """
        lower = mat()
        least = scalar(wp.inf)
        product = one
        used = int(0)
        for j in range(size):
            root = one
            if d[j] > zero:
                pivot = a[j, j] + shift
                for k in range(j):
                    pivot -= lower[j, k] * lower[j, k]
                least = wp.min(least, pivot)
                product = product * pivot
                used += 1
                root = wp.sqrt(wp.max(pivot, tolerance * tolerance))
            lower[j, j] = one / root
            for i in range(j + 1, size):
                total = a[i, j]
                for k in range(j):
                    total -= lower[i, k] * lower[j, k]
                lower[i, j] = total / root
        if used <= BY_DETERMINANT:
            return lower, product >= tolerance
        return lower, least >= tolerance

    @wp.func
    def solve(lower: mat, b: vec):
        x = b
        for i in range(size):
            for k in range(i):
                x[i] = x[i] - lower[i, k] * x[k]
            x[i] = x[i] * lower[i, i]
        for back in range(size):
            i = size - 1 - back
            for k in range(i + 1, size):
                x[i] = x[i] - lower[k, i] * x[k]
            x[i] = x[i] * lower[i, i]
        return x

    @wp.func
    def newton_turn(whole: mat, pull: vec, d: vec, radius: scalar, unit: scalar, multiplier: scalar):
        """Return v for a multiplier, its next change, zero once the search ends, and whether A is positive enough."""
        lower, positive = factor(whole, d, multiplier)
        v = -solve(lower, pull)
        over = wp.dot(v, v) - radius * radius
        change = zero
        if not over < tolerance * unit * unit:
            change = half * over / wp.dot(v, solve(lower, v))
            if change < tolerance:
                change = zero
        return v, change, positive

    @wp.func
    def least(a: mat, b: vec, d: vec, radius: scalar, unit: scalar):
        """Return x, and the multiplier, which is negative if A isn't positive enough, with x = 0. ``unit``: of x, in
        N.
        """
        whole = scaled(a, d)
        pull = wp.cw_mul(d, b)
        multiplier = zero
        v = vec()
        for _turn in range(TURNS):
            found, change, positive = newton_turn(whole, pull, d, radius, unit, multiplier)
            if not positive:
                return vec(), -one
            v = found
            if change == zero:
                break
            multiplier += change
        if multiplier > zero:
            v = v * (radius / wp.length(v))
        return wp.cw_mul(d, v), multiplier

    @wp.func
    def least_adjoint(a: mat, b: vec, d: vec, radius: scalar, unit: scalar, x_bar: vec):
        """Return the adjoints of A, b, d and the radius, if A is positive enough: those of the iterations as they
        ran.
        """
        whole = scaled(a, d)
        pull = wp.cw_mul(d, b)
        # The multiplier of each iteration. After the last one there may be another, for which there was no iteration.
        multipliers = turns()
        last = int(0)
        multiplier = zero
        v = vec()
        for number in range(TURNS):
            found, change, _positive = newton_turn(whole, pull, d, radius, unit, multiplier)
            v = found
            multipliers[number] = multiplier
            last = number
            if change == zero:
                break
            multiplier += change
        v_bar = wp.cw_mul(d, x_bar)
        d_bar = wp.cw_mul(x_bar, v)
        radius_bar = zero
        if multiplier > zero:
            length = wp.length(v)
            radius_bar = wp.dot(v, v_bar) / length
            d_bar = d_bar * (radius / length)
            v_bar = (v_bar - v * (radius_bar / length)) * (radius / length)
        whole_bar = mat()
        pull_bar = vec()
        multiplier_bar = zero
        for back in range(last + 1):
            lower, _positive = factor(whole, d, multipliers[last - back])
            v = -solve(lower, pull)
            if back > 0:
                w = solve(lower, v)
                along = wp.dot(v, w)
                over_bar = half * multiplier_bar / along
                along_bar = -over_bar * (wp.dot(v, v) - radius * radius) / along
                radius_bar -= scalar(2.0) * over_bar * radius
                v_bar = scalar(2.0) * (over_bar * v + along_bar * w)
                whole_bar -= along_bar * wp.outer(w, w)
                multiplier_bar -= along_bar * wp.dot(w, w)
            p = solve(lower, v_bar)
            pull_bar -= p
            whole_bar -= wp.outer(p, v)
            multiplier_bar -= wp.dot(p, v)
        d_bar += wp.cw_mul(pull_bar, b)
        a_bar = mat()
        for i in range(size):
            for j in range(size):
                a_bar[i, j] = d[i] * whole_bar[i, j] * d[j]
                d_bar[i] = d_bar[i] + (whole_bar[i, j] + whole_bar[j, i]) * a[i, j] * d[j]
        return a_bar, wp.cw_mul(d, pull_bar), d_bar, radius_bar

    return SimpleNamespace(vec=vec, mat=mat, least=least, least_adjoint=least_adjoint)
