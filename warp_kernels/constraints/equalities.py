"""Rows of equality constraints: two frames with coincident origins, or origins and axes; two coupled joints.

Kernels with Warp's own adjoint evaluate their smooth quantities, including the position error as a velocity bias.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.structs import Constrained, solver_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def equality_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels ``evaluate_anchors`` and ``evaluate_couplings`` for one precision."""
    t = warp_types(scalar)
    vec3, quat, transform, spatial, mat33 = t.vec3, t.quat, t.transform, t.spatial, t.mat33
    frames, sp = geometry_frame_functions(scalar), spatial_functions(scalar)
    common = row_functions(scalar)
    Options = solver_structs(scalar).Options
    module = kernel_module("equalities", scalar, inlined=True)

    @wp.func
    def rotation_vector(q: quat):
        """Return axis times angle, at most half a turn, of a unit quaternion."""
        v = vec3(q[0], q[1], q[2])
        w = q[3]
        if w < scalar(0.0):
            v = -v
            w = -w
        square = wp.dot(v, v)
        factor = scalar(2.0)
        if square > scalar(1.0e-8):
            sine = wp.sqrt(square)
            factor = scalar(2.0) * wp.atan2(sine, w) / sine
        else:
            x = square / (w * w)
            factor = scalar(2.0) / w * (scalar(1.0) - x / scalar(3.0) + x * x / scalar(5.0))
        return v * factor

    @wp.func
    def correction(error: vec3, change: vec3, options: Options, world: int):
        """Return the velocity bias that removes an error, no larger than the largest correction and ``change``
        together.
        """
        most = options.max_correction
        square = wp.dot(change, change)
        if square > scalar(0.0):
            most += wp.sqrt(square)
        bias = error * (options.erp / common.recovery(options, world))
        square = wp.dot(bias, bias)
        if square > most * most:
            bias = bias * (most / wp.sqrt(square))
        return bias

    @wp.func
    def angular(motion: wp.array2d(dtype=spatial), link: int, world: int):
        """Return the angular velocity or acceleration of a link; zero for the world."""
        if link >= 0:
            return sp.angular(motion[link, world])
        return vec3()

    @wp.func
    def point_acceleration(
        link: int,
        anchor: transform,
        pose: wp.array2d(dtype=transform),
        bias_velocity: wp.array2d(dtype=spatial),
        bias_acceleration: wp.array2d(dtype=spatial),
        world: int,
    ):
        """Return the acceleration of an anchor's origin at zero joint accelerations."""
        if link < 0:
            return vec3()
        p = wp.transform_point(pose[link, world], wp.transform_get_translation(anchor))
        v = bias_velocity[link, world]
        return sp.point_velocity(bias_acceleration[link, world], p) + wp.cross(sp.angular(v), sp.point_velocity(v, p))

    @wp.func
    def placed_origin(
        link: int,
        anchor: transform,
        reference: int,
        link_tree: wp.array(dtype=int),
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        origin_low: wp.array2d(dtype=vec3),
        world: int,
    ):
        """Return the origin of an anchor, relative to the origin of the reference tree."""
        point = wp.transform_get_translation(anchor)
        if link >= 0:
            point = wp.transform_point(pose[link, world], point)
        point += frames.origin_offset(link, reference, link_tree, origin, world)
        if wp.static(scalar == wp.float32):
            point += frames.low_offset(link, reference, link_tree, origin_low, world)
        return point

    @wp.func
    def anchor_orientation(link: int, anchor: transform, pose: wp.array2d(dtype=transform), world: int):
        q = wp.normalize(wp.transform_get_rotation(anchor))
        if link >= 0:
            q = wp.transform_get_rotation(pose[link, world]) * q
        return q

    @wp.func
    def resolved_share(link_a: int, link_b: int, bias_velocity: wp.array2d(dtype=spatial), dt: scalar, world: int):
        """Return the fraction of the drift that a step can compensate: zero for links that turn by radians in it, whose
        drift isn't a parabola.
        """
        spin_a = angular(bias_velocity, link_a, world)
        spin_b = angular(bias_velocity, link_b, world)
        square = dt * dt * (wp.dot(spin_a, spin_a) + wp.dot(spin_b, spin_b))
        return scalar(1.0) / (scalar(1.0) + square * square)

    @wp.kernel(module=module)
    def evaluate_anchors(
        # Model
        link_tree: wp.array(dtype=int),
        constrained: Constrained,
        options: Options,
        # Parameters
        anchor_a: wp.array2d(dtype=transform),
        anchor_b: wp.array2d(dtype=transform),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        origin_low: wp.array2d(dtype=vec3),
        bias_velocity: wp.array2d(dtype=spatial),
        bias_acceleration: wp.array2d(dtype=spatial),
        # Data out
        anchor_point: wp.array2d(dtype=vec3),
        anchor_error: wp.array2d(dtype=vec3),
        anchor_frame: wp.array2d(dtype=mat33),
        anchor_bias: wp.array2d(dtype=vec3),
        anchor_turn: wp.array2d(dtype=vec3),
    ):
        """Evaluate each anchor of each world, over (anchor, world): the point midway between both origins, relative to
        the origin of the pair's reference tree; the velocity biases that remove the distance of b from a and, for a
        weld, the rotation from a to b, both along world axes.

        anchor_frame: identities, until :mod:`warp_kernels.solver.newton.whitening` finds the frames of the rows.
        """
        i, world = wp.tid()
        link_a = constrained.anchor_link_a[i]
        link_b = constrained.anchor_link_b[i]
        reference = frames.reference_tree(link_a, link_b, link_tree)
        a = anchor_a[wp.min(world, anchor_a.shape[0] - 1), i]
        b = anchor_b[wp.min(world, anchor_b.shape[0] - 1), i]
        point_a = placed_origin(link_a, a, reference, link_tree, pose, origin, origin_low, world)
        point_b = placed_origin(link_b, b, reference, link_tree, pose, origin, origin_low, world)
        anchor_point[i, world] = scalar(0.5) * (point_a + point_b)
        drift = point_acceleration(link_b, b, pose, bias_velocity, bias_acceleration, world)
        drift -= point_acceleration(link_a, a, pose, bias_velocity, bias_acceleration, world)
        # Half of the drift in a step at constant joint rates is the mean over the step.
        half_step = scalar(0.5) * options.dt * resolved_share(link_a, link_b, bias_velocity, options.dt, world)
        change = half_step * drift
        bias = correction(point_b - point_a, change, options, world)
        anchor_error[2 * i, world] = bias
        anchor_bias[i, world] = bias + change
        turn = anchor_orientation(link_b, b, pose, world) * wp.quat_inverse(anchor_orientation(link_a, a, pose, world))
        turning = angular(bias_acceleration, link_b, world) - angular(bias_acceleration, link_a, world)
        change_turn = half_step * turning
        bias_turn = correction(rotation_vector(turn), change_turn, options, world)
        anchor_error[2 * i + 1, world] = bias_turn
        anchor_turn[i, world] = bias_turn + change_turn
        for row in range(2):
            anchor_frame[2 * i + row, world] = wp.identity(n=3, dtype=scalar)

    @wp.kernel(module=module)
    def evaluate_couplings(
        # Model
        dof_q: wp.array(dtype=int),
        constrained: Constrained,
        options: Options,
        # Parameters
        coupling_ratio: wp.array2d(dtype=scalar),
        coupling_offset: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        coupling_bias: wp.array2d(dtype=scalar),
    ):
        """Compute the velocity bias that removes q - ratio q_other - offset, over (coupling, world)."""
        i, world = wp.tid()
        ratio = coupling_ratio[wp.min(world, coupling_ratio.shape[0] - 1), i]
        offset = coupling_offset[wp.min(world, coupling_offset.shape[0] - 1), i]
        error = (
            q[world, dof_q[constrained.coupling_dof[i]]]
            - ratio * q[world, dof_q[constrained.coupling_other[i]]]
            - offset
        )
        coupling_bias[i, world] = wp.clamp(
            error * (options.erp / common.recovery(options, world)), -options.max_correction, options.max_correction
        )

    return SimpleNamespace(
        module=module,
        evaluate_anchors=evaluate_anchors,
        evaluate_couplings=evaluate_couplings,
        placed_origin=placed_origin,
        anchor_orientation=anchor_orientation,
        angular=angular,
        point_acceleration=point_acceleration,
    )
