"""Looks of prims: colours, materials and textures of UsdPreviewSurface and its relatives."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Ar, Gf, Sdf, Usd, UsdGeom, UsdShade

from sim.importers.pictures import MOST_BYTES, Budget, NoPictureError, contents_of, read_texture
from sim.importers.shares import share
from sim.importers.usd.stage import Scene
from sim.model.geometries import Mesh
from sim.model.looks.looks import DEFAULT_MATERIAL, ROUGHNESS, Material, Texture
from sim.usd.annotations import kept

Colour = tuple[float, float, float, float]
GREY = (0.7, 0.7, 0.7, 1.0)
COLOURS = ("diffuseColor", "diffuse_color_constant", "base_color", "baseColor")
ROUGH = ("roughness", "reflection_roughness_constant", "specular_roughness")
METAL = ("metallic", "metallic_constant", "metalness")
# Rounding of colours
BEYOND = 1e-5
# Inputs that aren't drawn, if they are connected or differ from their default.
NOT_DRAWN = {
    "emissiveColor": "emission", "normal": "normal maps", "displacement": "displacement", "clearcoat": "clearcoats",
}  # fmt: skip


@dataclass(frozen=True)
class Coordinates:
    """Texture coordinates of an image: their name, and the matrix [2, 2] and shift [2] that are applied to them."""

    name: str
    matrix: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True)
class Look:
    """Colour and material of a prim, and its texture coordinates; None without a texture."""

    rgba: Colour = GREY
    material: Material = DEFAULT_MATERIAL
    coordinates: Coordinates | None = None


def look_of(scene: Scene, prim: Usd.Prim) -> Look:
    """Return the look of a prim: of its material, else its display colour, else grey. Note what isn't drawn."""
    bound, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()
    shader = bound.ComputeSurfaceSource()[0] if bound else None
    found = _surface(scene, shader) if shader else None
    if found is not None:
        return found
    shown = None
    if prim.IsA(UsdGeom.Gprim):
        shown = UsdGeom.Gprim(prim).GetDisplayColorAttr().Get(Usd.TimeCode.EarliestTime())
    return Look(_rgba(np.array(shown[0], dtype=np.float64), 1.0)) if shown else Look()


def _surface(scene: Scene, shader: UsdShade.Shader) -> Look | None:
    """Return the look of a surface; None if it has neither a colour nor a texture."""
    opacity, threshold = (
        _number(scene, shader, (name,), usual) for name, usual in (("opacity", 1.0), ("opacityThreshold", 0.0))
    )
    if threshold > 0.0:
        opacity = float(opacity >= threshold)
    roughness, metallic = _number(scene, shader, ROUGH, ROUGHNESS), _number(scene, shader, METAL, 0.0)
    _note_unread(scene, shader)
    image = _source(shader.GetInput(COLOURS[0]))
    if image:
        texture = _texture(scene, image)
        if texture is not None:
            tint = _vector(image.GetInput("scale"), (1.0, 1.0, 1.0, 1.0))
            return Look(_rgba(tint[:3], opacity), Material(roughness, metallic, texture), _coordinates(scene, image))
    for name in COLOURS:
        stated = shader.GetInput(name)
        value = _value(stated)
        if isinstance(value, Gf.Vec3f | Gf.Vec3d):
            if min(value) < -BEYOND or max(value) > 1.0 + BEYOND:
                scene.notes.append(f"{name} of material '{_material_of(shader)}' isn't between 0 and 1; it is clamped")
            return Look(_rgba(np.array(value, dtype=np.float64), opacity), Material(roughness, metallic))
    return None


def _source(stated: UsdShade.Input) -> UsdShade.Shader | None:
    """Return the shader that an input is connected to; None for a value, also one of the material."""
    found = stated.GetValueProducingAttributes() if stated else []
    shader = UsdShade.Shader(found[0].GetPrim()) if found else None
    return shader if shader and UsdShade.Utils.GetType(found[0].GetName()) == UsdShade.AttributeType.Output else None


def _value(stated: UsdShade.Input) -> object:
    """Return the value of an input, which may be connected to an input of its material."""
    found = stated.GetValueProducingAttributes() if stated else []
    return found[0].Get(Usd.TimeCode.EarliestTime()) if found else None


def _vector(stated: UsdShade.Input, otherwise: tuple[float, ...]) -> np.ndarray:
    """Return the finite numbers of an input; others if it doesn't state as many."""
    try:
        found = np.array(_value(stated), dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):  # of another type
        return np.array(otherwise)
    return found if found.shape == (len(otherwise),) and np.isfinite(found).all() else np.array(otherwise)


def _rgba(linear: np.ndarray, opacity: float) -> Colour:
    red, green, blue = (float(value) for value in screen_colour(linear))
    return red, green, blue, min(max(opacity, 0.0), 1.0)


def screen_colour(linear: np.ndarray) -> np.ndarray:
    """Convert linear light to sRGB; the inverse of :func:`sim.render.colors.linear_light`."""
    c = np.clip(linear, 0.0, 1.0)
    return np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1.0 / 2.4) - 0.055)


def _number(scene: Scene, shader: UsdShade.Shader, names: tuple[str, ...], otherwise: float) -> float:
    """Return a number between 0 and 1 that a shader states under one of these names; note one that isn't."""
    for name in names:
        stated = shader.GetInput(name)
        value = _value(stated)
        if isinstance(value, int | float):
            # The shortest decimal number that is the same in single precision
            return share(
                float(str(np.float32(value))), otherwise, f"{name} of material '{_material_of(shader)}'", scene.notes
            )
        if value is not None:
            scene.notes.append(f"ignored: {name} of material '{_material_of(shader)}', which is not a number")
    return otherwise


def _material_of(shader: UsdShade.Shader) -> Sdf.Path:
    return shader.GetPrim().GetParent().GetPath()


def _note_unread(scene: Scene, shader: UsdShade.Shader) -> None:
    """Note the inputs of a shader that aren't drawn."""
    lost = []
    for name, what in NOT_DRAWN.items():
        stated = shader.GetInput(name)
        value = _value(stated)
        flat = name == "normal" or value is None or not np.any(np.array(value, dtype=np.float64))
        if stated and (stated.HasConnectedSource() or not flat):
            lost.append(what)
    for name in ("opacity", ROUGH[0], METAL[0]):
        source = _source(shader.GetInput(name))
        if source and source.GetIdAttr().Get() == "UsdUVTexture":
            lost.append(f"textures of {name}")
    if lost:
        scene.notes.append(f"ignored: {', '.join(lost)} of material '{_material_of(shader)}'")


def _texture(scene: Scene, image: UsdShade.Shader) -> Texture | None:
    """Return the image of a UsdUVTexture; None, with a note, if it can't be read."""
    is_image = image and image.GetIdAttr().Get() == "UsdUVTexture"
    asset: Any = _value(image.GetInput("file")) if is_image else None
    if not isinstance(asset, Sdf.AssetPath):
        scene.notes.append(f"ignored: the colour of '{image.GetPath()}', which is no UsdUVTexture with a file")
        return None
    return read_image(scene, asset, read_texture)


def read_image(scene: Scene, asset: Sdf.AssetPath, read: Callable[[bytes, str, Budget], Texture]) -> Texture | None:
    """Return an image of the stage, which is read once; None, with a note, if it can't be read."""
    key = f"{read.__name__} {asset.resolvedPath or asset.path}"
    if key not in scene.textures:
        scene.textures[key] = None
        try:
            scene.textures[key] = read(contents_of(_file(asset)), Path(asset.path).name, scene.pictures)
        except NoPictureError as error:
            scene.notes.append(f"ignored: texture '{asset.path}', which {error}")
    return scene.textures[key]


def _file(asset: Sdf.AssetPath) -> Path | bytes:
    """Return the file of an image, or its contents in a package."""
    found = asset.resolvedPath
    if not found:
        raise NoPictureError("doesn't exist")
    if not Ar.IsPackageRelativePath(found):
        return Path(found)
    try:
        return _contents(*Ar.SplitPackageRelativePathOuter(found))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise NoPictureError(f"can't be read: {error}") from None


def _contents(package: str | io.BytesIO, inside: str) -> bytes:
    """Return the contents of a file in a package, which may be in a package that is in the first one."""
    name, deeper = Ar.SplitPackageRelativePathOuter(inside)
    with zipfile.ZipFile(package, metadata_encoding="utf-8") as archive:  # USD doesn't mark its names as UTF-8
        if archive.getinfo(name).file_size > MOST_BYTES:
            raise NoPictureError(f"is larger than {MOST_BYTES // 2**20} MB")
        contents = archive.read(name)
    return _contents(io.BytesIO(contents), deeper) if deeper else contents


def _coordinates(scene: Scene, image: UsdShade.Shader) -> Coordinates:
    """Return the texture coordinates of an image: those of its reader, or USD's usual ones, and the transforms between.

    Note what isn't shown of the image.
    """
    lost = [name for name in ("wrapS", "wrapT") if _value(image.GetInput(name)) in ("black", "clamp", "mirror")]
    if _vector(image.GetInput("bias"), (0.0, 0.0, 0.0, 0.0))[:3].any():
        lost.append("bias")
    if lost:
        scene.notes.append(f"ignored: {', '.join(lost)} of image '{image.GetPath()}'")
    matrix, shift = np.eye(2), np.zeros(2)
    reader, chain = _source(image.GetInput("st")), set[Sdf.Path]()
    while reader and reader.GetIdAttr().Get() == "UsdTransform2d" and reader.GetPath() not in chain:
        chain.add(reader.GetPath())
        # Scale, rotation and translation, in this order
        angle = float(np.radians(_vector(reader.GetInput("rotation"), (0.0,))[0]))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        own = turn * _vector(reader.GetInput("scale"), (1.0, 1.0))
        shift = shift + matrix @ _vector(reader.GetInput("translation"), (0.0, 0.0))
        matrix = matrix @ own
        reader = _source(reader.GetInput("in"))
    name = _value(reader.GetInput("varname")) if reader else None
    return Coordinates(str(name or "st"), matrix, shift)


def coated(material: Material, prim: Usd.Prim) -> Material:
    """Return a material with the repeats of its projected texture that were stored with a prim."""
    repeat = kept(prim, "texture_repeat", 2)
    if material.texture is None or repeat is None:
        return material
    x, y = repeat.tolist()
    return replace(material, repeat=(x, y))


def moved_coordinates(source: Mesh, target: Mesh) -> np.ndarray | None:
    """Return the texture coordinates of a mesh at the corners of another one of the same triangles [nf, 3, 2]; None for
    other triangles.
    """
    if source.uv is None:
        return None
    digits = 6 - int(np.floor(np.log10(max(float(np.abs(source.vertices).max()), 1e-12))))
    known: dict[frozenset[tuple[float, ...]], dict[tuple[float, ...], np.ndarray]] = {}
    for corners, uv in zip(np.round(source.vertices, digits)[source.faces], source.uv, strict=True):
        points = [tuple((corner + 0.0).tolist()) for corner in corners]
        known[frozenset(points)] = dict(zip(points, uv, strict=True))
    moved = np.empty((len(target.faces), 3, 2))
    for row, corners in zip(moved, np.round(target.vertices, digits)[target.faces], strict=True):
        points = [tuple((corner + 0.0).tolist()) for corner in corners]
        found = known.get(frozenset(points))
        if found is None:
            return None
        row[:] = [found[point] for point in points]
    return moved


def corner_uv(prim: Usd.Prim, coordinates: Coordinates, corners: np.ndarray) -> np.ndarray | None:
    """Return texture coordinates of a mesh at the corners of its triangles [m, 3, 2]; None without.

    Args:
        prim: the mesh.
        coordinates: the coordinates.
        corners: index of each corner among the face vertices of the mesh [m, 3].
    """
    found = UsdGeom.PrimvarsAPI(prim).FindPrimvarWithInheritance(coordinates.name)
    values = np.array((found.ComputeFlattened(Usd.TimeCode.EarliestTime()) if found else None) or [], dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != 2:
        return None
    kind = found.GetInterpolation()
    if kind in (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying):
        time = Usd.TimeCode.EarliestTime()
        corners = np.array(UsdGeom.Mesh(prim).GetFaceVertexIndicesAttr().Get(time), dtype=np.int64)[corners]
    elif kind != UsdGeom.Tokens.faceVarying:
        return None
    if corners.max() >= len(values) or not np.isfinite(values).all():
        return None
    return np.asarray(values[corners] @ coordinates.matrix.T + coordinates.shift)
