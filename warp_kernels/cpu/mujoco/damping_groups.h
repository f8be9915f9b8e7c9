// Factors of the mass matrix with implicit joint damping, for the worlds of a lane group: see
// warp_kernels.solver.mujoco.integrators.damping.
#pragma once

#include "../lanes.h"
#include "damping.h"

namespace backswing::damping {

template <typename Number, int L, typename Paths, typename T>
BACKSWING_INLINE void factor_damped(int group, const Paths& paths, const Array<T>& factor_l, const Array<T>& factor_d,
    const Array<T>& damped_l, const Array<T>& damped_d) {
    using View = Items<Number, L>;
    propagate<Number>(paths.dof_depth.shape[0], Ancestors(paths), View(factor_l, group), View(factor_d, group),
        View(damped_l, group), View(damped_d, group));
}

} // namespace backswing::damping
