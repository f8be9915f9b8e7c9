// Shared by the functions for a lane group's constraints. `Group` is the struct of
// warp_kernels.solver.newton.group.structs.
#pragma once

#include "../lanes.h"
#include "../paths.h"

namespace backswing::newton {

// Capacity for degrees of freedom and constraints of a world, see warp_kernels.solver.newton.group.structs.
constexpr int MOST_DOFS = 64;
constexpr int MOST_CONSTRAINTS = 64;

// The degrees of freedom that one constraint acts on, and its three rows there.
template <typename Number, int L>
struct Acting {
    int size;
    const int* list;
    const Pack<Number, L>* entries;

    template <typename Group>
    BACKSWING_MEMBER Acting(const Group& shared, int constraint, int nv)
        : size(shared.length.data[constraint]), list(shared.dofs.data + constraint * nv),
          entries(packs<Number, L>(shared.rows) + constraint * nv * 3) {}
};

} // namespace backswing::newton
