"""Between rotation vectors and unit quaternions."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def rotation_vector_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions between rotation vectors and unit quaternions for one precision, smooth at the identity."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat

    @wp.func
    def rotation_exp(v: vec3):
        """Quaternion of the rotation vector v [rad]."""
        square = wp.dot(v, v)
        # Series about zero: the next terms are below 1e-16 here. A quotient of literals would be taken in float32.
        sine = scalar(0.5) - square * (scalar(1.0) / scalar(48.0) - square * scalar(1.0) / scalar(3840.0))
        cosine = scalar(1.0) - square * (scalar(1.0) / scalar(8.0) - square * scalar(1.0) / scalar(384.0))
        if square > scalar(1.0e-4):
            angle = wp.sqrt(square)
            sine = wp.sin(scalar(0.5) * angle) / angle
            cosine = wp.cos(scalar(0.5) * angle)
        return quat(sine * v[0], sine * v[1], sine * v[2], cosine)

    @wp.func
    def rotation_log(q: quat):
        """Rotation vector [rad] of a unit quaternion, at most pi long; q and -q are the same rotation."""
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

    return SimpleNamespace(rotation_exp=rotation_exp, rotation_log=rotation_log)
