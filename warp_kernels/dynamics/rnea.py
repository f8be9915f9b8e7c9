"""Inverse dynamics: recursive Newton-Euler algorithm and its adjoint, passive forces of joints, external wrenches."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.dynamics.newton_euler import newton_euler
from warp_kernels.types import kernel_module, lane_types


@functools.cache
def friction_functions(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the functions for one precision and a number of worlds in a lane group."""
    real, a = lane_types(scalar, lanes).real, algebra(scalar, lanes)

    @wp.func
    def force_against(loss: real, speed: real):
        """Return the joint force that compensates friction at a speed: loss times its sign, which is zero at rest."""
        return a.mul(loss, a.sign(speed))

    return SimpleNamespace(force_against=force_against)


@functools.cache
def rnea_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels of inverse dynamics for one precision and a number of worlds in a lane group.

    Those of external wrenches and of the gradient are in separate modules, which are compiled when needed.
    """
    t, a, dry = lane_types(scalar, lanes), algebra(scalar, lanes), friction_functions(scalar, lanes)
    transform, spatial, quat = t.transform, t.spatial, t.quat
    module, adjoint_module, wrench_module = (
        kernel_module(name, scalar, lanes) for name in ("rnea", "passive_force_adjoint", "wrenches")
    )

    @wp.kernel(module=module, enable_backward=False)
    def passive_force(
        # Model
        threads: int,
        dof_q: wp.array(dtype=int),
        # Parameters
        damping: wp.array2d(dtype=scalar),
        armature: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        friction_loss: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        # Data out
        tau: wp.array2d(dtype=scalar),
    ):
        """Compute joint forces that compensate rotor inertia, damping, spring and dry friction, over (thread, lane
        group).
        """
        thread, group = wp.tid()
        for k in range(thread, dof_q.shape[0], threads):
            speed = a.load(qd, group, k)
            force = a.mul(a.load_param_scalar(armature, group, k), a.load(qdd, group, k))
            force += a.mul(a.load_param_scalar(damping, group, k), speed)
            force += dry.force_against(a.load_param_scalar(friction_loss, group, k), speed)
            if dof_q[k] >= 0:
                stretch = a.load(q, group, dof_q[k]) - a.load_param_scalar(rest_position, group, k)
                force += a.mul(a.load_param_scalar(stiffness, group, k), stretch)
            a.store(tau, group, k, force)

    @wp.kernel(module=adjoint_module, enable_backward=False)
    def passive_force_adjoint(
        # Model
        threads: int,
        dof_q: wp.array(dtype=int),
        # Parameters
        damping: wp.array2d(dtype=scalar),
        armature: wp.array2d(dtype=scalar),
        stiffness: wp.array2d(dtype=scalar),
        rest_position: wp.array2d(dtype=scalar),
        # Data in
        q: wp.array2d(dtype=scalar),
        qd: wp.array2d(dtype=scalar),
        qdd: wp.array2d(dtype=scalar),
        # Adjoint in
        tau_bar: wp.array2d(dtype=scalar),
        # Adjoint out
        damping_bar: wp.array2d(dtype=scalar),
        armature_bar: wp.array2d(dtype=scalar),
        stiffness_bar: wp.array2d(dtype=scalar),
        rest_position_bar: wp.array2d(dtype=scalar),
        friction_loss_bar: wp.array2d(dtype=scalar),
        q_bar: wp.array2d(dtype=scalar),
        qd_bar: wp.array2d(dtype=scalar),
        qdd_bar: wp.array2d(dtype=scalar),
    ):
        """Add to the outputs that have rows, over (thread, lane group). Dry friction depends only on the sign of the
        speed.
        """
        thread, group = wp.tid()
        for k in range(thread, dof_q.shape[0], threads):
            bar = a.load_bar(tau_bar, group, k)
            if qd_bar.shape[0] > 0:
                a.add(qd_bar, group, k, a.mul(a.load_param_scalar(damping, group, k), bar))
            if qdd_bar.shape[0] > 0:
                a.add(qdd_bar, group, k, a.mul(a.load_param_scalar(armature, group, k), bar))
            if damping_bar.shape[0] > 0:
                a.add_scalar(damping_bar, group, k, a.mul(a.load(qd, group, k), bar))
            if armature_bar.shape[0] > 0:
                a.add_scalar(armature_bar, group, k, a.mul(a.load(qdd, group, k), bar))
            if friction_loss_bar.shape[0] > 0:
                a.add_scalar(friction_loss_bar, group, k, dry.force_against(bar, a.load(qd, group, k)))
            if dof_q[k] >= 0:
                pull = a.mul(a.load_param_scalar(stiffness, group, k), bar)
                if q_bar.shape[0] > 0:
                    a.add(q_bar, group, dof_q[k], pull)
                if rest_position_bar.shape[0] > 0:
                    a.add_scalar(rest_position_bar, group, k, -pull)
                if stiffness_bar.shape[0] > 0:
                    stretch = a.load(q, group, dof_q[k]) - a.load_param_scalar(rest_position, group, k)
                    a.add_scalar(stiffness_bar, group, k, a.mul(stretch, bar))

    @wp.kernel(module=wrench_module, enable_backward=False)
    def wrench_to_common_frame(
        # Data in
        pose: wp.array2d(dtype=transform),
        wrench: wp.array3d(dtype=scalar),
        # Data out
        common_wrench: wp.array2d(dtype=spatial),
    ):
        """Convert wrenches about the origin of each link's frame to wrenches about the tree's origin, over (link,
        group).
        """
        link, group = wp.tid()
        moment = a.load3_vec3(wrench, group, link, 0)
        force = a.load3_vec3(wrench, group, link, 3)
        common_wrench[link, group] = a.join(moment + a.cross(a.position(pose[link, group]), force), force)

    @wp.kernel(module=wrench_module, enable_backward=False)
    def wrench_to_common_frame_adjoint(
        # Data in
        pose: wp.array2d(dtype=transform),
        wrench: wp.array3d(dtype=scalar),
        # Adjoint in
        common_wrench_bar: wp.array2d(dtype=spatial),
        # Adjoint out
        pose_bar: wp.array2d(dtype=transform),
        wrench_bar: wp.array3d(dtype=scalar),
    ):
        """Add to the adjoints, that of the wrenches if it has rows, over (link, group)."""
        link, group = wp.tid()
        bar = common_wrench_bar[link, group]
        moment_bar = a.angular(bar)
        force = a.load3_vec3(wrench, group, link, 3)
        pose_bar[link, group] += a.make_pose(a.cross(force, moment_bar), quat())
        if wrench_bar.shape[0] > 0:
            force_bar = a.linear(bar) + a.cross(moment_bar, a.position(pose[link, group]))
            for i in range(3):
                a.add3(wrench_bar, group, link, i, moment_bar[i])
                a.add3(wrench_bar, group, link, 3 + i, force_bar[i])

    return SimpleNamespace(
        module=module,
        rnea=newton_euler(module, scalar, lanes, adjoint=False),
        passive_force=passive_force,
        passive_force_adjoint=passive_force_adjoint,
        wrench_to_common_frame=wrench_to_common_frame,
        wrench_to_common_frame_adjoint=wrench_to_common_frame_adjoint,
    )


@functools.cache
def rnea_adjoint_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the adjoint of the kernel ``rnea`` for one precision and a number of worlds in a lane group."""
    module = kernel_module("rnea_adjoint", scalar, lanes)
    return SimpleNamespace(module=module, rnea_adjoint=newton_euler(module, scalar, lanes, adjoint=True))
