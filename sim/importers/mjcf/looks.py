"""Materials and textures of an MJCF file.

Images of files are read here, since they may be huge or broken; MuJoCo generates the builtin ones.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from sim.importers.mjcf.source.file import MJCFFile
from sim.importers.mjcf.source.textures import TextureSource, read_pixels
from sim.importers.pictures import Budget, NoPictureError
from sim.importers.shares import share
from sim.model.looks.looks import MOST_REPEATS, ROUGHNESS, Material, Texture
from warp_kernels import types as codes


@dataclass
class Looks:
    """The materials of a file.

    Attributes:
        file: the compiled file.
        notes: what of them isn't kept.
    """

    file: MJCFFile
    notes: list[str] = field(default_factory=list)
    _materials: dict[int, Material] = field(default_factory=dict)
    _textures: dict[int, Texture | None] = field(default_factory=dict)
    _budget: Budget = field(default_factory=Budget)

    def of(self, geom: int, code: int) -> Material:
        """Return the material of a geom, its texture placed as MuJoCo places it on one of this type."""
        model, index = self.file.model, int(self.file.model.geom_matid[geom])
        if index < 0:
            return Material()
        if index not in self._materials:
            self._materials[index] = self._material(index)
        found = self._materials[index]
        if found.texture is None:
            return found
        return replace(found, repeat=self._repeat(index, np.array(model.geom_size[geom]), code))

    def _material(self, index: int) -> Material:
        """Return a material, and note what of it isn't kept."""
        model, name = self.file.model, self.file.spec.materials[index].name
        roughness = float(self.file.array("mat_roughness", np.full(model.nmat, -1.0))[index])
        metallic = float(self.file.array("mat_metallic", np.full(model.nmat, -1.0))[index])
        if roughness < 0.0:
            roughness = _of_shininess(float(model.mat_specular[index]), float(model.mat_shininess[index]))
        lost = [what for what in ("emission", "reflectance") if getattr(model, f"mat_{what}")[index] > 0.0]
        textures = np.array(model.mat_texid[index]).reshape(-1)
        colour = 0 if len(textures) == 1 else int(self.file.mujoco.mjtTextureRole.mjTEXROLE_RGB)
        if (np.delete(textures, colour) >= 0).any():
            lost.append("textures other than of its colour")
        if lost:
            self.notes.append(f"ignored: {', '.join(lost)} of material '{name}'")
        texture = self._texture(int(textures[colour])) if textures[colour] >= 0 else None
        of = f"of material '{name}'"
        return Material(
            share(roughness, ROUGHNESS, f"roughness {of}", self.notes),
            share(max(metallic, 0.0), 0.0, f"metallic {of}", self.notes),  # negative unless it is stated
            texture,
        )

    def _repeat(self, index: int, size: np.ndarray, code: int) -> tuple[float, float] | None:
        """Return the repeats per metre of a texture that has no coordinates.

        MuJoCo's "uniform" repeats are per two metres, others per size of the object along x and y.
        """
        wide = {codes.SPHERE: size[[0, 0]], codes.CAPSULE: size[[0, 0]], codes.CYLINDER: size[[0, 0]]}
        half = wide.get(code, size[:2])
        uniform = bool(self.file.model.mat_texuniform[index])
        per = np.where(uniform | (half <= 0.0), 1.0, half)
        repeat = 0.5 * self.file.model.mat_texrepeat[index] / per
        if not np.isfinite(repeat).all() or not ((repeat != 0.0) & (np.abs(repeat) <= MOST_REPEATS)).all():
            return None
        x, y = repeat.tolist()
        return x, y

    def _texture(self, index: int) -> Texture | None:
        if index not in self._textures:
            source = self.file.textures[index]
            try:
                self._textures[index] = self._read(index, source)
            except NoPictureError as error:
                self.notes.append(f"ignored: texture '{source.name}', which {error}")
                self._textures[index] = None
        return self._textures[index]

    def _read(self, index: int, source: TextureSource) -> Texture:
        model = self.file.model
        if source.why_not:
            raise NoPictureError(source.why_not)
        if source.is_builtin:
            height, width, channels = (
                int(array[index]) for array in (model.tex_height, model.tex_width, model.tex_nchannel)
            )
            start = int(model.tex_adr[index])
            data = np.array(model.tex_data[start : start + height * width * channels]).reshape(height, width, channels)
            return Texture(np.ascontiguousarray(data[..., :3]), source.name)
        return Texture(np.ascontiguousarray(read_pixels(source, source.paths, self._budget)), source.name)


def _of_shininess(specular: float, shininess: float) -> float:
    """Return the roughness of MuJoCo's highlight, whose exponent is 128 times the shininess."""
    if specular <= 0.0:
        return 1.0
    return ROUGHNESS if shininess < 0.0 else float((2.0 / (128.0 * shininess + 2.0)) ** 0.25)
