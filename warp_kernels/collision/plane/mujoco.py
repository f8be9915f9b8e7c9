"""Features that touch a plane under MuJoCo's law: the contact points of MuJoCo 4.

- A box touches in the corners below its centre, at most four.
- A hull touches in its lowest vertex and in other vertices of the face there that is turned most towards the plane; of
  a face with more than four corners in four. Vertices above the centre don't touch.
- A cylinder touches in the deepest points of both rims, and in two more of the lower one, a triangle of equal sides.

Distance, point and normal of these features have the same formulas as under hard contact.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.shapes.boxes import box_functions
from warp_kernels.collision.shapes.cylinders import cylinder_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import BOX, CONVEX, CYLINDER, warp_types


@functools.cache
def mujoco_plane_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Planes are given in the body's frame: ``up`` is the unit normal,
    ``height`` that of the frame's origin.
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    structs = collision_structs(scalar)
    Geometries, MujocoPlanes = structs.Geometries, structs.MujocoPlanes
    corner_signs = box_functions(scalar).corner_signs
    cylinders = cylinder_functions(scalar)

    @wp.func
    def box_features(size: vec3, up: vec3, height: scalar, margin: scalar):
        features = wp.vec4i(-1, -1, -1, -1)
        count = wp.int32(0)
        for corner in range(8):
            along = wp.dot(up, wp.cw_mul(corner_signs(corner), size))
            if count < 4 and along <= scalar(0.0) and height + along < margin:
                features[count] = corner
                count += 1
        return features

    @wp.func
    def lowest_vertex(
        vertices: wp.array(dtype=vec3), planes: MujocoPlanes, start: int, end: int, scale: vec3, up: vec3
    ):
        """Return the first of the lowest vertices of a hull, and its height above the frame's origin.

        Vertices that belong to no face, since they lie within one or on an edge to rounding, are none of MuJoCo's hull.
        """
        lowest = wp.int32(-1)
        least = scalar(1.0e30)
        for k in range(start, end):
            along = wp.dot(up, wp.cw_mul(vertices[k], scale))
            if along < least and planes.fan_start[k + 1] > planes.fan_start[k]:
                least = along
                lowest = k - start
        return lowest, least

    @wp.func
    def corner(vertices: wp.array(dtype=vec3), planes: MujocoPlanes, first: int, scale: vec3, face: int, k: int):
        """Return the k-th corner of a face, counted on beyond its end."""
        start = planes.polygon_start[face]
        count = planes.polygon_start[face + 1] - start
        return wp.cw_mul(vertices[first + planes.polygon[start + k % count]], scale)

    @wp.func
    def face_below(planes: MujocoPlanes, scale: vec3, up: vec3, vertex: int):
        """Return the face at one of all vertices that is turned most towards the plane, -1 without one."""
        best = wp.int32(-1)
        least = scalar(2.0)
        for k in range(planes.fan_start[vertex], planes.fan_start[vertex + 1]):
            face = planes.fan[k]
            n = planes.normal[face]
            n = wp.normalize(vec3(n[0] * scale[1] * scale[2], n[1] * scale[2] * scale[0], n[2] * scale[0] * scale[1]))
            along = wp.dot(up, n)
            if along < least:
                least = along
                best = face
        return best

    @wp.func
    def diagonal_product(a: vec3, b: vec3, c: vec3, d: vec3):
        """Return twice the area of a flat quadrilateral."""
        return wp.length(wp.cross(d - b, a - c))

    @wp.func
    def spread_corners(
        vertices: wp.array(dtype=vec3), planes: MujocoPlanes, first: int, scale: vec3, face: int, position: int
    ):
        """Return four corners of a face, the first at this position, whose area doesn't grow if one of the others
        advances; counted from ``position``.
        """
        count = planes.polygon_start[face + 1] - planes.polygon_start[face]
        a = corner(vertices, planes, first, scale, face, position)
        j = wp.int32(1)
        k = wp.int32(2)
        m = wp.int32(3)
        b = corner(vertices, planes, first, scale, face, position + j)
        c = corner(vertices, planes, first, scale, face, position + k)
        d = corner(vertices, planes, first, scale, face, position + m)
        area = diagonal_product(a, b, c, d)
        while m + 1 < count:
            ahead = corner(vertices, planes, first, scale, face, position + m + 1)
            wider = diagonal_product(a, b, c, ahead)
            if not wider > area:
                return wp.vec4i(0, j, k, m)
            area = wider
            d = ahead
            m += 1
            growing = bool(True)
            while growing and k + 1 < m:
                ahead = corner(vertices, planes, first, scale, face, position + k + 1)
                wider = diagonal_product(a, b, ahead, d)
                growing = wider > area
                if growing:
                    area = wider
                    c = ahead
                    k += 1
            growing = bool(True)
            while growing and j + 1 < k:
                ahead = corner(vertices, planes, first, scale, face, position + j + 1)
                wider = diagonal_product(a, ahead, c, d)
                growing = wider > area
                if growing:
                    area = wider
                    b = ahead
                    j += 1
        return wp.vec4i(0, j, k, m)

    @wp.func
    def hull_features(
        geometries: Geometries, planes: MujocoPlanes, b: int, scale: vec3, up: vec3, height: scalar, margin: scalar
    ):
        """Return up to four vertices, the lowest first and the others around the face; -1 for missing ones."""
        vertices = geometries.hull_vertices
        first = geometries.vertex_start[b]
        lowest, least = lowest_vertex(vertices, planes, first, geometries.vertex_start[b + 1], scale, up)
        features = wp.vec4i(-1, -1, -1, -1)
        if not height + least < margin:
            return features
        features[0] = lowest
        face = face_below(planes, scale, up, first + lowest)
        if face < 0:
            return features
        start = planes.polygon_start[face]
        count = planes.polygon_start[face + 1] - start
        middle = wp.dot(up, wp.cw_mul(planes.centre[b], scale))
        position = wp.int32(0)
        for k in range(count):
            if planes.polygon[start + k] == lowest:
                position = k
        chosen = wp.vec4i(0, 1, 2, 3)
        if count > 4:
            chosen = spread_corners(vertices, planes, first, scale, face, position)
        for k in range(1, 4):
            if k < count:
                vertex = planes.polygon[start + (position + chosen[k]) % count]
                along = wp.dot(up, wp.cw_mul(vertices[first + vertex], scale))
                if along <= middle and height + along < margin:
                    features[k] = vertex
        return features

    @wp.func
    def features_on_plane(
        geometries: Geometries, planes: MujocoPlanes, a: int, b: int, pose_a: transform, pose_b: transform, size: vec3,
        margin: scalar, otherwise: wp.vec4i,
    ):  # fmt: skip
        """Return the features of a body b on a plane a, -1 for missing ones; ``otherwise`` for other shapes, and where
        the law isn't MuJoCo's.
        """
        features = otherwise
        kind = geometries.type[b]
        if planes.by_mujoco == 1 and (kind == BOX or kind == CONVEX or kind == CYLINDER):
            normal = wp.quat_rotate(wp.transform_get_rotation(pose_a), vec3(scalar(0.0), scalar(0.0), scalar(1.0)))
            up = wp.quat_rotate_inv(wp.transform_get_rotation(pose_b), normal)
            height = wp.dot(normal, wp.transform_get_translation(pose_b) - wp.transform_get_translation(pose_a))
            if kind == BOX:
                features = box_features(size, up, height, margin)
            elif kind == CONVEX:
                features = hull_features(geometries, planes, b, size, up, height, margin)
            else:
                features = cylinders.triangle_features(up)
        return features

    return SimpleNamespace(features_on_plane=features_on_plane)
