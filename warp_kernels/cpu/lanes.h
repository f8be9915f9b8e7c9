// Vectors with a number for each world of a lane group, and the arrays that hold them.
#pragma once

#include "arrays.h"

namespace backswing {

// A Pack has a number for each world of a lane group, a Mask a truth value (-1 or 0). Arrays need not be aligned to a
// Pack. As an argument of a template it would lose its alignment: pass <Number, L>.
template <typename Number, int L>
struct Lanes {
    typedef Number Pack __attribute__((ext_vector_type(L), aligned(sizeof(Number))));
    typedef decltype(Pack() < Pack()) Mask;
    typedef int Integers __attribute__((ext_vector_type(L), aligned(4)));
    typedef wp::uint64 Bits __attribute__((ext_vector_type(L)));
};
template <typename Number, int L>
using Pack = typename Lanes<Number, L>::Pack;
template <typename Number, int L>
using Mask = typename Lanes<Number, L>::Mask;

template <typename Number>
constexpr Number ROUNDING = sizeof(Number) == 4 ? Number(__FLT_EPSILON__) : Number(__DBL_EPSILON__);

// The numbers of a contiguous array [..., L] as packs.
template <typename Number, int L>
BACKSWING_INLINE Pack<Number, L>* packs(const Array<Number>& array) {
    return reinterpret_cast<Pack<Number, L>*>(array.data);
}

// Address of entry [i, j] of an array, seen as numbers of a type.
template <typename Type, typename T>
BACKSWING_INLINE Type* entry(const Array<T>& array, wp::int64 i, wp::int64 j) {
    return reinterpret_cast<Type*>(
        reinterpret_cast<char*>(array.data) + i * wp::int64(array.strides[0]) + j * wp::int64(array.strides[1]));
}

// The array [item, world] for one group; it has capacity for whole groups.
template <typename Number, int L>
struct Items {
    char* at;
    wp::int64 step;

    template <typename T>
    BACKSWING_MEMBER Items(const Array<T>& array, int group)
        : at(reinterpret_cast<char*>(array.data) + group * wp::int64(sizeof(Pack<Number, L>))), step(array.strides[0]) {
    }
    BACKSWING_MEMBER Pack<Number, L>& operator[](int k) const {
        return *reinterpret_cast<Pack<Number, L>*>(at + k * step);
    }
};

// Worlds whose flag is set.
template <typename Number, int L>
BACKSWING_INLINE Mask<Number, L> where(const Array<int>& flags) {
    Mask<Number, L> chosen;
    for (int n = 0; n < L; ++n) chosen[n] = flags.data[n] ? -1 : 0;
    return chosen;
}

// Worlds whose flag isn't set.
template <typename Number, int L>
BACKSWING_INLINE Mask<Number, L> unless(const Array<int>& flags) {
    Mask<Number, L> chosen;
    for (int n = 0; n < L; ++n) chosen[n] = flags.data[n] ? 0 : -1;
    return chosen;
}

// The first nv numbers of each world of an array [world, item], to a pack for each item. A lane without a world has
// those of the last one.
template <typename Number, int L>
BACKSWING_INLINE void side_by_side(const Array<Number>& array, int group, int nv, Pack<Number, L>* target) {
    for (int n = 0; n < L; ++n) {
        const int last = array.shape[0] - 1;
        const int world = group * L + n < last ? group * L + n : last;
        const Number* own = reinterpret_cast<const Number*>(
            reinterpret_cast<const char*>(array.data) + world * wp::int64(array.strides[0]));
        for (int k = 0; k < nv; ++k) target[k][n] = own[k];
    }
}

} // namespace backswing
