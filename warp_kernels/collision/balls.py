"""Contact of two balls: what spheres, capsules and the edges and corners of boxes come down to."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def ball_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of one precision."""
    t = warp_types(scalar)
    vec3 = t.vec3

    @wp.func
    def ball_ball(centre_a: vec3, radius_a: scalar, centre_b: vec3, radius_b: scalar):
        """Distance, point midway between the surfaces, and normal from a to b.

        Closer than a nanometre the centres give no direction: the normal is then +z, and all numbers stay finite.
        """
        delta = centre_b - centre_a
        normal = vec3(scalar(0.0), scalar(0.0), scalar(1.0))
        gap = delta[2]
        square = wp.dot(delta, delta)
        if square > scalar(1.0e-18):
            gap = wp.sqrt(square)
            normal = delta / gap
        distance = gap - radius_a - radius_b
        point = centre_a + (radius_a + scalar(0.5) * distance) * normal
        return distance, point, normal

    return SimpleNamespace(ball_ball=ball_ball)
