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

// Continue a hash by a number: FNV-1a of 64 bits (Fowler, Noll and Vo), whose bits are rotated, since products propagate
// changes to higher bits only: two changed signs would cancel.
BACKSWING_INLINE wp::uint64 hashed_number(wp::uint64 found, wp::uint64 number) {
    const wp::uint64 prime = 1099511628211ull;
    const wp::uint64 changed = found ^ number;
    return (changed << 17 | changed >> 47) * prime;
}

// Return a hash continued from `found` with the bits of a world's numbers [rows, world, n], each row contiguous. Four
// hashes of every fourth number each, then one of them all: in a single one each number waits for the one before it.
template <typename Number>
BACKSWING_INLINE wp::uint64 hashed(wp::uint64 found, const Array<Number>& values, int world) {
    typedef typename BitsOf<sizeof(Number)>::type Bits;
    wp::uint64 a = found, b = found + 1, c = found + 2, d = found + 3;
    const char* all = reinterpret_cast<const char*>(values.data) + world * wp::int64(values.strides[1]);
    for (int row = 0; row < values.shape[0]; ++row) {
        const Bits* numbers = reinterpret_cast<const Bits*>(all + row * wp::int64(values.strides[0]));
        int i = 0;
        for (; i + 3 < values.shape[2]; i += 4) {
            a = hashed_number(a, numbers[i]);
            b = hashed_number(b, numbers[i + 1]);
            c = hashed_number(c, numbers[i + 2]);
            d = hashed_number(d, numbers[i + 3]);
        }
        for (; i < values.shape[2]; ++i) a = hashed_number(a, numbers[i]);
    }
    return hashed_number(hashed_number(hashed_number(hashed_number(a, 0), b), c), d);
}

} // namespace backswing::recording
