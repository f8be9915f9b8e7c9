// Rows of constraints for the worlds of a lane group: see warp_kernels.solver.newton.group.rows.
#pragma once

#include "sides.h"

namespace backswing::newton::rows {

// Interleave velocities and accelerations, the latter times dt.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void load_speeds(
    int group, int nv, Number dt, const Array<Number>& qd, const Array<Number>& qdd, const Group& shared) {
    Pack<Number, L>* speed = packs<Number, L>(shared.velocity);
    Pack<Number, L>* change = speed + nv;
    side_by_side<Number, L>(qd, group, nv, speed);
    side_by_side<Number, L>(qdd, group, nv, change);
    for (int k = 0; k < nv; ++k) change[k] *= dt;
}

// Write the first numbers of a world.
template <typename Number, int L, int COUNT>
BACKSWING_INLINE void write_each(const Pack<Number, L>* numbers, int n, Number* to) {
    for (int r = 0; r < COUNT; ++r) to[r] = numbers[r][n];
}

// Compute the rows of the constraints in one slot, and their velocities before the step and without impulses. A world
// whose constraint isn't made of velocities has a frame of zeros, and the entries of its joint.
template <typename Number, int L, typename Paths, typename TreeDofs, typename Constraints, typename Geometry,
    typename Joints, typename Group, typename Rows, typename Bounces>
BACKSWING_INLINE void make_rows(int slot, int group, const Paths& paths, const TreeDofs& trees,
    const Constraints& constraints, const Geometry& geometry, const Joints& joints, const Array<Number>& factor_l_array,
    const Group& shared, const Array<Vec3<Number>>& row, const Rows& rows, const Bounces& bounces) {
    using Pack = backswing::Pack<Number, L>;
    const Items<Number, L> factor_l(factor_l_array, group);
    const int nv = paths.dof_depth.shape[0];
    const Pack nothing = 0;
    const wp::uint64* masks = shared.path.data;
    const Ancestors path(paths);
    const Pack* speed = packs<Number, L>(shared.velocity);
    const Pack part = *packs<Number, L>(shared.three);
    const int* own_constraint = shared.slot_constraint.data + slot * L;
    // The rows times velocities and times their changes; sums of the magnitudes of the terms of the former and of all.
    Pack before[3], changes[3], sizes_before[3], sizes[3];
    for (int r = 0; r < 3; ++r) before[r] = changes[r] = sizes_before[r] = sizes[r] = nothing;
    // One side after the other.
    for (int side = 0; side < 2; ++side) {
        Side<Number, L> here(side);
        bool any_joint = false;
        int kinds[L], items[L], ends[L];
        for (int n = 0; n < L; ++n) {
            kinds[n] = -1;
            const int world = group * L + n, constraint = own_constraint[n];
            if (constraint < 0) continue;
            const int end = *entry<const int>(constraints.tail, 2 * constraint + side, world);
            if (end < 0) continue;
            const int which = kinds[n] = *entry<const int>(constraints.kind, constraint, world);
            const int at = items[n] = *entry<const int>(constraints.item, constraint, world);
            ends[n] = end;
            here.paths[n] = masks[end];
            here.all |= masks[end];
            if (!is_geometric(which)) {
                any_joint = true;
                continue;
            }
            const int tree = trees.dof_tree.data[end];
            const int other = *entry<const int>(constraints.reference, constraint, world);
            here.set(n, world, which, at, tree, other, geometry);
        }
        const wp::uint64 all = here.all;
        if (!all) continue;
        Pack entries[MOST_DOFS][3];
        const bool only_joints = !here.any_linear && !here.any_angular;
        if (only_joints)
            for (wp::uint64 rest = all; rest; rest &= rest - 1)
                for (int r = 0; r < 3; ++r) entries[__builtin_ctzll(rest)][r] = nothing;
        else
            for (wp::uint64 rest = all; rest; rest &= rest - 1) {
                const int k = __builtin_ctzll(rest);
                const Motion<Number, L> moved(here, geometry.subspace, k, group);
                const Pack* frame = here.frame;
                const Pack* motion = moved.motion;
                for (int r = 0; r < 3; ++r)
                    entries[k][r] = moved.on * (frame[3 * r] * motion[0] + frame[3 * r + 1] * motion[1] +
                                                   frame[3 * r + 2] * motion[2]);
            }
        if (any_joint)
            for (int n = 0; n < L; ++n) {
                if (kinds[n] < 0 || is_geometric(kinds[n])) continue;
                const int world = group * L + n, k = ends[n];
                if (kinds[n] == CONE_LIMIT) {
                    const Number* rate = entry<const Number>(joints.cones.row, items[n], world);
                    for (int axis = 0; axis < 3; ++axis) entries[k - 2 + axis][0][n] = rate[axis];
                } else if (kinds[n] == COUPLING && side == 0) {
                    const int last = joints.coupling_ratio.shape[0] - 1;
                    entries[k][0][n] =
                        -*entry<const Number>(joints.coupling_ratio, world < last ? world : last, items[n]);
                } else
                    entries[k][0][n] = kinds[n] == UPPER_LIMIT ? -1 : 1;
            }
        for (wp::uint64 rest = all; rest; rest &= rest - 1) {
            const int k = __builtin_ctzll(rest);
            const Pack own = speed[k], change = speed[nv + k];
            const Pack own_size = __builtin_elementwise_abs(own), change_size = __builtin_elementwise_abs(change);
            for (int r = 0; r < 3; ++r) {
                const Pack rate = entries[k][r], rate_size = __builtin_elementwise_abs(rate);
                before[r] += rate * own;
                changes[r] += rate * change;
                sizes_before[r] += rate_size * own_size;
                sizes[r] += rate_size * change_size;
            }
        }
        // Times L'^-1, deepest first.
        for (wp::uint64 rest = all; rest;) {
            const int k = 63 - __builtin_clzll(rest);
            rest ^= wp::uint64(1) << k;
            const Pack x = entries[k][0], y = entries[k][1], z = entries[k][2];
            for (int at = path.starts[k]; at < path.starts[k] + path.depths[k]; ++at) {
                Pack* above = entries[path.ancestors[at]];
                const Pack l = factor_l[at];
                above[0] -= x * l;
                if (only_joints) continue;
                above[1] -= y * l;
                above[2] -= z * l;
            }
        }
        for (int n = 0; n < L; ++n) {
            if (kinds[n] < 0) continue;
            char* to = entry<char>(row, (2 * own_constraint[n] + side) * paths.max_depth, group * L + n);
            for (wp::uint64 rest = here.paths[n]; rest; rest &= rest - 1, to += row.strides[0]) {
                const Pack* from = entries[__builtin_ctzll(rest)];
                for (int r = 0; r < 3; ++r) reinterpret_cast<Number*>(to)[r] = from[r][n];
            }
        }
    }
    Pack values[3], rhs[3];
    for (int r = 0; r < 3; ++r) {
        values[r] = part * before[r];
        rhs[r] = values[r] + changes[r];
        sizes[r] += sizes_before[r];
    }
    sizes[1] = __builtin_elementwise_max(sizes[1], sizes[2]);
    sizes_before[1] = __builtin_elementwise_max(sizes_before[1], sizes_before[2]);
    for (int n = 0; n < L; ++n) {
        const int world = group * L + n, constraint = own_constraint[n];
        if (constraint < 0) continue;
        write_each<Number, L, 3>(values, n, entry<Number>(rows.value_before, constraint, world));
        write_each<Number, L, 3>(rhs, n, entry<Number>(rows.rhs, constraint, world));
        write_each<Number, L, 2>(sizes_before, n, entry<Number>(rows.size_before, constraint, world));
        write_each<Number, L, 2>(sizes, n, entry<Number>(rows.size, constraint, world));
        if (bounces.before.shape[0] > 0) *entry<Number>(bounces.before, constraint, world) = before[0][n];
    }
}

} // namespace backswing::newton::rows
