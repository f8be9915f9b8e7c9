"""Rotations and poses in terms of the basic functions."""

from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import lane_types


def rotation_functions(scalar: Any, lanes: int, a: SimpleNamespace) -> SimpleNamespace:
    """Functions of quaternions and poses for a precision and number of lanes, from the basic ones ``a``."""
    t = lane_types(scalar, lanes)
    real, vec3, quat, transform = t.real, t.vec3, t.quat, t.transform

    @wp.func
    def imaginary(q: quat):
        return a.make_vec3(q[0], q[1], q[2])

    @wp.func
    def product(p: quat, q: quat):
        """Rotation by q, then by p."""
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
    def unit(q: quat):
        """The quaternion with length one."""
        over = a.div(
            a.real(scalar(1.0)),
            a.root(a.mul(q[0], q[0]) + a.mul(q[1], q[1]) + a.mul(q[2], q[2]) + a.mul(q[3], q[3])),
        )
        return a.make_quat(a.mul(q[0], over), a.mul(q[1], over), a.mul(q[2], over), a.mul(q[3], over))

    @wp.func
    def matrix(q: quat):
        """The rotation matrix of a unit quaternion."""
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

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Function)})
