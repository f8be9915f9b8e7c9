"""Conversion between single and double precision."""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.types import kernel_module


@functools.cache
def precision_kernels() -> SimpleNamespace:
    """Return the kernels that copy numbers from one precision into the other."""
    module = kernel_module("precision", wp.float64)

    @wp.kernel(module=module, enable_backward=False)
    def widen(
        # Data in
        source: wp.array(dtype=wp.float32),
        # Data out
        target: wp.array(dtype=wp.float64),
    ):
        i = wp.tid()
        target[i] = wp.float64(source[i])

    @wp.kernel(module=module, enable_backward=False)
    def widen_poses(
        # Data in
        source: wp.array2d(dtype=wp.transformf),
        # Data out
        target: wp.array2d(dtype=wp.transformd),
    ):
        """Normalise quaternions of unit length in float32 to unit length in float64."""
        world, i = wp.tid()
        p = wp.transform_get_translation(source[world, i])
        r = wp.transform_get_rotation(source[world, i])
        position = wp.vec3d(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2]))
        turn = wp.quatd(wp.float64(r[0]), wp.float64(r[1]), wp.float64(r[2]), wp.float64(r[3]))
        target[world, i] = wp.transformd(position, wp.normalize(turn))

    @wp.kernel(module=module, enable_backward=False)
    def narrow(
        # Data in
        source: wp.array(dtype=wp.float64),
        # Data out
        target: wp.array(dtype=wp.float32),
    ):
        i = wp.tid()
        target[i] = wp.float32(source[i])

    return SimpleNamespace(module=module, widen=widen, widen_poses=widen_poses, narrow=narrow)
