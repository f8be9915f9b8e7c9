"""What a :class:`sim.ModelBuilder` collects of tendons, as the user described them."""

from dataclasses import dataclass

import numpy as np

from sim.model.softness import DEFAULT_SOFTNESS, Softness


@dataclass(kw_only=True)
class TendonSpec:
    """A tendon as the user described it.

    ``coefficients`` by joint, of a fixed tendon. ``branches`` of a spatial one: the divisor of the pulley that each
    begins at, 1 for the first, and the links and points that it runs through. ``rest`` None: its initial length.
    """

    name: str
    coefficients: dict[str, float]
    branches: list[tuple[float, list[tuple[str, np.ndarray]]]]
    stiffness: float
    damping: float
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
