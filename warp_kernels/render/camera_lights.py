"""Light of lamps that surfaces reflect to cameras, past hard and soft shadows."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.rays.pieces import ray_structs
from warp_kernels.rays.search import search_functions
from warp_kernels.rays.surfaces import hit_functions
from warp_kernels.render.camera_surfaces import look_structs
from warp_kernels.render.trace import render_kernels
from warp_kernels.types import warp_types

# A ray towards the light starts off its surface by this share of the distance from the camera.
LIFT = 3.0e-4
SHADOW_DISTANCE = 1.0e3  # limit of what casts shadows [m]


@functools.cache
def camera_light_functions(scalar: Any, extended: bool) -> SimpleNamespace:
    """Return the functions for one precision.

    Args:
        scalar: the precision.
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    vec4 = wp.types.vector(4, scalar)
    Targets, Hit, Looks = ray_structs(scalar).Targets, hit_functions(scalar).Hit, look_structs().Looks
    search = search_functions(scalar)
    base = render_kernels(extended)
    Lights, Surface = base.Lights, base.Surface

    @wp.func
    def is_shaded(
        targets: Targets,
        looks: Looks,
        world: int,
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
        found: Surface,
        direction: wp.vec3,
        distance: float,
    ):
        """Return whether an opaque target stands between a surface and a light."""
        lift = LIFT * found.distance
        begin = vec3(found.point + found.flat * lift)
        shaded = bool(False)
        for target in range(targets.type.shape[0]):
            if looks.opacity[target] >= 1.0 and targets.type[target] != wp.static(codes.PLANE):
                hit = Hit()
                hit.time = scalar(wp.min(distance - lift, SHADOW_DISTANCE))
                hit.target = -1
                hit.feature = -1
                hit = search.target_hit(
                    targets, target, world, geometry_size, height, target_pose, target_ball, begin, vec3(direction), hit
                )
                if hit.target >= 0:
                    shaded = True
                    break
        return shaded

    @wp.func
    def hard_light(
        targets: Targets,
        looks: Looks,
        world: int,
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
        lights: Lights,
        i: int,
        position: wp.vec3,
        axis: wp.vec3,
        color: wp.vec3,
        found: Surface,
        direction: wp.vec3,
        shine: float,
    ):
        """Return the light of a lamp that a surface reflects, with ``shine`` times its highlight, past hard shadows."""
        to_light, distance, light = base.light_at(lights, i, position, axis, color, found.point)
        lit = bool(wp.dot(found.normal, to_light) > 0.0 and wp.max(light) > 0.0)
        if lit and lights.shadows[i] == 1:
            lit = not is_shaded(
                targets, looks, world, geometry_size, height, target_pose, target_ball, found, to_light, distance
            )
        reflected = wp.vec3()
        if lit:
            reflected = base.reflected_light(found, to_light, light, direction, shine)
        return reflected

    @wp.func
    def soft_light(
        targets: Targets,
        looks: Looks,
        world: int,
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
        lights: Lights,
        i: int,
        position: wp.vec3,
        axis: wp.vec3,
        across: wp.vec3,
        color: wp.vec3,
        found: Surface,
        direction: wp.vec3,
        shine: float,
        shift: wp.vec2,
    ):
        """Return the light of a lamp as :func:`hard_light` does, past soft shadows if it has a size.

        One loop searches for what shades either kind, so that the search is compiled once.
        """
        to_middle, middle_distance, light = base.light_at(lights, i, position, axis, color, found.point)
        rays = int(1)
        if base.is_soft(lights, i):
            rays = lights.rays
        reached = float(0.0)
        possible = float(0.0)
        for k in range(rays):
            to_light = to_middle
            distance = middle_distance
            ray_light = light
            if rays > 1:
                spot = base.light_spot(lights, i, k, rays, shift)
                to_light, distance, ray_light = base.light_from(
                    lights, i, position, axis, across, color, found.point, spot
                )
            part = wp.max(ray_light) * wp.max(wp.dot(found.normal, to_light), 0.0)
            if part > 0.0:
                possible += part
                shaded = bool(False)
                if lights.shadows[i] == 1:
                    shaded = is_shaded(
                        targets, looks, world, geometry_size, height, target_pose, target_ball, found, to_light,
                        distance,
                    )  # fmt: skip
                if not shaded:
                    reached += part
        reached = reached / wp.max(possible, 1.0e-12)
        reflected = wp.vec3()
        if reached > 0.0 and rays > 1:
            soft = base.whole_light(lights, i, position, axis, across, color, found.point, found.normal)
            reflected = base.soft_reflection(found, to_middle, light, direction, shine * reached, soft * reached)
        elif reached > 0.0:
            reflected = base.reflected_light(found, to_middle, light, direction, shine)
        return reflected

    return SimpleNamespace(hard_light=hard_light, soft_light=soft_light)
