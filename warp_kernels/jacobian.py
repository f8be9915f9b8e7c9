"""Jacobians of frames and their time derivatives.

In the common frame the columns are the motion subspaces of the degrees of freedom on the path to a frame. Kernels go over (place in the
concatenated paths of all frames, world).
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.frames import LOCAL, WORLD, frame_functions
from warp_kernels.spatial import spatial_functions
from warp_kernels.types import FREE, kernel_module, warp_types


@functools.cache
def jacobian_kernels(scalar: Any) -> SimpleNamespace:
    """The kernel for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    frames = frame_functions(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    module = kernel_module("jacobian", scalar)

    @wp.kernel(module=module)
    def frame_jacobian(
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
        # Data out
        jacobian: wp.array4d(dtype=scalar),
    ):
        place, world = wp.tid()
        frame = path_frame[place]
        k = path_dof[place]
        link = frame_link[frame]
        placed = pose[link, world] * frame_placement[frame]
        column = frames.in_reference(reference, subspace[k, world], placed, origin[link_tree[link], world])
        for i in range(wp.static(6)):
            jacobian[world, frame, i, k] = column[i]

    return SimpleNamespace(module=module, frame_jacobian=frame_jacobian)


@functools.cache
def jacobian_derivative_kernels(scalar: Any) -> SimpleNamespace:
    """The kernels for one precision, with Warp's own adjoint."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    module = kernel_module("jacobian_derivative", scalar)

    @wp.func
    def derivative_in_reference(reference: int, s: spatial, rate: spatial, v: spatial, frame: transform, origin: vec3):
        """Time derivative of a column in one of the references, of a frame that moves with velocity v.

        s, its time derivative ``rate`` and v are about the tree's origin, taken as a point that stands still.
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
        rate: wp.array2d(dtype=spatial),
    ):
        """Over (dof, world). Columns turn with their link; those of a free joint keep their axes and move along with its origin."""
        k, world = wp.tid()
        link = dof_link[k]
        s = subspace[k, world]
        v = velocity[link, world]
        turning = sp.cross_motion(v, s)
        if joint_type[link] == FREE:
            turning = sp.join(vec3(scalar(0.0), scalar(0.0), scalar(0.0)), wp.cross(sp.linear(v), sp.angular(s)))
        rate[k, world] = turning

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
        rate: wp.array2d(dtype=spatial),
        velocity: wp.array2d(dtype=spatial),
        # Data out
        derivative: wp.array4d(dtype=scalar),
    ):
        place, world = wp.tid()
        frame = path_frame[place]
        k = path_dof[place]
        link = frame_link[frame]
        placed = pose[link, world] * frame_placement[frame]
        column = derivative_in_reference(
            reference, subspace[k, world], rate[k, world], velocity[link, world], placed, origin[link_tree[link], world]
        )
        for i in range(wp.static(6)):
            derivative[world, frame, i, k] = column[i]

    return SimpleNamespace(
        module=module, subspace_derivative=subspace_derivative, frame_jacobian_derivative=frame_jacobian_derivative
    )
