"""What is done with a whole trajectory: its fingerprint, and gradients of worlds that are left out."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import kernel_module

# Fowler, Noll and Vo, FNV-1a of 64 bits.
OFFSET, PRIME = 14695981039346656037, 1099511628211
# Four hashes side by side, of every fourth number each, then one of them all: in a single one each number waits for that
# before it.
_HASHED = """
    const wp::uint64 prime = {prime}ull;
    wp::uint64 a = found, b = found + 1, c = found + 2, d = found + 3;
    const char* all = reinterpret_cast<const char*>(values.data) + world * wp::int64(values.strides[1]);
    for (int row = 0; row < values.shape[0]; ++row) {{
        const wp::{bits}* numbers = reinterpret_cast<const wp::{bits}*>(all + row * wp::int64(values.strides[0]));
        int i = 0;
        for (; i + 3 < values.shape[2]; i += 4) {{
            a = (a ^ numbers[i]) * prime;
            b = (b ^ numbers[i + 1]) * prime;
            c = (c ^ numbers[i + 2]) * prime;
            d = (d ^ numbers[i + 3]) * prime;
        }}
        for (; i < values.shape[2]; ++i) a = (a ^ numbers[i]) * prime;
    }}
    return (((a * prime ^ b) * prime ^ c) * prime ^ d) * prime;
"""


@functools.cache
def trajectory_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision, launched over worlds, none with an adjoint."""
    module = kernel_module("trajectory", scalar)
    bits = "uint32" if scalar is wp.float32 else "uint64"

    @wp.func_native(_HASHED.format(bits=bits, prime=PRIME))
    def hashed(found: wp.uint64, values: wp.array3d(dtype=scalar), world: int) -> wp.uint64:
        """A hash that goes on with the bits of a world's numbers [rows, world, n], of which there may be none.

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
        impulses: wp.array3d(dtype=scalar),
        # Data out
        fingerprints: wp.array(dtype=wp.uint64),
    ):
        """A hash of all states and inputs of each world."""
        world = wp.tid()
        found = hashed(wp.uint64(wp.static(OFFSET)), q, world)
        found = hashed(found, qd, world)
        found = hashed(found, act, world)
        found = hashed(found, tau, world)
        found = hashed(found, control, world)
        fingerprints[world] = hashed(found, impulses, world)

    @wp.kernel(module=module, enable_backward=False)
    def clear_worlds(
        # Data in
        left_out: wp.array(dtype=int),
        # Data out
        values: wp.array3d(dtype=scalar),
    ):
        """Zeros [rows, world, n] for the worlds that are left out, those with a number that isn't negative."""
        world = wp.tid()
        if left_out[world] >= 0:
            for row in range(values.shape[0]):
                for i in range(values.shape[2]):
                    values[row, world, i] = scalar(0.0)

    return SimpleNamespace(module=module, fingerprint=fingerprint, clear_worlds=clear_worlds)
