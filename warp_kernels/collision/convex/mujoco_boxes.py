"""Features of two boxes that touch under MuJoCo's law: the contact points of MuJoCo 4, up to eight of a pair.

The axis of the largest separation is the normal of a face or across two edges. Contacts of a face are the corners of
the polygon in which the other box's facing side and the face overlap, seen along the normal (Gottschalk, Lin and
Manocha, *OBBTree*, 1996; Ericson, *Real-Time Collision Detection*, 2005, 5.2.1 and 5.3.3). Two edges have one contact.

Three rules decide between a face and edges, as in MuJoCo: edges across which the separation is larger by less than
``EDGE_BIAS`` of it lose; so do those within 8 degrees of the normal of the best face (``ALIGNED``), unless their
separation is larger by a twentieth (``WORTH``); axes across edges that are parallel to rounding don't count.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.contact import EDGES, FACE_BACK, FACE_CUT, FACE_VERTEX, OF_B
from warp_kernels.collision.pairs import MUJOCO_PAIRS
from warp_kernels.collision.shapes.boxes import box_functions
from warp_kernels.types import BOX, warp_types

# Corners of two rectangles' intersection.
MOST = MUJOCO_PAIRS[BOX, BOX][1]
EDGE_BIAS = 1.0e-6
ALIGNED = 0.99
WORTH = 0.05
# Squared sine between edges below which they count as parallel.
PARALLEL = {wp.float32: 1.0e-7, wp.float64: 1.0e-16}
# Distance outside a face that counts as on it, and that of corners that are one, relative to the size of the face.
ON = {wp.float32: 1.0e-6, wp.float64: 1.0e-9}
SAME = {wp.float32: 1.0e-5, wp.float64: 1.0e-7}


@functools.cache
def mujoco_box_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Codes of a corner: bits 0, 1, 2 are the positive side of x, y, z."""
    t = warp_types(scalar)
    vec3, mat33, quat = t.vec3, t.mat33, t.quat
    boxes = box_functions(scalar)
    magnitude, unit_axis, corner_signs = boxes.magnitude, boxes.unit_axis, boxes.corner_signs
    support_edge = boxes.support_edge
    on, same, parallel = (scalar(each[scalar]) for each in (ON, SAME, PARALLEL))
    zero, one = scalar(0.0), scalar(1.0)
    ints, triples, vectors = (wp.array(dtype=each) for each in (wp.int32, wp.vec3i, vec3))

    @wp.func
    def side_axes(axis: int, side: int):
        """Return the axes u and v of a face with the outward normal u x v."""
        return wp.vec2i((axis + 2 - side) % 3, (axis + 1 + side) % 3)

    @wp.func
    def face_corner(axis: int, side: int, k: int):
        """Return the k-th corner of a face, counter-clockwise seen from outside."""
        uv = side_axes(axis, side)
        m = k % 4
        bit_u = wp.where(m == 1 or m == 2, 1, 0)
        return (side << axis) + (bit_u << uv[0]) + ((m // 2) << uv[1])

    @wp.func
    def face_corners(axis: int, side: int, first: int):
        """Return three corners of a face, from the corner ``first`` on."""
        return wp.vec3i(
            face_corner(axis, side, first), face_corner(axis, side, first + 1), face_corner(axis, side, first + 2)
        )

    @wp.func
    def beyond(point: vec3, k: int, half_u: scalar, half_v: scalar):
        """Return the distance of a point beyond the side of a face from its k-th corner on."""
        result = point[0] - half_u
        if k == 0:
            result = -point[1] - half_v
        elif k == 2:
            result = point[1] - half_v
        elif k == 3:
            result = -point[0] - half_u
        return result

    @wp.func
    def add(count: int, modes: ints, codes_a: triples, codes_b: triples, points: vectors, point: vec3, mode: int,
            of_b: int, of_face: wp.vec3i, of_other: wp.vec3i, margin: scalar, apart: scalar):  # fmt: skip
        """Add a feature if it is within the margin, and none of those before is there; return their number."""
        if not point[2] <= margin or count >= MOST:
            return count
        for k in range(count):
            x = points[k][0] - point[0]
            y = points[k][1] - point[1]
            if x * x + y * y < apart * apart:
                return count
        modes[count] = mode + OF_B * of_b
        codes_a[count] = wp.where(of_b == 0, of_face, of_other)
        codes_b[count] = wp.where(of_b == 0, of_other, of_face)
        points[count] = point
        return count + 1

    @wp.func
    def corner_seen(face: wp.vec2i, k: int, size: vec3, other: vec3, turn: mat33, centre: vec3, of_other: wp.vec2i):
        """Return the k-th corner of the other box's side, along the two sides of a face and above it."""
        uv = side_axes(face[0], face[1])
        up = wp.where(face[1] == 1, one, -one)
        corner = centre + turn * wp.cw_mul(corner_signs(face_corner(of_other[0], of_other[1], k)), other)
        return vec3(corner[uv[0]], corner[uv[1]], up * corner[face[0]] - size[face[0]])

    @wp.func
    def edges_over_face(of_b: int, face: wp.vec2i, of_other: wp.vec2i, corners: vectors, half_u: scalar, half_v: scalar,
                        slack: scalar, apart: scalar, margin: scalar, modes: ints, codes_a: triples, codes_b: triples,
                        points: vectors):  # fmt: skip
        """Add corners of the other box's side above a face, and points where its edges leave that; return the number
        of features.
        """
        count = wp.int32(0)
        reference = face_corners(face[0], face[1], 0)
        for k in range(4):
            p = corners[k]
            q = corners[(k + 1) % 4]
            edge = face_corners(of_other[0], of_other[1], k)
            # Shares of the edge between which it is above the face, and the borders there.
            start = zero
            end = one
            entered = wp.int32(-1)
            left = wp.int32(-1)
            for border in range(4):
                before = beyond(p, border, half_u, half_v)
                after = beyond(q, border, half_u, half_v)
                if before > slack and after > slack:
                    end = -one
                elif before > slack:
                    share = before / (before - after)
                    if share > start:
                        start = share
                        entered = border
                elif after > slack:
                    share = before / (before - after)
                    if share < end:
                        end = share
                        left = border
            if start < end:
                mode = wp.int32(FACE_VERTEX)
                of_face = reference
                of_edge = wp.vec3i(edge[0], -1, -1)
                if entered >= 0:
                    mode = wp.int32(FACE_CUT)
                    of_face = face_corners(face[0], face[1], entered)
                    of_edge = edge
                count = add(
                    count, modes, codes_a, codes_b, points, p + start * (q - p), mode, of_b, of_face, of_edge, margin,
                    apart,
                )  # fmt: skip
                if left >= 0:
                    of_face = face_corners(face[0], face[1], left)
                    count = add(
                        count, modes, codes_a, codes_b, points, p + end * (q - p), FACE_CUT, of_b, of_face, edge, margin,
                        apart,
                    )  # fmt: skip
        return count

    @wp.func
    def is_inside(u: scalar, v: scalar, corners: vectors, slack: scalar):
        """Return whether a point is within a side whose corners run clockwise."""
        for k in range(4):
            p = corners[k]
            x = corners[(k + 1) % 4][0] - p[0]
            y = corners[(k + 1) % 4][1] - p[1]
            if y * (p[0] - u) - x * (p[1] - v) > slack * wp.sqrt(x * x + y * y):
                return False
        return True

    @wp.func
    def face_features(of_b: int, axis: int, side: int, size: vec3, other: vec3, turn: mat33, centre: vec3,
                      margin: scalar, modes: ints, codes_a: triples, codes_b: triples, points: vectors):  # fmt: skip
        """Write the features of a face with the other box; return their number.

        size, other: half extents of the face's box and of the other one. turn, centre: of the other one, seen from it.
        """
        face = wp.vec2i(axis, side)
        uv = side_axes(axis, side)
        half_u = size[uv[0]]
        half_v = size[uv[1]]
        slack = on * (half_u + half_v)
        apart = same * wp.sqrt(half_u * half_u + half_v * half_v)
        # The other box's side that is turned most against the normal.
        along = wp.where(side == 1, one, -one) * turn[axis]
        facing = wp.where(wp.abs(along[1]) > wp.abs(along[0]), 1, 0)
        facing = wp.where(wp.abs(along[2]) > wp.abs(along[facing]), 2, facing)
        of_other = wp.vec2i(facing, wp.where(along[facing] > zero, 0, 1))
        corners = wp.zeros(shape=(4,), dtype=vec3)
        for k in range(4):
            corners[k] = corner_seen(face, k, size, other, turn, centre, of_other)
        count = edges_over_face(
            of_b, face, of_other, corners, half_u, half_v, slack, apart, margin, modes, codes_a, codes_b, points
        )
        # Corners of the face below the other side.
        start = corners[0]
        normal = wp.cross(corners[3] - start, corners[1] - start)
        other_codes = face_corners(of_other[0], of_other[1], 0)
        for k in range(4):
            u = wp.where(k == 1 or k == 2, half_u, -half_u)
            v = wp.where(k >= 2, half_v, -half_v)
            if is_inside(u, v, corners, slack) and normal[2] > zero:
                height = start[2] + (normal[0] * (start[0] - u) + normal[1] * (start[1] - v)) / normal[2]
                count = add(
                    count, modes, codes_a, codes_b, points, vec3(u, v, height), FACE_BACK, of_b,
                    face_corners(axis, side, k), other_codes, margin, apart,
                )  # fmt: skip
        return count

    @wp.func
    def edge_feature(edge_a: int, edge_b: int, normal: vec3, across: vec3, against: vec3, separation: scalar, modes: ints,
                     codes_a: triples, codes_b: triples, points: vectors):  # fmt: skip
        """Add the contact of two edges; ``against`` is the normal from b to a, in the frame of b."""
        codes = support_edge(edge_a, normal)
        # The cross product of the edges points from a to b.
        if wp.dot(across, normal) < zero:
            codes = wp.vec3i(codes[1], codes[0], -1)
        modes[0] = EDGES
        codes_a[0] = codes
        codes_b[0] = support_edge(edge_b, against)
        points[0] = vec3(zero, zero, separation)

    @wp.func(inline=False)
    def touching_features(a: vec3, b: vec3, rotation: quat, offset: vec3, margin: scalar, modes: ints, codes_a: triples,
                          codes_b: triples, points: vectors):  # fmt: skip
        """Return the number of features within the margin of two boxes with these half extents.

        rotation, offset: of b, seen from a. Features are written to arrays with capacity for MOST: modes of
        :mod:`warp_kernels.collision.convex.contact`, codes of corners, and points whose third coordinate is the signed
        distance.
        """
        turn = wp.quat_to_matrix(rotation)
        back = wp.transpose(turn)
        local = back * offset
        best_face = scalar(-1.0e30)
        axis = wp.int32(-1)
        of_b = wp.int32(0)
        for k in range(3):
            separation = wp.abs(offset[k]) - a[k] - wp.dot(magnitude(turn[k]), b)
            if separation > best_face:
                best_face = separation
                axis = k
        for k in range(3):
            separation = wp.abs(local[k]) - b[k] - wp.dot(magnitude(back[k]), a)
            if separation > best_face:
                best_face = separation
                axis = k
                of_b = 1
        # Boxes at poses that aren't finite have no such axis.
        if axis < 0 or best_face > margin:
            return 0
        most = best_face
        edge_a = wp.int32(-1)
        edge_b = wp.int32(-1)
        for i in range(3):
            for j in range(3):
                across = wp.cross(unit_axis(i), back[j])
                square = wp.length_sq(across)
                if square >= parallel:
                    n = across / wp.sqrt(square)
                    separation = wp.abs(wp.dot(n, offset)) - wp.dot(magnitude(n), a) - wp.dot(magnitude(back * n), b)
                    if separation > margin:
                        return 0
                    if separation - scalar(EDGE_BIAS) * wp.abs(separation) > most and separation > best_face:
                        most = separation
                        edge_a = i
                        edge_b = j
        if edge_a >= 0:
            across = wp.cross(unit_axis(edge_a), back[edge_b])
            normal = wp.normalize(across)
            cosine = wp.abs(normal[axis])
            if of_b == 1:
                cosine = wp.abs(wp.dot(normal, back[axis]))
            if not (cosine > scalar(ALIGNED) and most < best_face + scalar(WORTH) * wp.abs(best_face)):
                if wp.dot(normal, offset) < zero:
                    normal = -normal
                edge_feature(edge_a, edge_b, normal, across, -(back * normal), most, modes, codes_a, codes_b, points)
                return 1
        if of_b == 0:
            side = wp.where(offset[axis] >= zero, 1, 0)
            return face_features(0, axis, side, a, b, turn, offset, margin, modes, codes_a, codes_b, points)
        side = wp.where(local[axis] <= zero, 1, 0)
        return face_features(1, axis, side, b, a, back, -local, margin, modes, codes_a, codes_b, points)

    return SimpleNamespace(touching_features=touching_features)
