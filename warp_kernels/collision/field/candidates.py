"""Where a body may touch a heightfield, and which few of these places carry it.

Above the surface a ball touches where its distance has a local minimum: on a triangle under its centre, on an edge
beyond both triangles, on a point beyond all its edges. So a crease of a flat or hollow surface is never felt. A centre
below the surface is pushed out of the triangle above it, and so is a corner. The edges of boxes and the segments of
capsules touch the convex edges and points of the surface that they cross.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.collision.field.contact import END_PART, FIRST_EDGE, FIRST_FACE, PARTS, SEGMENT, contact_functions
from warp_kernels.collision.field.grid import DIAGONAL, EDGE_X, KINDS, POINT, UPPER_TRIANGLE, grid_functions
from warp_kernels.collision.hulls import hull_functions
from warp_kernels.types import BOX, CAPSULE, ELLIPSOID, warp_types

# Lines with a smaller squared sine between them touch at their ends instead.
PARALLEL_SINE_SQUARED = 1.0e-4
# Distance for which perpendicular normals of one place stand when places are spread [m], over the root of two.
NORMALS_APART = 0.01


@functools.cache
def candidate_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision. Poses are in the field's frame."""
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    grid = grid_functions(scalar)
    contacts = contact_functions(scalar)
    hulls = hull_functions(scalar)
    # Sine of an angle that counts as none: rounding must not lose a place between a triangle and its edge.
    angle = 1.0e-9 if scalar == wp.float64 else 1.0e-5

    @wp.struct
    class Field:
        """A heightfield: ``shape`` is the place of its first height, rows, columns; ``row`` that of the parameters."""

        shape: wp.vec3i
        size: vec3
        row: int

    @wp.struct
    class Body:
        """A body in the field's frame, with the half extents of its box there and the reach of its contacts."""

        type: int
        pose: transform
        size: vec3
        extent: vec3
        reach: scalar

    @wp.struct
    class Choice:
        """The best place so far in one stage of the choice, of those chosen before; ``feature`` is -1 for none."""

        stage: int
        chosen: mat33
        score: scalar
        feature: int
        place: vec3

    @wp.func
    def consider(choice: Choice, body: Body, feature: int, distance: scalar, surface: vec3, normal: vec3):
        """Take a place if it is better; the first of those that are equal but for rounding.

        Two normals of one place, such as those of a corner in a groove, count as places apart.
        """
        if distance < body.reach:
            place = surface + scalar(NORMALS_APART) * normal
            score = -distance
            enough = choice.score + scalar(1.0e-6)
            if choice.stage > 0:
                up = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
                score = hulls.score(choice.stage, place, choice.chosen, up, scalar(0.0))
                enough = wp.max(scalar(1.001) * choice.score, scalar(1.0e-12))
            if (choice.feature < 0 and choice.stage == 0) or score > enough:
                choice.score = score
                choice.feature = feature
                choice.place = place
        return choice

    @wp.func
    def beyond(normal: vec3, direction: vec3):
        """Sine of the angle by which a direction lies below the plane across the normal, negative above it."""
        length = wp.length(direction)
        result = scalar(1.0)
        if length > scalar(0.0):
            result = -wp.dot(normal, direction) / length
        return result

    @wp.func
    def beyond_side(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, side: int, corners: mat33,
        normal: vec3,
    ):  # fmt: skip
        """:func:`beyond` for the direction across an edge into the triangle on one side of it; 1 at the border."""
        offset = grid.opposite_offset(kind, side)
        r = row + offset[0]
        c = column + offset[1]
        result = scalar(1.0)
        if r >= 0 and c >= 0 and r < field.shape[1] and c < field.shape[2]:
            edge = corners[1] - corners[0]
            into = grid.surface_point(height, field.row, field.shape, field.size, r, c) - corners[0]
            into -= (wp.dot(into, edge) / wp.dot(edge, edge)) * edge
            result = beyond(normal, into)
        return result

    @wp.func
    def least_beyond_neighbours(
        height: wp.array2d(dtype=scalar), field: Field, row: int, column: int, point: vec3, normal: vec3
    ):
        """The least :func:`beyond` of the edges of a point."""
        least = scalar(1.0)
        for index in range(6):
            offset = grid.neighbour_offset(index)
            r = row + offset[0]
            c = column + offset[1]
            if r >= 0 and c >= 0 and r < field.shape[1] and c < field.shape[2]:
                other = grid.surface_point(height, field.row, field.shape, field.size, r, c)
                least = wp.min(least, beyond(normal, other - point))
        return least

    @wp.func
    def over_triangle(corners: mat33, centre: vec3):
        """Whether a place above a triangle's plane is nearest to its inside, seen from each of its edges."""
        normal = wp.cross(corners[1] - corners[0], corners[2] - corners[0])
        height = wp.dot(normal, centre - corners[0]) / wp.length(normal)
        inside = height >= scalar(0.0)
        for k in range(3):
            start = corners[k]
            inward = wp.normalize(wp.cross(normal, corners[(k + 1) % 3] - start))
            offset = wp.dot(inward, centre - start)
            if offset < -scalar(angle) * wp.sqrt(offset * offset + height * height):
                inside = False
        return inside

    @wp.func
    def between_ends(corners: mat33, place: vec3, slack: scalar):
        """Whether a place on an edge's line lies on the edge, or no further beyond it than the slack."""
        edge = corners[1] - corners[0]
        length = wp.length(edge)
        along = wp.dot(place - corners[0], edge) / length
        return along >= -slack and along <= length + slack

    @wp.func
    def ball_touches(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33, centre: vec3,
        place: vec3, normal: vec3,
    ):  # fmt: skip
        """Whether the distance of a centre above the surface has a local minimum on an element."""
        result = normal[2] > scalar(0.0)
        if kind <= UPPER_TRIANGLE:
            result = over_triangle(corners, centre)
        elif kind == POINT:
            if least_beyond_neighbours(height, field, row, column, place, normal) <= scalar(angle):
                result = False
        else:
            if not between_ends(corners, place, scalar(angle) * wp.length(centre - place)):
                result = False
            for side in range(2):
                if beyond_side(height, field, kind, row, column, side, corners, normal) <= scalar(angle):
                    result = False
        return result

    @wp.func
    def rows_and_columns(field: Field, centre: vec3, extent: vec3):
        """First and last row, first and last column of the elements within half extents of a place."""
        step = grid.spacing(field.shape, field.size)
        low = centre - extent
        high = centre + extent
        rows = grid.index_range(low[1], high[1], field.size[1], step[1], field.shape[1])
        columns = grid.index_range(low[0], high[0], field.size[0], step[0], field.shape[2])
        return wp.vec4i(rows[0], rows[1], columns[0], columns[1])

    @wp.func
    def top_of_cell(height: wp.array2d(dtype=scalar), field: Field, row: int, column: int):
        """Greatest z of the points of the elements that belong to a point."""
        top = scalar(-1.0e30)
        for i in range(2):
            for j in range(2):
                if row + i < field.shape[1] and column + j < field.shape[2]:
                    k = field.shape[0] + (row + i) * field.shape[2] + column + j
                    top = wp.max(top, field.size[2] * height[field.row, k])
        return top

    @wp.func
    def with_ball(choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body, part: int, centre: vec3):
        """Consider the places of a ball: the sphere, or an end of the capsule, of this body."""
        under = grid.triangle_below(field.shape, field.size, centre[0], centre[1])
        if under >= 0:
            corners = grid.element_corners(height, field.row, field.shape, field.size, under)
            distance, place, normal = contacts.part_contact(
                body.type, part, under % KINDS, corners, body.pose, body.size
            )
            if distance < -body.size[0]:
                return consider(choice, body, PARTS * under + part, distance, place, normal)
        ball = body.size[0] + wp.max(body.reach, scalar(0.0))
        around = rows_and_columns(field, centre, vec3(ball, ball, ball))
        for row in range(around[0], around[1] + 1):
            for column in range(around[2], around[3] + 1):
                if top_of_cell(height, field, row, column) < centre[2] - ball:
                    continue
                for kind in range(KINDS):
                    if grid.exists(field.shape, kind, row, column):
                        element = KINDS * (row * field.shape[2] + column) + kind
                        corners = grid.element_corners(height, field.row, field.shape, field.size, element)
                        distance, place, normal = contacts.part_contact(
                            body.type, part, kind, corners, body.pose, body.size
                        )
                        if distance < body.reach:
                            if ball_touches(height, field, kind, row, column, corners, centre, place, normal):
                                choice = consider(choice, body, PARTS * element + part, distance, place, normal)
        return choice

    @wp.func
    def convex_at(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33, normal: vec3
    ):
        """Whether the surface falls away from an edge to both sides, or lies in the plane across the normal on one."""
        first = beyond_side(height, field, kind, row, column, 0, corners, normal)
        second = beyond_side(height, field, kind, row, column, 1, corners, normal)
        return wp.min(first, second) >= -scalar(angle) and first + second > scalar(angle)

    @wp.func
    def crosses(corners: mat33, axis: vec3, half_length: scalar, start: vec3, place: vec3, on_body: vec3):
        """Whether two lines that aren't parallel are nearest within an edge and within a body's segment about start."""
        edge = corners[1] - corners[0]
        across = wp.cross(edge, axis)
        if wp.length_sq(across) <= scalar(PARALLEL_SINE_SQUARED) * wp.length_sq(edge):
            return False
        return between_ends(corners, place, scalar(0.0)) and wp.abs(wp.dot(on_body - start, axis)) <= half_length

    @wp.func
    def segment_touches(
        height: wp.array2d(dtype=scalar), field: Field, body: Body, kind: int, row: int, column: int, corners: mat33,
        distance: scalar, place: vec3, normal: vec3,
    ):  # fmt: skip
        """Whether the inside of a capsule's segment touches a point or an edge."""
        centre = wp.transform_get_translation(body.pose)
        axis = wp.quat_rotate(wp.transform_get_rotation(body.pose), contacts.axis_of(2))
        on_body = place + (distance + body.size[0]) * normal
        # Deeper than this, the place is on the far side of the segment.
        if distance < scalar(-2.0) * body.size[0] or normal[2] <= scalar(angle):
            return False
        if kind == POINT:
            if wp.abs(wp.dot(on_body - centre, axis)) > body.size[1]:
                return False
            return least_beyond_neighbours(height, field, row, column, place, normal) >= -scalar(angle)
        if not crosses(corners, axis, body.size[1], centre, place, on_body):
            return False
        return convex_at(height, field, kind, row, column, corners, normal)

    @wp.func
    def face_touches(
        height: wp.array2d(dtype=scalar), field: Field, body: Body, part: int, row: int, column: int, distance: scalar,
        place: vec3, normal: vec3,
    ):  # fmt: skip
        """Whether a box's face that looks down touches a point."""
        if normal[2] <= scalar(angle):
            return False
        q = wp.transform_get_rotation(body.pose)
        local = wp.quat_rotate_inv(q, place - wp.transform_get_translation(body.pose))
        axis = (part - FIRST_FACE) >> 1
        for k in range(3):
            if k != axis and wp.abs(local[k]) > body.size[k]:
                return False
        if distance < scalar(-2.0) * body.size[axis]:
            return False
        return least_beyond_neighbours(height, field, row, column, place, normal) >= -scalar(angle)

    @wp.func
    def edge_touches(
        height: wp.array2d(dtype=scalar), field: Field, body: Body, part: int, kind: int, row: int, column: int,
        corners: mat33, distance: scalar, place: vec3, normal: vec3,
    ):  # fmt: skip
        """Whether an edge of a box touches a convex edge: the normal lies between those of its faces, and of the field's."""
        if normal[2] <= scalar(angle):
            return False
        q = wp.transform_get_rotation(body.pose)
        sides = contacts.box_edge_sides(part)
        for k in range(2):
            if wp.dot(normal, wp.quat_rotate(q, sides[k])) > scalar(angle):
                return False
        local = wp.quat_rotate_inv(q, place - wp.transform_get_translation(body.pose))
        for k in range(3):
            if wp.abs(local[k]) > body.size[k] + wp.max(body.reach, scalar(0.0)):
                return False
        start = wp.transform_point(body.pose, wp.cw_mul(sides[0] + sides[1], body.size))
        half_length = wp.dot(sides[2], body.size)
        on_body = place + distance * normal
        if not crosses(corners, wp.quat_rotate(q, sides[2]), half_length, start, place, on_body):
            return False
        return convex_at(height, field, kind, row, column, corners, normal)

    @wp.func
    def with_box_on_element(
        choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body, kind: int, row: int, column: int
    ):
        """Consider the faces of a box on a point, or its edges on an edge that is convex."""
        element = KINDS * (row * field.shape[2] + column) + kind
        corners = grid.element_corners(height, field.row, field.shape, field.size, element)
        first = FIRST_FACE
        last = FIRST_EDGE
        if kind != POINT:
            first = FIRST_EDGE
            last = END_PART
        for part in range(first, last):
            distance, place, normal = contacts.part_contact(BOX, part, kind, corners, body.pose, body.size)
            if distance < body.reach:
                touches = False
                if kind == POINT:
                    touches = face_touches(height, field, body, part, row, column, distance, place, normal)
                else:
                    touches = edge_touches(
                        height, field, body, part, kind, row, column, corners, distance, place, normal
                    )
                if touches:
                    choice = consider(choice, body, PARTS * element + part, distance, place, normal)
        return choice

    @wp.func
    def folded(height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33):
        """Whether an edge is convex at all: most of a gentle surface's are not, or hardly."""
        offset = grid.opposite_offset(kind, 0)
        r = row + offset[0]
        c = column + offset[1]
        if r >= field.shape[1] or c >= field.shape[2]:
            return True
        opposite = grid.surface_point(height, field.row, field.shape, field.size, r, c)
        normal = wp.normalize(wp.cross(corners[1] - corners[0], opposite - corners[0]))
        if normal[2] < scalar(0.0):
            normal = -normal
        return beyond_side(height, field, kind, row, column, 1, corners, normal) > scalar(angle)

    @wp.func
    def with_elements(choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body):
        """Consider the places of a capsule's segment, or of a box's faces and edges, on edges and points of the surface."""
        centre = wp.transform_get_translation(body.pose)
        room = wp.max(body.reach, scalar(0.0))
        extent = body.extent + vec3(room, room, room)
        around = rows_and_columns(field, centre, extent)
        for row in range(around[0], around[1] + 1):
            for column in range(around[2], around[3] + 1):
                if top_of_cell(height, field, row, column) < centre[2] - extent[2]:
                    continue
                for kind in range(EDGE_X, KINDS):
                    if grid.exists(field.shape, kind, row, column):
                        element = KINDS * (row * field.shape[2] + column) + kind
                        corners = grid.element_corners(height, field.row, field.shape, field.size, element)
                        if kind <= DIAGONAL:
                            if not folded(height, field, kind, row, column, corners):
                                continue
                        if body.type == BOX:
                            choice = with_box_on_element(choice, height, field, body, kind, row, column)
                        else:
                            distance, place, normal = contacts.part_contact(
                                CAPSULE, SEGMENT, kind, corners, body.pose, body.size
                            )
                            if distance < body.reach:
                                if segment_touches(
                                    height, field, body, kind, row, column, corners, distance, place, normal
                                ):
                                    choice = consider(choice, body, PARTS * element + SEGMENT, distance, place, normal)
        return choice

    @wp.func
    def with_corner(choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body, part: int):
        """Consider a corner of a box with the triangle below or above it, and with others that it stands over.

        Never with edges and points, near which the normal of a place without extent would turn about.
        """
        corner = wp.transform_point(body.pose, contacts.box_corner(part, body.size))
        under = grid.triangle_below(field.shape, field.size, corner[0], corner[1])
        if under >= 0:
            corners = grid.element_corners(height, field.row, field.shape, field.size, under)
            distance, place, normal = contacts.part_contact(BOX, part, under % KINDS, corners, body.pose, body.size)
            choice = consider(choice, body, PARTS * under + part, distance, place, normal)
            if distance < scalar(0.0):
                return choice
        room = wp.max(body.reach, scalar(0.0))
        around = rows_and_columns(field, corner, vec3(room, room, room))
        for row in range(around[0], around[1] + 1):
            for column in range(around[2], around[3] + 1):
                if top_of_cell(height, field, row, column) < corner[2] - room:
                    continue
                for kind in range(UPPER_TRIANGLE + 1):
                    element = KINDS * (row * field.shape[2] + column) + kind
                    if element != under and grid.exists(field.shape, kind, row, column):
                        corners = grid.element_corners(height, field.row, field.shape, field.size, element)
                        if over_triangle(corners, corner):
                            distance, place, normal = contacts.part_contact(
                                BOX, part, kind, corners, body.pose, body.size
                            )
                            choice = consider(choice, body, PARTS * element + part, distance, place, normal)
        return choice

    @wp.func
    def ellipsoid_touches(
        height: wp.array2d(dtype=scalar), field: Field, kind: int, row: int, column: int, corners: mat33, least: scalar,
        distance: scalar, place: vec3, normal: vec3,
    ):  # fmt: skip
        """Whether an ellipsoid, whose least semi-axis is given, touches an element."""
        if kind <= UPPER_TRIANGLE:
            return over_triangle(corners, place + least * normal)
        # Deeper than this, the place is on the far side of the ellipsoid.
        if distance < scalar(-2.0) * least or normal[2] <= scalar(angle):
            return False
        if kind == POINT:
            return least_beyond_neighbours(height, field, row, column, place, normal) >= -scalar(angle)
        if not between_ends(corners, place, scalar(angle) * least):
            return False
        return convex_at(height, field, kind, row, column, corners, normal)

    @wp.func
    def enters(corners: mat33, body: Body):
        """Whether an edge, or a point as an edge without length, has a place inside an ellipsoid."""
        q = wp.transform_get_rotation(body.pose)
        start = wp.cw_div(wp.quat_rotate_inv(q, corners[0] - wp.transform_get_translation(body.pose)), body.size)
        edge = wp.cw_div(wp.quat_rotate_inv(q, corners[1] - corners[0]), body.size)
        along = scalar(0.0)
        if wp.dot(edge, edge) > scalar(0.0):
            along = wp.clamp(-wp.dot(start, edge) / wp.dot(edge, edge), scalar(0.0), scalar(1.0))
        return wp.length_sq(start + along * edge) < scalar(1.0)

    @wp.func
    def shallowest_triangle(
        choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body, row: int, column: int
    ):
        """Distance and choice of that of a cell's two triangles in which an ellipsoid is, and least deep."""
        depth = scalar(-1.0e30)
        result = choice
        for kind in range(UPPER_TRIANGLE + 1):
            if grid.exists(field.shape, kind, row, column):
                element = KINDS * (row * field.shape[2] + column) + kind
                corners = grid.element_corners(height, field.row, field.shape, field.size, element)
                distance, place, normal = contacts.part_contact(ELLIPSOID, 0, kind, corners, body.pose, body.size)
                if distance < scalar(0.0) and distance > depth:
                    depth = distance
                    result = consider(choice, body, PARTS * element, distance, place, normal)
        return depth, result

    @wp.func
    def with_ellipsoid(choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body):
        """Consider the places of an ellipsoid: with its centre below the surface only the triangle above that.

        Where edges and points have come in past the middle, so that the nearest way out would be further in, it leaves
        by the triangle at one of them that is the shallowest.
        """
        centre = wp.transform_get_translation(body.pose)
        under = grid.triangle_below(field.shape, field.size, centre[0], centre[1])
        if under >= 0:
            corners = grid.element_corners(height, field.row, field.shape, field.size, under)
            distance, place, normal = contacts.part_contact(ELLIPSOID, 0, under % KINDS, corners, body.pose, body.size)
            if wp.dot(normal, centre - corners[0]) < scalar(0.0):
                return consider(choice, body, PARTS * under, distance, place, normal)
        least = wp.min(body.size[0], wp.min(body.size[1], body.size[2]))
        shallowest = scalar(-1.0e30)
        rescue = choice
        room = wp.max(body.reach, scalar(0.0))
        extent = body.extent + vec3(room, room, room)
        around = rows_and_columns(field, centre, extent)
        for row in range(around[0], around[1] + 1):
            for column in range(around[2], around[3] + 1):
                if top_of_cell(height, field, row, column) < centre[2] - extent[2]:
                    continue
                for kind in range(KINDS):
                    if grid.exists(field.shape, kind, row, column):
                        element = KINDS * (row * field.shape[2] + column) + kind
                        corners = grid.element_corners(height, field.row, field.shape, field.size, element)
                        distance, place, normal = contacts.part_contact(
                            ELLIPSOID, 0, kind, corners, body.pose, body.size
                        )
                        if distance < body.reach:
                            if ellipsoid_touches(
                                height, field, kind, row, column, corners, least, distance, place, normal
                            ):
                                choice = consider(choice, body, PARTS * element, distance, place, normal)
                            elif kind > UPPER_TRIANGLE and choice.stage == 0 and enters(corners, body):
                                depth, way_out = shallowest_triangle(choice, height, field, body, row, column)
                                if depth > shallowest:
                                    shallowest = depth
                                    rescue = way_out
        if choice.feature < 0:
            choice = rescue
        return choice

    @wp.func
    def best_place(choice: Choice, height: wp.array2d(dtype=scalar), field: Field, body: Body):
        """The best of all places of a body in one stage."""
        centre = wp.transform_get_translation(body.pose)
        if body.type == BOX:
            for part in range(FIRST_FACE):
                choice = with_corner(choice, height, field, body, part)
            choice = with_elements(choice, height, field, body)
        elif body.type == CAPSULE:
            axis = wp.quat_rotate(wp.transform_get_rotation(body.pose), contacts.axis_of(2))
            for end in range(2):
                choice = with_ball(
                    choice, height, field, body, end, centre + (contacts.sign_of(end) * body.size[1]) * axis
                )
            choice = with_elements(choice, height, field, body)
        elif body.type == ELLIPSOID:
            choice = with_ellipsoid(choice, height, field, body)
        else:
            choice = with_ball(choice, height, field, body, 0, centre)
        return choice

    @wp.func
    def extent_of(type: int, pose: transform, size: vec3):
        """Half extents, along the field's axes, of the box around a body."""
        rotation = wp.quat_to_matrix(wp.transform_get_rotation(pose))
        extent = vec3(size[0], size[0], size[0])
        if type == CAPSULE:
            extent += size[1] * wp.abs(rotation * contacts.axis_of(2))
        elif type == ELLIPSOID:
            for k in range(3):
                extent[k] = wp.length(
                    wp.cw_mul(wp.quat_rotate_inv(wp.transform_get_rotation(pose), contacts.axis_of(k)), size)
                )
        elif type == BOX:
            extent = wp.abs(rotation * vec3(size[0], scalar(0.0), scalar(0.0)))
            extent += wp.abs(rotation * vec3(scalar(0.0), size[1], scalar(0.0)))
            extent += wp.abs(rotation * vec3(scalar(0.0), scalar(0.0), size[2]))
        return extent

    @wp.func
    def field_features(
        type: int, pose: transform, size: vec3, height: wp.array2d(dtype=scalar), row: int, shape: wp.vec3i,
        field_size: vec3, reach: scalar,
    ):  # fmt: skip
        """Up to four features within reach in ascending order, with -1 for those that are missing.

        The deepest, then those that span most area, seen from above.
        """
        field = Field()
        field.shape = shape
        field.size = field_size
        field.row = row
        body = Body()
        body.type = type
        body.pose = pose
        body.size = size
        body.extent = extent_of(type, pose, size)
        body.reach = reach
        features = wp.vec4i(-1, -1, -1, -1)
        chosen = mat33()
        for stage in range(4):
            choice = Choice()
            choice.stage = stage
            choice.chosen = chosen
            choice.feature = -1
            choice = best_place(choice, height, field, body)
            if choice.feature < 0:
                return hulls.ascending(features)
            features[stage] = choice.feature
            if stage < 3:
                chosen[stage] = choice.place
        return hulls.ascending(features)

    return SimpleNamespace(field_features=field_features)
