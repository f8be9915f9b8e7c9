"""Distance, point and normal of two convex shapes whose touching features are known; smooth, and differentiated.

Everything is in the frame of shape a: ``rotation`` is that of b there. A feature is up to three vertices of each shape,
by code and by position (see :mod:`warp_kernels.collision.convex.support`). The mode selects their meaning:

- ``FACE_VERTEX``: three vertices of a face, and a vertex of the other shape;
- ``FACE_CUT``: a face, and the point where an edge of the other shape crosses the plane perpendicular to the face
  through the edge between its first two vertices; a third vertex is one of the other's face, if the edge belongs to
  that;
- ``FACE_BACK``: the first vertex of a face, and three vertices of the other shape's face above it;
- ``EDGES``: two edges; in the order of their vertices, the cross product points from a to b. The point is midway
  between their closest points, also if they don't cross;
- ``ROUND``: two vertices, or an edge and a vertex. The normal n is where the separation n . (b(-n) - a(n)) of the
  support points is stationary (among the directions across the edge). One Newton step about the normal that the
  detection found leads there; by the implicit function theorem it has the exact derivative.

In the first three the face is that of a; ``OF_B`` is added where it is that of b.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.convex.support import AXIS, shape_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, CYLINDER, ELLIPSOID, SPHERE, warp_types

FACE_VERTEX = 0
FACE_CUT = 1
FACE_BACK = 2
OF_B = 4
EDGES = 8
ROUND = 9


@functools.cache
def convex_contact_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. Contact functions return (distance, point, normal)."""
    t = warp_types(scalar)
    vec3, quat, transform = t.vec3, t.quat, t.transform
    shapes = shape_functions(scalar)
    structs = collision_structs(scalar)
    Geometries, PackedShapes = structs.Geometries, structs.PackedShapes
    half = scalar(0.5)

    @wp.func
    def unit(v: vec3):
        """Return a vector scaled to unit length; z for the zero vector."""
        square = wp.dot(v, v)
        result = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        if square > scalar(1.0e-30):
            result = v / wp.sqrt(square)
        return result

    @wp.func
    def rounding(type: int, code: int, size: vec3, rotation: quat, direction: vec3):
        """Return the offset from a vertex to the surface around it, in an outward direction."""
        result = vec3()
        if type == SPHERE or type == CAPSULE:
            result = size[0] * direction
        elif type == CYLINDER and code >= AXIS:
            local = shapes.across_axis(wp.quat_rotate_inv(rotation, direction), size[0])
            result = wp.quat_rotate(rotation, local)
        elif type == ELLIPSOID:
            local = shapes.ellipsoid_point(wp.quat_rotate_inv(rotation, direction), size)
            result = wp.quat_rotate(rotation, local)
        return result

    @wp.func
    def bend(type: int, code: int, size: vec3, rotation: quat, direction: vec3, turn: vec3):
        """Return the rate at which a rounding moves along ``turn`` as its direction turns that way."""
        result = scalar(0.0)
        if type == SPHERE or type == CAPSULE:
            result = size[0] * wp.dot(turn, turn)
        elif type == CYLINDER and code >= AXIS:
            m = wp.quat_rotate_inv(rotation, direction)
            u = wp.quat_rotate_inv(rotation, turn)
            square = m[0] * m[0] + m[1] * m[1]
            if square > scalar(1.0e-24):
                along = m[0] * u[1] - m[1] * u[0]
                result = size[0] * along * along / (square * wp.sqrt(square))
        elif type == ELLIPSOID:
            # x = r^2 m / |r m| changes by (r^2 u - (x . u) x) / |r m|.
            m = wp.cw_mul(size, wp.quat_rotate_inv(rotation, direction))
            u = wp.cw_mul(size, wp.quat_rotate_inv(rotation, turn))
            square = wp.dot(m, m)
            if square > scalar(1.0e-24):
                along = wp.dot(m, u)
                result = (wp.dot(u, u) - along * along / square) / wp.sqrt(square)
        return result

    @wp.func
    def face_contact(
        feature: int,
        r0: vec3,
        r1: vec3,
        r2: vec3,
        type: int,
        code: int,
        size: vec3,
        rotation: quat,
        i0: vec3,
        i1: vec3,
        i2: vec3,
    ):
        """Return the contact of a face r with the vertices i of a shape of this type, size and rotation; the normal
        points out of r.
        """
        normal = unit(wp.cross(r1 - r0, r2 - r0))
        point = i0 + rounding(type, code, size, rotation, -normal)
        if feature == FACE_CUT:
            side = wp.cross(r1 - r0, normal)
            rate = wp.dot(i1 - i0, side)
            if wp.abs(rate) > scalar(1.0e-30):
                point = point + (wp.dot(r0 - point, side) / rate) * (i1 - i0)
        elif feature == FACE_BACK:
            across = wp.cross(i1 - i0, i2 - i0)
            rate = wp.dot(normal, across)
            if wp.abs(rate) > scalar(1.0e-30):
                point = r0 + (wp.dot(i0 - r0, across) / rate) * normal
        distance = wp.dot(normal, point - r0)
        return distance, point - (half * distance) * normal, normal

    @wp.func
    def share_of_edge(offset: vec3, edge: vec3):
        """Return the share of an edge at which it is closest to a point, relative to its start."""
        square = wp.dot(edge, edge)
        share = scalar(0.0)
        if square > scalar(0.0):
            share = wp.clamp(wp.dot(offset, edge) / square, scalar(0.0), scalar(1.0))
        return share

    @wp.func
    def middle_of_edges(share: scalar, start_a: vec3, edge_a: vec3, start_b: vec3, edge_b: vec3):
        """Return the point midway between the closest points of two edges (Ericson, *Real-Time Collision Detection*,
        2005, 5.1.9); share: that of edge a at which the lines are closest.
        """
        on_a = start_a + wp.clamp(share, scalar(0.0), scalar(1.0)) * edge_a
        on_b = start_b + share_of_edge(on_a - start_b, edge_b) * edge_b
        closest = start_a + share_of_edge(on_b - start_a, edge_a) * edge_a
        return half * (closest + on_b)

    @wp.func
    def edge_contact(
        type_a: int,
        code_a: int,
        size_a: vec3,
        a0: vec3,
        a1: vec3,
        type_b: int,
        code_b: int,
        size_b: vec3,
        rotation: quat,
        b0: vec3,
        b1: vec3,
    ):
        edge_a = a1 - a0
        edge_b = b1 - b0
        across = wp.cross(edge_a, edge_b)
        normal = unit(across)
        start_a = a0 + rounding(type_a, code_a, size_a, wp.quat_identity(dtype=scalar), normal)
        start_b = b0 + rounding(type_b, code_b, size_b, rotation, -normal)
        delta = start_b - start_a
        distance = wp.dot(normal, delta)
        square = wp.dot(across, across)
        share = scalar(0.0)
        if square > scalar(1.0e-30):
            share = wp.dot(wp.cross(delta, edge_b), across) / square
        return distance, middle_of_edges(share, start_a, edge_a, start_b, edge_b), normal

    @wp.func
    def turned_on(
        type_a: int,
        code_a: int,
        size_a: vec3,
        type_b: int,
        code_b: int,
        size_b: vec3,
        rotation: quat,
        delta: vec3,
        normal: vec3,
        edge: vec3,
    ):
        """Return the normal after a Newton step towards the stationary separation; ``delta`` is from the vertex of a to
        that of b.

        Along a turn w the separation s has the slope w . delta and the curvature -(s + bend of a + bend of b). With an
        edge, ``normal`` is across it and stays so.
        """
        identity = wp.quat_identity(dtype=scalar)
        gap = delta + rounding(type_b, code_b, size_b, rotation, -normal)
        gap = gap - rounding(type_a, code_a, size_a, identity, normal)
        s = wp.dot(normal, gap)
        u = vec3(scalar(1.0), scalar(0.0), scalar(0.0))
        if wp.abs(normal[0]) > scalar(0.6):
            u = vec3(scalar(0.0), scalar(1.0), scalar(0.0))
        if wp.dot(edge, edge) > scalar(0.0):
            u = edge
        v = unit(wp.cross(u, normal))
        w = wp.cross(normal, v)
        slope_v = wp.dot(v, gap)
        slope_w = wp.dot(w, gap)
        vv = s + bend(type_a, code_a, size_a, identity, normal, v)
        vv = vv + bend(type_b, code_b, size_b, rotation, -normal, v)
        turn = vec3()
        if wp.dot(edge, edge) > scalar(0.0):
            if wp.abs(vv) > scalar(1.0e-12):
                turn = (slope_v / vv) * v
        else:
            ww = s + bend(type_a, code_a, size_a, identity, normal, w)
            ww = ww + bend(type_b, code_b, size_b, rotation, -normal, w)
            # The bend is a square of a linear form, so its mixed term follows from that of v + w.
            both = s + s + bend(type_a, code_a, size_a, identity, normal, v + w)
            both = both + bend(type_b, code_b, size_b, rotation, -normal, v + w)
            vw = half * (both - vv - ww)
            det = vv * ww - vw * vw
            if wp.abs(det) > scalar(1.0e-20):
                turn = ((ww * slope_v - vw * slope_w) / det) * v + ((vv * slope_w - vw * slope_v) / det) * w
        return unit(normal + turn)

    @wp.func
    def round_contact(
        type_a: int,
        codes_a: wp.vec3i,
        size_a: vec3,
        a0: vec3,
        a1: vec3,
        type_b: int,
        codes_b: wp.vec3i,
        size_b: vec3,
        rotation: quat,
        b0: vec3,
        b1: vec3,
        witness: vec3,
    ):
        edge = vec3()
        if codes_a[1] >= 0:
            edge = unit(a1 - a0)
        elif codes_b[1] >= 0:
            edge = unit(b1 - b0)
        start = unit(witness - wp.dot(witness, edge) * edge)
        code_a = codes_a[0]
        code_b = codes_b[0]
        normal = turned_on(type_a, code_a, size_a, type_b, code_b, size_b, rotation, b0 - a0, start, edge)
        point_a = a0 + rounding(type_a, code_a, size_a, wp.quat_identity(dtype=scalar), normal)
        point_b = b0 + rounding(type_b, code_b, size_b, rotation, -normal)
        gap = point_b - point_a
        distance = wp.dot(normal, gap)
        point = half * (point_a + point_b)
        # The point on the edge closest to the vertex.
        if codes_a[1] >= 0:
            point = point + (half * wp.dot(gap, edge)) * edge
        elif codes_b[1] >= 0:
            point = point - (half * wp.dot(gap, edge)) * edge
        return distance, point, normal

    @wp.func(inline=False)
    def feature_contact(
        mode: int,
        type_a: int,
        codes_a: wp.vec3i,
        size_a: vec3,
        a0: vec3,
        a1: vec3,
        a2: vec3,
        type_b: int,
        codes_b: wp.vec3i,
        size_b: vec3,
        rotation: quat,
        b0: vec3,
        b1: vec3,
        b2: vec3,
        witness: vec3,
    ):
        """Return the distance, the point midway between the surfaces and the normal from a to b."""
        distance = scalar(0.0)
        point = vec3()
        normal = vec3()
        if mode == EDGES:
            distance, point, normal = edge_contact(
                type_a, codes_a[0], size_a, a0, a1, type_b, codes_b[0], size_b, rotation, b0, b1
            )
        elif mode == ROUND:
            distance, point, normal = round_contact(
                type_a, codes_a, size_a, a0, a1, type_b, codes_b, size_b, rotation, b0, b1, witness
            )
        elif mode < OF_B:
            distance, point, normal = face_contact(mode, a0, a1, a2, type_b, codes_b[0], size_b, rotation, b0, b1, b2)
        else:
            identity = wp.quat_identity(dtype=scalar)
            distance, point, outward = face_contact(
                mode - OF_B, b0, b1, b2, type_a, codes_a[0], size_a, identity, a0, a1, a2
            )
            normal = -outward
        return distance, point, normal

    @wp.func
    def corner(vertices: wp.array(dtype=vec3), first: int, code: int, scale: vec3):
        """Return a vertex in its geometry's frame; the origin for the code -1."""
        result = vec3()
        if code >= 0:
            result = wp.cw_mul(vertices[first + code], scale)
        return result

    @wp.func
    def convex_contact(
        geometries: Geometries, packed: PackedShapes, a: int, b: int, mode: int, pose_a: transform, size_a: vec3,
        pose_b: transform, size_b: vec3, codes_a: wp.vec3i, codes_b: wp.vec3i, witness: vec3,
    ):  # fmt: skip
        """Return the distance, the point midway between the surfaces and the normal of a feature of two geometries at
        these poses.
        """
        type_a = geometries.type[a]
        type_b = geometries.type[b]
        vertices = packed.vertices
        first_a = packed.extent[a][0]
        first_b = packed.extent[b][0]
        centre_a = wp.transform_get_translation(pose_a)
        centre_b = wp.transform_get_translation(pose_b)
        turn_a = wp.transform_get_rotation(pose_a)
        turn_b = wp.transform_get_rotation(pose_b)
        rotation = wp.mul(wp.quat_inverse(turn_a), turn_b)
        offset = wp.quat_rotate_inv(turn_a, centre_b - centre_a)
        scale_a = shapes.scale_of(type_a, size_a)
        scale_b = shapes.scale_of(type_b, size_b)
        distance, point, normal = feature_contact(
            mode,
            type_a,
            codes_a,
            size_a,
            corner(vertices, first_a, codes_a[0], scale_a),
            corner(vertices, first_a, codes_a[1], scale_a),
            corner(vertices, first_a, codes_a[2], scale_a),
            type_b,
            codes_b,
            size_b,
            rotation,
            offset + wp.quat_rotate(rotation, corner(vertices, first_b, codes_b[0], scale_b)),
            offset + wp.quat_rotate(rotation, corner(vertices, first_b, codes_b[1], scale_b)),
            offset + wp.quat_rotate(rotation, corner(vertices, first_b, codes_b[2], scale_b)),
            witness,
        )
        return distance, centre_a + wp.quat_rotate(turn_a, point), wp.quat_rotate(turn_a, normal)

    return SimpleNamespace(
        unit=unit,
        rounding=rounding,
        turned_on=turned_on,
        feature_contact=feature_contact,
        convex_contact=convex_contact,
    )
