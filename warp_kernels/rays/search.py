"""The search for what rays meet first. Nothing here is differentiated."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.rays.field import field_hit_functions
from warp_kernels.rays.hits import hit_functions
from warp_kernels.rays.pieces import piece_functions
from warp_kernels.rays.structs import ray_structs
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def search_ray_kernels(scalar: Any) -> SimpleNamespace:
    """Kernels of one precision."""
    t = warp_types(scalar)
    transform, vec3 = t.transform, t.vec3
    vec4 = wp.types.vector(4, scalar)
    mod = kernel_module("ray_search", scalar)
    Targets = ray_structs(scalar).Targets
    hits, field_hit = hit_functions(scalar), field_hit_functions(scalar).field_hit
    Hit = hits.Hit
    pieces = piece_functions(scalar)

    @wp.func
    def reach(type: int, size: vec3, radius: scalar):
        """Radius of a ball about the target's centre that holds it; negative for what has no end."""
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
    def place_targets(
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
        """Pose of each target in the world, and a ball around it: centre and radius, negative for what has no end."""
        world, target = wp.tid()
        pose = pieces.target_pose(targets, target, world, link_pose, geometry_placement)
        size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), targets.geometry[target]]
        centre = wp.transform_point(pose, wp.cw_mul(targets.centre[target], size))
        target_pose[world, target] = pose
        target_ball[world, target] = vec4(
            centre[0], centre[1], centre[2], reach(targets.type[target], size, targets.radius[target])
        )

    @wp.func
    def before(ball: vec4, origin: vec3, direction: vec3):
        """Distance at which a ray comes into a ball, zero inside of it and for what has no end; negative for never."""
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
        """The nearer of a hit and the first on a mesh, which the ray doesn't reach before ``start``."""
        # The ball's start keeps the digits of a ray from far away in the single precision of the mesh.
        unit_o = wp.cw_div(o + d * start, size)
        unit_d = wp.cw_div(d, size)
        scale = wp.length(unit_d)
        left = wp.min((hit.time - start) * scale, scalar(1.0e9))
        query = wp.mesh_query_ray(targets.mesh[target], wp.vec3(unit_o), wp.vec3(unit_d / scale), wp.float32(left))
        if query.result:
            corners = pieces.piece_corners(targets, target, query.face, size, height, 0)
            hit = hits.consider(wp.static(codes.CONVEX), query.face, target, o, d, size, corners, hit)
        return hit

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
        """Target and feature that each ray meets first, -1 and -1 for none."""
        world, ray = wp.tid()
        away = pieces.read_vec3(direction, world, ray)
        hit = Hit()
        hit.time = max_distance
        hit.target = -1
        hit.feature = -1
        if wp.dot(away, away) > scalar(0.0):
            away = wp.normalize(away)
            begin = pieces.read_vec3(origin, world, ray)
            size_row = wp.min(world, geometry_size.shape[0] - 1)
            for target in range(targets.type.shape[0]):
                start = before(target_ball[world, target], begin, away)
                if start >= scalar(0.0) and start <= hit.time:
                    pose = target_pose[world, target]
                    turn = wp.transform_get_rotation(pose)
                    o = wp.quat_rotate_inv(turn, begin - wp.transform_get_translation(pose))
                    d = wp.quat_rotate_inv(turn, away)
                    size = geometry_size[size_row, targets.geometry[target]]
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
        found[world, ray] = wp.vec2i(hit.target, hit.feature)

    return SimpleNamespace(module=mod, place_targets=place_targets, search_rays=search_rays)
