// Rows of a constraint along the paths of its sides, and the factors of the mass matrix, in one world: see
// warp_kernels.constraints.products. For CPUs and GPUs. `Paths` is the struct of warp_kernels.solver.structs.
#pragma once

#include "../paths.h"

namespace backswing::rows {

// Call each(k, d) for the degree of freedom k at each depth d of a path. The six of a floating base, with which its
// paths begin, are contiguous: a CPU's compiler unrolls their loop. A GPU needs its registers.
template <typename Each>
BACKSWING_INLINE void along(const Path& path, const Each& each) {
    int d = 0;
#ifndef __CUDA_ARCH__
    if (path.depth >= 5 && path[5] - path.above[0] == 5) {
        const int first = path.above[0];
        for (; d < 6; ++d) each(first + d, d);
    }
#endif
    for (; d <= path.depth; ++d) each(path[d], d);
}

// Return the rows of one side, which begin at `here`, times x. On a CPU two sums are independent: each would wait for
// its previous term.
template <typename Number, typename Paths>
BACKSWING_INLINE Vec3<Number> path_product(const Array<Vec3<Number>>& row_array, int here, const Paths& paths, int tail,
    const Array<Number>& x_array, int world) {
    const auto row = column(row_array, world, here);
    const auto x = column(x_array, world);
    Vec3<Number> total;
#ifdef __CUDA_ARCH__
    along(Path(paths, tail), [&](int k, int d) { total += row[d] * x[k]; });
#else
    Vec3<Number> other;
    along(Path(paths, tail), [&](int k, int d) {
        if (d % 2)
            other += row[d] * x[k];
        else
            total += row[d] * x[k];
    });
    total += other;
#endif
    return total;
}

// Add the transposed rows of one side times `push` to x.
template <typename Number, typename Paths>
BACKSWING_INLINE void push_path(const Array<Vec3<Number>>& row_array, int here, const Paths& paths, int tail,
    const Vec3<Number>& push, const Array<Number>& x_array, int world) {
    const auto row = column(row_array, world, here);
    const auto x = column(x_array, world);
    along(Path(paths, tail), [&](int k, int d) { x[k] += wp::dot(row[d], push); });
}

// Add the transposed rows of one side times `push`, each entry times `scale`, to x.
template <typename Number, typename Paths>
BACKSWING_INLINE void push_path_scaled(const Array<Vec3<Number>>& row_array, int here, const Paths& paths, int tail,
    const Vec3<Number>& push, const Array<Number>& scale_array, const Array<Number>& x_array, int world) {
    const auto row = column(row_array, world, here);
    const auto scale = column(scale_array, world), x = column(x_array, world);
    along(Path(paths, tail), [&](int k, int d) { x[k] += wp::dot(row[d], push) * scale[k]; });
}

// Return the rows of one side times their transpose, with x between them.
template <typename Number, typename Paths>
BACKSWING_INLINE Mat33<Number> path_mobility(const Array<Vec3<Number>>& row_array, int here, const Paths& paths,
    int tail, const Array<Number>& x_array, int world) {
    const auto row = column(row_array, world, here);
    const auto x = column(x_array, world);
    Mat33<Number> total;
    along(Path(paths, tail), [&](int k, int d) { total += wp::outer(row[d], row[d] * x[k]); });
    return total;
}

// Return the trace of path_mobility.
template <typename Number, typename Paths>
BACKSWING_INLINE Number path_square(const Array<Vec3<Number>>& row_array, int here, const Paths& paths, int tail,
    const Array<Number>& x_array, int world) {
    const auto row = column(row_array, world, here);
    const auto x = column(x_array, world);
    Number total = 0;
    along(Path(paths, tail), [&](int k, int d) { total += wp::dot(row[d], row[d]) * x[k]; });
    return total;
}

// Solve L' x = x in place, x stored [dof, world].
template <typename Number, typename Paths>
BACKSWING_INLINE void solve_transposed(
    const Paths& paths, const Array<Number>& factor_l_array, const Array<Number>& x_array, int world) {
    const auto factor_l = column(factor_l_array, world), x = column(x_array, world);
    const Ancestors path(paths);
    for (int k = paths.dof_depth.shape[0] - 1; k >= 0; --k) {
        const Number value = x[k];
        if (value == Number(0)) continue;
        for (int at = path.starts[k]; at < path.starts[k] + path.depths[k]; ++at)
            x[path.ancestors[at]] -= factor_l[at] * value;
    }
}

// Solve L x = x in place, x stored [dof, world].
template <typename Number, typename Paths>
BACKSWING_INLINE void solve_lower(
    const Paths& paths, const Array<Number>& factor_l_array, const Array<Number>& x_array, int world) {
    const auto factor_l = column(factor_l_array, world), x = column(x_array, world);
    const Ancestors path(paths);
    for (int k = 0; k < paths.dof_depth.shape[0]; ++k) {
        Number value = x[k];
        for (int at = path.starts[k]; at < path.starts[k] + path.depths[k]; ++at)
            value -= factor_l[at] * x[path.ancestors[at]];
        x[k] = value;
    }
}

// Multiply the rows of one side, which begin at `here`, by L'^-1, deepest first.
template <typename Number, typename Paths>
BACKSWING_INLINE void solve_row(const Array<Vec3<Number>>& row_array, int here, const Paths& paths, int tail,
    const Array<Number>& factor_l_array, int world) {
    const auto row = column(row_array, world, here);
    const auto factor_l = column(factor_l_array, world);
    const Path path(paths, tail);
    BACKSWING_ROLLED_ON_GPU
    for (int d = path.depth; d > 0; --d) {
        const Vec3<Number> value = row[d];
        const int first = paths.dof_row_start.data[path[d]];
        BACKSWING_ROLLED_ON_GPU
        for (int e = 0; e < d; ++e) row[e] -= value * factor_l[first + e];
    }
}

// Write the rows of one side from `here` on: the frame times the velocity per unit rate of each degree of freedom, of a
//     point at the end of the lever, or of an orientation, which `turns`.
// Return the rows times qd and times dt qdd, and the sums of the magnitudes of the terms of each.
template <typename Number, typename Paths, typename Spatial>
BACKSWING_INLINE wp::mat_t<4, 3, Number> write_rows(const Array<Vec3<Number>>& row_array, int here, const Paths& paths,
    int tail, bool turns, const Mat33<Number>& frame, const Vec3<Number>& lever, const Array<Spatial>& subspace_array,
    const Array<Number>& qd_array, const Array<Number>& qdd_array, Number dt, int world) {
    const auto rows = column(row_array, world, here);
    const auto subspace = column(subspace_array, world);
    const auto qd = row(qd_array, world), qdd = row(qdd_array, world);
    const Path path(paths, tail);
    wp::mat_t<4, 3, Number> sums;
    BACKSWING_ROLLED_ON_GPU
    for (int d = 0; d <= path.depth; ++d) {
        const int k = path[d];
        const Spatial& unit = subspace[k];
        Vec3<Number> motion(unit[0], unit[1], unit[2]);
        if (!turns) motion = Vec3<Number>(unit[3], unit[4], unit[5]) + wp::cross(motion, lever);
        const Vec3<Number> value = wp::mul(frame, motion);
        rows[d] = value;
        const Number velocity = qd[k], change = dt * qdd[k];
        for (int i = 0; i < 3; ++i) {
            sums.data[0][i] += value[i] * velocity;
            sums.data[1][i] += value[i] * change;
            sums.data[2][i] += wp::abs(value[i] * velocity);
            sums.data[3][i] += wp::abs(value[i] * change);
        }
    }
    return sums;
}

} // namespace backswing::rows
