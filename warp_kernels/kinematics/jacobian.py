"""Jacobians of frames and their time derivatives.

In the common frame the columns are the motion subspaces of the degrees of freedom on the path to a frame.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.kinematics.frames import LOCAL, LOCAL_WORLD_ALIGNED, WORLD, frame_functions
from warp_kernels.kinematics.joints import joint_functions
from warp_kernels.types import kernel_module, lane_types, warp_types


@functools.cache
def jacobian_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the kernels for one precision, launched over (frame, lane group). A link of -1 is the world, which doesn't
    move.
    """
    t, one, a = lane_types(scalar, lanes), warp_types(scalar), algebra(scalar, lanes)
    frames = frame_functions(scalar, lanes)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    module = kernel_module("jacobian", scalar, lanes)
    states4d, numbers = t.states4d, wp.array(dtype=scalar)

    @wp.func
    def column_bar(buffer: numbers, bar: states4d, group: int, frame: int, k: int, columns: int):
        return a.join(
            a.get_column(buffer, bar, group, frame, 0, k, columns),
            a.get_column(buffer, bar, group, frame, 3, k, columns),
        )

    @wp.func
    def put_columns(
        reference: int,
        first: int,
        last: int,
        path_dof: wp.array(dtype=int),
        subspace: wp.array2d(dtype=spatial),
        placed: transform,
        point: vec3,
        columns: int,
        group: int,
        frame: int,
        buffer: numbers,
        jacobian: states4d,
    ):
        for at in range(first, last):
            k = path_dof[at]
            column = frames.in_reference(reference, subspace[k, group], placed, point)
            for i in range(6):
                a.put(buffer, jacobian, group, frame, i, k, columns, column[i])

    @wp.kernel(module=module, enable_backward=False)
    def frame_jacobian(
        # Model
        link_tree: wp.array(dtype=int),
        path_start: wp.array(dtype=int),
        path_dof: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=one.transform),
        reference: int,
        nv: int,
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        # Data out
        buffer: numbers,
        jacobian: states4d,
    ):
        """Compute the columns of the degrees of freedom on the path to each frame; the others are zero. ``buffer`` is
        scratch.
        """
        frame, group = wp.tid()
        link = frame_link[frame]
        a.begin(buffer, group, 6 * nv)
        if link >= 0:
            placed = frames.frame_pose(pose[link, group], a.same_transform(frame_placement[frame]))
            point = frames.reference_point(reference, placed, link_tree[link], group, origin)
            first = path_start[frame]
            last = path_start[frame + 1]
            # A separate loop for each: a compiler splits values that come out of two branches in a loop into
            # components.
            if reference == LOCAL:
                put_columns(LOCAL, first, last, path_dof, subspace, placed, point, nv, group, frame, buffer, jacobian)
            else:
                put_columns(
                    LOCAL_WORLD_ALIGNED, first, last, path_dof, subspace, placed, point, nv, group, frame, buffer,
                    jacobian,
                )  # fmt: skip
        a.end_frame(buffer, jacobian, group, frame, 6, nv)

    @wp.kernel(module=module, enable_backward=False)
    def frame_jacobian_adjoint(
        # Model
        link_tree: wp.array(dtype=int),
        path_start: wp.array(dtype=int),
        path_dof: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=one.transform),
        reference: int,
        nv: int,
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        # Adjoint in
        jacobian_bar: states4d,
        # Adjoint out
        buffer: numbers,
        pose_bar: wp.array2d(dtype=transform),
        origin_bar: wp.array2d(dtype=vec3),
        subspace_bar: wp.array2d(dtype=spatial),
    ):
        """Add to the adjoints of links, origins and motion subspaces. ``buffer`` is scratch."""
        frame, group = wp.tid()
        link = frame_link[frame]
        if link >= 0:
            a.read_frame(buffer, jacobian_bar, group, frame, 6, nv)
            placed = frames.frame_pose(pose[link, group], a.same_transform(frame_placement[frame]))
            point = frames.reference_point(reference, placed, link_tree[link], group, origin)
            point_bar = vec3()
            turn = vec3()
            for at in range(path_start[frame], path_start[frame + 1]):
                k = path_dof[at]
                column = subspace[k, group]
                bar = frames.along_world(reference, column_bar(buffer, jacobian_bar, group, frame, k, nv), placed)
                point_bar += a.cross(a.linear(bar), a.angular(column))
                turn += frames.frame_turn(column, bar, point)
                a.sum_spatial(subspace_bar, k, group, frames.about_origin(bar, point))
            frames.add_reference_bar(
                reference, link, link_tree[link], group, placed, turn, point_bar, pose, pose_bar, origin_bar
            )

    return SimpleNamespace(module=module, frame_jacobian=frame_jacobian, frame_jacobian_adjoint=frame_jacobian_adjoint)


@functools.cache
def jacobian_derivative_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    sp, joints = spatial_functions(scalar), joint_functions(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    module = kernel_module("jacobian_derivative", scalar, inlined=True)

    @wp.func
    def derivative_in_reference(reference: int, s: spatial, rate: spatial, v: spatial, frame: transform, origin: vec3):
        """Return the time derivative of a column in one of the references, of a frame that moves with velocity v.

        s, its time derivative ``rate`` and v are about the tree's origin, treated as a fixed point.
        """
        w = sp.angular(v)
        p = wp.transform_get_translation(frame)
        angular = sp.angular(rate)
        linear = sp.linear(rate)
        if reference == WORLD:
            linear = sp.linear(rate) + wp.cross(origin, sp.angular(rate))
        else:
            linear = sp.point_velocity(rate, p) + wp.cross(sp.angular(s), sp.point_velocity(v, p))
        if reference == LOCAL:
            inverse = wp.quat_inverse(wp.transform_get_rotation(frame))
            angular = wp.quat_rotate(inverse, angular - wp.cross(w, sp.angular(s)))
            linear = wp.quat_rotate(inverse, linear - wp.cross(w, sp.point_velocity(s, p)))
        return sp.join(angular, linear)

    @wp.kernel(module=module)
    def subspace_derivative(
        # Model
        dof_link: wp.array(dtype=int),
        joint_type: wp.array(dtype=int),
        # Data in
        subspace: wp.array2d(dtype=spatial),
        velocity: wp.array2d(dtype=spatial),
        # Data out
        subspace_rate: wp.array2d(dtype=spatial),
    ):
        """Compute the time derivative of the motion subspace, over (dof, world)."""
        k, world = wp.tid()
        link = dof_link[k]
        s = subspace[k, world]
        v = velocity[link, world]
        rate = sp.cross_motion(v, s)
        if joints.keeps_axes(joint_type[link]):
            rate = joints.kept_axes_rate(v, s)
        subspace_rate[k, world] = rate

    @wp.kernel(module=module)
    def frame_jacobian_derivative(
        # Model
        link_tree: wp.array(dtype=int),
        path_frame: wp.array(dtype=int),
        path_dof: wp.array(dtype=int),
        frame_link: wp.array(dtype=int),
        frame_placement: wp.array(dtype=transform),
        reference: int,
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        subspace_rate: wp.array2d(dtype=spatial),
        velocity: wp.array2d(dtype=spatial),
        # Data out
        jacobian_derivative: wp.array4d(dtype=scalar),
    ):
        at, world = wp.tid()
        frame = path_frame[at]
        k = path_dof[at]
        link = frame_link[frame]
        placed = pose[link, world] * frame_placement[frame]
        column = derivative_in_reference(
            reference,
            subspace[k, world],
            subspace_rate[k, world],
            velocity[link, world],
            placed,
            origin[link_tree[link], world],
        )
        for i in range(wp.static(6)):
            jacobian_derivative[world, frame, i, k] = column[i]

    return SimpleNamespace(
        module=module, subspace_derivative=subspace_derivative, frame_jacobian_derivative=frame_jacobian_derivative
    )
