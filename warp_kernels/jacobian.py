"""Jacobian of a frame: in the common frame its columns are the motion subspaces of the degrees of freedom on its path."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.frames import frame_functions
from warp_kernels.types import kernel_module, warp_types


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
        path: wp.array(dtype=int),
        tree: int,
        link: int,
        placement: transform,
        reference: int,
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        subspace: wp.array2d(dtype=spatial),
        # Data out
        jacobian: wp.array3d(dtype=scalar),
    ):
        """Columns of the degrees of freedom that move the frame, over (place on the path, world)."""
        place, world = wp.tid()
        k = path[place]
        column = frames.in_reference(reference, subspace[k, world], pose[link, world] * placement, origin[tree, world])
        for i in range(wp.static(6)):
            jacobian[world, i, k] = column[i]

    return SimpleNamespace(module=module, frame_jacobian=frame_jacobian)
