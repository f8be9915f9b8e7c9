"""Numbers below the normal ones as zero, on a CPU: a processor takes a hundred times as long for each of them.

A body at rest has them: what friction leaves of its velocity falls by the same share in every step. In float32 they end at 1e-38, and
products of numbers of 1e-20 are there already. A GPU takes them at full speed.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.types import kernel_module

# The control word of the thread's floating-point unit. On x86 two of its bits take such results and operands for zero, on ARM one.
_READ = """
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
    return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__) && !defined(__CUDA_ARCH__)
    wp::uint64 word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
#else
    return 0;
#endif
"""
_WRITE = """
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
    __builtin_ia32_ldmxcsr(static_cast<unsigned>(flush ? word | 0x8040 : word));
#elif defined(__aarch64__) && !defined(__CUDA_ARCH__)
    asm volatile("msr fpcr, %0" : : "r"(flush ? word | (1 << 24) : word));
#endif
"""


@functools.cache
def denormal_kernels() -> SimpleNamespace:
    """Kernels that change how the thread that runs them computes, the first and the last ones of a graph."""
    module = kernel_module("denormals", wp.float32)

    @wp.func_native(_READ)
    def control_word() -> wp.uint64:
        """That of this thread; zero where none is known."""

    @wp.func_native(_WRITE)
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
