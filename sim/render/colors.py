"""Conversion of colours between sRGB and linear light."""

import numpy as np


def linear_light(srgb: np.ndarray) -> np.ndarray:
    """Convert sRGB colours (0 to 1) to linear light."""
    c = np.clip(srgb, 0.0, 1.0)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def light_of(screen: np.ndarray) -> np.ndarray:
    """Convert sRGB to linear light, also above 1."""
    return np.where(screen <= 0.04045, screen / 12.92, ((screen + 0.055) / 1.055) ** 2.4)


def screen_of(light: np.ndarray) -> np.ndarray:
    """Convert linear light to sRGB, also above 1; the inverse of :func:`light_of`."""
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1.0 / 2.4) - 0.055)
