// Gauss-Seidel sweeps over the constraints of a lane group's worlds: see warp_kernels.solver.newton.group.sweeps.
#pragma once

#include "group.h"

namespace backswing::newton::sweeps {

// Data of the sweeps per constraint: see the Python module.
constexpr int IMPULSE = 0;
constexpr int BEFORE = 3;
constexpr int COMPLIANCE = 6;
constexpr int BLOCK = 8;
constexpr int LENGTHS = 17;
constexpr int BOUND = 20;
constexpr int CLASS = 21;
constexpr int DIRECTION = 22;
constexpr int CHANGE = 25;
constexpr int FIELDS = 28;
// Classes of constraints. One without a class is absent, or immovable.
constexpr int PUSHES = 1;
constexpr int UNBOUNDED = 3;

template <typename Number, int L>
BACKSWING_INLINE Pack<Number, L> clamp(Pack<Number, L> x, Pack<Number, L> limit) {
    x = x < -limit ? -limit : x;
    return x > limit ? limit : x;
}

template <typename Number, int L>
BACKSWING_INLINE Pack<Number, L> inverse(Pack<Number, L> x, Pack<Number, L> floor) {
    const Pack<Number, L> nothing = 0;
    return x > floor ? (nothing + 1) / x : nothing;
}

// Add a constraint's own matrix.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void add_block(
    int constraint, int group, int nv, const Array<Number>& inverse_mass_array, const Group& shared) {
    const Acting<Number, L> rows(shared, constraint, nv);
    const Items<Number, L> inverse_mass(inverse_mass_array, group);
    Pack<Number, L>* matrix = packs<Number, L>(shared.fields) + constraint * FIELDS + BLOCK;
    for (int d = 0; d < rows.size; ++d) {
        const Pack<Number, L> mass = inverse_mass[rows.list[d]];
        for (int r = 0; r < 3; ++r)
            for (int c = 0; c < 3; ++c) matrix[3 * r + c] += rows.entries[3 * d + r] * rows.entries[3 * d + c] * mass;
    }
}

// Set z to the velocities of the sweeps' impulses, in worlds with sweeps to come.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void find_motions(int group, int count, int nv, const Array<Number>& inverse_mass_array,
    const Array<Number>& z_before_array, const Group& shared, const Array<Number>& z_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> inverse_mass(inverse_mass_array, group), z_before(z_before_array, group), z(z_array, group);
    Mask<Number, L> chosen;
    for (int n = 0; n < L; ++n) chosen[n] = shared.number.data[n] > 0 ? -1 : 0;
    const Pack nothing = 0;
    for (int k = 0; k < nv; ++k) z[k] = chosen ? -z_before[k] : z[k];
    for (int constraint = 0; constraint < count; ++constraint) {
        const Acting<Number, L> rows(shared, constraint, nv);
        const Pack* impulse = packs<Number, L>(shared.fields) + constraint * FIELDS + IMPULSE;
        const Pack push[3] = {
            chosen ? impulse[0] : nothing, chosen ? impulse[1] : nothing, chosen ? impulse[2] : nothing};
        for (int d = 0; d < rows.size; ++d)
            z[rows.list[d]] += (rows.entries[3 * d] * push[0] + rows.entries[3 * d + 1] * push[1] +
                                   rows.entries[3 * d + 2] * push[2]) *
                               inverse_mass[rows.list[d]];
    }
}

// Sweep each world as often as its number says. ROUND: whether friction cones are round, or pyramids. One sweep in
// EVERY includes constraints without impulses.
template <typename Number, int L, bool ROUND, int EVERY, typename Group>
BACKSWING_INLINE void sweep_constraints(int group, int count, int nv, const Array<Number>& inverse_mass_array,
    const Group& shared, const Array<Number>& z_array) {
    using Pack = backswing::Pack<Number, L>;
    using Mask = backswing::Mask<Number, L>;
    const Items<Number, L> inverse_mass(inverse_mass_array, group), z(z_array, group);
    const Pack nothing = 0;
    int most = 0;
    Mask wanted;
    for (int n = 0; n < L; ++n) {
        wanted[n] = shared.number.data[n];
        if (wanted[n] > most) most = wanted[n];
    }
    Pack* start = packs<Number, L>(shared.velocity);
    Pack* further = start + nv;
    for (int k = 0; k < nv; ++k) further[k] = nothing;
    Pack* all_fields = packs<Number, L>(shared.fields);
    for (int constraint = 0; constraint < count; ++constraint)
        for (int c = 0; c < 3; ++c) all_fields[constraint * FIELDS + DIRECTION + c] = nothing;
    Pack before = nothing + Number(__builtin_inf());
    for (int turn = 0; turn < most; ++turn) {
        Pack energy = nothing;
        for (int k = 0; k < nv; ++k) start[k] = z[k];
        for (int constraint = 0; constraint < count; ++constraint) {
            Pack* own_fields = all_fields + constraint * FIELDS;
            Pack* impulse = own_fields + IMPULSE;
            const Pack* value_before = own_fields + BEFORE;
            const Pack* compliance = own_fields + COMPLIANCE;
            const Pack* own = own_fields + BLOCK;
            const Pack* lengths = own_fields + LENGTHS;
            const Pack bound = own_fields[BOUND], is = own_fields[CLASS];
            Pack* moved = own_fields + CHANGE;
            const Pack old[3] = {impulse[0], impulse[1], impulse[2]};
            Mask goes_on = (wanted > turn) & (is != nothing);
            if (turn % EVERY) goes_on &= (old[0] != nothing) | (old[1] != nothing) | (old[2] != nothing);
            for (int c = 0; c < 3; ++c) moved[c] = nothing;
            if (!__builtin_reduce_or(goes_on)) continue;
            const Acting<Number, L> rows(shared, constraint, nv);
            const int size = rows.size;
            const int* list = rows.list;
            const Pack* entries = rows.entries;
            Pack r[3] = {value_before[0], value_before[1], value_before[2]};
            for (int d = 0; d < size; ++d) {
                const Pack z_here = z[list[d]];
                for (int c = 0; c < 3; ++c) r[c] += entries[3 * d + c] * z_here;
            }
            r[0] += compliance[0] * old[0];
            r[1] += compliance[1] * old[1];
            r[2] += compliance[1] * old[2];
            const Pack unbounded = old[0] - lengths[0] * r[0];
            // Contacts and limits.
            const Pack pushed = unbounded > nothing ? unbounded : nothing;
            const Pack change = pushed - old[0];
            Pack first, second;
            if constexpr (ROUND) {
                const Pack x = old[1] - lengths[1] * (r[1] + own[3] * change),
                           y = old[2] - lengths[2] * (r[2] + own[6] * change);
                const Pack square = x * x + y * y, limit = bound * pushed;
                Pack factor = limit == nothing ? nothing : nothing + 1;
                factor = square > limit * limit ? limit / __builtin_elementwise_sqrt(square) : factor;
                first = x * factor;
                second = y * factor;
            } else {
                const Pack limit = bound * pushed;
                first = clamp<Number, L>(old[1] - lengths[1] * (r[1] + own[3] * change), limit);
                second =
                    clamp<Number, L>(old[2] - lengths[2] * (r[2] + own[6] * change + own[7] * (first - old[1])), limit);
            }
            Pack found[3] = {is == PUSHES ? pushed : clamp<Number, L>(unbounded, bound), is == PUSHES ? first : nothing,
                is == PUSHES ? second : nothing};
            if (__builtin_reduce_or(is == UNBOUNDED)) {
                const Pack floor = 100 * ROUNDING<Number> * (own[0] + own[4] + own[8]);
                const Pack i0 = inverse<Number, L>(own[0], floor);
                const Pack l10 = own[3] * i0, l20 = own[6] * i0;
                const Pack i1 = inverse<Number, L>(own[4] - l10 * own[3], floor);
                const Pack u21 = own[7] - l20 * own[3];
                const Pack l21 = u21 * i1;
                const Pack i2 = inverse<Number, L>(own[8] - l20 * own[6] - l21 * u21, floor);
                const Pack y1 = r[1] - l10 * r[0];
                const Pack x2 = (r[2] - l20 * r[0] - l21 * y1) * i2;
                const Pack x1 = y1 * i1 - l21 * x2;
                found[0] = is == UNBOUNDED ? old[0] - (r[0] * i0 - l10 * x1 - l20 * x2) : found[0];
                found[1] = is == UNBOUNDED ? old[1] - x1 : found[1];
                found[2] = is == UNBOUNDED ? old[2] - x2 : found[2];
            }
            for (int c = 0; c < 3; ++c) {
                moved[c] = goes_on ? found[c] - old[c] : nothing;
                impulse[c] = goes_on ? found[c] : old[c];
            }
            for (int c = 0; c < 3; ++c)
                energy += moved[c] * (own[3 * c] * moved[0] + own[3 * c + 1] * moved[1] + own[3 * c + 2] * moved[2]);
            for (int d = 0; d < size; ++d)
                z[list[d]] +=
                    (entries[3 * d] * moved[0] + entries[3 * d + 1] * moved[1] + entries[3 * d + 2] * moved[2]) *
                    inverse_mass[list[d]];
        }
        // Fletcher and Reeves, as for one world.
        const Mask turns = (wanted > turn + 1) & (energy <= before) & (before > nothing);
        const Pack beta = turns ? energy / before : nothing, share = turns ? nothing + 1 : nothing;
        for (int constraint = 0; constraint < count; ++constraint) {
            Pack* own_fields = all_fields + constraint * FIELDS;
            for (int c = 0; c < 3; ++c) {
                const Pack along = beta * own_fields[DIRECTION + c];
                own_fields[IMPULSE + c] += along;
                own_fields[DIRECTION + c] = along + share * own_fields[CHANGE + c];
            }
        }
        for (int k = 0; k < nv; ++k) {
            const Pack change = z[k] - start[k], along = beta * further[k];
            z[k] += along;
            further[k] = along + share * change;
        }
        before = energy;
    }
}

} // namespace backswing::newton::sweeps
