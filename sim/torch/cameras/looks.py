"""Colours and lights of worlds, as tensors."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.model.checks import number, two_numbers
from sim.model.looks.lights import MountedLight
from sim.model.model import Model
from sim.render.lights import LightSet


class Looks(NamedTuple):
    """Colours and lights of worlds, float32, each with one row for all worlds or a row per world.

    The lights are those of the model, except for the sky's, or the sun if it has none. They are placed on what they
    move with: their link, or the point that they follow, along world axes.

    Attributes:
        colors: base colours of the geometries of the model, sRGB from 0 to 1 [worlds or 1, num_geometries, 3]. Images
            multiply them.
        light_positions: positions of the lights, on what they move with [worlds or 1, num_lights, 3], m.
        light_axes: directions that they shine along, of any length, likewise [worlds or 1, num_lights, 3].
        light_colors: their light, linear red, green and blue, as :class:`sim.Light` defines it, times the exposure
            [worlds or 1, num_lights, 3].
        ambient: factor of the light of the sky, for red, green and blue [worlds or 1, 3].

    Example:
        >>> import torch
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> ground = scene.add_ground()
        >>> _ = scene.add_camera("above", position=(0.0, 0.0, 3.0))
        >>> cameras = sim.torch.Cameras(scene.finalize())
        >>> looks = cameras.looks("cpu")
        >>> looks.colors.shape, looks.light_colors
        (torch.Size([1, 1, 3]), tensor([[[0.8000, 0.7500, 0.6600]]]))
        >>> night = looks._replace(ambient=0.05 * looks.ambient)
    """

    colors: torch.Tensor
    light_positions: torch.Tensor
    light_axes: torch.Tensor
    light_colors: torch.Tensor
    ambient: torch.Tensor


def looks_of(model: Model, lights: LightSet, device: torch.device) -> Looks:
    """Return the colours of a model and its lights, with one row each."""

    def row(values: Any) -> torch.Tensor:
        return torch.tensor(np.array(values)[None], dtype=torch.float32, device=device)

    colors = np.array([geometry.rgba[:3] for geometry in model.geometries]).reshape(-1, 3)
    placements = np.array([one.placement for one in lights.mounted]).reshape(-1, 7)
    axes = np.zeros((0, 3))
    if len(placements):  # older versions of SciPy reject an empty array of rotations
        axes = -Rotation.from_quat(placements[:, 3:]).as_matrix()[:, :, 2]
    return Looks(row(colors), row(placements[:, :3]), row(axes), row(lights.colors()), row((1.0, 1.0, 1.0)))


class RandomLooks(NamedTuple):
    """Ranges of random looks, see :meth:`sim.torch.Cameras.randomise`."""

    color: float
    elevation: tuple[float, float]
    shift: float
    light: tuple[float, float]
    ambient: tuple[float, float]

    def draw(
        self,
        own: Looks,
        count: int,
        generator: torch.Generator,
        geometries: Sequence[int],
        lights: Sequence[MountedLight],
    ) -> Looks:
        """Draw looks of worlds about those of a model.

        Args:
            own: looks of the model.
            count: number of worlds.
            generator: source of random numbers.
            geometries: indices of those whose colours change.
            lights: lights of the model.
        """
        device = own.colors.device
        low, high = _range("elevation", self.elevation, np.pi / 2.0)
        share, shift = (number("randomise", name, getattr(self, name)) for name in ("color", "shift"))
        if not 0.0 <= share <= 1.0 or not 0.0 <= shift < np.inf:
            raise ModelError(
                f"randomise: color is {share!r} and shift {shift!r}; color must lie between 0 (the model's colours) "
                "and 1 (any), and shift must not be negative"
            )

        def between(least: float, most: float, *shape: int) -> torch.Tensor:
            return least + (most - least) * torch.rand(*shape, generator=generator, device=device)

        def rows(numbers: Sequence[int]) -> torch.Tensor:
            return torch.tensor(list(numbers), dtype=torch.int64, device=device)

        colors, chosen = own.colors.repeat(count, 1, 1), rows(geometries)
        colors[:, chosen] += share * (between(0.0, 1.0, count, len(geometries), 3) - colors[:, chosen])
        suns = rows([k for k, one in enumerate(lights) if one.light.type == "directional" and one.link < 0])
        # Equal areas of the sphere are equally likely.
        height = between(float(np.sin(low)), float(np.sin(high)), count, len(suns))
        azimuth = between(-np.pi, np.pi, count, len(suns))
        across = (1.0 - height.square()).clamp(min=0.0).sqrt()
        axes, positions = own.light_axes.repeat(count, 1, 1), own.light_positions.repeat(count, 1, 1)
        axes[:, suns] = -torch.stack([across * azimuth.cos(), across * azimuth.sin(), height], dim=2)
        positions += between(-shift, shift, *positions.shape)
        light = between(*_range("light", self.light), count, len(lights), 1) * own.light_colors
        return Looks(colors, positions, axes, light, between(*_range("ambient", self.ambient), count, 1) * own.ambient)


def _range(name: str, bounds: tuple[float, float], most: float = np.inf) -> tuple[float, float]:
    """Return the bounds of a random number. Raise ModelError for anything but 0 <= low <= high <= most."""
    low, high = two_numbers("randomise", name, bounds)
    if not 0.0 <= low <= high <= most or not np.isfinite(high):
        limit = f" and at most {most:.4g}" if np.isfinite(most) else ""
        raise ModelError(f"randomise: {name} is {(low, high)}; the numbers must ascend and not be negative{limit}")
    return low, high
