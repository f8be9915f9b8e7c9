// Types of Warp by shorter names, and arrays as one world sees them. For CPUs and GPUs.
#pragma once

#include <builtin.h> // Warp's

// Inlined into every caller, so that members of structs stay in registers.
#ifdef __CUDACC__
#define BACKSWING_MEMBER __device__ __forceinline__
#define BACKSWING_INLINE static __device__ __forceinline__
// A GPU needs its registers for other things than several iterations of a loop at a time.
#define BACKSWING_ROLLED_ON_GPU _Pragma("unroll 1")
#else
#define BACKSWING_MEMBER __attribute__((always_inline))
#define BACKSWING_INLINE static inline __attribute__((always_inline))
#define BACKSWING_ROLLED_ON_GPU
#endif

namespace backswing {

template <typename Number>
using Vec2 = wp::vec_t<2, Number>;
template <typename Number>
using Vec3 = wp::vec_t<3, Number>;
template <typename Number>
using Mat33 = wp::mat_t<3, 3, Number>;
template <typename T>
using Array = wp::array_t<T>;

// View of one world in an array [item, world], from item `first` on, or in one [world, item]. Warp's own access to an
// array computes all strides anew at each entry, which takes longer than most products.
template <typename T>
struct Entries {
    char* at;
    wp::int64 step;

    BACKSWING_MEMBER Entries(char* at, wp::int64 step) : at(at), step(step) {}
    BACKSWING_MEMBER T& operator[](int k) const { return *reinterpret_cast<T*>(at + k * step); }
    BACKSWING_MEMBER bool follow_each_other() const { return step == wp::int64(sizeof(T)); }
};

template <typename T>
BACKSWING_INLINE Entries<T> column(const Array<T>& array, int world, int first = 0) {
    const wp::int64 step = array.strides[0];
    return Entries<T>(reinterpret_cast<char*>(array.data) + first * step + world * wp::int64(array.strides[1]), step);
}

template <typename T>
BACKSWING_INLINE Entries<T> row(const Array<T>& array, int world) {
    return Entries<T>(
        reinterpret_cast<char*>(array.data) + world * wp::int64(array.strides[0]), wp::int64(array.strides[1]));
}

// The same of an array whose rows are contiguous.
template <typename T>
BACKSWING_INLINE T* contiguous_row(const Array<T>& array, int world) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(array.data) + world * wp::int64(array.strides[0]));
}

} // namespace backswing
