"""Contacts of a capsule with a box under MuJoCo's law: balls at one point or two of the capsule's segment.

The first ball is at the point of the segment that is nearest to an edge of the box, or at the end above a face, as in
``mjraw_CapsuleBox`` of MuJoCo 4 (engine_collision_box.c). A capsule that lies along a face or an edge has a second one
at its other end, or where it leaves the face. The point of a ball on the segment is s in -1 to 1 of its half length,
and a feature has

- a base: an end of the segment, or its point nearest to a corner or to the line through an edge;
- a step from there: none; the width of the box along one of its axes; or to the plane of a side, from any base;
- the zones of the ball's centre, see :mod:`warp_kernels.collision.shapes.boxes`.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.shapes.boxes import box_functions
from warp_kernels.types import warp_types

# Bases: the lower end, the upper end, 8 corners, 12 edges along x, y, z in turn.
LOWER_END = 0
UPPER_END = 1
FIRST_CORNER = 2
FIRST_EDGE = 10
BASES = 22
# Steps: none, then two for each axis, against it and along it: the width, and to the side.
FIRST_WIDTH = 1
FIRST_SIDE = 7
ZONES = 27
# Kinds of the box's part that is nearest to the segment.
NOTHING, FACE, EDGE, CORNER = range(4)
# Differences of squared lengths that count as rounding: MuJoCo's mjMINVAL, and a share of the squares.
LEAST = 1.0e-15
ROUNDING = {wp.float32: 1.0e-6, wp.float64: 0.0}


@functools.cache
def capsule_box_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision.

    ``centre`` and ``half_axis`` are those of the segment in the frame of the box, whose half extents are ``size``.
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    boxes = box_functions(scalar)
    corner_signs, sphere_box, sphere_box_feature = boxes.corner_signs, boxes.sphere_box, boxes.sphere_box_feature
    zero, one, two = scalar(0.0), scalar(1.0), scalar(2.0)
    least, rounding = scalar(LEAST), scalar(ROUNDING[scalar])

    @wp.struct
    class Nearest:
        """Nearest point of the segment: its base and s; the kind of the box's part there, and its corner, axis, and s."""

        base: int
        s: scalar
        kind: int
        corner: int
        axis: int
        on_edge: scalar

    @wp.func
    def edge_corner(edge: int):
        """Return the lower corner of an edge."""
        axis = edge // 4
        below = edge & ((1 << axis) - 1)
        return below + (((edge & 3) - below) << 1)

    @wp.func
    def segment_of(pose_a: transform, size_a: vec3, pose_b: transform):
        """Return the centre and the half axis of a capsule's segment in the frame of the box."""
        back = wp.transform_inverse(pose_b)
        turn = wp.transform_get_rotation(back)
        axis = wp.quat_rotate(wp.transform_get_rotation(pose_a), vec3(zero, zero, size_a[1]))
        return wp.transform_point(back, wp.transform_get_translation(pose_a)), wp.quat_rotate(turn, axis)

    @wp.func
    def coordinate(base: int, step: int, centre: vec3, half_axis: vec3, size: vec3):
        """Return s of a base and a step."""
        s = scalar(2 * base - 1)
        if base >= FIRST_CORNER:
            corner = base - FIRST_CORNER
            free = wp.int32(-1)
            if base >= FIRST_EDGE:
                corner = edge_corner(base - FIRST_EDGE)
                free = (base - FIRST_EDGE) // 4
            across = vec3(
                wp.where(free == 0, zero, half_axis[0]),
                wp.where(free == 1, zero, half_axis[1]),
                wp.where(free == 2, zero, half_axis[2]),
            )
            s = wp.dot(across, wp.cw_mul(corner_signs(corner), size) - centre) / wp.dot(across, across)
        if step >= FIRST_SIDE:
            axis = (step - FIRST_SIDE) // 2
            s = (scalar(2 * ((step - FIRST_SIDE) & 1) - 1) * size[axis] - centre[axis]) / half_axis[axis]
        elif step >= FIRST_WIDTH:
            axis = (step - FIRST_WIDTH) // 2
            s += scalar(2 * ((step - FIRST_WIDTH) & 1) - 1) * two * size[axis] / wp.abs(half_axis[axis])
        return s

    @wp.func
    def end_over_face(end: int, centre: vec3, half_axis: vec3, size: vec3):
        """Return the squared distance of an end from the face above which it is, -1 for none, and the face's axis, -1
        inside the box.
        """
        point = centre + scalar(2 * end - 1) * half_axis
        distance = scalar(0.0)
        face = wp.int32(-1)
        count = wp.int32(0)
        for k in range(3):
            beyond = wp.abs(point[k]) - size[k]
            if beyond > zero:
                distance = beyond * beyond
                face = k
                count += 1
        return wp.where(count > 1, -one, distance), face

    @wp.func
    def with_edge(nearest: Nearest, square: scalar, edge: int, centre: vec3, half_axis: vec3, size: vec3):
        """Return the nearest point and its squared distance, after an edge has been compared (Ericson, *Real-Time
        Collision Detection*, 2005, 5.1.9).
        """
        axis = edge // 4
        corner = edge_corner(edge)
        delta = wp.cw_mul(corner_signs(corner), size) - centre
        delta[axis] = -centre[axis]  # from the middle of the edge
        half_edge = size[axis]
        ma = half_edge * half_edge
        mb = -half_edge * half_axis[axis]
        mc = wp.dot(half_axis, half_axis)
        u = -half_edge * delta[axis]
        v = wp.dot(half_axis, delta)
        det = ma * mc - mb * mb
        if not wp.abs(det) >= least + rounding * ma * mc:
            return nearest, square
        on_edge = (mc * u - mb * v) / det
        s = (ma * v - mb * u) / det
        part = wp.int32(0)
        if wp.abs(on_edge) > one:
            on_edge = wp.sign(on_edge)
            part = wp.int32(on_edge)
            s = (v - on_edge * mb) / mc
        base = wp.where(part == 0, FIRST_EDGE + edge, FIRST_CORNER + corner + (wp.max(part, 0) << axis))
        if wp.abs(s) > one:
            s = wp.sign(s)
            base = wp.where(s > zero, UPPER_END, LOWER_END)
            on_edge = (u - s * mb) / ma
            # As in MuJoCo, an edge that was left for a corner stays so.
            if wp.abs(on_edge) > one:
                on_edge = wp.sign(on_edge)
                part = wp.int32(on_edge)
        delta -= s * half_axis
        delta[axis] += half_edge * on_edge
        distance = wp.dot(delta, delta)
        if not distance < square - least - rounding * square:
            return nearest, square
        result = Nearest()
        result.base = base
        result.s = s
        result.kind = wp.where(part == 0, EDGE, CORNER)
        result.corner = corner + (wp.max(part, 0) << axis)
        result.axis = axis
        result.on_edge = on_edge
        return result, distance

    @wp.func
    def nearest_point(centre: vec3, half_axis: vec3, size: vec3):
        """Return the point of the segment that is nearest to an edge of the box, or an end above a face, if nearer."""
        nearest = Nearest()
        nearest.kind = NOTHING
        square = scalar(1.0e30)
        for end in range(2):
            distance, face = end_over_face(end, centre, half_axis, size)
            if distance >= zero and distance < square:
                square = distance
                nearest.base = end
                nearest.s = scalar(2 * end - 1)
                nearest.kind = FACE
                nearest.axis = face
        edges = wp.int32(12)  # no constant, so that the loop isn't unrolled
        for edge in range(edges):
            nearest, square = with_edge(nearest, square, edge, centre, half_axis, size)
        return nearest

    @wp.func
    def towards(half_axis: vec3):
        """Return a bit for each axis along which the segment goes."""
        result = wp.int32(0)
        for k in range(3):
            if half_axis[k] > zero:
                result += 1 << k
        return result

    @wp.func
    def other_end(sign: int):
        return wp.vec2i(wp.where(sign > 0, UPPER_END, LOWER_END), 0)

    @wp.func
    def by_width(nearest: Nearest, axis: int, sign: int):
        return wp.vec2i(nearest.base, FIRST_WIDTH + 2 * axis + wp.where(sign > 0, 1, 0))

    @wp.func
    def width_along(axis: int, half_axis: vec3, size: vec3):
        """Return the change of s across the width of the box."""
        return two * size[axis] / wp.abs(half_axis[axis])

    @wp.func
    def second_at_corner(nearest: Nearest, half_axis: vec3, size: vec3):
        """Return base and step of the second ball of a segment that is nearest to a corner, -1 for none."""
        turned = towards(half_axis) ^ nearest.corner
        if turned == 0 or turned == 7:
            return wp.vec2i(-1, 0)
        sign = wp.int32(1)
        if turned == 3 or turned == 5 or turned == 6:
            sign = wp.int32(-1)
            turned = 7 - turned
        axis = turned // 2
        if half_axis[axis] * half_axis[axis] > scalar(0.5) * wp.dot(half_axis, half_axis):
            # Along the edge.
            result = other_end(sign)
            if width_along(axis, half_axis, size) < one - scalar(sign) * nearest.s:
                result = by_width(nearest, axis, sign)
            return result
        # Across the face.
        result = other_end(-sign)
        step = one + scalar(sign) * nearest.s
        for k in range(1, 3):
            side = (axis + k) % 3
            width = width_along(side, half_axis, size)
            if width < step:
                step = width
                result = by_width(nearest, side, -sign)
        return result

    @wp.func
    def second_at_edge(nearest: Nearest, half_axis: vec3, size: vec3):
        """Return base and step of the second ball of a segment that is nearest to an edge, -1 for none."""
        axis = nearest.axis
        turned = (towards(half_axis) ^ nearest.corner) & (7 - (1 << axis))
        if turned != 1 and turned != 2 and turned != 4:
            return wp.vec2i(-1, 0)
        # The face that the segment is more parallel to.
        other = (axis + 2) % 3
        if wp.abs(half_axis[(axis + 1) % 3]) > wp.abs(half_axis[other]):
            other = (axis + 1) % 3
        sign = wp.where(turned == 1 << other, 1, -1)
        result = other_end(sign)
        step = one - scalar(sign) * nearest.s
        width = width_along(other, half_axis, size)
        if width < step:
            step = width
            result = by_width(nearest, other, sign)
        upwards = wp.where(half_axis[axis] > zero, sign, -sign)
        if size[axis] * (one - scalar(upwards) * nearest.on_edge) / wp.abs(half_axis[axis]) < step:
            result = wp.vec2i(LOWER_END, FIRST_SIDE + 2 * axis + wp.where(upwards > 0, 1, 0))
        return result

    @wp.func
    def second_at_face(nearest: Nearest, centre: vec3, half_axis: vec3, size: vec3):
        """Return base and step of the second ball of a segment with an end above a face: the other end, or where the
        segment leaves the face; -1 for an end inside the box.
        """
        if nearest.axis < 0:
            return wp.vec2i(-1, 0)
        away = -nearest.s
        result = wp.vec2i(1 - nearest.base, 0)
        step = two
        end = centre + nearest.s * half_axis
        for k in range(3):
            if k != nearest.axis:
                for side in range(2):
                    change = (scalar(2 * side - 1) * size[k] - end[k]) / half_axis[k] * away
                    if change > zero and change < step:
                        step = change
                        result = wp.vec2i(LOWER_END, FIRST_SIDE + 2 * k + side)
        return result

    @wp.func
    def ball_pose(s: scalar, pose_a: transform, size_a: vec3):
        point = wp.transform_point(pose_a, vec3(zero, zero, s * size_a[1]))
        return transform(point, wp.transform_get_rotation(pose_a))

    @wp.func
    def ball_feature(chosen: wp.vec2i, centre: vec3, half_axis: vec3, pose_a: transform, size_a: vec3,
                     pose_b: transform, size_b: vec3):  # fmt: skip
        """Return the feature of a base and a step."""
        s = coordinate(chosen[0], chosen[1], centre, half_axis, size_b)
        zones = sphere_box_feature(ball_pose(s, pose_a, size_a), pose_b, size_b)
        return zones + ZONES * (chosen[0] + BASES * chosen[1])

    @wp.func
    def capsule_box_features(pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3):
        """Return the features of one ball or two, in MuJoCo's order, -1 for none."""
        centre, half_axis = segment_of(pose_a, size_a, pose_b)
        nearest = nearest_point(centre, half_axis, size_b)
        features = wp.vec4i(-1, -1, -1, -1)
        if nearest.kind == NOTHING:
            return features
        features[0] = ball_feature(wp.vec2i(nearest.base, 0), centre, half_axis, pose_a, size_a, pose_b, size_b)
        second = wp.vec2i(-1, 0)
        if nearest.kind == CORNER:
            second = second_at_corner(nearest, half_axis, size_b)
        elif nearest.kind == EDGE:
            second = second_at_edge(nearest, half_axis, size_b)
        else:
            second = second_at_face(nearest, centre, half_axis, size_b)
        if second[0] >= 0:
            features[1] = ball_feature(second, centre, half_axis, pose_a, size_a, pose_b, size_b)
        return features

    @wp.func
    def capsule_box(feature: int, pose_a: transform, size_a: vec3, pose_b: transform, size_b: vec3):
        """Return the distance, the point midway between the surfaces and the normal from the capsule to the box."""
        centre, half_axis = segment_of(pose_a, size_a, pose_b)
        code = feature // ZONES
        s = coordinate(code % BASES, code // BASES, centre, half_axis, size_b)
        return sphere_box(feature % ZONES, ball_pose(s, pose_a, size_a), size_a, pose_b, size_b)

    return SimpleNamespace(capsule_box_features=capsule_box_features, capsule_box=capsule_box)
