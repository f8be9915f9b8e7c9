// Candidate pairs for the worlds of a lane group: see warp_kernels.collision.broad_phase_groups.
#pragma once

#include "../lanes.h"

namespace backswing::broad_phase_groups {

// Types of geometries, as in warp_kernels.types.
constexpr int PLANE = 0;
constexpr int CAPSULE = 2;
// As in warp_kernels.collision.broad_phase.
constexpr double PARALLEL = 1e-6;
constexpr double SLACK = 1e-5;

// Bounds of a geometry in all worlds: centre, size and slack of its bounding sphere, axis.
template <typename Number, int L>
struct Bounds {
    const typename Lanes<Number, L>::Pack *centre, *ball, *axis;

    template <typename Vectors>
    BACKSWING_MEMBER Bounds(const Vectors& centres, const Vectors& balls, const Vectors& axes, int geometry, int group)
        : centre(of(centres, geometry, group)), ball(of(balls, geometry, group)), axis(of(axes, geometry, group)) {}

    template <typename Vectors>
    static BACKSWING_MEMBER const Pack<Number, L>* of(const Vectors& array, int geometry, int group) {
        return reinterpret_cast<const Pack<Number, L>*>(entry<const char>(array, geometry, group));
    }
};

// Set the bits of a word, of the pairs from `begin` to `end`.
template <typename Number, int L, typename Vectors>
BACKSWING_INLINE void set_candidates(int word, int begin, int end, int group, const Array<int>& pair_a,
    const Array<int>& pair_b, const Array<int>& type, const Vectors& centre, const Vectors& ball, const Vectors& axis,
    const Array<wp::uint32>& candidate_bits) {
    using Pack = backswing::Pack<Number, L>;
    using Mask = backswing::Mask<Number, L>;
    typedef wp::uint32 WordBits __attribute__((ext_vector_type(L)));
    const Pack nothing = 0, one = 1;
    auto dot = [](const Pack* x, const Pack* y) { return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]; };
    auto length = [&](const Pack* x) { return __builtin_elementwise_sqrt(dot(x, x)); };
    auto share = [&](Pack x, Pack y) {
        x = y > nothing ? x / y : nothing;
        x = x < -one ? -one : x;
        return x > one ? one : x;
    };
    WordBits bits = 0;
    for (int pair = begin; pair < end; ++pair) {
        const int first = pair_a.data[pair], second = pair_b.data[pair];
        const Bounds<Number, L> a(centre, ball, axis, first, group), b(centre, ball, axis, second, group);
        const Pack delta[3] = {b.centre[0] - a.centre[0], b.centre[1] - a.centre[1], b.centre[2] - a.centre[2]};
        Pack room = a.ball[0] + b.ball[0] + a.ball[2] * b.ball[1];
        Mask close = nothing == nothing;
        if (type.data[first] == PLANE) {
            const Pack height = dot(a.axis, delta) + length(b.axis) - __builtin_elementwise_abs(dot(a.axis, b.axis));
            close = (b.ball[1] < nothing) | (height <= room + a.ball[2] * length(delta));
        } else {
            const Mask unknown = (a.ball[1] < nothing) | (b.ball[1] < nothing);
            const Pack straight = a.ball[2] < one ? one - a.ball[2] : nothing;
            close = unknown | (dot(delta, delta) * straight * straight <= room * room);
            if ((type.data[first] == CAPSULE || type.data[second] == CAPSULE) && __builtin_reduce_or(close)) {
                const Pack aa = dot(a.axis, a.axis), bb = dot(b.axis, b.axis), ab = dot(a.axis, b.axis);
                const Pack along_a = dot(a.axis, delta), along_b = dot(b.axis, delta), square = aa * bb - ab * ab;
                const Pack crossing = share(along_a * bb - ab * along_b, square), lying = share(along_a, aa);
                Pack coordinate_a = square > Number(PARALLEL) * aa * bb ? crossing : lying;
                const Pack coordinate_b = share(coordinate_a * ab - along_b, bb);
                coordinate_a = share(along_a + coordinate_b * ab, aa);
                Pack apart[3];
                for (int c = 0; c < 3; ++c) apart[c] = delta[c] + coordinate_b * b.axis[c] - coordinate_a * a.axis[c];
                room += a.ball[2] * length(delta) - __builtin_elementwise_sqrt(aa) - __builtin_elementwise_sqrt(bb);
                close &= unknown | ((room > nothing) & (dot(apart, apart) <= room * room + Number(SLACK) * (aa + bb)));
            }
        }
        const WordBits one_bit = wp::uint32(1) << wp::uint32(pair - begin);
        bits |= __builtin_convertvector(close, WordBits) & one_bit;
    }
    for (int n = 0; n < L && group * L + n < candidate_bits.shape[1]; ++n)
        *entry<wp::uint32>(candidate_bits, word, group * L + n) = bits[n];
}

} // namespace backswing::broad_phase_groups
