"""Light of surfaces: textures, sky and lamps, reflected diffusely and like a mirror (GGX).

Colours are linear, 0 to 1. Nothing here has an adjoint.
"""

import functools
from types import SimpleNamespace

import warp as wp

from warp_kernels.render.dome import dome_functions
from warp_kernels.render.lamps import lamp_functions
from warp_kernels.render.structs import render_structs

MOST_BITS = 24  # of lights that shadows of the ground are told apart by


@functools.cache
def shading_functions(extended: bool) -> SimpleNamespace:
    """Return the Warp functions, in single precision.

    Args:
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
    """
    s = render_structs(extended)
    View, Lights, Textures, Surface = s.View, s.Lights, s.Textures, s.Surface
    f, d = lamp_functions(extended), dome_functions()
    dome_color, dome_reflection, dome_light = d.dome_color, d.dome_reflection, d.dome_light
    light_at, light_from, light_spot = f.light_at, f.light_from, f.light_spot
    is_soft, whole_light = f.is_soft, f.whole_light

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
        """Return the background."""
        if wp.static(extended):
            if view.dome.levels > 0:
                return wp.cw_mul(view.tint, dome_color(view.dome, direction, wp.length(view.up)))
        return gradient(view.horizon, view.zenith, direction)

    @wp.func
    def hazy(view: View, color: wp.vec3, direction: wp.vec3, haze: float):
        """Return the colour of ground behind haze, which has that of the background at the horizon."""
        if wp.static(extended):
            if view.dome.levels > 0:
                level = wp.normalize(wp.vec3(direction[0], direction[1], 0.0))
                return mix(color, wp.cw_mul(view.tint, dome_reflection(view.dome, level, 0.25)), haze)
        return mix(color, view.horizon, haze)

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
        color = wp.cw_mul(albedo, mix(view.bounce, view.overhead, upward))
        if wp.static(extended):
            if view.dome.levels > 0:
                color = color + wp.cw_mul(albedo, wp.cw_mul(view.tint, dome_light(view.dome, normal)))
        return color

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
        color = wp.cw_mul(share, mix(view.bounce, gradient(view.low, view.high, around), upward))
        if wp.static(extended):
            if view.dome.levels > 0:
                color = color + wp.cw_mul(share, wp.cw_mul(view.tint, dome_reflection(view.dome, around, r)))
        return color

    @wp.func
    def reflected_light(found: Surface, to_light: wp.vec3, light: wp.vec3, direction: wp.vec3, shine: float):
        """Return the light from one direction that a surface reflects, with ``shine`` times its highlight."""
        color = wp.cw_mul(found.albedo, light) * wp.max(wp.dot(found.normal, to_light), 0.0)
        if shine > 0.0:
            color = color + wp.cw_mul(highlight(found, to_light, direction), light) * shine
        return color

    @wp.func
    def share_of_light(lights: Lights, i: int, mesh: wp.uint64, found: Surface, shift: wp.vec2):
        """Return the share of the light of a light with a size that reaches a surface past shadows."""
        reached = float(0.0)
        possible = float(0.0)
        for k in range(lights.rays):
            spot = light_spot(lights, i, k, lights.rays, shift)
            to_light, distance, light = light_from(
                lights, i, lights.positions[i], lights.axes[i], lights.across[i], lights.colors[i], found.point, spot
            )
            part = wp.max(light) * wp.max(wp.dot(found.normal, to_light), 0.0)
            if part > 0.0:
                possible = possible + part
                if not is_shaded(mesh, found.point, found.flat, to_light, distance):
                    reached = reached + part
        return reached / wp.max(possible, 1.0e-12)

    @wp.func
    def soft_reflection(
        found: Surface, to_light: wp.vec3, light: wp.vec3, direction: wp.vec3, shine: float, soft: wp.vec3
    ):
        """Return the light that a surface reflects of a light with a size: ``soft`` is the light on it, the others are
        those of its middle, whose highlight is shown.
        """
        color = wp.cw_mul(found.albedo, soft)
        if shine > 0.0:
            color = color + wp.cw_mul(highlight(found, to_light, direction), light) * shine
        return color

    @wp.func
    def direct_light(lights: Lights, mesh: wp.uint64, found: Surface, direction: wp.vec3, shine: float, shift: wp.vec2):
        """Return the light of all lights that a surface reflects, ``shine`` times its highlights included; the
        lights of which less than half reaches it, as bits; and whether part of a light does. ``shift`` is that of the
        pixel.
        """
        color = wp.vec3(0.0, 0.0, 0.0)
        unlit = int(0)
        penumbra = bool(False)
        for i in range(lights.colors.shape[0]):
            to_light, distance, light = light_at(
                lights, i, lights.positions[i], lights.axes[i], lights.colors[i], found.point
            )
            bright = shine * lights.specular[i]
            share = float(0.0)
            sized = bool(False)
            if wp.static(extended):
                sized = is_soft(lights, i)
                if sized:
                    soft = whole_light(
                        lights, i, lights.positions[i], lights.axes[i], lights.across[i], lights.colors[i], found.point,
                        found.normal,
                    )  # fmt: skip
                    share = 1.0
                    if lights.shadows[i] == 1 and wp.max(soft) > 0.0:
                        share = share_of_light(lights, i, mesh, found, shift)
                    color = color + soft_reflection(found, to_light, light, direction, bright * share, soft * share)
                    penumbra = penumbra or (share > 0.0 and share < 1.0)
            if not sized:
                lit = bool(wp.dot(found.normal, to_light) > 0.0 and wp.max(light) > 0.0)
                if lit and lights.shadows[i] == 1:
                    lit = not is_shaded(mesh, found.point, found.flat, to_light, distance)
                if lit:
                    color = color + reflected_light(found, to_light, light, direction, bright)
                    share = 1.0
            if share < 0.5:
                unlit = unlit | (1 << (i % MOST_BITS))
        return color, unlit, penumbra

    @wp.func
    def instance_color(view: View, lights: Lights, mesh: wp.uint64, found: Surface, direction: wp.vec3, shift: wp.vec2):
        """Return the colour of an instance (linear, 0 to 1) in the direction of a ray, and whether it is in a penumbra."""
        direct, _unlit, penumbra = direct_light(lights, mesh, found, direction, 1.0, shift)
        return direct + skylight(view, found.albedo, found.normal) + reflected_sky(view, found, direction), penumbra

    return SimpleNamespace(
        **vars(f),
        mix=mix,
        gradient=gradient,
        sky=sky,
        hazy=hazy,
        ramp=ramp,
        checker=checker,
        is_shaded=is_shaded,
        openness=openness,
        skylight=skylight,
        texel=texel,
        image_color=image_color,
        highlight=highlight,
        reflected_sky=reflected_sky,
        reflected_light=reflected_light,
        soft_reflection=soft_reflection,
        direct_light=direct_light,
        instance_color=instance_color,
    )
