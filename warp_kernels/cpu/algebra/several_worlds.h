// Functions of vectors with a number for each world: see warp_kernels.algebra.several_worlds and
// warp_kernels.algebra.trigonometry.
#pragma once

#include "../lanes.h"

namespace backswing::algebra {

template <typename Number, int L>
using Vector = wp::vec_t<L, Number>;

template <typename Number, int L>
BACKSWING_INLINE Vector<Number, L> from_pack(Pack<Number, L> x) {
    Vector<Number, L> result;
    *reinterpret_cast<Pack<Number, L>*>(result.c) = x;
    return result;
}

// The same number in all lanes.
template <typename Number, int L>
BACKSWING_INLINE Vector<Number, L> real(Number x) {
    const Pack<Number, L> y = x;
    return from_pack<Number, L>(y);
}

// 1, -1, or 0 of zero.
template <typename Number, int L>
BACKSWING_INLINE Vector<Number, L> sign(const Vector<Number, L>& x) {
    const Pack<Number, L> of = *reinterpret_cast<const Pack<Number, L>*>(x.c), none = Number(0), one = Number(1);
    const Pack<Number, L> y = of > none ? one : of < none ? -one : none;
    return from_pack<Number, L>(y);
}

// One over the square root; zero for zero.
template <typename Number, int L>
BACKSWING_INLINE Vector<Number, L> over_root(const Vector<Number, L>& x) {
    const Pack<Number, L> of = *reinterpret_cast<const Pack<Number, L>*>(x.c), none = Number(0), one = Number(1);
    const Pack<Number, L> y = of == none ? none : one / __builtin_elementwise_sqrt(of);
    return from_pack<Number, L>(y);
}

// The angles, those beyond `far` reduced to one turn.
template <typename Number, int L>
BACKSWING_INLINE Vector<Number, L> reduced(const Vector<Number, L>& x, Number far) {
    bool beyond = false;
    for (int n = 0; n < L; ++n) beyond |= wp::abs(x.c[n]) > far;
    if (__builtin_expect(beyond, false)) {
        Vector<Number, L> y = x;
#pragma clang loop unroll(disable)
        for (int n = 0; n < L; ++n) y.c[n] = wp::atan2(wp::sin(y.c[n]), wp::cos(y.c[n]));
        return y;
    }
    return x;
}

// Parameters with a value per world: vectors or matrices of ROWS numbers. These loops aren't unrolled: most models have
// one value for all worlds, and most of the code would be theirs.
template <typename Number, int L, int ROWS, typename T>
BACKSWING_INLINE wp::mat_t<ROWS, L, Number> own(const Array<T>& values, int group, int item) {
    wp::mat_t<ROWS, L, Number> x;
    const int last = values.shape[0] - 1;
#pragma clang loop unroll(disable) vectorize(disable)
    for (int n = 0; n < L; ++n) {
        const int world = group * L + n;
        const Number* one = reinterpret_cast<const Number*>(&wp::index(values, world < last ? world : last, item));
        for (int c = 0; c < ROWS; ++c) x.data[c][n] = one[c];
    }
    return x;
}
template <typename Number, int L, int ROWS, typename T>
BACKSWING_INLINE void add_own(const Array<T>& values, int group, int item, const wp::mat_t<ROWS, L, Number>& x) {
    const int last = values.shape[0] - 1;
#pragma clang loop unroll(disable) vectorize(disable)
    for (int n = 0; n < L; ++n) {
        const int world = group * L + n;
        if (world > last) return;
        Number* one = reinterpret_cast<Number*>(&wp::index(values, world, item));
        for (int c = 0; c < ROWS; ++c) one[c] += x.data[c][n];
    }
}

} // namespace backswing::algebra
