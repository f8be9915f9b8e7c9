// Assembly of the system of one world from the rows of its constraints. For CPUs and GPUs. `System` is the struct of
// warp_kernels.solver.newton.structs.
#pragma once

#include "../constraints/rows.h"
#include "envelope.h"

namespace backswing::newton {

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

} // namespace backswing::newton
