"""Light of lamps at a point, and the directions of rays towards lamps that have a size.

Samples are a lattice on a square, shifted by a number that depends on the pixel, so that a picture is the same on all
devices and among any number of worlds. Nothing here has an adjoint.
"""

import functools
import math
from types import SimpleNamespace

import warp as wp

from warp_kernels.render.structs import render_structs

FAR = 1.0e6  # visibility limit [m]
PI = math.pi
LATTICE = 0.6180339887  # golden ratio: step of the second coordinate of a lattice
# Steps of the shift per column, row and ray of a pixel, as shares of 2^32: powers of the plastic number and of its
# analogue in three dimensions (Roberts, The unreasonable effectiveness of quasirandom sequences, 2018).
STEPS = [round(2**32 * step) for step in (0.7548776662, 0.5698402910, 0.4301597090)]
OTHER_STEPS = [round(2**32 * step) for step in (0.5497004779, 0.8191725134, 0.6710436067)]
SPOTS = 16  # of a flat light that its light without shadows is the mean of
WIDEST = 0.98  # sine of the angle between the middle of a ball or sun and its border


@functools.cache
def lamp_functions(extended: bool) -> SimpleNamespace:
    """Return the Warp functions, in single precision.

    Args:
        extended: as of :func:`warp_kernels.render.structs.render_structs`.
    """
    Lights = render_structs(extended).Lights

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
    def pixel_shift(row: int, column: int, ray: int):
        """Return the shift of the samples of a pixel in both directions, 0 to 1; of neighbours it is far apart."""
        first = (
            wp.uint32(column) * wp.static(wp.uint32(STEPS[0]))
            + wp.uint32(row) * wp.static(wp.uint32(STEPS[1]))
            + wp.uint32(ray) * wp.static(wp.uint32(STEPS[2]))
        )
        second = (
            wp.uint32(column) * wp.static(wp.uint32(OTHER_STEPS[0]))
            + wp.uint32(row) * wp.static(wp.uint32(OTHER_STEPS[1]))
            + wp.uint32(ray) * wp.static(wp.uint32(OTHER_STEPS[2]))
        )
        scale = float(1.0 / 16777216.0)
        return wp.vec2(float(first >> wp.uint32(8)) * scale, float(second >> wp.uint32(8)) * scale)

    @wp.func
    def is_soft(lights: Lights, i: int):
        """Return whether the shadows of a light have soft borders."""
        return lights.extents[i][0] > 0.0 and lights.rays > 1

    @wp.func
    def light_spot(lights: Lights, i: int, k: int, count: int, shift: wp.vec2):
        """Return one of several points of a light: on a rectangle with sides of 2, or in a circle of radius 1.

        Every second point is opposite to the one before.
        """
        pair = float(k // 2)
        across = (pair + 0.5) / float((count + 1) // 2) + shift[0]
        along = pair * LATTICE + shift[1]
        side = wp.where(k % 2 == 0, 1.0, -1.0)
        x = side * (2.0 * (across - wp.floor(across)) - 1.0)
        y = side * (2.0 * (along - wp.floor(along)) - 1.0)
        if lights.extents[i][1] > 0.0:
            return wp.vec2(x, y)
        # Shirley and Chiu, A low distortion map between disk and square (1997)
        if wp.abs(x) > wp.abs(y):
            return wp.vec2(wp.cos(0.25 * PI * (y / x)), wp.sin(0.25 * PI * (y / x))) * x
        if y == 0.0:
            return wp.vec2(0.0, 0.0)
        return wp.vec2(wp.sin(0.25 * PI * (x / y)), wp.cos(0.25 * PI * (x / y))) * y

    @wp.func
    def light_from(
        lights: Lights,
        i: int,
        position: wp.vec3,
        axis: wp.vec3,
        across: wp.vec3,
        color: wp.vec3,
        point: wp.vec3,
        spot: wp.vec2,
    ):
        """Return direction and distance of one spot of a light, and the colour of the whole light if all of it were as
        bright as that spot.

        Spots of a disk or rectangle have equal areas. Those of a ball or sun have equal areas as projected on the plane
        that faces its middle, so that without shadows their mean is the light of the middle.
        """
        extent = lights.extents[i]
        if lights.flat[i] == 1:
            along = wp.cross(axis, across)
            height = wp.where(extent[1] > 0.0, extent[1], extent[0])
            at = position + across * (extent[0] * spot[0]) + along * (height * spot[1])
            return light_at(lights, i, at, axis, color, point)
        middle, distance, light = light_at(lights, i, position, axis, color, point)
        wide = extent[0]
        if lights.directional[i] == 0:
            wide = extent[0] / distance
        x = wp.min(wide, WIDEST) * spot[0]
        y = wp.min(wide, WIDEST) * spot[1]
        ahead = wp.sqrt(1.0 - x * x - y * y)
        # Axes across the direction: Duff et al., Building an Orthonormal Basis, Revisited (2017)
        sign = wp.where(middle[2] < 0.0, -1.0, 1.0)
        a = -1.0 / (sign + middle[2])
        b = middle[0] * middle[1] * a
        side = wp.vec3(1.0 + sign * middle[0] * middle[0] * a, sign * b, -sign * middle[0])
        other = wp.vec3(b, sign + middle[1] * middle[1] * a, -middle[1])
        return side * x + other * y + middle * ahead, distance * ahead, light / ahead

    @wp.func
    def whole_light(
        lights: Lights,
        i: int,
        position: wp.vec3,
        axis: wp.vec3,
        across: wp.vec3,
        color: wp.vec3,
        point: wp.vec3,
        normal: wp.vec3,
    ):
        """Return the light of a light with a size on a surface, without shadows."""
        if lights.flat[i] == 0:
            to_light, _distance, light = light_at(lights, i, position, axis, color, point)
            return light * wp.max(wp.dot(normal, to_light), 0.0)
        total = wp.vec3(0.0, 0.0, 0.0)
        for k in range(SPOTS):
            spot = light_spot(lights, i, k, SPOTS, wp.vec2(0.0, 0.0))
            to_spot, _far, part = light_from(lights, i, position, axis, across, color, point, spot)
            total = total + part * wp.max(wp.dot(normal, to_spot), 0.0)
        return total / float(SPOTS)

    return SimpleNamespace(
        light_at=light_at,
        pixel_shift=pixel_shift,
        is_soft=is_soft,
        light_spot=light_spot,
        light_from=light_from,
        whole_light=whole_light,
    )
