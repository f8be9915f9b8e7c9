"""How vectors with a number for each world of a lane group are worked on on a CPU: a register at a time.

Warp's own functions go through such a vector number by number. The compiler then unrolls every loop, takes each vector to
pieces and puts the pieces together again, which takes it more than half of its time. The functions below have the same
arguments, the same names and the same results, and say at once that whole vectors are meant; Clang prefers them, since
they are of one length.
"""

_VECTORS = """
template <typename T> struct lane_vector
{{
    typedef T type __attribute__((ext_vector_type({lanes}), aligned(sizeof(T)), may_alias));
}};
template <typename T> inline typename lane_vector<T>::type& lane_values(T* x)
{{
    return *reinterpret_cast<typename lane_vector<T>::type*>(x);
}}
template <typename T> inline const typename lane_vector<T>::type& lane_values(const T* x)
{{
    return *reinterpret_cast<const typename lane_vector<T>::type*>(x);
}}
template <typename T> inline vec_t<{lanes}, T> neg(const vec_t<{lanes}, T>& a)
{{
    vec_t<{lanes}, T> y;
    lane_values(y.c) = -lane_values(a.c);
    return y;
}}
template <unsigned Rows, typename T> inline mat_t<Rows, {lanes}, T> neg(const mat_t<Rows, {lanes}, T>& a)
{{
    mat_t<Rows, {lanes}, T> y;
    for (unsigned i = 0; i < Rows; ++i) lane_values(y.data[i]) = -lane_values(a.data[i]);
    return y;
}}
template <typename T> inline vec_t<{lanes}, T> mul(const vec_t<{lanes}, T>& a, T s)
{{
    vec_t<{lanes}, T> y;
    lane_values(y.c) = lane_values(a.c) * s;
    return y;
}}
template <unsigned Rows, typename T> inline mat_t<Rows, {lanes}, T> mul(const mat_t<Rows, {lanes}, T>& a, T s)
{{
    mat_t<Rows, {lanes}, T> y;
    for (unsigned i = 0; i < Rows; ++i) lane_values(y.data[i]) = lane_values(a.data[i]) * s;
    return y;
}}
template <typename T> inline vec_t<{lanes}, T> mul(T s, const vec_t<{lanes}, T>& a)
{{
    return mul(a, s);
}}
template <unsigned Rows, typename T> inline mat_t<Rows, {lanes}, T> mul(T s, const mat_t<Rows, {lanes}, T>& a)
{{
    return mul(a, s);
}}
template <unsigned Rows, typename T> inline vec_t<{lanes}, T> extract(const mat_t<Rows, {lanes}, T>& m, int row)
{{
    vec_t<{lanes}, T> y;
    lane_values(y.c) = lane_values(m.data[row]);
    return y;
}}
template <unsigned Rows, unsigned Columns, typename T>
inline mat_t<Rows, Columns, T> matrix_from_rows(const initializer_array<Rows, vec_t<Columns, T>>& rows)
    __attribute__((enable_if(Columns == {lanes}, "lanes")))
{{
    mat_t<Rows, Columns, T> m;
    for (unsigned i = 0; i < Rows; ++i) lane_values(m.data[i]) = lane_values(rows.storage[i].c);
    return m;
}}
"""
_OF_TWO = """
template <typename T> inline vec_t<{lanes}, T> {name}(const vec_t<{lanes}, T>& a, const vec_t<{lanes}, T>& b)
{{
    vec_t<{lanes}, T> y;
    lane_values(y.c) = lane_values(a.c) {operator} lane_values(b.c);
    return y;
}}
template <unsigned Rows, typename T>
inline mat_t<Rows, {lanes}, T> {name}(const mat_t<Rows, {lanes}, T>& a, const mat_t<Rows, {lanes}, T>& b)
{{
    mat_t<Rows, {lanes}, T> y;
    for (unsigned i = 0; i < Rows; ++i)
        lane_values(y.data[i]) = lane_values(a.data[i]) {operator} lane_values(b.data[i]);
    return y;
}}
"""
OPERATORS = {"add": "+", "sub": "-", "cw_mul": "*", "cw_div": "/"}


def lane_functions(lanes: int) -> str:
    """C++ source of the functions for lane groups of ``lanes`` worlds, to stand before that of a module."""
    of_two = (_OF_TWO.format(lanes=lanes, name=name, operator=operator) for name, operator in OPERATORS.items())
    return "namespace wp {\n" + _VECTORS.format(lanes=lanes) + "".join(of_two) + "}\n"
