// Entries of arrays of states [world, ...] for lane groups: see warp_kernels.algebra.entries.
#pragma once

#include "several_worlds.h"

namespace backswing::algebra {

// Location of an entry in the worlds of a group.
// at: address in the first world.
// step: from there to that of the next one [bytes].
// own: number of worlds in the group.
struct Entry {
    char* at;
    wp::int64 step;
    int own;
};

// In an array itself.
template <int L, typename T, typename... Indices>
BACKSWING_INLINE Entry find(const Array<T>& values, int group, Indices... indices) {
    const int first = group * L;
    const wp::int64 step = values.strides[0];
    char* at = reinterpret_cast<char*>(values.data) + first * step;
    int d = 0;
    ((at += indices * wp::int64(values.strides[++d])), ...);
    return {at, step, values.shape[0] - first};
}

// In an array that is looked up, see sim.arrays.array_refs.ArrayRef.
template <int L, typename... Indices>
BACKSWING_INLINE Entry find(const Array<wp::int64>& values, int group, Indices... indices) {
    const wp::int64* where = values.data;
    const int first = group * L;
    const wp::int64 step = where[4];
    char* at = reinterpret_cast<char*>(where[0]) + first * step;
    int d = 0;
    ((at += indices * wp::int64(where[4 + ++d])), ...);
    return {at, step, wp::int32(where[1]) - first};
}

// The last group may have fewer worlds: its loops aren't unrolled, or they would be most of the code. They index a
// vector, which therefore need not be in memory. A lane without a world reads the last world again, or zero.
template <typename Number, int L, typename T, typename... Indices>
BACKSWING_INLINE Vector<Number, L> load(const Array<T>& values, int group, Indices... indices) {
    const Entry entry = find<L>(values, group, indices...);
    Pack<Number, L> v;
    if (entry.own >= L)
        for (int n = 0; n < L; ++n) v[n] = *reinterpret_cast<Number*>(entry.at + n * entry.step);
    else
#pragma clang loop unroll(disable) vectorize(disable)
        for (int n = 0; n < L; ++n)
            v[n] = *reinterpret_cast<Number*>(entry.at + (n < entry.own ? n : entry.own - 1) * entry.step);
    return from_pack<Number, L>(v);
}
template <typename Number, int L, typename T, typename... Indices>
BACKSWING_INLINE Vector<Number, L> load_bar(const Array<T>& values, int group, Indices... indices) {
    const Entry entry = find<L>(values, group, indices...);
    Pack<Number, L> v = 0;
    if (entry.own >= L)
        for (int n = 0; n < L; ++n) v[n] = *reinterpret_cast<Number*>(entry.at + n * entry.step);
    else
#pragma clang loop unroll(disable) vectorize(disable)
        for (int n = 0; n < entry.own; ++n) v[n] = *reinterpret_cast<Number*>(entry.at + n * entry.step);
    return from_pack<Number, L>(v);
}

template <typename Number, int L>
BACKSWING_INLINE void store_at(const Entry& entry, const Vector<Number, L>& x) {
    const Pack<Number, L> v = *reinterpret_cast<const Pack<Number, L>*>(x.c);
    if (entry.own >= L)
        for (int n = 0; n < L; ++n) *reinterpret_cast<Number*>(entry.at + n * entry.step) = v[n];
    else
#pragma clang loop unroll(disable) vectorize(disable)
        for (int n = 0; n < entry.own; ++n) *reinterpret_cast<Number*>(entry.at + n * entry.step) = v[n];
}
template <typename Number, int L>
BACKSWING_INLINE void add_at(const Entry& entry, const Vector<Number, L>& x) {
    const Pack<Number, L> v = *reinterpret_cast<const Pack<Number, L>*>(x.c);
    if (entry.own >= L)
        for (int n = 0; n < L; ++n) *reinterpret_cast<Number*>(entry.at + n * entry.step) += v[n];
    else
#pragma clang loop unroll(disable) vectorize(disable)
        for (int n = 0; n < entry.own; ++n) *reinterpret_cast<Number*>(entry.at + n * entry.step) += v[n];
}
template <typename Number, int L, typename T>
BACKSWING_INLINE void store(const Array<T>& values, int group, int k, const Vector<Number, L>& x) {
    store_at<Number, L>(find<L>(values, group, k), x);
}
template <typename Number, int L, typename T>
BACKSWING_INLINE void store(const Array<T>& values, int group, int i, int j, const Vector<Number, L>& x) {
    store_at<Number, L>(find<L>(values, group, i, j), x);
}
template <typename Number, int L, typename T>
BACKSWING_INLINE void add(const Array<T>& values, int group, int k, const Vector<Number, L>& x) {
    add_at<Number, L>(find<L>(values, group, k), x);
}
template <typename Number, int L, typename T>
BACKSWING_INLINE void add(const Array<T>& values, int group, int i, int j, const Vector<Number, L>& x) {
    add_at<Number, L>(find<L>(values, group, i, j), x);
}

// Prefetch what the next group reads or writes to the nearest cache while this one is computed.
template <typename Number, int L, bool WRITE, typename... Indices>
BACKSWING_INLINE void fetch(const Array<wp::int64>& values, int group, Indices... indices) {
    const Entry entry = find<L>(values, group, indices...);
    for (int n = L; n < (entry.own < 2 * L ? entry.own : 2 * L); ++n)
        for (int b = 0; b < values.data[2]; b += 64) __builtin_prefetch(entry.at + n * entry.step + b, WRITE, 3);
}

} // namespace backswing::algebra
