// MuJoCo's laws for the worlds of a lane group, with masks instead of branches: see
// warp_kernels.solver.mujoco.group_laws.
#pragma once

#include "../newton/group.h"

namespace backswing::mujoco {

using newton::Acting;

// Data per constraint: see the Python module.
constexpr int VALUE = 0;
constexpr int IMPULSE = 3;
constexpr int SLIP = 6;
constexpr int BEFORE = 9;
constexpr int FIRST = 12;
constexpr int LOW = 13;
constexpr int HIGH = 14;
constexpr int OTHERS = 15;
constexpr int MU = 16;
constexpr int CONE = 17;
constexpr int STIFFNESS = 19;
constexpr int SIZE = 20;
constexpr int SLIDES = 22;
constexpr int SIZE_BEFORE = 23;
constexpr int FIELDS = 28;

// Zone of an elliptic cone: separating, sticking or sliding.
template <typename Number, int L>
struct OnCone {
    typename Lanes<Number, L>::Pack slip_size, excess, ratio;
    typename Lanes<Number, L>::Mask slides, sticks;

    BACKSWING_MEMBER OnCone(const Pack<Number, L>* law, const Pack<Number, L>* r) {
        const Pack<Number, L> nothing = 0, mu = law[MU];
        slip_size = __builtin_elementwise_sqrt(r[1] * r[1] + r[2] * r[2]);
        excess = mu * slip_size - r[0];
        ratio = law[CONE + 1];
        slides = (mu > nothing) & (excess + (ratio + 1) * r[0] > nothing) & (excess > nothing);
        sticks = (mu > nothing) & ~slides & (excess > nothing);
    }
};

// Impulses at row values r.
template <typename Number, int L, bool ELLIPTIC>
BACKSWING_INLINE void respond(const Pack<Number, L>* law, const Pack<Number, L>* r, Pack<Number, L>* impulses) {
    using Pack = backswing::Pack<Number, L>;
    const Pack nothing = 0;
    const Pack mu = law[MU], push = -law[FIRST] * r[0];
    impulses[0] = push < law[LOW] ? law[LOW] : push;
    impulses[0] = impulses[0] > law[HIGH] ? law[HIGH] : impulses[0];
    impulses[1] = -law[OTHERS] * r[1];
    impulses[2] = -law[OTHERS] * r[2];
    if constexpr (ELLIPTIC) {
        const OnCone<Number, L> cone(law, r);
        const Pack normal = law[CONE] * cone.excess / (cone.ratio + 1), along = -mu * normal / cone.slip_size;
        impulses[0] += cone.slides ? normal : cone.sticks ? -law[CONE] * r[0] : nothing;
        impulses[1] += cone.slides ? along * r[1] : cone.sticks ? -law[STIFFNESS] * r[1] : nothing;
        impulses[2] += cone.slides ? along * r[2] : cone.sticks ? -law[STIFFNESS] * r[2] : nothing;
    } else {
        auto edge = [&](Pack x) { return x < nothing ? -law[CONE] * x : nothing; };
        const Pack ahead = edge(r[0] + mu * r[1]), behind = edge(r[0] - mu * r[1]);
        const Pack left = edge(r[0] + mu * r[2]), right = edge(r[0] - mu * r[2]);
        impulses[0] += ahead + behind + left + right;
        impulses[1] += mu * (ahead - behind);
        impulses[2] += mu * (left - right);
    }
}

// Set the data per constraint to zero.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void clear_fields(int count, const Group& shared) {
    const Pack<Number, L> nothing = 0;
    for (int at = 0; at < count * FIELDS; ++at) packs<Number, L>(shared.fields)[at] = nothing;
}

// Compute values and impulses at z, and subtract their momenta from the residual; zero for waiting worlds.
template <typename Number, int L, bool ELLIPTIC, typename Group>
BACKSWING_INLINE void find_impulses(int group, int count, int nv, const Array<Number>& z_array, const Group& shared,
    const Array<Number>& residual_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> z(z_array, group), residual(residual_array, group);
    const Pack nothing = 0;
    const Mask<Number, L> chosen = unless<Number, L>(shared.waits);
    for (int constraint = 0; constraint < count; ++constraint) {
        const Acting<Number, L> rows(shared, constraint, nv);
        const int size = rows.size;
        const int* list = rows.list;
        const Pack* entries = rows.entries;
        Pack* law = packs<Number, L>(shared.fields) + constraint * FIELDS;
        Pack r[3] = {nothing, nothing, nothing}, impulses[3];
        for (int d = 0; d < size; ++d) {
            const Pack z_here = z[list[d]];
            for (int c = 0; c < 3; ++c) r[c] += entries[3 * d + c] * z_here;
        }
        for (int c = 0; c < 3; ++c) r[c] += law[BEFORE + c];
        respond<Number, L, ELLIPTIC>(law, r, impulses);
        for (int c = 0; c < 3; ++c) {
            law[VALUE + c] = chosen ? r[c] : law[VALUE + c];
            law[IMPULSE + c] = chosen ? impulses[c] : law[IMPULSE + c];
            impulses[c] = chosen ? impulses[c] : nothing;
        }
        for (int d = 0; d < size; ++d)
            residual[list[d]] -=
                entries[3 * d] * impulses[0] + entries[3 * d + 1] * impulses[1] + entries[3 * d + 2] * impulses[2];
    }
}

// Compute the derivatives of all impulses with respect to their values, and which constraints have any.
template <typename Number, int L, bool ELLIPTIC, typename Group>
BACKSWING_INLINE void find_slopes(int count, const Group& shared) {
    using Pack = backswing::Pack<Number, L>;
    using Mask = backswing::Mask<Number, L>;
    const Pack nothing = 0;
    const Mask chosen = unless<Number, L>(shared.waits);
    for (int constraint = 0; constraint < count; ++constraint) {
        const Pack* law = packs<Number, L>(shared.fields) + constraint * FIELDS;
        const Pack* r = law + VALUE;
        Pack* to = packs<Number, L>(shared.slope) + 9 * constraint;
        const Pack mu = law[MU], push = -law[FIRST] * r[0];
        Pack slopes[9] = {nothing, nothing, nothing, nothing, -law[OTHERS], nothing, nothing, nothing, -law[OTHERS]};
        slopes[0] = ((push > law[LOW]) & (push <= law[HIGH])) ? -law[FIRST] : nothing;
        if constexpr (ELLIPTIC) {
            const OnCone<Number, L> cone(law, r);
            const Pack steep = law[CONE] / (cone.ratio + 1), bends = mu * steep * cone.excess / cone.slip_size;
            const Pack x = r[1] / cone.slip_size, y = r[2] / cone.slip_size;
            slopes[0] += cone.slides ? -steep : cone.sticks ? -law[CONE] : nothing;
            slopes[1] = cone.slides ? steep * mu * x : nothing;
            slopes[2] = cone.slides ? steep * mu * y : nothing;
            slopes[4] += cone.slides   ? -steep * mu * x * mu * x - bends * y * y
                         : cone.sticks ? -law[STIFFNESS]
                                       : nothing;
            slopes[5] = cone.slides ? -steep * mu * x * mu * y + bends * x * y : nothing;
            slopes[8] += cone.slides   ? -steep * mu * y * mu * y - bends * x * x
                         : cone.sticks ? -law[STIFFNESS]
                                       : nothing;
        } else {
            auto edge = [&](Pack x) { return x < nothing ? -law[CONE] : nothing; };
            const Pack ahead = edge(r[0] + mu * r[1]), behind = edge(r[0] - mu * r[1]);
            const Pack left = edge(r[0] + mu * r[2]), right = edge(r[0] - mu * r[2]);
            slopes[0] += ahead + behind + left + right;
            slopes[1] = mu * (ahead - behind);
            slopes[2] = mu * (left - right);
            slopes[4] += mu * mu * (ahead + behind);
            slopes[8] += mu * mu * (left + right);
        }
        const Mask any = chosen & ((slopes[0] != nothing) | (slopes[4] != nothing) | (slopes[8] != nothing));
        shared.active.data[constraint] = __builtin_reduce_or(any) ? 1 : 0;
        slopes[3] = slopes[1];
        slopes[6] = slopes[2];
        slopes[7] = slopes[5];
        for (int c = 0; c < 9; ++c) to[c] = chosen ? slopes[c] : nothing;
    }
}

// Search the step length, as convex_length of warp_kernels.solver.newton.descent; zero for worlds that don't move.
// SEARCHES: lengths between its bounds; goal_share: of the initial slope.
template <typename Number, int L, bool ELLIPTIC, int SEARCHES, typename Group>
BACKSWING_INLINE void find_lengths(
    int group, int count, int nv, Number goal_share, const Array<Number>& step_array, const Group& shared) {
    using Pack = backswing::Pack<Number, L>;
    using Mask = backswing::Mask<Number, L>;
    const Items<Number, L> step(step_array, group);
    const Pack nothing = 0;
    Pack* all_laws = packs<Number, L>(shared.fields);
    Mask searches = where<Number, L>(shared.moves);
    const Mask chosen = searches;
    const Pack begins = packs<Number, L>(shared.along)[0], grows = packs<Number, L>(shared.along)[1];
    Pack low_slope = begins;
    for (int constraint = 0; constraint < count; ++constraint) {
        const Acting<Number, L> rows(shared, constraint, nv);
        Pack* slip = all_laws + constraint * FIELDS + SLIP;
        Pack r[3] = {nothing, nothing, nothing};
        for (int d = 0; d < rows.size; ++d) {
            const Pack step_here = step[rows.list[d]];
            for (int c = 0; c < 3; ++c) r[c] += rows.entries[3 * d + c] * step_here;
        }
        for (int c = 0; c < 3; ++c) slip[c] = r[c];
        const Pack* impulse = all_laws + constraint * FIELDS + IMPULSE;
        low_slope -= impulse[0] * slip[0] + impulse[1] * slip[1] + impulse[2] * slip[2];
    }
    auto slope_at = [&](Pack step_length) {
        Pack total = begins + step_length * grows;
        for (int constraint = 0; constraint < count; ++constraint) {
            const Pack* law = all_laws + constraint * FIELDS;
            const Pack* slip = law + SLIP;
            Pack r[3], impulses[3];
            for (int c = 0; c < 3; ++c) r[c] = law[VALUE + c] + step_length * slip[c];
            respond<Number, L, ELLIPTIC>(law, r, impulses);
            total -= impulses[0] * slip[0] + impulses[1] * slip[1] + impulses[2] * slip[2];
        }
        return total;
    };
    Pack low = nothing, high = nothing + 1, step_length = high, higher = low;
    Pack high_slope = slope_at(high), higher_slope = low_slope;
    const Pack goal = goal_share * __builtin_elementwise_abs(low_slope);
    // A step that doesn't descend is rounding.
    searches &= ~((__builtin_elementwise_abs(high_slope) <= goal) | (high_slope < nothing)) & ~(low_slope >= nothing);
    for (int search = 0; search < SEARCHES && __builtin_reduce_or(searches); ++search) {
        const Pack secant = search % 3 == 1 ? high - high_slope * (higher - high) / (higher_slope - high_slope)
                                            : low - low_slope * (high - low) / (high_slope - low_slope);
        Mask within = (secant > low) & (secant < high);
        if (search % 3 == 2) within ^= within;
        const Pack next = within ? secant : Number(0.5) * (low + high);
        step_length = searches ? next : step_length;
        const Pack slope = slope_at(step_length);
        searches &= ~(__builtin_elementwise_abs(slope) <= goal);
        const Mask falls = searches & (slope < nothing), rises = searches & ~(slope < nothing);
        low = falls ? step_length : low;
        low_slope = falls ? slope : low_slope;
        higher = rises ? high : higher;
        higher_slope = rises ? high_slope : higher_slope;
        high = rises ? step_length : high;
        high_slope = rises ? slope : high_slope;
    }
    // Lanes that are still searching end beyond the minimum, see convex_length.
    step_length = searches ? high : step_length;
    *packs<Number, L>(shared.lengths) = chosen ? step_length : nothing;
}

// Compute the magnitudes as magnitudes of warp_kernels.solver.newton.descent. sums: roundings of a sum.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void find_magnitudes(int count, Number epsilon, Number sums, Number precision, const Group& shared) {
    using Pack = backswing::Pack<Number, L>;
    using Mask = backswing::Mask<Number, L>;
    const Pack nothing = 0;
    Pack totals[2] = {nothing, nothing};
    for (int constraint = 0; constraint < count; ++constraint) {
        const Pack* law = packs<Number, L>(shared.fields) + constraint * FIELDS;
        const Pack* impulse = law + IMPULSE;
        const auto size = [&](const Pack* rows, int first, int last) {
            const Pack one = __builtin_elementwise_abs(rows[first]), other = __builtin_elementwise_abs(rows[last]);
            return one > other ? one : other;
        };
        const Pack first[2] = {law[SIZE], sums * law[SIZE_BEFORE] + size(law + BEFORE, 0, 0) + size(law + VALUE, 0, 0)};
        const Pack other[2] = {
            law[SIZE + 1], sums * law[SIZE_BEFORE + 1] + size(law + BEFORE, 1, 2) + size(law + VALUE, 1, 2)};
        const Mask active_rows =
            (impulse[0] != nothing) | (__builtin_elementwise_abs(law[VALUE]) <= precision * first[1]);
        const Pack limit = law[SLIDES] * impulse[0];
        const Mask sticks =
            (law[SLIDES] < nothing) | (impulse[1] * impulse[1] + impulse[2] * impulse[2] < limit * limit);
        for (int m = 0; m < 2; ++m) {
            const Pack square = first[m] * first[m] + (sticks ? other[m] * other[m] : nothing);
            totals[m] += (active_rows ? square : nothing) * law[STIFFNESS];
        }
    }
    for (int m = 0; m < 2; ++m) packs<Number, L>(shared.magnitude)[m] = epsilon * totals[m];
}

// Return whether any constraint of world n of the group has an impulse.
template <typename Number, int L, typename Group>
BACKSWING_INLINE bool pushes(int count, int n, const Group& shared) {
    const Number* all = shared.fields.data;
    for (int constraint = 0; constraint < count; ++constraint)
        for (int c = 0; c < 3; ++c)
            if (all[(constraint * FIELDS + IMPULSE + c) * L + n] != Number(0)) return true;
    return false;
}

// Write values and impulses to the arrays of each world.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void keep_impulses(
    int group, int count, const Group& shared, const Array<Vec3<Number>>& value, const Array<Vec3<Number>>& impulse) {
    const Number* all = shared.fields.data;
    for (int n = 0; n < L; ++n) {
        const wp::int64 world = group * L + n;
        if (world >= value.shape[1]) return;
        for (int constraint = 0; constraint < count; ++constraint) {
            const int own = shared.slot_constraint.data[constraint * L + n];
            if (own < 0) continue;
            Number* values = entry<Number>(value, own, world);
            Number* impulses = entry<Number>(impulse, own, world);
            for (int c = 0; c < 3; ++c) {
                values[c] = all[(constraint * FIELDS + VALUE + c) * L + n];
                impulses[c] = all[(constraint * FIELDS + IMPULSE + c) * L + n];
            }
        }
    }
}

} // namespace backswing::mujoco
