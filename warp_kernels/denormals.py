"""Flushing of denormals to zero on the CPU, where each denormal operation is about a hundred times slower.

A body at rest produces them: the velocity that friction leaves falls by the same factor in every step. In float32
denormals begin at 1e-38, which products of numbers of 1e-20 reach already. A GPU handles them at full speed.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.cpu.native import Native
from warp_kernels.types import kernel_module


@functools.cache
def denormal_kernels() -> SimpleNamespace:
    """Return the kernels that set the floating-point mode of their thread, the first and the last ones of a graph."""
    module = kernel_module("denormals", wp.float32, headers=("launches.h",))
    native = Native(None, 1, "launches")

    @native.func_native()
    def control_word() -> wp.uint64:
        """Return the control word of this thread's floating-point unit; zero if unknown."""

    @native.func_native()
    def set_control_word(word: wp.uint64, flush: bool):
        """Set the control word to ``word``, or to that with denormals flushed to zero."""

    @wp.kernel(module=module, enable_backward=False)
    def flush_denormals(
        # Data out
        control: wp.array(dtype=wp.uint64),
    ):
        """Flush denormals to zero. control: previous control word [1]."""
        control[0] = control_word()
        set_control_word(control[0], True)

    @wp.kernel(module=module, enable_backward=False)
    def restore_denormals(
        # Data in
        control: wp.array(dtype=wp.uint64),
    ):
        """Restore the previous control word."""
        set_control_word(control[0], False)

    return SimpleNamespace(module=module, flush_denormals=flush_denormals, restore_denormals=restore_denormals)
