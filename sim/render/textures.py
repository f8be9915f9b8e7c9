"""Textures of a scene as arrays of the ray tracer, with their levels of detail."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from sim.model.looks.looks import Material, Texture
from sim.render.colors import linear_light

LINEAR = linear_light(np.arange(256) / 255.0).astype(np.float32)


class TextureSet:
    """The textures of some materials, each once.

    Args:
        materials: the materials.
    """

    def __init__(self, materials: Sequence[Material]):
        self._index: dict[Texture, int] = {}
        for material in materials:
            if material.texture is not None:
                self._index.setdefault(material.texture, len(self._index))

    def index(self, material: Material, has_uv: bool) -> int:
        """Return the index of a material's texture; -1 without one, or without coordinates to show it at."""
        return self._index[material.texture] if material.texture is not None and has_uv else -1

    def arrays(self, kernels: SimpleNamespace) -> Any:
        """Return the struct of the kernels, on the current device."""
        pyramids = [levels_of(texture.pixels) for texture in self._index]
        levels = [level for pyramid in pyramids for level in pyramid]
        counts = [len(pyramid) for pyramid in pyramids]
        starts = np.cumsum([0, *(level.shape[0] * level.shape[1] for level in levels)])[:-1]
        sizes = np.array([(level.shape[1], level.shape[0]) for level in levels]).reshape(-1, 2)
        texels = [level.reshape(-1, 3) for level in levels] or [np.zeros((0, 3), dtype=np.uint8)]
        found = kernels.Textures()
        found.first_level = wp.array(np.cumsum([0, *counts])[:-1].astype(np.int32), dtype=int)
        found.levels = wp.array(np.array(counts, dtype=np.int32), dtype=int)
        found.starts = wp.array(starts.astype(np.int32), dtype=int)
        found.sizes = wp.array2d(sizes.astype(np.int32), dtype=int)
        found.texels = wp.array2d(np.concatenate(texels), dtype=wp.uint8)
        found.linear = wp.array(LINEAR, dtype=float)
        return found


def levels_of(pixels: np.ndarray) -> list[np.ndarray]:
    """Return an image, and the means of its light over squares of 2, 4, 8, ... texels, down to a single one."""
    levels = [pixels]
    while max(levels[-1].shape[:2]) > 1:
        levels.append(np.round(255.0 * _encoded(halved(LINEAR[levels[-1]]))).astype(np.uint8))
    return levels


def halved(light: np.ndarray) -> np.ndarray:
    """Return the means of an image [height, width, 3] over squares of two pixels."""
    rows, columns = (max(size // 2, 1) for size in light.shape[:2])
    high, wide = (2 if size > 1 else 1 for size in light.shape[:2])
    # Of an odd number of rows or columns the last one is left out, as in OpenGL.
    blocks = light[: rows * high, : columns * wide].reshape(rows, high, columns, wide, 3)
    return np.asarray(blocks.mean(axis=(1, 3)))


def _encoded(light: np.ndarray) -> np.ndarray:
    """Return linear light in sRGB."""
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1.0 / 2.4) - 0.055)


def uv_density(vertices: np.ndarray, faces: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """Return texture coordinates per length in each triangle [nf]: the root of the ratio of both areas."""
    corners = vertices[faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    across, along = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
    covered = np.abs(across[:, 0] * along[:, 1] - across[:, 1] * along[:, 0])
    return np.asarray(np.sqrt(covered / np.maximum(area, 1e-30)))
