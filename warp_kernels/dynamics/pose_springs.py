"""Springs of spherical and free joints, which pull towards a reference pose.

The position of a free joint has one spring along each world axis. A rotation is the rotation vector v from the
reference to the present orientation, along the axes of the joint's angular velocity and at most pi long. Its energy is
``v' K v / 2`` with the diagonal K of stiffnesses, so that its torque is ``-B(v)' K v``, where ``v' = B(v) w``. If all
three stiffnesses are k, that is ``-k v``, MuJoCo's spring (``mj_passive``).

Half a turn away from the reference the energy has its maximum and a kink: v may have either sign there, so that the
torque changes its sign. At exactly pi v has the sign of the quaternion.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra.rotations import rotation_vector_functions
from warp_kernels.kinematics.joints import joint_motion_functions
from warp_kernels.types import FREE, kernel_module, warp_types


@functools.cache
def pose_spring_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, with Warp's own adjoint."""
    t, joints, rotations = warp_types(scalar), joint_motion_functions(scalar), rotation_vector_functions(scalar)
    vec3, quat = t.vec3, t.quat
    module = kernel_module("pose_springs", scalar, inlined=True)
    damping_module, energy_module = (
        kernel_module(f"pose_spring_{name}", scalar, inlined=True) for name in ("damping", "energy")
    )

    @wp.func
    def entries(values: wp.array2d(dtype=scalar), world: int, first: int):
        row = wp.min(world, values.shape[0] - 1)
        return vec3(values[row, first], values[row, first + 1], values[row, first + 2])

    @wp.func
    def turn_from_rest(kind: int, q: wp.array2d(dtype=scalar), rest: vec3, world: int, start: int):
        """Return the rotation vector from the reference to the quaternion at ``start``."""
        given = quat(q[world, start], q[world, start + 1], q[world, start + 2], q[world, start + 3])
        turn = joints.turn_between(kind, rotations.rotation_exp(rest), wp.normalize(given))
        return rotations.rotation_log(turn)

    @wp.func
    def torque_of(kind: int, turn: vec3, stiffness: vec3):
        """Return B(v)' K v."""
        pull = wp.cw_mul(stiffness, turn)
        axes = -turn
        if kind == FREE:
            axes = turn
        return rotations.rotation_vector_rate(axes, pull)

    @wp.kernel(module=module)
    def pose_spring_forces(
        # Model
        sprung_link: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        sign: scalar,
        # Parameters
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        joint_force: wp.array2d(dtype=scalar),
    ):
        """Add ``sign`` times the forces of springs, over (sprung joint, world)."""
        slot, world = wp.tid()
        link = sprung_link[slot]
        kind = joint_type[link]
        at = joint_q_start[link]
        k = joint_qd_start[link]
        lines = joints.linear_coordinates(kind)
        if lines == 3:
            away = entries(q, world, at) - entries(rest_position, world, k)
            pull = wp.cw_mul(entries(stiffness, world, k), away)
            for i in range(3):
                joint_force[world, k + i] -= sign * pull[i]
        turn = turn_from_rest(kind, q, entries(rest_position, world, k + lines), world, at + lines)
        torque = torque_of(kind, turn, entries(stiffness, world, k + lines))
        for i in range(3):
            joint_force[world, k + lines + i] -= sign * torque[i]

    @wp.kernel(module=energy_module)
    def pose_spring_energy(
        # Model
        sprung_link: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        joint_q_start: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Parameters
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        # Data out
        energy: wp.array(dtype=scalar),
    ):
        """Add the energy of springs, over worlds."""
        world = wp.tid()
        half = scalar(0.5)
        for slot in range(sprung_link.shape[0]):
            link = sprung_link[slot]
            kind = joint_type[link]
            at = joint_q_start[link]
            k = joint_qd_start[link]
            lines = joints.linear_coordinates(kind)
            if lines == 3:
                away = entries(q, world, at) - entries(rest_position, world, k)
                energy[world] += half * wp.dot(away, wp.cw_mul(entries(stiffness, world, k), away))
            turn = turn_from_rest(kind, q, entries(rest_position, world, k + lines), world, at + lines)
            energy[world] += half * wp.dot(turn, wp.cw_mul(entries(stiffness, world, k + lines), turn))

    @wp.kernel(module=damping_module)
    def damping_with_springs(
        # Model
        sprung_dof: wp.array(dtype=int),
        ahead: scalar,
        # Parameters
        damping: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        # Data out
        sprung_damping: wp.array2d(dtype=scalar),
    ):
        """Compute the damping of joints, of sprung ones with what a spring changes ``ahead`` after its position, over
        (dof, world).
        """
        k, world = wp.tid()
        total = damping[wp.min(world, damping.shape[0] - 1), k]
        if sprung_dof[k] == 1:
            total += ahead * stiffness[wp.min(world, stiffness.shape[0] - 1), k]
        sprung_damping[world, k] = total

    return SimpleNamespace(
        modules=(module, damping_module, energy_module),
        pose_spring_forces=pose_spring_forces,
        pose_spring_energy=pose_spring_energy,
        damping_with_springs=damping_with_springs,
    )
