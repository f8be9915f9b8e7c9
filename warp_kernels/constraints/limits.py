"""Rows of joint limits, hard or compliant: of one coordinate, or of the swing and twist of a spherical joint.

With the unit quaternion (v, w) from parent to child and the axis a, fixed in the child: swing is the angle from a to
the rotated a, twist is 2 atan2(v . a, w), the angle of the rotation about a in the swing-twist decomposition. The whole
angle is 2 atan2(|v|, w), with the sign of the quaternion for which w isn't negative. Rows act on the child's angular
velocity along its own axes.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.kinds import is_second
from warp_kernels.constraints.shared import compliance_functions, row_functions
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def limit_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of limit rows for one precision."""
    vec2 = warp_types(scalar).vec2
    common = row_functions(scalar)
    soft = compliance_functions(scalar)
    structs = solver_structs(scalar)
    Options, Limits = structs.Options, structs.Limits

    @wp.func
    def cutoff(options: Options, speed: scalar):
        """Return the gap below which a limit is listed: the distance that may close in the step. Zero if limits act
        only once they are passed.
        """
        if options.limit_margin < scalar(0.0):
            return scalar(0.0)
        return options.limit_margin + options.dt * wp.abs(speed)

    @wp.func
    def limit_gap(limits: Limits, kind: int, dof: int, value: scalar, world: int):
        """Return the distance of a joint at ``value`` from the onset of its limit, negative past it."""
        gap = value
        if is_second(kind):
            gap = common.value_of(limits.upper, world, dof) - value
        else:
            gap -= common.value_of(limits.lower, world, dof)
        return gap - common.value_of(limits.margin, world, dof)

    @wp.func
    def limit_bias(limits: Limits, dof: int, gap: scalar, options: Options, world: int):
        """Return bias and compliance."""
        stiffness = common.value_of(limits.stiffness, world, dof)
        if wp.isfinite(stiffness):
            damping = common.value_of(limits.damping, world, dof)
            return vec2(
                soft.compliant_bias(gap, stiffness, damping, options.dt),
                soft.compliance(stiffness, damping, options.dt),
            )
        return common.stabilisation(gap, options.max_correction, options, world)

    @wp.func
    def limit_bias_adjoint(
        limits: Limits,
        dof: int,
        gap: scalar,
        options: Options,
        world: int,
        bias_bar: scalar,
        compliance_bar: scalar,
        bars: Limits,
        options_bar: Options,
    ):
        """Add to the adjoints of stiffness, damping and the options; return that of the gap."""
        stiffness = common.value_of(limits.stiffness, world, dof)
        if wp.isfinite(stiffness):
            damping = common.value_of(limits.damping, world, dof)
            found = soft.compliance_adjoint(gap, stiffness, damping, options.dt, bias_bar, compliance_bar)
            common.add_at(bars.stiffness, world, dof, found[1])
            common.add_at(bars.damping, world, dof, found[2])
            return found[0]
        return common.stabilisation_adjoint(
            gap, options.max_correction, options, world, bias_bar, compliance_bar, options_bar
        )

    @wp.func
    def limit_adjoint(
        limits: Limits,
        kind: int,
        dof: int,
        value: scalar,
        options: Options,
        world: int,
        bias_bar: scalar,
        compliance_bar: scalar,
        bars: Limits,
        options_bar: Options,
    ):
        """Add to the adjoints of a limit's parameters and of the options; return that of the joint's position."""
        gap = limit_gap(limits, kind, dof, value, world)
        gap_bar = limit_bias_adjoint(limits, dof, gap, options, world, bias_bar, compliance_bar, bars, options_bar)
        common.add_at(bars.margin, world, dof, -gap_bar)
        if is_second(kind):
            common.add_at(bars.upper, world, dof, gap_bar)
            return -gap_bar
        common.add_at(bars.lower, world, dof, -gap_bar)
        return gap_bar

    return SimpleNamespace(
        cutoff=cutoff,
        limit_gap=limit_gap,
        limit_bias=limit_bias,
        limit_bias_adjoint=limit_bias_adjoint,
        limit_adjoint=limit_adjoint,
    )


# Kinds of limit; the third is of the whole rotation.
SWING, TWIST = range(2)


@functools.cache
def cone_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel ``evaluate_cones`` for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    module = kernel_module("cones", scalar, inlined=True)
    zero = scalar(0.0)
    # Closer to a direction in which an angle has no gradient, the row is zero and inactive.
    singular = scalar(1.0e-6)

    @wp.func
    def swing(rotation: quat, axis: vec3):
        """Return the swing angle, and its rate per angular velocity of the child along the child's axes."""
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
        """Return the twist angle without its sign, and its rate per angular velocity of the child along the child's
        axes.
        """
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
        """Return the angle of rotation, and its rate per angular velocity of the child along the child's axes."""
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
        """Compute the remaining angle to each limit, negative past it, and its rate per degree of freedom, over (cone,
        world).
        """
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
