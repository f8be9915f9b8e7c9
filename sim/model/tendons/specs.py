"""What a :class:`sim.ModelBuilder` collects of tendons, as the user described them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.model.softness import DEFAULT_SOFTNESS, Softness


@dataclass(frozen=True, kw_only=True)
class TendonWrap:
    """A sphere or a cylinder without ends that a spatial tendon lies around, between two of its points.

    It has no mass and doesn't collide. As in MuJoCo, the tendon runs straight where that doesn't lead through it, and
    takes the shorter way around it otherwise. With a side it never passes the centre on the other one: where the
    straight line meets the ray from the centre away from the side, the tendon goes around. A side within the radius of
    the centre keeps the tendon inside: where the straight line passes the surface by, it bends to touch it in a point.

    Attributes:
        link: the link that it moves with, or "world".
        radius: its radius [m].
        position: its centre in the link [m].
        axis: that of a cylinder in the link, of any length; None for a sphere.
        side: a link, or "world", and a point in it [m]: on that side the tendon passes. None for either.

    Example:
        >>> import sim
        >>> builder = sim.ModelBuilder()
        >>> _ = builder.add_link("arm", mass=1.0, com=(0.2, 0, 0), inertia=(0.01, 0.01, 0.01))
        >>> _ = builder.add_joint("elbow", "revolute", parent="world", child="arm", axis=(0, 1, 0))
        >>> pin = sim.TendonWrap(link="world", radius=0.05, axis=(0, 1, 0))
        >>> builder.add_spatial_tendon("cord", [("world", (-0.2, 0, 0.03)), pin, ("arm", (0.2, 0, 0.03))])
        'cord'
    """

    link: str
    radius: float
    position: Sequence[float] | npt.NDArray[np.floating] = (0.0, 0.0, 0.0)
    axis: Sequence[float] | npt.NDArray[np.floating] | None = None
    side: tuple[str, Sequence[float] | npt.NDArray[np.floating]] | None = None


@dataclass(kw_only=True)
class TendonSpec:
    """A tendon as the user described it.

    ``coefficients`` by joint, of a fixed tendon. ``branches`` of a spatial one: the divisor of the pulley that each
    begins at, 1 for the first, and the links and points that it runs through, with what it lies around between them.
    ``rest`` None: its initial length. Polynomials: what grows with the square and the cube.
    """

    name: str
    coefficients: dict[str, float]
    branches: list[tuple[float, list[tuple[str, np.ndarray] | TendonWrap]]]
    stiffness: float
    damping: float
    stiffness_polynomial: tuple[float, float]
    damping_polynomial: tuple[float, float]
    armature: float
    rest: tuple[float, float] | None
    friction_loss: float
    lower: float
    upper: float
    limit_margin: float
    limit_softness: Softness
    friction_softness: Softness


@dataclass(kw_only=True)
class TendonCouplingSpec:
    """A tendon whose length is tied to that of another, or to a constant; ``reference`` None: initial lengths."""

    name: str
    tendon: str
    other: str | None
    polynomial: np.ndarray
    reference: tuple[float, float] | None
    softness: Softness = DEFAULT_SOFTNESS
