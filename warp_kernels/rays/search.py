"""Search for the first hit of each ray, not differentiated.

On a heightfield it walks over the cells below and above a ray. Along a ray, its height over the surface is a continuous
function, linear on each triangle. The first triangle on which it changes its sign is hit, so that no ray slips through
between two of them. (The walk from cell to cell is that of Amanatides and Woo 1987.)
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.collision.field.grid import KINDS, LOWER_TRIANGLE, UPPER_TRIANGLE, grid_functions
from warp_kernels.rays.pieces import piece_functions, ray_structs
from warp_kernels.rays.surfaces import hit_functions, surface_time_functions
from warp_kernels.types import kernel_module, warp_types

# Tolerance of a time, as a share of a cell's sides.
SLACK = 1.0e-3


@functools.cache
def field_hit_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision. ``shape`` of a field: offset of its first height, rows, columns."""
    vec3 = warp_types(scalar).vec3
    vec4 = wp.types.vector(4, scalar)
    hits, grid = hit_functions(scalar), grid_functions(scalar)
    surfaces = surface_time_functions(scalar)
    along = scalar(1.0e-12 if scalar is wp.float64 else 1.0e-5)  # sine between a ray and a plane that it lies in
    Hit = hits.Hit

    @wp.func
    def until(o: scalar, d: scalar, low: scalar, high: scalar):
        """Return the time at which a coordinate leaves an interval, infinite for never."""
        time = scalar(wp.inf)
        if d > scalar(0.0):
            time = (high - o) / d
        elif d < scalar(0.0):
            time = (low - o) / d
        return time

    @wp.func
    def since(o: scalar, d: scalar, half: scalar):
        """Return the time at which a coordinate enters [-half, half], infinite for never."""
        time = scalar(-wp.inf)
        if d > scalar(0.0):
            time = (-half - o) / d
        elif d < scalar(0.0):
            time = (half - o) / d
        elif wp.abs(o) > half:
            time = scalar(wp.inf)
        return time

    @wp.func
    def clearance(
        o: vec3, d: vec3, time: scalar, size: vec3, step: vec3, row: int, column: int, kind: int, corners: vec4
    ):
        """Return the height of a ray over the plane of one of a cell's two triangles; heights of the corners row by
        row.
        """
        u = (o[0] + d[0] * time + size[0]) / step[0] - scalar(column)
        v = (o[1] + d[1] * time + size[1]) / step[1] - scalar(row)
        surface = corners[0] + u * (corners[1] - corners[0]) + v * (corners[3] - corners[1])
        if kind == UPPER_TRIANGLE:
            surface = corners[0] + v * (corners[2] - corners[0]) + u * (corners[3] - corners[2])
        return o[2] + d[2] * time - surface

    @wp.func
    def field_hit(
        target: int,
        shape: wp.vec3i,
        o: vec3,
        d: vec3,
        size: vec3,
        height: wp.array2d(dtype=scalar),
        height_row: int,
        hit: Hit,
    ):
        """Return the nearer of a hit and the first triangle that a ray crosses."""
        step = grid.spacing(shape, size)
        now = wp.max(wp.max(since(o[0], d[0], size[0]), since(o[1], d[1], size[1])), scalar(0.0))
        end = wp.min(until(o[0], d[0], -size[0], size[0]), until(o[1], d[1], -size[1], size[1]))
        end = wp.min(end, hit.time)
        if now <= end:
            column = wp.clamp(int((o[0] + d[0] * now + size[0]) / step[0]), 0, shape[2] - 2)
            row = wp.clamp(int((o[1] + d[1] * now + size[1]) / step[1]), 0, shape[1] - 2)
            began = bool(False)
            before = scalar(0.0)
            searching = bool(True)
            slack = scalar(SLACK) * (step[0] + step[1])
            while searching:
                first = shape[0] + row * shape[2] + column
                corners = size[2] * vec4(
                    height[height_row, first],
                    height[height_row, first + 1],
                    height[height_row, first + shape[2]],
                    height[height_row, first + shape[2] + 1],
                )
                low = scalar(column) * step[0] - size[0]
                left = scalar(row) * step[1] - size[1]
                next_column = until(o[0], d[0], low, low + step[0])
                next_row = until(o[1], d[1], left, left + step[1])
                stop = wp.min(wp.min(next_column, next_row), end)
                # Distance of v above u, as a function of time: the side of the cell's diagonal.
                slope = d[1] / step[1] - d[0] / step[0]
                side = (o[1] + size[1]) / step[1] - scalar(row) - (o[0] + size[0]) / step[0] + scalar(column)
                turn = stop
                if slope != scalar(0.0):
                    turn = -side / slope
                    if turn <= now or turn > stop:
                        turn = stop
                for part in range(2):
                    leave = turn
                    if part == 1:
                        leave = stop
                    if searching and (part == 0 or leave > now):
                        above = side
                        if slope != scalar(0.0):
                            above += slope * scalar(0.5) * (now + leave)
                        kind = LOWER_TRIANGLE
                        if above > scalar(0.0):
                            kind = UPPER_TRIANGLE
                        if not began:
                            before = clearance(o, d, now, size, step, row, column, kind, corners)
                            began = True
                        after = d[2]  # of a vertical ray, which stays over one point without an end
                        if leave < scalar(wp.inf):
                            after = clearance(o, d, leave, size, step, row, column, kind, corners)
                        crosses = before >= scalar(0.0) and after < scalar(0.0)
                        if before <= scalar(0.0) and after > scalar(0.0):
                            crosses = True
                        if crosses:
                            element = KINDS * (row * shape[2] + column) + kind
                            triangle = grid.element_corners(height, height_row, shape, size, element)
                            normal = surfaces.surface_normal(wp.static(codes.HEIGHTFIELD), element, o, size, triangle)
                            time = surfaces.surface_time(wp.static(codes.HEIGHTFIELD), element, o, d, size, triangle)
                            # A ray within the plane of a triangle hits it anywhere, by rounding: the next one decides.
                            crosses = time >= now - slack and time <= leave + slack
                            if crosses and wp.abs(wp.dot(normal, d)) > along:
                                hit = hits.take(time, target, element, hit)
                                searching = hit.target != target
                                before = after
                        else:
                            before = after
                        now = leave
                if stop >= end:
                    searching = False
                elif next_column < next_row:
                    column += 1
                    if d[0] < scalar(0.0):
                        column -= 2
                else:
                    row += 1
                    if d[1] < scalar(0.0):
                        row -= 2
                if row < 0 or column < 0 or row > shape[1] - 2 or column > shape[2] - 2:
                    searching = False
        return hit

    return SimpleNamespace(field_hit=field_hit)


@functools.cache
def search_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision: hits of one target, and the first of all."""
    t = warp_types(scalar)
    transform, vec3 = t.transform, t.vec3
    vec4 = wp.types.vector(4, scalar)
    Targets = ray_structs(scalar).Targets
    hits, field_hit = hit_functions(scalar), field_hit_functions(scalar).field_hit
    Hit = hits.Hit
    pieces = piece_functions(scalar)

    @wp.func
    def before(ball: vec4, origin: vec3, direction: vec3):
        """Return the distance at which a ray enters a sphere, zero inside of it and for unbounded geometries; negative
        for never.
        """
        result = scalar(0.0)
        if ball[3] >= scalar(0.0):
            away = vec3(ball[0], ball[1], ball[2]) - origin
            along = wp.dot(away, direction)
            miss = away - direction * along
            free = ball[3] * ball[3] - wp.dot(miss, miss)
            if free < scalar(0.0):
                result = scalar(-1.0)
            else:
                half = wp.sqrt(free)
                result = along - half
                if result < scalar(0.0):
                    result = scalar(0.0)
                    if along + half < scalar(0.0):
                        result = scalar(-1.0)
        return result

    @wp.func
    def mesh_hit(
        targets: Targets,
        target: int,
        o: vec3,
        d: vec3,
        size: vec3,
        start: scalar,
        height: wp.array2d(dtype=scalar),
        hit: Hit,
    ):
        """Return the nearer of a hit and the first on a mesh, which the ray doesn't reach before ``start``."""
        # Starting at the sphere keeps the digits of a ray from far away in the single precision of the mesh.
        unit_o = wp.cw_div(o + d * start, size)
        unit_d = wp.cw_div(d, size)
        scale = wp.length(unit_d)
        left = wp.min((hit.time - start) * scale, scalar(1.0e9))
        query = wp.mesh_query_ray(targets.mesh[target], wp.vec3(unit_o), wp.vec3(unit_d / scale), wp.float32(left))
        if query.result:
            corners = pieces.piece_corners(targets, target, query.face, size, height, 0)
            hit = hits.consider(wp.static(codes.CONVEX), query.face, target, o, d, size, corners, hit)
        return hit

    @wp.func
    def target_hit(
        targets: Targets,
        target: int,
        world: int,
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
        begin: vec3,
        away: vec3,
        hit: Hit,
    ):
        """Return the nearer of a hit and the first on a target; ``away`` is a unit vector."""
        start = before(target_ball[world, target], begin, away)
        if start >= scalar(0.0) and start <= hit.time:
            pose = target_pose[world, target]
            turn = wp.transform_get_rotation(pose)
            o = wp.quat_rotate_inv(turn, begin - wp.transform_get_translation(pose))
            d = wp.quat_rotate_inv(turn, away)
            size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), targets.geometry[target]]
            type = targets.type[target]
            if type == wp.static(codes.BOX):
                hit = hits.box_hit(target, o, d, size, hit)
            elif type == wp.static(codes.SPHERE) or type == wp.static(codes.ELLIPSOID):
                hit = hits.round_hit(type, target, o, d, size, hit)
            elif type == wp.static(codes.CAPSULE) or type == wp.static(codes.CYLINDER):
                hit = hits.rod_hit(type, target, o, d, size, hit)
            elif type == wp.static(codes.PLANE):
                hit = hits.plane_hit(target, o, d, size, hit)
            elif type == wp.static(codes.HEIGHTFIELD):
                row = wp.min(world, height.shape[0] - 1)
                hit = field_hit(target, targets.field_shape[target], o, d, size, height, row, hit)
            else:
                hit = mesh_hit(targets, target, o, d, size, start, height, hit)
        return hit

    @wp.func
    def first_hit(
        targets: Targets,
        world: int,
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
        begin: vec3,
        away: vec3,
        max_distance: scalar,
    ):
        """Return the first hit of a ray, with target and feature -1 for none; ``away`` is a unit vector."""
        hit = Hit()
        hit.time = max_distance
        hit.target = -1
        hit.feature = -1
        for target in range(targets.type.shape[0]):
            hit = target_hit(targets, target, world, geometry_size, height, target_pose, target_ball, begin, away, hit)
        return hit

    return SimpleNamespace(target_hit=target_hit, first_hit=first_hit)


@functools.cache
def search_ray_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision."""
    t = warp_types(scalar)
    transform, vec3 = t.transform, t.vec3
    vec4 = wp.types.vector(4, scalar)
    mod = kernel_module("ray_search", scalar)
    Targets = ray_structs(scalar).Targets
    pieces, first_hit = piece_functions(scalar), search_functions(scalar).first_hit

    @wp.func
    def bounding_radius(type: int, size: vec3, radius: scalar):
        """Return the radius of a bounding sphere about the target's centre; negative for unbounded geometries."""
        result = scalar(-1.0)
        if type == wp.static(codes.SPHERE):
            result = size[0]
        elif type == wp.static(codes.CAPSULE):
            result = size[0] + size[1]
        elif type == wp.static(codes.CYLINDER):
            result = wp.sqrt(size[0] * size[0] + size[1] * size[1])
        elif type == wp.static(codes.BOX):
            result = wp.length(size)
        elif type == wp.static(codes.ELLIPSOID):
            result = wp.max(size)
        elif type == wp.static(codes.CONVEX):
            result = radius * wp.max(wp.abs(size))
        return result * scalar(1.0001)

    @wp.kernel(module=mod, enable_backward=False)
    def pose_targets(
        # Model
        targets: Targets,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        # Data in
        link_pose: wp.array3d(dtype=scalar),
        # Data out
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
    ):
        """Compute the pose of each target in the world, and its bounding sphere: centre and radius, negative for
        unbounded ones.
        """
        world, target = wp.tid()
        pose = pieces.target_pose(targets, target, world, link_pose, geometry_placement)
        size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), targets.geometry[target]]
        centre = wp.transform_point(pose, wp.cw_mul(targets.centre[target], size))
        target_pose[world, target] = pose
        target_ball[world, target] = vec4(
            centre[0], centre[1], centre[2], bounding_radius(targets.type[target], size, targets.radius[target])
        )

    @wp.kernel(module=mod, enable_backward=False)
    def search_rays(
        # Model
        targets: Targets,
        # Parameters
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        max_distance: scalar,
        # Data in
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
        origin: wp.array3d(dtype=scalar),
        direction: wp.array3d(dtype=scalar),
        # Data out
        found: wp.array2d(dtype=wp.vec2i),
    ):
        """Find target and feature of each ray's first hit, -1 and -1 for none."""
        world, ray = wp.tid()
        away = pieces.read_vec3(direction, world, ray)
        seen = wp.vec2i(-1, -1)
        if wp.dot(away, away) > scalar(0.0):
            begin = pieces.read_vec3(origin, world, ray)
            hit = first_hit(
                targets,
                world,
                geometry_size,
                height,
                target_pose,
                target_ball,
                begin,
                wp.normalize(away),
                max_distance,
            )
            seen = wp.vec2i(hit.target, hit.feature)
        found[world, ray] = seen

    return SimpleNamespace(module=mod, pose_targets=pose_targets, search_rays=search_rays)
