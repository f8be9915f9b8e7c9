"""Gyroscopic forces of links on free and spherical joints by the implicit midpoint rule.

The articulated-body algorithm evaluates them at the velocity before a step, with which a freely spinning body gains
energy in every step, without bound. The wrench given here replaces them by those of the implicit midpoint rule, which
keeps both quadratic invariants of Euler's equations, energy and the length of the angular momentum (Hairer, Lubich and
Wanner, Geometric Numerical Integration, section IV.2). Angular velocities along world axes at the inertia before the
step are equivalent to those in the body: the subsequent rotation by h w leaves w unchanged.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import FREE, kernel_module, warp_types

# Newton's method on the midpoint rule takes at most five iterations if the body turns by one radian or less: measured
# on 300,000 inertias from a ball's to a needle's.
MAX_ITERATIONS = 8


@functools.cache
def gyroscopic_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    vec3, mat33, transform, spatial, inertia10 = t.vec3, t.mat33, t.transform, t.spatial, t.inertia
    module = kernel_module("gyroscopic", scalar, inlined=True)
    midpoint = _midpoint(scalar)
    # Share of the trace of an inertia that is added to it: a needle may have none about its axis.
    least = scalar(1.0e-6 if scalar is wp.float32 else 1.0e-12)

    @wp.func
    def inertia_about(rigid: inertia10, arm: vec3):
        """Return the inertia about the point at ``arm`` from the reference point, for a body whose centre of mass keeps
        moving.
        """
        first = vec3(rigid[1], rigid[2], rigid[3])
        whole = mat33(
            rigid[4], rigid[7], rigid[8],
            rigid[7], rigid[5], rigid[9],
            rigid[8], rigid[9], rigid[6],
        )  # fmt: skip
        # Steiner's theorem from the reference point to that point: I - (2 h.p - m p.p) E + h p' + p h' - m p p'.
        moment = scalar(2.0) * wp.dot(first, arm) - rigid[0] * wp.dot(arm, arm)
        one = wp.identity(n=3, dtype=scalar)
        mixed = wp.outer(first, arm) + wp.outer(arm, first) - rigid[0] * wp.outer(arm, arm)
        about = whole + mixed - moment * one
        return about + (least * (about[0, 0] + about[1, 1] + about[2, 2])) * one

    @wp.func
    def resolved_time(dt: scalar, w: vec3):
        """Return the time step, but at most the time in which the body turns by one radian.

        Faster precession can't be told from slower at this step; energy is conserved either way.
        """
        angle = dt * dt * wp.dot(w, w)
        time = dt
        # The square of less than that is negligible relative to one, and would be a slow denormal.
        if angle > scalar(1.0e-12):
            time = dt / wp.sqrt(wp.sqrt(scalar(1.0) + angle * angle))
        return time

    @wp.kernel(module=module)
    def gyroscopic_wrench(
        # Model
        turning_link: wp.array(dtype=int),
        floating: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        link_tail_dof: wp.array(dtype=int),
        dof_depth: wp.array(dtype=int),
        dof_row_start: wp.array(dtype=int),
        ancestor: wp.array(dtype=int),
        dt: scalar,
        # Parameters
        armature: wp.array2d(dtype=scalar),
        # Data in
        qd: wp.array2d(dtype=scalar),
        pose: wp.array2d(dtype=transform),
        subspace: wp.array2d(dtype=spatial),
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        spin: wp.array2d(dtype=vec3),
        lift: wp.array2d(dtype=vec3),
        common_wrench: wp.array2d(dtype=spatial),
    ):
        """Compute the difference of the midpoint rule's forces from those at the velocity before the step, over
        (turning link, world).

        spin: angular velocity along world axes. lift: w x (w x a) of a tree with a floating base, with the arm a from
        the base's origin to its centre of mass. Added to the gravity of the tree, it cancels the centripetal
        acceleration of the origin about the centre (see :mod:`warp_kernels.kinematics.recentre`).

        A free body turns about its centre of mass; a link on a spherical joint turns about the joint.
        """
        item, world = wp.tid()
        link = turning_link[item]
        rigid = link_inertia[link, world]
        tail = link_tail_dof[link]
        # Summed in memory: Warp's adjoint doesn't know the value of a variable that a loop adds to.
        spin[item, world] = wp.spatial_top(subspace[tail, world]) * qd[world, tail]
        for d in range(dof_depth[tail]):
            k = ancestor[dof_row_start[tail] + d]
            spin[item, world] += wp.spatial_top(subspace[k, world]) * qd[world, k]
        w = spin[item, world]
        arm = wp.transform_get_translation(pose[link, world])
        if joint_type[link] == FREE and rigid[0] > scalar(0.0):
            arm = vec3(rigid[1], rigid[2], rigid[3]) / rigid[0]
        about = inertia_about(rigid, arm)
        step = resolved_time(dt, w)
        middle = midpoint(about, w, step)
        moment = wp.cross(w, about * w) - (step / dt) * wp.cross(middle, about * middle)
        force = vec3()
        if floating[link] == 1:
            away = wp.cross(w, wp.cross(w, arm))
            lift[link_tree[link], world] = away
            # Gravity doesn't act on armature.
            row = wp.min(world, armature.shape[0] - 1)
            first = tail - 5
            force = vec3(
                armature[row, first] * away[0], armature[row, first + 1] * away[1], armature[row, first + 2] * away[2]
            )
        common_wrench[link, world] = spatial(moment[0], moment[1], moment[2], force[0], force[1], force[2])

    return SimpleNamespace(module=module, gyroscopic_wrench=gyroscopic_wrench)


@functools.cache
def base_lift_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    vec3, spatial, inertia10 = t.vec3, t.spatial, t.inertia
    module = kernel_module("base_lift", scalar, inlined=True)

    @wp.kernel(module=module)
    def base_lift(
        # Model
        lifted_link: wp.array(dtype=int),
        link_tree: wp.array(dtype=int),
        joint_qd_start: wp.array(dtype=int),
        # Parameters
        armature: wp.array2d(dtype=scalar),
        # Data in
        qd: wp.array2d(dtype=scalar),
        link_inertia: wp.array2d(dtype=inertia10),
        # Data out
        lift: wp.array2d(dtype=vec3),
        common_wrench: wp.array2d(dtype=spatial),
    ):
        """Compute the lift of a tree with a floating base, and the force on its armature, as ``gyroscopic_wrench``
        does, over (lifted link, world), but leave its gyroscopic forces.
        """
        item, world = wp.tid()
        link = lifted_link[item]
        rigid = link_inertia[link, world]
        first = joint_qd_start[link]
        arm = vec3()
        if rigid[0] > scalar(0.0):
            arm = vec3(rigid[1], rigid[2], rigid[3]) / rigid[0]
        w = vec3(qd[world, first + 3], qd[world, first + 4], qd[world, first + 5])
        away = wp.cross(w, wp.cross(w, arm))
        lift[link_tree[link], world] = away
        row = wp.min(world, armature.shape[0] - 1)
        zero = scalar(0.0)
        common_wrench[link, world] = spatial(
            zero, zero, zero,
            armature[row, first] * away[0], armature[row, first + 1] * away[1], armature[row, first + 2] * away[2],
        )  # fmt: skip

    return SimpleNamespace(module=module, base_lift=base_lift)


def _midpoint(scalar: Any) -> wp.Function:
    """Return the middle x of an angular velocity before and after a step, I (x - w) + h/2 x x (I x) = 0."""
    t = warp_types(scalar)
    vec3, mat33 = t.vec3, t.mat33
    small = scalar(1.0e-6 if scalar is wp.float32 else 1.0e-14)

    @wp.func
    def slope(about: mat33, x: vec3, step: scalar):
        return about + scalar(0.5) * step * (wp.skew(x) * about - wp.skew(about * x))

    @wp.func
    def midpoint(about: mat33, w: vec3, step: scalar) -> vec3:
        x = w
        for _ in range(MAX_ITERATIONS):
            momentum = about * x
            rest = momentum - about * w + scalar(0.5) * step * wp.cross(x, momentum)
            if wp.length(rest) <= small * wp.length(momentum):
                break
            x = x - wp.inverse(slope(about, x, step)) * rest
        return x

    @wp.func_grad(midpoint)
    def adjoint_midpoint(about: mat33, w: vec3, step: scalar, x_bar: vec3):
        """Apply the implicit function theorem."""
        x = midpoint(about, w, step)
        y = wp.inverse(wp.transpose(slope(about, x, step))) * x_bar
        turned = scalar(0.5) * wp.cross(y, x)
        wp.adjoint[about] += wp.outer(y, w - x) - step * wp.outer(turned, x)
        wp.adjoint[w] += about * y
        wp.adjoint[step] -= wp.dot(turned, about * x)

    return midpoint
