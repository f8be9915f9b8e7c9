"""Launches that a CPU repeats, called from native code, and memory that is set to zero by one of them.

Warp's own graphs look up the kernel of each launch and copy its arguments, which takes a third of a single robot's step.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import kernel_module

# Places in a row of calls: addresses of the kernel's function, of its launch bounds, of its arguments, and of their
# adjoints on the way back, else zero. This is how Warp 1.19 calls a kernel on a CPU.
FUNCTION, BOUNDS, ARGUMENTS, ADJOINTS = range(4)


@functools.cache
def replay_kernels() -> SimpleNamespace:
    """Kernels of one thread, for a CPU."""
    module = kernel_module("replay", wp.float32, headers=("launches.h",))
    native = Native(None, 1, "launches")

    @native.func_native()
    def call_each(calls: wp.array2d(dtype=wp.uint64)):
        """Call the kernels one after the other."""

    @native.func_native()
    def set_to_zero(address: wp.uint64, size: wp.uint64):
        """Set bytes to zero."""

    @wp.kernel(module=module, enable_backward=False)
    def replay(
        # Data in
        calls: wp.array2d(dtype=wp.uint64),
        times: int,
    ):
        """calls: see above [launches, 4]; times: how often all of them are made."""
        for _ in range(times):
            call_each(calls)

    @wp.kernel(module=module, enable_backward=False)
    def clear_memory(
        # Data in
        address: wp.uint64,
        size: wp.uint64,
    ):
        """size: bytes."""
        set_to_zero(address, size)

    return SimpleNamespace(module=module, replay=replay, clear_memory=clear_memory)
