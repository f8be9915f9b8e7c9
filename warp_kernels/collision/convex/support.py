"""Convex shapes of the narrow phase: vertices, a rounding beyond them, faces, and a support function.

Each point of a surface is a vertex plus a rounding that depends on the outward direction there:

- sphere and capsule: the centre or an end of the axis, and the radius along the direction;
- ellipsoid: the centre, and the ellipsoid's own support point;
- box and hull: a vertex, without rounding;
- cylinder: an end of the axis (codes ``AXIS`` and ``AXIS + 1``), and the radius along the direction's part across the
  axis. Both ends together are the line of the side. Codes below ``AXIS`` are points of the rims fixed to the body, the
  corners of two octagons that approximate the end discs when faces are clipped.

Vertices are stored for unit sizes; :func:`scale_of` stretches them. The core of a sphere or a capsule is its centre or
axis, that of any other shape is all of it.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import BOX, CAPSULE, CONVEX, CYLINDER, ELLIPSOID, SPHERE, warp_types

# Corners of the polygon that approximates an end disc of a cylinder, and the code of the lower end of its axis.
DISC_SIDES = 8
AXIS = 2 * DISC_SIDES

# Maximum number of corners of a face; larger faces are thinned out (see sim/model/shapes/hulls.py).
MAX_CORNERS = 16

# A cylinder whose axis has a smaller squared sine to a direction has no lowest point of its rim in that direction
# (compare warp_kernels/collision/shapes/cylinders.py).
UPRIGHT_SINE_SQUARED = 1.0e-10


@functools.cache
def shape_functions(scalar: Any) -> SimpleNamespace:
    """Return the struct Shape and Warp functions for one precision. Directions and points are in the shape's own
    frame.
    """
    t = warp_types(scalar)
    vec3 = t.vec3

    @wp.struct
    class Shape:
        """Geometry with the ranges of its vertices and faces in the packed arrays."""

        type: int
        size: vec3
        first_vertex: int
        num_vertices: int
        first_face: int
        num_faces: int

    @wp.func
    def make_shape(type: int, size: vec3, extent: wp.vec4i):
        shape = Shape()
        shape.type = type
        shape.size = size
        shape.first_vertex = extent[0]
        shape.num_vertices = extent[1]
        shape.first_face = extent[2]
        shape.num_faces = extent[3]
        return shape

    @wp.func
    def scale_of(type: int, size: vec3):
        """Return the factors that scale the vertices of unit size."""
        scale = size
        if type == CAPSULE or type == CYLINDER:
            scale = vec3(size[0], size[0], size[1])
        return scale

    @wp.func
    def core_radius(type: int, size: vec3):
        """Return the radius of a shape around its core."""
        radius = scalar(0.0)
        if type == SPHERE or type == CAPSULE:
            radius = size[0]
        return radius

    @wp.func
    def vertex(shape: Shape, vertices: wp.array(dtype=vec3), code: int):
        """Return a vertex by its code; the origin for the code -1."""
        if code < 0:
            return vec3()
        return wp.cw_mul(vertices[shape.first_vertex + code], scale_of(shape.type, shape.size))

    @wp.func
    def sign_bit(x: scalar):
        return wp.where(x > scalar(0.0), 1, 0)

    @wp.func
    def farthest_vertex(shape: Shape, vertices: wp.array(dtype=vec3), first: int, end: int, direction: vec3):
        """Return the first of the vertices from ``first`` to before ``end`` that is farthest in a direction."""
        stretched = wp.cw_mul(direction, scale_of(shape.type, shape.size))
        best = wp.int32(first)
        most = wp.dot(stretched, vertices[shape.first_vertex + first])
        for k in range(first + 1, end):
            along = wp.dot(stretched, vertices[shape.first_vertex + k])
            if along > most:
                most = along
                best = k
        return best

    @wp.func
    def across_axis(direction: vec3, radius: scalar):
        """Return a radius along a direction's part across the axis z; zero if there is none."""
        square = direction[0] * direction[0] + direction[1] * direction[1]
        result = vec3()
        if square > scalar(1.0e-24):
            result = (radius / wp.sqrt(square)) * vec3(direction[0], direction[1], scalar(0.0))
        return result

    @wp.func
    def ellipsoid_point(direction: vec3, radii: vec3):
        """Return the point of an ellipsoid that is farthest in a direction."""
        stretched = wp.cw_mul(direction, radii)
        square = wp.dot(stretched, stretched)
        result = vec3()
        if square > scalar(1.0e-24):
            result = wp.cw_mul(stretched, radii) / wp.sqrt(square)
        return result

    @wp.func
    def core_support(shape: Shape, vertices: wp.array(dtype=vec3), direction: vec3):
        """Return the point of the core that is farthest in a direction, and the code of the vertex, -1 on a
        cylinder.
        """
        code = wp.int32(0)
        point = vec3()
        if shape.type == BOX:
            code = sign_bit(direction[0]) + 2 * sign_bit(direction[1]) + 4 * sign_bit(direction[2])
            point = vertex(shape, vertices, code)
        elif shape.type == CAPSULE:
            code = sign_bit(direction[2])
            point = vertex(shape, vertices, code)
        elif shape.type == CONVEX:
            code = farthest_vertex(shape, vertices, 0, shape.num_vertices, direction)
            point = vertex(shape, vertices, code)
        elif shape.type == CYLINDER:
            point = vertex(shape, vertices, AXIS + sign_bit(direction[2])) + across_axis(direction, shape.size[0])
            code = -1
        elif shape.type == ELLIPSOID:
            point = ellipsoid_point(direction, shape.size)
        return point, code

    @wp.func
    def face_normal(shape: Shape, normals: wp.array(dtype=vec3), face: int):
        """Return the outward unit normal of a face of the scaled shape."""
        n = normals[shape.first_face + face]
        s = scale_of(shape.type, shape.size)
        return wp.normalize(vec3(n[0] * s[1] * s[2], n[1] * s[2] * s[0], n[2] * s[0] * s[1]))

    @wp.func
    def facing(shape: Shape, normals: wp.array(dtype=vec3), direction: vec3):
        """Return the face whose normal is most aligned with a direction, -1 for a shape without faces, and the cosine
        between the two.
        """
        best = wp.int32(-1)
        most = scalar(-2.0)
        for k in range(shape.num_faces):
            cosine = wp.dot(face_normal(shape, normals, k), direction)
            if cosine > most:
                most = cosine
                best = k
        return best, most

    return SimpleNamespace(
        Shape=Shape,
        make_shape=make_shape,
        scale_of=scale_of,
        core_radius=core_radius,
        vertex=vertex,
        sign_bit=sign_bit,
        farthest_vertex=farthest_vertex,
        across_axis=across_axis,
        ellipsoid_point=ellipsoid_point,
        core_support=core_support,
        face_normal=face_normal,
        facing=facing,
    )
