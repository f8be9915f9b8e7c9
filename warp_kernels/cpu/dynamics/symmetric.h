// Symmetric 6x6 matrices in arrays [item, group], 21 entries each as of warp_kernels.dynamics.aba: in place, since
// copies of those of a lane group take as long as what is done with them. For CPUs and GPUs.
#pragma once

#include "../arrays.h"

namespace backswing::symmetric {

// Entries that are numbers. A type with a Pack as its Value is that of a lane group: as an argument of a template a
// Pack itself would lose its alignment.
template <typename Number>
struct OneWorld {
    typedef Number Value;
};

// The entries of a matrix.
template <typename Of, typename T>
BACKSWING_INLINE typename Of::Value* entries(const Array<T>& matrices, int item, int group) {
    return reinterpret_cast<typename Of::Value*>(reinterpret_cast<char*>(matrices.data) +
                                                 item * wp::int64(matrices.strides[0]) +
                                                 group * wp::int64(matrices.strides[1]));
}

// Add a matrix to one of another array, or the same.
template <typename Of, typename T>
BACKSWING_INLINE void add(const Array<T>& sources, int from, const Array<T>& targets, int to, int group) {
    using Value = typename Of::Value;
    const Value* source = entries<Of>(sources, from, group);
    Value* target = entries<Of>(targets, to, group);
    for (int c = 0; c < 21; ++c) target[c] += source[c];
}

// Add the damping of turns, and of the point at c, whose velocity is v + w x c.
template <typename Of, typename T, typename Matrix, typename Vector>
BACKSWING_INLINE void add_about(
    const Array<T>& matrices, int item, int group, const Matrix& about, const Matrix& along, const Vector& point) {
    using Value = typename Of::Value;
    const Value* w = reinterpret_cast<const Value*>(&about);
    const Value* v = reinterpret_cast<const Value*>(&along);
    const Value* c = reinterpret_cast<const Value*>(&point);
    Value mixed[9]; // the matrix of c x, times that of v
    for (int j = 0; j < 3; ++j) {
        mixed[j] = c[1] * v[6 + j] - c[2] * v[3 + j];
        mixed[3 + j] = c[2] * v[j] - c[0] * v[6 + j];
        mixed[6 + j] = c[0] * v[3 + j] - c[1] * v[j];
    }
    Value* i = entries<Of>(matrices, item, group);
    i[0] += w[0] + c[1] * mixed[2] - c[2] * mixed[1];
    i[1] += w[4] + c[2] * mixed[3] - c[0] * mixed[5];
    i[2] += w[8] + c[0] * mixed[7] - c[1] * mixed[6];
    i[3] += w[1] + c[2] * mixed[0] - c[0] * mixed[2];
    i[4] += w[2] + c[0] * mixed[1] - c[1] * mixed[0];
    i[5] += w[5] + c[0] * mixed[4] - c[1] * mixed[3];
    for (int k = 0; k < 9; ++k) i[6 + k] += mixed[k];
    for (int k = 0; k < 3; ++k) i[15 + k] += v[4 * k];
    i[18] += v[1];
    i[19] += v[2];
    i[20] += v[5];
}

// Multiply by a motion.
template <typename Of, typename T, typename Spatial>
BACKSWING_INLINE Spatial times(const Array<T>& matrices, int item, int group, const Spatial& motion) {
    using Value = typename Of::Value;
    const Value* i = entries<Of>(matrices, item, group);
    const Value* m = reinterpret_cast<const Value*>(&motion);
    Spatial result;
    Value* force = reinterpret_cast<Value*>(&result);
    force[0] = i[0] * m[0] + i[3] * m[1] + i[4] * m[2] + i[6] * m[3] + i[7] * m[4] + i[8] * m[5];
    force[1] = i[3] * m[0] + i[1] * m[1] + i[5] * m[2] + i[9] * m[3] + i[10] * m[4] + i[11] * m[5];
    force[2] = i[4] * m[0] + i[5] * m[1] + i[2] * m[2] + i[12] * m[3] + i[13] * m[4] + i[14] * m[5];
    force[3] = i[6] * m[0] + i[9] * m[1] + i[12] * m[2] + i[15] * m[3] + i[18] * m[4] + i[19] * m[5];
    force[4] = i[7] * m[0] + i[10] * m[1] + i[13] * m[2] + i[18] * m[3] + i[16] * m[4] + i[20] * m[5];
    force[5] = i[8] * m[0] + i[11] * m[1] + i[14] * m[2] + i[19] * m[3] + i[20] * m[4] + i[17] * m[5];
    return result;
}

// Add (x y' + y x') / 2.
template <typename Number, typename Of, typename T, typename Spatial>
BACKSWING_INLINE void add_mixed(
    const Array<T>& matrices, int item, int group, const Spatial& first, const Spatial& second) {
    using Value = typename Of::Value;
    Value* i = entries<Of>(matrices, item, group);
    const Value* x = reinterpret_cast<const Value*>(&first);
    const Value* y = reinterpret_cast<const Value*>(&second);
    const int rows[21] = {0, 1, 2, 0, 0, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 3, 3, 4};
    const int columns[21] = {0, 1, 2, 1, 2, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5, 3, 4, 5, 4, 5, 5};
    for (int c = 0; c < 21; ++c) i[c] += Number(0.5) * (x[rows[c]] * y[columns[c]] + y[rows[c]] * x[columns[c]]);
}

template <typename Number, typename T>
BACKSWING_INLINE void add_matrix(const Array<T>& sources, int from, const Array<T>& targets, int to, int group) {
    add<OneWorld<Number>>(sources, from, targets, to, group);
}

template <typename Number, typename T, typename Matrix, typename Vector>
BACKSWING_INLINE void add_damping(
    const Array<T>& matrices, int item, int group, const Matrix& about, const Matrix& along, const Vector& point) {
    add_about<OneWorld<Number>>(matrices, item, group, about, along, point);
}

template <typename Number, typename T, typename Spatial>
BACKSWING_INLINE Spatial matrix_times(const Array<T>& matrices, int item, int group, const Spatial& motion) {
    return times<OneWorld<Number>>(matrices, item, group, motion);
}

template <typename Number, typename T, typename Spatial>
BACKSWING_INLINE void add_product(
    const Array<T>& matrices, int item, int group, const Spatial& first, const Spatial& second) {
    add_mixed<Number, OneWorld<Number>>(matrices, item, group, first, second);
}

} // namespace backswing::symmetric
