// One side of a constraint in each world of a lane group: its point and its motion. Its rows and their backward pass
// share it.
#pragma once

#include "../kinds.h"
#include "group.h"

namespace backswing::newton {

// A world without the side has an empty path and a frame of zeros. `linear` and `angular` are one if the rows of a
// world are made of the velocity of a point, or of an orientation.
template <typename Number, int L>
struct Side {
    typedef typename Lanes<Number, L>::Pack Pack;
    typedef typename Lanes<Number, L>::Bits Bits;

    Number sign;
    Bits paths = 0;
    wp::uint64 all = 0;
    bool any_linear = false, any_angular = false;
    Pack frame[9], lever[3], linear, angular;

    BACKSWING_MEMBER Side(int side) : sign(side ? 1 : -1) {
        const Pack nothing = 0;
        linear = angular = nothing;
        for (int c = 0; c < 9; ++c) frame[c] = nothing;
        for (int c = 0; c < 3; ++c) lever[c] = nothing;
    }

    // Set lever and frame in a world of a constraint made of velocities.
    // at: index of its contact or anchor.
    // tree, reference: trees between whose origins the lever is.
    template <typename Geometry>
    BACKSWING_MEMBER void set(int n, int world, int kind, int at, int tree, int reference, const Geometry& geometry) {
        const auto& contacts = geometry.contacts;
        const auto& equalities = geometry.equalities;
        if (is_angular(kind)) {
            any_angular = true;
            angular[n] = 1;
        } else {
            any_linear = true;
            linear[n] = 1;
            const Number* point = kind == CONTACT ? entry<const Number>(contacts.point, at, world)
                                                  : entry<const Number>(equalities.anchor_point, at, world);
            const Number* from = entry<const Number>(geometry.origin, reference, world);
            const Number* to = entry<const Number>(geometry.origin, tree, world);
            for (int c = 0; c < 3; ++c) lever[c][n] = point[c] + (from[c] - to[c]);
            if (kind == CONTACT ? contacts.apart.shape[0] > 0 : equalities.anchor_apart.shape[0] > 0) {
                const Number* apart = kind == CONTACT ? entry<const Number>(contacts.apart, at, world)
                                                      : entry<const Number>(equalities.anchor_apart, at, world);
                for (int c = 0; c < 3; ++c)
                    lever[c][n] = (point[c] + Number(0.5) * sign * apart[c]) + (from[c] - to[c]);
            }
        }
        const Number* own_frame = kind == CONTACT
                                      ? entry<const Number>(contacts.frame, at, world)
                                      : entry<const Number>(equalities.anchor_frame, pair_index(kind, at), world);
        for (int c = 0; c < 9; ++c) frame[c][n] = sign * own_frame[c];
    }
};

// The motion of a side per unit rate of degree of freedom k. `on` is one if that is on a world's path.
template <typename Number, int L>
struct Motion {
    typedef typename Lanes<Number, L>::Pack Pack;

    Pack on, x, y, z, motion[3];

    template <typename T>
    BACKSWING_MEMBER Motion(const Side<Number, L>& side, const Array<T>& subspace, int k, int group) {
        on = __builtin_convertvector((side.paths >> wp::uint64(k)) & wp::uint64(1), Pack);
        const Pack* column = reinterpret_cast<const Pack*>(entry<const char>(subspace, k, group));
        const Pack* lever = side.lever;
        x = column[0], y = column[1], z = column[2];
        motion[0] = x, motion[1] = y, motion[2] = z;
        if (side.any_linear) {
            const Pack of_point[3] = {column[3] + (y * lever[2] - z * lever[1]),
                column[4] + (z * lever[0] - x * lever[2]), column[5] + (x * lever[1] - y * lever[0])};
            for (int c = 0; c < 3; ++c)
                motion[c] = side.any_angular ? side.linear * of_point[c] + side.angular * motion[c] : of_point[c];
        }
    }
};

} // namespace backswing::newton
