// Offsets of what the threads of a team write one behind the other: see warp_kernels.team. For CPUs and GPUs.
#pragma once

#include "team.h"

namespace backswing::team {

// Return the sum of the values of the threads before this one, and that of all threads.
template <int Width>
BACKSWING_INLINE wp::vec_t<2, int> offsets(int value) {
#ifdef __CUDA_ARCH__
    __shared__ int values[BLOCK];
    values[threadIdx.x] = value;
    __syncwarp();
    const int* own = values + threadIdx.x / Width * Width;
    int before = 0, together = 0;
    for (int k = 0; k < Width; ++k) {
        if (k == lane<Width>()) before = together;
        together += own[k];
    }
    __syncwarp();
    return wp::vec_t<2, int>(before, together);
#else
    sync();
    return wp::vec_t<2, int>(0, value);
#endif
}

} // namespace backswing::team
