"""Looks of geometries: materials and their textures."""

from dataclasses import dataclass

import numpy as np

from sim.errors import ModelError
from sim.model.checks import number, require_type, two_numbers

ROUGHNESS = 0.5  # of a material that states none
MOST_TEXELS = 2**26  # of a texture: 8192 x 8192
MOST_REPEATS = 1e6  # of a texture [1/m]


@dataclass(frozen=True, eq=False)
class Texture:
    """An image that multiplies the colour of a surface, or the light of the sky.

    Attributes:
        pixels: red, green and blue in sRGB, uint8 [height, width, 3], the top row first; of a sky also linear light,
            float32, which may be above 1.
        name: name of the image, such as that of its file.

    Raises:
        ModelError: for pixels of another type or shape, or more than 8192 x 8192, light that is negative or not finite,
            and a name that isn't text.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> squares = np.kron(np.eye(2), np.ones((4, 4)))[..., None] * np.full(3, 255.0)
        >>> sim.Texture(squares.astype(np.uint8), "squares")
        Texture('squares', 8 x 8 pixels)
    """

    pixels: np.ndarray
    name: str = "texture"

    def __post_init__(self) -> None:
        pixels = self.pixels
        if not isinstance(self.name, str):
            raise ModelError(f"texture: name is {self.name!r:.200}; it must be text")
        known = isinstance(pixels, np.ndarray) and pixels.dtype in (np.uint8, np.float32)
        if not known or pixels.ndim != 3 or pixels.shape[2] != 3:
            found = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
            raise ModelError(
                f"texture '{self.name}': pixels are {found}; expected uint8 [height, width, 3], of a sky also float32"
            )
        if not 0 < pixels.shape[0] * pixels.shape[1] <= MOST_TEXELS:
            raise ModelError(
                f"texture '{self.name}' has {pixels.shape[1]} x {pixels.shape[0]} pixels; it needs at least one, "
                f"and at most {MOST_TEXELS} are supported; use a smaller image"
            )
        if self.is_light and not (np.isfinite(pixels) & (pixels >= 0.0)).all():
            raise ModelError(f"texture '{self.name}': its light must be finite and not negative")

    @property
    def is_light(self) -> bool:
        """True if pixels are linear light, for a sky."""
        return self.pixels.dtype == np.float32

    def __repr__(self) -> str:
        return f"Texture({self.name!r}, {self.pixels.shape[1]} x {self.pixels.shape[0]} pixels)"


@dataclass(frozen=True)
class Material:
    """Reflection of light by the surface of a geometry, as in UsdPreviewSurface and glTF.

    Colour and opacity are the ``rgba`` of the geometry. Pictures show materials; they have no effect on the motion.

    Attributes:
        roughness: 0 (a mirror) to 1 (matte).
        metallic: 0 (plastic, wood, stone) to 1 (metal).
        texture: image that multiplies the colour; it repeats in both directions.
        repeat: repeats of the image per metre along x and y of the geometry's frame, which it is projected along z
            onto. A mesh with texture coordinates doesn't use it. None shows the image only on such meshes.

    Raises:
        ModelError: for numbers out of range.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> gold = sim.Material(roughness=0.2, metallic=1.0)
        >>> _ = scene.add_geometry("world", "sphere", size=0.1, rgba=(1.0, 0.77, 0.34, 1.0), material=gold)
        >>> scene.finalize().geometries[0].material.metallic
        1.0
    """

    roughness: float = ROUGHNESS
    metallic: float = 0.0
    texture: Texture | None = None
    repeat: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("roughness", "metallic"):
            value = number("material", name, getattr(self, name))
            if not 0.0 <= value <= 1.0:
                raise ModelError(f"material: {name} is {value!r}; it must lie between 0 and 1")
            object.__setattr__(self, name, value)
        if self.texture is not None:
            require_type("material: texture", self.texture, Texture, "a sim.Texture")
            if self.texture.is_light:
                raise ModelError(
                    f"material: texture '{self.texture.name}' is the light of a sky; surfaces need pixels of uint8"
                )
        if self.repeat is not None:
            object.__setattr__(self, "repeat", two_numbers("material", "repeat", self.repeat))
            if not all(0.0 < abs(value) <= MOST_REPEATS for value in self.repeat):
                raise ModelError(
                    f"material: repeat is {self.repeat!r}; it must be two numbers other than zero, at most "
                    f"{MOST_REPEATS:g} per metre"
                )


DEFAULT_MATERIAL = Material()
