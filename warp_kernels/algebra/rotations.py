"""Rotations, poses and rotation vectors in terms of the basic functions."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import lane_types, warp_types


@functools.cache
def rotation_vector_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of rotation vectors for one precision, smooth at the identity."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat

    @wp.func
    def rotation_exp(v: vec3):
        """Return the quaternion of the rotation vector v [rad]."""
        square = wp.dot(v, v)
        # Series about zero: the next terms are below 1e-16 here. A quotient of literals would be evaluated in float32.
        sine = scalar(0.5) - square * (scalar(1.0) / scalar(48.0) - square * scalar(1.0) / scalar(3840.0))
        cosine = scalar(1.0) - square * (scalar(1.0) / scalar(8.0) - square * scalar(1.0) / scalar(384.0))
        if square > scalar(1.0e-4):
            angle = wp.sqrt(square)
            sine = wp.sin(scalar(0.5) * angle) / angle
            cosine = wp.cos(scalar(0.5) * angle)
        return quat(sine * v[0], sine * v[1], sine * v[2], cosine)

    @wp.func
    def rotation_log(q: quat):
        """Return the rotation vector [rad] of a unit quaternion, at most pi long; q and -q are the same rotation."""
        sign = scalar(1.0)
        if q[3] < scalar(0.0):
            sign = scalar(-1.0)
        v = sign * vec3(q[0], q[1], q[2])
        square = wp.dot(v, v)
        # Series of 2 asin(n) / n about zero: the next term is below 1e-17 here.
        factor = scalar(2.0) + square * (
            scalar(1.0) / scalar(3.0) + square * (scalar(3.0) / scalar(20.0) + square * scalar(5.0) / scalar(56.0))
        )
        if square > scalar(1.0e-4):
            n = wp.sqrt(square)
            factor = scalar(2.0) * wp.atan2(n, sign * q[3]) / n
        return factor * v

    @wp.func
    def rotation_vector_rate(v: vec3, velocity: vec3):
        """Return the rate of the rotation vector v, up to 2 pi long, for an angular velocity along the axes that turn
        with it.

        ``v' = w + v x w / 2 + k v x (v x w)`` with ``k = (1 - n / 2 cot(n / 2)) / n^2``, n the length of v: the inverse
        of the derivative of the exponential map (Iserles et al., *Lie-group methods*, 2000).
        """
        square = wp.dot(v, v)
        # Series about zero: the next term is below 1e-14 here.
        k = scalar(1.0) / scalar(12.0) + square * (
            scalar(1.0) / scalar(720.0)
            + square
            * (
                scalar(1.0) / scalar(30240.0)
                + square * (scalar(1.0) / scalar(1209600.0) + square * scalar(1.0) / scalar(47900160.0))
            )
        )
        if square > scalar(0.1):
            half = scalar(0.5) * wp.sqrt(square)
            k = (scalar(1.0) - half * wp.cos(half) / wp.sin(half)) / square
        across = wp.cross(v, velocity)
        return velocity + scalar(0.5) * across + k * wp.cross(v, across)

    return SimpleNamespace(
        rotation_exp=rotation_exp, rotation_log=rotation_log, rotation_vector_rate=rotation_vector_rate
    )


def rotation_functions(scalar: Any, lanes: int, a: SimpleNamespace) -> SimpleNamespace:
    """Return functions of quaternions and poses for a precision and number of lanes, from the basic ones ``a``."""
    t = lane_types(scalar, lanes)
    vec3, quat, mat33 = t.vec3, t.quat, t.mat33

    @wp.func
    def imaginary(q: quat):
        return a.make_vec3(q[0], q[1], q[2])

    @wp.func
    def product(p: quat, q: quat):
        """Multiply quaternions: rotation by q, then by p."""
        return a.make_quat(
            a.mul(p[3], q[0]) + a.mul(p[0], q[3]) + a.mul(p[1], q[2]) - a.mul(p[2], q[1]),
            a.mul(p[3], q[1]) + a.mul(p[1], q[3]) + a.mul(p[2], q[0]) - a.mul(p[0], q[2]),
            a.mul(p[3], q[2]) + a.mul(p[2], q[3]) + a.mul(p[0], q[1]) - a.mul(p[1], q[0]),
            a.mul(p[3], q[3]) - a.mul(p[0], q[0]) - a.mul(p[1], q[1]) - a.mul(p[2], q[2]),
        )

    @wp.func
    def rotate(q: quat, v: vec3):
        axis = imaginary(q)
        turned = scalar(2.0) * a.cross(axis, v)
        return v + a.scale(q[3], turned) + a.cross(axis, turned)

    @wp.func
    def rotate_back(q: quat, v: vec3):
        axis = imaginary(q)
        turned = scalar(2.0) * a.cross(axis, v)
        return v - a.scale(q[3], turned) + a.cross(axis, turned)

    @wp.func
    def no_turn():
        none = a.real(scalar(0.0))
        return a.make_quat(none, none, none, a.real(scalar(1.0)))

    @wp.func
    def zero_pose():
        """Return a pose of seven zeros, the initial value of an adjoint."""
        none = a.real(scalar(0.0))
        return a.make_pose(a.make_vec3(none, none, none), a.make_quat(none, none, none, none))

    @wp.func
    def matrix(q: quat):
        """Return the rotation matrix of a unit quaternion."""
        two = scalar(2.0)
        xx = a.mul(q[0], q[0])
        yy = a.mul(q[1], q[1])
        zz = a.mul(q[2], q[2])
        xy = a.mul(q[0], q[1])
        xz = a.mul(q[0], q[2])
        yz = a.mul(q[1], q[2])
        xw = a.mul(q[0], q[3])
        yw = a.mul(q[1], q[3])
        zw = a.mul(q[2], q[3])
        one = a.real(scalar(1.0))
        return a.mat_rows(
            a.make_vec3(one - two * (yy + zz), two * (xy - zw), two * (xz + yw)),
            a.make_vec3(two * (xy + zw), one - two * (xx + zz), two * (yz - xw)),
            a.make_vec3(two * (xz - yw), two * (yz + xw), one - two * (xx + yy)),
        )

    @wp.func
    def axial(m: mat33, n: mat33):
        """Return (12 - 21, 20 - 02, 01 - 10) of the product m n': the sum of column x column over those of m and n."""
        x = a.mat_row(m, 0)
        y = a.mat_row(m, 1)
        z = a.mat_row(m, 2)
        x_other = a.mat_row(n, 0)
        y_other = a.mat_row(n, 1)
        z_other = a.mat_row(n, 2)
        return a.make_vec3(
            a.dot(y, z_other) - a.dot(z, y_other),
            a.dot(z, x_other) - a.dot(x, z_other),
            a.dot(x, y_other) - a.dot(y, x_other),
        )

    @wp.func
    def turn_of_quaternion(q: quat, q_bar: quat):
        """Return the derivative in a world rotation, from that in the unit quaternion it turns."""
        v = imaginary(q)
        v_bar = imaginary(q_bar)
        return scalar(0.5) * (a.scale(q[3], v_bar) + a.cross(v, v_bar) - a.scale(q_bar[3], v))

    @wp.func
    def quaternion_of_turn(q: quat, turn: vec3):
        """Return the derivative in a unit quaternion, tangent to the unit sphere, from that in a rotation to the left
        of it.
        """
        v = imaginary(q)
        v_bar = scalar(2.0) * (a.scale(q[3], turn) - a.cross(v, turn))
        return a.make_quat(v_bar[0], v_bar[1], v_bar[2], scalar(-2.0) * a.dot(turn, v))

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
