// Degrees of freedom from the root of a tree to each one.
#pragma once

#include "arrays.h"

namespace backswing {

// The members of `Paths` of warp_kernels.solver.structs.
struct Ancestors {
    const int* depths;
    const int* starts;
    const int* ancestors;

    template <typename Paths>
    BACKSWING_MEMBER Ancestors(const Paths& paths)
        : depths(paths.dof_depth.data), starts(paths.dof_row_start.data), ancestors(paths.ancestor.data) {}
};

// Degrees of freedom from the root to `tail`, inclusive, by depth.
struct Path {
    int tail, depth;
    const int* above;

    template <typename Paths>
    BACKSWING_MEMBER Path(const Paths& paths, int tail)
        : tail(tail), depth(paths.dof_depth.data[tail]), above(paths.ancestor.data + paths.dof_row_start.data[tail]) {}
    BACKSWING_MEMBER int operator[](int d) const { return d < depth ? above[d] : tail; }
};

} // namespace backswing
