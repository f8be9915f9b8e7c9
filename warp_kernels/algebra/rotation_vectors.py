"""Rotation vectors: between them and unit quaternions, and their rates."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def rotation_vector_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of rotation vectors for one precision, smooth at the identity."""
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

    @wp.func
    def rotation_vector_rate(v: vec3, velocity: vec3):
        """Rate of the rotation vector v, up to 2 pi long, of axes that turn with a velocity along these axes.

        ``v' = w + v x w / 2 + k v x (v x w)`` with ``k = (1 - n / 2 cot(n / 2)) / n^2``, n the length of v: the inverse of the derivative of
        the exponential map (Iserles et al., *Lie-group methods*, 2000).
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
