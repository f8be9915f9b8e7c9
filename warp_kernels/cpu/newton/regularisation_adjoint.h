// Sums over the ancestors of a degree of freedom, for warp_kernels.solver.newton.adjoint.regularisation: in one world.
// For CPUs and GPUs.
#pragma once

#include "../constraints/rows.h"

namespace backswing::regularisation_adjoint {

// Multiply the row of L of degree of freedom k by the responses above it, which begin at `at`. If `is_new`, subtract z
// times the responses from that row's adjoint.
template <typename Number, typename Paths>
BACKSWING_INLINE Vec3<Number> take_above(const Paths& paths, int k, int at, const Vec3<Number>& z, bool is_new,
    const Array<Number>& factor_l_array, const Array<Vec3<Number>>& response_array, const Array<Number>& bar_array,
    int world) {
    const Ancestors path(paths);
    const int first = path.starts[k];
    const auto factor_l = column(factor_l_array, world, first), bar = column(bar_array, world, first);
    const auto response = column(response_array, world, at);
    const int* above = path.ancestors + first;
    Vec3<Number> total;
    for (int e = 0; e < path.depths[k]; ++e) {
        const Vec3<Number> other = response[above[e]];
        total += factor_l[e] * other;
        if (is_new) bar[e] -= wp::dot(z, other);
    }
    return total;
}

// Subtract `weight` times the entries from `first` on from those from `pair` on. Return the latter times L's from
// `first` on.
template <typename Number>
BACKSWING_INLINE Number take_pairs(int first, int pair, int count, Number weight, const Array<Number>& factor_l_array,
    const Array<Number>& bar_array, int world) {
    const auto factor_l = column(factor_l_array, world, first), bar = column(bar_array, world, first),
               pairs = column(bar_array, world, pair);
    Number total = 0;
    for (int e = 0; e < count; ++e) {
        const Number entry = pairs[e];
        total += entry * factor_l[e];
        bar[e] -= weight * entry;
    }
    return total;
}

} // namespace backswing::regularisation_adjoint
