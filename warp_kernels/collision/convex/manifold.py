"""Contact manifold of two shapes that face each other: the facing side of one clipped to the face of the other.

The face of one shape is the reference; the incident side of the other (a face, or the segment of a capsule or of a
lying cylinder) is clipped by the planes through the reference's edges. Contacts are the corners of the incident side
within the reference, those of the reference within the incident side, and the points where the edges cross. Of many,
four are kept.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.contact import (
    FACE_BACK,
    FACE_CUT,
    FACE_VERTEX,
    OF_B,
    ROUND,
    convex_contact_functions,
)
from warp_kernels.collision.convex.spread import spread_functions
from warp_kernels.collision.convex.support import AXIS, DISC_SIDES, MAX_CORNERS, shape_functions
from warp_kernels.collision.convex.tie import tie_functions
from warp_kernels.collision.convex.witness import witness_functions
from warp_kernels.collision.shapes.capsules import PARALLEL_SINE_SQUARED
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, CYLINDER, warp_types

# The intersection of two convex polygons has no more corners than both have together; one more for the witness point,
# and one for a rim.
MAX_CANDIDATES = 2 * MAX_CORNERS + 2


@functools.cache
def manifold_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Everything is in the frame of shape a."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    shapes = shape_functions(scalar)
    PackedShapes = collision_structs(scalar).PackedShapes
    contact = convex_contact_functions(scalar)
    witnesses = witness_functions(scalar)
    choose = spread_functions(scalar)
    ties = tie_functions(scalar)
    Shape, Witness = shapes.Shape, witnesses.Witness
    ints = wp.array(dtype=wp.int32)
    triples = wp.array(dtype=wp.vec3i)
    scalars = wp.array(dtype=scalar)
    points = wp.array(dtype=vec3)
    # Cosine between the normals at the ends of parallel lines and that of their first contact.
    aligned = scalar(0.99)
    # Additional depth, beyond the distance of the shapes, that a contact of their faces may have. Without this, faces
    # that are almost parallel would lose their lowest corners to an edge nearby [m].
    deeper = scalar(2.0e-7 if scalar is wp.float64 else 1.0e-5)
    # Distance outside a face that still counts as on it [m].
    slack = scalar(1.0e-7 if scalar is wp.float64 else 1.0e-5)
    # The same for the corner that is lowest, and for a line, without another first contact. A gap d to a corner this
    # far outside is longer than that to the face's plane by loose^2 / 2 d, which rounding hides.
    loose = scalar(1.0e-5 if scalar is wp.float64 else 1.0e-3)
    # Height above the lowest point over a face within which others count as equally low [m].
    level = scalar(1.0e-11 if scalar is wp.float64 else 1.0e-6)

    @wp.func
    def face_corners(shape: Shape, face: int, packed: PackedShapes, codes: ints):
        start = packed.face_start[shape.first_face + face]
        count = packed.face_start[shape.first_face + face + 1] - start
        for k in range(count):
            codes[k] = packed.face_corner[start + k]
        return count

    @wp.func
    def incident_corners(shape: Shape, packed: PackedShapes, direction: vec3, codes: ints):
        """Write the codes of the corners that face a direction, in order; return their number, 1 for a point, 2 for a
        segment.
        """
        if shape.type == CAPSULE:
            codes[0] = 0
            codes[1] = 1
            return 2
        if shape.type == CYLINDER and direction[2] * direction[2] < scalar(0.5):
            codes[0] = AXIS
            codes[1] = AXIS + 1
            return 2
        face, _cosine = shapes.facing(shape, packed.face_normal, direction)
        if face < 0:
            codes[0] = 0
            return 1
        return face_corners(shape, face, packed, codes)

    @wp.func
    def outside(polygon: points, count: int, normal: vec3, side: int, point: vec3):
        """Return the distance of a point beyond a side of a counter-clockwise polygon about its normal."""
        p = polygon[side]
        edge = polygon[(side + 1) % count] - p
        across = wp.cross(edge, normal)
        return wp.dot(across, point - p) / wp.max(wp.length(across), scalar(1.0e-12))

    @wp.func
    def within(polygon: points, count: int, normal: vec3, point: vec3, limit: scalar, but: int):
        """Return whether a point is beyond no side of a polygon by more than the limit, except side ``but``."""
        result = wp.bool(True)
        for side in range(count):
            if side != but and outside(polygon, count, normal, side, point) > limit:
                result = False
        return result

    @wp.func
    def transform_corners(shape: Shape, rotation: quat, offset: vec3, vertices: points, codes: ints, count: int,
                          direction: vec3, polygon: points):  # fmt: skip
        """Compute the surface points at the corners, in the outward direction."""
        for k in range(count):
            point = offset + wp.quat_rotate(rotation, shapes.vertex(shape, vertices, codes[k]))
            polygon[k] = point + contact.rounding(shape.type, codes[k], shape.size, rotation, direction)

    @wp.func
    def third_corners(codes: ints, count: int, first: int):
        """Return three corners of a face that are far from each other."""
        return wp.vec3i(codes[first], codes[(first + count // 3) % count], codes[(first + 2 * count // 3) % count])

    @wp.func
    def add_lowest(ref: Shape, reference: points, ref_codes: ints, ref_count: int, lowest: vec3, code: int,
                   normal: vec3, limit: scalar, lower: scalar, upper: scalar, count: int, modes: ints,
                   codes_r: triples, codes_i: triples, found: points, distances: scalars):  # fmt: skip
        """Add the lowest corner, if it is above the face, or outside it by no more than the limit; return the number of
        candidates.
        """
        distance = wp.dot(normal, lowest - reference[0])
        on_face = within(reference, ref_count, normal, lowest, limit, -1)
        if ref.type == CYLINDER:
            # Above the disc, even if outside its octagon.
            centre = scalar(0.5) * (reference[0] + reference[DISC_SIDES // 2])
            on_face = wp.length(wp.cross(lowest - centre, normal)) < ref.size[0] + limit
        if not on_face or distance < lower or distance >= upper:
            return count
        modes[count] = FACE_VERTEX
        codes_r[count] = third_corners(ref_codes, ref_count, 0)
        codes_i[count] = wp.vec3i(code, -1, -1)
        found[count] = lowest
        distances[count] = distance
        return count + 1

    @wp.func
    def add_corners(reference: points, ref_codes: ints, ref_count: int, incident: points, inc_codes: ints,
                    inc_count: int, but: int, normal: vec3, limit: scalar, lower: scalar, upper: scalar, count: int,
                    modes: ints, codes_r: triples, codes_i: triples, found: points, distances: scalars):  # fmt: skip
        """Add the corners of the incident side except one that are above the face, or outside it by no more than the
        limit; return the number of candidates.
        """
        total = wp.int32(count)
        for k in range(inc_count):
            distance = wp.dot(normal, incident[k] - reference[0])
            if inc_codes[k] != but and distance >= lower and distance < upper and total < MAX_CANDIDATES:
                if within(reference, ref_count, normal, incident[k], limit, -1):
                    modes[total] = FACE_VERTEX
                    codes_r[total] = third_corners(ref_codes, ref_count, 0)
                    codes_i[total] = wp.vec3i(inc_codes[k], -1, -1)
                    found[total] = incident[k]
                    distances[total] = distance
                    total += 1
        return total

    @wp.func
    def add_crossings(reference: points, ref_codes: ints, ref_count: int, incident: points, inc_codes: ints,
                      inc_count: int, normal: vec3, limit: scalar, lower: scalar, upper: scalar, count: int,
                      modes: ints, codes_r: triples, codes_i: triples, found: points,
                      distances: scalars):  # fmt: skip
        """Add the points where edges of the incident side cross edges of the face, from further outside than the limit;
        return the number of candidates.
        """
        total = wp.int32(count)
        edges = wp.where(inc_count > 2, inc_count, inc_count - 1)
        for number in range(edges * ref_count):
            k = number // ref_count
            side = number % ref_count
            start = incident[k]
            end = incident[(k + 1) % inc_count]
            before = outside(reference, ref_count, normal, side, start)
            after = outside(reference, ref_count, normal, side, end)
            if (before > limit and after < -slack) or (before < -slack and after > limit):
                point = start + (before / (before - after)) * (end - start)
                distance = wp.dot(normal, point - reference[0])
                if distance >= lower and distance < upper and total < MAX_CANDIDATES:
                    if within(reference, ref_count, normal, point, limit, side):
                        far = (side + 1 + ref_count // 2) % ref_count
                        modes[total] = FACE_CUT
                        codes_r[total] = wp.vec3i(ref_codes[side], ref_codes[(side + 1) % ref_count], ref_codes[far])
                        third = wp.where(inc_count > 2, inc_codes[(k + 1 + inc_count // 2) % inc_count], -1)
                        codes_i[total] = wp.vec3i(inc_codes[k], inc_codes[(k + 1) % inc_count], third)
                        found[total] = point
                        distances[total] = distance
                        total += 1
        return total

    @wp.func
    def add_reference_corners(reference: points, ref_codes: ints, ref_count: int, incident: points,
                              inc_codes: ints, inc_count: int, normal: vec3, lower: scalar, upper: scalar,
                              count: int, modes: ints, codes_r: triples, codes_i: triples, found: points,
                              distances: scalars):  # fmt: skip
        """Add the corners of the face below the incident face; return the number of candidates."""
        p = incident[0]
        across = wp.cross(incident[inc_count // 3] - p, incident[2 * inc_count // 3] - p)
        rate = wp.dot(normal, across)
        if wp.abs(rate) < scalar(1.0e-3) * wp.length(across) or rate == scalar(0.0):
            return count
        total = wp.int32(count)
        for k in range(ref_count):
            distance = wp.dot(p - reference[k], across) / rate
            if distance >= lower and distance < upper and total < MAX_CANDIDATES:
                if within(incident, inc_count, -normal, reference[k], -slack, -1):
                    modes[total] = FACE_BACK
                    codes_r[total] = third_corners(ref_codes, ref_count, k)
                    codes_i[total] = third_corners(inc_codes, inc_count, 0)
                    found[total] = reference[k] + distance * normal
                    distances[total] = distance
                    total += 1
        return total

    @wp.func(inline=False)
    def face_candidates(ref: Shape, ref_rotation: quat, ref_offset: vec3, face: int, inc: Shape, inc_rotation: quat,
                        inc_offset: vec3, packed: PackedShapes, lower: scalar, upper: scalar, count: int, modes: ints,
                        codes_r: triples, codes_i: triples, found: points, distances: scalars):  # fmt: skip
        """Add the contacts of a face of ``ref`` with the incident side of ``inc``; return the number of candidates."""
        ref_codes = wp.zeros(shape=(MAX_CORNERS,), dtype=wp.int32)
        inc_codes = wp.zeros(shape=(MAX_CORNERS,), dtype=wp.int32)
        reference = wp.zeros(shape=(MAX_CORNERS,), dtype=vec3)
        incident = wp.zeros(shape=(MAX_CORNERS,), dtype=vec3)
        normal = wp.quat_rotate(ref_rotation, shapes.face_normal(ref, packed.face_normal, face))
        local = wp.quat_rotate_inv(inc_rotation, -normal)
        ref_count = face_corners(ref, face, packed, ref_codes)
        transform_corners(ref, ref_rotation, ref_offset, packed.vertices, ref_codes, ref_count, normal, reference)
        # The lowest vertex may be on another face than the one that faces; a rim's lowest point is on no octagon.
        lowest = witnesses.lowest_code(inc, packed.vertices, local)
        inc_codes[0] = lowest
        transform_corners(inc, inc_rotation, inc_offset, packed.vertices, inc_codes, 1, -normal, incident)
        limit = wp.where(count == 0, loose, slack)
        total = add_lowest(ref, reference, ref_codes, ref_count, incident[0], lowest, normal, limit, lower, upper,
                           count, modes, codes_r, codes_i, found, distances)  # fmt: skip
        inc_count = incident_corners(inc, packed, local, inc_codes)
        transform_corners(inc, inc_rotation, inc_offset, packed.vertices, inc_codes, inc_count, -normal, incident)
        # Both ends of a line along an edge of the face, or neither.
        limit = wp.where(inc_count == 2, limit, slack)
        total = add_corners(reference, ref_codes, ref_count, incident, inc_codes, inc_count, lowest, normal, limit,
                            lower, upper, total, modes, codes_r, codes_i, found, distances)  # fmt: skip
        total = add_crossings(reference, ref_codes, ref_count, incident, inc_codes, inc_count, normal, limit, lower,
                              upper, total, modes, codes_r, codes_i, found, distances)  # fmt: skip
        if inc_count > 2:
            total = add_reference_corners(reference, ref_codes, ref_count, incident, inc_codes, inc_count, normal,
                                          lower, upper, total, modes, codes_r, codes_i, found,
                                          distances)  # fmt: skip
        return total

    @wp.func
    def flattest_edge(shape: Shape, vertices: points, code: int, direction: vec3):
        """Return the edge at the vertex farthest in a direction that falls off from it least; -1 twice if there is no
        edge.
        """
        start = shapes.vertex(shape, vertices, code)
        best = wp.vec3i(-1, -1, -1)
        least = scalar(1.0e30)
        for k in range(shape.num_vertices):
            offset = shapes.vertex(shape, vertices, k) - start
            square = wp.length_sq(offset)
            if square > scalar(0.0):
                fall = wp.min(wp.dot(offset, direction), scalar(0.0))
                if fall * fall < least * square:
                    least = fall * fall / square
                    best = wp.vec3i(code, k, -1)
        return best

    @wp.func
    def touching_line(shape: Shape, vertices: points, codes: wp.vec3i, direction: vec3):
        """Return the codes of the ends of the edge with which a shape may lie along another one; -1 for shapes without
        edges.

        For a capsule that is the axis, for a cylinder the line of its side; ``codes`` are those of the contact,
        ``direction`` is the outward normal there.
        """
        result = codes
        if shape.type == CAPSULE:
            result = wp.vec3i(0, 1, -1)
        elif shape.type == CYLINDER:
            result = wp.vec3i(AXIS, AXIS + 1, -1)
        elif codes[1] < 0:
            result = flattest_edge(shape, vertices, codes[0], direction)
        return result

    @wp.func(inline=False)
    def add_line_end(
        a: Shape,
        b: Shape,
        rotation: quat,
        offset: vec3,
        vertices: points,
        code_a: wp.vec3i,
        code_b: wp.vec3i,
        start: vec3,
        end: vec3,
        normal: vec3,
        lower: scalar,
        upper: scalar,
        count: int,
        modes: ints,
        codes_a: triples,
        codes_b: triples,
        directions: points,
        found: points,
        distances: scalars,
    ):
        """Add the contact of the end of a line with the other line, if it is next to that; return the number of
        candidates. The other line goes from ``start`` to ``end``.
        """
        direction = witnesses.by_turning(a, b, rotation, offset, vertices, code_a, code_b, normal)
        if wp.dot(direction, normal) < aligned:
            return count
        distance, middle, _normal = contact.feature_contact(
            ROUND, a.type, code_a, a.size, shapes.vertex(a, vertices, code_a[0]),
            shapes.vertex(a, vertices, code_a[1]), vec3(), b.type, code_b, b.size, rotation,
            offset + wp.quat_rotate(rotation, shapes.vertex(b, vertices, code_b[0])),
            offset + wp.quat_rotate(rotation, shapes.vertex(b, vertices, code_b[1])), vec3(), direction,
        )  # fmt: skip
        along = end - start
        coordinate = wp.dot(middle - start, along)
        length = wp.dot(along, along)
        # Lines that end together: rounding must not drop both ends.
        beside = coordinate >= scalar(-1.0e-6) * length and coordinate <= scalar(1.000001) * length
        if not beside or distance < lower or distance >= upper:
            return count
        modes[count] = ROUND
        codes_a[count] = code_a
        codes_b[count] = code_b
        directions[count] = direction
        found[count] = middle
        distances[count] = distance
        return count + 1

    @wp.func
    def add_line_ends(a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: points, witness: Witness,
                      lower: scalar, upper: scalar, count: int, modes: ints, codes_a: triples,
                      codes_b: triples, directions: points, found: points, distances: scalars):  # fmt: skip
        """Add both ends of the overlap of two adjacent parallel lines; return the number of candidates."""
        normal = witness.normal
        local = wp.quat_rotate_inv(rotation, -normal)
        line_a = touching_line(a, vertices, witness.codes_a, normal)
        line_b = touching_line(b, vertices, witness.codes_b, local)
        if line_a[1] < 0 or line_b[1] < 0:
            return count
        a0 = shapes.vertex(a, vertices, line_a[0])
        a1 = shapes.vertex(a, vertices, line_a[1])
        b0 = offset + wp.quat_rotate(rotation, shapes.vertex(b, vertices, line_b[0]))
        b1 = offset + wp.quat_rotate(rotation, shapes.vertex(b, vertices, line_b[1]))
        size = wp.length_sq(a1 - a0) * wp.length_sq(b1 - b0)
        beside = wp.abs(wp.dot(normal, a1 - a0)) < scalar(0.1) * wp.length(a1 - a0)
        if not beside or wp.length_sq(wp.cross(a1 - a0, b1 - b0)) > scalar(PARALLEL_SINE_SQUARED) * size:
            return count
        total = wp.int32(count)
        for k in range(2):
            end_a = wp.vec3i(line_a[k], -1, -1)
            total = add_line_end(a, b, rotation, offset, vertices, end_a, line_b, b0, b1,
                                 normal, lower, upper, total, modes, codes_a, codes_b, directions, found,
                                 distances)  # fmt: skip
            end_b = wp.vec3i(line_b[k], -1, -1)
            total = add_line_end(a, b, rotation, offset, vertices, line_a, end_b, a0, a1,
                                 normal, lower, upper, total, modes, codes_a, codes_b, directions, found,
                                 distances)  # fmt: skip
        return total

    @wp.func(inline=False)
    def find_manifold(a: Shape, b: Shape, rotation: quat, offset: vec3, packed: PackedShapes, witness: Witness,
                      cutoff: scalar, modes: ints, codes_a: triples, codes_b: triples,
                      directions: points):  # fmt: skip
        """Select the contacts among the candidates, the deepest first; -1 for missing ones.

        The candidates are written to arrays with capacity for MAX_CANDIDATES; ``directions``: normals near which those
        of edges and corners are.
        """
        identity = wp.quat_identity(dtype=scalar)
        found = wp.zeros(shape=(MAX_CANDIDATES,), dtype=vec3)
        distances = wp.zeros(shape=(MAX_CANDIDATES,), dtype=scalar)
        directions[0] = witness.normal
        total = wp.int32(0)
        lower = scalar(-1.0e30)
        if witness.mode != FACE_VERTEX and witness.mode != FACE_VERTEX + OF_B:
            # Other contacts are measured along the face's normal; none may be deeper than the distance of the shapes.
            distance = witness.separation - shapes.core_radius(a.type, a.size) - shapes.core_radius(b.type, b.size)
            lower = distance - deeper
            modes[0] = witness.mode
            codes_a[0] = witness.codes_a
            codes_b[0] = witness.codes_b
            found[0] = witness.point
            distances[0] = distance
            total = 1
        if total == 1 and wp.min(a.num_vertices, b.num_vertices) > 1:
            total = add_line_ends(a, b, rotation, offset, packed.vertices, witness, lower, cutoff, total, modes,
                                  codes_a, codes_b, directions, found, distances)  # fmt: skip
        # A sphere that touches an edge or a corner touches only there.
        if witness.face >= 0 and (total == 0 or wp.min(a.num_vertices, b.num_vertices) > 1):
            first = total
            if witness.face_of_b == 0:
                total = face_candidates(a, identity, vec3(), witness.face, b, rotation, offset, packed, lower, cutoff,
                                        total, modes, codes_a, codes_b, found, distances)  # fmt: skip
            else:
                total = face_candidates(b, rotation, offset, witness.face, a, identity, vec3(), packed, lower, cutoff,
                                        total, modes, codes_b, codes_a, found, distances)  # fmt: skip
                for k in range(first, total):
                    modes[k] = modes[k] + OF_B
            ties.settle_tie(a, b, rotation, packed.vertices, witness.normal, first, total, modes, codes_a, codes_b)
        if total == 0:
            modes[0] = witness.mode
            codes_a[0] = witness.codes_a
            codes_b[0] = witness.codes_b
            total = 1
        return choose.spread(found, distances, total, witness.normal)

    @wp.func
    def farthest_outside(polygon: points, count: int, normal: vec3, point: vec3):
        """Return the maximum distance of a point beyond the sides of a polygon."""
        result = scalar(-1.0e30)
        for side in range(count):
            result = wp.max(result, outside(polygon, count, normal, side, point))
        return result

    @wp.func(inline=False)
    def least_outside(ref: Shape, ref_rotation: quat, ref_offset: vec3, face: int, inc: Shape, inc_rotation: quat,
                      inc_offset: vec3, packed: PackedShapes):  # fmt: skip
        """Return the least outside of the lowest points above a face: its mode, of the shape ``ref``, and the codes of
        both shapes.

        A shape parallel to the face may be above it only where the polygon omits part of it, as octagons do of discs.
        Points are corners, and points of edges that cross a line through the middle of the polygon.
        """
        ref_codes = wp.zeros(shape=(MAX_CORNERS,), dtype=wp.int32)
        inc_codes = wp.zeros(shape=(MAX_CORNERS,), dtype=wp.int32)
        reference = wp.zeros(shape=(MAX_CORNERS,), dtype=vec3)
        incident = wp.zeros(shape=(MAX_CORNERS,), dtype=vec3)
        normal = wp.quat_rotate(ref_rotation, shapes.face_normal(ref, packed.face_normal, face))
        local = wp.quat_rotate_inv(inc_rotation, -normal)
        count = face_corners(ref, face, packed, ref_codes)
        transform_corners(ref, ref_rotation, ref_offset, packed.vertices, ref_codes, count, normal, reference)
        lowest = witnesses.lowest_code(inc, packed.vertices, local)
        inc_codes[0] = lowest
        transform_corners(inc, inc_rotation, inc_offset, packed.vertices, inc_codes, 1, -normal, incident)
        mode = wp.int32(FACE_VERTEX)
        codes_r = third_corners(ref_codes, count, 0)
        codes_i = wp.vec3i(lowest, -1, -1)
        height = wp.dot(normal, incident[0] - reference[0]) + level
        least = farthest_outside(reference, count, normal, incident[0])
        inc_count = incident_corners(inc, packed, local, inc_codes)
        transform_corners(inc, inc_rotation, inc_offset, packed.vertices, inc_codes, inc_count, -normal, incident)
        for k in range(inc_count):
            beyond = farthest_outside(reference, count, normal, incident[k])
            if beyond < least and wp.dot(normal, incident[k] - reference[0]) < height:
                least = beyond
                mode = FACE_VERTEX
                codes_i = wp.vec3i(inc_codes[k], -1, -1)
        edges = wp.where(inc_count > 2, inc_count, inc_count - 1)
        half = count // 2
        for number in range(edges * half):
            start = incident[number // half]
            end = incident[(number // half + 1) % inc_count]
            first = number % half
            across = wp.cross(reference[first + half] - reference[first], normal)
            before = wp.dot(across, start - reference[first])
            after = wp.dot(across, end - reference[first])
            if before * after < scalar(0.0):
                point = start + (before / (before - after)) * (end - start)
                beyond = farthest_outside(reference, count, normal, point)
                if beyond < least and wp.dot(normal, point - reference[0]) < height:
                    least = beyond
                    mode = FACE_CUT
                    third = (first + half + wp.max(half // 2, 1)) % count
                    codes_r = wp.vec3i(ref_codes[first], ref_codes[first + half], ref_codes[third])
                    codes_i = wp.vec3i(inc_codes[number // half], inc_codes[(number // half + 1) % inc_count], -1)
        return mode, codes_r, codes_i

    return SimpleNamespace(find_manifold=find_manifold, least_outside=least_outside, level=level)
