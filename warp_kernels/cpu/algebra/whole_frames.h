// Frames and rows of arrays of states, read and written as a whole: see warp_kernels.algebra.entries.
#pragma once

#include "entries.h"

namespace backswing::algebra {

template <typename T, T... K>
struct Order {};

// Swap the halves of a square of 2 x 2 squares of SIZE vectors and lanes.
template <typename Number, int L, int SIZE, int... K>
BACKSWING_INLINE void turn_two(Pack<Number, L>& x, Pack<Number, L>& y, Order<int, K...>) {
    const Pack<Number, L> low = __builtin_shufflevector(x, y, ((K & SIZE) == 0 ? K : L + K - SIZE)...);
    const Pack<Number, L> high = __builtin_shufflevector(x, y, ((K & SIZE) == 0 ? K + SIZE : L + K)...);
    x = low;
    y = high;
}

// Transpose the square of vectors: 2 x 2 squares, squares of these, ...
template <typename Number, int L, int SIZE, int... K>
BACKSWING_INLINE void turn_pairs(Pack<Number, L>* r, Order<int, K...> order) {
    (((K & SIZE) == 0 ? turn_two<Number, L, SIZE>(r[K], r[(K + SIZE) % L], order) : void()), ...);
}
template <typename Number, int L, int SIZE = 1>
BACKSWING_INLINE void turn(Pack<Number, L>* r) {
    if constexpr (SIZE < L) {
        turn_pairs<Number, L, SIZE>(r, __make_integer_seq<Order, int, L>());
        turn<Number, L, 2 * SIZE>(r);
    }
}

// As many entries at a time as there are lanes, of the last chunk some for a second time. Meanwhile those of the next
// group are prefetched.
template <typename Number, int L>
BACKSWING_INLINE void read_frame(
    const Array<Number>& buffer, const Array<wp::int64>& values, int group, int frame, int rows, int columns) {
    const Entry entry = find<L>(values, group, frame);
    const wp::int64* where = values.data;
    const wp::int64 size = sizeof(Number), step = entry.step;
    char* at = entry.at;
    Number* kept = buffer.data;
    const int count = rows * columns;
    if (entry.own >= L && count >= L && where[7] == size && where[6] == columns * size) {
        for (int chunk = 0; chunk < count; chunk += L) {
            const int e = chunk + L <= count ? chunk : count - L;
            Pack<Number, L> r[L];
            for (int n = 0; n < L; ++n) {
                r[n] = *reinterpret_cast<Pack<Number, L>*>(at + n * step + e * size);
                __builtin_prefetch(at + (L + n) * step + e * size, 0, 3);
            }
            turn<Number, L>(r);
            for (int n = 0; n < L; ++n) reinterpret_cast<Pack<Number, L>*>(kept)[e + n] = r[n];
        }
        return;
    }
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j)
            for (int n = 0; n < L; ++n)
                kept[(i * columns + j) * L + n] =
                    n < entry.own ? *reinterpret_cast<Number*>(at + n * step + i * where[6] + j * where[7]) : 0;
}

// Unset entries stay zero.
template <typename Number, int L>
BACKSWING_INLINE void begin(const Array<Number>& buffer, int group, int count) {
    if (group == 0) memset(buffer.data, 0, count * L * sizeof(Number));
}

// An entry of a frame in the buffer. values, group and frame are for arrays that need no buffer.
template <typename Number, int L>
BACKSWING_INLINE Vector<Number, L> get(
    const Array<Number>& buffer, const Array<wp::int64>& values, int group, int frame, int i, int j, int columns) {
    return from_pack<Number, L>(packs<Number, L>(buffer)[i * columns + j]);
}
template <typename Number, int L>
BACKSWING_INLINE void put(const Array<Number>& buffer, const Array<wp::int64>& values, int group, int frame, int i,
    int j, int columns, const Vector<Number, L>& x) {
    packs<Number, L>(buffer)[i * columns + j] = *reinterpret_cast<const Pack<Number, L>*>(x.c);
}
template <typename Number, int L>
BACKSWING_INLINE void put_bar(
    const Array<Number>& buffer, const Array<wp::int64>& values, int group, int k, const Vector<Number, L>& x) {
    packs<Number, L>(buffer)[k] = *reinterpret_cast<const Pack<Number, L>*>(x.c);
}

// The frames of a large array (where[3]) are collected in a second part of the buffer and written from there past the
// caches, which they would fill, in lines of 64 bytes. These stores are ordered with all others once the last group is
// done.
template <typename Number, int L>
BACKSWING_INLINE void end_frame(
    const Array<Number>& buffer, const Array<wp::int64>& values, int group, int frame, int rows, int columns) {
    typedef Number Line __attribute__((ext_vector_type(64 / sizeof(Number))));
    typedef Number Loose __attribute__((ext_vector_type(64 / sizeof(Number)), aligned(sizeof(Number))));
    const Entry entry = find<L>(values, group, frame);
    const wp::int64* where = values.data;
    const wp::int64 size = sizeof(Number), step = entry.step;
    char* at = entry.at;
    Number* kept = buffer.data;
    const int count = rows * columns, own = entry.own;
    const wp::int64 all = L * count * size;
    if (own >= L && count >= L) {
        const bool past = where[3] && step == count * size && all % 64 == 0 && wp::int64(at) % 64 == 0;
        char* to = past ? reinterpret_cast<char*>(kept + L * count) : at;
        for (int chunk = 0; chunk < count; chunk += L) {
            const int e = chunk + L <= count ? chunk : count - L;
            Pack<Number, L> r[L];
            for (int n = 0; n < L; ++n) r[n] = reinterpret_cast<Pack<Number, L>*>(kept)[e + n];
            turn<Number, L>(r);
            for (int n = 0; n < L; ++n) {
                *reinterpret_cast<Pack<Number, L>*>(to + n * step + e * size) = r[n];
                if (!past) __builtin_prefetch(at + (L + n) * step + e * size, 1, 3);
            }
        }
        if (past)
            for (wp::int64 b = 0; b < all; b += 64)
                __builtin_nontemporal_store(*reinterpret_cast<Loose*>(to + b), reinterpret_cast<Line*>(at + b));
    } else {
        for (int n = 0; n < (own < L ? own : L); ++n)
            for (int e = 0; e < count; ++e) *reinterpret_cast<Number*>(at + n * step + e * size) = kept[e * L + n];
    }
    if (where[3] && own <= L) __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// Groups that don't overlap and single entries after them; what is marked as new (where[3]) is overwritten by the first
// tree, which a CPU takes first.
template <typename Number, int L>
BACKSWING_INLINE void end_bars(
    const Array<Number>& buffer, const Array<wp::int64>& values, int group, int tree, int count) {
    const Entry entry = find<L>(values, group);
    const wp::int64* where = values.data;
    const wp::int64 size = sizeof(Number), step = entry.step;
    char* at = entry.at;
    Number* kept = buffer.data;
    const int own = entry.own;
    const bool anew = where[3] && tree == 0;
    int e = 0;
    if (own >= L && where[5] == size)
        for (; e + L <= count; e += L) {
            Pack<Number, L> r[L];
            for (int n = 0; n < L; ++n) r[n] = reinterpret_cast<Pack<Number, L>*>(kept)[e + n];
            turn<Number, L>(r);
            for (int n = 0; n < L; ++n) {
                Pack<Number, L>* to = reinterpret_cast<Pack<Number, L>*>(at + n * step + e * size);
                __builtin_prefetch(at + (L + n) * step + e * size, 1, 3);
                *to = anew ? r[n] : *to + r[n];
            }
        }
    for (; e < count; ++e)
        for (int n = 0; n < (own < L ? own : L); ++n) {
            Number& to = *reinterpret_cast<Number*>(at + n * step + e * where[5]);
            to = anew ? kept[e * L + n] : to + kept[e * L + n];
        }
}

} // namespace backswing::algebra
