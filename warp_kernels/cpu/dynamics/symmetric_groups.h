// Symmetric 6x6 matrices in arrays [item, group], for the worlds of a lane group: see warp_kernels.dynamics.symmetric.
#pragma once

#include "../lanes.h"
#include "symmetric.h"

namespace backswing::symmetric {

template <typename Number, int L>
struct Worlds {
    typedef Pack<Number, L> Value;
};

template <typename Number, int L, typename T>
BACKSWING_INLINE void add_matrix(const Array<T>& sources, int from, const Array<T>& targets, int to, int group) {
    add<Worlds<Number, L>>(sources, from, targets, to, group);
}

template <typename Number, int L, typename T, typename Matrix, typename Vector>
BACKSWING_INLINE void add_damping(
    const Array<T>& matrices, int item, int group, const Matrix& about, const Matrix& along, const Vector& point) {
    add_about<Worlds<Number, L>>(matrices, item, group, about, along, point);
}

template <typename Number, int L, typename T, typename Spatial>
BACKSWING_INLINE Spatial matrix_times(const Array<T>& matrices, int item, int group, const Spatial& motion) {
    return times<Worlds<Number, L>>(matrices, item, group, motion);
}

template <typename Number, int L, typename T, typename Spatial>
BACKSWING_INLINE void add_product(
    const Array<T>& matrices, int item, int group, const Spatial& first, const Spatial& second) {
    add_mixed<Number, Worlds<Number, L>>(matrices, item, group, first, second);
}

} // namespace backswing::symmetric
