"""Ambient occlusion: its options and the directions of its rays."""

from dataclasses import dataclass

import numpy as np

from sim.errors import ModelError
from sim.model.checks import is_positive, is_whole


@dataclass(frozen=True)
class AmbientOcclusion:
    """Options of ambient occlusion, the share of the sky's light at a surface (Zhukov, Iones and Kronin 1998).

    The ray directions are the same at every pixel and in every frame, which prevents flicker.

    Attributes:
        rays: number of rays from the surface at every pixel; too few show banding.
        reach: distance up to which an object blocks light [m].

    Raises:
        ModelError: for numbers that are not positive.

    Example:
        >>> import sim
        >>> from sim.render import AmbientOcclusion, render_frames
        >>> model = sim.load("scenes/robots/manipulator.urdf")
        >>> poses = sim.forward_kinematics(model, model.q0[None]).numpy()
        >>> render_frames(model, poses, width=64, height=48, device="cpu", occlusion=AmbientOcclusion(rays=16)).shape
        (1, 48, 64, 3)
    """

    rays: int = 64
    reach: float = 0.5

    def __post_init__(self) -> None:
        if not (is_whole(self.rays, 1) and is_positive(self.reach)):
            raise ModelError(
                f"ambient occlusion with {self.rays!r} rays and reach {self.reach!r} m: both must be positive"
            )


def sky_directions(count: int) -> np.ndarray:
    """Return unit vectors about z with cosine-weighted density [count, 3], from a spiral on the unit disk."""
    number = np.arange(count)
    radius = np.sqrt((number + 0.5) / max(count, 1))
    angle = number * np.pi * (3.0 - np.sqrt(5.0))
    across = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([across, np.sqrt(1.0 - radius[:, None] ** 2)], axis=1).astype(np.float32)
