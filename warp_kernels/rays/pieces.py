"""What search and evaluation of rays share: the frame of a target, and the triangle that a feature means."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.collision.field.grid import grid_functions
from warp_kernels.rays.structs import ray_structs
from warp_kernels.types import warp_types


@functools.cache
def piece_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    t = warp_types(scalar)
    vec3, mat33, quat, transform = t.vec3, t.mat33, t.quat, t.transform
    Targets = ray_structs(scalar).Targets
    element_corners = grid_functions(scalar).element_corners

    @wp.func
    def target_pose(
        targets: Targets,
        target: int,
        world: int,
        link_pose: wp.array3d(dtype=scalar),
        geometry_placement: wp.array2d(dtype=transform),
    ):
        """Pose of a target in the world."""
        link = targets.link[target]
        pose = geometry_placement[wp.min(world, geometry_placement.shape[0] - 1), targets.geometry[target]]
        if link >= 0:
            place = vec3(link_pose[world, link, 0], link_pose[world, link, 1], link_pose[world, link, 2])
            turn = quat(
                link_pose[world, link, 3],
                link_pose[world, link, 4],
                link_pose[world, link, 5],
                link_pose[world, link, 6],
            )
            pose = wp.transform_multiply(transform(place, turn), pose)
        return pose

    @wp.func
    def piece_corners(
        targets: Targets, target: int, feature: int, size: vec3, height: wp.array2d(dtype=scalar), world: int
    ):
        """Corners of the triangle of a mesh or heightfield in the target's frame, one a row; zeros for others."""
        corners = mat33()
        type = targets.type[target]
        if type == wp.static(codes.CONVEX):
            first = 3 * (targets.first_face[target] + feature)
            corners = wp.matrix_from_rows(
                wp.cw_mul(targets.vertices[targets.face_corner[first]], size),
                wp.cw_mul(targets.vertices[targets.face_corner[first + 1]], size),
                wp.cw_mul(targets.vertices[targets.face_corner[first + 2]], size),
            )
        elif type == wp.static(codes.HEIGHTFIELD):
            row = wp.min(world, height.shape[0] - 1)
            corners = element_corners(height, row, targets.field_shape[target], size, feature)
        return corners

    @wp.func
    def read_vec3(values: wp.array3d(dtype=scalar), world: int, k: int):
        return vec3(values[world, k, 0], values[world, k, 1], values[world, k, 2])

    return SimpleNamespace(target_pose=target_pose, piece_corners=piece_corners, read_vec3=read_vec3)
