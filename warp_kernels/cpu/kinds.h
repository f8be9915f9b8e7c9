// Kinds of constraint: those of warp_kernels.constraints.kinds.
#pragma once

namespace backswing {

constexpr int CONTACT = 0;
constexpr int UPPER_LIMIT = 2;
constexpr int CONE_LIMIT = 3;
constexpr int COUPLING = 8;
constexpr int POINT = 9;
constexpr int ORIENTATION = 10;

} // namespace backswing
