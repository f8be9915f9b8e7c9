"""Kernels of cameras in many worlds: poses of cameras and lights, linear colours, one ray per pixel and its shading.

The first surface is that of :mod:`warp_kernels.rays`, and its light that of :mod:`warp_kernels.render.trace`. Nothing
here has an adjoint.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels import types as codes
from warp_kernels.rays.pieces import piece_functions, ray_structs
from warp_kernels.rays.search import search_functions
from warp_kernels.rays.surfaces import hit_functions, surface_time_functions
from warp_kernels.render.structs import surface_structs
from warp_kernels.render.trace import DIELECTRIC, MOST_LAYERS, render_kernels
from warp_kernels.types import kernel_module, warp_types
from warp_kernels.variants import used_arguments_only

# What a camera or light follows.
LINK, POINT, CENTRE_OF_MASS = 0, 1, 2
# A ray towards the light starts off its surface by this share of the distance from the camera.
LIFT = 3.0e-4
SHADOW_DISTANCE = 1.0e3  # limit of what casts shadows [m]
# A ray goes on behind a transparent surface by this share of the distance from the camera.
STEP = 1.0e-4

VARIANTS = {"camera_kernels": [(False,), (True,)]}


@functools.cache
def camera_structs(scalar: Any) -> SimpleNamespace:
    """Return the structs for one precision."""
    t = warp_types(scalar)
    Textures = surface_structs().Textures

    @wp.struct
    class Mounts:
        """Cameras or lights of a world: what each of them moves with.

        Attributes:
            link: link of each, -1 for the world [n].
            point: point of the link that it follows [n].
            follows: LINK, POINT or CENTRE_OF_MASS [n].
            share: share of each link in the mass that it follows [n, num_links].
        """

        link: wp.array(dtype=wp.int32)
        point: wp.array(dtype=t.vec3)
        follows: wp.array(dtype=wp.int32)
        share: wp.array2d(dtype=scalar)

    @wp.struct
    class Looks:
        """Materials of the targets of rays.

        Attributes:
            opacity, roughness, metallic: of each [num_targets].
            texture: index of its image, -1 without one [num_targets].
            repeat: repeats of the image per metre along x and y, zero if the corners have coordinates [num_targets].
            first: offset of its triangles in the arrays below, -1 without any [num_targets].
            normals: at three corners of each triangle, in the target's frame.
            uv: texture coordinates at three corners of each triangle.
            density: texture coordinates per length in each triangle [1/m].
            textures: the images.
        """

        opacity: wp.array(dtype=float)
        roughness: wp.array(dtype=float)
        metallic: wp.array(dtype=float)
        texture: wp.array(dtype=wp.int32)
        repeat: wp.array(dtype=wp.vec2)
        first: wp.array(dtype=wp.int32)
        normals: wp.array(dtype=wp.vec3)
        uv: wp.array(dtype=wp.vec2)
        density: wp.array(dtype=float)
        textures: Textures

    return SimpleNamespace(Mounts=Mounts, Looks=Looks)


@functools.cache
def camera_kernels(scalar: Any, extended: bool) -> SimpleNamespace:
    """Return the kernels for one precision.

    Args:
        scalar: the precision.
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
    """
    t = warp_types(scalar)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform
    vec4 = wp.types.vector(4, scalar)
    mod = kernel_module("cameras_extended" if extended else "cameras", scalar)
    Targets, Hit = ray_structs(scalar).Targets, hit_functions(scalar).Hit
    Mounts, Looks = camera_structs(scalar).Mounts, camera_structs(scalar).Looks
    pieces, search, surface_normal = (
        piece_functions(scalar),
        search_functions(scalar),
        surface_time_functions(scalar).surface_normal,
    )
    base = render_kernels(extended)
    View, Lights, Surface = base.View, base.Lights, base.Surface
    mix = base.mix

    @wp.func
    def link_transform(link_pose: wp.array3d(dtype=scalar), world: int, link: int):
        return transform(
            vec3(link_pose[world, link, 0], link_pose[world, link, 1], link_pose[world, link, 2]),
            t.quat(
                link_pose[world, link, 3],
                link_pose[world, link, 4],
                link_pose[world, link, 5],
                link_pose[world, link, 6],
            ),
        )

    @wp.func
    def carrier_of(
        mounts: Mounts, k: int, com: wp.array2d(dtype=vec3), link_pose: wp.array3d(dtype=scalar), world: int
    ):
        """Return the pose of what a camera or light moves with, not turned unless that is a link."""
        pose = wp.transform_identity(scalar)
        if mounts.link[k] >= 0:
            pose = link_transform(link_pose, world, mounts.link[k])
        if mounts.follows[k] != LINK:
            followed = wp.transform_point(pose, mounts.point[k])
            if mounts.follows[k] == CENTRE_OF_MASS:
                followed = vec3()
                for link in range(mounts.share.shape[1]):
                    if mounts.share[k, link] > scalar(0.0):
                        centre = com[wp.min(world, com.shape[0] - 1), link]
                        centre = wp.transform_point(link_transform(link_pose, world, link), centre)
                        followed += centre * mounts.share[k, link]
            pose = transform(followed, wp.quat_identity(scalar))
        return pose

    @wp.kernel(module=mod, enable_backward=False)
    def pose_cameras(
        # Model
        mounts: Mounts,
        camera_placement: wp.array(dtype=transform),
        # Parameters
        com: wp.array2d(dtype=vec3),
        # Data in
        link_pose: wp.array3d(dtype=scalar),
        # Data out
        eye: wp.array2d(dtype=transform),
    ):
        """Compute the pose of each camera in the world."""
        world, camera = wp.tid()
        carrier = carrier_of(mounts, camera, com, link_pose, world)
        eye[world, camera] = wp.transform_multiply(carrier, camera_placement[camera])

    @wp.kernel(module=mod, enable_backward=False)
    def pose_lights(
        # Model
        light_mounts: Mounts,
        across: wp.array(dtype=wp.vec3),
        # Parameters
        com: wp.array2d(dtype=vec3),
        # Data in
        link_pose: wp.array3d(dtype=scalar),
        placed: wp.array2d(dtype=wp.vec3),
        along: wp.array2d(dtype=wp.vec3),
        # Data out
        light_position: wp.array2d(dtype=wp.vec3),
        light_axis: wp.array2d(dtype=wp.vec3),
        light_across: wp.array2d(dtype=wp.vec3),
    ):
        """Compute position and axes of each light in the world, from those on what it moves with.

        The axis across is perpendicular to the axis that it shines along, and as near as possible to ``across``.
        """
        world, light = wp.tid()
        carrier = carrier_of(light_mounts, light, com, link_pose, world)
        position = placed[wp.min(world, placed.shape[0] - 1), light]
        axis = wp.normalize(along[wp.min(world, along.shape[0] - 1), light])
        light_position[world, light] = wp.vec3(wp.transform_point(carrier, vec3(position)))
        light_axis[world, light] = wp.vec3(wp.quat_rotate(wp.transform_get_rotation(carrier), vec3(axis)))
        side = across[light] - axis * wp.dot(axis, across[light])
        if wp.length(side) < 1.0e-3:
            side = wp.cross(axis, wp.vec3(axis[1], axis[2], axis[0]))
        light_across[world, light] = wp.vec3(
            wp.quat_rotate(wp.transform_get_rotation(carrier), vec3(wp.normalize(side)))
        )

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
    def corner_weights(point: vec3, corners: mat33):
        """Return the barycentric coordinates of a point of a triangle."""
        a = vec3(corners[0, 0], corners[0, 1], corners[0, 2])
        along = vec3(corners[1, 0], corners[1, 1], corners[1, 2]) - a
        across = vec3(corners[2, 0], corners[2, 1], corners[2, 2]) - a
        area = wp.cross(along, across)
        squared = wp.max(wp.dot(area, area), scalar(1.0e-36))
        second = float(wp.dot(wp.cross(point - a, across), area) / squared)
        third = float(wp.dot(wp.cross(along, point - a), area) / squared)
        return wp.vec3(1.0 - second - third, second, third)

    @wp.func
    def ground_color(looks: Looks, view: View, target: int, point: vec3, found: Surface):
        """Return a plane's share of its colour, of squares or an image; ``point`` is in its frame."""
        slant = wp.max(wp.abs(wp.dot(found.normal, wp.normalize(found.point - view.eye))), 1.0e-3)
        footprint = found.distance * wp.length(view.up) / slant
        x = float(point[0])
        y = float(point[1])
        texture = looks.texture[target]
        shade = base.checker(x / view.tile, y / view.tile, footprint / view.tile)
        color = wp.vec3(1.0, 1.0, 1.0) * (0.78 + 0.22 * shade)
        if texture >= 0:
            repeat = looks.repeat[target]
            uv = wp.vec2(0.5 + x * repeat[0], 0.5 + y * repeat[1])
            size = footprint * wp.max(wp.abs(repeat[0]), wp.abs(repeat[1]))
            color = base.image_color(looks.textures, texture, uv, size)
        return color

    @wp.func
    def picture_color(
        looks: Looks, view: View, target: int, feature: int, point: vec3, local: vec3, weights: wp.vec3, found: Surface
    ):
        """Return the colour of a target's image at a point of its frame, white without one; ``local`` is its normal."""
        color = wp.vec3(1.0, 1.0, 1.0)
        texture = looks.texture[target]
        if texture >= 0:
            repeat = looks.repeat[target]
            uv = wp.vec2(0.5 + float(point[0]) * repeat[0], 0.5 + float(point[1]) * repeat[1])
            density = wp.sqrt(wp.abs(repeat[0] * repeat[1] * float(local[2])))
            if repeat[0] == 0.0:
                face = looks.first[target] + feature
                uv = (
                    looks.uv[3 * face] * weights[0]
                    + looks.uv[3 * face + 1] * weights[1]
                    + looks.uv[3 * face + 2] * weights[2]
                )
                density = looks.density[face]
            slant = wp.max(wp.abs(wp.dot(found.flat, wp.normalize(found.point - view.eye))), 0.1)
            pixel = found.distance * wp.length(view.up) / wp.sqrt(slant)
            color = base.image_color(looks.textures, texture, uv, pixel * density)
        return color

    @wp.func
    def surface_of(
        targets: Targets,
        looks: Looks,
        view: View,
        pose: transform,
        size: vec3,
        height: wp.array2d(dtype=scalar),
        world: int,
        hit: Hit,
        point: vec3,
        direction: wp.vec3,
        distance: float,
        color: wp.vec3,
    ):
        """Return the surface of a hit at a point of the world; ``color`` is that of its geometry.

        The normal ``flat`` is the outward one, also where the ray leaves the target.
        """
        target = hit.target
        type = targets.type[target]
        inside = wp.transform_point(wp.transform_inverse(pose), point)
        corners = pieces.piece_corners(targets, target, hit.feature, size, height, world)
        local = surface_normal(type, hit.feature, inside, size, corners)
        turn = wp.transform_get_rotation(pose)
        found = Surface()
        found.shown = target
        found.distance = distance
        found.point = wp.vec3(point)
        found.flat = wp.vec3(wp.quat_rotate(turn, local))
        found.normal = found.flat
        weights = wp.vec3()
        first = looks.first[target]
        if first >= 0:
            weights = corner_weights(inside, corners)
            face = 3 * (first + hit.feature)
            smooth = looks.normals[face] * weights[0]
            smooth += looks.normals[face + 1] * weights[1]
            smooth += looks.normals[face + 2] * weights[2]
            found.normal = wp.normalize(wp.vec3(wp.quat_rotate(turn, vec3(smooth))))
        if wp.dot(found.normal, direction) > 0.2:
            found.normal = -found.normal
        if type == wp.static(codes.PLANE):
            found.albedo = wp.cw_mul(color, ground_color(looks, view, target, inside, found))
            found.haze = 1.0 - wp.exp(-distance * distance * view.fog * view.fog)
        else:
            base_color = wp.cw_mul(
                color, picture_color(looks, view, target, hit.feature, inside, local, weights, found)
            )
            metallic = looks.metallic[target]
            found.albedo = base_color * (1.0 - metallic)
            found.mirror = mix(wp.vec3(DIELECTRIC, DIELECTRIC, DIELECTRIC), base_color, metallic)
            found.roughness = looks.roughness[target]
        return found

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
                    direct = wp.vec3()
                    for i in range(lights.directional.shape[0]):
                        position = light_position[world, i]
                        if headlight[i] == 1:
                            position = view.eye
                        axis = light_axis[world, i]
                        lamp = light_color[wp.min(world, light_color.shape[0] - 1), i]
                        bright = shine * lights.specular[i]
                        if wp.static(extended):
                            direct += soft_light(
                                targets, looks, world, geometry_size, height, target_pose, target_ball, lights, i,
                                position, axis, light_across[world, i], lamp, found, direction, bright, shift,
                            )  # fmt: skip
                        else:
                            direct += hard_light(
                                targets, looks, world, geometry_size, height, target_pose, target_ball, lights, i,
                                position, axis, lamp, found, direction, bright,
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

    return SimpleNamespace(
        module=mod,
        pose_cameras=pose_cameras,
        pose_lights=pose_lights,
        linear_colors=linear_colors,
        draw_pixels=draw_pixels,
    )
