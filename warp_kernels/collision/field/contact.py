"""The contact of one part of a body with one element of a heightfield; smooth, and differentiated.

All is in the frame of the field. A feature is PARTS * element + part. Parts of a body:

- sphere: 0, its centre; ellipsoid: 0, all of it;
- capsule: 0 and 1, the lower and upper end of its segment; 2, the inside of the segment;
- box: 0 to 7, its corners; 8 to 13, its faces (2 * axis, plus one on the positive side), against a point of the field;
  14 to 25, its edges (4 * axis, plus bits for the sides of the two following axes), against an edge of the field.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.ellipsoids import ellipsoid_functions
from warp_kernels.collision.field.grid import POINT, UPPER_TRIANGLE, grid_functions
from warp_kernels.types import BOX, CAPSULE, ELLIPSOID, HEIGHTFIELD, SPHERE, warp_types

# The most contacts that a body of each type can have with a field at once.
MAX_FIELD_CONTACTS = {(kind, HEIGHTFIELD): 4 for kind in (SPHERE, CAPSULE, BOX, ELLIPSOID)}

PARTS = 32
SEGMENT = 2
FIRST_FACE = 8
FIRST_EDGE = 14
END_PART = 26


@functools.cache
def contact_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision.

    Contact functions return the distance, the contact's place on the field, and the unit normal from there to the body.
    """
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    ellipsoids = ellipsoid_functions(scalar)

    @wp.func
    def unit(v: vec3):
        """A vector made a unit one; +z where it has no length."""
        square = wp.dot(v, v)
        result = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        if square > scalar(1.0e-24):
            result = v / wp.sqrt(square)
        return result

    @wp.func
    def upward(v: vec3):
        result = v
        if v[2] < scalar(0.0):
            result = -v
        return result

    @wp.func
    def axis_of(index: int):
        axis = vec3(scalar(1.0), scalar(0.0), scalar(0.0))
        if index == 1:
            axis = vec3(scalar(0.0), scalar(1.0), scalar(0.0))
        elif index == 2:
            axis = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        return axis

    @wp.func
    def sign_of(bit: int):
        return scalar(2 * bit - 1)

    @wp.func
    def ball_contact(kind: int, corners: mat33, centre: vec3, radius: scalar):
        """A ball, or for no radius a point, against the plane of a triangle, the line of an edge, or a point."""
        a = corners[0]
        distance = scalar(0.0)
        place = vec3()
        normal = vec3()
        if kind <= UPPER_TRIANGLE:
            normal = unit(wp.cross(corners[1] - a, corners[2] - a))
            distance = wp.dot(normal, centre - a)
            place = centre - distance * normal
        else:
            place = a
            if kind != POINT:
                edge = corners[1] - a
                place = a + (wp.dot(centre - a, edge) / wp.dot(edge, edge)) * edge
            delta = centre - place
            normal = unit(delta)
            distance = wp.dot(normal, delta)
        return distance - radius, place, normal

    @wp.func
    def line_contact(start: vec3, edge: vec3, centre: vec3, axis: vec3, radius: scalar):
        """The line of a body's edge or segment, with a radius, across the line of an edge of the field."""
        across = wp.cross(edge, axis)
        normal = unit(upward(across))
        delta = centre - start
        distance = wp.dot(normal, delta)
        place = start
        square = wp.dot(across, across)
        if square > scalar(1.0e-24):
            place = start + (wp.dot(wp.cross(delta, axis), across) / square) * edge
        return distance - radius, place, normal

    @wp.func
    def segment_contact(kind: int, corners: mat33, pose: transform, size: vec3):
        """The inside of a capsule's segment against the line of an edge, or a point."""
        centre = wp.transform_get_translation(pose)
        axis = wp.quat_rotate(wp.transform_get_rotation(pose), axis_of(2))
        distance = scalar(0.0)
        place = vec3()
        normal = vec3()
        if kind == POINT:
            nearest = centre + wp.dot(corners[0] - centre, axis) * axis
            place = corners[0]
            delta = nearest - place
            normal = unit(upward(delta))
            distance = wp.dot(normal, delta) - size[0]
        else:
            distance, place, normal = line_contact(corners[0], corners[1] - corners[0], centre, axis, size[0])
        return distance, place, normal

    @wp.func
    def box_corner(part: int, size: vec3):
        return wp.cw_mul(vec3(sign_of(part & 1), sign_of((part >> 1) & 1), sign_of((part >> 2) & 1)), size)

    @wp.func
    def box_face_normal(part: int):
        """Outward normal of a face in the box's axes."""
        face = part - FIRST_FACE
        return sign_of(face & 1) * axis_of(face >> 1)

    @wp.func
    def box_edge_sides(part: int):
        """Outward normals of the two faces at an edge in the box's axes, as rows; the third row is along the edge."""
        index = part - FIRST_EDGE
        axis = index >> 2
        return wp.matrix_from_rows(
            sign_of(index & 1) * axis_of((axis + 1) % 3),
            sign_of((index >> 1) & 1) * axis_of((axis + 2) % 3),
            axis_of(axis),
        )

    @wp.func
    def box_contact(part: int, kind: int, corners: mat33, pose: transform, size: vec3):
        q = wp.transform_get_rotation(pose)
        centre = wp.transform_get_translation(pose)
        distance = scalar(0.0)
        place = vec3()
        normal = vec3()
        if part < FIRST_FACE:
            corner = wp.transform_point(pose, box_corner(part, size))
            distance, place, normal = ball_contact(kind, corners, corner, scalar(0.0))
        elif part < FIRST_EDGE:
            local = box_face_normal(part)
            normal = -wp.quat_rotate(q, local)
            place = corners[0]
            distance = wp.dot(normal, centre - place) - wp.dot(wp.cw_mul(local, local), size)
        else:
            sides = box_edge_sides(part)
            start = wp.transform_point(pose, wp.cw_mul(sides[0] + sides[1], size))
            along = wp.quat_rotate(q, sides[2])
            distance, place, normal = line_contact(corners[0], corners[1] - corners[0], start, along, scalar(0.0))
        return distance, place, normal

    @wp.func
    def ellipsoid_contact(kind: int, corners: mat33, pose: transform, size: vec3):
        """An ellipsoid against the plane of a triangle, the line of an edge, or a point."""
        distance = scalar(0.0)
        place = corners[0]
        normal = vec3()
        if kind <= UPPER_TRIANGLE:
            normal = unit(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
            lowest = ellipsoids.lowest_point(pose, size, normal)
            distance = wp.dot(normal, lowest - corners[0])
            place = lowest - distance * normal
        elif kind == POINT:
            gap, outward = ellipsoids.point_ellipsoid(corners[0], pose, size)
            distance = gap
            normal = -outward
        else:
            direction = unit(corners[1] - corners[0])
            side = unit(wp.cross(axis_of(2), direction))
            gap, outward = ellipsoids.line_ellipsoid(corners[0], direction, side, pose, size)
            distance = gap
            normal = -outward
            place = ellipsoids.lowest_point(pose, size, normal) - distance * normal
        return distance, place, normal

    @wp.func
    def part_contact(type: int, part: int, kind: int, corners: mat33, pose: transform, size: vec3):
        """The contact of a part of a body of this type, at a pose in the field's frame, with an element's corners."""
        distance = scalar(0.0)
        place = vec3()
        normal = vec3()
        if type == BOX:
            distance, place, normal = box_contact(part, kind, corners, pose, size)
        elif type == ELLIPSOID:
            distance, place, normal = ellipsoid_contact(kind, corners, pose, size)
        elif type == CAPSULE and part == SEGMENT:
            distance, place, normal = segment_contact(kind, corners, pose, size)
        else:
            centre = wp.transform_get_translation(pose)
            if type == CAPSULE:
                axis = wp.quat_rotate(wp.transform_get_rotation(pose), axis_of(2))
                centre = centre + (sign_of(part) * size[1]) * axis
            distance, place, normal = ball_contact(kind, corners, centre, size[0])
        return distance, place, normal

    return SimpleNamespace(
        part_contact=part_contact,
        box_corner=box_corner,
        box_face_normal=box_face_normal,
        box_edge_sides=box_edge_sides,
        axis_of=axis_of,
        sign_of=sign_of,
        grid=grid_functions(scalar),
    )
