// System of a Newton step in one world: assembly, factorisation within its envelope and solution; and the sweeps before
// it. For CPUs and GPUs. `System` is the struct of warp_kernels.solver.newton.structs.
#pragma once

#include "../constraints/rows.h"

namespace backswing::newton {

// Inverse masses below this are those of joints whose velocity is prescribed: the same as in warp_kernels.types.
constexpr double LEAST_INVERSE = 1e-15;

// Return a number of a world in a way that is opaque to a GPU's compiler. The compiler then computes addresses from it
// anew instead of keeping those of all arrays over the iteration, for which there are no registers.
template <typename Number>
BACKSWING_INLINE int opaque(int world) {
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(world));
#endif
    return world;
}

// The rows of a system. L and U are packed by rows; `lower` and `upper` of a world from index 0 on.
template <typename Number>
struct Envelope {
    typedef wp::int64 Bytes;

    Bytes step;
    char *lower, *upper;
    Entries<int> starts, firsts;

    template <typename System>
    BACKSWING_MEMBER Envelope(const System& system, int world)
        : step(system.lower.strides[0]),
          lower(reinterpret_cast<char*>(system.lower.data) + world * Bytes(system.lower.strides[1])),
          upper(reinterpret_cast<char*>(system.upper.data) + world * Bytes(system.upper.strides[1])),
          starts(column(system.row_start, world)), firsts(column(system.first, world)) {}
    // Offset at which the entry of index 0 would be in row p.
    BACKSWING_MEMBER Bytes row(int p) const { return step * starts[p]; }
    BACKSWING_MEMBER static Number& at(char* row, Bytes offset) { return *reinterpret_cast<Number*>(row + offset); }

    // Return the sum of products of two rows, or of one and x, over a range of indices. On a CPU eight sums are
    // independent; if it works on one world alone, it adds eight products at a time, to the same result. A GPU has
    // other threads to switch to, and needs its registers.
    BACKSWING_MEMBER Number sum(char* a, char* b, Bytes step_b, int start, int end) const {
        a += start * step;
        b += start * step_b;
        int left = end - start;
        Number few = 0;
#ifndef __CUDA_ARCH__
        if (left >= 4) {
            Number sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (step == sizeof(Number) && step_b == sizeof(Number)) {
                typedef Number Pack __attribute__((ext_vector_type(8), aligned(sizeof(Number))));
                Pack packed = 0;
                for (; left >= 8; left -= 8, a += sizeof(Pack), b += sizeof(Pack))
                    packed += *reinterpret_cast<const Pack*>(a) * *reinterpret_cast<const Pack*>(b);
                *reinterpret_cast<Pack*>(sum) = packed;
            }
            for (; left >= 8; left -= 8, a += 8 * step, b += 8 * step_b)
                for (int k = 0; k < 8; ++k) sum[k] += at(a, k * step) * at(b, k * step_b);
            for (; left >= 4; left -= 4, a += 4 * step, b += 4 * step_b)
                for (int k = 0; k < 4; ++k) sum[k] += at(a, k * step) * at(b, k * step_b);
            few = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
        }
#endif
        for (; left > 0; --left, a += step, b += step_b) few += at(a, 0) * at(b, 0);
        return few;
    }
};

// Extend the rows that one side of a constraint covers to begin at the index `least` or before.
template <typename Number, typename Paths, typename System>
BACKSWING_INLINE void extend_rows(const Paths& paths, int tail, int least, const System& system, int world) {
    const auto permutation = column(system.permutation, world), first = column(system.first, world);
    const Path path(paths, tail);
    for (int d = 0; d <= path.depth; ++d) {
        int& own = first[permutation[path[d]]];
        own = own < least ? own : least;
    }
}

// Set entries to zero. For a single world they are contiguous.
template <typename Number>
BACKSWING_INLINE void clear_row(const Array<Number>& entries, int begin, int count, int world) {
    const auto own = column(entries, world, begin);
    if (own.follow_each_other()) {
        for (int k = 0; k < count; ++k) reinterpret_cast<Number*>(own.at)[k] = 0;
        return;
    }
    for (int k = 0; k < count; ++k) own[k] = 0;
}

// Subtract the entries that one side of a constraint, whose rows begin at `here`, shares with one of another, whose
// rows begin at `there`.
template <typename Number, typename Paths, typename System>
BACKSWING_INLINE void add_sides(const Array<Vec3<Number>>& row_array, int here, int there, const Paths& paths, int tail,
    int mate, const Mat33<Number>& slope, bool symmetric, const System& system, int world) {
    const Envelope<Number> rows(system, world);
    const auto permutation = column(system.permutation, world);
    const auto row = column(row_array, world);
    const Path path(paths, tail), other(paths, mate);
    const int least = permutation[mate];
    for (int e = 0; e <= path.depth; ++e) {
        const int p = permutation[path[e]];
        // Indices descend along a path: from here on all are above the diagonal.
        if (p < least && symmetric) break;
        const Vec3<Number> push = wp::mul(row[here + e], slope);
        char* row_p = rows.lower + rows.row(p);
        for (int d = symmetric && here == there ? e : 0; d <= other.depth; ++d) {
            const int q = permutation[other[d]];
            if (p < q && symmetric) continue;
            Number& entry = p < q ? rows.at(rows.upper + rows.row(q), p * rows.step) : rows.at(row_p, q * rows.step);
            entry -= wp::dot(push, row[there + d]);
        }
    }
}

// Compute the entries of `many` rows from p on in column q, of which the rows of L up to q and of U before it are
// final. Their sums are independent: a processor computes several at a time.
template <typename Number>
BACKSWING_INLINE void eliminate(const Envelope<Number>& rows, int p, int many, int q, bool symmetric, Number* pivots) {
    const auto step = rows.step, row_q = rows.row(q);
    const int first = rows.firsts[p], first_q = rows.firsts[q], start = first_q > first ? first_q : first;
    const Number inverse = rows.at(rows.lower + row_q, q * step);
    for (int r = 0; r < many; ++r) {
        char* lower_p = rows.lower + rows.row(p + r);
        char* upper_p = rows.upper + rows.row(p + r);
        Number& entry = rows.at(lower_p, q * step);
        const Number value = entry - rows.sum(lower_p, rows.upper + row_q, step, start, q);
        Number over = value;
        if (!symmetric) over = rows.at(upper_p, q * step) - rows.sum(rows.lower + row_q, upper_p, step, start, q);
        entry = value * inverse;
        rows.at(upper_p, q * step) = over;
        pivots[r] -= entry * over;
    }
}

// Factorise nv indices from `begin` on as L U without pivoting, L with a unit diagonal. With `symmetric` the entries
// above the diagonal aren't read. Return the smallest pivot, as a share of its diagonal entry.
template <typename Number, typename System>
BACKSWING_INLINE Number factorise(int begin, int nv, bool symmetric, const System& system, int world) {
    const Envelope<Number> rows(system, world);
    const auto step = rows.step;
    Number least = 1;
    // Rows of a tree begin together: up to so many are eliminated at once.
#ifdef __CUDA_ARCH__
    constexpr int MOST = 1;
#else
    constexpr int MOST = 6;
#endif
    for (int p = begin; p < begin + nv;) {
        const int first = rows.firsts[p];
        int many = 1;
        while (many < MOST && p + many < begin + nv && rows.firsts[p + many] == first) ++many;
        Number diagonals[MOST], pivots[MOST];
        for (int r = 0; r < many; ++r) diagonals[r] = pivots[r] = rows.at(rows.lower + rows.row(p + r), (p + r) * step);
        for (int q = first; q < p; ++q) eliminate(rows, p, many, q, symmetric, pivots);
        for (int r = 0; r < many; ++r) {
            for (int q = p; q < p + r; ++q) eliminate(rows, p + r, 1, q, symmetric, pivots + r);
            least = wp::min(least, wp::abs(pivots[r] / diagonals[r]));
            rows.at(rows.lower + rows.row(p + r), (p + r) * step) = Number(1) / pivots[r];
        }
        p += many;
    }
    return least;
}

// Solve L U x = x in place, x in elimination order, of which nv from `begin` on count.
template <typename Number, typename System>
BACKSWING_INLINE void solve(int begin, int nv, const System& system, const Array<Number>& x_array, int world) {
    const Envelope<Number> rows(system, world);
    const auto x = column(x_array, world);
    for (int p = begin; p < begin + nv; ++p)
        x[p] -= rows.sum(rows.lower + rows.row(p), x.at, x.step, rows.firsts[p], p);
    for (int p = begin + nv - 1; p >= begin; --p) {
        const auto row = rows.row(p);
        const Number value = x[p] * rows.at(rows.lower + row, p * rows.step);
        x[p] = value;
        for (int q = rows.firsts[p]; q < p; ++q) x[q] -= rows.at(rows.upper + row, q * rows.step) * value;
    }
}

// Compute z_before of degrees of freedom from `begin` to `end`. Return the scale of rounding: twice the kinetic energy
// of the velocity before the time step and of its change without impulses.
template <typename Number, typename Paths>
BACKSWING_INLINE Number initial_guess(int begin, int end, Number dt, const Array<Number>& qd_array,
    const Array<Number>& qdd_array, const Paths& paths, const Array<Number>& factor_l_array,
    const Array<Number>& inverse_mass_array, const Array<Number>& z_before_array, int world) {
    const auto qd = row(qd_array, world), qdd = row(qdd_array, world);
    const auto factor_l = column(factor_l_array, world), inverse_mass = column(inverse_mass_array, world),
               z_before = column(z_before_array, world);
    const Ancestors path(paths);
    Number total = 0;
    for (int k = begin; k < end; ++k) {
        Number change = qdd[k];
        Number size = wp::abs(qd[k]) + dt * wp::abs(change);
        const int* above = path.ancestors + path.starts[k];
        for (int d = 0; d < path.depths[k]; ++d) {
            const Number factor = factor_l[path.starts[k] + d];
            const Number other = qdd[above[d]];
            change += factor * other;
            size += wp::abs(factor) * (wp::abs(qd[above[d]]) + dt * wp::abs(other));
        }
        z_before[k] = -dt * change;
        const Number inverse = inverse_mass[k];
        if (inverse > Number(LEAST_INVERSE)) total += size * size / inverse;
    }
    return total;
}

// Call move(x, direction, other) for each number of arrays of numbers or vectors. For a single world its numbers are
// contiguous, and a CPU's compiler takes many at a time.
template <typename Number, typename T, typename Move>
BACKSWING_INLINE void move_each(int count, const Array<T>& x_array, const Array<T>& direction_array,
    const Array<T>& other_array, int world, const Move& move) {
    const auto x = column(x_array, world), direction = column(direction_array, world),
               other = column(other_array, world);
    constexpr int width = sizeof(T) / sizeof(Number);
    const auto go = [&](int i, int numbers) {
        Number* at_x = reinterpret_cast<Number*>(&x[i]);
        Number* at_direction = reinterpret_cast<Number*>(&direction[i]);
        Number* at_other = reinterpret_cast<Number*>(&other[i]);
        for (int k = 0; k < numbers; ++k) move(at_x[k], at_direction[k], at_other[k]);
    };
    if (x.follow_each_other() && direction.follow_each_other() && other.follow_each_other())
        return go(0, count * width);
    for (int i = 0; i < count; ++i) go(i, width);
}

// Move `beta` along the direction. The next direction is `beta` times it plus a `share` of the changes, which become
// zero.
template <typename Number>
BACKSWING_INLINE void impulses_go_on(int count, Number beta, Number share, const Array<Vec3<Number>>& x,
    const Array<Vec3<Number>>& direction, const Array<Vec3<Number>>& changes, int world) {
    move_each<Number>(count, x, direction, changes, world, [&](Number& here, Number& moved, Number& change) {
        const Number along = beta * moved;
        here += along;
        moved = along + share * change;
        change = 0;
    });
}

// The same with the changes since `before`, which becomes x.
template <typename Number>
BACKSWING_INLINE void motion_goes_on(int count, Number beta, Number share, const Array<Number>& x,
    const Array<Number>& direction, const Array<Number>& before, int world) {
    move_each<Number>(count, x, direction, before, world, [&](Number& here, Number& moved, Number& kept) {
        const Number change = here - kept, along = beta * moved;
        here += along;
        moved = along + share * change;
        kept = here;
    });
}

} // namespace backswing::newton
