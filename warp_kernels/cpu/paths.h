// The degrees of freedom from the root of a tree to each one.
#pragma once

namespace backswing {

// What `Paths` of warp_kernels.solver.structs holds.
struct Ancestors {
    const int* depths;
    const int* starts;
    const int* ancestors;

    template <typename Paths>
    __attribute__((always_inline)) Ancestors(const Paths& paths)
        : depths(paths.dof_depth.data), starts(paths.dof_row_start.data), ancestors(paths.ancestor.data) {}
};

} // namespace backswing
