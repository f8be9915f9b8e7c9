"""Limits of spherical joints: how far the axis that the child carries swings from the parent's, how far the child twists about it, and how
far it turns about whichever axis.

With the unit quaternion (v, w) from parent to child and the axis a: swing is the angle from a to the turned a, twist is
2 atan2(v . a, w), the angle of the rotation about a in the decomposition into a twist and a swing. The whole angle is 2 atan2(|v|, w),
with the sign of the quaternion for which w isn't negative. Rows act on the child's angular velocity along its own axes.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module, warp_types

# Kinds of limit; the third is of the whole rotation.
SWING, TWIST = range(2)


@functools.cache
def cone_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``evaluate_cones`` of one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    module = kernel_module("cones", scalar, inlined=True)
    zero = scalar(0.0)
    # Nearer to a direction in which an angle has no gradient, the row is zero and holds nothing.
    singular = scalar(1.0e-6)

    @wp.func
    def swing(rotation: quat, axis: vec3):
        """Angle, and its rate per angular velocity of the child along the child's axes."""
        seen = wp.quat_rotate_inv(rotation, axis)  # the parent's axis along the child's
        across = wp.cross(seen, axis)
        sine = zero
        rate = vec3(zero, zero, zero)
        if wp.dot(across, across) > singular * singular:
            sine = wp.sqrt(wp.dot(across, across))
            rate = across / sine
        return wp.atan2(sine, wp.dot(seen, axis)), rate

    @wp.func
    def twist(rotation: quat, axis: vec3):
        """Angle without its sign, and its rate per angular velocity of the child along the child's axes."""
        v = vec3(rotation[0], rotation[1], rotation[2])
        w = rotation[3]
        if w < zero:
            v = -v
            w = -w
        along = wp.dot(v, axis)
        sign = scalar(1.0)
        if along < zero:
            sign = scalar(-1.0)
        square = w * w + along * along
        angle = zero
        rate = vec3(zero, zero, zero)
        if square > singular * singular:
            angle = scalar(2.0) * wp.atan2(sign * along, w)
            rate = (sign / square) * (w * (w * axis + wp.cross(axis, v)) + along * v)
        return angle, rate

    @wp.func
    def turn(rotation: quat):
        """Angle, and its rate per angular velocity of the child along the child's axes."""
        v = vec3(rotation[0], rotation[1], rotation[2])
        w = rotation[3]
        if w < zero:
            v = -v
            w = -w
        sine = zero
        rate = vec3(zero, zero, zero)
        if wp.dot(v, v) > singular * singular:
            sine = wp.sqrt(wp.dot(v, v))
            rate = v / sine
        return scalar(2.0) * wp.atan2(sine, w), rate

    @wp.kernel(module=module)
    def evaluate_cones(
        # Model
        joint_axis: wp.array(dtype=vec3),
        joint_q_start: wp.array(dtype=int),
        cone_link: wp.array(dtype=int),
        cone_kind: wp.array(dtype=int),
        # Parameters
        swing_limit: wp.array2d(dtype=scalar),
        twist_limit: wp.array2d(dtype=scalar),
        rotation_limit: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        cone_gap: wp.array2d(dtype=scalar),
        cone_row: wp.array2d(dtype=vec3),
    ):
        """Over (cone, world): the angle left to the limit, negative past it, and its rate per degree of freedom."""
        cone, world = wp.tid()
        link = cone_link[cone]
        start = joint_q_start[link]
        rotation = wp.normalize(quat(q[world, start], q[world, start + 1], q[world, start + 2], q[world, start + 3]))
        axis = joint_axis[link]
        if cone_kind[cone] == SWING:
            angle, rate = swing(rotation, axis)
            cone_gap[cone, world] = swing_limit[wp.min(world, swing_limit.shape[0] - 1), link] - angle
            cone_row[cone, world] = -rate
        elif cone_kind[cone] == TWIST:
            angle, rate = twist(rotation, axis)
            cone_gap[cone, world] = twist_limit[wp.min(world, twist_limit.shape[0] - 1), link] - angle
            cone_row[cone, world] = -rate
        else:
            angle, rate = turn(rotation)
            cone_gap[cone, world] = rotation_limit[wp.min(world, rotation_limit.shape[0] - 1), link] - angle
            cone_row[cone, world] = -rate

    return SimpleNamespace(module=module, evaluate_cones=evaluate_cones)
