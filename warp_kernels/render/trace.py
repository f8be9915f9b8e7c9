"""Kernels of the ray tracer: place the triangles of a frame, trace one ray per pixel, refine at edges of the picture,
and encode colours as bytes.

Single precision only, since Warp's meshes are; pictures need no more. Nothing here has an adjoint.
"""

import functools
import math
from types import SimpleNamespace

import warp as wp

from warp_kernels.types import kernel_module

# Codes of pixels that don't show the triangle of an instance (those count from 0).
SKY = -1
SUNNY_GROUND = -2  # and below: less the bits of the lights that don't reach it
MOST_BITS = 24  # of lights that shadows of the ground are told apart by
FAR = 1.0e6  # visibility limit [m]
GROUND_DISTANCE = 0.12  # reach of the darkening of the ground by nearby objects [m]
MOST_LAYERS = 16  # of transparent surfaces
PI = math.pi
DIELECTRIC = 0.04  # share of the light that a surface other than metal reflects head-on like a mirror


@functools.cache
def render_kernels() -> SimpleNamespace:
    """Return the kernels of the ray tracer."""
    mod = kernel_module("render", wp.float32)

    @wp.struct
    class View:
        """Pinhole camera and sky. ``right`` and ``up`` are scaled to the size of one pixel at distance 1.

        ``zenith`` and ``horizon`` are the background. A surface reflects ``overhead`` diffusely if it faces up, and
        ``bounce`` if it faces down; like a mirror it reflects ``high``, ``low`` and, below the horizon, ``bounce``.
        """

        eye: wp.vec3
        right: wp.vec3
        up: wp.vec3
        forward: wp.vec3
        width: int
        height: int
        zenith: wp.vec3
        horizon: wp.vec3
        overhead: wp.vec3
        high: wp.vec3
        low: wp.vec3
        bounce: wp.vec3
        tile: float
        fog: float

    @wp.struct
    class Lights:
        """Lights other than the sky: directional, or at a position; the axis that they shine along; colour and
        attenuation as in :class:`sim.Light`; angles of the cone at which the light
        begins to fade and ends [rad]; exponent of the cosine; factor of highlights; whether they cast shadows.
        """

        directional: wp.array(dtype=int)
        positions: wp.array(dtype=wp.vec3)
        axes: wp.array(dtype=wp.vec3)
        colors: wp.array(dtype=wp.vec3)
        attenuation: wp.array(dtype=wp.vec3)
        cones: wp.array(dtype=wp.vec2)
        exponents: wp.array(dtype=float)
        specular: wp.array(dtype=float)
        shadows: wp.array(dtype=int)

    @wp.struct
    class Textures:
        """Images, each with its levels of detail: the image itself, then half of its size, and so on to one texel.

        A level begins at a texel, and has a width and a height. Texels are bytes of sRGB, of which ``linear`` has the
        linear light [256].
        """

        first_level: wp.array(dtype=int)
        levels: wp.array(dtype=int)
        starts: wp.array(dtype=int)
        sizes: wp.array2d(dtype=int)
        texels: wp.array2d(dtype=wp.uint8)
        linear: wp.array(dtype=float)

    @wp.struct
    class Scene:
        """Scene: the planes with their colours, textures (-1 for none) and repeats per length; colour, opacity,
        roughness, metallic and texture of each instance; and for each triangle its instance, normals and texture
        coordinates at its three corners, and the texture coordinates per length. The triangles of the mesh ``glass``,
        which is transparent, come after those of the mesh of all others.
        """

        planes: wp.array(dtype=wp.transform)
        plane_colors: wp.array(dtype=wp.vec3)
        plane_textures: wp.array(dtype=int)
        plane_repeats: wp.array(dtype=wp.vec2)
        instance_colors: wp.array(dtype=wp.vec3)
        instance_opacity: wp.array(dtype=float)
        instance_roughness: wp.array(dtype=float)
        instance_metallic: wp.array(dtype=float)
        instance_textures: wp.array(dtype=int)
        first_glass: int
        triangle_instance: wp.array(dtype=int)
        corner_normals: wp.array(dtype=wp.vec3)
        corner_uv: wp.array(dtype=wp.vec2)
        triangle_density: wp.array(dtype=float)
        textures: Textures
        lights: Lights

    @wp.struct
    class Surface:
        """First surface of a ray: an instance, ground or sky, with its normals towards the eye, smoothed and of the
        triangle, the colours that it reflects diffusely and like a mirror (head-on), its roughness, and the amount of
        haze before it.
        """

        shown: int
        point: wp.vec3
        normal: wp.vec3
        flat: wp.vec3
        albedo: wp.vec3
        mirror: wp.vec3
        roughness: float
        distance: float
        haze: float

    @wp.func
    def mix(a: wp.vec3, b: wp.vec3, t: float):
        return a * (1.0 - t) + b * t

    @wp.func
    def gradient(low: wp.vec3, high: wp.vec3, direction: wp.vec3):
        """Return a colour between that of the horizon and that overhead."""
        height = wp.clamp(direction[2], 0.0, 1.0)
        return mix(low, high, wp.pow(height + 1.0e-6, 0.5))

    @wp.func
    def sky(view: View, direction: wp.vec3):
        return gradient(view.horizon, view.zenith, direction)

    @wp.func
    def ramp(x: float, width: float):
        """Return the mean of a square wave of period 2 over [x - width / 2, x + width / 2]."""
        a = 0.5 * (x - 0.5 * width)
        b = 0.5 * (x + 0.5 * width)
        above = 2.0 * wp.abs(b - wp.floor(b) - 0.5)
        below = 2.0 * wp.abs(a - wp.floor(a) - 0.5)
        return (below - above) / width

    @wp.func
    def checker(x: float, y: float, width: float):
        """Return a checkerboard between 0 and 1 with unit tiles, averaged over a square of the given width so that it
        never flickers.
        """
        w = wp.max(width, 1.0e-3)
        return 0.5 - 0.5 * ramp(x, w) * ramp(y, w)

    @wp.func
    def is_shaded(mesh: wp.uint64, point: wp.vec3, normal: wp.vec3, direction: wp.vec3, distance: float):
        """Return whether something stands between a point and a light."""
        offset = 1.0e-4 + 2.0e-4 * wp.length(point)
        return wp.mesh_query_ray_anyhit(mesh, point + normal * offset, direction, wp.min(distance - offset, 1.0e3))

    @wp.func
    def openness(mesh: wp.uint64, point: wp.vec3, normal: wp.vec3, max_distance: float):
        """Return the share of the sky that a ground point sees: less under and next to objects, from the nearest
        surface above it.
        """
        probe = point + normal * (0.35 * max_distance)
        closest = wp.mesh_query_point_no_sign(mesh, probe, max_distance)
        if closest.result:
            distance = wp.length(wp.mesh_eval_position(mesh, closest.face, closest.u, closest.v) - probe)
            part = wp.clamp(distance / max_distance, 0.0, 1.0)
            return 0.45 + 0.55 * part * part * (3.0 - 2.0 * part)
        return 1.0

    @wp.func
    def skylight(view: View, albedo: wp.vec3, normal: wp.vec3):
        """Return the ambient light that a surface reflects without occlusion."""
        upward = 0.5 + 0.5 * normal[2]
        return wp.cw_mul(albedo, mix(view.bounce, view.overhead, upward))

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
    def texel(textures: Textures, level: int, column: int, row: int):
        """Return a texel of a level in linear light; the image repeats."""
        width = textures.sizes[level, 0]
        height = textures.sizes[level, 1]
        at = textures.starts[level] + (row + height) % height * width + (column + width) % width
        return wp.vec3(
            textures.linear[int(textures.texels[at, 0])],
            textures.linear[int(textures.texels[at, 1])],
            textures.linear[int(textures.texels[at, 2])],
        )

    @wp.func
    def image_color(textures: Textures, texture: int, uv: wp.vec2, footprint: float):
        """Return the colour of an image around a point, in linear light.

        Bilinear in the level of detail whose texels are about as large as the footprint of the pixel, which is in
        texture coordinates.
        """
        first = textures.first_level[texture]
        size = float(wp.max(textures.sizes[first, 0], textures.sizes[first, 1]))
        finer = int(wp.log2(wp.max(footprint * size, 1.0)) + 0.5)
        level = first + wp.min(finer, textures.levels[texture] - 1)
        x = (uv[0] - wp.floor(uv[0])) * float(textures.sizes[level, 0]) - 0.5
        y = (wp.ceil(uv[1]) - uv[1]) * float(textures.sizes[level, 1]) - 0.5
        column = int(wp.floor(x))
        row = int(wp.floor(y))
        across = x - wp.floor(x)
        above = mix(texel(textures, level, column, row), texel(textures, level, column + 1, row), across)
        below = mix(texel(textures, level, column, row + 1), texel(textures, level, column + 1, row + 1), across)
        return mix(above, below, y - wp.floor(y))

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
    def light_at(lights: Lights, i: int, position: wp.vec3, axis: wp.vec3, color: wp.vec3, point: wp.vec3):
        """Return direction and distance of a light from a point, and its colour there without shadows.

        Position, axis and colour are given instead of those of the light.
        """
        if lights.directional[i] == 1:
            return -axis, float(FAR), color
        gap = position - point
        distance = wp.max(wp.length(gap), 1.0e-6)
        direction = gap / distance
        falloff = lights.attenuation[i]
        strength = 1.0 / wp.max(falloff[0] + distance * (falloff[1] + distance * falloff[2]), 1.0e-6)
        aligned = wp.clamp(-wp.dot(direction, axis), -1.0, 1.0)
        cone = lights.cones[i]
        if cone[1] < PI:
            angle = wp.acos(aligned)
            part = wp.clamp((angle - cone[0]) / wp.max(cone[1] - cone[0], 1.0e-4), 0.0, 1.0)
            strength = strength * (1.0 - part * part * (3.0 - 2.0 * part))
        if lights.exponents[i] > 0.0:
            strength = strength * wp.pow(wp.max(aligned, 0.0), lights.exponents[i])
        return direction, distance, color * strength

    @wp.func
    def highlight(found: Surface, light: wp.vec3, direction: wp.vec3):
        """Return the share of a light that a surface reflects like a rough mirror, times pi.

        Microfacets with the distribution of Trowbridge and Reitz (GGX), Schlick's Fresnel term, and the visibility of
        Smith as Hammon approximates it (2017), for the roughness of UsdPreviewSurface and glTF.
        """
        half = wp.normalize(light - direction)
        facing = wp.max(wp.dot(found.normal, light), 0.0)
        seen = wp.max(-wp.dot(found.normal, direction), 1.0e-3)
        alpha = wp.max(found.roughness * found.roughness, 2.0e-3)
        aligned = wp.max(wp.dot(found.normal, half), 0.0)
        spread = aligned * aligned * (alpha * alpha - 1.0) + 1.0
        visible = 0.5 / (2.0 * facing * seen * (1.0 - alpha) + (facing + seen) * alpha + 1.0e-6)
        grazing = wp.pow(1.0 - wp.clamp(wp.dot(light, half), 0.0, 1.0), 5.0)
        fresnel = mix(found.mirror, wp.vec3(1.0, 1.0, 1.0), grazing)
        return fresnel * (alpha * alpha / (spread * spread) * visible * facing)

    @wp.func
    def reflected_sky(view: View, found: Surface, direction: wp.vec3):
        """Return the light of sky and ground that a surface reflects like a rough mirror.

        The integral over the lobe is Karis' approximation for mobile games (2014); the horizon is blurred by the
        roughness. Other objects aren't reflected.
        """
        seen = wp.max(-wp.dot(found.normal, direction), 0.0)
        r = found.roughness
        a = wp.min((1.0 - r) * (1.0 - r), wp.pow(2.0, -9.28 * seen)) * (1.0 - r) + 0.0425 - 0.0275 * r
        white = wp.max(1.04 * a - 0.04 + 0.022 * r, 0.0)
        share = found.mirror * (1.04 - 0.572 * r - 1.04 * a) + wp.vec3(white, white, white)
        around = direction - found.normal * (2.0 * wp.dot(direction, found.normal))
        upward = wp.clamp(0.5 + 0.5 * around[2] / wp.max(r, 0.02), 0.0, 1.0)
        return wp.cw_mul(share, mix(view.bounce, gradient(view.low, view.high, around), upward))

    @wp.func
    def reflected_light(found: Surface, to_light: wp.vec3, light: wp.vec3, direction: wp.vec3, shine: float):
        """Return the light from one direction that a surface reflects, with ``shine`` times its highlight."""
        color = wp.cw_mul(found.albedo, light) * wp.max(wp.dot(found.normal, to_light), 0.0)
        if shine > 0.0:
            color = color + wp.cw_mul(highlight(found, to_light, direction), light) * shine
        return color

    @wp.func
    def direct_light(lights: Lights, mesh: wp.uint64, found: Surface, direction: wp.vec3, shine: float):
        """Return the light of all lights that a surface reflects, ``shine`` times its highlights included, and the
        lights that don't reach it, as bits.
        """
        color = wp.vec3(0.0, 0.0, 0.0)
        unlit = int(0)
        for i in range(lights.colors.shape[0]):
            to_light, distance, light = light_at(
                lights, i, lights.positions[i], lights.axes[i], lights.colors[i], found.point
            )
            lit = bool(wp.dot(found.normal, to_light) > 0.0 and wp.max(light) > 0.0)
            if lit and lights.shadows[i] == 1:
                lit = not is_shaded(mesh, found.point, found.flat, to_light, distance)
            if lit:
                color = color + reflected_light(found, to_light, light, direction, shine * lights.specular[i])
            else:
                unlit = unlit | (1 << (i % MOST_BITS))
        return color, unlit

    @wp.func
    def instance_color(view: View, lights: Lights, mesh: wp.uint64, found: Surface, direction: wp.vec3):
        """Return the colour of an instance (linear, 0 to 1) in the direction of a ray."""
        direct, _unlit = direct_light(lights, mesh, found, direction, 1.0)
        return direct + skylight(view, found.albedo, found.normal) + reflected_sky(view, found, direction)

    @wp.func
    def glaze(
        view: View,
        scene: Scene,
        mesh: wp.uint64,
        glass: wp.uint64,
        instance_poses: wp.array(dtype=wp.transform),
        direction: wp.vec3,
        farthest: float,
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
                color = color + instance_color(view, scene.lights, mesh, found, direction) * (share * opacity)
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
    ):
        """Return the colour along one ray (linear, 0 to 1), the surface hit, and the openness of the ground there.

        open_sky: that openness if a ray of the same pixel has found it, which saves the search; negative if not.
        """
        found = see(view, scene, mesh, instance_poses, direction)
        shown = found.shown
        color = sky(view, direction)
        if shown == SUNNY_GROUND:
            direct, unlit = direct_light(scene.lights, mesh, found, direction, 0.0)
            if open_sky < 0.0:
                open_sky = openness(mesh, found.point, found.normal, GROUND_DISTANCE)
            shown = SUNNY_GROUND - unlit
            ambient = skylight(view, found.albedo, found.normal)
            color = mix(direct + ambient * open_sky, view.horizon, found.haze)
        elif shown != SKY:
            color = instance_color(view, scene.lights, mesh, found, direction)
        before, share, first = glaze(view, scene, mesh, glass, instance_poses, direction, found.distance)
        if first != SKY:
            shown = first
        return before + color * share, shown, open_sky

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
    ):
        i, column = wp.tid()
        row = first_row + i
        direction = ray(view, float(column) + 0.5, float(row) + 0.5)
        light, seen, _open_sky = trace(view, scene, mesh, glass, instance_poses, direction, -1.0)
        color[row, column] = light
        shown[row, column] = seen

    @wp.kernel(module=mod, enable_backward=False)
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
        # Data out
        smooth: wp.array2d(dtype=wp.vec3),
    ):
        """Average several rays if a neighbour differs, a few if those at the corners of the pixel agree."""
        i, column = wp.tid()
        row = first_row + i
        here = color[row, column]
        thing = shown[row, column]
        if is_edge(view, row, column, color, shown):
            total = here
            count = int(1)
            similar = int(0)
            open_sky = float(-1.0)
            for k in range(samples.shape[0]):
                if similar < 4:
                    s = samples[k]
                    direction = ray(view, float(column) + s[0], float(row) + s[1])
                    found, seen, open_sky = trace(view, scene, mesh, glass, instance_poses, direction, open_sky)
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

    @wp.kernel(module=kernel_module("render_survey", wp.float32), enable_backward=False)
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
        View=View, Scene=Scene, Textures=Textures, Lights=Lights, glaze=glaze, is_edge=is_edge, openness=openness, ray=ray, see=see, skylight=skylight,
        Surface=Surface, mix=mix, sky=sky, checker=checker, image_color=image_color, light_at=light_at, reflected_light=reflected_light,
        reflected_sky=reflected_sky, encode=encode,
        transform_vertices=transform_vertices, shade_pixels=shade_pixels, refine_edges=refine_edges, encode_pixels=encode_pixels,
        survey_pixels=survey_pixels,
    )  # fmt: skip
