// Assignment of constraints of a lane group's worlds to slots: see warp_kernels.solver.newton.group.structs.
#pragma once

#include "group.h"

namespace backswing::newton::slots {

// Cost of a slot in addition to its entries in the system: for each degree of freedom, and for itself. Measured.
constexpr int EACH_DOF = 6;
constexpr int EACH_SLOT = 50;

BACKSWING_INLINE int cost(wp::uint64 mask) {
    const int size = __builtin_popcountll(mask);
    return size * (size + 1) / 2 + EACH_DOF * size + EACH_SLOT;
}

BACKSWING_INLINE int count_of(const Array<int>& count, wp::int64 world) {
    return *reinterpret_cast<const int*>(
        reinterpret_cast<const char*>(count.data) + world * wp::int64(count.strides[0]));
}

// Put constraints with the same index into the same slot.
template <typename Number, int L, typename Constraints, typename Group>
BACKSWING_INLINE void assign_in_order(int group, int most, const Constraints& constraints, const Group& shared) {
    int* to = shared.slot_constraint.data;
    for (int n = 0; n < L; ++n) {
        const wp::int64 world = group * L + n;
        int own = 0;
        if (world < constraints.count.shape[0]) own = count_of(constraints.count, world);
        for (int slot = 0; slot < most; ++slot) to[slot * L + n] = slot < own ? slot : -1;
    }
}

// Put constraints that act on the same degrees of freedom into the same slot. Return the number of slots; zero beyond
// the capacity.
template <typename Number, int L, typename Constraints, typename Group>
BACKSWING_INLINE int align(int group, const Constraints& constraints, const Group& shared) {
    const wp::uint64* masks = shared.path.data;
    int* to = shared.slot_constraint.data;
    const int room =
        shared.slot_constraint.shape[0] / L < MOST_CONSTRAINTS ? shared.slot_constraint.shape[0] / L : MOST_CONSTRAINTS;
    wp::uint64 acts[L][MOST_CONSTRAINTS];
    int numbers[L][MOST_CONSTRAINTS], counts[L], at[L];
    for (int n = 0; n < L; ++n) {
        const wp::int64 world = group * L + n;
        at[n] = counts[n] = 0;
        if (world >= constraints.count.shape[0]) continue;
        counts[n] = count_of(constraints.count, world);
        for (int i = 0; i < counts[n]; ++i) {
            wp::uint64 mask = 0;
            for (int side = 0; side < 2; ++side) {
                const int t = *entry<const int>(constraints.tail, 2 * i + side, world);
                if (t >= 0) mask |= masks[t];
            }
            int slot = i;
            for (; slot > 0 && acts[n][slot - 1] < mask; --slot) {
                acts[n][slot] = acts[n][slot - 1];
                numbers[n][slot] = numbers[n][slot - 1];
            }
            acts[n][slot] = mask;
            numbers[n][slot] = i;
        }
    }
    wp::uint64 together[MOST_CONSTRAINTS];
    unsigned taken[MOST_CONSTRAINTS];
    int slots = 0;
    while (true) {
        // Next, those of all worlds that act on the same.
        wp::uint64 mask = 0;
        bool any = false;
        for (int n = 0; n < L; ++n)
            if (at[n] < counts[n]) {
                any = true;
                if (acts[n][at[n]] > mask) mask = acts[n][at[n]];
            }
        if (!any) break;
        unsigned own = 0;
        for (int n = 0; n < L; ++n)
            if (at[n] < counts[n] && acts[n][at[n]] == mask) own |= 1u << n;
        // The cheapest slot: after all constraints of these worlds.
        int best = slots, least = cost(mask);
        if (slots == room) least = 1 << 30;
        for (int slot = slots - 1; slot >= 0 && !(taken[slot] & own); --slot) {
            const int more = cost(together[slot] | mask) - cost(together[slot]);
            if (more < least) {
                least = more;
                best = slot;
            }
        }
        if (best == room) return 0;
        if (best == slots) {
            together[slots] = 0;
            taken[slots] = 0;
            for (int n = 0; n < L; ++n) to[slots * L + n] = -1;
            ++slots;
        }
        together[best] |= mask;
        taken[best] |= own;
        for (int n = 0; n < L; ++n)
            if (own >> n & 1) to[best * L + n] = numbers[n][at[n]++];
    }
    return slots;
}

} // namespace backswing::newton::slots
