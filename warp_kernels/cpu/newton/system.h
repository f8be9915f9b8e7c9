// Linear algebra for the worlds of a lane group: see warp_kernels.solver.newton.group.system.
#pragma once

#include "group.h"

namespace backswing::newton {

// Interleave the rows of all worlds.
template <typename Number, int L, typename Paths, typename Group>
BACKSWING_INLINE void gather_rows(int constraint, int group, int nv, const Paths& paths, const Array<int>& tail,
    const Array<Vec3<Number>>& row, const Group& shared) {
    Number* to = shared.rows.data + constraint * nv * 3 * L;
    int* list = shared.dofs.data + constraint * nv;
    const wp::uint64* masks = shared.path.data;
    const int* own_constraint = shared.slot_constraint.data + constraint * L;
    int tails[2 * L];
    wp::uint64 mask = 0;
    for (int n = 0; n < L; ++n)
        for (int side = 0; side < 2; ++side) {
            const int own = own_constraint[n];
            int t = -1;
            if (own >= 0) t = *entry<const int>(tail, 2 * own + side, group * L + n);
            tails[2 * n + side] = t;
            if (t >= 0) mask |= masks[t];
        }
    int offset[MOST_DOFS];
    int size = 0;
    for (wp::uint64 rest = mask; rest; rest &= rest - 1) {
        const int k = __builtin_ctzll(rest);
        offset[k] = size;
        list[size++] = k;
    }
    shared.length.data[constraint] = size;
    const Pack<Number, L> nothing = 0;
    for (int at = 0; at < 3 * size; ++at) *reinterpret_cast<Pack<Number, L>*>(to + at * L) = nothing;
    const Ancestors path(paths);
    for (int n = 0; n < L; ++n)
        for (int side = 0; side < 2; ++side) {
            const int t = tails[2 * n + side];
            if (t < 0) continue;
            const char* from = entry<const char>(row, (2 * own_constraint[n] + side) * paths.max_depth, group * L + n);
            const int depth = path.depths[t];
            const int* above = path.ancestors + path.starts[t];
            for (int d = 0; d <= depth; ++d, from += row.strides[0]) {
                Number* entries = to + offset[d < depth ? above[d] : t] * 3 * L + n;
                const Number* three_rows = reinterpret_cast<const Number*>(from);
                for (int r = 0; r < 3; ++r) entries[r * L] = side == 0 ? three_rows[r] : entries[r * L] + three_rows[r];
            }
        }
}

// Multiply the rows of a constraint by z.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void find_values(
    int constraint, int group, int nv, const Array<Number>& z_array, const Group& shared) {
    const Acting<Number, L> rows(shared, constraint, nv);
    const Items<Number, L> z(z_array, group);
    Pack<Number, L> a = 0, b = 0, c = 0;
    for (int d = 0; d < rows.size; ++d) {
        const Pack<Number, L> x = z[rows.list[d]];
        a += rows.entries[3 * d] * x;
        b += rows.entries[3 * d + 1] * x;
        c += rows.entries[3 * d + 2] * x;
    }
    Pack<Number, L>* to = packs<Number, L>(shared.three);
    to[0] = a;
    to[1] = b;
    to[2] = c;
}

// Subtract the momenta of the impulses from the residual.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void take_push(
    int constraint, int group, int nv, const Group& shared, const Array<Number>& residual_array) {
    const Acting<Number, L> rows(shared, constraint, nv);
    const Items<Number, L> residual(residual_array, group);
    const Pack<Number, L>* push = packs<Number, L>(shared.three);
    const Pack<Number, L> a = push[0], b = push[1], c = push[2];
    for (int d = 0; d < rows.size; ++d)
        residual[rows.list[d]] -= rows.entries[3 * d] * a + rows.entries[3 * d + 1] * b + rows.entries[3 * d + 2] * c;
}

// Set the residual to D (z + z_before).
template <typename Number, int L>
BACKSWING_INLINE void begin_residual(int group, int nv, const Array<Number>& z_array,
    const Array<Number>& z_before_array, const Array<Number>& inverse_mass_array, const Array<Number>& residual_array) {
    const Items<Number, L> z(z_array, group), z_before(z_before_array, group), inverse_mass(inverse_mass_array, group),
        residual(residual_array, group);
    for (int k = 0; k < nv; ++k) residual[k] = (z[k] + z_before[k]) / inverse_mass[k];
}

// Compute twice the kinetic energy of the momenta that the residual holds.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void find_square(int group, int nv, const Array<Number>& inverse_mass_array,
    const Array<Number>& residual_array, const Group& shared) {
    const Items<Number, L> inverse_mass(inverse_mass_array, group), residual(residual_array, group);
    Pack<Number, L> total = 0;
    for (int k = 0; k < nv; ++k) total += residual[k] * residual[k] * inverse_mass[k];
    *packs<Number, L>(shared.square) = total;
}

// Find the start of each row of the system, and set the system to D.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void begin_system(
    int group, int count, int nv, const Array<Number>& inverse_mass_array, const Group& shared) {
    const Items<Number, L> inverse_mass(inverse_mass_array, group);
    int* begin = shared.first.data;
    const int* lengths = shared.length.data;
    for (int p = 0; p < nv; ++p) begin[p] = p;
    for (int constraint = 0; constraint < count; ++constraint) {
        if (!shared.active.data[constraint]) continue;
        const int* list = shared.dofs.data + constraint * nv;
        const int size = lengths[constraint];
        for (int d = 0; d < size; ++d) {
            const int p = nv - 1 - list[d], least = nv - 1 - list[size - 1];
            if (least < begin[p]) begin[p] = least;
        }
    }
    Pack<Number, L>* below = packs<Number, L>(shared.lower);
    Pack<Number, L>* above = packs<Number, L>(shared.upper);
    const Pack<Number, L> nothing = 0;
    for (int p = 0; p < nv; ++p) {
        const int row = p * (p + 1) / 2;
        for (int q = begin[p]; q < p; ++q) below[row + q] = above[row + q] = nothing;
        below[row + p] = Number(1) / inverse_mass[nv - 1 - p];
    }
}

// Subtract `row' slope row` from the system; entries above the diagonal only if `any_coupled`.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void add_constraint(int constraint, int nv, bool any_coupled, const Group& shared) {
    using Pack = backswing::Pack<Number, L>;
    const Acting<Number, L> rows(shared, constraint, nv);
    const int size = rows.size;
    const int* list = rows.list;
    const Pack* entries = rows.entries;
    const Pack* s = packs<Number, L>(shared.slope) + 9 * constraint;
    Pack product[MOST_DOFS * 3];
    for (int e = 0; e < size; ++e) {
        const Pack x = entries[3 * e], y = entries[3 * e + 1], z = entries[3 * e + 2];
        for (int r = 0; r < 3; ++r) product[3 * e + r] = s[3 * r] * x + s[3 * r + 1] * y + s[3 * r + 2] * z;
    }
    // Indices descend along the list. Two rows at a time, so that slopes are read half as often.
    auto row_at = [&](int d) {
        const int p = nv - 1 - list[d];
        return packs<Number, L>(shared.lower) + p * (p + 1) / 2 + nv - 1;
    };
    for (int d = 0; d < size; d += 2) {
        const Pack x = entries[3 * d], y = entries[3 * d + 1], z = entries[3 * d + 2];
        Pack* below = row_at(d);
        below[-list[d]] -= x * product[3 * d] + y * product[3 * d + 1] + z * product[3 * d + 2];
        if (d + 1 == size) break;
        const Pack u = entries[3 * d + 3], v = entries[3 * d + 4], w = entries[3 * d + 5];
        Pack* next = row_at(d + 1);
        for (int e = d + 1; e < size; ++e) {
            const Pack a = product[3 * e], b = product[3 * e + 1], c = product[3 * e + 2];
            below[-list[e]] -= x * a + y * b + z * c;
            next[-list[e]] -= u * a + v * b + w * c;
        }
    }
    if (any_coupled) {
        for (int d = 0; d < size; ++d) {
            const int p = nv - 1 - list[d];
            Pack* above = packs<Number, L>(shared.upper) + p * (p + 1) / 2 + nv - 1;
            const Pack a = product[3 * d], b = product[3 * d + 1], c = product[3 * d + 2];
            for (int e = d + 1; e < size; ++e)
                above[-list[e]] -= entries[3 * e] * a + entries[3 * e + 1] * b + entries[3 * e + 2] * c;
        }
    }
}

// Factorise the system as L U without pivoting, L with a unit diagonal.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void factorise(int nv, bool any_coupled, const Group& shared) {
    using Pack = backswing::Pack<Number, L>;
    const int* begin = shared.first.data;
    Pack* below = packs<Number, L>(shared.lower);
    Pack* above = packs<Number, L>(shared.upper);
    const Mask<Number, L> is_coupled = where<Number, L>(shared.coupled);
    Pack smallest = 1;
    for (int p = 0; p < nv; ++p) {
        Pack* own = below + p * (p + 1) / 2;
        Pack* own_above = above + p * (p + 1) / 2;
        const Pack diagonal = own[p];
        Pack pivot = diagonal;
        for (int q = begin[p]; q < p; ++q) {
            const Pack* other = below + q * (q + 1) / 2;
            const Pack* other_above = above + q * (q + 1) / 2;
            const int start = begin[p] > begin[q] ? begin[p] : begin[q];
            Pack left = own[q];
            for (int m = start; m < q; ++m) left -= own[m] * other_above[m];
            Pack right = left;
            if (any_coupled) {
                Pack sum = own_above[q];
                for (int m = start; m < q; ++m) sum -= other[m] * own_above[m];
                right = is_coupled ? sum : left;
            }
            left *= other[q];
            own[q] = left;
            own_above[q] = right;
            pivot -= left * right;
        }
        const Pack share = __builtin_elementwise_abs(pivot / diagonal);
        // NaN counts as the smallest.
        smallest = share >= smallest ? smallest : share;
        own[p] = Number(1) / pivot;
    }
    *packs<Number, L>(shared.least) = smallest;
}

// Solve the systems for the step.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void solve_systems(
    int group, int nv, const Array<Number>& residual_array, const Group& shared, const Array<Number>& step_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> residual(residual_array, group), step(step_array, group);
    const int* begin = shared.first.data;
    const Pack* below = packs<Number, L>(shared.lower);
    const Pack* above = packs<Number, L>(shared.upper);
    Pack* x = packs<Number, L>(shared.velocity);
    for (int p = 0; p < nv; ++p) {
        Pack value = -residual[nv - 1 - p];
        for (int q = begin[p]; q < p; ++q) value -= below[p * (p + 1) / 2 + q] * x[q];
        x[p] = value;
    }
    for (int p = nv - 1; p >= 0; --p) {
        const Pack value = x[p] * below[p * (p + 1) / 2 + p];
        x[p] = value;
        step[nv - 1 - p] = value;
        for (int q = begin[p]; q < p; ++q) x[q] -= above[p * (p + 1) / 2 + q] * value;
    }
}

// Set z to zero in worlds that move, to the z without impulses in others and for prescribed joints.
template <typename Number, int L>
BACKSWING_INLINE void start_at(int group, int nv, Number least_inverse, const Array<int>& moves,
    const Array<Number>& inverse_mass_array, const Array<Number>& z_before_array, const Array<Number>& z_array) {
    const Items<Number, L> inverse_mass(inverse_mass_array, group), z_before(z_before_array, group), z(z_array, group);
    const Mask<Number, L> chosen = where<Number, L>(moves);
    const Pack<Number, L> nothing = 0;
    const Pack<Number, L> least = least_inverse;
    for (int k = 0; k < nv; ++k) z[k] = (chosen & (inverse_mass[k] > least)) ? nothing : -z_before[k];
}

// Move z along the step in worlds that move, by the length of each.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void move_by(
    int group, int nv, const Array<Number>& step_array, const Group& shared, const Array<Number>& z_array) {
    const Items<Number, L> step(step_array, group), z(z_array, group);
    const Mask<Number, L> chosen = where<Number, L>(shared.moves);
    const Pack<Number, L> nothing = 0;
    const Pack<Number, L>* length = packs<Number, L>(shared.lengths);
    for (int k = 0; k < nv; ++k) z[k] += chosen ? *length * step[k] : nothing;
}

// Compute the slope of kinetic energy along the step at its beginning, and its change over the whole step.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void find_energies(int group, int nv, const Array<Number>& inverse_mass_array,
    const Array<Number>& z_array, const Array<Number>& z_before_array, const Array<Number>& step_array,
    const Group& shared) {
    const Items<Number, L> inverse_mass(inverse_mass_array, group), z(z_array, group), z_before(z_before_array, group),
        step(step_array, group);
    Pack<Number, L> begins = 0, grows = 0;
    for (int k = 0; k < nv; ++k) {
        const Pack<Number, L> push = step[k] / inverse_mass[k];
        begins += push * (z[k] + z_before[k]);
        grows += push * step[k];
    }
    packs<Number, L>(shared.along)[0] = begins;
    packs<Number, L>(shared.along)[1] = grows;
}

// Compute the largest velocity that the pivots make of the residual.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void velocities_left(int group, int nv, const Array<Number>& residual_array, const Group& shared) {
    const Items<Number, L> residual(residual_array, group);
    const Pack<Number, L>* below = packs<Number, L>(shared.lower);
    Pack<Number, L> largest = 0;
    for (int k = 0; k < nv; ++k) {
        const int p = nv - 1 - k;
        const Pack<Number, L> rest =
            __builtin_elementwise_abs(residual[k]) * __builtin_elementwise_abs(below[p * (p + 1) / 2 + p]);
        largest = rest > largest ? rest : largest;
    }
    *packs<Number, L>(shared.left_now) = largest;
}

// Write the factors of worlds that move, L and D and perhaps U, for the backward pass.
template <typename Number, int L, typename Group, typename System>
BACKSWING_INLINE void keep_system(int group, int nv, bool with_upper, const Group& shared, const System& system) {
    using Pack = backswing::Pack<Number, L>;
    using Integers = typename Lanes<Number, L>::Integers;
    const Items<Number, L> system_lower(system.lower, group), system_upper(system.upper, group);
    const Mask<Number, L> chosen = where<Number, L>(shared.moves);
    const int* begin = shared.first.data;
    const Pack* below = packs<Number, L>(shared.lower);
    const Pack* above = packs<Number, L>(shared.upper);
    Integers kept;
    for (int n = 0; n < L; ++n) kept[n] = shared.moves.data[n] ? -1 : 0;
    for (int p = 0; p < nv; ++p) {
        Integers& index = *reinterpret_cast<Integers*>(entry<char>(system.permutation, nv - 1 - p, group * L));
        Integers& start = *reinterpret_cast<Integers*>(entry<char>(system.first, p, group * L));
        const Integers here = p, there = begin[p];
        index = kept ? here : index;
        start = kept ? there : start;
        const int row = p * (p + 1) / 2;
        for (int q = begin[p]; q < p; ++q) {
            system_lower[row + q] = chosen ? below[row + q] : system_lower[row + q];
            if (with_upper) system_upper[row + q] = chosen ? above[row + q] : system_upper[row + q];
        }
        system_lower[row + p] = chosen ? below[row + p] : system_lower[row + p];
    }
}

// As warp_kernels.solver.newton.descent.initial_guess.
template <typename Number, int L, typename Paths, typename Group>
BACKSWING_INLINE void initial_guesses(int group, int nv, Number dt, Number least_inverse, const Paths& paths,
    const Array<Number>& qd, const Array<Number>& qdd, const Array<Number>& factor_l_array,
    const Array<Number>& inverse_mass_array, const Group& shared, const Array<Number>& z_before_array) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> factor_l(factor_l_array, group), inverse_mass(inverse_mass_array, group),
        z_before(z_before_array, group);
    Pack* speed = packs<Number, L>(shared.velocity);
    Pack* change = speed + nv;
    side_by_side<Number, L>(qd, group, nv, speed);
    side_by_side<Number, L>(qdd, group, nv, change);
    const Ancestors path(paths);
    Pack total = 0;
    const Pack nothing = 0, least = least_inverse;
    for (int k = 0; k < nv; ++k)
        speed[k] = __builtin_elementwise_abs(speed[k]) + dt * __builtin_elementwise_abs(change[k]);
    for (int k = 0; k < nv; ++k) {
        Pack rate = change[k], size = speed[k];
        for (int d = 0; d < path.depths[k]; ++d) {
            const int j = path.ancestors[path.starts[k] + d];
            const Pack l = factor_l[path.starts[k] + d];
            rate += l * change[j];
            size += __builtin_elementwise_abs(l) * speed[j];
        }
        z_before[k] = -dt * rate;
        total += inverse_mass[k] > least ? size * size / inverse_mass[k] : nothing;
    }
    *packs<Number, L>(shared.scale) = total;
}

} // namespace backswing::newton
