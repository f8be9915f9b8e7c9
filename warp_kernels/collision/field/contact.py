"""The contact of one part of a round body with one element of a heightfield; smooth, and differentiated.

Everything is in the frame of the field. A feature is PARTS * element + part. Parts of a body:

- sphere: 0, its centre; ellipsoid: 0, all of it;
- capsule: 0 and 1, the lower and upper end of its segment; 2, the inside of the segment;
- cylinder: 0 to 9, points of its rims, against a triangle (see :mod:`warp_kernels.collision.shapes.cylinders`); 10 and 11, its
  lower and upper disc, against a point of the field; 12 to 15, its rims (2 * end + side), against an edge, and 12 and 14
  against a point; 16, the curved surface between them.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.grid import KINDS, POINT, UPPER_TRIANGLE
from warp_kernels.collision.field.lines import line_functions, rim_functions
from warp_kernels.collision.field.surface import surface_functions
from warp_kernels.collision.shapes.cylinders import RIM_POINTS, cylinder_functions
from warp_kernels.collision.shapes.ellipsoids import ellipsoid_functions
from warp_kernels.collision.structs import collision_structs
from warp_kernels.types import CAPSULE, CYLINDER, ELLIPSOID, warp_types

PARTS = 32
SEGMENT = 2
FIRST_DISC = RIM_POINTS
FIRST_RIM = FIRST_DISC + 2
SIDE = FIRST_RIM + 4


@functools.cache
def field_contact_functions(scalar: Any, ground: str) -> SimpleNamespace:
    """Return the Warp functions for one precision.

    Contact functions return the distance, the contact's point on the field, and the unit normal from there to the body.
    """
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    surface = surface_functions(scalar, ground)
    Data = surface.Data
    Geometries = collision_structs(scalar).Geometries
    lines = line_functions(scalar)
    rims = rim_functions(scalar)
    cylinders = cylinder_functions(scalar)
    ellipsoids = ellipsoid_functions(scalar)

    @wp.func
    def axis_of(pose: transform):
        """Return the body's own z."""
        return wp.quat_rotate(wp.transform_get_rotation(pose), vec3(scalar(0.0), scalar(0.0), scalar(1.0)))

    @wp.func
    def end_of(end: int, pose: transform, size: vec3):
        """Return the lower (0) or upper (1) end of the axis of a capsule or cylinder."""
        return wp.transform_get_translation(pose) + (scalar(2 * end - 1) * size[1]) * axis_of(pose)

    @wp.func
    def segment_contact(kind: int, corners: mat33, up: vec3, pose: transform, size: vec3):
        """Return the contact of the side of a capsule or a cylinder, a radius around its axis, with the line of an
        edge, or a point.
        """
        centre = wp.transform_get_translation(pose)
        axis = axis_of(pose)
        distance = scalar(0.0)
        point = vec3()
        normal = vec3()
        if kind == POINT:
            distance, point, normal = lines.point_contact(corners[0], up, centre, axis, size[0])
        else:
            distance, point, normal = lines.line_contact(corners[0], corners[1] - corners[0], up, centre, axis, size[0])
        return distance, point, normal

    @wp.func
    def ellipsoid_contact(kind: int, corners: mat33, up: vec3, pose: transform, size: vec3):
        """Return the contact of an ellipsoid with the plane of a triangle, the line of an edge, or a point."""
        distance = scalar(0.0)
        point = corners[0]
        normal = vec3()
        if kind <= UPPER_TRIANGLE:
            normal = lines.unit(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
            lowest = ellipsoids.lowest_point(pose, size, normal)
            distance = wp.dot(normal, lowest - corners[0])
            point = lowest - distance * normal
        elif kind == POINT:
            gap, outward = ellipsoids.point_ellipsoid(corners[0], pose, size)
            distance = gap
            normal = -outward
        else:
            direction = lines.unit(corners[1] - corners[0])
            side = lines.unit(wp.cross(up, direction))
            gap, outward = ellipsoids.line_ellipsoid(corners[0], direction, side, pose, size)
            distance = gap
            normal = -outward
            point = ellipsoids.lowest_point(pose, size, normal) - distance * normal
        return distance, point, normal

    @wp.func
    def disc_contact(end: int, corners: mat33, pose: transform, size: vec3):
        """Return the contact of an end disc of a cylinder with a point."""
        point = corners[0]
        normal = -scalar(2 * end - 1) * axis_of(pose)
        return wp.dot(normal, end_of(end, pose, size) - point), point, normal

    @wp.func
    def rim_point_contact(part: int, corners: mat33, pose: transform, size: vec3):
        """Return the contact of a rim point, selected for its depth below the plane of a triangle, with that plane."""
        normal = lines.unit(wp.cross(corners[1] - corners[0], corners[2] - corners[0]))
        point = cylinders.rim_point(part, pose, size, normal)
        distance = wp.dot(normal, point - corners[0])
        return distance, point - distance * normal, normal

    @wp.func
    def rim_contact(number: int, kind: int, corners: mat33, up: vec3, pose: transform, size: vec3):
        """Return the contact of a rim, 2 * end + side, with the line of an edge, or a point."""
        centre = end_of(number >> 1, pose, size)
        axis = axis_of(pose)
        distance = scalar(0.0)
        point = vec3()
        normal = vec3()
        if kind == POINT:
            distance, point, normal = rims.rim_over_point(corners[0], up, centre, axis, size[0])
        else:
            distance, point, normal = rims.rim_contact(number & 1, corners, up, centre, axis, size[0])
        return distance, point, normal

    @wp.func
    def cylinder_contact(part: int, kind: int, corners: mat33, up: vec3, pose: transform, size: vec3):
        distance = scalar(0.0)
        point = vec3()
        normal = vec3()
        if part < FIRST_DISC:
            distance, point, normal = rim_point_contact(part, corners, pose, size)
        elif part < FIRST_RIM:
            distance, point, normal = disc_contact(part - FIRST_DISC, corners, pose, size)
        elif part < SIDE:
            distance, point, normal = rim_contact(part - FIRST_RIM, kind, corners, up, pose, size)
        else:
            distance, point, normal = segment_contact(kind, corners, up, pose, size)
        return distance, point, normal

    @wp.func
    def part_contact(type: int, part: int, kind: int, corners: mat33, up: vec3, pose: transform, size: vec3):
        """Return the contact of a part of a body of this type, at a pose in the field's frame, with an element."""
        distance = scalar(0.0)
        point = vec3()
        normal = vec3()
        if type == CYLINDER:
            distance, point, normal = cylinder_contact(part, kind, corners, up, pose, size)
        elif type == ELLIPSOID:
            distance, point, normal = ellipsoid_contact(kind, corners, up, pose, size)
        elif type == CAPSULE and part == SEGMENT:
            distance, point, normal = segment_contact(kind, corners, up, pose, size)
        else:
            centre = wp.transform_get_translation(pose)
            if type == CAPSULE:
                centre = end_of(part, pose, size)
            distance, point, normal = lines.ball_contact(kind, corners, centre, size[0])
        return distance, point, normal

    @wp.func
    def field_contact(
        geometries: Geometries, a: int, b: int, feature: int, pose_a: transform, size_a: vec3, pose_b: transform,
        size_b: vec3, data: Data, world: int,
    ):  # fmt: skip
        """Return the distance, the point midway between the surfaces and the normal of a feature of a body and a field
        at these poses.
        """
        local = wp.transform_multiply(wp.transform_inverse(pose_b), pose_a)
        element = feature // PARTS
        field = surface.field_of(geometries, b, size_b, data, world)
        corners = surface.corners_of(data, field, element)
        up = surface.up_of(data, field, element)
        type = geometries.type[a]
        distance, point, upward = part_contact(type, feature % PARTS, element % KINDS, corners, up, local, size_a)
        normal = -wp.quat_rotate(wp.transform_get_rotation(pose_b), upward)
        return distance, wp.transform_point(pose_b, point + (scalar(0.5) * distance) * upward), normal

    return SimpleNamespace(
        axis_of=axis_of,
        end_of=end_of,
        segment_contact=segment_contact,
        ellipsoid_contact=ellipsoid_contact,
        disc_contact=disc_contact,
        rim_point_contact=rim_point_contact,
        rim_contact=rim_contact,
        part_contact=part_contact,
        field_contact=field_contact,
    )
