"""Medium around all links, such as water, and the boxes that it drags."""

from dataclasses import dataclass, field

import numpy as np

# MuJoCo doesn't drag lighter bodies [kg].
LIGHTEST = 1e-15


@dataclass(frozen=True)
class Medium:
    """Medium, as given to :meth:`sim.ModelBuilder.set_medium`.

    Attributes:
        density: density [kg/m^3].
        viscosity: dynamic viscosity [Pa s].
        wind: velocity of the medium in the world frame [3], m/s.
    """

    density: float
    viscosity: float
    wind: np.ndarray


@dataclass(frozen=True)
class DragBox:
    """Box that the medium drags, see :meth:`sim.ModelBuilder.add_drag_box`.

    Attributes:
        link: name of its link.
        size: edges of the box [3], m.
        placement: pose in the link: position and quaternion xyzw [7].
    """

    link: str
    size: np.ndarray
    placement: np.ndarray


@dataclass(frozen=True)
class DragBoxes:
    """Drag boxes of a model.

    Attributes:
        link: link of each box [n].
        size: edges of each box [n, 3], m.
        placement: pose of each box in its link [n, 7].
    """

    link: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    size: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    placement: np.ndarray = field(default_factory=lambda: np.zeros((0, 7)))


def inertia_box(mass: float, moments: np.ndarray) -> np.ndarray:
    """Return the edges [3] of the box with a mass [kg] and principal moments of inertia [3], kg m^2, as in MuJoCo."""
    squares = (moments.sum() - 2.0 * moments) * 6.0 / mass
    return np.sqrt(np.maximum(squares, 1e-15 * 6.0 / mass))
