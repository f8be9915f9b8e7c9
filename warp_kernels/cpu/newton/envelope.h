// Rows of the system of one world. For CPUs and GPUs.
#pragma once

#include "../arrays.h"

namespace backswing::newton {

// The rows of a system. L and U are packed by rows; `lower` and `upper` of a world from index 0 on.
template <typename Number>
struct Envelope {
    typedef wp::int64 Bytes;

    Bytes step;
    char *lower, *upper;
    Entries<int> starts, firsts;

    template <typename System>
    BACKSWING_MEMBER Envelope(const System& system, int world)
        : step(system.lower.strides[0]),
          lower(reinterpret_cast<char*>(system.lower.data) + world * Bytes(system.lower.strides[1])),
          upper(reinterpret_cast<char*>(system.upper.data) + world * Bytes(system.upper.strides[1])),
          starts(column(system.row_start, world)), firsts(column(system.first, world)) {}
    // Offset at which the entry of index 0 would be in row p.
    BACKSWING_MEMBER Bytes row(int p) const { return step * starts[p]; }
    BACKSWING_MEMBER static Number& at(char* row, Bytes offset) { return *reinterpret_cast<Number*>(row + offset); }

    // Return the sum of products of two rows, or of one and x, over a range of indices. On a CPU eight sums are
    // independent; if it works on one world alone, it adds eight products at a time, to the same result. A GPU has
    // other threads to switch to, and needs its registers.
    BACKSWING_MEMBER Number sum(char* a, char* b, Bytes step_b, int start, int end) const {
        a += start * step;
        b += start * step_b;
        int left = end - start;
        Number few = 0;
#ifndef __CUDA_ARCH__
        if (left >= 4) {
            Number sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (step == sizeof(Number) && step_b == sizeof(Number)) {
                typedef Number Pack __attribute__((ext_vector_type(8), aligned(sizeof(Number))));
                Pack packed = 0;
                for (; left >= 8; left -= 8, a += sizeof(Pack), b += sizeof(Pack))
                    packed += *reinterpret_cast<const Pack*>(a) * *reinterpret_cast<const Pack*>(b);
                *reinterpret_cast<Pack*>(sum) = packed;
            }
            for (; left >= 8; left -= 8, a += 8 * step, b += 8 * step_b)
                for (int k = 0; k < 8; ++k) sum[k] += at(a, k * step) * at(b, k * step_b);
            for (; left >= 4; left -= 4, a += 4 * step, b += 4 * step_b)
                for (int k = 0; k < 4; ++k) sum[k] += at(a, k * step) * at(b, k * step_b);
            few = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
        }
#endif
        for (; left > 0; --left, a += step, b += step_b) few += at(a, 0) * at(b, 0);
        return few;
    }
};

} // namespace backswing::newton
