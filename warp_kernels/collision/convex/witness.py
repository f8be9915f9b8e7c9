"""Touching features of two convex shapes: the best proposal from their vertices near the contact.

GJK and the expanding polytope return up to three witness vertices on either side; faces come from the shapes, and a
cylinder has its rim and its side. Each pair of such features proposes a normal. s(n) is never more than the signed
distance and equals it only for the right one, so the proposal with the greatest s(n) is the contact.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.contact import EDGES, FACE_VERTEX, OF_B, ROUND, convex_contact_functions
from warp_kernels.collision.convex.gjk import gjk_functions
from warp_kernels.collision.convex.support import AXIS, DISC_SIDES, UPRIGHT_SINE_SQUARED, shape_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, CYLINDER, ELLIPSOID, warp_types

NEWTON_STEPS = 4


@functools.cache
def witness_functions(scalar: Any) -> SimpleNamespace:
    """Return the struct Witness and Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    shapes = shape_functions(scalar)
    PackedShapes = collision_structs(scalar).PackedShapes
    gjk = gjk_functions(scalar)
    contact = convex_contact_functions(scalar)
    Shape = shapes.Shape
    # Separations that differ by less than this are equal up to rounding; a face then takes precedence over edges and
    # corners [m].
    slack = scalar(1.0e-11 if scalar is wp.float64 else 1.0e-6)
    # Squared sine between edges that count as parallel.
    parallel = scalar(1.0e-12 if scalar is wp.float64 else 1.0e-8)
    # Tolerance by which the features' own distance may exceed s(n): beyond it, other features are nearer along n.
    # Beyond some metres it is a share of their distance from the centres, as rounding is.
    misfit = scalar(1.0e-7 if scalar is wp.float64 else 1.0e-4)
    spread = scalar(1.0e-8 if scalar is wp.float64 else 1.0e-5)
    # Distance of a contact point beyond the end of an edge, as a share of the edge's length.
    overhang = scalar(1.0e-6 if scalar is wp.float64 else 1.0e-3)
    # Cosine to the normal from which a face gives further contacts to those of an edge or a corner (8 degrees).
    aligned = scalar(0.99)

    @wp.struct
    class Witness:
        """Features that touch first, see contact.py, and the adjacent face from which others are measured."""

        mode: int
        codes_a: wp.vec3i
        codes_b: wp.vec3i
        normal: vec3
        separation: scalar
        point: vec3
        face: int
        face_of_b: int

    @wp.func
    def proposal(shape: Shape, codes: wp.vec3i, number: int):
        """Return an edge (numbers 0 to 2) or vertex (3 to 5) among three codes; -1 twice if it repeats another one or
        doesn't exist.

        For a capsule the axis and its ends, for a cylinder the line of the side and the rims.
        """
        x = codes[number % 3]
        y = codes[(number + 1) % 3]
        if shape.type == CYLINDER or shape.type == CAPSULE:
            lower = wp.where(shape.type == CYLINDER, AXIS, 0)
            if number == 0:
                return wp.vec2i(lower, lower + 1)
            if number == 3 or number == 4:
                return wp.vec2i(lower + number - 3, -1)
            return wp.vec2i(-1, -1)
        if number >= 3:
            repeated = (number >= 4 and x == codes[0]) or (number == 5 and x == codes[1])
            if repeated:
                x = -1
            return wp.vec2i(x, -1)
        again = number == 2 and (codes[0] == codes[1] or codes[1] == codes[2])
        again = again or (number == 1 and codes[2] == codes[0])
        if x == y or again:
            return wp.vec2i(-1, -1)
        return wp.vec2i(x, y)

    @wp.func
    def lowest_code(shape: Shape, vertices: wp.array(dtype=vec3), direction: vec3):
        """Return the code of a vertex that is farthest in a direction."""
        _point, code = shapes.core_support(shape, vertices, direction)
        if shape.type == CYLINDER:
            end = shapes.sign_bit(direction[2])
            code = AXIS + end
            if direction[0] * direction[0] + direction[1] * direction[1] < scalar(UPRIGHT_SINE_SQUARED):
                first = DISC_SIDES * end
                code = shapes.farthest_vertex(shape, vertices, first, first + DISC_SIDES, direction)
        return code

    @wp.func
    def face_codes(shape: Shape, face: int, packed: PackedShapes, first: int):
        """Return three corners of a face, far from each other, from the corner number ``first`` on."""
        start = packed.face_start[shape.first_face + face]
        count = packed.face_start[shape.first_face + face + 1] - start
        second = (first + count // 3) % count
        third = (first + 2 * count // 3) % count
        corner = packed.face_corner
        return wp.vec3i(corner[start + first], corner[start + second], corner[start + third])

    @wp.func
    def facing_range(shape: Shape, packed: PackedShapes, direction: vec3):
        """Return first and last of the faces that may touch in about a direction: of a cylinder both discs."""
        if shape.type == CYLINDER:
            return 0, 1
        face, _cosine = shapes.facing(shape, packed.face_normal, direction)
        if face < 0:
            return 0, -1
        return face, face

    @wp.func
    def with_face(a: Shape, b: Shape, rotation: quat, packed: PackedShapes, of_b: int, face: int, normal: vec3,
                  separation: scalar):  # fmt: skip
        """Return the contact of a face with the lowest point above it; the normal points from a to b."""
        found = Witness()
        found.mode = FACE_VERTEX + OF_B * of_b
        found.normal = normal
        found.separation = separation
        found.face = face
        found.face_of_b = of_b
        if of_b == 0:
            lowest = lowest_code(b, packed.vertices, wp.quat_rotate_inv(rotation, -normal))
            found.codes_a = face_codes(a, face, packed, 0)
            found.codes_b = wp.vec3i(lowest, -1, -1)
        else:
            found.codes_a = wp.vec3i(lowest_code(a, packed.vertices, normal), -1, -1)
            found.codes_b = face_codes(b, face, packed, 0)
        return found

    @wp.func
    def by_face(a: Shape, b: Shape, rotation: quat, offset: vec3, packed: PackedShapes, n: vec3):
        """Return the best contact of a face with a normal along n with the lowest point above it."""
        face = wp.int32(-1)
        of_b = wp.int32(0)
        best_normal = vec3()
        most = scalar(-1.0e30)
        first_a, last_a = facing_range(a, packed, n)
        first_b, last_b = facing_range(b, packed, wp.quat_rotate_inv(rotation, -n))
        for k in range(first_a, last_a + 1):
            normal = shapes.face_normal(a, packed.face_normal, k)
            s = gjk.separation(a, b, rotation, offset, packed.vertices, normal)
            if s > most + slack:
                most = s
                face = k
                best_normal = normal
        for k in range(first_b, last_b + 1):
            normal = -wp.quat_rotate(rotation, shapes.face_normal(b, packed.face_normal, k))
            s = gjk.separation(a, b, rotation, offset, packed.vertices, normal)
            if s > most + slack:
                most = s
                face = k
                of_b = 1
                best_normal = normal
        if face < 0:
            found = Witness()
            found.face = -1
            found.separation = most
            return found
        return with_face(a, b, rotation, packed, of_b, face, best_normal, most)

    @wp.func
    def by_edges(a: Shape, b: Shape, rotation: quat, vertices: wp.array(dtype=vec3), codes_a: wp.vec3i,
                 codes_b: wp.vec3i, n: vec3):  # fmt: skip
        """Return the unit normal of two edges, to the side of n; zero if they are parallel."""
        edge_a = shapes.vertex(a, vertices, codes_a[1]) - shapes.vertex(a, vertices, codes_a[0])
        edge_b = shapes.vertex(b, vertices, codes_b[1]) - shapes.vertex(b, vertices, codes_b[0])
        across = wp.cross(edge_a, wp.quat_rotate(rotation, edge_b))
        square = wp.dot(across, across)
        result = vec3()
        if square > parallel * wp.dot(edge_a, edge_a) * wp.dot(edge_b, edge_b):
            result = across / wp.sqrt(square)
            if wp.dot(across, n) < scalar(0.0):
                result = -result
        return result

    @wp.func
    def by_turning(a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: wp.array(dtype=vec3),
                   codes_a: wp.vec3i, codes_b: wp.vec3i, n: vec3):  # fmt: skip
        """Return the normal of two vertices, or of an edge and a vertex, from a normal nearby; zero if it runs along
        the edge.
        """
        edge = vec3()
        if codes_a[1] >= 0:
            edge = shapes.vertex(a, vertices, codes_a[1]) - shapes.vertex(a, vertices, codes_a[0])
        elif codes_b[1] >= 0:
            edge = shapes.vertex(b, vertices, codes_b[1]) - shapes.vertex(b, vertices, codes_b[0])
            edge = wp.quat_rotate(rotation, edge)
        if wp.length_sq(edge) > scalar(0.0):
            edge = wp.normalize(edge)
        point_a = shapes.vertex(a, vertices, codes_a[0])
        delta = offset + wp.quat_rotate(rotation, shapes.vertex(b, vertices, codes_b[0])) - point_a
        normal = n - wp.dot(n, edge) * edge
        if wp.length_sq(normal) < scalar(1.0e-4):
            normal = delta - wp.dot(delta, edge) * edge
        if wp.length_sq(normal) < scalar(1.0e-12):
            return vec3()
        normal = wp.normalize(normal)
        for _step in range(NEWTON_STEPS):
            normal = contact.turned_on(
                a.type, codes_a[0], a.size, b.type, codes_b[0], b.size, rotation, delta, normal, edge
            )
        return normal

    @wp.func
    def surface_point(shape: Shape, rotation: quat, offset: vec3, vertices: wp.array(dtype=vec3), code: int,
                      direction: vec3):  # fmt: skip
        point = offset + wp.quat_rotate(rotation, shapes.vertex(shape, vertices, code))
        return point + contact.rounding(shape.type, code, shape.size, rotation, direction)

    @wp.func
    def over(delta: vec3, edge: vec3, other: vec3, beyond: scalar):
        """Return whether the point on an edge closest to another edge's line, or to a point (no other edge), is on the
        edge, or beyond its end by no more than this share of it; ``delta`` is from the edge's start to that of the
        other.
        """
        across = edge - (wp.dot(edge, other) / wp.max(wp.dot(other, other), scalar(1.0e-30))) * other
        along = wp.dot(delta, across)
        length = wp.dot(edge, across)
        return along >= -beyond * length and along <= (scalar(1.0) + beyond) * length

    @wp.func(inline=False)
    def fits(a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: wp.array(dtype=vec3), codes_a: wp.vec3i,
             codes_b: wp.vec3i, n: vec3, distance: scalar):  # fmt: skip
        """Return whether two features are as near along n as the shapes are, and adjacent."""
        point_a = surface_point(a, wp.quat_identity(dtype=scalar), vec3(), vertices, codes_a[0], n)
        point_b = surface_point(b, rotation, offset, vertices, codes_b[0], -n)
        delta = point_b - point_a
        slip = wp.max(misfit, spread * (wp.length(offset) + wp.length(point_a)))
        edge_a = vec3()
        edge_b = vec3()
        result = wp.dot(n, delta) < distance + slip
        if codes_a[1] >= 0:
            edge_a = shapes.vertex(a, vertices, codes_a[1]) - shapes.vertex(a, vertices, codes_a[0])
        if codes_b[1] >= 0:
            edge_b = shapes.vertex(b, vertices, codes_b[1]) - shapes.vertex(b, vertices, codes_b[0])
            edge_b = wp.quat_rotate(rotation, edge_b)
            result = result and over(-delta, edge_b, edge_a, overhang)
        if codes_a[1] >= 0:
            result = result and over(delta, edge_a, edge_b, overhang)
        if codes_a[1] < 0 or codes_b[1] < 0:
            # From a point to a point, or to the closest point on an edge, it goes straight along the normal.
            beside = wp.cross(delta, n)
            edge = edge_a + edge_b
            if wp.length_sq(edge) > scalar(0.0):
                beside = wp.normalize(edge) * wp.dot(beside, wp.normalize(edge))
            result = result and wp.length(beside) < scalar(10.0) * slip
        return result

    @wp.func
    def outward_order(a: Shape, b: Shape, rotation: quat, vertices: wp.array(dtype=vec3), codes_a: wp.vec3i,
                      codes_b: wp.vec3i, normal: vec3):  # fmt: skip
        """Return the codes of an edge, reversed if the cross product of the edges would point against the normal."""
        edge_a = shapes.vertex(a, vertices, codes_a[1]) - shapes.vertex(a, vertices, codes_a[0])
        edge_b = shapes.vertex(b, vertices, codes_b[1]) - shapes.vertex(b, vertices, codes_b[0])
        result = codes_a
        if wp.dot(wp.cross(edge_a, wp.quat_rotate(rotation, edge_b)), normal) < scalar(0.0):
            result = wp.vec3i(codes_a[1], codes_a[0], -1)
        return result

    @wp.func
    def completed(a: Shape, b: Shape, rotation: quat, offset: vec3, packed: PackedShapes, found: Witness):
        """Return a contact of edges or corners with its order of vertices, its point, and a face only if one is
        near.
        """
        result = found
        if found.mode == EDGES:
            result.codes_a = outward_order(a, b, rotation, packed.vertices, found.codes_a, found.codes_b, found.normal)
        codes_a = result.codes_a
        codes_b = result.codes_b
        _distance, point, _normal = contact.feature_contact(
            found.mode, a.type, codes_a, a.size, shapes.vertex(a, packed.vertices, codes_a[0]),
            shapes.vertex(a, packed.vertices, codes_a[1]), vec3(), b.type, codes_b, b.size, rotation,
            offset + wp.quat_rotate(rotation, shapes.vertex(b, packed.vertices, codes_b[0])),
            offset + wp.quat_rotate(rotation, shapes.vertex(b, packed.vertices, codes_b[1])), vec3(), found.normal,
        )  # fmt: skip
        result.point = point
        cosine = scalar(-1.0)
        if found.face >= 0 and found.face_of_b == 0:
            cosine = wp.dot(found.normal, shapes.face_normal(a, packed.face_normal, found.face))
        elif found.face >= 0:
            cosine = -wp.dot(
                found.normal, wp.quat_rotate(rotation, shapes.face_normal(b, packed.face_normal, found.face))
            )
        if cosine < aligned:
            result.face = -1
        return result

    @wp.func(inline=False)
    def find_witness(a: Shape, b: Shape, rotation: quat, offset: vec3, packed: PackedShapes, n: vec3, closest_a: wp.vec3i,
                     closest_b: wp.vec3i):  # fmt: skip
        """Return the contact near the normal n, with the nearby vertices closest_a and closest_b."""
        found = by_face(a, b, rotation, offset, packed, n)
        curved = a.type == CYLINDER or b.type == CYLINDER or a.type == ELLIPSOID or b.type == ELLIPSOID
        bound = gjk.separation(a, b, rotation, offset, packed.vertices, n)
        if found.separation >= bound - slack and not curved:
            return found
        radii = shapes.core_radius(a.type, a.size) + shapes.core_radius(b.type, b.size)
        best = found.separation + slack
        for number in range(36):
            codes_a = proposal(a, closest_a, number // 6)
            codes_b = proposal(b, closest_b, number % 6)
            if codes_a[0] >= 0 and codes_b[0] >= 0:
                three_a = wp.vec3i(codes_a[0], codes_a[1], -1)
                three_b = wp.vec3i(codes_b[0], codes_b[1], -1)
                mode = wp.int32(ROUND)
                normal = vec3()
                if codes_a[1] >= 0 and codes_b[1] >= 0:
                    mode = EDGES
                    normal = by_edges(a, b, rotation, packed.vertices, three_a, three_b, n)
                else:
                    normal = by_turning(a, b, rotation, offset, packed.vertices, three_a, three_b, n)
                if wp.length_sq(normal) > scalar(0.5):
                    s = gjk.separation(a, b, rotation, offset, packed.vertices, normal)
                    if s > best and fits(a, b, rotation, offset, packed.vertices, three_a, three_b, normal, s - radii):
                        # Edges come first: a corner that lies on the other shape has many normals, none of which
                        # persists.
                        best = s + slack
                        found.mode = mode
                        found.codes_a = three_a
                        found.codes_b = three_b
                        found.normal = normal
                        found.separation = s
        if found.mode == EDGES or found.mode == ROUND:
            found = completed(a, b, rotation, offset, packed, found)
        return found

    return SimpleNamespace(
        Witness=Witness,
        slack=slack,
        parallel=parallel,
        lowest_code=lowest_code,
        with_face=with_face,
        by_face=by_face,
        by_turning=by_turning,
        over=over,
        outward_order=outward_order,
        completed=completed,
        find_witness=find_witness,
    )
