"""Distance and normal of ray hits as smooth functions, for the surface piece that the search has found."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.rays.pieces import piece_functions, ray_structs
from warp_kernels.rays.surfaces import surface_time_functions
from warp_kernels.types import kernel_module, warp_types

# Numbers of a ray: distance, normal, index of the geometry, and then target and feature, for the gradient.
RAY_NUMBERS = 7


@functools.cache
def evaluate_ray_kernels(scalar: Any) -> SimpleNamespace:
    """Return the kernels for one precision; a thread is one ray of a world."""
    t = warp_types(scalar)
    transform, vec3 = t.transform, t.vec3
    mod = kernel_module("rays", scalar, inlined=True)
    Targets = ray_structs(scalar).Targets
    pieces, surfaces = piece_functions(scalar), surface_time_functions(scalar)

    @wp.kernel(module=mod)
    def evaluate_rays(
        # Model
        targets: Targets,
        # Parameters
        geometry_placement: wp.array2d(dtype=transform),
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        # Data in
        found: wp.array2d(dtype=wp.vec2i),
        link_pose: wp.array3d(dtype=scalar),
        origin: wp.array3d(dtype=scalar),
        direction: wp.array3d(dtype=scalar),
        # Data out
        seen: wp.array3d(dtype=scalar),
    ):
        world, ray = wp.tid()
        target = found[world, ray][0]
        feature = found[world, ray][1]
        if target < 0:
            seen[world, ray, 0] = scalar(wp.inf)
            seen[world, ray, 4] = scalar(-1.0)
        else:
            geometry = targets.geometry[target]
            pose = pieces.target_pose(targets, target, world, link_pose, geometry_placement)
            turn = wp.transform_get_rotation(pose)
            start = pieces.read_vec3(origin, world, ray) - wp.transform_get_translation(pose)
            o = wp.quat_rotate_inv(turn, start)
            d = wp.quat_rotate_inv(turn, wp.normalize(pieces.read_vec3(direction, world, ray)))
            size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), geometry]
            corners = pieces.piece_corners(targets, target, feature, size, height, world)
            type = targets.type[target]
            time = surfaces.surface_time(type, feature, o, d, size, corners)
            normal = wp.quat_rotate(turn, surfaces.surface_normal(type, feature, o + d * time, size, corners))
            seen[world, ray, 0] = time
            seen[world, ray, 1] = normal[0]
            seen[world, ray, 2] = normal[1]
            seen[world, ray, 3] = normal[2]
            seen[world, ray, 4] = scalar(geometry)
        seen[world, ray, 5] = scalar(target)
        seen[world, ray, 6] = scalar(feature)

    @wp.kernel(module=mod, enable_backward=False)
    def read_found(
        # Data in
        seen: wp.array3d(dtype=scalar),
        # Data out
        found: wp.array2d(dtype=wp.vec2i),
    ):
        """Read target and feature of each ray out of its numbers."""
        world, ray = wp.tid()
        found[world, ray] = wp.vec2i(int(seen[world, ray, 5]), int(seen[world, ray, 6]))

    @wp.kernel(module=mod, enable_backward=False)
    def read_geometry(
        # Data in
        seen: wp.array3d(dtype=scalar),
        # Data out
        geometry: wp.array2d(dtype=wp.int32),
    ):
        """Read the index of the geometry that each ray hits, -1 for none."""
        world, ray = wp.tid()
        geometry[world, ray] = int(seen[world, ray, 4])

    return SimpleNamespace(module=mod, evaluate_rays=evaluate_rays, read_found=read_found, read_geometry=read_geometry)
