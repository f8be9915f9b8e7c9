"""Broad phase: bounding-sphere test, one bit per pair and world.

For capsules, whose bounding spheres are loose, the segments are tested if the spheres may touch.

Bits of 32 pairs make a word, so that few words have to be read to find a world's candidate pairs in order. Bytes are in
the order of a little-endian processor, which CPUs and GPUs are. A pair is always a candidate if one of its sides has no
bounding sphere.
"""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from warp_kernels.algebra.spatial import spatial_functions
from warp_kernels.collision.frame import geometry_frame_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, PLANE, SPHERE, kernel_module, warp_types

WORD = 32
BYTE = 8
BYTES = WORD // BYTE
# Segments whose squared sine is less than this share count as parallel, and the tolerance of their squared distance
# then, as a share of the square of their half lengths together.
PARALLEL = 1.0e-6
SLACK = 1.0e-5


@wp.func
def trailing_zeros(word: wp.uint32):
    """Return the number of zeros below the lowest set bit of a nonzero word."""
    bits = wp.uint32(word)
    count = int(0)
    for half in range(5):
        width = 16 >> half
        if bits & ((wp.uint32(1) << wp.uint32(width)) - wp.uint32(1)) == wp.uint32(0):
            bits = bits >> wp.uint32(width)
            count += width
    return count


@wp.func
def next_candidate(start: int, end: int, candidate_bits: wp.array2d(dtype=wp.uint32), world: int):
    """Return the first candidate pair from ``start`` on and before ``end``; ``end`` if there is none."""
    pair = int(start)
    while pair < end:
        bit = pair % WORD
        bits = candidate_bits[pair // WORD, world] >> wp.uint32(bit)
        if bits != wp.uint32(0):
            return wp.min(pair + trailing_zeros(bits), end)
        pair += WORD - bit
    return end


@wp.func
def count_bits(word: wp.uint32):
    """Return the number of set bits of a word."""
    pairs = word - ((word >> wp.uint32(1)) & wp.uint32(0x55555555))
    fours = (pairs & wp.uint32(0x33333333)) + ((pairs >> wp.uint32(2)) & wp.uint32(0x33333333))
    bytes = (fours + (fours >> wp.uint32(4))) & wp.uint32(0x0F0F0F0F)
    return int((bytes * wp.uint32(0x01010101)) >> wp.uint32(24))


@wp.func
def nth_candidate(start: int, n: int, end: int, candidate_bits: wp.array2d(dtype=wp.uint32), world: int):
    """Return the candidate pair that n candidates from ``start`` on precede; ``end`` if it isn't before ``end``."""
    pair = int(start)
    left = int(n)
    while pair < end:
        bit = pair % WORD
        bits = candidate_bits[pair // WORD, world] >> wp.uint32(bit)
        count = count_bits(bits)
        if left < count:
            while left > 0:
                bits = bits & (bits - wp.uint32(1))
                left -= 1
            return wp.min(pair + trailing_zeros(bits), end)
        left -= count
        pair += WORD - bit
    return end


@functools.cache
def bounding_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of bounding spheres for one precision."""
    vec3 = warp_types(scalar).vec3
    Geometries = collision_structs(scalar).Geometries

    @wp.func
    def bounding_radius(type: int, size: vec3):
        """Return the radius of a bounding sphere about the origin of a geometry; negative if unknown."""
        radius = scalar(-1.0)
        if type == SPHERE:
            radius = size[0]
        elif type == CAPSULE:
            radius = size[0] + size[1]
        elif type == BOX:
            radius = wp.length(size)
        elif type == CYLINDER:
            radius = wp.length(vec3(size[0], size[1], scalar(0.0)))
        elif type == ELLIPSOID:
            radius = wp.max(size[0], wp.max(size[1], size[2]))
        return radius

    @wp.func
    def far_apart(radius_a: scalar, radius_b: scalar, delta: vec3, margin: scalar):
        """Return whether two spheres, ``delta`` between their centres, are further apart than the margin. A negative
        radius means unknown; then they are not.
        """
        cutoff = radius_a + radius_b + margin
        return radius_a >= scalar(0.0) and radius_b >= scalar(0.0) and wp.length_sq(delta) > cutoff * cutoff

    @wp.func
    def ball_radius(geometries: Geometries, geometry: int, size: vec3):
        """Return the bounding radius of a geometry, convex meshes included."""
        radius = bounding_radius(geometries.type[geometry], size)
        if geometries.type[geometry] == CONVEX:
            scale = wp.max(wp.abs(size[0]), wp.max(wp.abs(size[1]), wp.abs(size[2])))
            radius = geometries.hull_radius[geometry] * scale
        return radius

    @wp.func
    def axis_length(type: int, size: vec3):
        """Return the length of a geometry's axis in addition to its centre: half of a capsule's segment, one for a
        plane.
        """
        if type == CAPSULE:
            return size[1]
        if type == PLANE:
            return scalar(1.0)
        return scalar(0.0)

    return SimpleNamespace(
        bounding_radius=bounding_radius, ball_radius=ball_radius, far_apart=far_apart, axis_length=axis_length
    )


def position_rounding(scalar: Any) -> Any:
    """Return the rounding error of sums and differences of positions in the world, relative to these."""
    return scalar(8.0 * float(np.finfo(wp.dtype_to_numpy(scalar)).eps))


@functools.cache
def candidate_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions of the bounding-sphere test for one precision."""
    vec3 = warp_types(scalar).vec3
    Geometries = collision_structs(scalar).Geometries
    zero, one = scalar(0.0), scalar(1.0)

    @wp.func
    def share(numerator: scalar, denominator: scalar):
        """Return the coordinate of a point on a segment, from -1 to 1; the middle of one without length."""
        if denominator > zero:
            return wp.clamp(numerator / denominator, -one, one)
        return zero

    @wp.func
    def segments_within(delta: vec3, half_a: vec3, half_b: vec3, room: scalar):
        """Return whether two segments, ``delta`` between their middles, come within a distance (Ericson 2005, 5.1.9),
        or nearly.
        """
        aa = wp.length_sq(half_a)
        bb = wp.length_sq(half_b)
        ab = wp.dot(half_a, half_b)
        along_a = wp.dot(half_a, delta)
        along_b = wp.dot(half_b, delta)
        square = aa * bb - ab * ab
        coordinate_a = share(along_a, aa)
        if square > scalar(PARALLEL) * aa * bb:
            coordinate_a = share(along_a * bb - ab * along_b, square)
        coordinate_b = share(coordinate_a * ab - along_b, bb)
        coordinate_a = share(along_a + coordinate_b * ab, aa)
        distance = wp.length_sq(delta + coordinate_b * half_b - coordinate_a * half_a)
        return room > zero and distance <= room * room + scalar(SLACK) * (aa + bb)

    @wp.func
    def may_touch(
        a: int,
        b: int,
        world: int,
        geometries: Geometries,
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        geometry_axis: wp.array2d(dtype=vec3),
    ):
        """Return whether two balls or capsules, or a plane and one of them, may come closer than the margin. b is
        relative to a, which may turn.
        """
        delta = geometry_centre[b, world] - geometry_centre[a, world]
        ball_a = geometry_ball[a, world]
        ball_b = geometry_ball[b, world]
        room = ball_a[0] + ball_b[0] + ball_a[2] * ball_b[1]
        close = True
        if ball_b[1] >= scalar(0.0):
            if ball_a[1] >= scalar(0.0):
                # |delta| <= room + turn |delta|
                straight = wp.max(scalar(1.0) - ball_a[2], scalar(0.0))
                close = wp.length_sq(delta) * straight * straight <= room * room
                half_a = geometry_axis[a, world]
                half_b = geometry_axis[b, world]
                if close and (wp.length_sq(half_a) > zero or wp.length_sq(half_b) > zero):
                    room += ball_a[2] * wp.length(delta) - wp.length(half_a) - wp.length(half_b)
                    close = segments_within(delta, half_a, half_b, room)
            elif geometries.type[a] == PLANE:
                normal = geometry_axis[a, world]
                half_b = geometry_axis[b, world]
                height = wp.dot(normal, delta) + wp.length(half_b) - wp.abs(wp.dot(normal, half_b))
                close = height <= room + ball_a[2] * wp.length(delta)
        return close

    return SimpleNamespace(may_touch=may_touch)


@functools.cache
def broad_phase_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels that bound the geometries and test the pairs, for one precision."""
    t = warp_types(scalar)
    sp = spatial_functions(scalar)
    frame = geometry_frame_functions(scalar)
    bounds = bounding_functions(scalar)
    pair_test = candidate_functions(scalar)
    Geometries = collision_structs(scalar).Geometries
    vec3, transform, spatial = t.vec3, t.transform, t.spatial
    module = kernel_module("collision.broad_phase", scalar)
    rounding = position_rounding(scalar)

    @wp.kernel(module=module, enable_backward=False)
    def bound_geometries(
        # Model
        colliding: wp.array(dtype=int),
        geometries: Geometries,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
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
        """Bound the geometries of possible pairs.

        geometry_centre: in the world. geometry_ball: radius that the geometry stays within for dt, including half the margin and
        rounding; its radius without these, negative if unknown; the angle by which it may turn. geometry_axis: from the
        centre to the end of a capsule's segment; of a plane its normal; zero for others.
        """
        item, world = wp.tid()
        g = colliding[item]
        link = geometries.link[g]
        size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), g]
        centre = frame.geometry_centre(g, link, geometry_placement, pose, world)
        radius = bounds.ball_radius(geometries, g, size)
        moved = scalar(0.0)
        turn = scalar(0.0)
        if link >= 0:
            v = velocity[link, world]
            moved = dt * wp.length(sp.point_velocity(v, centre))
            turn = dt * wp.length(sp.angular(v))
            centre += origin[geometries.link_tree[link], world]
        expanded = wp.max(radius, scalar(0.0)) * (scalar(1.0) + turn) + moved + scalar(0.5) * margin
        geometry_centre[g, world] = centre
        geometry_ball[g, world] = vec3(expanded + rounding * wp.length(centre), radius, turn)
        length = bounds.axis_length(geometries.type[g], size)
        axis = vec3()
        if length > scalar(0.0):
            axes = frame.geometry_orientation(g, link, geometry_placement, pose, world)
            axis = wp.quat_rotate(axes, vec3(scalar(0.0), scalar(0.0), length))
        geometry_axis[g, world] = axis

    @wp.kernel(module=module, enable_backward=False)
    def find_candidates(
        # Model
        bytes: int,
        pair_a: wp.array(dtype=int),
        pair_b: wp.array(dtype=int),
        geometries: Geometries,
        # Data in
        geometry_centre: wp.array2d(dtype=vec3),
        geometry_ball: wp.array2d(dtype=vec3),
        geometry_axis: wp.array2d(dtype=vec3),
        # Data out
        candidate_bytes: wp.array3d(dtype=wp.uint8),
    ):
        """Set the bits of pairs, over (thread, world). A thread has this number of bytes of a word, 4 or 1.

        candidate_bytes: the bits as bytes [word, world, 4].
        """
        thread, world = wp.tid()
        for byte in range(thread * bytes, (thread + 1) * bytes):
            bits = wp.uint32(0)
            first = byte * BYTE
            for pair in range(first, wp.min(first + BYTE, pair_a.shape[0])):
                a = pair_a[pair]
                b = pair_b[pair]
                if pair_test.may_touch(a, b, world, geometries, geometry_centre, geometry_ball, geometry_axis):
                    bits = bits | (wp.uint32(1) << wp.uint32(pair - first))
            candidate_bytes[byte // BYTES, world, byte % BYTES] = wp.uint8(bits)

    return SimpleNamespace(module=module, bound_geometries=bound_geometries, find_candidates=find_candidates)
