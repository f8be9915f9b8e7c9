// Newton's method in one world: the first guess, and the sweeps before it. For CPUs and GPUs. `System` is the struct of
// warp_kernels.solver.newton.structs.
#pragma once

#include "assembly.h"
#include "factors.h"

namespace backswing::newton {

// Inverse masses below this are those of joints whose velocity is prescribed: the same as in warp_kernels.types.
constexpr double LEAST_INVERSE = 1e-15;

// Return a number of a world in a way that is opaque to a GPU's compiler. The compiler then computes addresses from it
// anew instead of keeping those of all arrays over the iteration, for which there are no registers.
template <typename Number>
BACKSWING_INLINE int opaque(int world) {
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(world));
#endif
    return world;
}

// Compute z_before of degrees of freedom from `begin` to `end`. Return the scale of rounding: twice the kinetic energy
// of the velocity before the time step and of its change without impulses.
template <typename Number, typename Paths>
BACKSWING_INLINE Number initial_guess(int begin, int end, Number dt, const Array<Number>& qd_array,
    const Array<Number>& qdd_array, const Paths& paths, const Array<Number>& factor_l_array,
    const Array<Number>& inverse_mass_array, const Array<Number>& z_before_array, int world) {
    const auto qd = row(qd_array, world), qdd = row(qdd_array, world);
    const auto factor_l = column(factor_l_array, world), inverse_mass = column(inverse_mass_array, world),
               z_before = column(z_before_array, world);
    const Ancestors path(paths);
    Number total = 0;
    for (int k = begin; k < end; ++k) {
        Number change = qdd[k];
        Number size = wp::abs(qd[k]) + dt * wp::abs(change);
        const int* above = path.ancestors + path.starts[k];
        for (int d = 0; d < path.depths[k]; ++d) {
            const Number factor = factor_l[path.starts[k] + d];
            const Number other = qdd[above[d]];
            change += factor * other;
            size += wp::abs(factor) * (wp::abs(qd[above[d]]) + dt * wp::abs(other));
        }
        z_before[k] = -dt * change;
        const Number inverse = inverse_mass[k];
        if (inverse > Number(LEAST_INVERSE)) total += size * size / inverse;
    }
    return total;
}

// Call move(x, direction, other) for each number of arrays of numbers or vectors. For a single world its numbers are
// contiguous, and a CPU's compiler takes many at a time.
template <typename Number, typename T, typename Move>
BACKSWING_INLINE void move_each(int count, const Array<T>& x_array, const Array<T>& direction_array,
    const Array<T>& other_array, int world, const Move& move) {
    const auto x = column(x_array, world), direction = column(direction_array, world),
               other = column(other_array, world);
    constexpr int width = sizeof(T) / sizeof(Number);
    const auto go = [&](int i, int numbers) {
        Number* at_x = reinterpret_cast<Number*>(&x[i]);
        Number* at_direction = reinterpret_cast<Number*>(&direction[i]);
        Number* at_other = reinterpret_cast<Number*>(&other[i]);
        for (int k = 0; k < numbers; ++k) move(at_x[k], at_direction[k], at_other[k]);
    };
    if (x.follow_each_other() && direction.follow_each_other() && other.follow_each_other())
        return go(0, count * width);
    for (int i = 0; i < count; ++i) go(i, width);
}

// Move `beta` along the direction. The next direction is `beta` times it plus a `share` of the changes, which become
// zero.
template <typename Number>
BACKSWING_INLINE void impulses_go_on(int count, Number beta, Number share, const Array<Vec3<Number>>& x,
    const Array<Vec3<Number>>& direction, const Array<Vec3<Number>>& changes, int world) {
    move_each<Number>(count, x, direction, changes, world, [&](Number& here, Number& moved, Number& change) {
        const Number along = beta * moved;
        here += along;
        moved = along + share * change;
        change = 0;
    });
}

// The same with the changes since `before`, which becomes x.
template <typename Number>
BACKSWING_INLINE void motion_goes_on(int count, Number beta, Number share, const Array<Number>& x,
    const Array<Number>& direction, const Array<Number>& before, int world) {
    move_each<Number>(count, x, direction, before, world, [&](Number& here, Number& moved, Number& kept) {
        const Number change = here - kept, along = beta * moved;
        here += along;
        moved = along + share * change;
        kept = here;
    });
}

} // namespace backswing::newton
