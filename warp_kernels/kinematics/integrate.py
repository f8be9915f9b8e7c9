"""Integration and difference on the configuration manifold."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotation_vectors import rotation_vector_functions
from warp_kernels.kinematics.joints import joint_motion_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def integrate_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels for one precision, launched over (link, world), with Warp's own adjoint."""
    joints, rotations = joint_motion_functions(scalar), rotation_vector_functions(scalar)
    vec3, quat = warp_types(scalar).vec3, warp_types(scalar).quat
    module, difference_module = (kernel_module(name, scalar) for name in ("integrate", "difference"))

    @wp.func
    def unit(q: quat):
        """The quaternion with length one; NaN for zero, and for one that isn't finite."""
        return q * (scalar(1.0) / wp.length(q))

    @wp.func
    def unit_quaternion(q: wp.array2d(dtype=scalar), world: int, start: int):
        return unit(quat(q[world, start], q[world, start + 1], q[world, start + 2], q[world, start + 3]))

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
        count = joints.linear_coordinates(kind)
        for n in range(count):
            q_next[world, i + n] = q[world, i + n] + dt * qd[world, k + n]
        if joints.has_quaternion(kind):
            i += count
            k += count
            turn = rotations.rotation_exp(dt * vec3(qd[world, k], qd[world, k + 1], qd[world, k + 2]))
            after = unit(joints.turned(kind, unit_quaternion(q, world, i), turn))
            for part in range(wp.static(4)):
                q_next[world, i + part] = after[part]

    @wp.kernel(module=difference_module)
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
        count = joints.linear_coordinates(kind)
        for n in range(count):
            qd[world, k + n] = q1[world, i + n] - q0[world, i + n]
        if joints.has_quaternion(kind):
            i += count
            k += count
            turn = joints.turn_between(kind, unit_quaternion(q0, world, i), unit_quaternion(q1, world, i))
            v = rotations.rotation_log(turn)
            for axis in range(wp.static(3)):
                qd[world, k + axis] = v[axis]

    return SimpleNamespace(
        module=module, integrate=integrate, difference=difference, unit=unit, unit_quaternion=unit_quaternion
    )
