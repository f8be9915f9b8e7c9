"""Numbers below the normal ones as zero, on a CPU: a processor takes a hundred times as long for each of them.

A body at rest has them: what friction leaves of its velocity falls by the same share in every step. In float32 they end at 1e-38, and
products of numbers of 1e-20 are there already. A GPU takes them at full speed.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import kernel_module


@functools.cache
def denormal_kernels() -> SimpleNamespace:
    """Kernels that change how the thread that runs them computes, the first and the last ones of a graph."""
    module = kernel_module("denormals", wp.float32, headers=("launches.h",))
    native = Native(None, 1, "launches")

    @native.func_native()
    def control_word() -> wp.uint64:
        """The control word of this thread's floating-point unit; zero where none is known."""

    @native.func_native()
    def set_control_word(word: wp.uint64, flush: bool):
        """Compute by ``word``, or by that with numbers below the normal ones as zero."""

    @wp.kernel(module=module, enable_backward=False)
    def flush_denormals(
        # Data out
        control: wp.array(dtype=wp.uint64),
    ):
        """control: how the thread computed before [1]."""
        control[0] = control_word()
        set_control_word(control[0], True)

    @wp.kernel(module=module, enable_backward=False)
    def restore_denormals(
        # Data in
        control: wp.array(dtype=wp.uint64),
    ):
        """Compute as before."""
        set_control_word(control[0], False)

    return SimpleNamespace(module=module, flush_denormals=flush_denormals, restore_denormals=restore_denormals)
