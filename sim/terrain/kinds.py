"""Kinds of terrain tiles: stairs, slopes, rough ground, stones."""

from dataclasses import dataclass

import numpy as np

from sim.errors import ModelError
from sim.terrain.tile import Range, Tile, between, frame, from_centre, grid_points, slab

LEAST = 1e-3  # minimum width of a stone that is cut at the border [m]


@dataclass(frozen=True)
class Stairs:
    """Stairs on four sides, leading to a platform in the middle. They are boxes, so treads are level and edges sharp.

    With d the larger of abs(x) and abs(y), the tread's depth t, the platform's width p, and
    n = floor((size - p) / (2 t)) steps of height h, the ground lies at h clip(floor((p / 2 + n t - d) / t), 0, n), or
    at the negative of that height for stairs that lead down.

    Attributes:
        rise: height of a step [m], or (easy, hard).
        tread: depth of a tread [m], or (easy, hard).
        platform: width of the platform [m].
        down: whether the stairs lead down from the border, into a pit.

    Example:
        >>> import sim
        >>> from sim.terrain import Stairs
        >>> ground = sim.terrain.generate([Stairs(rise=0.1, tread=0.4)], size=5.0, seed=1)
        >>> ground.origins.shape, round(float(ground.heights.max()), 2)
        ((1, 1, 3), 0.0)
    """

    rise: Range = (0.05, 0.2)
    tread: Range = 0.3
    platform: float = 2.0
    down: bool = False

    def tile(self, difficulty: float, size: float, spacing: float, rng: np.random.Generator) -> Tile:
        """Make a tile, see :meth:`Kind.tile`."""
        rise = between("rise of Stairs", self.rise, difficulty, 1e-4)
        tread = between("tread of Stairs", self.tread, difficulty, spacing if self.down else 1e-3)
        half = 0.5 * between("platform of Stairs", self.platform, 0.0, 1e-3)
        count = int((0.5 * size - half) / tread + 1e-9)
        if count < 1:
            raise ModelError(
                f"Stairs: no step of {tread} m fits between a platform of {2 * half} m and the "
                f"border of a {size} m tile"
            )
        away = from_centre(size, spacing)
        if not self.down:
            boxes = [slab(half + (count - k) * tread, 0.0, k * rise) for k in range(1, count + 1)]
            return Tile(np.zeros_like(away), np.array(boxes), count * rise)
        floor = -count * rise
        edges = [half + (count - k) * tread for k in range(1, count + 1)]  # of the hole below each level
        outer = [0.5 * size, *edges[:-1]]
        boxes = [box for k in range(count) for box in frame(edges[k], outer[k], floor, -k * rise)]
        return Tile(np.where(away < 0.5 * size - 0.5 * spacing, floor, 0.0), np.array(boxes), floor)


@dataclass(frozen=True)
class Slope:
    """Four slopes that lead to a platform in the middle: a truncated pyramid.

    With d the larger of abs(x) and abs(y) and the platform's width p, the ground lies at
    grade (size / 2 - max(d, p / 2)), or at the negative of that height. This holds at the grid points; between them the
    ground is made of triangles.

    Attributes:
        grade: rise per distance, the tangent of the angle, or (easy, hard).
        platform: width of the platform [m].
        down: whether the slopes lead down from the border, into a hollow.

    Example:
        >>> import sim
        >>> from sim.terrain import Slope
        >>> ground = sim.terrain.generate([Slope(grade=0.3)], size=5.0, seed=1)
        >>> ground.origins.shape, round(float(ground.heights.max()), 2)
        ((1, 1, 3), 0.45)
    """

    grade: Range = (0.0, 0.4)
    platform: float = 2.0
    down: bool = False

    def tile(self, difficulty: float, size: float, spacing: float, rng: np.random.Generator) -> Tile:
        """Make a tile, see :meth:`Kind.tile`."""
        grade = between("grade of Slope", self.grade, difficulty)
        platform = between("platform of Slope", self.platform, 0.0)
        if platform >= size:
            raise ModelError(f"Slope: a platform of {platform} m leaves no space for slopes in a tile of {size} m")
        if self.down:
            grade = -grade
        heights = grade * (0.5 * size - np.maximum(from_centre(size, spacing), 0.5 * platform))
        return Tile(heights, height=0.5 * grade * (size - platform))


@dataclass(frozen=True)
class Rough:
    """Random heights, uniformly distributed about zero, with bilinear interpolation between them.

    Attributes:
        amplitude: maximum height and depth [m], or (easy, hard).
        scale: distance between neighbouring random heights [m], rounded so that it divides the tile.
        step: heights are rounded to multiples of this [m]; zero turns rounding off.
        platform: width of the area in the middle in which a robot starts, at the height of its highest point [m]. The
            area is as rough as the rest.

    Example:
        >>> import sim
        >>> from sim.terrain import Rough
        >>> ground = sim.terrain.generate([Rough(amplitude=0.05)], size=5.0, seed=1)
        >>> ground.origins.shape, round(float(ground.heights.max()), 2)
        ((1, 1, 3), 0.05)
    """

    amplitude: Range = (0.02, 0.1)
    scale: float = 0.2
    step: float = 0.0
    platform: float = 1.0

    def tile(self, difficulty: float, size: float, spacing: float, rng: np.random.Generator) -> Tile:
        """Make a tile, see :meth:`Kind.tile`."""
        amplitude = between("amplitude of Rough", self.amplitude, difficulty)
        scale = between("scale of Rough", self.scale, 0.0, spacing)
        step = between("step of Rough", self.step, 0.0)
        across = grid_points(size, spacing)
        knots = np.linspace(across[0], across[-1], max(round(size / scale), 2) + 1)
        coarse = np.zeros((len(knots), len(knots)))
        coarse[1:-1, 1:-1] = rng.uniform(-amplitude, amplitude, (len(knots) - 2, len(knots) - 2))
        if step > 0.0:
            coarse = step * np.trunc(coarse / step)
        rows = np.array([np.interp(across, knots, row) for row in coarse])
        heights = np.array([np.interp(across, knots, column) for column in rows.T]).T
        close = from_centre(size, spacing) <= 0.5 * between("platform of Rough", self.platform, 0.0) + spacing
        return Tile(heights, height=float(heights[close].max()))


@dataclass(frozen=True)
class Stones:
    """Square stones in a pit around a platform at z = 0, in rows along x with random offsets.

    Stones that the border cuts, and those that touch the platform, are level with it, so no gap is wider than ``gap``.

    Attributes:
        width: width of a stone [m], or (easy, hard).
        gap: gap between stones of a row, and between rows [m], or (easy, hard).
        unevenness: maximum height of stones above and below zero [m], or (easy, hard).
        depth: depth of the pit [m].
        platform: width of the platform [m].

    Example:
        >>> import sim
        >>> from sim.terrain import Stones
        >>> ground = sim.terrain.generate([Stones(width=0.5, gap=0.1)], size=5.0, seed=1)
        >>> ground.origins.shape, round(float(ground.heights.max()), 2)
        ((1, 1, 3), 0.0)
    """

    width: Range = (1.0, 0.3)
    gap: Range = (0.05, 0.25)
    unevenness: Range = (0.0, 0.05)
    depth: float = 1.0
    platform: float = 2.0

    def tile(self, difficulty: float, size: float, spacing: float, rng: np.random.Generator) -> Tile:
        """Make a tile, see :meth:`Kind.tile`."""
        width = between("width of Stones", self.width, difficulty, 1e-3)
        gap = between("gap of Stones", self.gap, difficulty)
        unevenness = between("unevenness of Stones", self.unevenness, difficulty)
        depth = between("depth of Stones", self.depth, 0.0, 1e-3)
        half = 0.5 * between("platform of Stones", self.platform, 0.0, 1e-3)
        inner = 0.5 * size - spacing  # half the width of the pit
        if unevenness >= depth or half + gap + width > inner:
            raise ModelError(
                f"Stones: stones of {width} m, {gap} m apart, need a platform below {2 * (inner - gap - width):.3g} m "
                f"in a tile of {size} m, and an unevenness below the depth of {depth} m"
            )
        boxes = [slab(half, -depth, 0.0), *frame(inner, 0.5 * size, -depth, 0.0)]
        pitch = width + gap
        for y in np.arange(gap - inner, inner - LEAST, pitch):
            for x in np.arange(-inner - rng.uniform(0.0, pitch), inner - LEAST, pitch):
                low, high = np.clip([(x, y), (x + width, y + width)], -inner, inner)
                top = rng.uniform(-unevenness, unevenness)
                if (high - low < width - LEAST).any() or (np.maximum(low, -high) < half).all():
                    top = 0.0  # cut by the border, or touching it
                if (high - low > LEAST).all() and np.maximum(-low, high).max() > half:
                    centre, extents = 0.5 * (low + high), 0.5 * (high - low)
                    boxes.append([*centre, 0.5 * (top - depth), *extents, 0.5 * (top + depth)])
        return Tile(np.where(from_centre(size, spacing) < inner + 0.5 * spacing, -depth, 0.0), np.array(boxes))
