"""Weights of the springs of spherical and free joints in a step from the middle, those of :mod:`warp_kernels.solver.midpoint.joint_weights`.

The step has the spring's force in the middle, less ``h K (ph v + tk x)``. That is exact for positions, and for rotations to
first order in the rotation vector; for larger ones it pulls more, since the slope of the torque across the rotation vector
decreases with its length.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.solver.midpoint.joint_weights import spring_softness
from warp_kernels.solver.structs import solver_structs
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def pose_spring_weight_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision and a number of worlds in a lane group, over (sprung dof, group)."""
    t, a = lane_types(scalar, lanes), algebra(scalar, lanes)
    array2d, reals = wp.array2d(dtype=scalar), wp.array2d(dtype=t.real)
    JointParameters, Beginning = solver_structs(scalar).JointParameters, solver_structs(scalar).Beginning
    module = kernel_module("pose_spring_weights", scalar, lanes)
    softness = spring_softness(scalar, lanes)
    one, quarter, rest = scalar(1.0), scalar(0.25), scalar(0.75)

    @wp.kernel(module=module, enable_backward=False)
    def weigh_pose_springs(
        # Model
        sprung: wp.array(dtype=int),
        joint_inertia: wp.array(dtype=scalar),
        dt: scalar,
        # Parameters
        joints: JointParameters,
        # Data out
        joint_damping_now: array2d,
        joint_diagonal: reals,
    ):
        """Add h ph K to the damping of the velocity in the middle [world, dof], and h^2 tk K to the implicit terms [dof,
        group].
        """
        number, group = wp.tid()
        k = sprung[number]
        spring = a.load_param_scalar(joints.stiffness, group, k)
        ahead = a.real(one) - softness(dt, spring, joint_inertia[k])
        a.store(joint_damping_now, group, k, a.load(joint_damping_now, group, k) + dt * a.mul(spring, ahead))
        joint_diagonal[k, group] = joint_diagonal[k, group] + (dt * dt) * a.mul(spring, a.real(quarter) + rest * ahead)

    @wp.kernel(module=module, enable_backward=False)
    def weigh_pose_springs_adjoint(
        # Model
        sprung: wp.array(dtype=int),
        joint_inertia: wp.array(dtype=scalar),
        dt: scalar,
        # Parameters
        joints: JointParameters,
        # Data in
        beginning: Beginning,
        qdd: array2d,
        # Adjoint in
        motion_weight: array2d,
        mass_bar_diagonal: reals,
        # Adjoint out
        joints_bar: JointParameters,
    ):
        """Add the gradient in stiffness of what ``weigh_pose_springs`` adds; that in the velocity is with the damping."""
        number, group = wp.tid()
        if joints_bar.stiffness.shape[0] == 0:
            return
        k = sprung[number]
        w = -a.load_bar(motion_weight, group, k)
        diagonal = mass_bar_diagonal[k, group] - a.mul(w, a.load(qdd, group, k))
        spring = a.load_param_scalar(joints.stiffness, group, k)
        soft = softness(dt, spring, joint_inertia[k])
        slope = a.real(one) - soft
        slope += (dt * dt / joint_inertia[k]) * a.mul(spring, a.mul(soft, soft))
        bar = (dt * dt) * a.mul(diagonal, a.real(quarter) + rest * slope)
        bar -= dt * a.mul(w, a.mul(slope, a.load(beginning.qd, group, k)))
        a.add_scalar(joints_bar.stiffness, group, k, bar)

    return SimpleNamespace(
        module=module,
        weigh_pose_springs=weigh_pose_springs,
        weigh_pose_springs_adjoint=weigh_pose_springs_adjoint,
    )
