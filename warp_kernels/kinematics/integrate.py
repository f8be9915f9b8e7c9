"""Integration and difference on the configuration manifold.

Free joints: position moves along the linear velocity, orientation turns by the angular velocity, both along world axes.
Spherical joints turn by the angular velocity in the child frame. Quaternions are normalised on entry.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import FREE, SPHERICAL, kernel_module, warp_types


@functools.cache
def rotation_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions between rotation vectors and unit quaternions for one precision, smooth at the identity."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    array2d = wp.array2d(dtype=scalar)

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
    def unit_quaternion(q: array2d, world: int, start: int):
        return wp.normalize(quat(q[world, start], q[world, start + 1], q[world, start + 2], q[world, start + 3]))

    return SimpleNamespace(rotation_exp=rotation_exp, rotation_log=rotation_log, unit_quaternion=unit_quaternion)


@functools.cache
def integrate_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels for one precision, launched over (link, world), with Warp's own adjoint."""
    rotations = rotation_functions(scalar)
    vec3 = warp_types(scalar).vec3
    module = kernel_module("integrate", scalar)

    @wp.kernel(module=module)
    def integrate(
        # Model
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dt: scalar,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        # Data out
        q_next: wp.array2d(dtype=scalar),
    ):
        link, world = wp.tid()
        kind = joint_type[link]
        i = joint_q_start[link]
        k = joint_qd_start[link]
        if kind == SPHERICAL or kind == FREE:
            if kind == FREE:
                for axis in range(wp.static(3)):
                    q_next[world, i + axis] = q[world, i + axis] + dt * qd[world, k + axis]
                i += 3
                k += 3
            turn = rotations.rotation_exp(dt * vec3(qd[world, k], qd[world, k + 1], qd[world, k + 2]))
            before = rotations.unit_quaternion(q, world, i)
            after = before * turn
            if kind == FREE:
                after = turn * before
            after = wp.normalize(after)
            for part in range(wp.static(4)):
                q_next[world, i + part] = after[part]
        else:
            for k_scalar in range(k, joint_qd_start[link + 1]):
                q_next[world, i] = q[world, i] + dt * qd[world, k_scalar]

    @wp.kernel(module=module)
    def difference(
        # Model
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Data in
        q0: wp.array2d(dtype=scalar),
        q1: wp.array2d(dtype=scalar),
        # Data out
        qd: wp.array2d(dtype=scalar),
    ):
        """The velocity that takes q0 to q1 in one unit of time."""
        link, world = wp.tid()
        kind = joint_type[link]
        i = joint_q_start[link]
        k = joint_qd_start[link]
        if kind == SPHERICAL or kind == FREE:
            if kind == FREE:
                for axis in range(wp.static(3)):
                    qd[world, k + axis] = q1[world, i + axis] - q0[world, i + axis]
                i += 3
                k += 3
            before = rotations.unit_quaternion(q0, world, i)
            after = rotations.unit_quaternion(q1, world, i)
            turn = wp.quat_inverse(before) * after
            if kind == FREE:
                turn = after * wp.quat_inverse(before)
            v = rotations.rotation_log(turn)
            for axis in range(wp.static(3)):
                qd[world, k + axis] = v[axis]
        else:
            for k_scalar in range(k, joint_qd_start[link + 1]):
                qd[world, k_scalar] = q1[world, i] - q0[world, i]

    return SimpleNamespace(module=module, integrate=integrate, difference=difference)
