"""Kernels of ambient occlusion: share of the ambient light that reaches a surface past surrounding geometry.

They are in a separate module, which is compiled only when used. Nothing here has an adjoint.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.render.trace import GROUND_DISTANCE, SKY, SUNNY_GROUND, render_kernels
from warp_kernels.types import kernel_module

VARIANTS = {"occlusion_kernels": [(False,), (True,)]}


@functools.cache
def occlusion_kernels(extended: bool) -> SimpleNamespace:
    """Return the kernels of ambient occlusion.

    Args:
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
    """
    mod = kernel_module("occlusion_extended" if extended else "occlusion", wp.float32)
    base = render_kernels(extended)
    View, Scene, ray, see, skylight = base.View, base.Scene, base.ray, base.see, base.skylight
    is_edge, openness, glaze = base.is_edge, base.openness, base.glaze

    @wp.func
    def blocked(
        mesh: wp.uint64,
        planes: wp.array(dtype=wp.transform),
        origin: wp.vec3,
        direction: wp.vec3,
        max_distance: float,
    ):
        """Return whether a ray hits a triangle or a plane within reach."""
        found = wp.mesh_query_ray_anyhit(mesh, origin, direction, max_distance)
        for i in range(planes.shape[0]):
            up = wp.quat_rotate(wp.transform_get_rotation(planes[i]), wp.vec3(0.0, 0.0, 1.0))
            height = wp.dot(origin - wp.transform_get_translation(planes[i]), up)
            closing = wp.dot(direction, up)
            found = found or (closing * height < 0.0 and wp.abs(height) < max_distance * wp.abs(closing))
        return found

    @wp.func
    def open_part(
        mesh: wp.uint64,
        planes: wp.array(dtype=wp.transform),
        point: wp.vec3,
        normal: wp.vec3,
        flat: wp.vec3,
        directions: wp.array(dtype=wp.vec3),
        first: int,
        step: int,
        max_distance: float,
    ):
        """Return the share of the rays about a normal that are free within reach; every step-th of the directions from
        the first on.

        The directions are distributed like the cosine about the normal, so that the share is that of the light of a
        uniform sky.
        """
        # Axes across the normal without a square root: Duff et al., Building an Orthonormal Basis, Revisited (2017).
        sign = wp.where(normal[2] < 0.0, -1.0, 1.0)
        a = -1.0 / (sign + normal[2])
        b = normal[0] * normal[1] * a
        across = wp.vec3(1.0 + sign * normal[0] * normal[0] * a, sign * b, -sign * normal[0])
        along = wp.vec3(b, sign + normal[1] * normal[1] * a, -normal[1])
        origin = point + flat * (1.0e-4 + 2.0e-4 * wp.length(point))
        rays = float(0.0)
        free = float(0.0)
        for k in range(first, directions.shape[0], step):
            d = directions[k]
            direction = across * d[0] + along * d[1] + normal * d[2]
            # A smoothed normal leans over the triangle: directions below it carry no information.
            if wp.dot(direction, flat) > 0.0:
                rays += 1.0
                if not blocked(mesh, planes, origin, direction, max_distance):
                    free += 1.0
        return wp.where(rays > 0.0, free / wp.max(rays, 1.0), 1.0)

    @wp.kernel(module=mod, enable_backward=False)
    def shade_corners(
        # Model
        view: View,
        scene: Scene,
        samples: wp.array(dtype=wp.vec2),
        directions: wp.array(dtype=wp.vec3),
        max_distance: float,
        # Parameters
        first_row: int,
        # Data in
        mesh: wp.uint64,
        glass: wp.uint64,
        instance_poses: wp.array(dtype=wp.transform),
        color: wp.array2d(dtype=wp.vec3),
        shown: wp.array2d(dtype=int),
        # Data out
        smooth: wp.array2d(dtype=wp.vec3),
    ):
        """Remove the occluded ambient light from a picture; on the ground instead of its ``openness``.

        A pixel on an edge shares the rays among its samples.
        """
        i, column = wp.tid()
        row = first_row + i
        points = int(1)
        if is_edge(view, row, column, color, shown):
            points = 1 + samples.shape[0]
        missing = wp.vec3(0.0, 0.0, 0.0)
        for k in range(points):
            offset = wp.vec2(0.5, 0.5)
            if k > 0:
                offset = samples[k - 1]
            direction = ray(view, float(column) + offset[0], float(row) + offset[1])
            found = see(view, scene, mesh, instance_poses, direction)
            if found.shown != SKY:
                part = open_part(
                    mesh, scene.planes, found.point, found.normal, found.flat, directions, k, points, max_distance
                )
                had = float(1.0)
                if found.shown == SUNNY_GROUND:
                    had = openness(mesh, found.point, found.normal, GROUND_DISTANCE)
                shift = wp.vec2(0.0, 0.0)
                _color, share, _first = glaze(
                    view, scene, mesh, glass, instance_poses, direction, found.distance, shift
                )
                missing += skylight(view, found.albedo, found.normal) * ((had - part) * (1.0 - found.haze) * share)
        smooth[row, column] = smooth[row, column] - missing / float(points)

    @wp.kernel(module=mod, enable_backward=False)
    def measure_openness(
        # Model
        view: View,
        scene: Scene,
        directions: wp.array(dtype=wp.vec3),
        max_distance: float,
        # Parameters
        first_row: int,
        # Data in
        mesh: wp.uint64,
        instance_poses: wp.array(dtype=wp.transform),
        # Data out
        sky_part: wp.array2d(dtype=float),
    ):
        """Compute the unoccluded share at the surface in the middle of every pixel; 1 for the sky."""
        i, column = wp.tid()
        row = first_row + i
        found = see(view, scene, mesh, instance_poses, ray(view, float(column) + 0.5, float(row) + 0.5))
        part = float(1.0)
        if found.shown != SKY:
            part = open_part(mesh, scene.planes, found.point, found.normal, found.flat, directions, 0, 1, max_distance)
        sky_part[row, column] = part

    return SimpleNamespace(shade_corners=shade_corners, measure_openness=measure_openness)
