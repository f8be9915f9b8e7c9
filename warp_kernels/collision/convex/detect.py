"""Contact generation (narrow phase) for two convex shapes, by support functions; without gradient.

The large functions of these files are not inlined: copies in their callers take twice as long to compile, are no
faster, and spill more registers on a GPU.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.box_pair import FOUND, UNDECIDED, box_pair_functions
from warp_kernels.collision.convex.contact import FACE_VERTEX, OF_B, convex_contact_functions
from warp_kernels.collision.convex.epa import MAX_POINTS, epa_functions
from warp_kernels.collision.convex.gjk import FAR, OVERLAP, gjk_functions
from warp_kernels.collision.convex.manifold import MAX_CANDIDATES, manifold_functions
from warp_kernels.collision.convex.support import shape_functions
from warp_kernels.collision.convex.witness import witness_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import BOX, warp_types


@functools.cache
def convex_detection_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, quat, transform = t.vec3, t.quat, t.transform
    shapes = shape_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    gjk = gjk_functions(scalar)
    epa = epa_functions(scalar)
    witnesses = witness_functions(scalar)
    manifolds = manifold_functions(scalar)
    contact = convex_contact_functions(scalar)
    box_pairs = box_pair_functions(scalar)
    Shape, Witness, level = shapes.Shape, witnesses.Witness, manifolds.level
    ints, triples, vectors = wp.array(dtype=wp.int32), wp.array(dtype=wp.vec3i), wp.array(dtype=vec3)

    @wp.func
    def find_direction(
        a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: wp.array(dtype=vec3), cutoff: scalar
    ):
        """Return whether the cores are within the cutoff, the direction between them, and up to three nearest vertices."""
        points = wp.zeros(shape=(MAX_POINTS,), dtype=vec3)
        codes_a = wp.zeros(shape=(MAX_POINTS,), dtype=wp.int32)
        codes_b = wp.zeros(shape=(MAX_POINTS,), dtype=wp.int32)
        state, n, count = gjk.gjk(a, b, rotation, offset, vertices, cutoff, points, codes_a, codes_b)
        last = wp.min(count, 3) - 1
        face = wp.vec3i(0, wp.min(1, last), last)
        if state == OVERLAP:
            n, face = epa.epa(a, b, rotation, offset, vertices, points, codes_a, codes_b, count)
        closest_a = wp.vec3i(codes_a[face[0]], codes_a[face[1]], codes_a[face[2]])
        closest_b = wp.vec3i(codes_b[face[0]], codes_b[face[1]], codes_b[face[2]])
        return state != FAR, n, closest_a, closest_b

    @wp.func
    def find_contact(a: Shape, b: Shape, rotation: quat, offset: vec3, packed: PackedShapes, cutoff: scalar):
        """Return whether the cores are within the cutoff, and the features that touch first."""
        outcome = wp.int32(UNDECIDED)
        witness = Witness()
        if a.type == BOX and b.type == BOX:
            outcome, witness = box_pairs.separate_boxes(a, b, rotation, offset, packed, cutoff)
        if outcome == UNDECIDED:
            within, n, closest_a, closest_b = find_direction(a, b, rotation, offset, packed.vertices, cutoff)
            if within:
                witness = witnesses.find_witness(a, b, rotation, offset, packed, n, closest_a, closest_b)
                outcome = FOUND
        return outcome == FOUND, witness

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

    @wp.func
    def convex_features(
        geometries: Geometries, packed: PackedShapes, ga: int, gb: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, cutoff: scalar, modes: ints, codes_a: triples, codes_b: triples,
        directions: vectors,
    ):  # fmt: skip
        """Return up to four of the candidates within the cutoff, the deepest first; -1 for missing ones.

        The candidates are written to arrays with capacity for MAX_CANDIDATES: modes of
        :mod:`warp_kernels.collision.convex.contact`, codes of vertices, and normals in the frame of geometry a.
        """
        turn_a = wp.transform_get_rotation(pose_a)
        rotation = wp.mul(wp.quat_inverse(turn_a), wp.transform_get_rotation(pose_b))
        offset = wp.quat_rotate_inv(turn_a, wp.transform_get_translation(pose_b) - wp.transform_get_translation(pose_a))
        a = shapes.make_shape(geometries.type[ga], size_a, packed.extent[ga])
        b = shapes.make_shape(geometries.type[gb], size_b, packed.extent[gb])
        radii = shapes.core_radius(a.type, size_a) + shapes.core_radius(b.type, size_b)
        within, witness = find_contact(a, b, rotation, offset, packed, cutoff + radii)
        chosen = wp.vec4i(-1, -1, -1, -1)
        if within:
            chosen = manifolds.find_manifold(
                a, b, rotation, offset, packed, witness, cutoff, modes, codes_a, codes_b, directions
            )
            k = wp.int32(0)
            while k < 4:
                c = chosen[k]
                if c >= 0:
                    distance = contact_distance(
                        a, b, rotation, offset, packed.vertices, modes[c], codes_a[c], codes_b[c], directions[c]
                    )
                    if not distance < cutoff:
                        chosen[k] = -1
                k += 1
        return chosen

    @wp.func
    def contact_features(
        geometries: Geometries, packed: PackedShapes, ga: int, gb: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, cutoff: scalar, modes: ints, codes_a: triples, codes_b: triples,
        directions: vectors,
    ):  # fmt: skip
        """Return :func:`convex_features`, with the index of the nearest among them, the first, and its contact."""
        chosen = convex_features(
            geometries, packed, ga, gb, pose_a, size_a, pose_b, size_b, cutoff, modes, codes_a, codes_b, directions
        )
        distance = cutoff
        point = vec3()
        normal = vec3()
        c = chosen[0]
        if c >= 0:
            distance, point, normal = contact.convex_contact(
                geometries, packed, ga, gb, modes[c], pose_a, size_a, pose_b, size_b, codes_a[c], codes_b[c],
                directions[c],
            )  # fmt: skip
        return chosen, wp.int32(0), distance, point, normal

    @wp.func
    def nearest_feature(
        geometries: Geometries, packed: PackedShapes, ga: int, gb: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, cutoff: scalar,
    ):  # fmt: skip
        """Return the feature with the smallest distance, at any distance below the cutoff: its mode, -1 for none, the
        codes of vertices, and the normal in the frame of geometry a.

        If a face is nearest, that is a corner above it, or a point where edges cross the face's.
        """
        turn_a = wp.transform_get_rotation(pose_a)
        rotation = wp.mul(wp.quat_inverse(turn_a), wp.transform_get_rotation(pose_b))
        offset = wp.quat_rotate_inv(turn_a, wp.transform_get_translation(pose_b) - wp.transform_get_translation(pose_a))
        a = shapes.make_shape(geometries.type[ga], size_a, packed.extent[ga])
        b = shapes.make_shape(geometries.type[gb], size_b, packed.extent[gb])
        radii = shapes.core_radius(a.type, size_a) + shapes.core_radius(b.type, size_b)
        within, witness = find_contact(a, b, rotation, offset, packed, cutoff + radii)
        if not within:
            return -1, wp.vec3i(), wp.vec3i(), vec3()
        mode = witness.mode
        corners_a = witness.codes_a
        corners_b = witness.codes_b
        # Shapes at poses that aren't finite have no face.
        if witness.face >= 0 and (mode == FACE_VERTEX or mode == FACE_VERTEX + OF_B):
            modes = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.int32)
            codes_a = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.vec3i)
            codes_b = wp.zeros(shape=(MAX_CANDIDATES,), dtype=wp.vec3i)
            directions = wp.zeros(shape=(MAX_CANDIDATES,), dtype=vec3)
            for k in range(MAX_CANDIDATES):
                modes[k] = -1
            manifolds.find_manifold(
                a, b, rotation, offset, packed, witness, cutoff, modes, codes_a, codes_b, directions
            )
            least = scalar(1.0e30)
            for k in range(MAX_CANDIDATES):
                if modes[k] >= 0:
                    distance = contact_distance(
                        a, b, rotation, offset, packed.vertices, modes[k], codes_a[k], codes_b[k], directions[k]
                    )
                    if distance < least:
                        least = distance
                        mode = modes[k]
                        corners_a = codes_a[k]
                        corners_b = codes_b[k]
            if modes[1] < 0 or least > witness.separation - radii + level:
                # A corner above the face, or nothing that is lowest above its polygon.
                identity = wp.quat_identity(dtype=scalar)
                if witness.face_of_b == 0:
                    mode, corners_a, corners_b = manifolds.least_outside(
                        a, identity, vec3(), witness.face, b, rotation, offset, packed
                    )
                else:
                    mode, corners_b, corners_a = manifolds.least_outside(
                        b, rotation, offset, witness.face, a, identity, vec3(), packed
                    )
                    mode += OF_B
        return mode, corners_a, corners_b, witness.normal

    return SimpleNamespace(
        find_contact=find_contact, contact_features=contact_features, nearest_feature=nearest_feature
    )
