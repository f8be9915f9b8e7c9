// Arithmetic of Warp's vectors with a number for each world of a lane group, a register at a time.
//
// Warp's own functions loop over the numbers of such a vector. The compiler then unrolls every loop, splits each vector
// into scalars and recombines them, which takes more than half of its time. The functions below have the same
// arguments, the same names and the same results, and operate on whole vectors; Clang prefers them, since they are for
// one length.
#pragma once

#include "../lanes.h"

namespace backswing {

// As in warp_kernels.types.
constexpr int LANES = 8;

} // namespace backswing

namespace wp {

constexpr unsigned lanes_of_a_group = backswing::LANES;

template <typename T>
struct lane_vector {
    typedef T type __attribute__((ext_vector_type(lanes_of_a_group), aligned(sizeof(T)), may_alias));
};
template <typename T>
inline typename lane_vector<T>::type& lane_values(T* x) {
    return *reinterpret_cast<typename lane_vector<T>::type*>(x);
}
template <typename T>
inline const typename lane_vector<T>::type& lane_values(const T* x) {
    return *reinterpret_cast<const typename lane_vector<T>::type*>(x);
}

template <typename T>
inline vec_t<lanes_of_a_group, T> neg(const vec_t<lanes_of_a_group, T>& a) {
    vec_t<lanes_of_a_group, T> y;
    lane_values(y.c) = -lane_values(a.c);
    return y;
}
template <unsigned Rows, typename T>
inline mat_t<Rows, lanes_of_a_group, T> neg(const mat_t<Rows, lanes_of_a_group, T>& a) {
    mat_t<Rows, lanes_of_a_group, T> y;
    for (unsigned i = 0; i < Rows; ++i) lane_values(y.data[i]) = -lane_values(a.data[i]);
    return y;
}

template <typename T>
inline vec_t<lanes_of_a_group, T> mul(const vec_t<lanes_of_a_group, T>& a, T s) {
    vec_t<lanes_of_a_group, T> y;
    lane_values(y.c) = lane_values(a.c) * s;
    return y;
}
template <unsigned Rows, typename T>
inline mat_t<Rows, lanes_of_a_group, T> mul(const mat_t<Rows, lanes_of_a_group, T>& a, T s) {
    mat_t<Rows, lanes_of_a_group, T> y;
    for (unsigned i = 0; i < Rows; ++i) lane_values(y.data[i]) = lane_values(a.data[i]) * s;
    return y;
}
template <typename T>
inline vec_t<lanes_of_a_group, T> mul(T s, const vec_t<lanes_of_a_group, T>& a) {
    return mul(a, s);
}
template <unsigned Rows, typename T>
inline mat_t<Rows, lanes_of_a_group, T> mul(T s, const mat_t<Rows, lanes_of_a_group, T>& a) {
    return mul(a, s);
}

template <unsigned Rows, typename T>
inline vec_t<lanes_of_a_group, T> extract(const mat_t<Rows, lanes_of_a_group, T>& m, int row) {
    vec_t<lanes_of_a_group, T> y;
    lane_values(y.c) = lane_values(m.data[row]);
    return y;
}
template <unsigned Rows, unsigned Columns, typename T>
inline mat_t<Rows, Columns, T> matrix_from_rows(const initializer_array<Rows, vec_t<Columns, T>>& rows)
    __attribute__((enable_if(Columns == lanes_of_a_group, "lanes"))) {
    mat_t<Rows, Columns, T> m;
    for (unsigned i = 0; i < Rows; ++i) lane_values(m.data[i]) = lane_values(rows.storage[i].c);
    return m;
}

// Element by element, of vectors and of matrices.
#define BACKSWING_OF_TWO(name, operator)                                                                               \
    template <typename T>                                                                                              \
    inline vec_t<lanes_of_a_group, T> name(const vec_t<lanes_of_a_group, T>& a, const vec_t<lanes_of_a_group, T>& b) { \
        vec_t<lanes_of_a_group, T> y;                                                                                  \
        lane_values(y.c) = lane_values(a.c) operator lane_values(b.c);                                                 \
        return y;                                                                                                      \
    }                                                                                                                  \
    template <unsigned Rows, typename T>                                                                               \
    inline mat_t<Rows, lanes_of_a_group, T> name(                                                                      \
        const mat_t<Rows, lanes_of_a_group, T>& a, const mat_t<Rows, lanes_of_a_group, T>& b) {                        \
        mat_t<Rows, lanes_of_a_group, T> y;                                                                            \
        for (unsigned i = 0; i < Rows; ++i)                                                                            \
            lane_values(y.data[i]) = lane_values(a.data[i]) operator lane_values(b.data[i]);                           \
        return y;                                                                                                      \
    }
BACKSWING_OF_TWO(add, +)
BACKSWING_OF_TWO(sub, -)
BACKSWING_OF_TWO(cw_mul, *)
BACKSWING_OF_TWO(cw_div, /)
#undef BACKSWING_OF_TWO

} // namespace wp
