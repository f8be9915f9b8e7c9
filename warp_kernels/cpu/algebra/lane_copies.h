// Copies between arrays of lane groups [item, group] and arrays of single worlds [item, world]: see
// warp_kernels.algebra.lane_copies.
#pragma once

#include "../lanes.h"

namespace backswing::lane_copies {

// ROWS numbers of each world of a group: one world after the other, and row by row.
// own: number of worlds in the group.
template <typename Number, int L>
struct Both {
    Number* one;
    Number* several;
    int own;

    template <typename Groups, typename Worlds>
    BACKSWING_MEMBER Both(const Array<Groups>& groups, const Array<Worlds>& worlds, int item, int group)
        : one(entry<Number>(worlds, item, group * L)), several(entry<Number>(groups, item, group)),
          own(worlds.shape[1] - group * L) {}
};

// Loops of constant length become shuffles of vector registers.
template <typename Number, int L, int ROWS, typename Groups, typename Worlds>
BACKSWING_INLINE void write_worlds(const Array<Groups>& groups, const Array<Worlds>& worlds, int item, int group) {
    const Both<Number, L> both(groups, worlds, item, group);
    if (both.own >= L)
        for (int n = 0; n < L; ++n)
            for (int c = 0; c < ROWS; ++c) both.one[n * ROWS + c] = both.several[c * L + n];
    else
        for (int n = 0; n < both.own; ++n)
            for (int c = 0; c < ROWS; ++c) both.one[n * ROWS + c] = both.several[c * L + n];
}

template <typename Number, int L, int ROWS, typename Groups, typename Worlds>
BACKSWING_INLINE void write_group(const Array<Worlds>& worlds, const Array<Groups>& groups, int item, int group) {
    const Both<Number, L> both(groups, worlds, item, group);
    if (both.own >= L)
        for (int c = 0; c < ROWS; ++c)
            for (int n = 0; n < L; ++n) both.several[c * L + n] = both.one[n * ROWS + c];
    else
        for (int c = 0; c < ROWS; ++c)
            for (int n = 0; n < both.own; ++n) both.several[c * L + n] = both.one[n * ROWS + c];
}

template <typename Number, int L, int ROWS, typename Groups, typename Worlds>
BACKSWING_INLINE void add_to_group(const Array<Worlds>& worlds, const Array<Groups>& groups, int item, int group) {
    const Both<Number, L> both(groups, worlds, item, group);
    if (both.own >= L)
        for (int c = 0; c < ROWS; ++c)
            for (int n = 0; n < L; ++n) both.several[c * L + n] += both.one[n * ROWS + c];
    else
        for (int c = 0; c < ROWS; ++c)
            for (int n = 0; n < both.own; ++n) both.several[c * L + n] += both.one[n * ROWS + c];
}

} // namespace backswing::lane_copies
