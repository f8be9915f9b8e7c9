// Rows of a trajectory's arrays, which kernels access by address, and of a shard's own arrays; the hash of a
// trajectory. For CPUs and GPUs.
#pragma once

#include "arrays.h"

// If unrolled on a CPU, loops over a row take a third of a step's compile time, and are no faster.
#ifdef __CUDACC__
#define BACKSWING_ROLLED_ON_CPU
#else
#define BACKSWING_ROLLED_ON_CPU _Pragma("clang loop unroll(disable)")
#endif

namespace backswing::recording {

// A row of a trajectory's array, which is that of a world in one step; null without an array.
template <typename Number>
BACKSWING_INLINE Number* row_at(wp::uint64 address, int row, int total_worlds, int world, int count) {
    return address ? reinterpret_cast<Number*>(address) + (wp::int64(row) * total_worlds + world) * count : nullptr;
}

// Read a world's values, zeros if there is no array.
template <typename Number>
BACKSWING_INLINE void load_row(
    wp::uint64 address, int row, int total_worlds, int first_world, int world, const Array<Number>& values) {
    const int count = values.shape[1];
    Number* __restrict__ here = contiguous_row(values, world);
    const Number* __restrict__ there = row_at<Number>(address, row, total_worlds, first_world + world, count);
    if (there) {
        BACKSWING_ROLLED_ON_CPU
        for (int i = 0; i < count; ++i) here[i] = there[i];
    } else {
        BACKSWING_ROLLED_ON_CPU
        for (int i = 0; i < count; ++i) here[i] = Number(0);
    }
}

// Add a trajectory's values to a world's, nothing if there is no array.
template <typename Number>
BACKSWING_INLINE void add_row(
    wp::uint64 address, int row, int total_worlds, int first_world, int world, const Array<Number>& values) {
    const int count = values.shape[1];
    Number* __restrict__ here = contiguous_row(values, world);
    const Number* __restrict__ there = row_at<Number>(address, row, total_worlds, first_world + world, count);
    if (!there) return;
    BACKSWING_ROLLED_ON_CPU
    for (int i = 0; i < count; ++i) here[i] += there[i];
}

// Write a world's values if there is an array for them.
template <typename Number>
BACKSWING_INLINE void store_row(
    wp::uint64 address, int row, int total_worlds, int first_world, int world, const Array<Number>& values) {
    const int count = values.shape[1];
    const Number* __restrict__ here = contiguous_row(values, world);
    Number* __restrict__ there = row_at<Number>(address, row, total_worlds, first_world + world, count);
    if (!there) return;
    BACKSWING_ROLLED_ON_CPU
    for (int i = 0; i < count; ++i) there[i] = here[i];
}

// Copy a world's values.
template <typename Number>
BACKSWING_INLINE void copy_row(const Array<Number>& source, int world, const Array<Number>& target) {
    const Number* from = contiguous_row(source, world);
    Number* to = contiguous_row(target, world);
    BACKSWING_ROLLED_ON_CPU
    for (int i = 0; i < source.shape[1]; ++i) to[i] = from[i];
}

// Return whether all values of a world are finite: a non-finite number minus itself is NaN.
template <typename Number>
BACKSWING_INLINE bool is_finite_row(const Array<Number>& values, int world) {
    const Number* row = contiguous_row(values, world);
    bool finite = true;
    BACKSWING_ROLLED_ON_CPU
    for (int i = 0; i < values.shape[1]; ++i) finite &= row[i] - row[i] == Number(0);
    return finite;
}

// Return whether the magnitude of all values of a world is within a finite limit, and none is NaN.
template <typename Number>
BACKSWING_INLINE bool is_row_within(const Array<Number>& values, int world, Number limit) {
    const Number* row = contiguous_row(values, world);
    bool within = true;
    BACKSWING_ROLLED_ON_CPU
    for (int i = 0; i < values.shape[1]; ++i) within &= row[i] <= limit && row[i] >= -limit;
    return within;
}

// Unsigned integers of so many bytes.
template <int size>
struct BitsOf {
    typedef wp::uint64 type;
};
template <>
struct BitsOf<4> {
    typedef wp::uint32 type;
};

// Return a hash of 64 bits and their position: the finalizer of splitmix64 (Steele, Lea and Flood 2014, *Fast
// splittable pseudorandom number generators*).
BACKSWING_INLINE wp::uint64 hashed_bits(wp::uint64 bits, int position) {
    bits += (position + 1) * 0x9E3779B97F4A7C15ull;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9ull;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBull;
    return bits ^ bits >> 31;
}

// Continue the hashes of worlds by the bits of their numbers [rows, world, n], each row contiguous. Hashes within a row
// are summed, so that none waits for the one before it; rows are read in their order in memory.
template <typename Number>
BACKSWING_INLINE void add_rows(
    const Array<Number>& values, int first, int count, const Array<wp::uint64>& fingerprints) {
    typedef typename BitsOf<sizeof(Number)>::type Bits;
    constexpr int EACH = sizeof(wp::uint64) / sizeof(Number);
    const int size = values.shape[2], whole = size / EACH;
    for (int row = 0; row < values.shape[0]; ++row) {
        const char* all = reinterpret_cast<const char*>(values.data) + row * wp::int64(values.strides[0]);
        for (int world = first; world < first + count; ++world) {
            const Bits* numbers = reinterpret_cast<const Bits*>(all + world * wp::int64(values.strides[1]));
            wp::uint64 sum = 0;
            for (int i = 0; i < whole; ++i) {
                wp::uint64 bits = numbers[EACH * i];
                if (EACH == 2) bits |= wp::uint64(numbers[EACH * i + EACH - 1]) << 32;
                sum += hashed_bits(bits, i);
            }
            if (EACH * whole < size) sum += hashed_bits(numbers[EACH * whole], whole);
            wp::uint64& found = fingerprints.data[world];
            found = hashed_bits(found ^ sum, row);
        }
    }
}

} // namespace backswing::recording
