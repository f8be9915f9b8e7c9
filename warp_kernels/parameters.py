"""Parameters as a caller holds them, made into what other kernels expect."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module, warp_types


@functools.cache
def parameter_kernels(scalar: Any) -> SimpleNamespace:
    """The kernels for one precision, launched over (row, item)."""
    t = warp_types(scalar)
    mat33, transform = t.mat33, t.transform
    module = kernel_module("parameters", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def unit_poses(
        # Data in
        given: wp.array2d(dtype=transform),
        # Data out
        pose: wp.array2d(dtype=transform),
    ):
        """Poses with quaternions of unit length."""
        row, item = wp.tid()
        placement = given[row, item]
        pose[row, item] = transform(
            wp.transform_get_translation(placement), wp.normalize(wp.transform_get_rotation(placement))
        )

    @wp.kernel(module=module, enable_backward=False)
    def symmetric_parts(
        # Data in
        given: wp.array2d(dtype=mat33),
        # Data out
        matrix: wp.array2d(dtype=mat33),
    ):
        """The symmetric part of each matrix."""
        row, item = wp.tid()
        matrix[row, item] = scalar(0.5) * (given[row, item] + wp.transpose(given[row, item]))

    @wp.kernel(module=module, enable_backward=False)
    def given_pose_gradients(
        # Data in
        given: wp.array2d(dtype=transform),
        # Adjoint out
        gradient: wp.array2d(dtype=transform),
    ):
        """From gradients in unit poses, tangent to the sphere, those in the poses that they were made of."""
        row, item = wp.tid()
        length = wp.length(wp.transform_get_rotation(given[row, item]))
        unit = gradient[row, item]
        gradient[row, item] = transform(wp.transform_get_translation(unit), wp.transform_get_rotation(unit) / length)

    return SimpleNamespace(
        module=module,
        unit_poses=unit_poses,
        symmetric_parts=symmetric_parts,
        given_pose_gradients=given_pose_gradients,
    )
