"""Image of the surroundings: background, light on matte surfaces and reflection of rough ones.

Nothing here has an adjoint.
"""

import functools
import math
from types import SimpleNamespace

import warp as wp

from warp_kernels.render.structs import surface_structs

PI = math.pi
ROUGH_MAPS = 4  # images seen in surfaces with a roughness of 1/4, 2/4, 3/4 and 1


@functools.cache
def dome_functions() -> SimpleNamespace:
    """Return the Warp functions, in single precision."""
    Dome = surface_structs().Dome

    @wp.func
    def map_color(dome: Dome, level: int, direction: wp.vec3):
        """Return the light from a direction of the image's frame, bilinear in an image of the dome; any of its texels for
        a direction that isn't a number.
        """
        width = dome.sizes[level, 0]
        height = dome.sizes[level, 1]
        longitude = wp.atan2(direction[0], -direction[1])
        latitude = wp.asin(wp.clamp(direction[2], -1.0, 1.0))
        x = (0.5 - longitude / (2.0 * PI)) * float(width) - 0.5
        y = (0.5 - latitude / PI) * float(height) - 0.5
        column = int(wp.floor(x))
        row = int(wp.floor(y))
        across = x - wp.floor(x)
        down = y - wp.floor(y)
        left = wp.clamp((column + width) % width, 0, width - 1)
        right = wp.clamp((column + 1) % width, 0, width - 1)
        above = dome.starts[level] + wp.clamp(row, 0, height - 1) * width
        below = dome.starts[level] + wp.clamp(row + 1, 0, height - 1) * width
        upper = dome.texels[above + left] * (1.0 - across) + dome.texels[above + right] * across
        lower = dome.texels[below + left] * (1.0 - across) + dome.texels[below + right] * across
        return upper * (1.0 - down) + lower * down

    @wp.func
    def dome_color(dome: Dome, direction: wp.vec3, footprint: float):
        """Return the light from a direction of the world; ``footprint`` is the width of a pixel [rad]."""
        finer = int(wp.log2(wp.max(footprint * float(dome.sizes[0, 0]) / (2.0 * PI), 1.0)) + 0.5)
        return map_color(dome, wp.clamp(finer, 0, dome.levels - 1), wp.quat_rotate_inv(dome.turn, direction))

    @wp.func
    def dome_reflection(dome: Dome, direction: wp.vec3, roughness: float):
        """Return the light around a direction of the world that a rough mirror would reflect."""
        inside = wp.quat_rotate_inv(dome.turn, direction)
        level = wp.clamp(roughness, 0.0, 1.0) * float(ROUGH_MAPS)
        first = wp.clamp(int(level), 0, ROUGH_MAPS - 1)
        share = level - float(first)
        sharper = wp.vec3()
        if first == 0:
            sharper = map_color(dome, 0, inside)
        else:
            sharper = map_color(dome, dome.levels + first - 1, inside)
        return sharper * (1.0 - share) + map_color(dome, dome.levels + first, inside) * share

    @wp.func
    def dome_light(dome: Dome, normal: wp.vec3):
        """Return the light on a matte white surface, from spherical harmonics up to order 2.

        Ramamoorthi and Hanrahan, An efficient representation for irradiance environment maps (2001).
        """
        n = wp.quat_rotate_inv(dome.turn, normal)
        h = dome.harmonics
        total = h[0] + h[1] * n[1] + h[2] * n[2] + h[3] * n[0]
        total = total + h[4] * (n[0] * n[1]) + h[5] * (n[1] * n[2]) + h[6] * (3.0 * n[2] * n[2] - 1.0)
        total = total + h[7] * (n[0] * n[2]) + h[8] * (n[0] * n[0] - n[1] * n[1])
        return wp.max(total, wp.vec3(0.0, 0.0, 0.0))

    return SimpleNamespace(dome_color=dome_color, dome_reflection=dome_reflection, dome_light=dome_light)
