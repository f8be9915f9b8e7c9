"""Skies that are images: background, light on matte surfaces and reflections of rough ones.

An image has latitude and longitude, as :class:`sim.Light` describes it.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp
from scipy.spatial.transform import Rotation

from sim.model.looks.lights import Light, MountedLight
from sim.model.looks.looks import Texture
from sim.render.colors import linear_light
from sim.render.textures import halved
from warp_kernels.render.dome import ROUGH_MAPS

WIDEST = 4096  # columns of an image in the ray tracer
SMALL = (32, 64)  # rows and columns of images as rough surfaces reflect them
KEPT = 8  # images whose light is remembered
# Share of each polynomial of harmonics() that matte surfaces reflect
REFLECTED = np.array([1.0, *[2.0 / 3.0] * 3, *[0.25] * 5])


def image_light(texture: Texture) -> np.ndarray:
    """Return the light of an image [height, width, 3]: its pixels are sRGB if they are bytes."""
    if texture.pixels.dtype == np.uint8:
        return np.asarray(linear_light(np.arange(256) / 255.0)[texture.pixels])
    return texture.pixels.astype(np.float64)


def directions(rows: int, columns: int) -> np.ndarray:
    """Return the directions of the middles of pixels [rows, columns, 3]."""
    latitude = np.pi * (0.5 - (np.arange(rows) + 0.5) / rows)[:, None]
    longitude = np.pi * (1.0 - 2.0 * (np.arange(columns) + 0.5) / columns)[None]
    x, y = np.cos(latitude) * np.sin(longitude), -np.cos(latitude) * np.cos(longitude)
    return np.stack([x, y, np.broadcast_to(np.sin(latitude), x.shape)], axis=-1)


def solid_angles(rows: int, columns: int) -> np.ndarray:
    """Return the solid angles of the pixels of each row [rows]."""
    edges = np.sin(np.pi * (0.5 - np.arange(rows + 1) / rows))
    return np.asarray(2.0 * np.pi / columns * (edges[:-1] - edges[1:]))


def harmonics(toward: np.ndarray) -> np.ndarray:
    """Return the polynomials of the real spherical harmonics up to order 2 at unit vectors [..., 3] -> [..., 9]."""
    x, y, z = np.moveaxis(toward, -1, 0)
    return np.stack([np.ones_like(x), y, z, x, x * y, y * z, 3.0 * z**2 - 1.0, x * z, x**2 - y**2], axis=-1)


@functools.lru_cache(KEPT)
def light_coefficients(texture: Texture) -> np.ndarray:
    """Return the coefficients [9, 3] of the polynomials of :func:`harmonics` whose sum is the light on a matte white
    surface: the irradiance over pi.

    Ramamoorthi and Hanrahan, An efficient representation for irradiance environment maps (2001).
    """
    light = reduced(image_light(texture), 256)
    rows, columns = light.shape[:2]
    shapes = harmonics(directions(rows, columns))
    weighted = solid_angles(rows, columns)[:, None, None] * shapes
    # Fitted rather than integrated, since their integrals over few pixels are inexact
    gram, moments = np.einsum("rck,rcl->kl", weighted, shapes), np.einsum("rck,rcd->kd", weighted, light)
    return REFLECTED[:, None] * (np.linalg.pinv(gram) @ moments)


def brightest(texture: Texture) -> np.ndarray:
    """Return the largest light on a surface along an axis of the image [3]."""
    found = harmonics(np.concatenate([np.eye(3), -np.eye(3)])) @ light_coefficients(texture)
    return np.maximum(found.max(axis=0), 0.0)


def reduced(light: np.ndarray, columns: int) -> np.ndarray:
    """Return an image of at most so many columns: halved as often as that takes."""
    while light.shape[1] > columns:
        light = halved(light)
    return light


@functools.lru_cache(KEPT)
def images_of(texture: Texture) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the levels of detail of an image, and the images that rough surfaces reflect, sharpest first."""
    levels = [reduced(image_light(texture), WIDEST)]
    while max(levels[-1].shape[:2]) > 1:
        levels.append(halved(levels[-1]))
    small = resampled(reduced(levels[0], 2 * SMALL[1]), *SMALL)
    toward = directions(*SMALL).reshape(-1, 3)
    cosines = np.clip(toward @ toward.T, -1.0, 1.0)
    area = np.repeat(solid_angles(*SMALL), SMALL[1])
    rough = []
    for k in range(1, ROUGH_MAPS + 1):
        # The lobe of Trowbridge and Reitz, seen along the normal
        squared = (k / ROUGH_MAPS) ** 4
        half = 0.5 * (1.0 + cosines)
        weight = area * np.maximum(cosines, 0.0) / (half * (squared - 1.0) + 1.0) ** 2
        mean = weight @ small.reshape(-1, 3) / weight.sum(axis=1, keepdims=True)
        rough.append(mean.reshape(*SMALL, 3))
    return levels, rough


def resampled(light: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return an image with another number of rows and columns, bilinear."""
    return sampled(light, directions(rows, columns))


def sampled(light: np.ndarray, toward: np.ndarray) -> np.ndarray:
    """Return the light of an image from unit vectors [..., 3], bilinear."""
    rows, columns = light.shape[:2]
    longitude = np.arctan2(toward[..., 0], -toward[..., 1])
    latitude = np.arcsin(np.clip(toward[..., 2], -1.0, 1.0))
    x, y = (0.5 - longitude / (2.0 * np.pi)) * columns - 0.5, (0.5 - latitude / np.pi) * rows - 0.5
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    across, down = (x - left)[..., None], (y - top)[..., None]
    above, below = (np.clip(row, 0, rows - 1) for row in (top, top + 1))
    upper = light[above, left % columns] * (1.0 - across) + light[above, (left + 1) % columns] * across
    lower = light[below, left % columns] * (1.0 - across) + light[below, (left + 1) % columns] * across
    return np.asarray(upper * (1.0 - down) + lower * down)


def dome_of(skies: Sequence[MountedLight]) -> MountedLight | None:
    """Return the sky with the light of all skies with an image, in the frame of the first; None without any."""
    if len(skies) < 2:
        return skies[0] if skies else None
    first = Rotation.from_quat(skies[0].placement[3:])
    rows, columns = (max(one.light.texture.pixels.shape[k] for one in skies if one.light.texture) for k in (0, 1))
    toward = first.apply(directions(min(rows, WIDEST // 2), min(columns, WIDEST)).reshape(-1, 3))
    total = np.zeros(toward.shape)
    for one in skies:
        if one.light.texture is not None:
            inside = Rotation.from_quat(one.placement[3:]).inv().apply(toward)
            total += np.array(one.light.color) * sampled(image_light(one.light.texture), inside)
    image = total.reshape(min(rows, WIDEST // 2), -1, 3).astype(np.float32)
    return replace(skies[0], light=Light("sky", texture=Texture(image, "all skies")))


def dome_arrays(kernels: SimpleNamespace, sky: MountedLight | None) -> Any:
    """Return the struct of the kernels for a sky with an image, or for none, on the current device."""
    found = kernels.Dome()
    texture = None if sky is None else sky.light.texture
    levels, rough = ([], []) if texture is None else images_of(texture)
    images = [*levels, *rough]
    starts = np.cumsum([0, *(image.shape[0] * image.shape[1] for image in images)])[:-1]
    sizes = np.array([image.shape[1::-1] for image in images]).reshape(-1, 2)
    texels = np.concatenate([np.zeros((0, 3)), *(image.reshape(-1, 3) for image in images)])
    coefficients = np.zeros((0, 3)) if texture is None else light_coefficients(texture)
    found.levels = len(levels)
    found.turn = wp.quat(*map(float, (0.0, 0.0, 0.0, 1.0) if sky is None else sky.placement[3:]))
    found.starts = wp.array(starts.astype(np.int32), dtype=int)
    found.sizes = wp.array2d(sizes.astype(np.int32), dtype=int)
    found.texels = wp.array(texels.astype(np.float32), dtype=wp.vec3)
    found.harmonics = wp.array(coefficients.astype(np.float32), dtype=wp.vec3)
    return found
