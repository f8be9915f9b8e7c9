// Solves with the matrices of a tree, for the worlds of a lane group: see warp_kernels.solver.midpoint.coupled_system.
#pragma once

#include "../lanes.h"
#include "coupled_system.h"

namespace backswing::coupled {

template <typename Number, int L, typename Paths, typename T>
BACKSWING_INLINE void factor_tree(const Paths& paths, int start, int end, int group, const Array<T>& lower,
    const Array<T>& upper, const Array<T>& diagonal) {
    using View = Items<Number, L>;
    factor<Number>(Tree(paths, start, end), View(lower, group), View(upper, group), View(diagonal, group));
}

template <typename Number, int L, typename Paths, typename T>
BACKSWING_INLINE void solve_tree(const Paths& paths, int start, int end, int group, const Array<T>& lower,
    const Array<T>& upper, const Array<T>& diagonal, const Array<T>& x) {
    using View = Items<Number, L>;
    solve<Number>(
        Tree(paths, start, end), View(lower, group), View(upper, group), View(diagonal, group), View(x, group));
}

template <typename Number, int L, typename Paths, typename T>
BACKSWING_INLINE void solve_tree_transposed(const Paths& paths, int start, int end, int group, const Array<T>& lower,
    const Array<T>& upper, const Array<T>& diagonal, const Array<T>& x) {
    using View = Items<Number, L>;
    solve_transposed<Number>(
        Tree(paths, start, end), View(lower, group), View(upper, group), View(diagonal, group), View(x, group));
}

template <typename Number, int L, typename Paths, typename T>
BACKSWING_INLINE void multiply_tree(const Paths& paths, int start, int end, int group, const Array<T>& factor_l,
    const Array<T>& factor_d, const Array<T>& x) {
    using View = Items<Number, L>;
    multiply_mass<Number>(Tree(paths, start, end), View(factor_l, group), View(factor_d, group), View(x, group));
}

template <typename Number, int L, typename Paths, typename T>
BACKSWING_INLINE void solve_tree_mass(const Paths& paths, int start, int end, int group, const Array<T>& factor_l,
    const Array<T>& factor_d, const Array<T>& x) {
    using View = Items<Number, L>;
    solve_mass<Number>(Tree(paths, start, end), View(factor_l, group), View(factor_d, group), View(x, group));
}

} // namespace backswing::coupled
