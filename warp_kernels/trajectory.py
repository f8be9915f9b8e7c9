"""What is done with a whole trajectory: its fingerprint, and gradients of worlds that are left out."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module

# Fowler, Noll and Vo, FNV-1a of 64 bits.
OFFSET, PRIME = 14695981039346656037, 1099511628211


@functools.cache
def trajectory_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision, launched over worlds, none with an adjoint."""
    module = kernel_module("trajectory", scalar)
    bits = wp.uint32 if scalar is wp.float32 else wp.uint64

    @wp.kernel(module=module, enable_backward=False)
    def fingerprint(
        # Data in
        values: wp.array3d(dtype=scalar),
        # Data out
        fingerprints: wp.array(dtype=wp.uint64),
    ):
        """A hash of the bits of each world's numbers [rows, world, n]."""
        world = wp.tid()
        found = wp.uint64(wp.static(OFFSET))
        for row in range(values.shape[0]):
            for i in range(values.shape[2]):
                found = (found ^ wp.uint64(wp.cast(values[row, world, i], bits))) * wp.uint64(wp.static(PRIME))
        fingerprints[world] = found

    @wp.kernel(module=module, enable_backward=False)
    def clear_worlds(
        # Data in
        left_out: wp.array(dtype=int),
        # Data out
        values: wp.array2d(dtype=scalar),
    ):
        """Zeros for the worlds that are left out, those with a number that isn't negative."""
        world = wp.tid()
        if left_out[world] >= 0:
            for i in range(values.shape[1]):
                values[world, i] = scalar(0.0)

    return SimpleNamespace(module=module, fingerprint=fingerprint, clear_worlds=clear_worlds)
