"""Parameters as a caller holds them, made into what other kernels expect."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.types import kernel_module, warp_types

# By how much the length of a unit quaternion may be off. In float32 all are normalised: a chain of links adds up what is
# off, and a pose has few digits to spare.
UNIT_TO_ROUNDING = {"float32": 0.0, "float64": 1e-15}


@functools.cache
def parameter_kernels(scalar: Any) -> SimpleNamespace:
    """The kernels for one precision, launched over (row, item)."""
    t, a = warp_types(scalar), algebra(scalar)
    mat33, transform = t.mat33, t.transform
    module = kernel_module("parameters", scalar)
    rounding = scalar(UNIT_TO_ROUNDING[scalar.__name__])

    @wp.kernel(module=module, enable_backward=False)
    def unit_poses(
        # Data in
        given: wp.array2d(dtype=transform),
        # Data out
        pose: wp.array2d(dtype=transform),
    ):
        """Poses with quaternions of unit length; one whose length is one to rounding stays as it is."""
        row, item = wp.tid()
        placement = given[row, item]
        q = wp.transform_get_rotation(placement)
        if wp.abs(wp.length(q) - scalar(1.0)) > rounding:
            q = a.unit(q)
        pose[row, item] = transform(wp.transform_get_translation(placement), q)

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
        """From gradients in unit poses those in the poses that they were made of: tangent to the sphere.

        In a quaternion of zeros, which stands for no turn, it is zero.
        """
        row, item = wp.tid()
        pose_bar = gradient[row, item]
        share = a.over_length(wp.transform_get_rotation(given[row, item]))
        turn = share * wp.transform_get_rotation(given[row, item])
        turn_bar = wp.transform_get_rotation(pose_bar)
        turn_bar = share * (turn_bar - wp.dot(turn_bar, turn) * turn)
        gradient[row, item] = transform(wp.transform_get_translation(pose_bar), turn_bar)

    return SimpleNamespace(
        module=module,
        unit_poses=unit_poses,
        symmetric_parts=symmetric_parts,
        given_pose_gradients=given_pose_gradients,
    )
