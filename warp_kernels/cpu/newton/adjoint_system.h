// Linear algebra of the backward pass for the worlds of a lane group: see
// warp_kernels.solver.newton.group.system.
#pragma once

#include "group.h"

namespace backswing::newton::adjoint_system {

// Data that the backward pass keeps per constraint: see the Python module.
constexpr int S = 0;
constexpr int RHS_BAR = 3;
constexpr int FURTHER = 6;
constexpr int BLOCK_BAR = 9;
constexpr int FIELDS = 28;

// Whether any world has an adjoint of the effective inverse masses of a constraint's rows (xx, yy, zz, xy, xz, yz).
template <typename Number, int L>
BACKSWING_INLINE bool has_any(const Pack<Number, L>* block_bar) {
    const Pack<Number, L> nothing = 0;
    bool has_own = false;
    for (int c = 0; c < 6; ++c) has_own |= __builtin_reduce_or(block_bar[c] != nothing);
    return has_own;
}

// Set the step to zero in worlds that move.
template <typename Number, int L>
BACKSWING_INLINE void begin_step(int group, int nv, const Array<int>& moves, const Array<Number>& step_array) {
    const Items<Number, L> step(step_array, group);
    const Mask<Number, L> chosen = where<Number, L>(moves);
    const Pack<Number, L> nothing = 0;
    for (int k = 0; k < nv; ++k) step[k] = chosen ? nothing : step[k];
}

// Solve the transposed systems for the residual, and add the solution to the step of worlds that move.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void solve_transposed(
    int group, int nv, const Array<Number>& residual_array, const Group& shared, const Array<Number>& step_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> residual(residual_array, group), step(step_array, group);
    const Mask<Number, L> chosen = where<Number, L>(shared.moves);
    const Pack nothing = 0;
    const int* begin = shared.first.data;
    const Pack* below = packs<Number, L>(shared.lower);
    const Pack* above = packs<Number, L>(shared.upper);
    Pack* x = packs<Number, L>(shared.velocity);
    for (int p = 0; p < nv; ++p) {
        Pack value = residual[nv - 1 - p];
        for (int q = begin[p]; q < p; ++q) value -= above[p * (p + 1) / 2 + q] * x[q];
        x[p] = value * below[p * (p + 1) / 2 + p];
    }
    for (int p = nv - 1; p >= 0; --p) {
        const Pack value = x[p];
        step[nv - 1 - p] += chosen ? value : nothing;
        for (int q = begin[p]; q < p; ++q) x[q] -= below[p * (p + 1) / 2 + q] * value;
    }
}

// The same with the factors that the worlds kept, each with its own envelope: entries outside of it may be of another
// step. SYMMETRIC systems don't store U, which follows from D^-1 and L.
template <typename Number, int L, bool SYMMETRIC, typename System, typename Group>
BACKSWING_INLINE void solve_kept(int group, int nv, const System& system, const Array<Number>& residual_array,
    const Group& shared, const Array<Number>& step_array) {
    using Pack = backswing::Pack<Number, L>;
    using Mask = backswing::Mask<Number, L>;
    using Integers = typename Lanes<Number, L>::Integers;
    const Items<Number, L> lower(system.lower, group), upper(SYMMETRIC ? system.lower : system.upper, group),
        residual(residual_array, group), step(step_array, group);
    const Mask chosen = where<Number, L>(shared.moves);
    const Pack nothing = 0;
    Mask outline[MOST_DOFS];
    int begin[MOST_DOFS];
    Pack* x = packs<Number, L>(shared.velocity);
    for (int p = 0; p < nv; ++p) {
        const Integers start = *reinterpret_cast<const Integers*>(reinterpret_cast<const char*>(system.first.data) +
                                                                  p * wp::int64(system.first.strides[0]) +
                                                                  group * wp::int64(sizeof(Integers)));
        const Mask last = p;
        outline[p] = chosen ? __builtin_convertvector(start, Mask) : last;
        begin[p] = __builtin_reduce_min(outline[p]);
        Pack value = residual[nv - 1 - p];
        for (int q = begin[p]; q < p; ++q) value -= outline[p] <= q ? upper[p * (p + 1) / 2 + q] * x[q] : nothing;
        x[p] = SYMMETRIC ? value : value * lower[p * (p + 1) / 2 + p];
    }
    if (SYMMETRIC)
        for (int p = 0; p < nv; ++p) x[p] *= lower[p * (p + 1) / 2 + p];
    for (int p = nv - 1; p >= 0; --p) {
        const Pack value = x[p];
        step[nv - 1 - p] += chosen ? value : nothing;
        for (int q = begin[p]; q < p; ++q) x[q] -= outline[p] <= q ? lower[p * (p + 1) / 2 + q] * value : nothing;
    }
}

// Compute, for x in the step: s, the adjoints of the row values, and the residual of the right-hand side.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void find_adjoint_residual(int group, int count, int nv, bool has_further,
    const Array<Number>& weight_array, const Array<Number>& inverse_mass_array, const Array<Number>& step_array,
    const Group& shared, const Array<Number>& residual_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> weight(weight_array, group), inverse_mass(inverse_mass_array, group),
        step(step_array, group), residual(residual_array, group);
    for (int k = 0; k < nv; ++k) residual[k] = (weight[k] - step[k]) / inverse_mass[k];
    for (int constraint = 0; constraint < count; ++constraint) {
        const Acting<Number, L> rows(shared, constraint, nv);
        const int size = rows.size;
        const int* list = rows.list;
        const Pack* entries = rows.entries;
        Pack* own_fields = packs<Number, L>(shared.fields) + constraint * FIELDS;
        const Pack nothing = 0;
        Pack s[3] = {nothing, nothing, nothing};
        for (int d = 0; d < size; ++d) {
            const Pack x = step[list[d]];
            for (int r = 0; r < 3; ++r) s[r] += entries[3 * d + r] * x;
        }
        if (has_further)
            for (int r = 0; r < 3; ++r) s[r] += own_fields[FURTHER + r];
        const Pack* slopes = packs<Number, L>(shared.slope) + 9 * constraint;
        Pack bar[3];
        for (int r = 0; r < 3; ++r) bar[r] = s[0] * slopes[r] + s[1] * slopes[3 + r] + s[2] * slopes[6 + r];
        for (int r = 0; r < 3; ++r) {
            own_fields[S + r] = s[r];
            own_fields[RHS_BAR + r] = bar[r];
        }
        if (!shared.active.data[constraint]) continue;
        for (int d = 0; d < size; ++d)
            residual[list[d]] += entries[3 * d] * bar[0] + entries[3 * d + 1] * bar[1] + entries[3 * d + 2] * bar[2];
    }
}

// Add D^-1 row' rhs_bar to the weights in worlds that move. With x the step and x' the weight before, the residual is
// (x' - x) D + row' rhs_bar: the result is x' + D^-1 row' rhs_bar.
template <typename Number, int L>
BACKSWING_INLINE void push_weights(int group, int nv, const Array<int>& moves, const Array<Number>& inverse_mass_array,
    const Array<Number>& step_array, const Array<Number>& residual_array, const Array<Number>& weight_array) {
    const Items<Number, L> inverse_mass(inverse_mass_array, group), step(step_array, group),
        residual(residual_array, group), weight(weight_array, group);
    const Mask<Number, L> chosen = where<Number, L>(moves);
    for (int k = 0; k < nv; ++k) {
        const Pack<Number, L> pushed = step[k] + inverse_mass[k] * residual[k];
        weight[k] = chosen ? pushed : weight[k];
    }
}

// Multiply the weights by L^-1.
template <typename Number, int L, typename Paths>
BACKSWING_INLINE void finish_weights(
    int group, int nv, const Paths& paths, const Array<Number>& factor_l_array, const Array<Number>& weight_array) {
    const Items<Number, L> factor_l(factor_l_array, group), weight(weight_array, group);
    const Ancestors path(paths);
    for (int k = 0; k < nv; ++k) {
        Pack<Number, L> found = weight[k];
        for (int d = 0; d < path.depths[k]; ++d)
            found -= factor_l[path.starts[k] + d] * weight[path.ancestors[path.starts[k] + d]];
        weight[k] = found;
    }
}

// Set to zero the arrays that contributions are added to.
template <typename Number, int L>
BACKSWING_INLINE void clear_mass_bars(
    int group, const Array<Number>& solver_mass_bar_array, const Array<Number>& solver_mass_bar_diagonal_array) {
    const Items<Number, L> solver_mass_bar(solver_mass_bar_array, group),
        solver_mass_bar_diagonal(solver_mass_bar_diagonal_array, group);
    const Pack<Number, L> nothing = 0;
    for (int at = 0; at < solver_mass_bar_array.shape[0]; ++at) solver_mass_bar[at] = nothing;
    for (int k = 0; k < solver_mass_bar_diagonal_array.shape[0]; ++k) solver_mass_bar_diagonal[k] = nothing;
}

// Compute G of a constraint, and add its part of the adjoints of L and D. All ancestors of a degree of freedom in the
// list are in it, before it. G is zero or unused if a world's constraint doesn't act there.
template <typename Number, int L, typename Paths, typename Group>
BACKSWING_INLINE void find_own_response(int constraint, int group, int nv, const Paths& paths,
    const Array<Number>& factor_l_array, const Array<Number>& inverse_mass_array, const Group& shared,
    const Array<Number>& solver_mass_bar_array, const Array<Number>& solver_mass_bar_diagonal_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> factor_l(factor_l_array, group), inverse_mass(inverse_mass_array, group),
        solver_mass_bar(solver_mass_bar_array, group), solver_mass_bar_diagonal(solver_mass_bar_diagonal_array, group);
    const Acting<Number, L> rows(shared, constraint, nv);
    const Ancestors path(paths);
    const Pack* own = packs<Number, L>(shared.fields) + constraint * FIELDS + BLOCK_BAR;
    const Pack nothing = 0;
    Pack* g = packs<Number, L>(shared.response);
    if (!has_any<Number, L>(own)) {
        for (int d = 0; d < rows.size; ++d)
            for (int r = 0; r < 3; ++r) g[3 * rows.list[d] + r] = nothing;
        return;
    }
    for (int d = 0; d < rows.size; ++d) {
        const int k = rows.list[d], start = path.starts[k];
        const Pack x = rows.entries[3 * d], y = rows.entries[3 * d + 1], z = rows.entries[3 * d + 2];
        const Pack mass = inverse_mass[k], twice = 2 * mass;
        Pack a = twice * (own[0] * x + own[3] * y + own[4] * z);
        Pack b = twice * (own[3] * x + own[1] * y + own[5] * z);
        Pack c = twice * (own[4] * x + own[5] * y + own[2] * z);
        solver_mass_bar_diagonal[k] -= Number(0.5) * mass * (a * x + b * y + c * z);
        for (int e = 0; e < path.depths[k]; ++e) {
            const Pack* other = g + 3 * path.ancestors[start + e];
            const Pack l = factor_l[start + e];
            a -= l * other[0];
            b -= l * other[1];
            c -= l * other[2];
            solver_mass_bar[start + e] -= x * other[0] + y * other[1] + z * other[2];
        }
        g[3 * k] = a;
        g[3 * k + 1] = b;
        g[3 * k + 2] = c;
    }
}

} // namespace backswing::newton::adjoint_system
