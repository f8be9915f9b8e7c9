"""Bounds of geometries and near pairs for the worlds of a lane group, as :mod:`warp_kernels.collision.near` has them for one."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.algebra import algebra
from warp_kernels.algebra.lane_code import native_code
from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.collision.near import PARALLEL, SLACK, WORD, bounding_functions, rounding_of_places
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, PLANE, kernel_module, lane_types, warp_types

_NEAR_BITS = """
    typedef wp::uint32 bits_of __attribute__((ext_vector_type({lanes})));
    const pack nothing = 0, one = 1;
    auto dot = [](const pack* x, const pack* y) {{ return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]; }};
    auto length = [&](const pack* x) {{ return __builtin_elementwise_sqrt(dot(x, x)); }};
    auto share = [&](pack x, pack y) {{
        x = y > nothing ? x / y : nothing;
        x = x < -one ? -one : x;
        return x > one ? one : x;
    }};
#define OF(array, g) reinterpret_cast<const pack*>(reinterpret_cast<const char*>(array.data) + (g) * wp::int64(array.strides[0]) + group * wp::int64(array.strides[1]))
    const int* types = reinterpret_cast<const int*>(type.data);
    bits_of bits = 0;
    for (int pair = begin; pair < end; ++pair) {{
        const int a = reinterpret_cast<const int*>(pair_a.data)[pair], b = reinterpret_cast<const int*>(pair_b.data)[pair];
        const pack *centre_a = OF(centre, a), *centre_b = OF(centre, b), *ball_a = OF(ball, a), *ball_b = OF(ball, b);
        const pack *axis_a = OF(axis, a), *axis_b = OF(axis, b);
        const pack delta[3] = {{centre_b[0] - centre_a[0], centre_b[1] - centre_a[1], centre_b[2] - centre_a[2]}};
        pack room = ball_a[0] + ball_b[0] + ball_a[2] * ball_b[1];
        lanes_of near = nothing == nothing;
        if (types[a] == {PLANE}) {{
            const pack height = dot(axis_a, delta) + length(axis_b) - __builtin_elementwise_abs(dot(axis_a, axis_b));
            near = (ball_b[1] < nothing) | (height <= room + ball_a[2] * length(delta));
        }} else {{
            const lanes_of unknown = (ball_a[1] < nothing) | (ball_b[1] < nothing);
            const pack straight = ball_a[2] < one ? one - ball_a[2] : nothing;
            near = unknown | (dot(delta, delta) * straight * straight <= room * room);
            if ((types[a] == {CAPSULE} || types[b] == {CAPSULE}) && __builtin_reduce_or(near)) {{
                const pack aa = dot(axis_a, axis_a), bb = dot(axis_b, axis_b), ab = dot(axis_a, axis_b);
                const pack along_a = dot(axis_a, delta), along_b = dot(axis_b, delta), square = aa * bb - ab * ab;
                const pack crossing = share(along_a * bb - ab * along_b, square), lying = share(along_a, aa);
                pack place_a = square > number_type({PARALLEL}) * aa * bb ? crossing : lying;
                const pack place_b = share(place_a * ab - along_b, bb);
                place_a = share(along_a + place_b * ab, aa);
                pack apart[3];
                for (int c = 0; c < 3; ++c) apart[c] = delta[c] + place_b * axis_b[c] - place_a * axis_a[c];
                room += ball_a[2] * length(delta) - __builtin_elementwise_sqrt(aa) - __builtin_elementwise_sqrt(bb);
                near &= unknown | ((room > nothing) & (dot(apart, apart) <= room * room + number_type({SLACK}) * (aa + bb)));
            }}
        }}
        const bits_of one_bit = wp::uint32(1) << wp::uint32(pair - begin), no_bit = 0;
        bits |= __builtin_convertvector(near, bits_of) & one_bit;
    }}
#undef OF
    for (int n = 0; n < {lanes} && group * {lanes} + n < near_pairs.shape[1]; ++n)
        *reinterpret_cast<wp::uint32*>(reinterpret_cast<char*>(near_pairs.data) + word * wp::int64(near_pairs.strides[0]) + (group * {lanes} + n) * wp::int64(near_pairs.strides[1])) = bits[n];
"""


@functools.cache
def near_group_kernels(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Kernels for one precision and number of worlds in a lane group; none with one lane."""
    if lanes == 1:
        return SimpleNamespace()
    t, one = lane_types(scalar, lanes), warp_types(scalar)
    real, vec3, transform, spatial = t.real, t.vec3, t.transform, t.spatial
    a, sp = algebra(scalar, lanes), spatial_functions(scalar, lanes)
    bounds = bounding_functions(scalar)
    Geometries = collision_structs(scalar).Geometries
    ints, vectors = wp.array(dtype=int), wp.array2d(dtype=vec3)
    module = kernel_module("collision.near_groups", scalar, lanes)
    rounding = rounding_of_places(scalar)
    parts = {"PLANE": PLANE, "CAPSULE": CAPSULE, "PARALLEL": PARALLEL, "SLACK": SLACK}

    @wp.func
    def length(v: vec3):
        square = a.dot(v, v)
        result = real()
        for n in range(wp.static(lanes)):
            result[n] = wp.sqrt(square[n])
        return result

    @wp.func_native(native_code(scalar, lanes, _NEAR_BITS, **parts))
    def find_near(
        word: int,
        begin: int,
        end: int,
        group: int,
        pair_a: ints,
        pair_b: ints,
        type: ints,
        centre: vectors,
        ball: vectors,
        axis: vectors,
        near_pairs: wp.array2d(dtype=wp.uint32),
    ):
        """As ``is_near``, for the pairs of a word."""

    @wp.kernel(module=module, enable_backward=False)
    def bound_geometries(
        # Model
        colliding: wp.array(dtype=int),
        geometries: Geometries,
        # Parameters
        geometry_placement: wp.array2d(dtype=one.transform),
        geometry_size: wp.array2d(dtype=one.vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial),
        margin: scalar,
        dt: scalar,
        # Data out
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        geometry_axis: wp.array2d(dtype=vec3),
    ):
        """As for one world."""
        item, group = wp.tid()
        g = colliding[item]
        link = geometries.link[g]
        radius = real()
        axis_length = real()
        last = geometry_size.shape[0] - 1
        if last == 0:
            radius = a.real(bounds.ball_radius(geometries, g, geometry_size[0, g]))
            axis_length = a.real(bounds.axis_length(geometries.type[g], geometry_size[0, g]))
        else:
            for n in range(wp.static(lanes)):
                size = geometry_size[wp.min(group * lanes + n, last), g]
                radius[n] = bounds.ball_radius(geometries, g, size)
                axis_length[n] = bounds.axis_length(geometries.type[g], size)
        placement = a.load_param_transform(geometry_placement, group, g)
        place = a.position(placement)
        axes = a.rotation(placement)
        way = a.real(scalar(0.0))
        turn = a.real(scalar(0.0))
        if link >= 0:
            own = pose[link, group]
            place = a.position(own) + a.rotate(a.rotation(own), place)
            if dt > scalar(0.0):
                v = velocity[link, group]
                way = dt * length(sp.point_velocity(v, place))
                turn = dt * length(sp.angular(v))
            place += origin[geometries.link_tree[link], group]
        known = real()
        for n in range(wp.static(lanes)):
            known[n] = wp.max(radius[n], scalar(0.0))
        reach = known + a.mul(known, turn) + way + a.real(scalar(0.5) * margin) + rounding * length(place)
        geometry_centre[g, group] = place
        geometry_ball[g, group] = a.make_vec3(reach, radius, turn)
        axis = vec3()
        if geometries.type[g] == CAPSULE or geometries.type[g] == PLANE:
            axes = a.unit(axes)
            if link >= 0:
                axes = a.product(a.rotation(pose[link, group]), axes)
            none = a.real(scalar(0.0))
            axis = a.rotate(axes, a.make_vec3(none, none, axis_length))
        geometry_axis[g, group] = axis

    @wp.kernel(module=module, enable_backward=False)
    def near_pairs(
        # Model
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        geometries: Geometries,
        # Data in
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        geometry_axis: wp.array2d(dtype=vec3),
        # Data out
        near: wp.array2d(dtype=wp.uint32),
    ):
        """Set the bits of the pairs of one word in each world."""
        word, group = wp.tid()
        first = word * WORD
        find_near(
            word, first, wp.min(first + WORD, pair_a.shape[0]), group, pair_a, pair_b, geometries.type, geometry_centre,
            geometry_ball, geometry_axis, near,
        )  # fmt: skip

    return SimpleNamespace(module=module, bound_geometries=bound_geometries, near_pairs=near_pairs)
