// CPU operations around launches: repeating them, clearing memory, and flushing denormals to zero. A GPU does nothing.
#pragma once

#include "arrays.h"

namespace backswing::launches {

// Call kernels one after the other: [launches, 4] addresses, see warp_kernels.rollout.replay.
BACKSWING_INLINE void call_each(const Array<wp::uint64>& calls) {
#ifndef __CUDA_ARCH__
    using forward = void (*)(void*, void*);
    using backward = void (*)(void*, void*, void*);
    void* const* call = reinterpret_cast<void* const*>(calls.data);
    void* const* const end = call + 4 * calls.shape[0];
    for (; call != end; call += 4) {
        if (call[3])
            reinterpret_cast<backward>(call[0])(call[1], call[2], call[3]);
        else
            reinterpret_cast<forward>(call[0])(call[1], call[2]);
    }
#endif
}

// Add a number to the 64-bit words at these addresses.
BACKSWING_INLINE void add_to_words(const Array<wp::uint64>& addresses, wp::int64 amount) {
#ifndef __CUDA_ARCH__
    for (int i = 0; i < addresses.shape[0]; ++i)
        *reinterpret_cast<wp::uint64*>(addresses.data[i]) += static_cast<wp::uint64>(amount);
#endif
}

// Set bytes to zero.
BACKSWING_INLINE void set_to_zero(wp::uint64 address, wp::uint64 size) {
#ifndef __CUDA_ARCH__
    __builtin_memset(reinterpret_cast<void*>(address), 0, size);
#endif
}

// Return the control word of the thread's floating-point unit, zero if unknown.
BACKSWING_INLINE wp::uint64 control_word() {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
    return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__) && !defined(__CUDA_ARCH__)
    wp::uint64 word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
#else
    return 0;
#endif
}

// Set the control word to `word`, or to that with denormals flushed to zero: two bits on x86, for results and operands,
// one on ARM.
BACKSWING_INLINE void set_control_word(wp::uint64 word, bool flush) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
    __builtin_ia32_ldmxcsr(static_cast<unsigned>(flush ? word | 0x8040 : word));
#elif defined(__aarch64__) && !defined(__CUDA_ARCH__)
    asm volatile("msr fpcr, %0" : : "r"(flush ? word | (1 << 24) : word));
#endif
}

} // namespace backswing::launches
