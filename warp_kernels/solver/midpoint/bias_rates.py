"""Contribution of one link to the derivative of the bias forces in velocities, and the lift of a floating base, see
:mod:`warp_kernels.solver.midpoint.kahan`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.types import lane_types


@functools.cache
def bias_rate_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the Warp functions of a link's contribution to the derivative of the bias forces, and of the lift, for one
    precision and a number of worlds in a lane group.
    """
    t, a, sp = lane_types(scalar, lanes), algebra(scalar, lanes), spatial_functions(scalar, lanes)
    joints = joint_functions(scalar, lanes)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia
    zero, two = scalar(0.0), scalar(2.0)
    negligible = scalar(1.0e-36)

    @wp.func
    def inertia_rate(body: inertia10, v: spatial):
        """Return the rate of the inertia about the origin with the motion of the body, as an inertia without mass."""
        w = a.angular(v)
        u = a.linear(v)
        h = sp.first_moment(body)
        x = a.cross(w, a.make_vec3(body[4], body[7], body[8]))
        y = a.cross(w, a.make_vec3(body[7], body[5], body[9]))
        z = a.cross(w, a.make_vec3(body[8], body[9], body[6]))
        along = two * a.dot(u, h)
        return a.make_inertia(
            a.real(zero),
            a.scale(body[0], u) + a.cross(w, h),
            a.make_vec3(
                two * (x[0] - a.mul(h[0], u[0])) + along,
                two * (y[1] - a.mul(h[1], u[1])) + along,
                two * (z[2] - a.mul(h[2], u[2])) + along,
            ),
            a.make_vec3(
                x[1] + y[0] - a.mul(h[0], u[1]) - a.mul(h[1], u[0]),
                x[2] + z[0] - a.mul(h[0], u[2]) - a.mul(h[2], u[0]),
                y[2] + z[1] - a.mul(h[1], u[2]) - a.mul(h[2], u[1]),
            ),
        )

    @wp.func
    def column_turn(kind: int, s: spatial, v_parent: spatial, v: spatial):
        """Return the derivative of a link's acceleration in the rate of a column of its joint, at zero qdd."""
        turn = sp.cross_motion(v, s)
        if joints.keeps_axes(kind):
            moved = v - v_parent
            change = a.cross(a.linear(s), a.angular(moved)) + a.cross(a.linear(moved), a.angular(s))
            turn += a.join(vec3(), change)
        else:
            turn += sp.cross_motion(v_parent, s)
        return turn

    @wp.func
    def arm_of(body: inertia10):
        """Return the vector from the origin of a root to its centre of mass; zero without a mass."""
        return a.scale(a.div(body[0], a.mul(body[0], body[0]) + a.real(negligible)), sp.first_moment(body))

    @wp.func
    def lift_of(w: vec3, arm: vec3):
        """Return w x (w x a)."""
        return a.cross(w, a.cross(w, arm))

    @wp.func
    def lift_rate(w: vec3, change: vec3, arm: vec3):
        """Return the derivative of the lift along a change of w."""
        return a.cross(change, a.cross(w, arm)) + a.cross(w, a.cross(change, arm))

    @wp.func
    def lift_spin_bar(w: vec3, arm: vec3, bar: vec3):
        """Return the adjoint of w."""
        return (
            a.scale(a.dot(w, arm), bar) + a.scale(a.dot(bar, w), arm) - two * a.scale(a.dot(bar, arm), w)
        )  # fmt: skip

    @wp.func
    def lift_arm_bar(w: vec3, bar: vec3):
        """Return the adjoint of the arm."""
        return a.scale(a.dot(bar, w), w) - a.scale(a.dot(w, w), bar)

    return SimpleNamespace(
        inertia_rate=inertia_rate,
        column_turn=column_turn,
        arm_of=arm_of,
        lift_of=lift_of,
        lift_rate=lift_rate,
        lift_spin_bar=lift_spin_bar,
        lift_arm_bar=lift_arm_bar,
    )
