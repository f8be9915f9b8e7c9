"""Kernels of cameras in many worlds: one ray per pixel and its shading, and linear colours.

The first surface is that of :mod:`warp_kernels.rays`, and its light that of :mod:`warp_kernels.render.trace`. Nothing
here has an adjoint.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.rays.pieces import ray_structs
from warp_kernels.rays.search import search_functions
from warp_kernels.render.camera_lights import camera_light_functions
from warp_kernels.render.camera_surfaces import camera_surface_functions, look_structs
from warp_kernels.render.trace import MOST_LAYERS, render_kernels
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

# A ray goes on behind a transparent surface by this share of the distance from the camera.
STEP = 1.0e-4

VARIANTS = {"camera_kernels": [(False,), (True,)]}


@functools.cache
def camera_kernels(scalar: Any, extended: bool) -> SimpleNamespace:
    """Return the kernels for one precision.

    Args:
        scalar: the precision.
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
    """
    t = warp_types(scalar)
    vec3, transform = t.vec3, t.transform
    vec4 = wp.types.vector(4, scalar)
    mod = kernel_module("cameras_extended" if extended else "cameras", scalar)
    Targets, Looks = ray_structs(scalar).Targets, look_structs().Looks
    search = search_functions(scalar)
    surface_of = camera_surface_functions(scalar, extended).surface_of
    lamps = camera_light_functions(scalar, extended)
    base = render_kernels(extended)
    View, Lights, Surface = base.View, base.Lights, base.Surface

    @wp.func
    def linear(value: float):
        c = wp.clamp(value, 0.0, 1.0)
        result = c / 12.92
        if c > 0.04045:
            result = wp.pow((c + 0.055) / 1.055, 2.4)
        return result

    @wp.kernel(module=mod, enable_backward=False)
    def linear_colors(
        # Data in
        srgb: wp.array2d(dtype=wp.vec3),
        # Data out
        color: wp.array2d(dtype=wp.vec3),
    ):
        """Convert colours of geometries from sRGB, clamped to 0 to 1, to linear light."""
        row, geometry = wp.tid()
        given = srgb[row, geometry]
        color[row, geometry] = wp.vec3(linear(given[0]), linear(given[1]), linear(given[2]))

    @wp.func
    def lamplight(
        targets: Targets,
        looks: Looks,
        lights: Lights,
        headlight: wp.array(dtype=wp.int32),
        world: int,
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
        light_position: wp.array2d(dtype=wp.vec3),
        light_axis: wp.array2d(dtype=wp.vec3),
        light_across: wp.array2d(dtype=wp.vec3),
        light_color: wp.array2d(dtype=wp.vec3),
        found: Surface,
        eye: wp.vec3,
        direction: wp.vec3,
        shine: float,
        shift: wp.vec2,
    ):
        """Return the light of all lamps that a surface reflects, with ``shine`` times their highlights."""
        direct = wp.vec3()
        for i in range(lights.directional.shape[0]):
            position = light_position[world, i]
            if headlight[i] == 1:
                position = eye
            axis = light_axis[world, i]
            lamp = light_color[wp.min(world, light_color.shape[0] - 1), i]
            bright = shine * lights.specular[i]
            if wp.static(extended):
                direct += lamps.soft_light(
                    targets, looks, world, geometry_size, height, target_pose, target_ball, lights, i,
                    position, axis, light_across[world, i], lamp, found, direction, bright, shift,
                )  # fmt: skip
            else:
                direct += lamps.hard_light(
                    targets, looks, world, geometry_size, height, target_pose, target_ball, lights, i,
                    position, axis, lamp, found, direction, bright,
                )  # fmt: skip
        return direct

    @wp.func
    def color_of(view: View, type: int, found: Surface, direct: wp.vec3, direction: wp.vec3):
        """Return the colour of a surface (linear, 0 to 1) that reflects ``direct`` light of lamps."""
        color = direct + base.skylight(view, found.albedo, found.normal)
        if type == wp.static(codes.PLANE):
            color = base.hazy(view, color, direction, found.haze)
        else:
            color += base.reflected_sky(view, found, direction)
        return color

    @wp.func
    def view_of(light: View, ambient: wp.vec3, pose: transform, pixel: scalar):
        """Return the view of a camera, with the sky of its world."""
        turn = wp.transform_get_rotation(pose)
        view = View()
        view.eye = wp.vec3(wp.transform_get_translation(pose))
        view.up = wp.vec3(wp.quat_rotate(turn, vec3(scalar(0.0), pixel, scalar(0.0))))
        view.zenith = wp.cw_mul(ambient, light.zenith)
        view.horizon = wp.cw_mul(ambient, light.horizon)
        view.overhead = wp.cw_mul(ambient, light.overhead)
        view.high = wp.cw_mul(ambient, light.high)
        view.low = wp.cw_mul(ambient, light.low)
        view.bounce = wp.cw_mul(ambient, light.bounce)
        view.tile = light.tile
        view.fog = light.fog
        if wp.static(extended):
            view.dome = light.dome
            view.tint = wp.cw_mul(ambient, light.tint)
        return view

    @wp.kernel(module=mod, enable_backward=False)
    @used_arguments_only
    def draw_pixels(
        # Model
        targets: Targets,
        looks: Looks,
        light: View,
        lights: Lights,
        headlight: wp.array(dtype=wp.int32),
        pixel_size: wp.array(dtype=scalar),
        # Parameters
        geometry_size: wp.array2d(dtype=vec3),
        height: wp.array2d(dtype=scalar),
        first_row: int,
        # Data in
        target_pose: wp.array2d(dtype=transform),
        target_ball: wp.array2d(dtype=vec4),
        eye: wp.array2d(dtype=transform),
        color: wp.array2d(dtype=wp.vec3),
        light_position: wp.array2d(dtype=wp.vec3),
        light_axis: wp.array2d(dtype=wp.vec3),
        light_across: wp.array2d(dtype=wp.vec3),
        light_color: wp.array2d(dtype=wp.vec3),
        ambient: wp.array(dtype=wp.vec3),
        # Data out
        rgb: wp.array3d(dtype=wp.uint8),
        depth: wp.array2d(dtype=float),
        geometry: wp.array2d(dtype=wp.int32),
    ):
        """Draw a pixel of a row, which counts over all worlds, cameras and rows of a picture.

        Transparent surfaces count where the ray enters them, and cast no shadow.
        """
        i, column = wp.tid()
        row = first_row + i
        picture = row // light.height
        world = picture // eye.shape[1]
        camera = picture % eye.shape[1]
        x = scalar(column) + scalar(0.5) - scalar(0.5) * scalar(light.width)
        y = scalar(0.5) * scalar(light.height) - scalar(row % light.height) - scalar(0.5)
        pixel = pixel_size[camera]
        through = vec3(x * pixel, y * pixel, scalar(-1.0))
        pose = eye[world, camera]
        away = wp.normalize(wp.quat_rotate(wp.transform_get_rotation(pose), through))
        direction = wp.vec3(away)
        begin = wp.transform_get_translation(pose)
        view = view_of(light, ambient[wp.min(world, ambient.shape[0] - 1)], pose, pixel)
        shift = base.pixel_shift(row % light.height, column, 0)
        total = wp.vec3()
        share = float(1.0)
        seen = int(-1)
        near = float(wp.inf)
        travelled = scalar(0.0)
        layer = int(0)
        while share > 0.0:
            hit = search.first_hit(
                targets,
                world,
                geometry_size,
                height,
                target_pose,
                target_ball,
                begin + away * travelled,
                away,
                scalar(wp.inf),
            )
            if hit.target < 0 or layer == MOST_LAYERS:
                total += base.sky(view, direction) * share
                share = 0.0
            else:
                target = hit.target
                travelled += hit.time
                point = begin + away * travelled
                size = geometry_size[wp.min(world, geometry_size.shape[0] - 1), targets.geometry[target]]
                own = color[wp.min(world, color.shape[0] - 1), targets.geometry[target]]
                found = surface_of(
                    targets, looks, view, target_pose[world, target], size, height, world, hit, point, direction,
                    float(travelled), own,
                )  # fmt: skip
                opacity = looks.opacity[target]
                enters = wp.dot(found.flat, direction) < 0.0
                if not enters:
                    found.flat = -found.flat
                if enters or opacity >= 1.0:
                    type = targets.type[target]
                    shine = float(1.0)
                    if type == wp.static(codes.PLANE):
                        shine = 0.0
                    direct = lamplight(
                        targets, looks, lights, headlight, world, geometry_size, height, target_pose, target_ball,
                        light_position, light_axis, light_across, light_color, found, view.eye, direction, shine,
                        shift,
                    )  # fmt: skip
                    total += color_of(view, type, found, direct, direction) * (share * opacity)
                    share *= 1.0 - opacity
                    if seen < 0:
                        seen = targets.geometry[target]
                        near = float(travelled / wp.length(through))
                layer += 1
                travelled += scalar(STEP) * travelled
        for k in range(3):
            rgb[row, column, k] = wp.uint8(wp.clamp(base.encode(total[k]) + 0.5, 0.0, 255.0))
        depth[row, column] = near
        geometry[row, column] = seen

    return SimpleNamespace(module=mod, linear_colors=linear_colors, draw_pixels=draw_pixels)
