"""Joint forces of a step without actuators of joints: the given ones, to which tendons and springs add theirs."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module


@functools.cache
def joint_force_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernel for one precision."""
    module = kernel_module("joint_force", scalar)

    @wp.kernel(module=module, enable_backward=False)
    def begin_joint_force(
        # Data in
        tau: wp.array2d(dtype=scalar),
        # Data out
        joint_force: wp.array2d(dtype=scalar),
    ):
        """Initialise the joint force, over (dof, world)."""
        k, world = wp.tid()
        joint_force[world, k] = tau[world, k]

    return SimpleNamespace(module=module, begin_joint_force=begin_joint_force)
