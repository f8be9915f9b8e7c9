// Solves with the matrices A = U L and M = L' D L of a tree, in one world: see
// warp_kernels.solver.midpoint.coupled_system. For CPUs and GPUs. Matrices and vectors are seen as arrays over entries
// and degrees of freedom.
#pragma once

#include "../paths.h"

namespace backswing::coupled {

// Degrees of freedom of a tree.
struct Tree {
    Ancestors path;
    int start, end;

    template <typename Paths>
    BACKSWING_MEMBER Tree(const Paths& paths, int start, int end) : path(paths), start(start), end(end) {}
};

// Entries above those of row k, from `above` on, less products with its first entries, from `first` on.
template <typename View, typename Value>
BACKSWING_INLINE void eliminate(
    const View& lower, const View& upper, int above, int first, int count, Value share, Value below) {
    for (int e = 0; e < count; ++e) {
        lower[above + e] -= share * lower[first + e];
        upper[above + e] -= upper[first + e] * below;
    }
}

// The same for entries that follow each other in memory. Rows don't overlap.
template <typename Number>
BACKSWING_INLINE void eliminate(
    Number* lower, Number* upper, int above, int first, int count, Number share, Number below) {
#if defined(__clang__) && !defined(__CUDA_ARCH__)
#pragma clang loop vectorize(assume_safety) vectorize_width(4) interleave_count(1)
#endif
    for (int e = 0; e < count; ++e) {
        lower[above + e] -= share * lower[first + e];
        upper[above + e] -= upper[first + e] * below;
    }
}

// Factor A in place: entries of U above the diagonal, of L on it and below.
template <typename Number, typename View>
BACKSWING_INLINE void factor(const Tree& tree, const View& lower, const View& upper, const View& diagonal) {
    for (int k = tree.end - 1; k >= tree.start; --k) {
        const int first = tree.path.starts[k], depth = tree.path.depths[k];
        const auto pivot = Number(1) / diagonal[k];
        for (int d = 0; d < depth; ++d) upper[first + d] *= pivot;
        for (int d = 0; d < depth; ++d) {
            const int j = tree.path.ancestors[first + d], above = tree.path.starts[j];
            const auto share = upper[first + d], below = lower[first + d];
            eliminate(lower, upper, above, first, d, share, below);
            diagonal[j] -= share * below;
        }
    }
}

// Subtract the entries of row k, which begin at `first`, times x_k from x at its ancestors.
template <typename View, typename Value>
BACKSWING_INLINE void push(const Tree& tree, int k, const View& entries, Value value, const View& x) {
    const int first = tree.path.starts[k];
    for (int at = first; at < first + tree.path.depths[k]; ++at) x[tree.path.ancestors[at]] -= entries[at] * value;
}

// Return `total` less the entries of row k times x at its ancestors.
template <typename View, typename Value>
BACKSWING_INLINE Value pull(const Tree& tree, int k, const View& entries, Value total, const View& x) {
    const int first = tree.path.starts[k];
    for (int at = first; at < first + tree.path.depths[k]; ++at) total -= entries[at] * x[tree.path.ancestors[at]];
    return total;
}

// x := A^-1 x.
template <typename Number, typename View>
BACKSWING_INLINE void solve(
    const Tree& tree, const View& lower, const View& upper, const View& diagonal, const View& x) {
    for (int k = tree.end - 1; k >= tree.start; --k) {
        const auto value = x[k];
        push(tree, k, upper, value, x);
    }
    for (int k = tree.start; k < tree.end; ++k) {
        const auto value = x[k];
        x[k] = pull(tree, k, lower, value, x) / diagonal[k];
    }
}

// x := A'^-1 x.
template <typename Number, typename View>
BACKSWING_INLINE void solve_transposed(
    const Tree& tree, const View& lower, const View& upper, const View& diagonal, const View& x) {
    for (int k = tree.end - 1; k >= tree.start; --k) {
        const auto value = x[k] / diagonal[k];
        x[k] = value;
        push(tree, k, lower, value, x);
    }
    for (int k = tree.start; k < tree.end; ++k) {
        const auto value = x[k];
        x[k] = pull(tree, k, upper, value, x);
    }
}

// x := M x; factor_d has D^-1.
template <typename Number, typename View>
BACKSWING_INLINE void multiply_mass(const Tree& tree, const View& factor_l, const View& factor_d, const View& x) {
    for (int k = tree.end - 1; k >= tree.start; --k) {
        const auto value = -x[k];
        x[k] = -pull(tree, k, factor_l, value, x) / factor_d[k];
    }
    // An entry's own column comes last: the entries above it are still to be multiplied by it.
    for (int k = tree.start; k < tree.end; ++k) {
        const auto value = -x[k];
        push(tree, k, factor_l, value, x);
    }
}

// x := M^-1 x.
template <typename Number, typename View>
BACKSWING_INLINE void solve_mass(const Tree& tree, const View& factor_l, const View& factor_d, const View& x) {
    for (int k = tree.end - 1; k >= tree.start; --k) {
        const auto value = x[k];
        push(tree, k, factor_l, value, x);
    }
    for (int k = tree.start; k < tree.end; ++k) {
        const auto value = x[k] * factor_d[k];
        x[k] = pull(tree, k, factor_l, value, x);
    }
}

template <typename Number, typename Paths>
BACKSWING_INLINE void factor_tree(const Paths& paths, int start, int end, int world, const Array<Number>& lower,
    const Array<Number>& upper, const Array<Number>& diagonal) {
    const Tree tree(paths, start, end);
    if (lower.strides[0] == sizeof(Number))
        factor<Number>(tree, lower.data, upper.data, diagonal.data);
    else
        factor<Number>(tree, column(lower, world), column(upper, world), column(diagonal, world));
}

template <typename Number, typename Paths>
BACKSWING_INLINE void solve_tree(const Paths& paths, int start, int end, int world, const Array<Number>& lower,
    const Array<Number>& upper, const Array<Number>& diagonal, const Array<Number>& x) {
    const Tree tree(paths, start, end);
    if (lower.strides[0] == sizeof(Number))
        solve<Number>(tree, lower.data, upper.data, diagonal.data, x.data);
    else
        solve<Number>(tree, column(lower, world), column(upper, world), column(diagonal, world), column(x, world));
}

template <typename Number, typename Paths>
BACKSWING_INLINE void solve_tree_transposed(const Paths& paths, int start, int end, int world,
    const Array<Number>& lower, const Array<Number>& upper, const Array<Number>& diagonal, const Array<Number>& x) {
    solve_transposed<Number>(
        Tree(paths, start, end), column(lower, world), column(upper, world), column(diagonal, world), column(x, world));
}

template <typename Number, typename Paths>
BACKSWING_INLINE void multiply_tree(const Paths& paths, int start, int end, int world, const Array<Number>& factor_l,
    const Array<Number>& factor_d, const Array<Number>& x) {
    multiply_mass<Number>(Tree(paths, start, end), column(factor_l, world), column(factor_d, world), column(x, world));
}

template <typename Number, typename Paths>
BACKSWING_INLINE void solve_tree_mass(const Paths& paths, int start, int end, int world, const Array<Number>& factor_l,
    const Array<Number>& factor_d, const Array<Number>& x) {
    solve_mass<Number>(Tree(paths, start, end), column(factor_l, world), column(factor_d, world), column(x, world));
}

} // namespace backswing::coupled
