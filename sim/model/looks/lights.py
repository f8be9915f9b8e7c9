"""Lights of a model, which pictures and written files show."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sim.errors import ModelError
from sim.model.checks import as_numbers, items_of, number, require_flags, require_type
from sim.model.looks.looks import Texture

LightType = Literal["directional", "point", "area", "sky", "headlight"]
SQUARE = (0.0, 0.0, 1.0)  # attenuation with the square of the distance


@dataclass(frozen=True)
class Light:
    """A light; it shines along its -z axis, as in UsdLux and glTF. Pictures show it; it has no effect on the motion.

    Attributes:
        type: "directional", parallel light such as the sun's; "point", light from a point, a spotlight with ``cone``;
            "area", light from a flat disk or rectangle, which falls off with the cosine of the angle from its axis;
            "sky", uniform light from all directions; "headlight", light from the eye of the camera.
        color: light that a white, matte surface facing it reflects, linear red, green and blue; of point and area
            lights at a distance of 1 m.
        attenuation: numbers a, b, c: point and area lights are divided by a + b d + c d^2 at a distance of d metres.
        cone: largest angle between the axis of a point or area light and its rays [degrees].
        softness: share of the cone at its border over which the light fades, 0 to 1.
        exponent: power of the cosine of that angle that point and area lights are multiplied by.
        size: diameter of a directional light as it appears [degrees]; radius of a ball or a disk, or width and height
            of a rectangle along its x and y axes [m]. Borders of its shadows are as soft as it is large; empty for
            sharp ones.
        specular: factor of its highlights.
        shadow: whether objects cast shadows.
        texture: image of a sky that is multiplied by its colour; pictures show it as their background. Its rows are
            latitudes, and the top one is towards z of the light; its columns are longitudes. The middle one is towards
            -y, and the one a quarter from the left towards x.

    Raises:
        ModelError: for an unknown type, numbers out of range, and the texture of another light than a sky.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_ground()
        >>> lamp = sim.Light("point", color=(1.0, 0.9, 0.7), cone=40.0)
        >>> scene.add_light("lamp", lamp, position=(0.0, 0.0, 2.0))
        'lamp'
        >>> scene.finalize().lights[0].light.type
        'point'
    """

    type: LightType
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    attenuation: tuple[float, float, float] = SQUARE
    cone: float = 180.0
    softness: float = 0.0
    exponent: float = 0.0
    size: tuple[float, ...] = ()
    specular: float = 1.0
    shadow: bool = True
    texture: Texture | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.type, str) and self.type in get_args(LightType)):
            known = ", ".join(map(repr, get_args(LightType)))
            raise ModelError(f"light: type is {self.type!r:.200}; it must be one of {known}")
        require_flags("light", shadow=self.shadow)
        for name in ("color", "attenuation"):
            numbers = as_numbers(f"light: {name}", getattr(self, name))
            if numbers.shape != (3,) or not (np.isfinite(numbers) & (numbers >= 0.0)).all():
                raise ModelError(f"light: {name} is {numbers.tolist()}; it must be three finite numbers, not negative")
            values = tuple(numbers.tolist())
            object.__setattr__(self, name, values)
        if not any(self.attenuation):
            raise ModelError("light: attenuation is zero; one of its numbers must be positive")
        for name, highest in (("cone", 180.0), ("softness", 1.0), ("exponent", np.inf), ("specular", np.inf)):
            value = number("light", name, getattr(self, name))
            if not (0.0 <= value <= highest and np.isfinite(value)):
                raise ModelError(f"light: {name} is {value!r}; it must be finite, between 0 and {highest:g}")
            object.__setattr__(self, name, value)
        self._check_size()
        if self.texture is not None:
            require_type("light: texture", self.texture, Texture, "a sim.Texture")
            if self.type != "sky":
                raise ModelError(f"light: texture is that of a sky; a {self.type} light has none")

    def _check_size(self) -> None:
        values = tuple(number("light", "size", each) for each in items_of("light: size", self.size, "numbers"))
        most = {"directional": 1, "point": 1, "area": 2}.get(self.type, 0)
        if len(values) > most:
            raise ModelError(f"light: size is {values}; a {self.type} light has at most {most} numbers")
        if not all(0.0 < value < np.inf for value in values):
            raise ModelError(f"light: size is {values}; its numbers must be positive and finite")
        object.__setattr__(self, "size", values)


def aimed(direction: np.ndarray) -> np.ndarray:
    """Return a rotation that turns the -z axis to a direction, a unit vector [3], as a quaternion xyzw [4]."""
    x, y, z = direction
    quaternion = np.array([y, -x, 0.0, 1.0 - z]) if z < 1.0 - 1e-12 else np.array([1.0, 0.0, 0.0, 0.0])
    return quaternion / np.linalg.norm(quaternion)


@dataclass(frozen=True)
class MountedLight:
    """A light on a link.

    Attributes:
        name: unique name.
        light: the light.
        link: index of the link it moves with; -1 is the world.
        placement, follows, point: as of :class:`sim.model.frames.MountedCamera`.
    """

    name: str
    light: Light
    link: int
    placement: np.ndarray
    follows: str = "link"
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
