"""Expanding polytope: the face of the Minkowski difference of two overlapping cores nearest to the origin.

A polytope within the difference b - a grows by one support point at a time, across its face nearest to the origin.
Faces have inward unit normals n and offsets n . p; the greatest offset bounds the signed distance from above, the
separation s(n) along any of the normals bounds it from below. When the bounds meet, the signed distance is found.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.gjk import gjk_functions
from warp_kernels.collision.convex.support import shape_functions
from warp_kernels.types import warp_types

MAX_POINTS = 64
# A closed polytope of n points has 2 n - 4 triangles and 3 n - 6 edges; the horizon seen from a point is much shorter.
MAX_FACES = 128
MAX_HORIZON = 48


@functools.cache
def epa_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    t = warp_types(scalar)
    vec3, quat = t.vec3, t.quat
    Shape = shape_functions(scalar).Shape
    gjk = gjk_functions(scalar)
    tolerance = scalar(1.0e-10 if scalar is wp.float64 else 1.0e-5)
    flat = scalar(1.0e-8 if scalar is wp.float64 else 1.0e-4)
    # A simplex that is initially thinner than this is rebuilt from its longest edge.
    thin = scalar(1.0e-4 if scalar is wp.float64 else 1.0e-2)
    # Tolerance of a face's offset, relative to the extent: a point must be farther out than this to see the face.
    rounding = scalar(1.0e-12 if scalar is wp.float64 else 1.0e-6)
    none = scalar(-1.0e30)
    points_type = wp.array(dtype=vec3)
    ints = wp.array(dtype=wp.int32)

    @wp.func
    def inward_normal(points: points_type, face: wp.vec3i):
        """Return the unit normal of a triangle by the order of its corners; zero for a degenerate one."""
        p = points[face[0]]
        u = points[face[1]] - p
        v = points[face[2]] - p
        across = wp.cross(u, v)
        square = wp.dot(across, across)
        result = vec3()
        if square > scalar(1.0e-12) * flat * flat * wp.dot(u, u) * wp.dot(v, v) and square > scalar(0.0):
            result = across / wp.sqrt(square)
        return result

    @wp.func
    def first_direction(points: points_type, count: int, attempt: int):
        """Return a direction in which a simplex of one to three points may grow."""
        side = scalar(1 - 2 * (attempt % 2))
        axis = vec3()
        axis[attempt // 2 % 3] = side
        if count == 1:
            return axis
        along = points[1] - points[0]
        if count == 2:
            return wp.cross(along, axis)
        return side * wp.cross(along, points[2] - points[0])

    @wp.func
    def growth(points: points_type, count: int, point: vec3):
        """Return the squared length, squared area or squared volume that a point would give to a simplex."""
        offset = point - points[0]
        result = wp.length_sq(offset)
        if count == 2:
            result = wp.length_sq(wp.cross(points[1] - points[0], offset))
        if count == 3:
            volume = wp.dot(wp.cross(points[1] - points[0], points[2] - points[0]), offset)
            result = volume * volume
        return result

    @wp.func
    def swap(i: int, j: int, points: points_type, codes_a: ints, codes_b: ints):
        point = points[i]
        points[i] = points[j]
        points[j] = point
        code_a = codes_a[i]
        codes_a[i] = codes_a[j]
        codes_a[j] = code_a
        code_b = codes_b[i]
        codes_b[i] = codes_b[j]
        codes_b[j] = code_b

    @wp.func
    def complete(
        a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: points_type, points: points_type, codes_a: ints,
        codes_b: ints, count: int,
    ):  # fmt: skip
        """Grow the simplex to a tetrahedron with volume; return the number of its corners, less than 4 if there is
        none.
        """
        have = wp.int32(count)
        if have > 2:
            # The order of two points that coincide up to rounding is undefined: the first edge is the longer one.
            if growth(points, 1, points[1]) < growth(points, 1, points[2]):
                swap(1, 2, points, codes_a, codes_b)
            square = growth(points, 1, points[1])
            if have == 4 and growth(points, 3, points[3]) < thin * thin * square * square * square:
                have = 3
            if growth(points, 2, points[2]) < thin * thin * square * square:
                have = 2
        while have < 4:
            most = scalar(0.0)
            farthest = vec3()
            farthest_a = wp.int32(0)
            farthest_b = wp.int32(0)
            for attempt in range(6):
                direction = first_direction(points, have, attempt)
                if wp.length_sq(direction) > scalar(0.0):
                    direction = wp.normalize(direction)
                    point, code_a, code_b = gjk.difference_support(a, b, rotation, offset, vertices, direction)
                    gain = growth(points, have, point)
                    if gain > most:
                        most = gain
                        farthest = point
                        farthest_a = code_a
                        farthest_b = code_b
            scale = growth(points, 1, farthest)
            if have == 2:
                scale = scale * growth(points, 1, points[1])
            if have == 3:
                scale = scale * growth(points, 1, points[1]) * growth(points, 1, points[2])
            if most <= flat * flat * scale or most < scalar(1.0e-30):
                return have
            points[have] = farthest
            codes_a[have] = farthest_a
            codes_b[have] = farthest_b
            have += 1
        return have

    @wp.func
    def put_face(points: points_type, face: wp.vec3i, slot: int, faces: wp.array(dtype=wp.vec3i), normals: points_type,
                 offsets: wp.array(dtype=scalar)):  # fmt: skip
        n = inward_normal(points, face)
        faces[slot] = face
        normals[slot] = n
        offset = none
        if wp.dot(n, n) > scalar(0.0):
            offset = wp.dot(n, points[face[0]])
        offsets[slot] = offset

    @wp.func
    def toggle(horizon: wp.array(dtype=wp.vec2i), length: int, start: int, end: int):
        """Add an edge to the horizon, or remove it if its other side is there; return the new length."""
        for k in range(length):
            if horizon[k][0] == end and horizon[k][1] == start:
                horizon[k] = horizon[length - 1]
                return length - 1
        if length >= MAX_HORIZON:
            return MAX_HORIZON + 1
        horizon[length] = wp.vec2i(start, end)
        return length + 1

    @wp.func
    def grow(points: points_type, new: int, slack: scalar, used: int, faces: wp.array(dtype=wp.vec3i),
             normals: points_type, offsets: wp.array(dtype=scalar), horizon: wp.array(dtype=wp.vec2i)):  # fmt: skip
        """Replace the faces that see the newest point by a fan about it; return the slots in use, -1 beyond the
        capacity.
        """
        length = wp.int32(0)
        freed = wp.int32(0)
        for k in range(used):
            face = faces[k]
            if face[0] >= 0 and wp.dot(normals[k], points[new]) < offsets[k] - slack:
                if length <= MAX_HORIZON:
                    length = toggle(horizon, length, face[0], face[1])
                if length <= MAX_HORIZON:
                    length = toggle(horizon, length, face[1], face[2])
                if length <= MAX_HORIZON:
                    length = toggle(horizon, length, face[2], face[0])
                faces[k] = wp.vec3i(-1, -1, -1)
                offsets[k] = none
                freed += 1
        if length > MAX_HORIZON or length < 3 or used + wp.max(length - freed, 0) > MAX_FACES:
            return -1
        slot = wp.int32(0)
        end = wp.int32(used)
        for k in range(length):
            while slot < end and faces[slot][0] >= 0:
                slot += 1
            put_face(points, wp.vec3i(horizon[k][0], horizon[k][1], new), slot, faces, normals, offsets)
            if slot == end:
                end += 1
        return end

    @wp.func
    def flat_normal(points: points_type, count: int):
        n = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        if count == 3:
            across = wp.cross(points[1] - points[0], points[2] - points[0])
            if wp.length_sq(across) > scalar(0.0):
                n = wp.normalize(across)
        return n

    @wp.func(inline=False)
    def epa(
        a: Shape, b: Shape, rotation: quat, offset: vec3, vertices: points_type, points: points_type, codes_a: ints,
        codes_b: ints, count: int,
    ):  # fmt: skip
        """Return the direction of the greatest separation, and the three points of the face across it.

        The arrays hold the ``count`` points of a simplex and have capacity for MAX_POINTS. A difference without volume,
        as of two plates in one plane, gives its own normal.
        """
        faces = wp.zeros(shape=(MAX_FACES,), dtype=wp.vec3i)
        normals = wp.zeros(shape=(MAX_FACES,), dtype=vec3)
        offsets = wp.zeros(shape=(MAX_FACES,), dtype=scalar)
        horizon = wp.zeros(shape=(MAX_HORIZON,), dtype=wp.vec2i)
        have = complete(a, b, rotation, offset, vertices, points, codes_a, codes_b, count)
        if have < 4:
            return flat_normal(points, have), wp.vec3i(0, wp.min(1, have - 1), wp.min(2, have - 1))
        turn = wp.dot(wp.cross(points[1] - points[0], points[2] - points[0]), points[3] - points[0])
        second = wp.int32(1)
        third = wp.int32(2)
        if turn < scalar(0.0):
            second = 2
            third = 1
        # With this order of the first three, each face's normal points to the corner that it lacks.
        put_face(points, wp.vec3i(0, second, third), 0, faces, normals, offsets)
        put_face(points, wp.vec3i(0, 3, second), 1, faces, normals, offsets)
        put_face(points, wp.vec3i(0, third, 3), 2, faces, normals, offsets)
        put_face(points, wp.vec3i(second, 3, third), 3, faces, normals, offsets)
        extent = wp.sqrt(growth(points, 1, points[1])) + wp.sqrt(growth(points, 1, points[2]))
        slack = tolerance * extent
        used = wp.int32(4)
        best = none
        best_normal = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        best_face = wp.vec3i(0, 1, 2)
        while have < MAX_POINTS:
            nearest = wp.int32(0)
            for k in range(1, used):
                if offsets[k] > offsets[nearest]:
                    nearest = k
            n = normals[nearest]
            point, code_a, code_b = gjk.difference_support(a, b, rotation, offset, vertices, n)
            s = wp.dot(n, point)
            if s >= offsets[nearest] - slack:
                return n, faces[nearest]
            if s > best:
                best = s
                best_normal = n
                best_face = faces[nearest]
            points[have] = point
            codes_a[have] = code_a
            codes_b[have] = code_b
            used = grow(points, have, rounding * extent, used, faces, normals, offsets, horizon)
            if used < 0:
                return best_normal, best_face
            have += 1
        return best_normal, best_face

    return SimpleNamespace(epa=epa)
