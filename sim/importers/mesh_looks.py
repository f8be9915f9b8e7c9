"""Materials, textures and texture coordinates of mesh files, from what trimesh reads."""

import os
from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

import numpy as np

from sim.importers.pictures import MOST_BYTES, Budget, NoPictureError, check_picture, has_alpha, texture_of
from sim.importers.shares import share
from sim.model.looks.lights import MountedLight
from sim.model.looks.looks import DEFAULT_MATERIAL, ROUGHNESS, Material, Texture
from sim.render.colors import screen_of

Colour = tuple[float, float, float, float]
WHITE: Colour = (1.0, 1.0, 1.0, 1.0)
NOT_SHOWN = {"normalTexture": "normal maps", "occlusionTexture": "occlusion maps", "emissiveTexture": "emission"}


class MeshLooks:
    """The looks of the parts of one mesh file.

    Args:
        is_gltf: whether the file is a .gltf or .glb file, whose colours are linear, and whose materials are metallic
            and rough unless they say otherwise.
        pictures: limit on the pixels of images.

    Attributes:
        notes: what is not kept.
        lights: the lights of the file.
    """

    def __init__(self, is_gltf: bool, pictures: Budget):
        self.notes: list[str] = []
        self.lights: list[MountedLight] = []
        self._is_gltf, self._pictures = is_gltf, pictures
        self._metallic, self._roughness = (1.0, 1.0) if is_gltf else (0.0, ROUGHNESS)
        self._factors: dict[str, list[object]] = {}
        self._textures: dict[int, Texture | None] = {}
        self._images: list[Any] = []  # keeps their ids

    def add_factor(self, name: object, factor: object) -> None:
        """Keep the colour of a material of a glTF file, which trimesh rounds to bytes."""
        self._factors.setdefault(str(name), []).append(factor)

    def of(self, visual: Any) -> tuple[Colour | None, Material]:
        """Return colour and material of a part; images of its material are removed, so that copies are cheap."""
        if visual.kind is None:
            return None, DEFAULT_MATERIAL
        if visual.kind != "texture":
            rgba = _colour(visual.main_color)
            return (_on_screen(rgba) if self._is_gltf else rgba), DEFAULT_MATERIAL
        source = visual.material
        shared = getattr(source, "image", None)
        image = shared if shared is not None else getattr(source, "baseColorTexture", None)
        uv = getattr(visual, "uv", None)
        texture = None if image is None or uv is None or not len(uv) else self._texture(image)
        rgba = self._rgba_of_gltf(source, image) if self._is_gltf else _colour(source.main_color)
        if texture is not None and not _states_colour(source):
            rgba = WHITE
        found = rgba, Material(*self._reflection(source), texture)
        for name in ("image", "baseColorTexture", "metallicRoughnessTexture", *NOT_SHOWN):
            if getattr(source, name, None) is not None:
                setattr(source, name, None)
        return found

    def _rgba_of_gltf(self, source: Any, image: Any) -> Colour:
        """Return the colour of a material of a glTF file, with the opacity of its alpha mode."""
        red, green, blue, alpha = _colour(source.main_color)
        stated = self._factors.get(str(source.name), [])
        exact = as_colour(stated[0]) if len(stated) == 1 else None
        if source.baseColorFactor is None and exact is None:
            red = green = blue = alpha = 1.0
        elif exact is not None:
            red, green, blue, alpha = exact
        mode = source.alphaMode or "OPAQUE"
        if mode == "MASK":
            alpha = float(alpha >= (0.5 if source.alphaCutoff is None else source.alphaCutoff))
        if mode != "OPAQUE" and image is not None and has_alpha(image):
            self.notes.append(f"ignored: opacity of the image of material '{source.name}'")
        return _on_screen((red, green, blue, 1.0 if mode == "OPAQUE" else alpha))

    def _texture(self, image: Any) -> Texture | None:
        if id(image) not in self._textures:
            name = os.path.basename(str(getattr(image, "info", {}).get("file_path", ""))) or f"{len(self._textures)}"
            self._images.append(image)
            try:
                self._textures[id(image)] = texture_of(image, name, self._pictures)
            except NoPictureError as error:
                self._textures[id(image)] = None
                self.notes.append(f"ignored: texture '{name}', which {error}")
        return self._textures[id(image)]

    def _reflection(self, source: Any) -> tuple[float, float]:
        """Return roughness and metallic; of images of them the mean."""
        if hasattr(source, "glossiness"):  # the exponent of a Phong highlight
            exponent = getattr(source, "_glossiness", None)
            if exponent is not None and not 0.0 <= exponent < np.inf:
                self.notes.append(f"ignored: shininess (Ns) {exponent:g}, which must be finite and not negative")
                exponent = None
            return ROUGHNESS if exponent is None else float((2.0 / (exponent + 2.0)) ** 0.25), 0.0
        metallic, roughness = getattr(source, "metallicFactor", None), getattr(source, "roughnessFactor", None)
        values = [self._roughness if roughness is None else roughness, self._metallic if metallic is None else metallic]
        both = self._texture(source.metallicRoughnessTexture) if source.metallicRoughnessTexture is not None else None
        if both is not None:
            values = (np.array(values, dtype=float) * both.pixels[..., 1:].mean(axis=(0, 1)) / 255.0).tolist()
            self.notes.append("of its images of roughness and metallic the mean is used")
        lost = [what for name, what in NOT_SHOWN.items() if getattr(source, name, None) is not None]
        if np.any(np.asarray(0.0 if source.emissiveFactor is None else source.emissiveFactor)):
            lost.append("emission")
        if lost:
            self.notes.append(f"ignored: {', '.join(dict.fromkeys(lost))}")
        rough, metal = (
            share(float(value), 1.0, name, self.notes)
            for name, value in zip(("roughnessFactor", "metallicFactor"), values, strict=True)
        )
        return rough, metal


def corner_uv(part: Any) -> np.ndarray | None:
    """Return the texture coordinates at the corners of a part's faces [nf, 3, 2]; None unless they are finite."""
    uv = np.asarray(part.visual.uv, dtype=np.float64)
    if uv.shape != (len(part.vertices), 2) or not np.isfinite(uv).all():
        return None
    return uv[part.faces]


def texture_files(path: str, notes: list[str], others: Collection[str] = ()) -> Any:
    """Return a resolver of trimesh for the files that a mesh file names: plain files of sensible sizes.

    Images that trimesh can't open and would leave out are added to the notes.

    Args:
        path: the mesh file.
        notes: added to.
        others: names of files that aren't images, beside .mtl files.
    """
    import trimesh

    class Files(trimesh.resolvers.FilePathResolver):
        def get(self, name: str) -> bytes:
            file = os.path.join(self.parent, unquote(name.strip()) if others else name.strip())
            if not os.path.isfile(file) or os.path.getsize(file) > MOST_BYTES:
                notes.append(f"ignored: '{name.strip()}', which doesn't exist or is too large")
                raise FileNotFoundError(file)
            with open(file, "rb") as data:
                content = data.read()
            if not name.lower().endswith(".mtl") and name not in others:
                try:
                    check_picture(content)
                except NoPictureError as error:
                    notes.append(f"ignored: texture '{name.strip()}', which {error}")
                    raise
            return content

    return Files(path)


def _states_colour(source: Any) -> bool:
    """Return whether a material with an image states a colour to multiply it with."""
    if hasattr(source, "baseColorFactor"):
        return source.baseColorFactor is not None
    diffuse = source.kwargs.get("kd")
    return diffuse is not None and bool(np.any(diffuse))


def _colour(channels: Any) -> Colour:
    r, g, b, a = (float(channel) / 255.0 for channel in channels)
    return r, g, b, a


def as_colour(stated: object) -> Colour | None:
    """Return four numbers between 0 and 1 as a colour; None for anything else."""
    try:
        values = np.array(stated, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if values.shape != (4,) or not np.isfinite(values).all():
        return None
    red, green, blue, alpha = np.clip(values, 0.0, 1.0).tolist()
    return red, green, blue, alpha


def _on_screen(linear: Colour) -> Colour:
    """Return a colour of linear light in sRGB; opacity is unchanged."""
    red, green, blue = np.round(screen_of(np.array(linear[:3])), 12).tolist()
    return red, green, blue, linear[3]
