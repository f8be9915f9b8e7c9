// Teams of threads, each of which shares out the work of one world: see warp_kernels.team. For CPUs and GPUs.
#pragma once

#include "arrays.h"
#include "team_checks.h"

namespace backswing::team {

// Threads of a block: the same as in warp_kernels.team.
constexpr int BLOCK = 64;

// Return the number of threads of a team.
template <int Width>
BACKSWING_INLINE int size() {
#ifdef __CUDA_ARCH__
    return Width;
#else
    return 1;
#endif
}

// Return the index of a thread in its team.
template <int Width>
BACKSWING_INLINE int lane() {
#ifdef __CUDA_ARCH__
    return threadIdx.x % Width;
#else
    return 0;
#endif
}

// Return the item that comes as number k of n.
BACKSWING_INLINE int item(int k, int n) {
#ifdef BACKSWING_TEAM_ORDER
    return checks.begin_item(k, BACKSWING_TEAM_ORDER);
#else
    return k;
#endif
}

// Return whether this thread does what one does for its team.
template <int Width>
BACKSWING_INLINE bool is_first() {
#ifdef BACKSWING_TEAM_ORDER
    checks.begin_item(0, 0);
#endif
    return lane<Width>() == 0;
}

// Wait for all threads of the team, whose writes are then visible to it. It waits for the whole warp: worlds that share
// one may be at different calls of it, and those that have ended don't take part.
BACKSWING_INLINE void sync() {
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
#ifdef BACKSWING_TEAM_ORDER
    checks.end_phase();
#endif
}

// Return the sum of the values of all threads, the same in each of them, added up in the order of the threads.
template <typename Number, int Width>
BACKSWING_INLINE Number total(Number value) {
#ifdef __CUDA_ARCH__
    __shared__ Number values[BLOCK];
    values[threadIdx.x] = value;
    __syncwarp();
    const Number* own = values + threadIdx.x / Width * Width;
    value = 0;
    for (int k = 0; k < Width; ++k) value += own[k];
    __syncwarp();
    return value;
#else
    sync();
    return value;
#endif
}

// Return the address of the team's memory of `Room` numbers: shared memory of a GPU if there is any, otherwise a row of
// `scratch`.
template <typename Number, int Width, int Room>
BACKSWING_INLINE wp::uint64 memory(const Array<Number>& scratch, int world) {
#ifdef __CUDA_ARCH__
    if constexpr (Room > 0) {
        __shared__ Number pool[BLOCK / Width * Room];
        return reinterpret_cast<wp::uint64>(pool + threadIdx.x / Width * Room);
    }
#endif
    return reinterpret_cast<wp::uint64>(contiguous_row(scratch, world));
}

// Begin the work of a world, before anything else.
template <typename Number>
BACKSWING_INLINE void begin(const Array<Number>& scratch, int world) {
#ifdef BACKSWING_TEAM_ORDER
    checks.begin_world();
    for (int k = 0; k < scratch.shape[1]; ++k) contiguous_row(scratch, world)[k] = Number(NAN);
#endif
}

} // namespace backswing::team
