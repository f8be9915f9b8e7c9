// Adjoint of the mass matrix in packed storage, for the worlds of a lane group: see warp_kernels.dynamics.composite.
#pragma once

#include "../lanes.h"

namespace backswing::composite {

// Propagate the adjoints of row k to its column of motions, and add to those of its ancestors.
template <typename Number, int L, typename Spatial, typename T>
BACKSWING_INLINE Spatial packed_path(int k, int group, const Spatial& force, const Array<int>& depth,
    const Array<int>& row_start, const Array<int>& ancestor, const Array<Spatial>& subspace, const Array<T>& mass_bar,
    const Array<T>& mass_bar_diagonal, const Array<Spatial>& subspace_bar) {
    using Pack = backswing::Pack<Number, L>;
    const Pack* push = reinterpret_cast<const Pack*>(&force);
    auto of = [group](auto& array, int i) { return reinterpret_cast<Pack*>(entry<char>(array, i, group)); };
    const Pack own = *of(mass_bar_diagonal, k);
    const Pack* column = of(subspace, k);
    Pack along[6];
    for (int c = 0; c < 6; ++c) along[c] = own * column[c];
    const int first = row_start.data[k];
    const int past = first + depth.data[k];
    for (int at = first; at < past; ++at) {
        const int j = ancestor.data[at];
        const Pack bar = *of(mass_bar, at);
        const Pack* motion = of(subspace, j);
        Pack* motion_bar = of(subspace_bar, j);
        for (int c = 0; c < 6; ++c) {
            along[c] += bar * motion[c];
            motion_bar[c] += bar * push[c];
        }
    }
    Spatial result;
    for (int c = 0; c < 6; ++c) reinterpret_cast<Pack*>(&result)[c] = along[c];
    return result;
}

} // namespace backswing::composite
