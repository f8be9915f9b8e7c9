// Solves with the factors of the mass matrix, for the worlds of a lane group: see warp_kernels.solver.impulse_groups.
#pragma once

#include "../lanes.h"
#include "../paths.h"

namespace backswing::impulse_groups {

// Multiply the weights by D^-1 L'^-1.
template <typename Number, int L, typename Paths, typename T>
BACKSWING_INLINE void solve_upper(int group, int nv, const Paths& paths, const Array<T>& factor_l_array,
    const Array<T>& factor_d_array, const Array<T>& weight_array) {
    const Items<Number, L> factor_l(factor_l_array, group), factor_d(factor_d_array, group),
        weight(weight_array, group);
    const Ancestors path(paths);
    for (int k = nv - 1; k >= 0; --k) {
        const Pack<Number, L> value = weight[k];
        for (int at = path.starts[k]; at < path.starts[k] + path.depths[k]; ++at)
            weight[path.ancestors[at]] -= factor_l[at] * value;
    }
    for (int k = 0; k < nv; ++k) weight[k] *= factor_d[k];
}

// Compute the adjoints of row k of the mass matrix, below its diagonal.
template <typename Number, int L, typename Paths, typename T>
BACKSWING_INLINE void find_mass_bars(int k, int group, const Paths& paths, const T& w, const T& u,
    const Array<T>& response_array, const Array<T>& weight_array, const Array<T>& solver_mass_bar_array,
    const Array<T>& mass_bar_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> response(response_array, group), weight(weight_array, group),
        solver_mass_bar(solver_mass_bar_array, group), mass_bar(mass_bar_array, group);
    const Ancestors path(paths);
    const Pack own_w = *reinterpret_cast<const Pack*>(&w), own_u = *reinterpret_cast<const Pack*>(&u);
    const bool has_own = solver_mass_bar_array.shape[0] > 0;
    const int first = path.starts[k], depth = path.depths[k];
    for (int at = first; at < first + depth; ++at) {
        const int j = path.ancestors[at];
        Pack bar = -own_w * response[j] - weight[j] * own_u;
        if (has_own) bar += solver_mass_bar[at];
        mass_bar[at] = bar;
    }
}

// Convert the adjoints of L and D, in place, to those of the mass matrix.
template <typename Number, int L, typename Paths>
BACKSWING_INLINE void factorisation_adjoint(int group, int nv, const Paths& paths, const Array<Number>& factor_l_array,
    const Array<Number>& factor_d_array, const Array<Number>& solver_mass_bar_array,
    const Array<Number>& solver_mass_bar_diagonal_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> factor_l(factor_l_array, group), factor_d(factor_d_array, group),
        solver_mass_bar(solver_mass_bar_array, group), solver_mass_bar_diagonal(solver_mass_bar_diagonal_array, group);
    const Ancestors path(paths);
    for (int k = 0; k < nv; ++k) {
        const int first = path.starts[k], depth = path.depths[k];
        const Pack pivot = Number(1) / factor_d[k];
        Pack pivot_bar = solver_mass_bar_diagonal[k];
        for (int d = 0; d < depth; ++d) {
            const int j = path.ancestors[first + d], pair = path.starts[j];
            const Pack below = factor_l[first + d];
            const Pack own = solver_mass_bar_diagonal[j] * below, weight = pivot * below;
            Pack pairs = 0;
            for (int e = 0; e < d; ++e) {
                const Pack entry = solver_mass_bar[pair + e];
                pairs += entry * factor_l[first + e];
                solver_mass_bar[first + e] -= weight * entry;
            }
            pivot_bar -= (own + pairs) * below;
            solver_mass_bar[first + d] -= pivot * (2 * own + pairs);
        }
        for (int d = 0; d < depth; ++d) {
            const Pack bar = solver_mass_bar[first + d] * factor_d[k];
            solver_mass_bar[first + d] = bar;
            pivot_bar -= bar * factor_l[first + d];
        }
        solver_mass_bar_diagonal[k] = pivot_bar;
    }
}

} // namespace backswing::impulse_groups
