// Counts of candidate pairs by family of kernels, for warp_kernels.collision.grid.search. For CPUs and GPUs.
#pragma once

#include "../arrays.h"

namespace backswing::grid {

// Return the counts with one more of a family. Writing a single entry would stall the next copy of the counts.
template <unsigned families>
BACKSWING_INLINE wp::vec_t<families, wp::int32> counted(const wp::vec_t<families, wp::int32>& found, int family) {
    wp::vec_t<families, wp::int32> more = found;
    for (unsigned i = 0; i < families; ++i) more.c[i] += int(i) == family ? 1 : 0;
    return more;
}

} // namespace backswing::grid
