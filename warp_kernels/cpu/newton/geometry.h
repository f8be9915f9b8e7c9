// Backward pass from rows made of velocities to contacts, anchors and the motions of the joints: see
// warp_kernels.solver.newton.group.rows.
#pragma once

#include "adjoint_system.h"
#include "sides.h"

namespace backswing::newton::geometry {

using adjoint_system::BLOCK_BAR;
using adjoint_system::FIELDS;
using adjoint_system::RHS_BAR;

// Interleave the velocities after the step and before it, with zeros for the adjoint of the latter between them.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void begin_rows(
    int group, int nv, const Array<Number>& qd, const Array<Number>& qd_solved, const Group& shared) {
    Pack<Number, L>* speed = packs<Number, L>(shared.velocity);
    Pack<Number, L>* bars = speed + nv;
    Pack<Number, L>* before = bars + nv;
    side_by_side<Number, L>(qd_solved, group, nv, speed);
    side_by_side<Number, L>(qd, group, nv, before);
    const Pack<Number, L> nothing = 0;
    for (int k = 0; k < nv; ++k) bars[k] = nothing;
}

// Add the adjoint of the velocity before the step.
template <typename Number, int L, typename Group>
BACKSWING_INLINE void end_rows(int group, int nv, const Group& shared, const Array<Number>& qd_bar) {
    const Pack<Number, L>* bars = packs<Number, L>(shared.velocity) + nv;
    for (int n = 0; n < L && group * L + n < qd_bar.shape[0]; ++n) {
        Number* v = reinterpret_cast<Number*>(
            reinterpret_cast<char*>(qd_bar.data) + (group * L + n) * wp::int64(qd_bar.strides[0]));
        for (int k = 0; k < nv; ++k) v[k] += bars[k][n];
    }
}

// Propagate the adjoint of the rows of the constraints in one slot to their inputs. A world whose constraint isn't made
// of velocities behaves as one without that side.
template <typename Number, int L, typename TreeDofs, typename Constraints, typename Geometry, typename Group>
BACKSWING_INLINE void rows_adjoint(int slot, int group, int nv, const TreeDofs& trees, const Constraints& constraints,
    const Geometry& geometry, const Array<Vec3<Number>>& impulse, const Array<Number>& weight_array,
    const Group& shared, const Geometry& geometry_bar) {
    using Pack = backswing::Pack<Number, L>;
    const auto& contacts = geometry.contacts;
    const auto& equalities = geometry.equalities;
    const auto& references = geometry.references;
    const auto& contacts_bar = geometry_bar.contacts;
    const auto& equalities_bar = geometry_bar.equalities;
    const auto& references_bar = geometry_bar.references;
    const Items<Number, L> weight(weight_array, group);
    const Pack nothing = 0;
    const wp::uint64* masks = shared.path.data;
    const int* own_constraint = shared.slot_constraint.data + slot * L;
    const Pack* bar = packs<Number, L>(shared.fields) + slot * FIELDS + RHS_BAR;
    const Pack b[3] = {bar[0], bar[1], bar[2]};
    const bool has_own =
        adjoint_system::has_any<Number, L>(packs<Number, L>(shared.fields) + slot * FIELDS + BLOCK_BAR);
    const Pack* speed = packs<Number, L>(shared.velocity);
    Pack* speed_bar = packs<Number, L>(shared.velocity) + nv;
    const Pack* before = speed_bar + nv;
    const bool by_share = references.contact.shape[0] + references.anchor.shape[0] > 0;
    const Pack* g_own = packs<Number, L>(shared.response);
    // One side after the other.
    for (int side = 0; side < 2; ++side) {
        Side<Number, L> here(side);
        Pack impulses[3] = {nothing, nothing, nothing}, left = nothing, share_bar = nothing;
        int kinds[L], items[L], own_trees[L], own_references[L];
        for (int n = 0; n < L; ++n) {
            const int world = group * L + n;
            kinds[n] = -1;
            const int constraint = own_constraint[n];
            if (constraint < 0) continue;
            const int which = *entry<const int>(constraints.kind, constraint, world);
            const int end = *entry<const int>(constraints.tail, 2 * constraint + side, world);
            if (end < 0 || !is_geometric(which)) continue;
            kinds[n] = which;
            here.paths[n] = masks[end];
            here.all |= masks[end];
            const int at = items[n] = *entry<const int>(constraints.item, constraint, world);
            const int tree = own_trees[n] = trees.dof_tree.data[end];
            const int other = own_references[n] = *entry<const int>(constraints.reference, constraint, world);
            const Number* own_impulse = entry<const Number>(impulse, constraint, world);
            for (int c = 0; c < 3; ++c) impulses[c][n] = own_impulse[c];
            if (by_share)
                left[n] =
                    1 - (which == CONTACT ? entry<const Number>(references.contact, at, world)
                                          : entry<const Number>(references.anchor, pair_index(which, at), world))[2];
            here.set(n, world, which, at, tree, other, geometry);
        }
        const wp::uint64 all = here.all;
        if (!all) continue;
        const Pack* frame = here.frame;
        const Pack* lever = here.lever;
        Pack along_impulse[3], along_bar[3], frame_bar[9], lever_bar[3];
        for (int c = 0; c < 3; ++c) {
            along_impulse[c] = impulses[0] * frame[c] + impulses[1] * frame[3 + c] + impulses[2] * frame[6 + c];
            along_bar[c] = b[0] * frame[c] + b[1] * frame[3 + c] + b[2] * frame[6 + c];
            lever_bar[c] = nothing;
        }
        for (int c = 0; c < 9; ++c) frame_bar[c] = nothing;
        for (wp::uint64 rest = all; rest; rest &= rest - 1) {
            const int k = __builtin_ctzll(rest);
            const Motion<Number, L> moved(here, geometry.subspace, k, group);
            const Pack on = moved.on, x = moved.x, y = moved.y, z = moved.z;
            const Pack* motion = moved.motion;
            Pack* column_bar = reinterpret_cast<Pack*>(entry<char>(geometry_bar.subspace, k, group));
            const Pack w = on * weight[k], v = on * (by_share ? speed[k] - left * before[k] : speed[k]);
            Pack g[3], push[3];
            for (int r = 0; r < 3; ++r) g[r] = impulses[r] * w + b[r] * v;
            for (int c = 0; c < 3; ++c) push[c] = along_impulse[c] * w + along_bar[c] * v;
            if (has_own) {
                const Pack own[3] = {on * g_own[3 * k], on * g_own[3 * k + 1], on * g_own[3 * k + 2]};
                for (int r = 0; r < 3; ++r) g[r] += own[r];
                for (int c = 0; c < 3; ++c)
                    push[c] += own[0] * frame[c] + own[1] * frame[3 + c] + own[2] * frame[6 + c];
            }
            if (here.any_linear) {
                Pack turns[3];
                for (int c = 0; c < 3; ++c) {
                    turns[c] = here.any_angular ? here.angular * push[c] : nothing;
                    push[c] = here.any_angular ? here.linear * push[c] : push[c];
                    column_bar[3 + c] += push[c];
                }
                column_bar[0] += (lever[1] * push[2] - lever[2] * push[1]) + turns[0];
                column_bar[1] += (lever[2] * push[0] - lever[0] * push[2]) + turns[1];
                column_bar[2] += (lever[0] * push[1] - lever[1] * push[0]) + turns[2];
                lever_bar[0] += push[1] * z - push[2] * y;
                lever_bar[1] += push[2] * x - push[0] * z;
                lever_bar[2] += push[0] * y - push[1] * x;
            } else
                for (int c = 0; c < 3; ++c) column_bar[c] += push[c];
            for (int r = 0; r < 3; ++r)
                for (int c = 0; c < 3; ++c) frame_bar[3 * r + c] += g[r] * motion[c];
            const Pack along = on * (along_bar[0] * motion[0] + along_bar[1] * motion[1] + along_bar[2] * motion[2]);
            if (by_share) {
                share_bar += along * before[k];
                speed_bar[k] += along - left * along;
            } else
                speed_bar[k] += along;
        }
        for (int n = 0; n < L; ++n) {
            if (kinds[n] < 0) continue;
            const int world = group * L + n, at = items[n];
            const bool touches = kinds[n] == CONTACT;
            if (by_share)
                (touches ? entry<Number>(references_bar.contact, at, world)
                         : entry<Number>(references_bar.anchor, pair_index(kinds[n], at), world))[2] += share_bar[n];
            if (touches || (is_angular(kinds[n]) && equalities.anchor_apart.shape[0] > 0)) {
                Number* own_frame_bar = touches ? entry<Number>(contacts_bar.frame, at, world)
                                                : entry<Number>(equalities_bar.anchor_frame, 2 * at + 1, world);
                for (int c = 0; c < 9; ++c) own_frame_bar[c] += here.sign * frame_bar[c][n];
            }
            if (is_angular(kinds[n])) continue;
            Number* point_bar = touches ? entry<Number>(contacts_bar.point, at, world)
                                        : entry<Number>(equalities_bar.anchor_point, at, world);
            Number* from_bar = entry<Number>(geometry_bar.origin, own_references[n], world);
            Number* to_bar = entry<Number>(geometry_bar.origin, own_trees[n], world);
            for (int c = 0; c < 3; ++c) {
                point_bar[c] += lever_bar[c][n];
                from_bar[c] += lever_bar[c][n];
                to_bar[c] -= lever_bar[c][n];
            }
            if (touches ? contacts.apart.shape[0] > 0 : equalities.anchor_apart.shape[0] > 0) {
                Number* apart_bar = touches ? entry<Number>(contacts_bar.apart, at, world)
                                            : entry<Number>(equalities_bar.anchor_apart, at, world);
                for (int c = 0; c < 3; ++c) apart_bar[c] += Number(0.5) * here.sign * lever_bar[c][n];
            }
        }
    }
}

} // namespace backswing::newton::geometry
