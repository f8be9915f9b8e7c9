"""Terrain assembled from tiles, with difficulty that increases from row to row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.errors import ModelError
from sim.model.builder import WorldBuilder
from sim.model.builder.aliases import deprecated_keywords
from sim.model.builder.properties import DEFAULT_SURFACE, SURFACE_FIELDS, Surface
from sim.model.checks import as_numbers, is_positive, is_whole, items_of, number, require_type
from sim.model.spec_checks import MOST_HEIGHTS
from sim.terrain.tile import Kind, Tile

GROUND = (0.62, 0.58, 0.5, 1.0)
STONE = (0.56, 0.57, 0.6, 1.0)


@dataclass(frozen=True)
class Terrain:
    """Ground assembled from tiles, in a frame at the centre of the whole terrain, aligned with the world, z up.

    Attributes:
        heights: heights of the ground at the points of a grid [rows, columns], m; rows along y, columns along x.
        spacing: distance between neighbouring points [m].
        boxes: centre and half extents of axis-aligned boxes that stand on that ground [boxes, 6], m.
        origins: start positions of robots, on the ground in the middle of each tile [levels, kinds, 3], m. Levels run
            along x, kinds along y.
        size: length of a tile's sides [m].

    Example:
        >>> import sim
        >>> ground = sim.terrain.generate([sim.terrain.Stairs(rise=0.1, tread=0.5)], size=5.0)
        >>> scene = sim.ModelBuilder()
        >>> names = ground.add_to(scene, surface=sim.Surface(friction=0.8))
        >>> len(ground.boxes) + 1 == len(scene.finalize().geometries)
        True
    """

    heights: np.ndarray
    spacing: float
    boxes: np.ndarray
    origins: np.ndarray
    size: float = 8.0

    @deprecated_keywords(SURFACE_FIELDS)
    def add_to(
        self, builder: WorldBuilder, *, surface: Surface = DEFAULT_SURFACE, name: str = "terrain", **look: Any
    ) -> list[str]:
        """Add the terrain to a model's world: a heightfield, and boxes that don't move.

        Args:
            builder: the :class:`sim.ModelBuilder` of the model.
            surface: friction, restitution, compliance and collision groups. Default: friction and restitution 1, which
                let the other body decide.
            name: name of the heightfield; boxes are "<name>/box_0" and so on.
            **look: other arguments that both :meth:`sim.ModelBuilder.add_heightfield` and
                :meth:`sim.ModelBuilder.add_geometry` take, such as ``rgba``.

        Returns:
            Names of the geometries.

        Raises:
            ModelError: for a name that is taken, and for arguments that these two methods reject.

        Example:
            >>> import sim
            >>> ground = sim.terrain.generate([sim.terrain.Stairs(rise=0.1, tread=0.5)], size=5.0)
            >>> scene = sim.ModelBuilder()
            >>> ground.add_to(scene, surface=sim.Surface(friction=0.8))
            ['terrain', 'terrain/box_0', 'terrain/box_1', 'terrain/box_2']
        """
        require_type("add_to: builder", builder, WorldBuilder, "a sim.ModelBuilder")
        require_type("add_to: surface", surface, Surface, "a sim.Surface")
        if surface.restitution is None:
            surface = replace(surface, restitution=1.0)
        shared = {"surface": surface, **look}
        names = [builder.add_heightfield(self.heights, spacing=self.spacing, name=name, **{"rgba": GROUND, **shared})]
        for k, box in enumerate(self.boxes):
            options = {"rgba": STONE, **shared, "position": box[:3], "size": box[3:], "name": f"{name}/box_{k}"}
            names.append(builder.add_geometry("world", "box", **options))
        return names

    def height(self, points: npt.ArrayLike) -> np.ndarray:
        """Return the height of the ground, boxes included.

        Args:
            points: x and y [..., 2], m.

        Returns:
            z [...], m; minus infinity beyond the border, where there is no ground.

        Example:
            >>> import sim
            >>> ground = sim.terrain.generate([sim.terrain.Stairs(rise=0.1, tread=0.5)], size=5.0)
            >>> ground.height([(0.0, 0.0), (1.25, 0.3), (2.4, 0.0)]).round(3).tolist()
            [0.3, 0.2, 0.0]
        """
        position = as_numbers("points", points)
        if position.ndim < 1 or position.shape[-1] != 2:
            raise ModelError(f"points has shape {position.shape}; it must be [..., 2]")
        if not np.isfinite(position).all():
            raise ModelError("points has NaN or infinite coordinates; give finite ones")
        flat = position.reshape(-1, 2)
        top = self._field(flat)
        for x, y, z, *half in self.boxes:
            inside = np.all(np.abs(flat - (x, y)) <= half[:2], axis=1)
            top[inside] = np.maximum(top[inside], z + half[2])
        return top.reshape(position.shape[:-1])

    def _field(self, points: np.ndarray) -> np.ndarray:
        """Return the height of the heightfield at points [n, 2], on the triangles that contact uses."""
        rows, columns = self.heights.shape
        across = points / self.spacing + 0.5 * np.array([columns - 1, rows - 1])
        outside = np.any((across < 0.0) | (across > (columns - 1, rows - 1)), axis=1)
        cell = np.clip(np.floor(np.where(outside[:, None], 0.0, across)), 0, (columns - 2, rows - 2)).astype(int)
        i, j = cell.T
        u, v = (across - cell).T
        first, last = self.heights[j, i], self.heights[j + 1, i + 1]
        corner = np.where(u >= v, self.heights[j, i + 1], self.heights[j + 1, i])
        top = first + np.maximum(u, v) * (corner - first) + np.minimum(u, v) * (last - corner)
        return np.where(outside, -np.inf, top)


def generate(
    kinds: Sequence[Kind], *, levels: int = 1, size: float = 8.0, spacing: float = 0.1, border: float = 1.0,
    seed: int = 0,
) -> Terrain:  # fmt: skip
    """Generate terrain from tiles: one column along y for each kind, one row along x for each level of difficulty.

    Args:
        kinds: kind of the tiles of each column.
        levels: number of levels. Difficulty rises from 0 in the row of smallest x to 1 in the row of largest x; a
            single level has difficulty 1.
        size: length of a tile's sides [m].
        spacing: distance between neighbouring points of the heightfield [m]; the size must be a multiple of it.
        border: width of the flat ground around all tiles [m], rounded up to the spacing.
        seed: seed of the random numbers. The same seed gives the same terrain, and a tile keeps its random numbers when
            levels or kinds are added after it.

    Raises:
        ModelError: for an empty list of kinds, an object that isn't a kind, numbers out of range, and arguments that a
            kind rejects.

    Example:
        >>> import sim
        >>> kinds = [sim.terrain.Slope(), sim.terrain.Stairs(down=True), sim.terrain.Rough(), sim.terrain.Stones()]
        >>> ground = sim.terrain.generate(kinds, levels=5, seed=1)
        >>> ground.origins.shape, ground.origins[-1, 0].round(3).tolist()
        ((5, 4, 3), [16.0, -12.0, 1.2])
    """
    _check(kinds, levels, size, spacing, border, seed)
    size, spacing, border = float(size), float(spacing), float(border)
    cells, rim = round(size / spacing), int(np.ceil(border / spacing - 1e-9))
    heights = np.zeros((len(kinds) * cells + 1 + 2 * rim, levels * cells + 1 + 2 * rim))
    boxes, origins = [np.zeros((0, 6))], np.zeros((levels, len(kinds), 3))
    for level in range(levels):
        for column, kind in enumerate(kinds):
            difficulty = level / (levels - 1) if levels > 1 else 1.0
            tile = kind.tile(difficulty, size, spacing, np.random.default_rng([seed, level, column]))
            _check_tile(type(kind).__name__, tile, cells + 1)
            x, y = size * (level - 0.5 * (levels - 1)), size * (column - 0.5 * (len(kinds) - 1))
            row, first = rim + column * cells, rim + level * cells
            heights[row : row + cells + 1, first : first + cells + 1] = tile.heights
            boxes.append(tile.boxes + np.array([x, y, 0.0, 0.0, 0.0, 0.0]))
            origins[level, column] = x, y, tile.height
    return Terrain(heights, float(spacing), np.concatenate(boxes), origins, float(size))


def _check(kinds: Sequence[Kind], levels: int, size: float, spacing: float, border: float, seed: int) -> None:
    """Raise ModelError for numbers that no terrain can be made of."""
    if hasattr(kinds, "tile"):
        raise ModelError("generate: kinds must be a list; put brackets around the single kind")
    if not items_of("generate: kinds", kinds, "a list of kinds, such as [sim.terrain.Stairs()]"):
        raise ModelError("generate: kinds is empty; give at least one, such as sim.terrain.Stairs()")
    for kind in kinds:
        if isinstance(kind, type):
            raise ModelError(
                f"generate: kinds contains the class {kind.__name__}; create an instance: {kind.__name__}()"
            )
        if not hasattr(kind, "tile"):
            raise ModelError(f"generate: kinds contains {kind!r}, which has no method 'tile'; see sim.terrain.Kind")
    if not is_whole(levels, 1):
        raise ModelError(f"generate: levels is {levels!r}; it must be a positive integer")
    if not is_whole(seed, 0):
        raise ModelError(f"generate: seed is {seed!r}; it must be a non-negative integer")
    if not (is_positive(size) and is_positive(spacing)):
        raise ModelError(f"generate: size {size!r} must be a positive multiple of the spacing {spacing!r}")
    cells = float(size) / float(spacing)
    if abs(cells - round(cells)) > 1e-6:
        raise ModelError(f"generate: size {size!r} must be a positive multiple of the spacing {spacing!r}")
    if round(cells) < 4:
        raise ModelError(f"generate: a tile of {size!r} m has fewer than 4 cells of {spacing!r} m per side")
    if not 0.0 <= number("generate", "border", border) < np.inf:
        raise ModelError(f"generate: border is {border!r}; it must be zero or positive, and finite")
    heights = ((len(kinds) * size + 2.0 * border) / spacing) * ((levels * size + 2.0 * border) / spacing)
    if heights > MOST_HEIGHTS:
        raise ModelError(
            f"generate: {heights:.0f} heights exceed the maximum of {MOST_HEIGHTS}; use a larger spacing or less ground"
        )


def _check_tile(kind: str, tile: Tile, points: int) -> None:
    """Raise ModelError for a tile that doesn't fit its neighbours."""
    if tile.heights.shape != (points, points) or tile.boxes.ndim != 2 or tile.boxes.shape[1] != 6:
        raise ModelError(
            f"{kind}: its tile has heights {tile.heights.shape} and boxes {tile.boxes.shape}; they must be "
            f"({points}, {points}) and (boxes, 6)"
        )
    edges = np.concatenate([tile.heights[[0, -1]].ravel(), tile.heights[:, [0, -1]].ravel()])
    if not np.allclose(edges, 0.0, atol=1e-12):
        raise ModelError(f"{kind}: the border of its tile must lie at z = 0, where its neighbours join it")
