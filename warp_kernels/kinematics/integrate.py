"""Integration and difference on the configuration manifold."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.kinematics.joints import joint_motion_functions
from warp_kernels.kinematics.low_words import low_word_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def integrate_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision: ``integrate`` and its adjoint, whose threads share the links of a world,
    and ``difference`` over (link, world), with Warp's own adjoint.
    """
    joints, rotations = joint_motion_functions(scalar), rotation_vector_functions(scalar)
    vec3, quat = warp_types(scalar).vec3, warp_types(scalar).quat
    words = low_word_functions(scalar)
    module, difference_module = kernel_module("integrate", scalar), kernel_module("difference", scalar, inlined=True)

    @wp.func
    def unit(q: quat):
        """Return the quaternion with length one; NaN for zero, and for a non-finite one."""
        return q * (scalar(1.0) / wp.length(q))

    @wp.func
    def unit_quaternion(q: wp.array2d(dtype=scalar), world: int, start: int):
        return unit(quat(q[world, start], q[world, start + 1], q[world, start + 2], q[world, start + 3]))

    @wp.func
    def turn_power(kind: int, before: quat, velocity: vec3, dt: scalar, after_bar: quat):
        """Return the quaternion of a joint after a step, times its adjoint."""
        return wp.dot(unit(joints.turned(kind, unit(before), rotations.rotation_exp(dt * velocity))), after_bar)

    @wp.kernel(module=module, enable_backward=False)
    def integrate(
        # Model
        threads: int,
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        low_start: wp.array(dtype=int),
        dt: scalar,
        # Data in
        q: wp.array2d(dtype=scalar),
        q_low: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        # Data out
        q_next: wp.array2d(dtype=scalar),
        q_low_next: wp.array2d(dtype=scalar),
    ):
        """Move coordinates. Positions have low words where ``low_start`` isn't negative, unless their arrays have no
        columns.
        """
        thread, world = wp.tid()
        for link in range(thread, joint_type.shape[0], threads):
            kind = joint_type[link]
            i = joint_q_start[link]
            k = joint_qd_start[link]
            count = joints.linear_coordinates(kind)
            for n in range(count):
                q_next[world, i + n] = q[world, i + n] + dt * qd[world, k + n]
            if q_low.shape[1] > 0:
                low = low_start[link]
                if low >= 0:
                    for n in range(count):
                        rest = scalar(0.0)
                        if words.is_far(q[world, i + n]):
                            moved = words.add_far(q[world, i + n], q_low[world, low + n], dt * qd[world, k + n])
                            q_next[world, i + n] = moved[0]
                            rest = moved[1]
                        q_low_next[world, low + n] = rest
            if joints.has_quaternion(kind):
                i += count
                k += count
                turn = rotations.rotation_exp(dt * vec3(qd[world, k], qd[world, k + 1], qd[world, k + 2]))
                after = unit(joints.turned(kind, unit_quaternion(q, world, i), turn))
                for part in range(wp.static(4)):
                    q_next[world, i + part] = after[part]

    @wp.kernel(module=module, enable_backward=False)
    def integrate_adjoint(
        # Model
        threads: int,
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        dt: scalar,
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        # Adjoint in
        q_next_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
    ):
        thread, world = wp.tid()
        for link in range(thread, joint_type.shape[0], threads):
            kind = joint_type[link]
            i = joint_q_start[link]
            k = joint_qd_start[link]
            count = joints.linear_coordinates(kind)
            for n in range(count):
                bar = q_next_bar[world, i + n]
                if q_bar.shape[0] > 0:
                    q_bar[world, i + n] += bar
                if qd_bar.shape[0] > 0:
                    qd_bar[world, k + n] += dt * bar
            if joints.has_quaternion(kind):
                i += count
                k += count
                _kind, before_bar, velocity_bar, _dt, _after_bar = wp.grad(turn_power)(
                    kind,
                    quat(q[world, i], q[world, i + 1], q[world, i + 2], q[world, i + 3]),
                    vec3(qd[world, k], qd[world, k + 1], qd[world, k + 2]),
                    dt,
                    quat(
                        q_next_bar[world, i],
                        q_next_bar[world, i + 1],
                        q_next_bar[world, i + 2],
                        q_next_bar[world, i + 3],
                    ),
                )
                if q_bar.shape[0] > 0:
                    for part in range(wp.static(4)):
                        q_bar[world, i + part] += before_bar[part]
                if qd_bar.shape[0] > 0:
                    for axis in range(wp.static(3)):
                        qd_bar[world, k + axis] += velocity_bar[axis]

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
        """Compute the velocity that moves q0 to q1 in one unit of time."""
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
        module=module,
        integrate=integrate,
        integrate_adjoint=integrate_adjoint,
        difference=difference,
        unit=unit,
        unit_quaternion=unit_quaternion,
    )
