"""Launches that a CPU repeats from native code, and zeroing of memory as one of them.

Warp's own graphs look up the kernel of each launch and copy its arguments, which takes a third of a single robot's
step.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import kernel_module

# Fields of a call: addresses of the kernel's function, of its launch bounds, of its arguments, and of their adjoints in
# the backward pass, else zero. This is how Warp 1.19 calls a kernel on a CPU.
FUNCTION, BOUNDS, ARGUMENTS, ADJOINTS = range(4)


@functools.cache
def replay_kernels() -> SimpleNamespace:
    """Return the kernels of one thread, for a CPU."""
    module = kernel_module("replay", wp.float32, headers=("launches.h",))
    native = Native(None, 1, "launches")

    @native.func_native()
    def call_each(calls: wp.array2d(dtype=wp.uint64)):
        """Call the kernels one after the other."""

    @native.func_native()
    def add_to_words(addresses: wp.array(dtype=wp.uint64), amount: wp.int64):
        """Add a number to the words at these addresses."""

    @native.func_native()
    def set_to_zero(address: wp.uint64, size: wp.uint64):
        """Set bytes to zero."""

    @wp.kernel(module=module, enable_backward=False)
    def replay(
        # Data in
        calls: wp.array2d(dtype=wp.uint64),
        times: int,
    ):
        """Repeat the launches. calls: see above [launches, 4]; times: number of repetitions."""
        for _ in range(times):
            call_each(calls)

    @wp.kernel(module=module, enable_backward=False)
    def clear_memory(
        # Data in
        address: wp.uint64,
        size: wp.uint64,
    ):
        """Set memory to zero. size: bytes."""
        set_to_zero(address, size)

    @wp.kernel(module=module, enable_backward=False)
    def move_pointers(
        # Data in
        pointers: wp.array(dtype=wp.uint64),
        by: wp.int64,
    ):
        """Move pointers among the arguments of launches. pointers: their addresses; by: bytes."""
        add_to_words(pointers, by)

    return SimpleNamespace(module=module, replay=replay, clear_memory=clear_memory, move_pointers=move_pointers)
