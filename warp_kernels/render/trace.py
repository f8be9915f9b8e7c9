"""Kernels of the ray tracer: place the triangles of a frame, trace one ray per pixel, refine at edges of the picture,
and encode colours as bytes.

Single precision only, since Warp's meshes are; pictures need no more. Nothing here has an adjoint.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.render.lamps import FAR
from warp_kernels.render.shading import shading_functions
from warp_kernels.render.structs import render_structs
from warp_kernels.types import kernel_module
from warp_kernels.variants import used_arguments_only

# Codes of pixels that don't show the triangle of an instance (those count from 0).
SKY = -1
SUNNY_GROUND = -2  # and below: less the bits of the lights that don't reach it
GROUND_DISTANCE = 0.12  # reach of the darkening of the ground by nearby objects [m]
MOST_LAYERS = 16  # of transparent surfaces
DIELECTRIC = 0.04  # share of the light that a surface other than metal reflects head-on like a mirror

VARIANTS = {"render_kernels": [(False,), (True,)]}


@functools.cache
def render_kernels(extended: bool) -> SimpleNamespace:
    """Return the kernels of the ray tracer, with the functions and structs that other kernels share.

    Args:
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
    """
    suffix = "_extended" if extended else ""
    mod = kernel_module(f"render{suffix}", wp.float32)
    s, f = render_structs(extended), shading_functions(extended)
    View, Scene, Surface = s.View, s.Scene, s.Surface
    mix, sky, checker, openness = f.mix, f.sky, f.checker, f.openness
    skylight, image_color, direct_light, instance_color = f.skylight, f.image_color, f.direct_light, f.instance_color
    pixel_shift = f.pixel_shift

    @wp.func
    def nearest_plane(view: View, direction: wp.vec3, planes: wp.array(dtype=wp.transform)):
        """Return the index of the first plane that a ray hits and the distance to it; -1 and far away for none."""
        nearest = float(FAR)
        plane = int(-1)
        for i in range(planes.shape[0]):
            up = wp.quat_rotate(wp.transform_get_rotation(planes[i]), wp.vec3(0.0, 0.0, 1.0))
            closing = wp.dot(direction, up)
            height = wp.dot(view.eye - wp.transform_get_translation(planes[i]), up)
            if closing * height < 0.0:
                t = -height / closing
                if t < nearest:
                    nearest = t
                    plane = i
        return plane, nearest

    @wp.func
    def instance_surface(
        view: View,
        scene: Scene,
        instance_poses: wp.array(dtype=wp.transform),
        origin: wp.vec3,
        direction: wp.vec3,
        hit: wp.MeshQueryRay,
        first: int,
    ):
        """Return the surface of a triangle at a hit; ``first`` is the index of the first triangle of the mesh that was
        hit.
        """
        face = first + hit.face
        found = Surface()
        found.shown = scene.triangle_instance[face]
        found.distance = hit.t
        found.point = origin + direction * hit.t
        # Warp's u and v weigh the first and the second corner.
        local = (
            scene.corner_normals[3 * face] * hit.u
            + scene.corner_normals[3 * face + 1] * hit.v
            + scene.corner_normals[3 * face + 2] * (1.0 - hit.u - hit.v)
        )
        normal = wp.normalize(wp.quat_rotate(wp.transform_get_rotation(instance_poses[found.shown]), local))
        flat = hit.normal
        if wp.dot(flat, direction) > 0.0:
            flat = -flat
        if wp.dot(normal, direction) > 0.2:
            normal = -normal
        found.normal = normal
        found.flat = flat
        base = scene.instance_colors[found.shown]
        texture = scene.instance_textures[found.shown]
        if texture >= 0:
            uv = (
                scene.corner_uv[3 * face] * hit.u
                + scene.corner_uv[3 * face + 1] * hit.v
                + scene.corner_uv[3 * face + 2] * (1.0 - hit.u - hit.v)
            )
            slant = wp.max(wp.abs(wp.dot(flat, direction)), 0.1)
            pixel = wp.length(found.point - view.eye) * wp.length(view.up) / wp.sqrt(slant)
            base = wp.cw_mul(base, image_color(scene.textures, texture, uv, pixel * scene.triangle_density[face]))
        metallic = scene.instance_metallic[found.shown]
        found.albedo = base * (1.0 - metallic)
        found.mirror = mix(wp.vec3(DIELECTRIC, DIELECTRIC, DIELECTRIC), base, metallic)
        found.roughness = scene.instance_roughness[found.shown]
        return found

    @wp.func
    def see(
        view: View, scene: Scene, mesh: wp.uint64, instance_poses: wp.array(dtype=wp.transform), direction: wp.vec3
    ):
        """Return the first opaque surface of a ray from the eye."""
        plane, nearest = nearest_plane(view, direction, scene.planes)
        found = Surface()
        found.shown = SKY
        found.distance = FAR
        hit = wp.mesh_query_ray(mesh, view.eye, direction, nearest)
        if hit.result:
            found = instance_surface(view, scene, instance_poses, view.eye, direction, hit, 0)
        elif plane >= 0:
            found.shown = SUNNY_GROUND
            found.distance = nearest
            found.point = view.eye + direction * nearest
            local = wp.transform_point(wp.transform_inverse(scene.planes[plane]), found.point)
            normal = wp.quat_rotate(wp.transform_get_rotation(scene.planes[plane]), wp.vec3(0.0, 0.0, 1.0))
            if wp.dot(normal, direction) > 0.0:
                normal = -normal
            found.normal = normal
            found.flat = normal
            slant = wp.max(wp.abs(wp.dot(normal, direction)), 1.0e-3)
            footprint = nearest * wp.length(view.up) / slant
            texture = scene.plane_textures[plane]
            if texture >= 0:
                repeat = scene.plane_repeats[plane]
                uv = wp.vec2(0.5 + local[0] * repeat[0], 0.5 + local[1] * repeat[1])
                size = footprint * wp.max(wp.abs(repeat[0]), wp.abs(repeat[1]))
                found.albedo = wp.cw_mul(scene.plane_colors[plane], image_color(scene.textures, texture, uv, size))
            else:
                shade = checker(local[0] / view.tile, local[1] / view.tile, footprint / view.tile)
                found.albedo = scene.plane_colors[plane] * (0.78 + 0.22 * shade)
            found.haze = 1.0 - wp.exp(-nearest * nearest * view.fog * view.fog)
        return found

    @wp.func
    def glaze(
        view: View,
        scene: Scene,
        mesh: wp.uint64,
        glass: wp.uint64,
        instance_poses: wp.array(dtype=wp.transform),
        direction: wp.vec3,
        farthest: float,
        shift: wp.vec2,
    ):
        """Return the effect of the transparent surfaces along a ray: their colour, the share of light from behind, and
        the first instance or SKY.

        Surfaces count from outside, so that the opacity of a body is that of one layer. They cast no shadow.
        """
        color = wp.vec3(0.0, 0.0, 0.0)
        share = float(1.0)
        first = int(SKY)
        travelled = float(0.0)
        layer = int(0)
        while glass != wp.uint64(0) and layer < MOST_LAYERS and travelled < farthest:
            origin = view.eye + direction * travelled
            hit = wp.mesh_query_ray(glass, origin, direction, farthest - travelled)
            if not hit.result:
                break
            if wp.dot(hit.normal, direction) < 0.0:
                found = instance_surface(view, scene, instance_poses, origin, direction, hit, scene.first_glass)
                opacity = scene.instance_opacity[found.shown]
                own, _penumbra = instance_color(view, scene.lights, mesh, found, direction, shift)
                color = color + own * (share * opacity)
                share = share * (1.0 - opacity)
                if first == SKY:
                    first = found.shown
            travelled = travelled + hit.t + 1.0e-4 * (0.1 + travelled + hit.t)
            layer = layer + 1
        return color, share, first

    @wp.func
    def trace(
        view: View,
        scene: Scene,
        mesh: wp.uint64,
        glass: wp.uint64,
        instance_poses: wp.array(dtype=wp.transform),
        direction: wp.vec3,
        open_sky: float,
        shift: wp.vec2,
    ):
        """Return the colour along one ray (linear, 0 to 1), the surface hit, the openness of the ground there, and
        whether the surface is in a penumbra.

        open_sky: that openness if a ray of the same pixel has found it, which saves the search; negative if not.
        shift: shift of the samples of lights.
        """
        found = see(view, scene, mesh, instance_poses, direction)
        shown = found.shown
        color = sky(view, direction)
        penumbra = bool(False)
        if shown == SUNNY_GROUND:
            direct, unlit, penumbra = direct_light(scene.lights, mesh, found, direction, 0.0, shift)
            if open_sky < 0.0:
                open_sky = openness(mesh, found.point, found.normal, GROUND_DISTANCE)
            shown = SUNNY_GROUND - unlit
            ambient = skylight(view, found.albedo, found.normal)
            color = f.hazy(view, direct + ambient * open_sky, direction, found.haze)
        elif shown != SKY:
            color, penumbra = instance_color(view, scene.lights, mesh, found, direction, shift)
        before, share, first = glaze(view, scene, mesh, glass, instance_poses, direction, found.distance, shift)
        if first != SKY:
            shown = first
        return before + color * share, shown, open_sky, penumbra

    @wp.func
    def encode(c: float):
        """Apply a soft shoulder to bright colours, then the sRGB curve; 0 to 255."""
        x = wp.max(c, 0.0)
        if x > 0.8:
            x = 0.8 + 0.2 * (1.0 - wp.exp(-(x - 0.8) / 0.2))
        if x <= 0.0031308:
            x = 12.92 * x
        else:
            x = 1.055 * wp.pow(x, 1.0 / 2.4) - 0.055
        return wp.clamp(255.0 * x, 0.0, 255.0)

    @wp.func
    def ray(view: View, column: float, row: float):
        x = column - 0.5 * float(view.width)
        y = 0.5 * float(view.height) - row
        return wp.normalize(view.forward + view.right * x + view.up * y)

    @wp.func
    def differ(color: wp.vec3, shown: int, other_color: wp.vec3, other_shown: int):
        """Return whether an edge runs between two points of the picture: another object, a shadow or a crease.

        The ground's squares need no such care, see ``checker``.
        """
        gap = other_color - color
        contrast = wp.abs(gap[0]) + wp.abs(gap[1]) + wp.abs(gap[2])
        return other_shown != shown or (shown >= 0 and contrast > 0.12)

    @wp.func
    def is_edge(view: View, row: int, column: int, color: wp.array2d(dtype=wp.vec3), shown: wp.array2d(dtype=int)):
        """Return whether a neighbour of a pixel differs."""
        edge = bool(False)
        for k in range(9):
            r = wp.clamp(row + k // 3 - 1, 0, view.height - 1)
            c = wp.clamp(column + k % 3 - 1, 0, view.width - 1)
            edge = edge or differ(color[row, column], shown[row, column], color[r, c], shown[r, c])
        return edge

    @wp.func
    def near_penumbra(view: View, row: int, column: int, soft: wp.array2d(dtype=int)):
        """Return whether a pixel or a neighbour is in a penumbra."""
        near = bool(False)
        for k in range(9):
            r = wp.clamp(row + k // 3 - 1, 0, view.height - 1)
            c = wp.clamp(column + k % 3 - 1, 0, view.width - 1)
            near = near or soft[r, c] == 1
        return near

    @wp.kernel(module=mod, enable_backward=False)
    def transform_vertices(
        # Model
        local: wp.array(dtype=wp.vec3),
        vertex_instance: wp.array(dtype=int),
        # Data in
        instance_poses: wp.array(dtype=wp.transform),
        instance_scales: wp.array(dtype=float),
        # Data out
        points: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        k = vertex_instance[i]
        points[i] = wp.transform_point(instance_poses[k], local[i] * instance_scales[k])

    @wp.kernel(module=mod, enable_backward=False)
    @used_arguments_only
    def shade_pixels(
        # Model
        view: View,
        scene: Scene,
        # Parameters
        first_row: int,
        # Data in
        mesh: wp.uint64,
        glass: wp.uint64,
        instance_poses: wp.array(dtype=wp.transform),
        # Data out
        color: wp.array2d(dtype=wp.vec3),
        shown: wp.array2d(dtype=int),
        soft: wp.array2d(dtype=int),
    ):
        i, column = wp.tid()
        row = first_row + i
        direction = ray(view, float(column) + 0.5, float(row) + 0.5)
        light, seen, _open_sky, penumbra = trace(
            view, scene, mesh, glass, instance_poses, direction, -1.0, pixel_shift(row, column, 0)
        )
        color[row, column] = light
        shown[row, column] = seen
        if wp.static(extended):
            soft[row, column] = wp.where(penumbra, 1, 0)

    @wp.kernel(module=mod, enable_backward=False)
    @used_arguments_only
    def refine_edges(
        # Model
        view: View,
        scene: Scene,
        samples: wp.array(dtype=wp.vec2),
        # Parameters
        first_row: int,
        # Data in
        mesh: wp.uint64,
        glass: wp.uint64,
        instance_poses: wp.array(dtype=wp.transform),
        color: wp.array2d(dtype=wp.vec3),
        shown: wp.array2d(dtype=int),
        soft: wp.array2d(dtype=int),
        # Data out
        smooth: wp.array2d(dtype=wp.vec3),
    ):
        """Average several rays if a neighbour differs or is in a penumbra, a few if those at the corners of the pixel
        agree.
        """
        i, column = wp.tid()
        row = first_row + i
        here = color[row, column]
        thing = shown[row, column]
        several = is_edge(view, row, column, color, shown)
        if wp.static(extended):
            several = several or near_penumbra(view, row, column, soft)
        if several:
            total = here
            count = int(1)
            similar = int(0)
            open_sky = float(-1.0)
            for k in range(samples.shape[0]):
                if similar < 4:
                    s = samples[k]
                    direction = ray(view, float(column) + s[0], float(row) + s[1])
                    shift = pixel_shift(row, column, k + 1)
                    found, seen, open_sky, _penumbra = trace(
                        view, scene, mesh, glass, instance_poses, direction, open_sky, shift
                    )
                    total = total + found
                    count = count + 1
                    if k < 4 and not differ(here, thing, found, seen):
                        similar = similar + 1
            here = total / float(count)
        smooth[row, column] = here

    @wp.kernel(module=mod, enable_backward=False)
    def encode_pixels(
        # Parameters
        first_row: int,
        # Data in
        smooth: wp.array2d(dtype=wp.vec3),
        # Data out
        pixels: wp.array3d(dtype=wp.uint8),
    ):
        i, column = wp.tid()
        row = first_row + i
        light = smooth[row, column]
        for k in range(3):
            pixels[row, column, k] = wp.uint8(wp.clamp(encode(light[k]) + 0.5, 0.0, 255.0))

    @wp.kernel(module=kernel_module(f"render_survey{suffix}", wp.float32), enable_backward=False)
    def survey_pixels(
        # Model
        view: View,
        scene: Scene,
        # Parameters
        first_row: int,
        # Data in
        mesh: wp.uint64,
        glass: wp.uint64,
        # Data out
        depth: wp.array2d(dtype=float),
        shown: wp.array2d(dtype=int),
    ):
        """Compute the depth along the axis of the camera, infinite for the sky, and the instance, or -2 - plane, or the
        sky.
        """
        i, column = wp.tid()
        row = first_row + i
        direction = ray(view, float(column) + 0.5, float(row) + 0.5)
        plane, nearest = nearest_plane(view, direction, scene.planes)
        distance = float(wp.inf)
        seen = SKY
        hit = wp.mesh_query_ray(mesh, view.eye, direction, nearest)
        if hit.result:
            seen = scene.triangle_instance[hit.face]
            distance = hit.t * wp.dot(direction, view.forward)
        elif plane >= 0:
            seen = -2 - plane
            distance = nearest * wp.dot(direction, view.forward)
        if glass != wp.uint64(0):
            before = wp.mesh_query_ray(glass, view.eye, direction, wp.where(hit.result, hit.t, nearest))
            if before.result:
                seen = scene.triangle_instance[scene.first_glass + before.face]
                distance = before.t * wp.dot(direction, view.forward)
        depth[row, column] = distance
        shown[row, column] = seen

    return SimpleNamespace(
        **vars(s),
        **vars(f),
        nearest_plane=nearest_plane,
        instance_surface=instance_surface,
        see=see,
        glaze=glaze,
        trace=trace,
        encode=encode,
        ray=ray,
        differ=differ,
        is_edge=is_edge,
        transform_vertices=transform_vertices,
        shade_pixels=shade_pixels,
        refine_edges=refine_edges,
        encode_pixels=encode_pixels,
        survey_pixels=survey_pixels,
    )
