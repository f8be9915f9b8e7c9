"""Operations on a whole trajectory: its fingerprint, and gradients of excluded worlds."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import kernel_module

# Initial value of the hash, FNV-1a of 64 bits.
OFFSET = 14695981039346656037


@functools.cache
def trajectory_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision, launched over worlds, none with an adjoint."""
    module = kernel_module("trajectory", scalar, headers=("recording.h",))

    @Native(scalar, 1, "recording").func_native()
    def hashed(found: wp.uint64, values: wp.array3d(dtype=scalar), world: int) -> wp.uint64:
        """Return a hash continued with the bits of a world's numbers [rows, world, n], which may be empty.

        The numbers of a world in a row are contiguous.
        """

    @wp.kernel(module=module, enable_backward=False)
    def fingerprint(
        # Data in
        q: wp.array3d(dtype=scalar),
        qd: wp.array3d(dtype=scalar),
        act: wp.array3d(dtype=scalar),
        tau: wp.array3d(dtype=scalar),
        control: wp.array3d(dtype=scalar),
        kinematic_qd: wp.array3d(dtype=scalar),
        active: wp.array3d(dtype=scalar),
        impulses: wp.array3d(dtype=scalar),
        # Data out
        fingerprints: wp.array(dtype=wp.uint64),
    ):
        """Compute a hash of all states and inputs of each world."""
        world = wp.tid()
        found = hashed(wp.uint64(wp.static(OFFSET)), q, world)
        found = hashed(found, qd, world)
        found = hashed(found, act, world)
        found = hashed(found, tau, world)
        found = hashed(found, control, world)
        found = hashed(found, kinematic_qd, world)
        found = hashed(found, active, world)
        fingerprints[world] = hashed(found, impulses, world)

    @wp.kernel(module=module, enable_backward=False)
    def clear_worlds(
        # Data in
        left_out: wp.array(dtype=int),
        # Data out
        values: wp.array3d(dtype=scalar),
    ):
        """Set [rows, world, n] to zero for excluded worlds, those with a non-negative number."""
        world = wp.tid()
        if left_out[world] >= 0:
            for row in range(values.shape[0]):
                for i in range(values.shape[2]):
                    values[row, world, i] = scalar(0.0)

    return SimpleNamespace(module=module, fingerprint=fingerprint, clear_worlds=clear_worlds)
