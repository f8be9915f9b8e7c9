"""Equality constraints under MuJoCo's law: points, biases, R; differentiated by Warp's own adjoint.

Each anchor moves with its own link. For an orientation MuJoCo uses the vector part e of the quaternion from one anchor
to the other, times a ``torque_scale``, and its derivative in the relative angular velocity; the impedance of a weld
depends on the length of displacement and e together. In addition to the reference, the bias contains the acceleration
of these rows due to the motion alone: h times the time derivative of J, times v.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.constraints.equalities import equality_kernels
from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.mujoco.references import reference_functions
from warp_kernels.solver.structs import Constrained
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def equality_reference_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision over (constraint, world)."""
    t = warp_types(scalar)
    vec2, vec3, vec5, mat33 = t.vec2, t.vec3, t.vec5, t.mat33
    quat, transform, spatial = t.quat, t.transform, t.spatial
    law, equalities = reference_functions(scalar), equality_kernels(scalar)
    frames = geometry_frame_functions(scalar)
    common = row_functions(scalar)
    module = kernel_module("mujoco_equality_references", scalar, inlined=True)
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def vector_part(q: quat):
        return vec3(q[0], q[1], q[2])

    @wp.func
    def rate_of_turn(first: quat, second: quat, axis: vec3):
        """Return the derivative of the vector part of the quaternion from one orientation to another that turns about
        an axis of the world.
        """
        turning = quat(axis[0], axis[1], axis[2], zero)
        return scalar(0.5) * vector_part(wp.quat_inverse(first) * turning * second)

    @wp.kernel(module=module)
    def anchor_references(
        # Model
        link_tree: wp.array(dtype=int),
        constrained: Constrained,
        anchor_inverse_weight: wp.array(dtype=vec2),
        anchor_torque_scale: wp.array(dtype=scalar),
        anchor_solref: wp.array(dtype=vec2),
        anchor_solimp: wp.array(dtype=vec5),
        dt: scalar,
        # Parameters
        anchor_a: wp.array2d(dtype=transform),
        anchor_b: wp.array2d(dtype=transform),
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        origin_low: wp.array2d(dtype=vec3),
        bias_velocity: wp.array2d(dtype=spatial),
        bias_acceleration: wp.array2d(dtype=spatial),
        # Data out
        anchor_point: wp.array2d(dtype=vec3),
        anchor_apart: wp.array2d(dtype=vec3),
        anchor_bias: wp.array2d(dtype=vec3),
        anchor_turn: wp.array2d(dtype=vec3),
        anchor_frame: wp.array2d(dtype=mat33),
        anchor_reference: wp.array2d(dtype=vec3),
    ):
        """Compute the references of anchors. See :class:`Equalities` and :class:`References` of
        :mod:`warp_kernels.solver.structs`; all are of b minus a.
        """
        i, world = wp.tid()
        link_a = constrained.anchor_link_a[i]
        link_b = constrained.anchor_link_b[i]
        reference = frames.reference_tree(link_a, link_b, link_tree)
        a = anchor_a[wp.min(world, anchor_a.shape[0] - 1), i]
        b = anchor_b[wp.min(world, anchor_b.shape[0] - 1), i]
        point_a = equalities.placed_origin(link_a, a, reference, link_tree, pose, origin, origin_low, world)
        point_b = equalities.placed_origin(link_b, b, reference, link_tree, pose, origin, origin_low, world)
        anchor_point[i, world] = scalar(0.5) * (point_a + point_b)
        apart = point_b - point_a
        anchor_apart[i, world] = apart
        anchor_frame[2 * i, world] = wp.identity(n=3, dtype=scalar)
        square = wp.dot(apart, apart)
        turn = vec3()
        turn_rate = vec3()
        if constrained.anchor_welded[i] == 1:
            first = equalities.anchor_orientation(link_a, a, pose, world)
            second = equalities.anchor_orientation(link_b, b, pose, world)
            scale = anchor_torque_scale[i]
            turn = -scale * vector_part(wp.quat_inverse(second) * first)
            square += wp.dot(turn, turn)
            spin_a = equalities.angular(bias_velocity, link_a, world)
            spin_b = equalities.angular(bias_velocity, link_b, world)
            spin = spin_b - spin_a
            gain = equalities.angular(bias_acceleration, link_b, world) - equalities.angular(
                bias_acceleration, link_a, world
            )
            gain += wp.cross(spin_b, spin_a)
            turning = quat(gain[0], gain[1], gain[2], scalar(0.5) * wp.dot(spin, spin))
            turn_rate = (scalar(0.5) * scale) * vector_part(wp.quat_inverse(second) * turning * first)
            anchor_frame[2 * i + 1, world] = scale * wp.matrix_from_cols(
                rate_of_turn(second, first, vec3(one, zero, zero)),
                rate_of_turn(second, first, vec3(zero, one, zero)),
                rate_of_turn(second, first, vec3(zero, zero, one)),
            )
        distance = zero
        if square > zero:
            distance = wp.sqrt(square)
        stiffening = law.solimp_of(anchor_solimp[i], solimp, world)
        d = law.impedance(stiffening, distance)
        rate = law.rates(law.solref_of(anchor_solref[i], solref, world), stiffening, dt)
        drift = equalities.point_acceleration(link_b, b, pose, bias_velocity, bias_acceleration, world)
        drift -= equalities.point_acceleration(link_a, a, pose, bias_velocity, bias_acceleration, world)
        anchor_bias[i, world] = dt * (rate[1] * d * apart + drift)
        anchor_turn[i, world] = dt * (rate[1] * d * turn + turn_rate)
        weight = anchor_inverse_weight[i]
        anchor_reference[2 * i, world] = vec3(zero, (one - d) / d * weight[0], dt * rate[0])
        anchor_reference[2 * i + 1, world] = vec3(zero, (one - d) / d * weight[1], dt * rate[0])

    @wp.kernel(module=module)
    def coupling_references(
        # Model
        dof_q: wp.array(dtype=int),
        constrained: Constrained,
        dof_inverse_weight: wp.array(dtype=scalar),
        coupling_solref: wp.array(dtype=vec2),
        coupling_solimp: wp.array(dtype=vec5),
        dt: scalar,
        # Parameters
        coupling_ratio: wp.array2d(dtype=scalar),
        coupling_offset: wp.array2d(dtype=scalar),
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        coupling_reference: wp.array2d(dtype=vec3),
    ):
        """Compute the references of q - ratio q_other - offset."""
        i, world = wp.tid()
        k = constrained.coupling_dof[i]
        other = constrained.coupling_other[i]
        error = q[world, dof_q[k]] - common.value_of(coupling_offset, world, i)
        error -= common.value_of(coupling_ratio, world, i) * q[world, dof_q[other]]
        weight = dof_inverse_weight[k] + dof_inverse_weight[other]
        softness = law.solref_of(coupling_solref[i], solref, world)
        stiffening = law.solimp_of(coupling_solimp[i], solimp, world)
        coupling_reference[i, world] = law.reference(softness, stiffening, error, weight, dt)

    return SimpleNamespace(module=module, anchor_references=anchor_references, coupling_references=coupling_references)
