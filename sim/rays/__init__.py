"""Patterns of rays in the frame of a sensor. :func:`sim.cast_rays` casts them; :mod:`sim.torch` has the sensors."""

from sim.rays.patterns import fan_pattern, grid_pattern, pixel_pattern

__all__ = ["fan_pattern", "grid_pattern", "pixel_pattern"]
