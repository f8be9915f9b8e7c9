"""Shared by search and evaluation of rays: arrays, the frame of a target, and the triangle of a feature."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.collision.field.grid import grid_functions
from warp_kernels.types import warp_types


@functools.cache
def ray_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision."""
    vec3 = warp_types(scalar).vec3

    @wp.struct
    class Targets:
        """Geometries that rays may hit.

        Attributes:
            geometry: index of each in the model [num_targets].
            link: its link, -1 for the world [num_targets].
            type: its type code [num_targets].
            field_shape: of a heightfield the offset of its first height, its rows and its columns [num_targets].
            centre: of the ball around an unscaled mesh, in its geometry's frame [num_targets], m.
            radius: of that ball [num_targets], m.
            mesh: handles of unscaled meshes in single precision, 0 without one [num_targets].
            first_face: offset of the triangles of each in ``face_corner``, in triangles [num_targets].
            face_corner: the corners of triangles in ``vertices``, three for each.
            vertices: of all meshes, unscaled, in their geometry's frame [m].
        """

        geometry: wp.array(dtype=wp.int32)
        link: wp.array(dtype=wp.int32)
        type: wp.array(dtype=wp.int32)
        field_shape: wp.array(dtype=wp.vec3i)
        centre: wp.array(dtype=vec3)
        radius: wp.array(dtype=scalar)
        mesh: wp.array(dtype=wp.uint64)
        first_face: wp.array(dtype=wp.int32)
        face_corner: wp.array(dtype=wp.int32)
        vertices: wp.array(dtype=vec3)

    return SimpleNamespace(Targets=Targets)


@functools.cache
def piece_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
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
        """Return the pose of a target in the world."""
        link = targets.link[target]
        pose = geometry_placement[wp.min(world, geometry_placement.shape[0] - 1), targets.geometry[target]]
        if link >= 0:
            position = vec3(link_pose[world, link, 0], link_pose[world, link, 1], link_pose[world, link, 2])
            turn = quat(
                link_pose[world, link, 3],
                link_pose[world, link, 4],
                link_pose[world, link, 5],
                link_pose[world, link, 6],
            )
            pose = wp.transform_multiply(transform(position, turn), pose)
        return pose

    @wp.func
    def piece_corners(
        targets: Targets, target: int, feature: int, size: vec3, height: wp.array2d(dtype=scalar), world: int
    ):
        """Return the corners of the triangle of a mesh or heightfield in the target's frame, one a row; zeros for
        others.
        """
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
