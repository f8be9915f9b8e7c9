// Factors of the mass matrix with implicit joint damping, in one world: see
// warp_kernels.solver.mujoco.integrators.damping. For CPUs and GPUs.
#pragma once

#include "../paths.h"

namespace backswing::damping {

// Compute the factors of M + h D from those of M, seen as arrays over items. Before, damped_d has h D; a row
// accumulates its changes until its turn.
template <typename Number, typename View>
BACKSWING_INLINE void propagate(int nv, const Ancestors& path, const View& factor_l, const View& factor_d,
    const View& damped_l, const View& damped_d) {
    for (int k = nv - 1; k >= 0; --k) {
        const int first = path.starts[k], depth = path.depths[k];
        const auto before = Number(1) / factor_d[k];
        const auto after = before + damped_d[k];
        const auto inverse = Number(1) / after;
        damped_d[k] = inverse;
        for (int d = 0; d < depth; ++d) {
            const int j = path.ancestors[first + d], above = path.starts[j];
            const auto own = factor_l[first + d];
            const auto left = before * own;
            const auto found = (left + damped_l[first + d]) * inverse;
            const auto taken = after * found;
            damped_l[first + d] = found;
            damped_d[j] += left * own - taken * found;
            for (int e = 0; e < d; ++e) damped_l[above + e] += left * factor_l[first + e] - taken * damped_l[first + e];
        }
    }
}

template <typename Number, typename Paths>
BACKSWING_INLINE void factor_damped(int world, const Paths& paths, const Array<Number>& factor_l,
    const Array<Number>& factor_d, const Array<Number>& damped_l, const Array<Number>& damped_d) {
    propagate<Number>(paths.dof_depth.shape[0], Ancestors(paths), column(factor_l, world), column(factor_d, world),
        column(damped_l, world), column(damped_d, world));
}

} // namespace backswing::damping
