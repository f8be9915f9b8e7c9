"""A tile of terrain: heights on a grid, and boxes where edges are exact."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sim.errors import ModelError

Range = float | tuple[float, float]


@dataclass(frozen=True)
class Tile:
    """A square of ground, in a frame at its centre with z up. Its border is flat at z = 0, where neighbours adjoin.

    Attributes:
        heights: heights of the ground at the points of a grid [points, points], m; rows along y, columns along x.
        boxes: centre and half extents of boxes that stand on the ground or in its pits [boxes, 6], m.
        height: height of the point in the middle where a robot starts [m].

    Example:
        >>> import numpy as np
        >>> from sim.terrain import Tile
        >>> flat = Tile(np.zeros((3, 3)))
        >>> flat.heights.shape, flat.boxes.shape
        ((3, 3), (0, 6))
    """

    heights: np.ndarray
    boxes: np.ndarray = field(default_factory=lambda: np.zeros((0, 6)))
    height: float = 0.0


class Kind(Protocol):
    """Interface of a kind of tiles. To add a kind, write a class with this method.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.terrain import Tile
        >>> class Bump:  # one point in the middle is higher
        ...     def tile(self, difficulty, size, spacing, rng):
        ...         count = round(size / spacing) + 1
        ...         heights = np.zeros((count, count))
        ...         heights[count // 2, count // 2] = 0.2 * difficulty
        ...         return Tile(heights, height=0.2 * difficulty)
        >>> ground = sim.terrain.generate([Bump()], levels=3, size=4.0)
        >>> ground.origins[:, 0, 2].tolist()
        [0.0, 0.1, 0.2]
    """

    def tile(self, difficulty: float, size: float, spacing: float, rng: np.random.Generator) -> Tile:
        """Make a tile.

        Args:
            difficulty: difficulty from 0 (easy) to 1 (hard).
            size: length of the tile's sides [m], a multiple of the spacing.
            spacing: distance between neighbouring points of the grid [m].
            rng: generator of all random numbers.
        """
        ...


def between(name: str, value: Range, difficulty: float, least: float = 0.0) -> float:
    """Return the value for this difficulty: ``value`` itself, or interpolated within a range (easy, hard).

    Raises:
        ModelError: unless all ends are finite and at least ``least``.
    """
    ends = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if ends.shape not in ((1,), (2,)) or not np.isfinite(ends).all() or ends.min() < least:
        raise ModelError(f"{name} is {value!r}; give a number of at least {least}, or a pair (easy, hard) of them")
    return float(ends[0] + difficulty * (ends[-1] - ends[0]))


def grid_points(size: float, spacing: float) -> np.ndarray:
    """Return coordinates of the points of a tile's grid along one side [points], m."""
    count = round(size / spacing)
    return spacing * (np.arange(count + 1) - 0.5 * count)


def from_centre(size: float, spacing: float) -> np.ndarray:
    """Return the larger of abs(x) and abs(y) at the points of a tile's grid [points, points], m."""
    across = np.abs(grid_points(size, spacing))
    return np.maximum(across[:, None], across)


def slab(half_width: float, bottom: float, top: float) -> list[float]:
    """Return a square box over the middle of a tile."""
    return [0.0, 0.0, 0.5 * (bottom + top), half_width, half_width, 0.5 * (top - bottom)]


def frame(inner: float, outer: float, bottom: float, top: float) -> list[list[float]]:
    """Return four boxes around the middle of a tile that fill the frame between two squares of these half widths."""
    middle, half = 0.5 * (inner + outer), 0.5 * (outer - inner)
    z = [0.5 * (bottom + top)], [0.5 * (top - bottom)]
    along_y = [[side * middle, 0.0, *z[0], half, outer, *z[1]] for side in (-1.0, 1.0)]
    along_x = [[0.0, side * middle, *z[0], inner, half, *z[1]] for side in (-1.0, 1.0)]
    return along_y + along_x
