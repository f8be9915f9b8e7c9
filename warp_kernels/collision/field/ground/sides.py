"""Angles between directions and surfaces, and their tolerances."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def side_functions(scalar: Any) -> SimpleNamespace:
    """Return the Warp functions for one precision."""
    vec3 = warp_types(scalar).vec3
    # Sine of a negligible angle: rounding must not lose a point between a triangle and its edge.
    angle = 1.0e-9 if scalar == wp.float64 else 1.0e-5
    # Distance that counts as touching where features without extent meet [m].
    touching = 1.0e-7 if scalar == wp.float64 else 1.0e-5

    @wp.func
    def beyond(normal: vec3, direction: vec3):
        """Return the sine of the angle by which a direction lies below the plane across the normal, negative above
        it.
        """
        length = wp.length(direction)
        result = scalar(1.0)
        if length > scalar(0.0):
            result = -wp.dot(normal, direction) / length
        return result

    return SimpleNamespace(angle=angle, touching=touching, beyond=beyond)
