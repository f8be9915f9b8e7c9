"""Which contacts convex pairs have: slots for each world after those of the other pairs, without gradient."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.contact import contact_functions
from warp_kernels.collision.convex.epa import MAX_POINTS, epa_functions
from warp_kernels.collision.convex.gjk import FAR, OVERLAP, gjk_functions
from warp_kernels.collision.convex.manifold import MAX_CANDIDATES, manifold_functions
from warp_kernels.collision.convex.shapes import shape_functions
from warp_kernels.collision.convex.witness import witness_functions
from warp_kernels.collision.frame import frame_functions
from warp_kernels.collision.near import next_near
from warp_kernels.collision.pairs import pair_functions
from warp_kernels.types import CONVEX, kernel_module, warp_types


@functools.cache
def detect_convex_kernels(scalar: Any) -> SimpleNamespace:
    """Kernel ``detect_convex`` of one precision, launched over (world,) after ``detect``."""
    t = warp_types(scalar)
    vec3, quat, transform, spatial = t.vec3, t.quat, t.transform, t.spatial
    frame = frame_functions(scalar)
    pairs = pair_functions(scalar)
    shapes = shape_functions(scalar)
    gjk = gjk_functions(scalar)
    epa = epa_functions(scalar)
    witnesses = witness_functions(scalar)
    manifolds = manifold_functions(scalar)
    contact = contact_functions(scalar)
    Shape = shapes.Shape
    mod = kernel_module("collision.convex.detect", scalar)

    @wp.func
    def bounding_radius(type: int, size: vec3, hull_radius: scalar):
        """Radius of a ball about the origin that holds a geometry."""
        radius = pairs.bounding_radius(type, size)
        if type == CONVEX:
            radius = hull_radius * wp.max(wp.max(wp.abs(size[0]), wp.abs(size[1])), wp.abs(size[2]))
        return radius

    @wp.func
    def find_direction(a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: wp.array(dtype=vec3), reach: scalar):
        """Whether the cores are within reach, the direction between them, and up to three vertices that lie there."""
        points = wp.zeros(shape=(MAX_POINTS,), dtype=vec3)
        codes_a = wp.zeros(shape=(MAX_POINTS,), dtype=wp.int32)
        codes_b = wp.zeros(shape=(MAX_POINTS,), dtype=wp.int32)
        state, n, count = gjk.gjk(a, b, rotation, offset, vertices, reach, points, codes_a, codes_b)
        last = wp.min(count, 3) - 1
        face = wp.vec3i(0, wp.min(1, last), last)
        if state == OVERLAP:
            n, face = epa.epa(a, b, rotation, offset, vertices, points, codes_a, codes_b, count)
        near_a = wp.vec3i(codes_a[face[0]], codes_a[face[1]], codes_a[face[2]])
        near_b = wp.vec3i(codes_b[face[0]], codes_b[face[1]], codes_b[face[2]])
        return state != FAR, n, near_a, near_b

    @wp.func
    def contact_distance(a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: wp.array(dtype=vec3), mode: int,
                         codes_a: wp.vec3i, codes_b: wp.vec3i, witness: vec3):  # fmt: skip
        distance, _point, _normal = contact.feature_contact(
            mode, a.type, codes_a, a.size, shapes.vertex(a, vertices, codes_a[0]),
            shapes.vertex(a, vertices, codes_a[1]), shapes.vertex(a, vertices, codes_a[2]), b.type, codes_b, b.size,
            rotation, offset + wp.quat_rotate(rotation, shapes.vertex(b, vertices, codes_b[0])),
            offset + wp.quat_rotate(rotation, shapes.vertex(b, vertices, codes_b[1])),
            offset + wp.quat_rotate(rotation, shapes.vertex(b, vertices, codes_b[2])), witness,
        )  # fmt: skip
        return distance

    @wp.kernel(module=mod, enable_backward=False)
    def detect_convex(
        # Model
        first_pair: int,
        end_pair: int,
        pair_a: wp.array(dtype=wp.int32),
        pair_b: wp.array(dtype=wp.int32),
        geometry_link: wp.array(dtype=wp.int32),
        geometry_type: wp.array(dtype=wp.int32),
        link_tree: wp.array(dtype=wp.int32),
        extent: wp.array(dtype=wp.vec4i),
        hull_radius: wp.array(dtype=scalar),
        vertices: wp.array(dtype=vec3),
        face_start: wp.array(dtype=wp.int32),
        face_corner: wp.array(dtype=wp.int32),
        face_normal: wp.array(dtype=vec3),
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        # Data in
        pose: wp.array2d(dtype=transform),
        origin: wp.array2d(dtype=vec3),
        velocity: wp.array2d(dtype=spatial),
        near: wp.array2d(dtype=wp.uint32),
        margin: scalar,
        dt: scalar,
        # Data out
        slot_pair: wp.array2d(dtype=wp.int32),
        slot_feature: wp.array2d(dtype=wp.int32),
        slot_codes_a: wp.array2d(dtype=wp.vec3i),
        slot_codes_b: wp.array2d(dtype=wp.vec3i),
        slot_witness: wp.array2d(dtype=vec3),
        contact_count: wp.array(dtype=wp.int32),
        contact_overflow: wp.array(dtype=wp.int32),
    ):
        """Write a slot for each contact within reach of the near pairs from ``first_pair`` to before ``end_pair``; see ``detect``.

        ``slot_feature`` is the mode of :mod:`warp_kernels.collision.convex.contact`, the codes are vertices, and the
        witness is the normal in the frame of geometry a.
        """
        world = wp.tid()
        row = wp.min(world, geometry_size.shape[0] - 1)
        found = contact_count[world] + contact_overflow[world]
        modes = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.int32)
        codes_a = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.vec3i)
        codes_b = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.vec3i)
        directions = wp.zeros(shape=(MAX_CANDIDATES,), dtype=vec3)
        following = next_near(first_pair, end_pair, near, world)
        while following < end_pair:
            pair = int(following)
            following = next_near(pair + 1, end_pair, near, world)
            ga = pair_a[pair]
            gb = pair_b[pair]
            link_a = geometry_link[ga]
            link_b = geometry_link[gb]
            reference = frame.reference_tree(link_a, link_b, link_tree)
            offset_a = frame.origin_offset(link_a, reference, link_tree, origin, world)
            offset_b = frame.origin_offset(link_b, reference, link_tree, origin, world)
            centre_a = frame.geometry_centre(ga, link_a, geometry_placement, pose, world) + offset_a
            centre_b = frame.geometry_centre(gb, link_b, geometry_placement, pose, world) + offset_b
            size_a = geometry_size[row, ga]
            size_b = geometry_size[row, gb]
            radius_a = bounding_radius(geometry_type[ga], size_a, hull_radius[ga])
            radius_b = bounding_radius(geometry_type[gb], size_b, hull_radius[gb])
            reach = frame.reach(link_a, link_b, offset_a, offset_b, centre_b, radius_b, velocity, margin, dt, world)
            if wp.length(centre_b - centre_a) > radius_a + radius_b + reach:
                continue
            turn_a = frame.geometry_orientation(ga, link_a, geometry_placement, pose, world)
            turn_b = frame.geometry_orientation(gb, link_b, geometry_placement, pose, world)
            rotation = wp.mul(wp.quat_inverse(turn_a), turn_b)
            offset = wp.quat_rotate_inv(turn_a, centre_b - centre_a)
            a = shapes.make_shape(geometry_type[ga], size_a, extent[ga])
            b = shapes.make_shape(geometry_type[gb], size_b, extent[gb])
            radii = shapes.core_radius(a.type, size_a) + shapes.core_radius(b.type, size_b)
            within, n, near_a, near_b = find_direction(a, b, rotation, offset, vertices, reach + radii)
            if within:
                witness = witnesses.find_witness(
                    a, b, rotation, offset, vertices, face_start, face_corner, face_normal, n, near_a, near_b
                )
                chosen = manifolds.find_manifold(
                    a, b, rotation, offset, vertices, face_start, face_corner, face_normal, witness, reach, modes,
                    codes_a, codes_b, directions,
                )  # fmt: skip
                for k in range(4):
                    c = chosen[k]
                    if c >= 0:
                        distance = contact_distance(
                            a, b, rotation, offset, vertices, modes[c], codes_a[c], codes_b[c], directions[c]
                        )
                        if distance < reach:
                            if found < slot_pair.shape[0]:
                                slot_pair[found, world] = pair
                                slot_feature[found, world] = modes[c]
                                slot_codes_a[found, world] = codes_a[c]
                                slot_codes_b[found, world] = codes_b[c]
                                slot_witness[found, world] = directions[c]
                            found += 1
        contact_count[world] = wp.min(found, slot_pair.shape[0])
        contact_overflow[world] = wp.max(found - slot_pair.shape[0], 0)

    return SimpleNamespace(detect_convex=detect_convex)
