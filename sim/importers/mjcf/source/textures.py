"""Textures of a parsed MJCF file before it is compiled: MuJoCo gets one pixel for each that it does not generate."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.model.looks.looks import MOST_TEXELS


@dataclass(frozen=True)
class TextureSource:
    """Source of the pixels of a texture.

    Attributes:
        name: its name.
        paths: files in which MuJoCo may look for it.
        is_builtin: whether MuJoCo generates it.
        mirrored, upside_down: whether its columns and its rows are reversed.
        why_not: why it isn't kept; empty if it is.
    """

    name: str
    paths: tuple[Path, ...] = ()
    is_builtin: bool = False
    mirrored: bool = False
    upside_down: bool = False
    why_not: str = ""


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
        flat = texture.type == mujoco.mjtTexture.mjTEXTURE_2D
        texels = max(int(texture.width), 0) * max(int(texture.height), 0)
        if not flat:
            source = TextureSource(name, why_not="is a cube or a sky; only textures of type 2d are supported")
        elif texture.builtin == mujoco.mjtBuiltin.mjBUILTIN_NONE:
            paths = tuple(_candidates(spec, texture, folders)) if texture.file else ()
            source = TextureSource(name, paths, False, bool(texture.hflip), bool(texture.vflip))
        elif texels > left:
            source = TextureSource(name, why_not=f"has too many pixels; at most {MOST_TEXELS} are generated")
        else:
            source, left = TextureSource(name, is_builtin=True), left - texels
        found.append(source)
        if not source.is_builtin:
            texture.file, texture.cubefiles = "", [""] * 6
            texture.builtin, texture.type = mujoco.mjtBuiltin.mjBUILTIN_FLAT, mujoco.mjtTexture.mjTEXTURE_2D
            texture.width, texture.height, texture.nchannel = 1, 1, 3
    return found


def _candidates(spec: Any, texture: Any, folders: Sequence[Path]) -> list[Path]:
    """Return the paths at which MuJoCo may look for the file of a texture, also of an attached model."""
    name, own = str(texture.file), getattr(texture, "compiler", spec)  # old versions have none
    inside = dict.fromkeys((own.texturedir, spec.texturedir))
    return [
        folder / below / file
        for folder in dict.fromkeys((Path(spec.modelfiledir), *folders))
        for file in (name, Path(name).name)
        for below in (*inside, "")
    ]
