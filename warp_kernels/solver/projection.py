"""Projected update of one constraint's impulses within their bounds, and its adjoint.

One update for each kind of constraint: a contact with friction in a cone or a pyramid, torsional and rolling friction,
rows with constant bounds, rows without bounds. Gauss-Seidel (:mod:`warp_kernels.solver.pgs`) runs over them.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.constraints.immovable import immovable_functions
from warp_kernels.constraints.kinds import follows_contact, is_in_interval, is_one_sided
from warp_kernels.types import warp_types

# Projection of a contact's tangential impulse: on a disc, or on a square.
FRICTION_MODELS = ("cone", "pyramid")


@functools.cache
def friction_projection_functions(scalar: Any, friction: str) -> SimpleNamespace:
    """Return the functions that project a contact's tangential impulse: on the disc of a "cone" or on the square of a
    "pyramid".
    """
    t = warp_types(scalar)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    rounding = immovable_functions(scalar).rounding

    @wp.func
    def tiny(d: mat33):
        """Return the diagonal entry below which a row counts as immovable: its impulse stays as it is."""
        return scalar(1.0e-12) * (d[0, 0] + d[1, 1] + d[2, 2])

    @wp.func
    def inverse(value: scalar, floor: scalar):
        result = scalar(0.0)
        if value > floor:
            result = scalar(1.0) / value
        return result

    @wp.func
    def no_longer(length: scalar, least: scalar):
        """Return the step length of a row with an effective inverse mass of at least ``least``; zero if its own is
        rounding noise.
        """
        if length * least > scalar(1.0):
            if length * (least * rounding) >= scalar(1.0):
                return scalar(0.0)
            return scalar(1.0) / least
        return length

    if friction == "cone":

        @wp.func
        def step_lengths(d: mat33):
            """Return the step lengths of the three rows.

            The tangential pair has one common step length, so that friction opposes the slip at the fixed point. It is
            the inverse of the Schatten 4-norm of the tangential constraint: never above 1 / largest eigenvalue, and
            smooth also where the constraint is isotropic, which the eigenvalue itself is not.
            """
            tangential = scalar(0.0)
            total = d[1, 1] + d[2, 2]
            if total > tiny(d):
                a = d[1, 1] / total
                b = d[1, 2] / total
                c = d[2, 2] / total
                p = a * a + b * b
                q = b * (a + c)
                r = b * b + c * c
                tangential = scalar(1.0) / (total * wp.sqrt(wp.sqrt(p * p + scalar(2.0) * q * q + r * r)))
            return vec3(inverse(d[0, 0], tiny(d)), tangential, tangential)

        @wp.func
        def tangent_update(old: vec2, r: vec2, coupling: scalar, scale: vec2, limit: scalar):
            """Return the new tangential impulse from row values ``r``. coupling is unused here."""
            x = old[0] - scale[0] * r[0]
            y = old[1] - scale[1] * r[1]
            square = x * x + y * y
            factor = scalar(1.0)
            if square > limit * limit:
                factor = limit / wp.sqrt(square)
            elif limit == scalar(0.0):
                # Also without slip, so that friction of a contact without normal impulse has no derivative.
                factor = scalar(0.0)
            return vec2(x * factor, y * factor)

    elif friction == "pyramid":

        @wp.func
        def step_lengths(d: mat33):
            """Return the step lengths of the three rows: each its own inverse diagonal."""
            return vec3(inverse(d[0, 0], tiny(d)), inverse(d[1, 1], tiny(d)), inverse(d[2, 2], tiny(d)))

        @wp.func
        def tangent_update(old: vec2, r: vec2, coupling: scalar, scale: vec2, limit: scalar):
            """Return the new tangential impulse from row values ``r``; the second row includes the first one's change
            through ``coupling``.
            """
            x = wp.clamp(old[0] - scale[0] * r[0], -limit, limit)
            y = wp.clamp(old[1] - scale[1] * (r[1] + coupling * (x - old[0])), -limit, limit)
            return vec2(x, y)

    else:
        raise ValueError(f"friction must be 'cone' or 'pyramid', not {friction!r}")

    @wp.func
    def contact_update(old: vec3, r: vec3, normal_column: vec3, coupling: scalar, scale: vec3, mu: scalar):
        """Return the new impulses of a contact from row values ``r``; the tangents include the change of the normal
        impulse.

        normal_column: first column of the constraint's own Delassus matrix. Friction is bounded by the new normal
        impulse and zero if that is zero.
        """
        normal = wp.max(old[0] - scale[0] * r[0], scalar(0.0))
        change = normal - old[0]
        moved = vec2(r[1] + normal_column[1] * change, r[2] + normal_column[2] * change)
        tangent = tangent_update(vec2(old[1], old[2]), moved, coupling, vec2(scale[1], scale[2]), mu * normal)
        return vec3(normal, tangent[0], tangent[1])

    @wp.func
    def torsion_update(
        old: vec3, r: vec3, normal_column: vec3, coupling: scalar, scale: vec3, spinning: scalar, rolling: scalar
    ):
        """Return the new angular impulses of a contact from row values ``r``, within bounds about its normal and about
        its tangents.
        """
        spin = wp.clamp(old[0] - scale[0] * r[0], -spinning, spinning)
        change = spin - old[0]
        moved = vec2(r[1] + normal_column[1] * change, r[2] + normal_column[2] * change)
        roll = tangent_update(vec2(old[1], old[2]), moved, coupling, vec2(scale[1], scale[2]), rolling)
        return vec3(spin, roll[0], roll[1])

    @wp.func
    def torsion_power(
        old: vec3,
        r: vec3,
        normal_column: vec3,
        coupling: scalar,
        scale: vec3,
        spinning: scalar,
        rolling: scalar,
        g: vec3,
    ):
        return wp.dot(torsion_update(old, r, normal_column, coupling, scale, spinning, rolling), g)

    @wp.func
    def loss_update(old: vec3, r: vec3, scale: vec3, limit: scalar):
        """Return the new impulse of dry joint friction or of an actuator, within plus and minus its limit."""
        return vec3(wp.clamp(old[0] - scale[0] * r[0], -limit, limit), scalar(0.0), scalar(0.0))

    # A pivot below this share of the trace is rounding noise: the row depends on those before it, or can't move.
    singular = scalar(100.0 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps))

    @wp.func
    def equality_update(old: vec3, r: vec3, d: mat33):
        """Return the new impulses of three rows without bounds from row values ``r``: all three values become zero.

        d: the constraint's own Delassus matrix, factored as L D L'. A row that depends on those before it keeps its
        impulse.
        """
        floor = singular * (d[0, 0] + d[1, 1] + d[2, 2])
        i0 = inverse(d[0, 0], floor)
        l10 = d[1, 0] * i0
        l20 = d[2, 0] * i0
        i1 = inverse(d[1, 1] - l10 * d[1, 0], floor)
        u21 = d[2, 1] - l20 * d[1, 0]
        l21 = u21 * i1
        i2 = inverse(d[2, 2] - l20 * d[2, 0] - l21 * u21, floor)
        y1 = r[1] - l10 * r[0]
        x2 = (r[2] - l20 * r[0] - l21 * y1) * i2
        x1 = y1 * i1 - l21 * x2
        return old - vec3(r[0] * i0 - l10 * x1 - l20 * x2, x1, x2)

    @wp.func
    def equality_power(old: vec3, r: vec3, d: mat33, g: vec3):
        return wp.dot(equality_update(old, r, d), g)

    @wp.func
    def contact_power(old: vec3, r: vec3, normal_column: vec3, coupling: scalar, scale: vec3, mu: scalar, g: vec3):
        return wp.dot(contact_update(old, r, normal_column, coupling, scale, mu), g)

    @wp.func
    def loss_power(old: vec3, r: vec3, scale: vec3, limit: scalar, g: vec3):
        return wp.dot(loss_update(old, r, scale, limit), g)

    @wp.func
    def least_step_lengths(d: mat33, least: scalar):
        """Return :func:`step_lengths` for effective inverse masses of at least ``least``."""
        lengths = step_lengths(d)
        return vec3(no_longer(lengths[0], least), no_longer(lengths[1], least), no_longer(lengths[2], least))

    @wp.func
    def scale_power(d: mat33, least: scalar, g: vec3):
        return wp.dot(least_step_lengths(d, least), g)

    return SimpleNamespace(
        step_lengths=step_lengths,
        least_step_lengths=least_step_lengths,
        contact_update=contact_update,
        torsion_update=torsion_update,
        torsion_power=torsion_power,
        loss_update=loss_update,
        equality_update=equality_update,
        equality_power=equality_power,
        contact_power=contact_power,
        loss_power=loss_power,
        scale_power=scale_power,
    )


@functools.cache
def update_adjoint_function(scalar: Any, friction: str) -> Any:
    """Return the adjoint of a constraint's update, whatever its kind. For modules of reverse kernels only: it uses
    wp.grad.
    """
    t = warp_types(scalar)
    f = friction_projection_functions(scalar, friction)
    vec2, vec3, mat33 = t.vec2, t.vec3, t.mat33
    # wp.grad takes plain names only.
    contact_power, loss_power = f.contact_power, f.loss_power
    equality_power, torsion_power = f.equality_power, f.torsion_power

    @wp.func
    def update_adjoint(kind: int, old: vec3, value: vec3, d: mat33, scale: vec3, bounds: vec2, g: vec3):
        """Return the adjoints of old, value, scale, d and bounds for that of the new impulse, g.

        bounds: those of spinning and rolling for TORSION, otherwise the constraint's own and zero.
        """
        zero = scalar(0.0)
        old_bar = vec3()
        value_bar = vec3()
        scale_bar = vec3()
        block_bar = mat33()
        bounds_bar = vec2()
        column = vec3(d[0, 0], d[1, 0], d[2, 0])
        if is_one_sided(kind):
            o, v, cb, kb, sb, mb, _gb = wp.grad(contact_power)(old, value, column, d[2, 1], scale, bounds[0], g)
            old_bar = o
            value_bar = v
            scale_bar = sb
            block_bar = mat33(zero, zero, zero, cb[1], zero, zero, cb[2], kb, zero)
            bounds_bar = vec2(mb, zero)
        elif is_in_interval(kind):
            o, v, sb, mb, _gb = wp.grad(loss_power)(old, value, scale, bounds[0], g)
            old_bar = o
            value_bar = v
            scale_bar = sb
            bounds_bar = vec2(mb, zero)
        elif follows_contact(kind):
            o, v, cb, kb, sb, tb, rb, _gb = wp.grad(torsion_power)(
                old, value, column, d[2, 1], scale, bounds[0], bounds[1], g
            )
            old_bar = o
            value_bar = v
            scale_bar = sb
            block_bar = mat33(zero, zero, zero, cb[1], zero, zero, cb[2], kb, zero)
            bounds_bar = vec2(tb, rb)
        else:
            o, v, d_bar, _gb = wp.grad(equality_power)(old, value, d, g)
            old_bar = o
            value_bar = v
            block_bar = d_bar
        return old_bar, value_bar, scale_bar, block_bar, bounds_bar

    return update_adjoint
