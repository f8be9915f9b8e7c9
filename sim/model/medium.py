"""A medium around all links, such as water, and the boxes by which it drags them."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Medium:
    """What :meth:`sim.ModelBuilder.set_medium` was given.

    Attributes:
        density: [kg/m^3].
        viscosity: [Pa s].
        wind: velocity of the medium in the world frame [3], m/s.
    """

    density: float
    viscosity: float
    wind: np.ndarray


@dataclass(frozen=True)
class DragBox:
    """A box that the medium drags, see :meth:`sim.ModelBuilder.add_drag_box`.

    Attributes:
        link: name of its link.
        size: its edges [3], m.
        placement: pose in the link: position and quaternion xyzw [7].
    """

    link: str
    size: np.ndarray
    placement: np.ndarray


@dataclass(frozen=True)
class DragBoxes:
    """The boxes of a model.

    Attributes:
        link: index of the link of each one [n].
        size: edges [n, 3], m.
        placement: pose in the link [n, 7].
    """

    link: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    size: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    placement: np.ndarray = field(default_factory=lambda: np.zeros((0, 7)))


def inertia_box(mass: float, moments: np.ndarray) -> np.ndarray:
    """Edges [3] of the box that has a mass [kg] and principal moments of inertia [3], kg m^2, as MuJoCo takes them."""
    squares = (moments.sum() - 2.0 * moments) * 6.0 / mass
    return np.sqrt(np.maximum(squares, 1e-15 * 6.0 / mass))
