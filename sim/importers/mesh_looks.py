"""Materials, textures and texture coordinates of mesh files, from what trimesh reads."""

import os
from typing import Any

import numpy as np

from sim.importers.pictures import MOST_BYTES, NoPictureError, check_picture, texture_of
from sim.model.looks import DEFAULT_MATERIAL, ROUGHNESS, Material, Texture

Colour = tuple[float, float, float, float]
WHITE: Colour = (1.0, 1.0, 1.0, 1.0)
NOT_SHOWN = {"normalTexture": "normal maps", "occlusionTexture": "occlusion maps", "emissiveTexture": "emission"}


class MeshLooks:
    """The looks of the parts of one mesh file.

    Args:
        metallic, roughness: of materials that state none; glTF says 1 and 1.

    Attributes:
        notes: what is not kept.
    """

    def __init__(self, metallic: float = 0.0, roughness: float = ROUGHNESS):
        self.notes: list[str] = []
        self._metallic, self._roughness = metallic, roughness
        self._textures: dict[int, Texture | None] = {}
        self._images: list[Any] = []  # keeps their ids

    def of(self, visual: Any) -> tuple[Colour | None, Material]:
        """Return colour and material of a part; images of its material are removed, so that copies are cheap."""
        if visual.kind is None:
            return None, DEFAULT_MATERIAL
        if visual.kind != "texture":
            return _colour(visual.main_color), DEFAULT_MATERIAL
        source = visual.material
        shared = getattr(source, "image", None)
        image = shared if shared is not None else getattr(source, "baseColorTexture", None)
        uv = getattr(visual, "uv", None)
        texture = None if image is None or uv is None or not len(uv) else self._texture(image)
        rgba = _colour(source.main_color)
        if texture is not None and not _states_colour(source):
            rgba = WHITE
        found = rgba, Material(*self._reflection(source), texture)
        for name in ("image", "baseColorTexture", "metallicRoughnessTexture", *NOT_SHOWN):
            if getattr(source, name, None) is not None:
                setattr(source, name, None)
        return found

    def _texture(self, image: Any) -> Texture | None:
        if id(image) not in self._textures:
            name = os.path.basename(str(getattr(image, "info", {}).get("file_path", ""))) or f"{len(self._textures)}"
            self._images.append(image)
            try:
                self._textures[id(image)] = texture_of(image, name)
            except NoPictureError as error:
                self._textures[id(image)] = None
                self.notes.append(f"ignored: texture '{name}', which {error}")
        return self._textures[id(image)]

    def _reflection(self, source: Any) -> tuple[float, float]:
        """Return roughness and metallic; of images of them the mean."""
        if hasattr(source, "glossiness"):  # the exponent of a Phong highlight
            exponent = getattr(source, "_glossiness", None)
            rough = ROUGHNESS if exponent is None or not exponent >= 0.0 else (2.0 / (exponent + 2.0)) ** 0.25
            return float(np.clip(rough, 0.0, 1.0)), 0.0
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
        rough, metal = np.clip(np.nan_to_num(np.array(values, dtype=float), nan=1.0), 0.0, 1.0).tolist()
        return rough, metal


def corner_uv(part: Any) -> np.ndarray | None:
    """Return the texture coordinates at the corners of a part's faces [nf, 3, 2]; None unless they are finite."""
    uv = np.asarray(part.visual.uv, dtype=np.float64)
    if uv.shape != (len(part.vertices), 2) or not np.isfinite(uv).all():
        return None
    return uv[part.faces]


def texture_files(path: str, notes: list[str]) -> Any:
    """Return a resolver of trimesh for the files that an .obj file names: plain files of sensible sizes.

    Images that trimesh can't open and would leave out are added to the notes.
    """
    import trimesh

    class Files(trimesh.resolvers.FilePathResolver):
        def get(self, name: str) -> bytes:
            file = os.path.join(self.parent, name.strip())
            if not os.path.isfile(file) or os.path.getsize(file) > MOST_BYTES:
                notes.append(f"ignored: '{name.strip()}', which doesn't exist or is too large")
                raise FileNotFoundError(file)
            with open(file, "rb") as data:
                content = data.read()
            if not name.lower().endswith(".mtl"):
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
