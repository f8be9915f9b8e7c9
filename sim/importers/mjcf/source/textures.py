"""Textures of a parsed MJCF file before it is compiled: MuJoCo gets one pixel for each that it does not generate."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.importers.pictures import Budget, NoPictureError, read_texture
from sim.model.looks.looks import MOST_TEXELS

LETTERS = "RLUDFB"  # faces of a sky in MuJoCo's order


@dataclass(frozen=True)
class TextureSource:
    """Source of the pixels of a texture.

    Attributes:
        name: its name.
        paths: files in which MuJoCo may look for it.
        is_builtin: whether MuJoCo generates it.
        mirrored, upside_down: whether its columns and its rows are reversed.
        why_not: why it isn't kept; empty if it is.
        sky: whether it is the sky.
        faces: files of the six faces of a sky, right, left, up, down, front and back, each likewise; empty for one
            image.
        grid: letters of the faces in the image of a sky, row by row; empty for one face that is shown on all sides.
    """

    name: str
    paths: tuple[Path, ...] = ()
    is_builtin: bool = False
    mirrored: bool = False
    upside_down: bool = False
    why_not: str = ""
    sky: bool = False
    faces: tuple[tuple[Path, ...], ...] = ()
    grid: tuple[str, ...] = ()


def take_textures(mujoco: Any, spec: Any, folders: Sequence[Path]) -> list[TextureSource]:
    """Return the textures of a parsed file by index; those that MuJoCo doesn't generate become a single pixel in it.

    A small file can contain a huge image, and MuJoCo refuses a model with one that is missing or broken.

    Args:
        mujoco: MuJoCo's module.
        spec: the parsed file.
        folders: folders of the files that it was parsed from.
    """
    found, left = [], MOST_TEXELS
    for number, texture in enumerate(spec.textures):
        # MuJoCo's type of a texture that needs no name: only a sky
        name = texture.name = texture.name or Path(texture.file).stem or f"texture {number}"
        kinds = mujoco.mjtTexture
        sky = texture.type == kinds.mjTEXTURE_SKYBOX
        wide, high = max(int(texture.width), 0), max(int(texture.height), 0)
        texels = 6 * wide**2 if sky else wide * high
        if texture.type == kinds.mjTEXTURE_CUBE:
            source = TextureSource(name, why_not="is a cube; only textures of type 2d and skies are supported")
        elif texture.builtin == mujoco.mjtBuiltin.mjBUILTIN_NONE:
            paths = tuple(_candidates(spec, texture, str(texture.file), folders)) if texture.file else ()
            source = TextureSource(name, paths, False, bool(texture.hflip), bool(texture.vflip))
            if sky:
                source = replace(source, sky=True, **_parts_of_sky(spec, texture, folders))
        elif texels > left:
            source = TextureSource(name, why_not=f"has too many pixels; at most {MOST_TEXELS} are generated", sky=sky)
        else:
            source, left = TextureSource(name, is_builtin=True, sky=sky), left - texels
        found.append(source)
        if not source.is_builtin:
            texture.file, texture.cubefiles = "", [""] * 6
            texture.builtin, texture.type = mujoco.mjtBuiltin.mjBUILTIN_FLAT, mujoco.mjtTexture.mjTEXTURE_2D
            texture.width, texture.height, texture.nchannel = 1, 1, 3
    return found


def read_pixels(source: TextureSource, paths: Sequence[Path], budget: Budget) -> np.ndarray:
    """Return the pixels of the first of these files that exists, reversed as the texture states.

    Raises:
        NoPictureError: if there is none, and as :func:`sim.importers.pictures.read_texture`.
    """
    # Unlike Path.is_file, also False for names that are too long
    path = next((path for path in paths if os.path.isfile(path)), None)
    if path is None:
        raise NoPictureError("has a file that doesn't exist")
    pixels = read_texture(path, source.name, budget).pixels
    return pixels[:: -1 if source.upside_down else 1, :: -1 if source.mirrored else 1]


def _parts_of_sky(spec: Any, texture: Any, folders: Sequence[Path]) -> dict[str, Any]:
    """Return the faces or the grid of a sky that MuJoCo reads from files."""
    if not texture.file:
        files = [str(each) for each in texture.cubefiles]
        return {"faces": tuple(tuple(_candidates(spec, texture, each, folders)) if each else () for each in files)}
    rows, columns = (int(number) for number in texture.gridsize)
    letters = "".join(letter if isinstance(letter, str) else letter.decode() for letter in texture.gridlayout)
    letters = letters.rstrip("\0")
    if (rows, columns) == (1, 1):
        return {}
    if min(rows, columns) < 1 or set(letters) - set(f"{LETTERS}."):
        return {"why_not": f"has a grid of {rows} x {columns} faces '{letters}'; letters are {LETTERS} and dots"}
    return {"grid": tuple(letters[row * columns : (row + 1) * columns] for row in range(rows))}


def _candidates(spec: Any, texture: Any, name: str, folders: Sequence[Path]) -> list[Path]:
    """Return the paths at which MuJoCo may look for a file of a texture, also of an attached model."""
    own = getattr(texture, "compiler", spec)  # old versions have none
    inside = dict.fromkeys((own.texturedir, spec.texturedir))
    return [
        folder / below / file
        for folder in dict.fromkeys((Path(spec.modelfiledir), *folders))
        for file in (name, Path(name).name)
        for below in (*inside, "")
    ]
